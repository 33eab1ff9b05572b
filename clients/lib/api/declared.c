/* SPDX-License-Identifier: Apache-2.0
 *
 * declared.c - values that declare refs: made, returned, and read.
 *
 * Thread: any; takes the owner lock.
 *
 * Such a value always lives in the store, with its refs behind its data (record.h, lane_declared), so that it travels
 * and is read like any other. Who holds the value holds the refs: design in docs/design/results.md.
 */
#include "clients/lib/shell/lib.h"

#include <stdlib.h>

enum { REFS_PER_RECORD = 256 };

static size_t refs_offset(size_t data_size)
{
    return (data_size + 7) & ~(size_t)7;
}

/* Reads the end of a value. False: it is not one that declares refs. */
static bool trailer_read(const void *data, size_t size, struct lane_declared *out)
{
    if (size < sizeof *out)
        return false;
    memcpy(out, (const uint8_t *)data + size - sizeof *out, sizeof *out);
    return out->data_size <= size && out->count <= size / sizeof(struct lane_ref) &&
           refs_offset(out->data_size) + out->count * sizeof(struct lane_ref) + sizeof *out == size;
}

size_t lib_declared_size(const struct lane_ref *place, const void *data)
{
    struct lane_declared end;
    return trailer_read(data, place->size, &end) ? end.data_size : place->size;
}

/* ---- writing ---- */

static manta_status refs_check(manta_ref *const *refs, size_t count, manta_error *e)
{
    if (count > MT_LIB_DECLARED_MAX || (count && !refs))
        return lib_error(e, MANTA_EINVAL, "%zu declared references at %s: at most %d are possible", count,
                         refs ? "an address" : "NULL", MT_LIB_DECLARED_MAX);
    for (size_t i = 0; i < count; i++) {
        struct own_ref *ref;
        char            what[48];
        if (!refs[i])
            return lib_error(e, MANTA_EINVAL, "declared reference %zu is NULL", i);
        snprintf(what, sizeof what, "declared reference %zu", i);
        manta_status code = lib_ref(refs[i], what, &ref, e);
        if (code)
            return code;
    }
    return MANTA_OK;
}

/* Under the lock: where the refs are, for others. */
static void refs_write(void *to, size_t data_size, manta_ref *const *refs, size_t count)
{
    uint8_t             *at = (uint8_t *)to + refs_offset(data_size);
    struct lane_declared end = {.data_size = data_size, .count = (uint32_t)count};
    for (size_t i = 0; i < count; i++, at += sizeof(struct lane_ref)) {
        struct lane_ref wire;
        own_ref_wire(&lib.own, lib_ref_in(&lib.own, refs[i]), &wire);
        memcpy(at, &wire, sizeof wire);
    }
    memcpy(at, &end, sizeof end);
}

manta_status lib_declared_store(const void *data, size_t size, manta_ref *const *refs, size_t count, struct os_place *place,
                                void **out, size_t *out_size, manta_error *e)
{
    manta_status code;
    *out_size = refs_offset(size) + count * sizeof(struct lane_ref) + sizeof(struct lane_declared);
    if (!data && size)
        return lib_error(e, MANTA_EINVAL, "a value of %zu bytes at NULL", size);
    if ((code = lib_enter(e)) != MANTA_OK)
        return code;
    code = lib_check(e);
    if (code == MANTA_OK)
        code = refs_check(refs, count, e);
    if (code == MANTA_OK)
        code = lib_store_alloc(*out_size, place, out, e);
    lib_unlock();
    if (code)
        return code;
    lib_store_warm(place, *out);
    if (size)
        os_copy(*out, data, size);
    lib_lock();
    code = refs_check(refs, count, e); /* another thread may have freed one meanwhile */
    if (code == MANTA_OK)
        refs_write(*out, size, refs, count);
    else
        (void)os_client_free(&lib.store, place->segment, place->offset, place->generation).code;
    lib_unlock();
    return code;
}

/* Under the lock: an array with a hold on each. */
static struct own_ref **refs_hold(manta_ref *const *refs, size_t count)
{
    struct own_ref **copy = malloc((count ? count : 1) * sizeof *copy);
    for (size_t i = 0; copy && i < count; i++) {
        copy[i] = lib_ref_in(&lib.own, refs[i]);
        own_ref_hold(copy[i]);
    }
    return copy;
}

static manta_ref *put_failed(const manta_error *e)
{
    struct own_failure f;
    manta_ref         *ref;
    manta_status       code = lib_enter(NULL);
    if (code)
        return lib_handle_error(code);
    own_failure_set(&f, e->code, "%s", e->message);
    ref = lib_failed_ref(&f);
    lib_unlock();
    return ref;
}

manta_ref *manta_put_refs(const void *data, size_t size, manta_ref *const *refs, size_t count)
{
    manta_error     e;
    struct own_ref *ref, **held;
    struct os_place place;
    struct lane_ref wire;
    void           *to;
    size_t          all;
    if (count == 0)
        return manta_put(data, size);
    if (lib_declared_store(data, size, refs, count, &place, &to, &all, &e))
        return put_failed(&e);
    lib_lock();
    lib.calls++;
    ref = own_ref_new(&lib.own, mt_id_with_index(own_id_next(&lib.own), 1));
    held = ref && refs_check(refs, count, &e) == MANTA_OK ? refs_hold(refs, count) : NULL;
    if (held && own_ref_declare(&lib.own, ref, held, (uint32_t)count).code == 0) {
        os_client_publish(&lib.store, place, to, ref->id, lib.own.node, all, 'y', &wire);
        wire.flags |= LANE_REF_DECLARES;
        own_ref_set_place(&lib.own, ref, &wire);
    } else {
        (void)os_client_free(&lib.store, place.segment, place.offset, place.generation).code;
        if (ref)
            own_ref_drop(&lib.own, ref);
        ref = NULL;
        lib_error(&e, MANTA_ENOMEM, "no memory for a value that declares %zu references", count);
    }
    manta_ref *handle = ref ? lib_handle_ref(&lib.own, ref) : NULL;
    lib_unlock();
    return handle ? handle : put_failed(&e);
}

/* Under the lock: the caller of the running task holds them from now on, as their owners are told before it hears of the
 * result; their wire forms go ahead of it. */
static manta_status refs_send(manta_ctx *c, const uint8_t *wires, manta_ref *const *refs, size_t count)
{
    const struct wrk_lane *lane = c->run->lane;
    if (c->here) /* the caller is this process */
        return own_task_declares(&lib.own, c->here, wires, count * sizeof(struct lane_ref)).code;
    for (size_t i = 0; i < count; i++)
        if (lib_ref_in(&lib.own, refs[i])->id.process != lane->owner)
            own_ref_tell(&lib.own, lib_ref_in(&lib.own, refs[i]), lane->owner, lane->owner_node);
    lib_act();
    for (size_t i = 0; i < count;) {
        size_t n = count - i < REFS_PER_RECORD ? count - i : REFS_PER_RECORD;
        if (wrk_report(&lib.wrk, c->run, LANE_REFS, 0, wires + i * sizeof(struct lane_ref), n * sizeof(struct lane_ref), NULL, 0))
            i += n;
        else if (!lib_outcome_wait(c))
            return MANTA_ECANCELLED;
    }
    lib_act();
    return MANTA_OK;
}

manta_status manta_return_refs(manta_ctx *c, const void *data, size_t size, manta_ref *const *refs, size_t count)
{
    manta_error     e;
    struct os_place place;
    struct lane_ref wire;
    void           *to;
    size_t          all;
    manta_status    code;
    if (count == 0 || !c)
        return manta_return_bytes(c, data, size);
    if (c->into || c->ahead || c->results > 1 || c->has_value)
        return manta_fail(c, 0, "%s: manta_return_refs gives the only result, once, and not of a generator or in manta_map",
                          c->name),
               MANTA_EINVAL;
    if (c->wanted != 'y' && c->wanted != '*')
        return lib_result_mistyped(c, 'y');
    code = lib_declared_store(data, size, refs, count, &place, &to, &all, &e);
    if (code)
        return manta_fail(c, 0, "%s", e.message), code;
    lib_lock();
    code = refs_check(refs, count, &e);
    if (code) {
        (void)os_client_free(&lib.store, place.segment, place.offset, place.generation).code;
        lib_unlock();
        return manta_fail(c, 0, "%s", e.message), code;
    }
    code = refs_send(c, (uint8_t *)to + refs_offset(size), refs, count);
    lib_unlock();
    os_client_publish(&lib.store, place, to, mt_id_with_index(c->run->record.id, 1), c->run->lane->owner_node, all, 'y', &wire);
    wire.flags |= LANE_REF_DECLARES;
    memcpy(c->bytes + sizeof(struct lane_value), &wire, sizeof wire);
    c->type = 'y';
    c->size = sizeof wire;
    c->flags = LANE_VALUE_SHARED;
    c->has_value = true;
    return code;
}

/* ---- reading ---- */

static bool is_taken(void *arg)
{
    struct own_ref   *ref = arg;
    struct own_extra *extra = own_extra_of(&lib.own, ref);
    return extra->is_taken || !mt_map_find(&lib.own.peers, mt_map_key(ref->id.process));
}

/* A value of another process: its owner tells the refs' owners about us while we hold the value, so while it holds them. */
static manta_status borrow_declared(struct own_ref *ref, const struct lane_ref *place, const void *data, manta_error *e)
{
    struct own_extra    *extra = own_extra_get(&lib.own, ref);
    struct lane_declared end;
    struct own_ref     **refs;
    if (!extra)
        return lib_error(e, MANTA_ENOMEM, "no memory for declared references");
    if (!trailer_read(data, place->size, &end))
        return lib_error(e, MANTA_ECORRUPT, "the value's declared references are not where they should be");
    if (!lib_may_wait())
        return lib_error(e, MANTA_EDEADLK, "the value's owner must be asked, which a callback may not wait for");
    own_declared_ask(&lib.own, ref);
    lib_act();
    lib_wait(is_taken, ref, lib_deadline(MT_LIB_REQUEST_MS));
    if (lib.broken)
        return lib_check(e);
    if (!extra->is_taken)
        return mt_map_find(&lib.own.peers, mt_map_key(ref->id.process))
                   ? lib_error(e, MANTA_ETIMEDOUT, "the value's owner did not answer within %d ms", MT_LIB_REQUEST_MS)
                   : lib_error(e, MANTA_EOWNER_DIED, "the process that owned the value is gone, and what it declared with it");
    if (extra->declared)
        return MANTA_OK; /* another thread was faster */
    refs = own_refs_of_wire(&lib.own, (const uint8_t *)data + refs_offset(end.data_size), end.count);
    if (!refs)
        return lib_error(e, MANTA_ENOMEM, "no memory for %u declared references", end.count);
    extra->declared = refs;
    extra->declared_count = end.count;
    return MANTA_OK;
}

int64_t manta_view_refs(const manta_view *view, manta_ref **out, size_t max, manta_error *e)
{
    struct lane_ref   place;
    struct own_ref   *ref;
    struct own_extra *extra;
    manta_status      code;
    int64_t           count = 0;
    if (!view || (max && !out))
        return -lib_error(e, MANTA_EINVAL, "manta_view_refs without a view, or without a place for %zu references", max);
    if ((code = lib_enter(e)) != MANTA_OK)
        return -code;
    code = lib_check(e);
    if (code == MANTA_OK && view->hold && !lib_handle_of(view->hold, LIB_OF_VIEW))
        code = lib_handle_wrong(view->hold, LIB_OF_VIEW, "manta_view_refs", e);
    ref = code ? NULL : lib_view_ref(view, &place);
    extra = ref ? own_extra_of(&lib.own, ref) : NULL;
    if (ref && own_ref_place(&lib.own, ref)->flags & LANE_REF_DECLARES && (!extra || !extra->declared))
        code = borrow_declared(ref, &place, view->data, e);
    extra = ref ? own_extra_of(&lib.own, ref) : NULL;
    if (code == MANTA_OK && extra)
        count = extra->declared_count;
    for (size_t i = 0; i < max && i < (size_t)count; i++) {
        own_ref_hold(extra->declared[i]);
        out[i] = lib_handle_ref(&lib.own, extra->declared[i]);
    }
    lib_unlock();
    return code ? -code : count;
}
