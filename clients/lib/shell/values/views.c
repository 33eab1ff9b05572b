/* SPDX-License-Identifier: Apache-2.0
 *
 * views.c - values as the user looks at them: pinned, and held until the view is given up.
 *
 * Owns:   struct copy_view. Thread: any, under the owner lock; manta_release takes it.
 */
#include "clients/lib/shell/handles/handles.h"
#include "clients/lib/shell/link/link.h"
#include "clients/lib/shell/segments/segments.h"
#include "clients/lib/shell/state/state.h"
#include "clients/lib/shell/values/values.h"

#include <stdlib.h>

/* What a view of a copy holds, of a value of another node or on disk: the ref goes on naming the value itself, for the
 * copy may go before the ref does. Told from a plain ref by the lowest bit of what the view's handle names. */
struct copy_view {
    struct own_ref *ref;
    struct lane_ref here;
};

static struct copy_view *copy_view_of(void *held)
{
    return (uintptr_t)held & 1 ? (struct copy_view *)((uintptr_t)held - 1) : NULL;
}

/* The value was made; that it cannot be had does not undo that. */
static void value_is_out_of_reach(const struct own_ref *ref, manta_error *e)
{
    if (!e)
        return;
    e->outcome = MANTA_DONE;
    snprintf(e->node, sizeof e->node, "%u", own_ref_place(&lib.own, ref)->node);
    mt_id_text(ref->id, e->task);
}

/* Pins the value; *out gets data, size and hold. */
static manta_status view_pin(struct own_ref *ref, manta_view *out, int64_t deadline, manta_error *e)
{
    struct lane_ref   here = *own_ref_place(&lib.own, ref);
    struct copy_view *copy = NULL;
    manta_status      code;
    code = lib_store_pin(ref, &here, &out->data, deadline, e);
    if (code) {
        value_is_out_of_reach(ref, e);
        return code;
    }
    if (memcmp(&here, &ref->value.place, sizeof here) != 0 && !(copy = malloc(sizeof *copy))) {
        lib_store_unpin(&here);
        return lib_error(e, MANTA_ENOMEM, "no memory for a view");
    }
    out->hold = ref;
    out->size = here.size - (ref->type == 's');
    if (own_ref_place(&lib.own, ref)->flags & LANE_REF_DECLARES)
        out->size = lib_declared_size(&here, out->data);
    if (copy) {
        *copy = (struct copy_view){ref, here};
        out->hold = (void *)((uintptr_t)copy | 1);
    }
    return MANTA_OK;
}

/* What `held` keeps is let go, under the lock; the ref's hold stays. */
static void view_unpin(void *held)
{
    struct copy_view *copy = copy_view_of(held);
    struct own_ref   *ref = copy ? copy->ref : held;
    if (ref->state == OWN_REF_PLACE)
        lib_store_unpin(copy ? &copy->here : &ref->value.place);
    free(copy);
}

manta_status lib_view(struct own_ref *ref, manta_view *out, int64_t deadline_ns, manta_error *e)
{
    manta_status code = MANTA_OK;
    if (ref->state == OWN_REF_INLINE) {
        out->data = own_ref_bytes(ref);
        out->size = ref->type == 's' && ref->size ? ref->size - 1 : ref->size;
        out->hold = ref;
    } else {
        code = view_pin(ref, out, deadline_ns, e);
    }
    out->type = (char)ref->type;
    if (code)
        return code;
    void *held = out->hold;
    out->hold = lib_handle_new(LIB_OF_VIEW, held);
    if (MT_LIKELY(out->hold != NULL)) {
        own_ref_hold(ref);
        return MANTA_OK;
    }
    view_unpin(held);
    memset(out, 0, sizeof *out);
    return lib_error(e, MANTA_ENOMEM, "no memory for a view");
}

struct own_ref *lib_view_ref(const manta_view *view, struct lane_ref *out_place)
{
    void             *held = lib_handle_of(view->hold, LIB_OF_VIEW);
    struct copy_view *copy = held ? copy_view_of(held) : NULL;
    struct own_ref   *ref = copy ? copy->ref : held;
    if (!ref || ref->state != OWN_REF_PLACE)
        return NULL;
    *out_place = copy ? copy->here : ref->value.place;
    return ref;
}

bool lib_view_end(manta_view *view)
{
    void *held = lib_handle_end(view->hold, LIB_OF_VIEW);
    if (held) {
        struct copy_view *copy = copy_view_of(held);
        struct own_ref   *ref = copy ? copy->ref : held;
        view_unpin(held);
        own_ref_drop(&lib.own, ref);
        if (lib.own.out.up.size && lib_door_is_open())
            lib_act();
    }
    return held != NULL;
}

manta_status manta_release(manta_view *view)
{
    manta_view held = view ? *view : (manta_view){.hold = NULL};
    if (view)
        memset(view, 0, sizeof *view);
    if (!held.hold)
        return MANTA_OK;
    manta_status code = lib_enter_held(NULL);
    if (code)
        return code;
    bool is_view = lib_view_end(&held);
    lib_unlock();
    return is_view ? MANTA_OK : MANTA_EHANDLE;
}
