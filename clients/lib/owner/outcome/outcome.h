/* SPDX-License-Identifier: Apache-2.0
 *
 * outcome.h - how tasks end: outcomes that workers write, leases that end, cancels, tasks that their owner runs itself.
 *
 * Thread: as own.h.
 */
#ifndef OWN_OUTCOME_H
#define OWN_OUTCOME_H

#include "clients/lib/owner/lineage/lineage.h"

/* ---- what workers write: outcome.c ---- */
void own_lane_poll(struct own *own, struct own_lane *lane);
void own_lane_look(struct own *own, struct own_lane *lane); /* where nothing moves: do its claims make sense? */
/* What LANE_DONE says of a task that has left its slot. */
mt_status own_task_outcome(struct own *own, struct own_lane *lane, struct own_task *task, const struct lane_record *record,
                           const uint8_t *payload, size_t size);
/* One record of the worker's. */
mt_status own_lane_outcome(struct own *own, struct own_lane *lane, const struct lane_record *record, const uint8_t *payload);

/* ---- the end of a lease: end.c ---- */
void own_lane_recall(struct own *own, struct own_lane *lane);
void own_lane_ended(struct own *own, struct own_lane *lane, const struct ctl_ended *why);

/* ---- cancelling: cancel.c ---- */
enum own_cancelled {
    OWN_CANCELLED_NOT = 0,   /* it has finished, or nothing makes this value */
    OWN_CANCELLED_NEVER = 1, /* it will never run: its ref has failed */
    OWN_CANCELLED_TOLD = 2,  /* it runs, or its owner is elsewhere: that side has been told */
    OWN_CANCELLED_FULL = 3,  /* no room to tell it: try again */
};
enum own_cancelled own_cancel(struct own *own, struct own_ref *ref, uint32_t flags);
void               own_cancel_message(struct own *own, const uint8_t *bytes, size_t size);
void               own_cancel_tick(struct own *own, struct own_lane *lane);

/* ---- tasks that a waiting task runs itself: here.c ---- */
/* A task of ours that `ref` waits for (itself, or what it has as arguments), that has not begun and that needs nothing but
 * at most `cpu_milli` of CPU on this node. NULL: none. */
struct own_task *own_here_find(const struct own *own, const struct own_ref *ref, int64_t cpu_milli);
/* Takes that one out of its queue or its lane. False: it has begun meanwhile. */
bool own_here_take(struct own_task *task);

#endif
