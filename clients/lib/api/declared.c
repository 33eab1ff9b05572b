/* SPDX-License-Identifier: Apache-2.0
 *
 * declared.c - values that declare refs, for the user: made, and their refs read.
 *
 * Owns:   nothing. Thread: any; takes the owner lock.
 */
#include "clients/lib/shell/handles/handles.h"
#include "clients/lib/shell/helper/helper.h"
#include "clients/lib/shell/here/here.h"
#include "clients/lib/shell/link/link.h"
#include "clients/lib/shell/state/state.h"
#include "clients/lib/shell/values/values.h"

#include <stdlib.h>

/* ---- making ---- */

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
    if (lib.role == LIB_DRIVER)
        lib_helper_start(); /* it gives back what is free again in our segments */
    lib.calls++;
    ref = own_ref_new(&lib.own, mt_id_with_index(own_id_next(&lib.own), 1));
    held = ref && lib_declared_check(refs, count, &e) == MANTA_OK ? refs_hold(refs, count) : NULL;
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
    if (!lib_declared_end(data, place->size, &end))
        return lib_error(e, MANTA_ECORRUPT, "the value's declared references are not where they should be");
    if (!lib_may_wait())
        return lib_error(e, MANTA_EDEADLK, "the value's owner must be asked, which a callback may not wait for");
    own_declared_ask(&lib.own, ref);
    lib_act();
    lib_wait_here(is_taken, ref, lib_deadline(MT_LIB_REQUEST_MS));
    if (lib.broken)
        return lib_check(e);
    if (!extra->is_taken)
        return mt_map_find(&lib.own.peers, mt_map_key(ref->id.process))
                   ? lib_error(e, MANTA_ETIMEDOUT, "the value's owner did not answer within %d ms", MT_LIB_REQUEST_MS)
                   : lib_error(e, MANTA_EOWNER_DIED, "the process that owned the value is gone, and what it declared with it");
    if (extra->declared)
        return MANTA_OK; /* another thread was faster */
    refs = own_refs_of_wire(&lib.own, (const uint8_t *)data + lib_declared_offset(end.data_size), end.count);
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
