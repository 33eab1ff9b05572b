/* SPDX-License-Identifier: Apache-2.0
 *
 * ahead.c - tasks that are sent before their arguments have come: who, and back again.
 *
 * Owns:   nothing. Thread: the caller's, under the owner lock.
 * Always: what a task that is ahead still waits for is made by a task with a cell. That one stands before it: in the queue of their
 *         class, or on a lane since earlier. So the oldest of all that are sent waits for nobody, and no circle of lanes stands
 *         still. As soon as that may be otherwise (a maker comes back or fails) own->edges.is_over is noted. Then everything
 *         ahead comes back that has not begun: its claim decides that, on another node the switch there.
 *         The cells are in the memory of one node, on which all lanes of the class are. On another node than ours only a maker's
 *         worker fills them. As soon as one may stay empty there, the same is noted.
 */
#include "clients/lib/owner/lane/lane.h"

static bool is_short(const struct own *own, const struct own_class *cls)
{
    uint32_t node = own_class_node(own, cls);
    if (!node || (cls->ahead_count && cls->ahead_node != node))
        return false;
    return cls->task_ns < own->edges.short_ns && !cls->level_count && !(cls->wire.flags & CTL_CLASS_ACTOR);
}

/* Its value comes to the node of that class by a cell there (ours we fill, where its maker is elsewhere), or we send it. */
static bool comes(const struct own *own, const struct own_class *cls, const struct own_ref *ref)
{
    const struct own_task *maker = ref->task;
    if (ref->state != OWN_REF_PENDING || ref->flags & OWN_REF_BORROWED || !maker || !maker->cell || maker->cancel)
        return false;
    if (own_edge_crosses(own, maker, own_class_node(own, cls)))
        return maker->cls->task_ns < own->edges.short_ns && own_cell_is_good(own, maker);
    if (maker->state == OWN_SENT && maker->lane->is_remote && !maker->feeds)
        return false; /* we can't fill it */
    return (maker->cls == cls || MT_PLANT(MT_PLANT_ARGUMENT_PASSES)) && (maker->state == OWN_QUEUED || maker->state == OWN_SENT) &&
           own_cell_is_good(own, maker);
}

/* Whether the workers have enough that waits for nobody. Then each takes what comes, and nothing stands behind what is late:
 * that is faster. */
static bool has_enough(const struct own_class *cls)
{
    uint32_t sent = 0;
    for (uint32_t i = 0; i < cls->lane_count; i++)
        sent += cls->lanes[i]->inflight;
    return sent >= cls->ahead_count + cls->lane_count * OWN_EDGE_READY;
}

/* Whether any of the class may. */
static bool class_may(const struct own *own, const struct own_class *cls)
{
    return own->edges.memory && !own->edges.is_over && !cls->edge_pause && is_short(own, cls) && !has_enough(cls);
}

static bool may_go(const struct own *own, const struct own_task *task)
{
    if (!class_may(own, task->cls) || !own_ahead_is_plain(task) || task->arg_count > OWN_EDGE_ARGS)
        return false;
    for (uint32_t i = 0; i < task->arg_count; i++) {
        const struct own_ref *ref = task->args[i].ref;
        if (!ref || task->args[i].type == 'r')
            continue;
        if (own_ref_is_there(ref) ? ref->state == OWN_REF_FAILED : !comes(own, task->cls, ref))
            return false;
    }
    return true;
}

bool own_ahead_go(struct own *own, struct own_task *task)
{
    if (!may_go(own, task))
        return false;
    task->is_ahead = true;
    if (!task->cls->ahead_count)
        task->cls->ahead_node = own_class_node(own, task->cls);
    if (own_task_encode(own, task, task->args, task->arg_count).code) {
        task->is_ahead = false;
        return false;
    }
    task->cls->ahead_count++;
    own->edges.ahead_count++;
    own_task_set_state(task, OWN_QUEUED);
    own_class_push(own, task->cls, task);
    return true;
}

/* Tasks of the one class wait for tasks of the other one, which run on another node: those get cells, and are told of at once. */
static bool crosses(const struct own *own, const struct own_class *cls, struct own_class *makers)
{
    uint32_t node = own_class_node(own, cls), there = own_class_node(own, makers);
    if (!cls->lane_count || !makers->lane_count || !node || !there || node == there || makers->edge_pause)
        return false;
    makers->edge_tasks = makers->told_tasks = OWN_EDGE_TASKS;
    return true;
}

bool own_ahead_submitted(struct own *own, struct own_task *task)
{
    struct own_class *cls = task->cls;
    bool              is_ours = false;
    if (!own_ahead_is_plain(task) || cls->edge_pause)
        return false;
    for (uint32_t i = 0; i < task->arg_count; i++) {
        const struct own_task *maker = task->args[i].ref ? task->args[i].ref->task : NULL;
        if (maker && maker->kind == LANE_TASK)
            is_ours |= maker->cls == cls || crosses(own, cls, maker->cls);
    }
    if (!is_ours)
        return false;
    cls->edge_tasks = OWN_EDGE_TASKS;
    own->edges.is_wanted = !own->edges.memory;
    return own_ahead_go(own, task);
}

void own_ahead_next(struct own *own, const struct own_task *maker)
{
    if (!maker->cell || !class_may(own, maker->cls))
        return;
    for (struct own_waiter *w = maker->ref->waiters; w; w = w->next) {
        struct own_task *task = w->kind == OWN_WAITS_TASK ? w->of.task : NULL;
        if (!task || task->actor || task->state != OWN_WAITING || !may_go(own, task))
            continue;
        own_task_set_state(task, OWN_WOKEN);
        own_task_post(own, task);
    }
}

static void class_flush(struct own *own, struct own_class *cls)
{
    for (struct own_task *task = cls->queue.first, *next; task && cls->ahead_count; task = next) {
        next = task->next;
        if (!task->is_ahead)
            continue;
        own_class_remove(cls, task);
        own_task_unahead(own, task);
    }
    for (uint32_t i = 0; i < cls->lane_count; i++) {
        struct own_lane *lane = cls->lanes[i];
        for (uint32_t slot = 0; slot < LANE_SLOTS && cls->ahead_count; slot++) {
            struct own_task *task = lane->tasks[slot];
            if (!task || !task->is_ahead)
                continue;
            if (!lane_claim_take(&lane->claims[slot], task->sequence, task->attempt, LANE_REVOKED)) {
                if (lane->is_remote)
                    own_lane_ask_back(own, lane, task);
                continue;
            }
            own_lane_clear(lane, task);
            own_lane_passed(own, lane);
            own_task_set_state(task, OWN_QUEUED);
            own_task_unahead(own, task);
        }
    }
}

void own_ahead_flush(struct own *own)
{
    own->edges.is_over = false;
    if (MT_PLANT(MT_PLANT_AHEAD_KEPT))
        return;
    for (size_t i = 0; i < own->class_list.count; i++)
        if (own->class_list.data[i]->ahead_count)
            class_flush(own, own->class_list.data[i]);
}

/* By ticks and not by the clock: on a crowded core an owner may look so late that everything seems to stand. */
static bool stands_still(struct own_lane *lane)
{
    bool is_same = lane->inflight && lane->progress_ns == lane->ahead_seen_ns;
    lane->ahead_seen_ns = lane->progress_ns;
    lane->ahead_ticks = (uint8_t)(is_same ? lane->ahead_ticks + 1 : 0);
    return lane->ahead_ticks >= OWN_EDGE_STUCK_TICKS;
}

void own_ahead_tick(struct own *own, struct own_class *cls)
{
    bool is_stuck = false;
    if (cls->edge_pause)
        cls->edge_pause--;
    if (!cls->ahead_count)
        return;
    for (uint32_t i = 0; i < cls->lane_count; i++)
        is_stuck |= stands_still(cls->lanes[i]);
    if (!is_stuck)
        return;
    for (uint32_t i = 0; i < cls->lane_count; i++)
        cls->lanes[i]->ahead_ticks = 0;
    cls->edge_pause = OWN_EDGE_PAUSE_TICKS;
    own_ahead_flush(own);
}
