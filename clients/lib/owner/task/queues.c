/* SPDX-License-Identifier: Apache-2.0
 *
 * queues.c - where tasks stand that are on no lane: a class's queues by priority, an actor's by concurrency group.
 *
 * Owns:   the levels of a class. Thread: the caller's, under the owner lock.
 */
#include "clients/lib/owner/task/task.h"

/* ---- of a class ---- */

/* Where a priority stands; made at its first use. NULL without memory. */
static struct own_queue *level_of(struct own_class *cls, int32_t priority)
{
    uint32_t          at = 0;
    struct own_level *more;
    if (priority == 0)
        return &cls->queue;
    while (at < cls->level_count && cls->levels[at].priority > priority)
        at++;
    if (at < cls->level_count && cls->levels[at].priority == priority)
        return &cls->levels[at].queue;
    more = realloc(cls->levels, (cls->level_count + 1) * sizeof *more);
    if (!more)
        return NULL;
    memmove(&more[at + 1], &more[at], (cls->level_count - at) * sizeof *more);
    more[at] = (struct own_level){.priority = priority};
    cls->levels = more;
    cls->sent_low = cls->level_count++ ? cls->sent_low : 0;
    return &cls->levels[at].queue;
}

struct own_queue *own_class_queue(struct own_class *cls, struct own_task *task)
{
    struct own_queue *q = level_of(cls, task->priority);
    if (q)
        return q;
    task->priority = 0;
    return &cls->queue;
}

void own_class_push_back(struct own_class *cls, struct own_task *task)
{
    struct own_queue *q = own_class_queue(cls, task);
    struct own_task  *behind = q->first;
    cls->leveled += task->priority != 0;
    while (cls->level_count && behind && behind->id.counter_index < task->id.counter_index)
        behind = behind->next;
    own_queue_insert(q, task, cls->level_count ? behind : q->first);
}

void own_class_remove(struct own_class *cls, struct own_task *task)
{
    cls->leveled -= task->priority != 0;
    own_queue_remove(own_class_queue(cls, task), task);
}

/* ---- of an actor ---- */

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
