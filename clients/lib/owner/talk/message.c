/* SPDX-License-Identifier: Apache-2.0
 *
 * message.c - what other processes tell us: values, borrowers, deaths.
 *
 * Owns:   nothing. Thread: the caller's, under the owner lock.
 */
#include "clients/lib/owner/talk/talk.h"

#include <stdio.h>

/* The owner is dead, and has no values any more. */
static void doubts_orphaned(struct own *own, uint64_t owner, const struct own_failure *why)
{
    for (struct own_doubt *d = own->doubts; d; d = d->next)
        if (d->ref.process == owner && !d->is_over) {
            d->is_over = true;
            d->why = *why;
        }
}

/* The owner has answered: the value's place, or why there is none. */
static void doubts_over(struct own *own, const struct lane_ref *place, const struct own_failure *why)
{
    for (struct own_doubt *d = own->doubts; d; d = d->next)
        if (mt_id_equal(d->ref, place->id) && !d->is_over) {
            d->is_over = true;
            d->place = *place;
            if (why)
                d->why = *why;
        }
}

/* Refs that it owned fail, refs of ours that it held are given up, actors that it made are out of reach. */
static void peer_died(struct own *own, uint64_t process, int32_t code, const char *text)
{
    struct own_failure f;
    int32_t            as = code == MT_ENODE_DIED ? MT_ENODE_DIED : MT_EOWNER_DIED;

    mt_map_remove(&own->peers, mt_map_key(process));
    own_failure_set(&f, as, "the process that owned this value is gone: %s", text);
    doubts_orphaned(own, process, &f);
    MT_MAP_EACH(&own->refs, entry) {
        struct own_ref *ref = entry->value.ptr;
        if (!(ref->flags & OWN_REF_BORROWED) || ref->id.process != process)
            continue;
        ref->flags &= (uint8_t)~OWN_REF_TOLD;
        if (!own_ref_is_ready(ref)) {
            own_ref_hold(ref); /* waking its waiters may drop the last use */
            own_ref_set_failed(own, ref, &f);
            own_ref_unhold(own, ref);
        }
    }
    MT_MAP_EACH(&own->borrows, entry) {
        struct own_borrow *borrow = entry->value.ptr;
        if (borrow->process == process)
            own_borrow_remove(own, borrow->ref, process);
    }
    MT_MAP_EACH(&own->actors, entry) {
        struct own_actor *actor = entry->value.ptr;
        if (!actor->is_mine && actor->owner == process)
            own_actor_owner_died(own, actor, code, text);
    }
}

void own_died(struct own *own, mt_id id, const struct ctl_death *death)
{
    struct own_monitor *found = mt_map_ptr(&own->monitors, id), monitor;
    if (!found)
        return;
    monitor = *found;
    mt_map_remove(&own->monitors, id);
    free(found);
    switch (monitor.kind) {
    case OWN_WATCHES_ACTOR: {
        struct own_actor *actor = mt_map_ptr(&own->actors, monitor.of.actor);
        if (actor)
            own_actor_worker_died(own, actor, death);
        break;
    }
    case OWN_WATCHES_PEER: peer_died(own, monitor.of.peer, death->code, death->text); break;
    case OWN_WATCHES_NODE: {
        struct own_death news = {.subject = id, .death = *death};
        own_out_death(own, &news);
        break;
    }
    }
}

/* ---- messages ---- */

static void asked_for_value(struct own *own, const struct ctl_message *from, mt_id id)
{
    struct own_ref      *ref = mt_map_ptr(&own->refs, id);
    struct own_waiter   *waiter;
    struct own_failure   gone;
    struct own_msg_value answer = {.kind = OWN_VALUE_FAILURE, .size = sizeof gone, .ref = {.id = id}};

    if (!ref) {
        own_failure_set(&gone, MT_EOBJ_LOST, "the value was freed by its owner before it was asked for");
        own_send_message(own, from->process, from->node, OWN_MSG_VALUE, &answer, sizeof answer, &gone, sizeof gone);
        return;
    }
    if (ref->again == OWN_AGAIN_GONE)
        (void)own_ref_lost(own, ref, NULL, MT_EOBJ_LOST, "it was let go", &gone);
    waiter = mt_stash_take(&own->stash, sizeof *waiter);
    if (!waiter) {
        own->out.is_starved = true;
        return;
    }
    waiter->kind = OWN_WAITS_PROCESS;
    waiter->of.asker.process = from->process;
    waiter->of.asker.node = from->node;
    own_ref_add_waiter(own, ref, waiter);
}

static void value_came(struct own *own, const struct ctl_message *from, const uint8_t *bytes, size_t size)
{
    struct own_msg_value head;
    struct own_ref      *ref;
    struct own_failure   f = {.code = MT_OK};
    bool                 is_bad = false;
    if (size < sizeof head)
        return;
    memcpy(&head, bytes, sizeof head);
    bytes += sizeof head;
    if (head.kind == OWN_VALUE_PLACE || head.kind == OWN_VALUE_INLINE)
        is_bad = !lane_size_fits(head.ref.type, head.kind == OWN_VALUE_PLACE ? head.ref.size : head.size);
    if (head.ref.id.process != from->process || head.size > size - sizeof head)
        return;
    if (head.kind == OWN_VALUE_FAILURE && head.size == OWN_FAILURE_WIRE)
        memcpy(&f, bytes, OWN_FAILURE_WIRE);
    else if (is_bad)
        own_failure_set(&f, MT_EPROTO, "its owner sent a value that no type has");
    else if (head.kind != OWN_VALUE_PLACE)
        own_failure_set(&f, MT_EOBJ_LOST, "the value is no longer in the store, its owner says");
    doubts_over(own, &head.ref, f.code ? &f : NULL);
    ref = mt_map_ptr(&own->refs, head.ref.id);
    if (!ref || !(ref->flags & OWN_REF_BORROWED))
        return;
    if (is_bad)
        own_ref_set_failed(own, ref, &f);
    else if (head.kind == OWN_VALUE_PLACE && ref->state == OWN_REF_PLACE)
        own_ref_moved(own, ref, &head.ref);
    else if (head.kind == OWN_VALUE_PLACE)
        own_ref_set_place(own, ref, &head.ref);
    else if (head.kind == OWN_VALUE_INLINE)
        own_ref_set_inline(own, ref, head.ref.type, bytes, head.size);
    else if (head.size == OWN_FAILURE_WIRE)
        own_ref_set_failed(own, ref, &f);
}

/* Somebody has not found a value of ours where it should be. */
static void lost_there(struct own *own, const struct ctl_message *from, const uint8_t *bytes, size_t size)
{
    struct own_msg_lost  m;
    struct own_failure   why;
    struct own_msg_value answer = {.kind = OWN_VALUE_FAILURE, .size = OWN_FAILURE_WIRE};
    struct own_ref      *ref;
    if (size != sizeof m)
        return;
    memcpy(&m, bytes, sizeof m);
    m.text[sizeof m.text - 1] = 0;
    ref = mt_map_ptr(&own->refs, m.about.id);
    if (!ref || ref->flags & OWN_REF_BORROWED || own_ref_lost(own, ref, &m.at, m.code, m.text, &why) != OWN_LOST_FAILED) {
        asked_for_value(own, from, m.about.id);
        return;
    }
    answer.ref = (struct lane_ref){.id = m.about.id};
    own_send_message(own, from->process, from->node, OWN_MSG_VALUE, &answer, sizeof answer, &why, OWN_FAILURE_WIRE);
}

void own_message(struct own *own, const struct ctl_message *from, const uint8_t *bytes, size_t size)
{
    struct own_msg_ref about = {0};
    struct own_ref    *ref;

    if (from->subject == OWN_MSG_VALUE) {
        value_came(own, from, bytes, size);
        return;
    }
    if (from->subject == OWN_MSG_CANCEL) {
        own_cancel_message(own, bytes, size);
        return;
    }
    if (from->subject == OWN_MSG_TAKE || from->subject == OWN_MSG_TAKEN) {
        own_declared_message(own, from, bytes, size);
        return;
    }
    if (from->subject == OWN_MSG_PROBE) {
        own_probe_came(own, bytes, size);
        return;
    }
    if (from->subject == OWN_MSG_LOST) {
        lost_there(own, from, bytes, size);
        return;
    }
    if (from->subject == OWN_MSG_FREE) {
        if (size == sizeof about) {
            memcpy(&about, bytes, sizeof about);
            ref = mt_map_ptr(&own->refs, about.id);
            if (ref && !(ref->flags & OWN_REF_BORROWED))
                (void)own_ref_free_now(own, ref);
        }
        return;
    }
    if (from->subject >= OWN_MSG_WHERE) {
        own_actor_message(own, from->subject, from, bytes, size);
        return;
    }
    if (size != sizeof about)
        return;
    memcpy(&about, bytes, sizeof about);
    if (from->subject == OWN_MSG_WAIT) {
        asked_for_value(own, from, about.id);
    } else if (from->subject == OWN_MSG_BORROW) {
        ref = mt_map_ptr(&own->refs, about.id);
        if (ref && !(ref->flags & OWN_REF_BORROWED))
            own_borrow_add(own, ref, about.process, about.node);
    } else if (from->subject == OWN_MSG_RELEASE) {
        own_borrow_remove(own, about.id, about.process);
    }
}

/* A message that could not be delivered: its receiver is gone, as a monitor would say. */
void own_bounced(struct own *own, const struct ctl_bounce *bounce)
{
    if (bounce->code != MT_EAGAIN)
        peer_died(own, bounce->process, bounce->code, "it could not be reached");
}
