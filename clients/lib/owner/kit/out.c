/* SPDX-License-Identifier: Apache-2.0
 *
 * out.c - what goes out: records for the up ring, messages to other processes, requests and monitors.
 *
 * Owns:   monitors and requests. Thread: the caller's, under the owner lock.
 * Always: every wait for another process is bound to a monitor of it, so nothing waits for the dead.
 */
#include "clients/lib/owner/kit/kit.h"

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

mt_status own_request_new(struct own *own, mt_id id, mt_id actor, enum own_request_kind kind)
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

void own_out_death(struct own *own, const struct own_death *news)
{
    if (mt_vec_push(&own->out.deaths, *news).code)
        own->out.is_starved = true;
}

void own_out_unheard(struct own_out *out, mt_id task, const struct own_failure *why)
{
    struct own_unheard *u = out->unheard;
    if (!u && !(u = out->unheard = calloc(OWN_UNHEARD_MAX, sizeof *u)))
        return;
    for (uint32_t i = 0; i < out->unheard_count; i++, u++) {
        if (strcmp(u->first.function, why->function) == 0 || i == OWN_UNHEARD_MAX - 1) {
            u->count++;
            return;
        }
    }
    *u = (struct own_unheard){task, 1, *why};
    out->unheard_count++;
}

void own_callback_due(struct own *own, struct own_waiter *callback)
{
    callback->next = NULL;
    if (own->out.callbacks)
        own->out.callbacks_last->next = callback;
    else
        own->out.callbacks = callback;
    own->out.callbacks_last = callback;
}

/* ---- monitors ---- */

/* `what` but for its id; a process 0 is the node itself. A zero id: no memory. */
static mt_id monitor_new(struct own *own, struct own_monitor what, uint64_t process, uint32_t node)
{
    struct ctl_monitor  message = {.process = process, .node = node};
    struct own_monitor *monitor = mt_stash_take(&own->stash, sizeof *monitor);
    mt_id               none = {0, 0};
    if (!monitor)
        return none;
    *monitor = what;
    monitor->id = own_id_next(own);
    if (mt_map_put_ptr(&own->monitors, monitor->id, monitor).code) {
        free(monitor);
        return none;
    }
    own_send(own, CTL_MONITOR, monitor->id, &message, sizeof message);
    return monitor->id;
}

mt_id own_monitor_actor(struct own *own, const struct own_actor *actor, uint64_t process, uint32_t node)
{
    return monitor_new(own, (struct own_monitor){.kind = OWN_WATCHES_ACTOR, .of.actor = actor->id}, process, node);
}

mt_id own_monitor_node(struct own *own, uint32_t node)
{
    return monitor_new(own, (struct own_monitor){.kind = OWN_WATCHES_NODE, .of.node = node}, 0, node);
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
    mt_id monitor;
    if (process == own->process || mt_map_find(&own->peers, mt_map_key(process)))
        return;
    monitor = monitor_new(own, (struct own_monitor){.kind = OWN_WATCHES_PEER, .of.peer = process}, process, node);
    if (!mt_id_is_zero(monitor) && mt_map_put_num(&own->peers, mt_map_key(process), 1).code == 0)
        return;
    own->out.is_starved = true; /* whoever waits for that process would never hear of its death */
}
