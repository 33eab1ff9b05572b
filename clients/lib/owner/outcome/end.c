/* SPDX-License-Identifier: Apache-2.0
 *
 * end.c - the end of a lease: recalled, or its worker is gone; what happens to the tasks in its slots.
 *
 * Thread: the caller's, under the owner lock.
 *
 * After a death the completion ring is drained first, with what the worker wrote there and did not publish, then the
 * claims are read: PENDING has not run and costs no retry; RUNNING may have run and costs one.
 */
#include "clients/lib/owner/outcome/outcome.h"

#include "core/base/plant.h"

#include <stdio.h>
#include <stdlib.h>
#include <sys/wait.h>

void own_lane_recall(struct own *own, struct own_lane *lane)
{
    if (lane->state == OWN_LANE_OPEN)
        own_lane_set_state(lane, OWN_LANE_RECALLED);
    own_lane_revoke(own, lane, 0);
    if (lane->cls)
        own_class_recalled(own, lane->cls);
}

static void failure_of_death(struct own *own, const struct own_task *task, const struct ctl_ended *why, struct own_failure *out)
{
    static const char silent[] = "its worker ended the lease and left no outcome; has it written over its shared memory?";
    const char       *end = memchr(why->text, '\n', sizeof why->text);
    size_t            first = end ? (size_t)(end - why->text) : strnlen(why->text, sizeof why->text);
    memset(out, 0, sizeof *out);
    out->code = why->code == MT_EPG_REMOVED || why->code == MT_EPREEMPTED ? why->code
                : task->actor                                             ? MT_EACTOR_DIED
                : why->code                                               ? why->code
                                                                          : MT_EWORKER_DIED;
    out->outcome = 2; /* unknown: it may have run */
    out->pid = why->pid;
    out->attempt = task->attempt;
    out->node = why->node ? why->node : own->node;
    out->signal_number = WIFSIGNALED(why->status) ? WTERMSIG(why->status) : 0;
    own_task_name(task, out->function, sizeof out->function);
    snprintf(out->message, sizeof out->message, "%s (attempt %d) did not finish: %.*s", out->function, task->attempt,
             first ? (int)first : (int)sizeof silent - 1, first ? why->text : silent);
    if (end)
        snprintf(out->backtrace, sizeof out->backtrace, "%.*s", (int)(sizeof why->text - first - 1), end + 1);
}

static void settle_slot(struct own *own, struct own_lane *lane, struct own_task *task, const struct ctl_ended *why)
{
    shm_u64           *slot = &lane->claims[task->sequence & (LANE_SLOTS - 1)];
    bool               has_not_run = lane_claim_has_not_run(slot, task->sequence, task->attempt);
    struct own_failure failure;

    own_lane_clear(lane, task);
    if (why->code == MT_ENODE_DIED && task->results && task->results->stream)
        own_items_mark(own, task, NULL, lane->node); /* the next attempt brings them */
    if (has_not_run || MT_PLANT(MT_PLANT_RAN_IS_NOT_RUN)) {
        own_task_back(own, task);
        return;
    }
    if (task->kind == LANE_CREATE) { /* it is never tried again by itself: the actor is */
        own_actor_create_died(task->actor, task);
        return;
    }
    failure_of_death(own, task, why, &failure);
    own_task_retry_or_fail(own, task, &failure);
}

static int newest_first(const void *a, const void *b)
{
    const struct own_task *const *x = a, *const *y = b;
    return (*x)->sequence < (*y)->sequence ? 1 : -1;
}

/* Newest first, so that what goes back to the front of its queue keeps its order. */
static void settle_all(struct own *own, struct own_lane *lane, const struct ctl_ended *why)
{
    struct own_task *tasks[LANE_SLOTS];
    size_t           count = 0;
    for (int slot = 0; slot < LANE_SLOTS; slot++)
        if (lane->tasks[slot])
            tasks[count++] = lane->tasks[slot];
    qsort(tasks, count, sizeof *tasks, newest_first);
    for (size_t i = 0; i < count; i++)
        settle_slot(own, lane, tasks[i], why);
}

/* What the worker had finished when it died, and not yet shown. */
static void take_unpublished(struct own *own, struct own_lane *lane)
{
    struct lane_record record;
    const uint8_t     *payload;
    while (lane->inflight && lane->state != OWN_LANE_BROKEN && !lane->is_remote &&
           lane_next_unpublished(lane->claims, &lane->back, &record, &payload)) {
        if (own_lane_outcome(own, lane, &record, payload).code)
            return;
        lane_ring_consume(&lane->back);
    }
}

static void lane_unlink(struct own *own, struct own_lane *lane)
{
    struct own_class *cls = lane->cls;
    own->lanes.data[lane->index] = own->lanes.data[own->lanes.count - 1];
    own->lanes.data[lane->index]->index = lane->index;
    own->lanes.count--;
    for (uint32_t i = 0; cls && i < cls->lane_count; i++)
        if (cls->lanes[i] == lane)
            cls->lanes[i--] = cls->lanes[--cls->lane_count];
}

void own_lane_ended(struct own *own, struct own_lane *lane, const struct ctl_ended *why)
{
    struct own_class *cls = lane->cls;
    struct own_actor *actor = lane->actor;

    own_lane_poll(own, lane);
    take_unpublished(own, lane);
    if (MT_UNLIKELY(why->code == MT_ENODE_DIED))
        own_lineage_node_died(own, lane->node);
    own_lane_set_state(lane, OWN_LANE_ENDING);
    settle_all(own, lane, why);
    if (lane->is_remote && cls && cls->ahead_count)
        own_ahead_over(own); /* its worker may have left a cell empty that it should have filled, and taken its board away */
    MT_ASSERT(lane->inflight == 0);
    lane_unlink(own, lane);
    (void)mt_vec_push(&own->out.unmap, lane->memory).code; /* without memory for the note it stays mapped */
    if (actor && actor->next_lane == lane)
        actor->next_lane = NULL; /* it died before its predecessor's end was known */
    else if (actor)
        own_actor_lane_ended(own, actor, why);
    free(lane);
    if (cls)
        own_class_pump(own, cls);
}
