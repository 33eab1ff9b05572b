/* SPDX-License-Identifier: Apache-2.0
 *
 * calls.c - calls of one handle on their way to the lane: a queue for each concurrency group.
 *
 * Owns:   the queues of every struct own_actor. Thread: the caller's, under the owner lock.
 * Always: calls of one group enter the lane from its queue's front only, when their arguments are ready: that is their
 *         order. With `any_order` a call stands in a queue only once its arguments are ready.
 */
#include "clients/lib/owner/lineage.h"

struct own_queue *own_actor_queue(struct own_actor *actor, const struct own_task *task)
{
    return task->group ? &actor->groups[task->group - 1] : &actor->queue;
}

bool own_actor_has_queued(const struct own_actor *actor)
{
    bool any = actor->queue.first != NULL;
    for (int i = 0; actor->groups && i < OWN_GROUPS && !any; i++)
        any = actor->groups[i].first != NULL;
    return any;
}

uint32_t own_actor_pending(const struct own_actor *actor)
{
    uint32_t count = actor->queue.count + actor->pending_outside + (actor->lane ? actor->lane->inflight : 0);
    for (int i = 0; actor->groups && i < OWN_GROUPS; i++)
        count += actor->groups[i].count;
    return count;
}

mt_status own_actor_add(struct own *own, struct own_actor *actor, struct own_task *task)
{
    if (task->group && !actor->groups) {
        actor->groups = calloc(OWN_GROUPS, sizeof *actor->groups);
        if (!actor->groups)
            return mt_error(MT_ENOMEM, 0, "queues of concurrency groups");
    }
    if (actor->any_order && task->waiting_for && task->kind == LANE_CALL) {
        actor->pending_outside++; /* own_task_argument_ready brings it in */
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
    own_actor_post(own, actor); /* lineage.c moves it on: its arguments may be lost, too, and theirs */
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

/* It waits for arguments that were lost, and with any_order out of the way of others. */
static bool waits_again(struct own *own, struct own_actor *actor, struct own_task *task)
{
    struct own_queue *queue = own_actor_queue(actor, task);
    if (!own_lineage_waits(own, task))
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
