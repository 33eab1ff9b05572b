/* SPDX-License-Identifier: Apache-2.0
 *
 * store.c - values in shared memory: room for new ones, and pins of those that are read.
 *
 * Owns:   nothing. Thread: any, under the owner lock, which is released while the raylet is asked.
 */
#include "clients/lib/shell/ahead/ahead.h"
#include "clients/lib/shell/context/context.h"
#include "clients/lib/shell/link/link.h"
#include "clients/lib/shell/segments/segments.h"
#include "clients/lib/shell/state/state.h"
#include "clients/lib/shell/values/values.h"
#include "clients/lib/shell/wait/wait.h"

#include <stdlib.h>

enum { PIN_ATTEMPTS = 4 };

static manta_status segment_map(uint16_t kind, uint32_t number, uint64_t size, bool is_own, manta_error *e)
{
    struct ctl_segment        ask = {.segment = number, .size = size}, got;
    struct lib_request       *request = malloc(sizeof *request);
    struct lib_segment_memory memory;
    manta_status              code;
    mt_status                 st;
    bool                      is_mapped;

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
    is_mapped = lib_segment_map_both(request->fds, got.size, is_own, &memory);
    free(request);
    if (!is_mapped) {
        lib_segment_refuse(&got, is_own);
        return lib_error(e, MANTA_ENOMEM, "segment %u of %llu bytes could not be mapped", got.segment,
                         (unsigned long long)got.size);
    }
    st = is_own ? os_client_add_own(&lib.store, got.segment, got.size, memory.data, memory.view, memory.generations)
                : os_client_add_reader(&lib.store, got.segment, got.size, memory.view, memory.generations);
    if (st.code) {
        lib_segment_unmap(&memory, got.size);
        lib_segment_refuse(&got, is_own);
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

/* ---- pins ---- */

static bool is_not_coming(void *id)
{
    return !lib_ahead_is_coming(*(mt_id *)id) || lib_run_is_over();
}

static manta_status pull_wait(struct lane_ref *ref, int64_t deadline_ns, manta_error *e)
{
    manta_ctx *running = lib_asks_begin(false);
    (void)lib_wait(is_not_coming, &ref->id, deadline_ns);
    lib_asks_end(running);
    if (!lib_ahead_is_coming(ref->id))
        return MANTA_OK;
    if (lib.broken)
        return lib_error_broken(e);
    if (lib_run_is_over())
        return lib_error_run_over(e);
    return lib_error(e, MANTA_ETIMEDOUT, "the value has not come to this node in time");
}

/* A copy of a value on another node, or on disk, made by our raylet. */
static manta_status pull(struct lane_ref *ref, int64_t deadline_ns, manta_error *e)
{
    struct ctl_reply why;
    struct lane_ref  here;
    if (lib.inlined)
        return lib_error(e, MANTA_EUNSUPPORTED, "MANTA_INLINE=1: there is no raylet to bring a value");
    while (!lib_ahead_take(ref, &here, &why)) {
        if (lib_thread.in_callback)
            return lib_error(e, MANTA_EDEADLK, "this call waits for the raylet, which a callback may not do");
        if (!lib_ahead_read(ref))
            return lib_error(e, MANTA_ENOMEM, "no memory to ask for a value");
        manta_status code = pull_wait(ref, deadline_ns, e);
        if (code)
            return code;
    }
    if (why.code)
        return lib_error(e, why.code, "%.*s", CTL_TEXT_SIZE - 1, why.text[0] ? why.text : mt_code_text(why.code));
    *ref = here;
    return MANTA_OK;
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
static bool is_loss(manta_status code, mt_id id)
{
    return code == MANTA_EOBJ_LOST || code == MANTA_ENODE_DIED || code == MANTA_ECORRUPT ||
           code == MANTA_EPROTO ||                                /* somebody else has the dead node's port by now */
           (code == MANTA_ETIMEDOUT && !lib_ahead_is_coming(id)); /* the source was silent: it is not our limit */
}

static bool is_doubt_over(void *arg)
{
    return own_doubt_is_over(&lib.own, arg) || lib_run_is_over();
}

static bool is_mine(const struct own_ref *ref)
{
    return ref && !(ref->flags & OWN_REF_BORROWED);
}

/* Asks the value's owner, who may have to run its task again: OK: *at is its new place. The wait is bound to the owner's life.
 * A reader that gives up leaves its question to the next one of that ref: who polls asks once, and hears the answer. */
static manta_status ask_again(struct own_ref *of, struct lane_ref *at, manta_status code, int64_t deadline_ns, manta_error *e)
{
    struct own_doubt doubt;
    if (!of || !own_doubt_resume(&lib.own, &doubt, of))
        own_doubt_begin(&lib.own, &doubt, is_mine(of) ? of : NULL, at, code, e->message);
    lib_act();
    lib_wait(is_doubt_over, &doubt, deadline_ns);
    if (of && !doubt.is_over && !lib.broken)
        own_doubt_leave(&lib.own, &doubt, of);
    else
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

static bool is_known_lost(const struct own_ref *of)
{
    if (is_mine(of) && (own_ref_is_sought(of) || of->again == OWN_AGAIN_LOST))
        return true;
    return of && own_doubt_is_left(&lib.own, of) && lib_may_wait();
}

manta_status lib_store_pin(struct own_ref *of, struct lane_ref *ref, const void **data, int64_t deadline_ns, manta_error *e)
{
    struct lane_ref asked = *ref;
    const int64_t   until_ns = lib_deadline_of_run(deadline_ns);
    manta_error     why; /* of one try: *e is the caller's, and stays as it is where the value is found in the end */
    manta_status    code;
    if (!of && asked.id.process == lib.own.process)
        of = mt_map_ptr(&lib.own.refs, asked.id);
    if (of)
        own_ref_hold(of); /* the lock is released while we wait */
    do {
        *ref = asked;
        code = is_known_lost(of) ? lib_error(&why, MANTA_EOBJ_LOST, "it was lost before") : pin(ref, data, until_ns, &why);
        if (code == MANTA_OK || !is_loss(code, asked.id) || !lib_may_wait() || lib.inlined || lib_run_is_over())
            break;
        code = ask_again(of, &asked, code, until_ns, &why);
    } while (code == MANTA_OK);
    if (of)
        own_ref_drop(&lib.own, of);
    if (code && e)
        *e = why;
    return code;
}
