/* SPDX-License-Identifier: Apache-2.0
 *
 * cancel.c - taking back what was submitted: what has not begun never runs, what runs is asked to stop, or killed.
 *
 * Owns:   nothing of its own. Thread: the caller's, under the owner lock.
 * Always: a task whose `cancel` is set ends with ECANCELLED, whatever its worker says; it is never tried again.
 *
 *   waiting, queued   out of its queue at once; calls behind it keep their order
 *   on a lane         PENDING -> REVOKED by compare-and-swap: the record in the ring is passed over by the worker
 *   running           its slot's bit in the lane's header; LANE_CANCEL where the claims are on another node
 *   by force          the lane takes no more tasks, those that had not begun come back, CTL_KILL
 *   its children      OWN_MSG_CANCEL to the worker, whose owner half has submitted them
 */
#include "clients/lib/owner/outcome/outcome.h"

#include "core/base/limits/lib.h"

#include <stdio.h>

/* ---- by force ---- */

static bool is_running(const struct own_lane *lane, const struct own_task *task)
{
    uint32_t slot = (uint32_t)(task->sequence & (LANE_SLOTS - 1));
    return lane->is_remote || lane_claim_state_of(shm_load64_acquire(&lane->claims[slot])) == LANE_RUNNING;
}

static void lane_kill(struct own *own, struct own_lane *lane)
{
    struct ctl_lease message = {.lease = lane->lease};
    lane->kill_ns = UINT64_MAX;
    own_send(own, CTL_KILL, own_id_next(own), &message, sizeof message);
}

/* Nothing else may run on that worker when it is killed: what has not begun comes back first. */
static void kill_worker(struct own *own, struct own_task *task)
{
    struct own_lane *lane = task->lane;
    if (lane->kill_ns)
        return;
    own_lane_revoke(own, lane, 0);
    if (!is_running(lane, task))
        return;
    if (lane->is_remote || task->cancel & OWN_CANCEL_RECURSIVE) /* it may not run yet; it hears of its children first */
        lane->kill_ns = own->now_ns + (uint64_t)MT_LIB_CANCEL_GRACE_MS * 1000000;
    else
        lane_kill(own, lane);
}

/* Whether a task that is to be ended by force still stands there. */
static bool has_forced(const struct own_lane *lane)
{
    for (uint32_t slot = 0; slot < LANE_SLOTS; slot++) {
        const struct own_task *task = lane->tasks[slot];
        if (task && task->cancel & OWN_CANCEL_FORCE && is_running(lane, task))
            return true;
    }
    return false;
}

void own_cancel_tick(struct own *own, struct own_lane *lane)
{
    if (lane->kill_ns == UINT64_MAX)
        return;
    if (has_forced(lane)) {
        if (own->now_ns >= lane->kill_ns)
            lane_kill(own, lane);
        return;
    }
    lane->kill_ns = 0; /* it has ended by itself: the worker is as good as any */
    if (lane->cls)
        own_class_pump(own, lane->cls);
}

/* ---- one task ---- */

static bool tell_remote(struct own *own, struct own_lane *lane, const struct own_task *task)
{
    struct lane_record record = own_task_record(own, task, LANE_CANCEL);
    if (!lane_ring_push(&lane->forward, &record, NULL))
        return false;
    own_lane_publish(own, lane);
    return true;
}

static void tell_children(struct own *own, const struct own_lane *lane, const struct own_task *task)
{
    struct own_msg_cancel m = {.id = task->id,
                               .flags = OWN_CANCEL_CHILDREN | OWN_CANCEL_RECURSIVE | (task->cancel & OWN_CANCEL_FORCE)};
    if (lane->worker == own->process) { /* we run it ourselves */
        own_cancel_message(own, (const uint8_t *)&m, sizeof m);
        return;
    }
    own_send_message(own, lane->worker, lane->node, OWN_MSG_CANCEL, &m, sizeof m, NULL, 0);
}

static enum own_cancelled cancel_sent(struct own *own, struct own_task *task)
{
    struct own_lane *lane = task->lane;
    uint32_t         slot = (uint32_t)(task->sequence & (LANE_SLOTS - 1));
    if (lane_claim_take(&lane->claims[slot], task->sequence, task->attempt, LANE_REVOKED)) {
        own_lane_clear(lane, task);
        if (task->is_ahead)
            own_lane_passed(own, lane);
        own_task_set_state(task, OWN_QUEUED); /* it has not run */
        own_cancel_done(own, task);
        return OWN_CANCELLED_NEVER;
    }
    if (lane->is_remote && !tell_remote(own, lane, task))
        return OWN_CANCELLED_FULL;
    if (task->cell) /* what has not begun must not see its value */
        own_ahead_flush(own);
    if (!lane->is_remote) {
        lane_cancel_set(lane_header_of(lane->memory), slot, true);
        if (lane_park_must_wake(lane->peer))
            own_wake(own, lane->peer);
    }
    if (task->cancel & OWN_CANCEL_RECURSIVE)
        tell_children(own, lane, task);
    if (task->cancel & OWN_CANCEL_FORCE && lane->worker != own->process) /* of one that we run: we are only asked */
        kill_worker(own, task);
    return OWN_CANCELLED_TOLD;
}

static enum own_cancelled cancel_task(struct own *own, struct own_task *task, uint32_t flags)
{
    struct own_actor *actor = task->actor;
    if (task->kind == LANE_CREATE)
        return OWN_CANCELLED_NOT;
    if (actor)
        flags &= ~(uint32_t)OWN_CANCEL_FORCE; /* its process holds more than this call */
    task->cancel |= (uint8_t)(OWN_CANCEL_ASKED | (flags & (OWN_CANCEL_FORCE | OWN_CANCEL_RECURSIVE)));
    if (task->state == OWN_SENT)
        return cancel_sent(own, task);
    bool is_woken = task->state == OWN_WOKEN;
    if (is_woken)
        own_queue_remove(&own->woken, task);
    if (actor && actor->any_order && (task->waiting_for || is_woken))
        actor->pending_outside--;
    else if (actor)
        own_queue_remove(own_actor_queue(actor, task), task);
    else if (task->state == OWN_QUEUED)
        own_class_remove(task->cls, task);
    own_cancel_done(own, task);
    if (actor)
        own_actor_pump(own, actor); /* those behind it may have waited for its arguments only */
    return OWN_CANCELLED_NEVER;
}

enum own_cancelled own_cancel(struct own *own, struct own_ref *ref, uint32_t flags)
{
    struct own_msg_cancel m = {.id = ref->id, .flags = flags};
    enum own_cancelled    how = OWN_CANCELLED_NOT;
    if (own_ref_is_ready(ref))
        return OWN_CANCELLED_NOT;
    if (ref->flags & OWN_REF_BORROWED) {
        own_send_message(own, ref->id.process, own_ref_owner_node(own, ref), OWN_MSG_CANCEL, &m, sizeof m, NULL, 0);
        return OWN_CANCELLED_TOLD;
    }
    if (ref->task)
        how = cancel_task(own, ref->task, flags);
    own_settle_posted(own);
    return how;
}

/* ---- messages ---- */

/* The number of a run of this process; 0: none that has submitted anything lately. */
static uint32_t run_of(const struct own *own, mt_id id)
{
    if (mt_id_equal(own->run.id, id))
        return own->run.number;
    for (const struct own_outer_run *outer = own->outer_runs; outer; outer = outer->outer)
        if (mt_id_equal(outer->run.id, id))
            return outer->run.number;
    for (int i = 0; i < OWN_PAST_RUNS; i++)
        if (mt_id_equal(own->past_runs[i].id, id))
            return own->past_runs[i].number;
    return 0;
}

static bool is_unfinished(const struct own_task *task)
{
    return task->state == OWN_WAITING || task->state == OWN_WOKEN || task->state == OWN_QUEUED || task->state == OWN_SENT;
}

/* What that run has submitted. Ending one may end others that wait for it: the state says who is left. */
static void cancel_children(struct own *own, uint32_t run, uint32_t flags)
{
    for (size_t i = 0; i < own->task_chunks.count; i++) {
        struct own_task *chunk = own->task_chunks.data[i];
        for (int j = 0; j < OWN_TASKS_PER_CHUNK; j++)
            if (is_unfinished(&chunk[j]) && chunk[j].parent == run)
                cancel_task(own, &chunk[j], flags);
    }
}

void own_cancel_message(struct own *own, const uint8_t *bytes, size_t size)
{
    struct own_msg_cancel m;
    struct own_ref       *ref;
    if (size != sizeof m)
        return;
    memcpy(&m, bytes, sizeof m);
    if (m.flags & OWN_CANCEL_CHILDREN) {
        uint32_t run = mt_id_is_zero(m.id) ? 0 : run_of(own, m.id);
        if (run)
            cancel_children(own, run, m.flags & ~(uint32_t)OWN_CANCEL_CHILDREN);
        return;
    }
    ref = mt_map_ptr(&own->refs, m.id);
    if (ref && !(ref->flags & OWN_REF_BORROWED))
        own_cancel(own, ref, m.flags);
}
