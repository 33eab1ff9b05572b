/* SPDX-License-Identifier: Apache-2.0
 *
 * message.c - what other processes tell us: values, borrowers, deaths; and how we tell them.
 *
 * Owns:   monitors. Thread: the caller's, under the owner lock.
 * Always: every wait for another process is bound to a monitor of it, so nothing waits for the dead.
 */
#include "clients/lib/owner/lineage.h"

#include <stdio.h>

/* ---- sending ---- */

void own_out_record(struct own_out *out, uint16_t kind, uint32_t epoch, mt_id id, const void *payload, size_t size)
{
    struct lane_record   record = {.length = (uint32_t)(LANE_RECORD_SIZE + size), .kind = kind, .epoch = epoch, .id = id};
    static const uint8_t zero[64];
    size_t               pad = lane_record_padded(record.length) - record.length;
    MT_ASSERT(record.length <= LANE_RECORD_MAX);
    if (mt_buf_reserve(&out->up, record.length + pad).code) {
        out->is_starved = true;
        return;
    }
    (void)mt_buf_append(&out->up, &record, sizeof record).code;
    if (size)
        (void)mt_buf_append(&out->up, payload, size).code;
    (void)mt_buf_append(&out->up, zero, pad).code;
}

void own_send(struct own *own, uint16_t kind, mt_id id, const void *payload, size_t size)
{
    own_out_record(&own->out, kind, own->epoch, id, payload, size);
}

void own_send_message(struct own *own, uint64_t process, uint32_t node, uint32_t subject, const void *head, size_t head_size,
                      const void *rest, size_t rest_size)
{
    struct ctl_message to = {.process = process, .node = node, .subject = subject};
    uint8_t            bytes[LANE_RECORD_MAX];
    MT_ASSERT(sizeof to + head_size + rest_size <= CTL_MESSAGE_MAX);
    memcpy(bytes, &to, sizeof to);
    memcpy(bytes + sizeof to, head, head_size);
    if (rest_size)
        memcpy(bytes + sizeof to + head_size, rest, rest_size);
    own_send(own, CTL_MESSAGE, own_id_next(own), bytes, sizeof to + head_size + rest_size);
}

mt_status own_request_new(struct own *own, mt_id id, mt_id actor, uint32_t kind)
{
    struct own_request *request = mt_stash_take(&own->stash, sizeof *request);
    if (!request || mt_map_put_ptr(&own->requests, id, request).code) {
        free(request);
        return mt_error(MT_ENOMEM, 0, "request");
    }
    request->actor = actor;
    request->kind = kind;
    return mt_ok();
}

/* ---- monitors ---- */

mt_id own_monitor_new(struct own *own, uint64_t process, uint32_t node, mt_id actor)
{
    struct ctl_monitor  message = {.process = process, .node = node};
    struct own_monitor *monitor = mt_stash_take(&own->stash, sizeof *monitor);
    mt_id               none = {0, 0};
    if (!monitor)
        return none;
    monitor->id = own_id_next(own);
    monitor->actor = actor;
    monitor->process = process;
    monitor->node = node;
    if (mt_map_put_ptr(&own->monitors, monitor->id, monitor).code) {
        free(monitor);
        return none;
    }
    own_send(own, CTL_MONITOR, monitor->id, &message, sizeof message);
    return monitor->id;
}

void own_monitor_end(struct own *own, mt_id id)
{
    struct own_monitor *monitor = mt_map_ptr(&own->monitors, id);
    if (!monitor)
        return;
    mt_map_remove(&own->monitors, id);
    free(monitor);
    own_send(own, CTL_DEMONITOR, id, NULL, 0);
}

void own_watch_peer(struct own *own, uint64_t process, uint32_t node)
{
    mt_id monitor, none = {0, 0};
    if (process == own->process || mt_map_find(&own->peers, mt_map_key(process)))
        return;
    monitor = own_monitor_new(own, process, node, none);
    if (!mt_id_is_zero(monitor) && mt_map_put_num(&own->peers, mt_map_key(process), 1).code == 0)
        return;
    own->out.is_starved = true; /* whoever waits for that process would never hear of its death */
}

/* Our own value: it is being made again, or where is it? */
static void doubt_look(struct own *own, struct own_doubt *doubt, int32_t code, const char *text)
{
    switch (own_ref_lost(own, doubt->mine, &doubt->place, code, text, &doubt->why)) {
    case OWN_LOST_WAIT: return;
    case OWN_LOST_MOVED: doubt->place = *own_ref_place(own, doubt->mine); break;
    case OWN_LOST_FAILED: break;
    }
    doubt->is_over = true;
}

void own_doubt_begin(struct own *own, struct own_doubt *doubt, struct own_ref *mine, const struct lane_ref *at, int32_t code,
                     const char *text)
{
    struct own_msg_lost message = {.about = {.id = at->id, .process = own->process, .node = own->node}, .at = *at, .code = code};
    *doubt = (struct own_doubt){.next = own->doubts, .ref = at->id, .mine = mine, .place = *at};
    own->doubts = doubt;
    if (mine) {
        doubt_look(own, doubt, code, text);
    } else if (at->id.process == own->process) {
        own_failure_set(&doubt->why, MT_EOBJ_LOST, "the value was freed before it was read");
        doubt->is_over = true;
    } else {
        snprintf(message.text, sizeof message.text, "%s", text);
        own_watch_peer(own, at->id.process, at->owner_node);
        own_send_message(own, at->id.process, at->owner_node, OWN_MSG_LOST, &message, sizeof message, NULL, 0);
    }
}

bool own_doubt_is_over(struct own *own, struct own_doubt *doubt)
{
    if (doubt->mine && !doubt->is_over && own_ref_is_there(doubt->mine))
        doubt_look(own, doubt, MT_EOBJ_LOST, "");
    return doubt->is_over;
}

void own_doubt_end(struct own *own, const struct own_doubt *doubt)
{
    struct own_doubt **at = &own->doubts;
    while (*at != doubt)
        at = &(*at)->next;
    *at = doubt->next;
}

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
            own_ref_drop(own, ref);
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
    if (!mt_id_is_zero(monitor.actor)) {
        struct own_actor *actor = mt_map_ptr(&own->actors, monitor.actor);
        if (actor)
            own_actor_worker_died(own, actor, death);
    } else if (monitor.process) {
        peer_died(own, monitor.process, death->code, death->text);
    } else {
        struct own_death news = {.subject = id, .death = *death};
        own_out_death(own, &news);
    }
}

void own_out_death(struct own *own, const struct own_death *news)
{
    if (mt_vec_push(&own->out.deaths, *news).code)
        own->out.is_starved = true;
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
    waiter = mt_stash_take(&own->stash, sizeof *waiter);
    if (!waiter) {
        own->out.is_starved = true;
        return;
    }
    waiter->process = from->process;
    waiter->node = from->node;
    own_ref_add_waiter(own, ref, waiter);
}

static void value_came(struct own *own, const struct ctl_message *from, const uint8_t *bytes, size_t size)
{
    struct own_msg_value head;
    struct own_ref      *ref;
    struct own_failure   f = {.code = MT_OK};
    if (size < sizeof head)
        return;
    memcpy(&head, bytes, sizeof head);
    bytes += sizeof head;
    if (head.ref.id.process != from->process || head.size > size - sizeof head)
        return;
    if (head.kind == OWN_VALUE_FAILURE && head.size == OWN_FAILURE_WIRE)
        memcpy(&f, bytes, OWN_FAILURE_WIRE);
    else if (head.kind != OWN_VALUE_PLACE)
        own_failure_set(&f, MT_EOBJ_LOST, "the value is no longer in the store, its owner says");
    doubts_over(own, &head.ref, f.code ? &f : NULL);
    ref = mt_map_ptr(&own->refs, head.ref.id);
    if (!ref || !(ref->flags & OWN_REF_BORROWED))
        return;
    if (head.kind == OWN_VALUE_PLACE && ref->state == OWN_REF_PLACE)
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
