/* SPDX-License-Identifier: Apache-2.0
 *
 * extra.c - what only few refs have, by the ref's id; a flag of the ref says that it is there.
 *
 * Owns:   struct own_extra. Thread: the caller's, under the owner lock.
 */
#include "clients/lib/owner/ref/ref.h"

struct own_extra *own_extra_of(struct own *own, const struct own_ref *ref)
{
    return ref->flags & OWN_REF_EXTRA ? mt_map_ptr(&own->extras, ref->id) : NULL;
}

struct own_extra *own_extra_get(struct own *own, struct own_ref *ref)
{
    struct own_extra *extra = own_extra_of(own, ref);
    if (extra)
        return extra;
    extra = mt_stash_take(&own->stash, sizeof *extra);
    if (!extra || mt_map_put_ptr(&own->extras, ref->id, extra).code) {
        free(extra);
        return NULL;
    }
    ref->flags |= OWN_REF_EXTRA;
    return extra;
}

const struct lane_ref *own_ref_place(struct own *own, const struct own_ref *ref)
{
    const struct own_extra *extra = ref->again ? own_extra_of(own, ref) : NULL;
    return extra && extra->moved.node ? &extra->moved : &ref->value.place;
}

void own_ref_moved(struct own *own, struct own_ref *ref, const struct lane_ref *place)
{
    struct own_extra *extra = own_extra_get(own, ref);
    if (!extra) {
        own->out.is_starved = true;
        return;
    }
    extra->moved = *place;
    own_ref_set_again(ref, OWN_AGAIN_MOVED);
}
