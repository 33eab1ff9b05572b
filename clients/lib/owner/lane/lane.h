/* SPDX-License-Identifier: Apache-2.0
 *
 * lane.h - leases: the lanes that carry tasks to workers, and the classes that say how many are wanted.
 *
 * Thread: as own.h.
 */
#ifndef OWN_LANE_H
#define OWN_LANE_H

#include "clients/lib/owner/task/task.h"

/* ---- lanes: lane.c ---- */
mt_status own_lane_open(struct own *own, const struct ctl_grant *grant, void *memory, struct lane_park *peer,
                        struct own_lane **out);
bool      own_lane_send(struct own *own, struct own_lane *lane, struct own_task *task); /* false: full */
/* Takes back what has not begun, but for `keep`, the newest first. Returns how many. */
uint32_t own_lane_revoke(struct own *own, struct own_lane *lane, uint32_t keep);
/* Of a lane to another node: that task comes back if it has not begun; the answer is LANE_RETURNED, or its outcome. */
void own_lane_ask_back(struct own *own, struct own_lane *lane, struct own_task *task);
/* The node that all lanes of the class are on: ours where it has none; 0: they are on several. */
static inline uint32_t own_class_node(const struct own *own, const struct own_class *cls)
{
    uint32_t node = cls->lane_count ? own_lane_node(own, cls->lanes[0]) : own->node;
    for (uint32_t i = 1; i < cls->lane_count; i++)
        if (own_lane_node(own, cls->lanes[i]) != node)
            return 0;
    return node;
}
/* The raylet is gone, and no answer comes any more. True: the task has not begun, and from now on it never will. False: it may
 * have run. */
bool own_task_withdraw(const struct own_task *task);

/* ---- tasks sent before their arguments have come: ahead.c ---- */
/* Was submitted, and waits. True: it was sent ahead, or stands in its class's queue to be. */
bool own_ahead_submitted(struct own *own, struct own_task *task);
/* The same of any that waits; false: it waits on. */
bool own_ahead_go(struct own *own, struct own_task *task);
/* The task stands in its class's queue: those that wait for it may follow. They are posted. */
void own_ahead_next(struct own *own, const struct own_task *maker);
/* Whether it is one of those that may send and be sent ahead. */
static inline bool own_ahead_is_plain(const struct own_task *task)
{
    return task->kind == LANE_TASK && !task->is_limited && !task->results && !task->attempt && !task->priority;
}
/* All that were sent ahead and have not begun wait as if they had not been sent. */
void own_ahead_flush(struct own *own);
/* The same where a lane stands still, of a class with some ahead. */
void own_ahead_tick(struct own *own, struct own_class *cls);

/* ---- classes: class.c ---- */
/* The class for these needs, made at its first use; NULL only without memory. An actor's class is its own: `id`. */
struct own_class *own_class_get(struct own *own, const struct own_class_spec *spec, mt_id actor);
struct own_class *own_class_of_id(const struct own *own, uint32_t class_id); /* NULL: there is none any more */
/* The class of an actor that is gone: it is given up and freed. */
void own_class_retire(struct own *own, struct own_class *cls);
/* That placement group was removed: what its classes hold is freed in time. */
void own_group_over(struct own *own, mt_id pg);
/* Moves ready tasks to lanes and tells the raylet how many leases are wanted. */
void own_class_pump(struct own *own, struct own_class *cls);
void own_class_tick(struct own *own, struct own_class *cls);
/* One of its lanes was asked back, and what had not begun there is in the queue again. */
void own_class_recalled(struct own *own, struct own_class *cls);
/* After all classes' ticks: where one has work and no lease, what the others hold and do not use is given up: it may be that. */
void own_class_ticked(struct own *own);
/* A task that is ready: behind its equals, with a higher priority before what has not begun. */
void             own_class_push(struct own *own, struct own_class *cls, struct own_task *task);
struct own_task *own_class_pop(struct own_class *cls);
void             own_class_demand(struct own *own, struct own_class *cls, uint32_t wanted);
/* The process has finished what it was doing: leases of classes without work go back at once. */
void own_release_idle(struct own *own);
/* No node can serve a class of tasks. */
void own_class_refused(struct own *own, struct own_class *cls, const struct ctl_unschedulable *why);

#endif
