/* SPDX-License-Identifier: Apache-2.0
 *
 * calls.c - calls of one handle on their way to the lane: a queue for each concurrency group.
 *
 * Owns:   the queues of every struct own_actor. Thread: the caller's, under the owner lock.
 * Always: calls of one group enter the lane from its queue's front only, when their arguments are ready: that is their
 *         order. With `any_order` a call stands in a queue only once its arguments are ready.
 */
#include "clients/lib/owner/call/call.h"
#include "clients/lib/owner/ref/kept.h"

#include <stdio.h>

void own_actor_failure(const struct own_actor *actor, const char *method, struct own_failure *out)
{
    *out = *actor->failure;
    out->code = out->code == MT_ENODE_DIED || out->code == MT_EWORKER_DIED ? MT_EACTOR_DIED : out->code;
    snprintf(out->function, sizeof out->function, "%.31s.%.31s", actor->name, method ? method : "");
}

static void fail_queue(struct own *own, struct own_actor *actor, struct own_queue *queue)
{
    for (struct own_task *task; (task = own_queue_pop(queue));) {
        struct own_failure f;
        own_actor_failure(actor, task->name, &f);
        f.outcome = task->attempt ? 2 : 0; /* a call that waits for its retry may have run */
        if (task == actor->create)
            continue;
        own_task_set_failed(own, task, &f);
        own_task_finish(own, task);
    }
}

void own_actor_fail_calls(struct own *own, struct own_actor *actor)
{
    fail_queue(own, actor, &actor->queue);
    for (int i = 0; actor->groups && i < OWN_GROUPS; i++)
        fail_queue(own, actor, &actor->groups[i]);
}

static bool may_send(const struct own *own, const struct own_actor *actor, const struct own_task *task)
{
    if (task->waiting_for || (task->kind == LANE_CREATE && !own_strict_may_create(own, actor)))
        return false;
    return task->kind == LANE_CREATE ? actor->state != OWN_ACTOR_ALIVE : actor->state == OWN_ACTOR_ALIVE;
}

/* Ours, and made by a task that can run again, on a node that has died since. */
static bool is_known_lost(const struct own *own, const struct own_ref *ref)
{
    const mt_map_entry *news;
    if (ref->state != OWN_REF_PLACE || !ref->task || ref->task->state != OWN_KEPT || !own_ref_has_place(ref) ||
        ref->flags & OWN_REF_FREED)
        return false;
    news = mt_map_find(&own->lost_nodes, mt_map_key(own_ref_place((struct own *)own, ref)->node));
    return news && news->value.num > ref->task->ended_at;
}

/* Arguments of a call that stood on a node which has died are made again before it is sent: its actor may be the one to make
 * them. True: it waits for them. */
static bool lineage_waits(struct own *own, struct own_task *call)
{
    bool any = false;
    call->waiting_for++; /* calls that are put before it now must not let it pass */
    for (uint32_t i = 0; i < call->arg_count; i++) {
        struct own_ref *ref = call->args[i].ref;
        if (ref && is_known_lost(own, ref) && !own_lineage_seek(own, ref, MT_ENODE_DIED, "its node is gone"))
            own_lineage_lose(own, ref, own_ref_place(own, ref)->node);
        any |= ref && call->args[i].type != 'r' && !own_ref_is_there(ref);
    }
    call->waiting_for--;
    if (!any)
        return false;
    own->queued_bytes -= call->blob_size;
    if (call->blob_size)
        own_task_unencode(own, call); /* with the places of the lost ones */
    own_task_wait(own, call);
    if (call->waiting_for && call->state == OWN_QUEUED)
        own_task_set_state(call, OWN_WAITING);
    return call->waiting_for > 0;
}

/* It waits for arguments that were lost, and with any_order out of the way of others. */
static bool waits_again(struct own *own, struct own_actor *actor, struct own_task *task)
{
    struct own_queue *queue = own_actor_queue(actor, task);
    if (!lineage_waits(own, task))
        return queue->first != task;
    if (actor->any_order) {
        own_queue_remove(queue, task);
        actor->pending_outside++;
    }
    return true;
}

static void pump_queue(struct own *own, struct own_actor *actor, struct own_queue *queue)
{
    while (queue->first && actor->lane && may_send(own, actor, queue->first)) {
        struct own_task *task = queue->first;
        if (MT_UNLIKELY(own->lost_nodes.count && task->args && task->kind == LANE_CALL) && waits_again(own, actor, task))
            continue;
        task = own_queue_pop(queue);
        if (!own_task_ready(own, task))
            continue;
        if (!own_lane_send(own, actor->lane, task)) {
            own_queue_push_front(queue, task);
            break;
        }
    }
}

void own_actor_pump(struct own *own, struct own_actor *actor)
{
    if (actor->state == OWN_ACTOR_DEAD) {
        own_actor_fail_calls(own, actor);
        return;
    }
    if (!actor->lane) {
        if (own_actor_has_queued(actor) || actor->watch_count)
            own_actor_ask_where(own, actor);
        return;
    }
    pump_queue(own, actor, &actor->queue);
    for (int i = 0; actor->groups && i < OWN_GROUPS; i++)
        pump_queue(own, actor, &actor->groups[i]);
}

mt_status own_actor_add(struct own *own, struct own_actor *actor, struct own_task *task)
{
    if (task->group && !actor->groups) {
        actor->groups = calloc(OWN_GROUPS, sizeof *actor->groups);
        if (!actor->groups)
            return mt_error(MT_ENOMEM, 0, "queues of concurrency groups");
    }
    if (actor->any_order && task->waiting_for && task->kind == LANE_CALL) {
        actor->pending_outside++; /* lineage/settle.c brings it in */
        return mt_ok();
    }
    own_queue_push(own_actor_queue(actor, task), task);
    own_actor_pump(own, actor);
    return mt_ok();
}

void own_actor_add_again(struct own *own, struct own_actor *actor, struct own_task *call)
{
    struct own_queue *queue = own_actor_queue(actor, call);
    struct own_task  *later = queue->first;
    if (actor->any_order && call->waiting_for) {
        actor->pending_outside++;
        return;
    }
    while (later && (later->kind == LANE_CREATE || mt_id_counter(later->id) < mt_id_counter(call->id)))
        later = later->next;
    own_queue_insert(queue, call, later);
    own_actor_post(own, actor); /* its arguments may be lost, too, and theirs */
}
