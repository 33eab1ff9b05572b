/* SPDX-License-Identifier: Apache-2.0
 *
 * share.c - references that other processes know: borrowed from them, or held by them.
 *
 * Owns:   struct own_borrow. Thread: the caller's, under the owner lock.
 *
 * Who hands a ref on tells its owner about the receiver before it lets go of its own: messages of one process to
 * another keep their order, so the owner never sees the count fall to nothing in between.
 */
#include "clients/lib/owner/ref/ref.h"

struct own_ref *own_ref_borrow(struct own *own, const struct lane_ref *wire)
{
    struct own_ref *ref = mt_map_ptr(&own->refs, wire->id);
    if (ref) {
        ref->holds++;
        return ref;
    }
    ref = own_ref_new(own, wire->id);
    if (!ref)
        return NULL;
    if (mt_map_put_ptr(&own->refs, ref->id, ref).code) {
        own_ref_unhold(own, ref);
        return NULL;
    }
    ref->flags = OWN_REF_NAMED | OWN_REF_BORROWED | OWN_REF_ESCAPED;
    ref->value.place.owner_node = wire->owner_node;
    if (ref->id.process == own->process) { /* ours, and not known any more: nobody will ever answer */
        struct own_failure gone;
        own_failure_set(&gone, MT_EOBJ_LOST, "the value was freed before this reference to it came back");
        own_ref_set_failed(own, ref, &gone);
    } else if (wire->node) {
        ref->value.place = *wire;
        ref->type = wire->type;
        own_ref_set_state(ref, OWN_REF_PLACE);
    }
    return ref;
}

/* Tells the owner that (process, node) holds the ref: of ours it is noted here, of others the owner is told. */
void own_ref_tell(struct own *own, struct own_ref *ref, uint64_t process, uint32_t node)
{
    struct own_msg_ref message = {.id = ref->id, .process = process, .node = node};
    if (!(ref->flags & OWN_REF_BORROWED))
        own_borrow_add(own, ref, process, node);
    else
        own_send_message(own, ref->id.process, own_ref_owner_node(own, ref), OWN_MSG_BORROW, &message, sizeof message, NULL, 0);
}

/* One entry for each (ref, process): a process says so once, whatever the number of its handles. */
static mt_id borrow_key(mt_id ref, uint64_t process)
{
    mt_id key = {ref.process ^ (process << 1 | process >> 63) ^ 1, ref.counter_index ^ process * 0x9e3779b97f4a7c15u};
    if (key.process == 0)
        key.process = 1;
    return key;
}

void own_borrow_add(struct own *own, struct own_ref *ref, uint64_t process, uint32_t node)
{
    mt_id              key = borrow_key(ref->id, process);
    struct own_borrow *borrow;
    if (mt_map_find(&own->borrows, key))
        return;
    borrow = mt_stash_take(&own->stash, sizeof *borrow);
    if (!borrow || mt_map_put_ptr(&own->borrows, key, borrow).code) {
        free(borrow);
        own->out.is_starved = true; /* the borrower would lose the value that it holds */
        return;
    }
    borrow->ref = ref->id;
    borrow->process = process;
    ref->borrowers++;
    own_watch_peer(own, process, node);
}

void own_borrow_remove(struct own *own, mt_id id, uint64_t process)
{
    struct own_ref    *ref = mt_map_ptr(&own->refs, id);
    mt_id              key = borrow_key(id, process);
    struct own_borrow *borrow = mt_map_ptr(&own->borrows, key);
    if (!borrow)
        return;
    mt_map_remove(&own->borrows, key);
    free(borrow);
    if (!ref)
        return;
    MT_ASSERT(ref->borrowers > 0);
    ref->borrowers--;
    own_ref_unheld(own, ref);
}
