/* SPDX-License-Identifier: Apache-2.0
 *
 * here.c - tasks that their owner runs itself, since no worker is to be had for them.
 *
 * Owns:   nothing. Thread: the caller's, under the owner lock.
 * Always: only what the waiting task cannot go on without, and what has not begun: the awaited task, or one that it has as an
 *         argument. Anything else might in turn wait for what the waiting task does next.
 */
#include "clients/lib/owner/outcome/outcome.h"

#include "core/base/limits/lib.h"

/* What a process that serves a plain task can run as well: nothing that asks for a place or a thing of its own. */
static bool class_fits(const struct own *own, const struct own_class *cls, int64_t cpu_milli)
{
    const struct ctl_class *c = &cls->wire;
    if (c->flags || c->env || ctl_class_is_grouped(c) || c->labels[0] || c->policy == CTL_SPREAD)
        return false;
    if (c->policy != CTL_HYBRID && c->node != own->node)
        return false;
    for (uint32_t i = 0; i < c->resource_count; i++)
        if (strcmp(c->resources[i].name, "CPU") != 0 || c->resources[i].milli > cpu_milli)
            return false;
    return true;
}

static bool has_not_begun(const struct own_task *task)
{
    uint32_t slot = (uint32_t)(task->sequence & (LANE_SLOTS - 1));
    if (task->is_ahead)
        return false; /* its arguments stand in cells, or will */
    if (task->state == OWN_QUEUED)
        return true;
    return task->state == OWN_SENT && !task->lane->is_remote && task->lane->worker != task->id.process &&
           lane_claim_state_of(shm_load64_acquire(&task->lane->claims[slot])) == LANE_PENDING;
}

static struct own_task *find(const struct own *own, const struct own_ref *ref, int64_t cpu_milli, uint32_t *left)
{
    struct own_task *task = own_ref_is_ready(ref) || ref->flags & OWN_REF_BORROWED ? NULL : ref->task;
    struct own_task *found = NULL;
    if (!task || task->actor || task->kind != LANE_TASK || *left == 0)
        return NULL;
    --*left;
    for (uint32_t i = 0; (task->state == OWN_WAITING || task->is_ahead) && task->args && i < task->arg_count && !found; i++)
        if (task->args[i].ref && task->args[i].type != 'r')
            found = find(own, task->args[i].ref, cpu_milli, left);
    if (found || task->is_limited || (task->results && task->results->stream) || !class_fits(own, task->cls, cpu_milli))
        return found;
    return has_not_begun(task) ? task : NULL;
}

struct own_task *own_here_find(const struct own *own, const struct own_ref *ref, int64_t cpu_milli)
{
    uint32_t left = MT_LIB_HERE_FOLLOWED_MAX;
    return find(own, ref, cpu_milli, &left);
}

bool own_here_take(struct own_task *task)
{
    struct own_lane *lane = task->lane;
    uint32_t         slot = (uint32_t)(task->sequence & (LANE_SLOTS - 1));
    if (task->state == OWN_QUEUED) {
        own_class_remove(task->cls, task);
        return true;
    }
    if (!lane_claim_take(&lane->claims[slot], task->sequence, task->attempt, LANE_REVOKED))
        return false;
    own_lane_clear(lane, task);
    own_task_set_state(task, OWN_QUEUED);
    return true;
}
