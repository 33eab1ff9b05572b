/* SPDX-License-Identifier: Apache-2.0
 *
 * object.c - values in shared memory: put, create and seal, pins, and the segments behind them.
 *
 * Owns:   the mappings of segments. Thread: any; the public calls take the owner lock.
 */
#include "clients/lib/shell/abi/abi.h"
#include "clients/lib/shell/lib.h"
#include "objectstore/layout/sum.h"

#include "core/base/reserved.h"

#include <fcntl.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <unistd.h>

enum {
    SMALL_PUT = MANTA_INLINE_MAX, /* values up to here stay with their owner and travel inline */
    PIN_ATTEMPTS = 4,
};

/* ---- segments ---- */

static bool note(const void *data, size_t size)
{
    return mt_vec_push(&lib.segments, (struct lib_segment){(void *)(uintptr_t)data, size}).code == 0;
}

/* And forgets the note, if there is one. */
static void unmap(const void *data, size_t size)
{
    if (!data)
        return;
    for (size_t i = 0; i < lib.segments.count; i++) {
        if (lib.segments.data[i].data == data) {
            mt_vec_remove_swap(&lib.segments, i);
            break;
        }
    }
    munmap((void *)(uintptr_t)data, size);
}

/* The mappings of one segment. What this process writes is mapped twice, and views point into the read-only one. The second
 * costs one mmap per segment, address space, and page tables for what is read through it. */
struct segment_memory {
    void       *data;
    const void *view; /* data itself where another process writes */
    const void *generations;
};

static void segment_unmap(const struct segment_memory *m, uint64_t size)
{
    unmap(m->data, size);
    if (m->view != m->data)
        unmap(m->view, size);
    unmap(m->generations, os_generations_bytes(size));
}

/* Takes both descriptors. False: nothing is mapped. */
static bool segment_map_both(const int fds[2], uint64_t size, bool is_own, struct segment_memory *out)
{
    uint64_t generations = os_generations_bytes(size);
    int      again = is_own ? fcntl(fds[0], F_DUPFD_CLOEXEC, 0) : -1;
    *out = (struct segment_memory){.data = lib_map(fds[0], size, is_own)};
    out->view = is_own ? (again < 0 ? NULL : lib_map(again, size, false)) : out->data;
    out->generations = lib_map(fds[1], generations, false);
    if (out->data && out->view && out->generations && note(out->data, size) && (!is_own || note(out->view, size)) &&
        note(out->generations, generations))
        return true;
    segment_unmap(out, size);
    return false;
}

/* It could not be taken over: one that was granted goes back to the raylet. */
static void segment_refuse(const struct ctl_segment *segment, bool is_own)
{
    if (is_own)
        own_send(&lib.own, CTL_SEGMENT_BACK, own_id_next(&lib.own), segment, sizeof *segment);
}

/* What a sealed buffer's pointer would still write is mapped read-only as far as that costs little: 64 KiB are 3 us, a GiB is
 * 20 ms, twice. */
static bool thaw(void *header)
{
    return mprotect(header, MT_LIB_FREEZE_BYTES, PROT_READ | PROT_WRITE) == 0;
}

static void freeze(struct os_place place, void *data, size_t size)
{
    void *header = (uint8_t *)data - OS_HEADER_SIZE; /* of a run of chunks: whole pages */
    if (size < MT_LIB_FREEZE_FROM || lib.store.frozen >= MT_LIB_FROZEN_MAX)
        return;
    lib.store.thaw = thaw;
    if (mprotect(header, MT_LIB_FREEZE_BYTES, PROT_READ) == 0)
        os_client_frozen(&lib.store, place);
}

static manta_status segment_map(uint16_t kind, uint32_t number, uint64_t size, bool is_own, manta_error *e)
{
    struct ctl_segment    ask = {.segment = number, .size = size}, got;
    struct lib_request   *request = malloc(sizeof *request);
    struct segment_memory memory;
    manta_status          code;
    mt_status             st;
    bool                  is_mapped;

    if (!request)
        return lib_error(e, MANTA_ENOMEM, "no memory for a request");
    code = lib_call(request, kind, &ask, sizeof ask, is_own ? MT_LIB_ROOM_MS : MT_LIB_REQUEST_MS, e);
    if (code == MANTA_OK && (request->size < sizeof got || request->fd_count != 2))
        code = lib_error(e, MANTA_EPROTO, "the raylet's answer brings no segment");
    if (code) {
        free(request);
        return code;
    }
    memcpy(&got, request->payload, sizeof got);
    is_mapped = segment_map_both(request->fds, got.size, is_own, &memory);
    free(request);
    if (!is_mapped) {
        segment_refuse(&got, is_own);
        return lib_error(e, MANTA_ENOMEM, "segment %u of %llu bytes could not be mapped", got.segment,
                         (unsigned long long)got.size);
    }
    st = is_own ? os_client_add_own(&lib.store, got.segment, got.size, memory.data, memory.view, memory.generations)
                : os_client_add_reader(&lib.store, got.segment, got.size, memory.view, memory.generations);
    if (st.code) {
        segment_unmap(&memory, got.size);
        segment_refuse(&got, is_own);
    } else if (is_own && lib.role == LIB_DRIVER) {
        lib_helper_start(); /* it gives back what is free again */
    }
    return st.code == MT_EEXIST ? MANTA_OK : lib_error_status(e, st); /* another thread was faster */
}

manta_status lib_store_alloc(size_t size, struct os_place *place, void **data, manta_error *e)
{
    for (int attempt = 0; attempt < 3; attempt++) {
        uint64_t     want = 0;
        manta_status code;
        mt_status    st = os_client_alloc(&lib.store, size, place, data, &want);
        if (st.code == MT_EINVAL)
            return lib_error(e, MANTA_ESTORE_FULL, "a value of %zu bytes is larger than any object store", size);
        if (st.code != MT_EAGAIN)
            return lib_error_status(e, st);
        code = segment_map(CTL_SEGMENT_WANT, 0, want, true, e);
        if (code)
            return code;
    }
    return lib_error(e, MANTA_ESTORE_FULL, "no room for %zu bytes after three new segments", size);
}

void lib_store_warm(const struct os_place *place, void *data)
{
    uintptr_t page = (uintptr_t)sysconf(_SC_PAGESIZE), first = (uintptr_t)data & ~(page - 1);
    if (place->cold >= MT_LIB_COLD_BYTES) /* else, and on an old kernel, the copy makes them one by one */
        (void)madvise((void *)first, (uintptr_t)data + place->cold - first, MADV_POPULATE_WRITE);
}

static void segment_give_back(const struct os_trim *trim)
{
    struct ctl_segment    back = {.segment = trim->segment, .size = trim->size};
    struct segment_memory memory = {trim->data, trim->view, trim->generations};
    segment_unmap(&memory, trim->size);
    own_send(&lib.own, CTL_SEGMENT_BACK, own_id_next(&lib.own), &back, sizeof back);
}

void lib_store_trim(uint64_t now_ns)
{
    struct os_trim trim;
    if (now_ns < lib.trim_at_ns)
        return;
    os_client_trim(&lib.store, MT_LIB_WARM_BYTES, &trim);
    if (trim.kind == OS_TRIM_PAGES) {
        (void)madvise(trim.data, trim.size, MADV_REMOVE); /* under the lock: the place may be given out again at once */
    } else if (trim.kind == OS_TRIM_SEGMENT) {
        segment_give_back(&trim);
    } else {
        os_client_trim_round(&lib.store);
        lib.trim_at_ns = now_ns + (uint64_t)OS_TRIM_ROUND_MS * 1000000;
    }
}

/* A copy of a value on another node, made by our raylet. */
static manta_status pull(struct lane_ref *ref, int64_t deadline_ns, manta_error *e)
{
    struct lib_request *request = malloc(sizeof *request);
    int64_t             left_ms = (deadline_ns - (int64_t)lib_now_ns()) / 1000000;
    manta_status        code;
    if (!request)
        return lib_error(e, MANTA_ENOMEM, "no memory for a request");
    if (deadline_ns == INT64_MAX)
        left_ms = MANTA_FOREVER;
    code = lib_call(request, CTL_PULL, ref, sizeof *ref, left_ms, e);
    if (code == MANTA_OK && (request->kind != CTL_HERE || request->size < sizeof *ref))
        code = lib_error(e, MANTA_EPROTO, "the raylet's answer brings no copy");
    if (code == MANTA_OK)
        memcpy(ref, request->payload, sizeof *ref);
    free(request);
    return code;
}

/* It is pinned, so it stays while the lock is released: a GiB takes 0.1 s. */
static manta_status verify(const struct lane_ref *ref, const void *data, manta_error *e)
{
    mt_status st;
    lib_unlock();
    st = os_client_verify(data, ref->size);
    lib_lock();
    if (st.code)
        lib_store_unpin(ref);
    return lib_error_status(e, st);
}

static manta_status pin(struct lane_ref *ref, const void **data, int64_t deadline_ns, manta_error *e)
{
    const struct lane_ref asked = *ref;
    bool                  must_ask = ref->node != lib.own.node;
    for (int attempt = 0; attempt < PIN_ATTEMPTS; attempt++) {
        manta_status code;
        mt_status    st;
        if (must_ask) {
            *ref = asked;
            code = pull(ref, deadline_ns, e);
            if (code)
                return code;
        }
        st = os_client_pin(&lib.store, ref, data);
        if (st.code == MT_OK)
            return os_client_is_summed(*data) ? verify(ref, *data, e) : MANTA_OK;
        code = lib_error_status(e, st);
        if (st.code == MT_ENOENT)
            code = segment_map(CTL_SEGMENT_MAP, ref->segment, 0, false, e);
        if (code && code != MANTA_EOBJ_LOST)
            return code;
        must_ask = code == MANTA_EOBJ_LOST; /* it is on disk; or the copy went between the answer and the pin */
    }
    return lib_error(e, MANTA_ESTORE_FULL, "the value was moved %d times while it was to be read: the object store is too small",
                     PIN_ATTEMPTS);
}

/* What ends a fetch although the value may still be had: its task runs again, or it is elsewhere meanwhile. */
static bool is_loss(manta_status code, int64_t deadline_ns)
{
    return code == MANTA_EOBJ_LOST || code == MANTA_ENODE_DIED || code == MANTA_ECORRUPT ||
           code == MANTA_EPROTO ||                                           /* somebody else has the dead node's port by now */
           (code == MANTA_ETIMEDOUT && (int64_t)lib_now_ns() < deadline_ns); /* the source was silent */
}

static bool is_doubt_over(void *arg)
{
    return own_doubt_is_over(&lib.own, arg) || lib_run_is_over();
}

/* Asks the value's owner, who may have to run its task again: OK: *at is its new place. The wait is bound to the owner's life. */
static manta_status ask_again(struct own_ref *mine, struct lane_ref *at, manta_status code, int64_t deadline_ns, manta_error *e)
{
    struct own_doubt doubt;
    own_doubt_begin(&lib.own, &doubt, mine, at, code, e->message);
    lib_act();
    lib_wait(is_doubt_over, &doubt, lib_deadline_of_run(deadline_ns));
    own_doubt_end(&lib.own, &doubt);
    if (lib.broken)
        return lib_check(e);
    if (!doubt.is_over && lib_run_is_over())
        return lib_error_run_over(e);
    if (!doubt.is_over)
        return lib_error(e, MANTA_ETIMEDOUT, "the value was lost, and was not made again in time");
    if (doubt.why.code)
        return lib_error_failure(e, &doubt.why, at->id);
    *at = doubt.place;
    return MANTA_OK;
}

static bool is_known_lost(const struct own_ref *mine)
{
    return mine && (mine->again == OWN_AGAIN_RUNS || mine->again == OWN_AGAIN_LOST);
}

manta_status lib_store_pin(struct own_ref *mine, struct lane_ref *ref, const void **data, int64_t deadline_ns, manta_error *e)
{
    struct lane_ref asked = *ref;
    manta_error     local;
    manta_status    code;
    e = e ? e : &local;
    if (!mine && asked.id.process == lib.own.process)
        mine = mt_map_ptr(&lib.own.refs, asked.id);
    if (mine && mine->flags & OWN_REF_BORROWED)
        mine = NULL;
    if (mine)
        own_ref_hold(mine); /* the lock is released while we wait */
    do {
        *ref = asked;
        code = is_known_lost(mine) ? lib_error(e, MANTA_EOBJ_LOST, "it was lost before") : pin(ref, data, deadline_ns, e);
        if (code == MANTA_OK || !is_loss(code, deadline_ns) || !lib_may_wait() || lib.inlined)
            break;
        code = ask_again(mine, &asked, code, deadline_ns, e);
    } while (code == MANTA_OK);
    if (mine)
        own_ref_drop(&lib.own, mine);
    return code;
}

void lib_store_unpin(const struct lane_ref *ref)
{
    if (os_client_unpin(&lib.store, ref).code == MT_EAGAIN) /* freed meanwhile, and the raylet has it on disk */
        own_send(&lib.own, CTL_OBJECT_DEAD, own_id_next(&lib.own), ref, sizeof *ref);
}

/* The last ref of a value of ours went. Only the one who wrote it may reuse the place by itself, and only if nobody
 * else ever heard of it. */
void lib_free_place(struct own *own, const struct lane_ref *place, bool escaped)
{
    if (!escaped && os_client_free(&lib.store, place->segment, place->offset, place->generation).code == 0)
        return;
    own_send(own, CTL_OBJECT_DEAD, own_id_next(own), place, sizeof *place);
}

void lib_segment_asked(uint32_t segment)
{
    struct os_trim trim;
    if (os_client_surrender(&lib.store, segment, &trim).code == MT_OK)
        segment_give_back(&trim);
}

void lib_space_back(const struct ctl_space *space)
{
    mt_status st = os_client_space_back(&lib.store, space->segment, space->offset);
    if (st.code)
        lib_break(st.code, st.what);
}

/* ---- putting ---- */

static manta_ref *put(const void *data, size_t size, char type, bool with_sum);

static struct own_ref *new_value(manta_error *e)
{
    struct own_ref *ref = own_ref_new(&lib.own, mt_id_with_index(own_id_next(&lib.own), 1));
    if (!ref)
        lib_error(e, MANTA_ENOMEM, "no memory for a reference");
    return ref;
}

/* Not inlined: the failure alone takes a page of stack. */
__attribute__((noinline)) static manta_ref *failed(const manta_error *e)
{
    struct own_failure f;
    own_failure_set(&f, e->code, "%s", e->message);
    return lib_failed_ref(&f);
}

/* Under the lock: what is given to the user, which has failed where there is no `ref`. */
static inline manta_ref *given(struct own_ref *ref, const manta_error *e)
{
    return MT_LIKELY(ref != NULL) ? lib_handle_ref(&lib.own, ref) : failed(e);
}

static void publish(struct own_ref *ref, struct os_place place, void *data, size_t size, char type)
{
    struct lane_ref wire;
    os_client_publish(&lib.store, place, data, ref->id, lib.own.node, size, (uint8_t)type, &wire);
    own_ref_set_place(&lib.own, ref, &wire);
}

/* Without the lock, which a GiB would hold for 0.1 s. */
static void place_sum(struct os_place *place, const void *data, size_t size)
{
    place->sum = os_sum(data, size);
    place->is_summed = true;
}

manta_ref *manta_put(const void *data, size_t size)
{
    return put(data, size, 'y', false);
}

manta_ref *manta_put_with(const void *data, size_t size, const manta_put_opts *opts)
{
    if (opts && MT_RESERVED_IS_USED(opts))
        return lib_reserved_ref("manta_put_with");
    return put(data, size, 'y', opts && opts->checksum);
}

manta_ref *lib_put(const void *data, size_t size, char type)
{
    return put(data, size, type, false);
}

static manta_ref *put(const void *data, size_t size, char type, bool with_sum)
{
    manta_error     e;
    struct own_ref *ref = NULL;
    struct os_place place;
    void           *to = NULL;
    manta_ref      *handle;
    manta_status    code = lib_enter(NULL);

    if (MT_UNLIKELY(code != MANTA_OK))
        return lib_refused_call(&(struct own_call){.count = 1}, code);
    if (MT_UNLIKELY(lib.broken || (!data && size)) &&
        (lib_check(&e) || lib_error(&e, MANTA_EINVAL, "manta_put of %zu bytes at NULL", size))) {
        handle = given(NULL, &e);
        lib_unlock();
        lib_refused_pause();
        return handle;
    }
    lib.calls++;
    if (size <= SMALL_PUT) {
        ref = new_value(&e);
        if (ref)
            own_ref_set_inline(&lib.own, ref, (uint8_t)type, data, (uint32_t)size);
    } else if (lib_store_alloc(size, &place, &to, &e) == MANTA_OK) {
        lib_unlock(); /* the copy may take long; the place is ours alone */
        lib_store_warm(&place, to);
        os_copy(to, data, size);
        if (with_sum)
            place_sum(&place, to, size);
        lib_lock();
        ref = new_value(&e);
        if (ref)
            publish(ref, place, to, size, type);
        else
            (void)os_client_free(&lib.store, place.segment, place.offset, place.generation).code;
    }
    handle = given(ref, &e);
    lib_unlock();
    return handle;
}

struct unsealed { /* a manta_buffer's, whatever the user has made of his */
    struct os_place place;
    uint32_t        session; /* its memory went with that */
    void           *data;
    size_t          size;
    bool            with_sum;
};

manta_status manta_create(size_t size, manta_buffer *out, manta_error *e)
{
    return manta_create_with(size, NULL, out, e);
}

manta_status manta_create_with(size_t size, const manta_put_opts *opts, manta_buffer *out, manta_error *e)
{
    struct unsealed *u;
    manta_status     code;
    if (!out)
        return lib_error(e, MANTA_EINVAL, "manta_create without a place for the buffer");
    memset(out, 0, sizeof *out);
    if (opts && MT_RESERVED_IS_USED(opts))
        return lib_error(e, MANTA_EINVAL, MT_RESERVED_TEXT, "manta_create_with");
    u = calloc(1, sizeof *u);
    if (!u)
        return lib_error(e, MANTA_ENOMEM, "no memory for a buffer");
    if ((code = lib_enter(e)) != MANTA_OK) {
        free(u);
        return code;
    }
    code = lib_check(e);
    if (code == MANTA_OK)
        code = lib_store_alloc(size, &u->place, &out->data, e);
    if (code == MANTA_OK && !(out->hold = lib_handle_new(LIB_OF_BUFFER, u))) {
        (void)os_client_free(&lib.store, u->place.segment, u->place.offset, u->place.generation).code;
        code = lib_error(e, MANTA_ENOMEM, "no memory for a buffer");
    }
    lib_unlock();
    if (code) {
        free(u);
        out->data = NULL;
        return code;
    }
    u->session = lib.session;
    u->with_sum = opts && opts->checksum;
    u->data = out->data;
    u->size = size;
    lib_store_warm(&u->place, out->data);
    out->size = size;
    return MANTA_OK;
}

/* Nobody else may seal or drop it from now on. NULL: *code says why not. */
static struct unsealed *unsealed_take(const manta_buffer *buffer, const char *call, manta_status *code, manta_error *e)
{
    struct unsealed *u;
    if (!buffer || !buffer->hold) {
        *code = lib_error(e, MANTA_EINVAL, "%s of %s", call, buffer ? "a buffer that was sealed or dropped before" : "NULL");
        return NULL;
    }
    if ((*code = lib_enter_held(e)) != MANTA_OK)
        return NULL;
    u = lib_handle_end(buffer->hold, LIB_OF_BUFFER);
    if (!u)
        *code = lib_handle_wrong(buffer->hold, LIB_OF_BUFFER, call, e);
    lib_unlock();
    return u;
}

manta_ref *manta_seal(manta_buffer *buffer)
{
    manta_error      e;
    manta_status     code;
    struct unsealed *u = unsealed_take(buffer, "manta_seal", &code, &e);
    struct own_ref  *ref = NULL;
    manta_ref       *handle;
    if (u && u->with_sum && u->session == lib.session)
        place_sum(&u->place, u->data, u->size);
    if ((code = lib_enter(NULL)) == MANTA_OK) {
        if (u && u->session != lib.session)
            lib_error(&e, MANTA_EINVAL, "manta_seal of a buffer from before manta_shutdown: its memory is gone");
        else if (u && lib_check(&e) == MANTA_OK && (ref = new_value(&e))) {
            publish(ref, u->place, u->data, u->size, 'y');
            freeze(u->place, u->data, u->size);
        }
        handle = given(ref, &e);
        lib_unlock();
    } else {
        handle = lib_handle_error(code);
    }
    free(u);
    if (buffer)
        memset(buffer, 0, sizeof *buffer);
    return handle;
}

manta_status manta_drop(manta_buffer *buffer)
{
    manta_status     code;
    struct unsealed *u = buffer && buffer->hold ? unsealed_take(buffer, "manta_drop", &code, NULL) : NULL;
    if (!buffer || !buffer->hold)
        return MANTA_OK;
    memset(buffer, 0, sizeof *buffer);
    if (!u)
        return code;
    if (u->session == lib.session && lib_enter(NULL) == MANTA_OK) {
        (void)os_client_free(&lib.store, u->place.segment, u->place.offset, u->place.generation).code;
        lib_unlock();
    }
    free(u);
    return MANTA_OK;
}

/* Under the lock: all of them, before the value of one goes. */
static manta_status free_now_check(manta_ref *const *refs, size_t count, manta_error *e)
{
    struct own_ref *ref;
    char            call[48];
    for (size_t i = 0; i < count; i++) {
        snprintf(call, sizeof call, "manta_free_now, reference %zu", i);
        manta_status code = lib_ref(refs[i], call, &ref, e);
        if (code)
            return code;
    }
    return lib_check(e);
}

manta_status manta_free_now(manta_ref *const *refs, size_t count, manta_error *e)
{
    size_t       early = 0;
    manta_status code;
    if (count && !refs)
        return lib_error(e, MANTA_EINVAL, "manta_free_now of %zu references at NULL", count);
    if ((code = lib_enter(e)) != MANTA_OK)
        return code;
    code = free_now_check(refs, count, e);
    for (size_t i = 0; i < count && code == MANTA_OK; i++)
        early += !own_ref_free_now(&lib.own, lib_ref_in(&lib.own, refs[i]));
    if (code == MANTA_OK)
        lib_act();
    lib_unlock();
    if (early)
        return lib_error(e, MANTA_EAGAIN, "%zu of %zu references have no value yet: wait for them, or cancel", early, count);
    return code;
}

/* ---- regions ---- */

static void region_refuse(const struct ctl_segment *region)
{
    struct ctl_segment drop = {.segment = region->segment};
    lib_lock();
    own_send(&lib.own, CTL_REGION_DROP, own_id_next(&lib.own), &drop, sizeof drop);
    lib_act();
    lib_unlock();
}

static bool region_note(void *data)
{
    lib_lock();
    bool is_noted = mt_vec_push(&lib.regions, data).code == MT_OK;
    lib_unlock();
    return is_noted;
}

/* Under the lock. False: it is of an earlier job, and its number may be another one's by now. */
static bool region_forget(const void *data)
{
    for (size_t i = 0; i < lib.regions.count; i++)
        if (lib.regions.data[i] == data) {
            mt_vec_remove_swap(&lib.regions, i);
            return true;
        }
    return false;
}

manta_status manta_region_open(size_t size, uint64_t number, manta_region *out, manta_error *e)
{
    struct ctl_segment  ask = {.segment = (uint32_t)number, .size = size}, got;
    struct lib_request *request;
    manta_status        code;

    if (!out)
        return lib_error(e, MANTA_EINVAL, "manta_region_open without a place for the region");
    memset(out, 0, sizeof *out);
    if ((size == 0) == (number == 0) || number > UINT32_MAX)
        return lib_error(e, MANTA_EINVAL, "a region needs a size, or the number of one that exists");
    request = malloc(sizeof *request);
    if (!request)
        return lib_error(e, MANTA_ENOMEM, "no memory for a request");
    if ((code = lib_enter(e)) != MANTA_OK) {
        free(request);
        return code;
    }
    code = lib_check(e);
    if (code == MANTA_OK)
        code = lib_call(request, CTL_REGION_WANT, &ask, sizeof ask, MT_LIB_REQUEST_MS, e);
    lib_unlock();
    if (code == MANTA_OK && (request->size < sizeof got || request->fd_count != 1))
        code = lib_error(e, MANTA_EPROTO, "the raylet's answer brings no region");
    if (code == MANTA_OK) {
        memcpy(&got, request->payload, sizeof got);
        out->data = lib_map(request->fds[0], got.size, true);
        out->size = got.size;
        out->number = got.segment;
        if (!out->data || !region_note(out->data)) {
            if (out->data)
                munmap(out->data, out->size);
            out->data = NULL;
            region_refuse(&got);
            code = lib_error(e, MANTA_ENOMEM, "a region of %llu bytes could not be mapped", (unsigned long long)got.size);
        }
    }
    free(request);
    return code;
}

void manta_region_close(manta_region *region)
{
    struct ctl_segment drop = {.segment = region ? (uint32_t)region->number : 0};
    if (!region || !region->data)
        return;
    lib_lock();
    bool is_current = region_forget(region->data);
    lib_unlock();
    munmap(region->data, region->size);
    if (is_current && lib_enter(NULL) == MANTA_OK) {
        own_send(&lib.own, CTL_REGION_DROP, own_id_next(&lib.own), &drop, sizeof drop);
        lib_act();
        lib_unlock();
    }
    memset(region, 0, sizeof *region);
}
