/* SPDX-License-Identifier: Apache-2.0
 *
 * kit.h - the tools of every room above: queues of tasks, failures, what goes out, and the notes that own_settle takes up.
 *
 * Thread: as own.h.
 */
#ifndef OWN_KIT_H
#define OWN_KIT_H

#include "clients/lib/owner/state/state.h"

static inline mt_id own_id_next(struct own *own)
{
    return mt_id_make(own->process, ++own->counter, 0);
}

/* Most values are numbers. */
static inline void own_copy(void *to, const void *from, size_t size)
{
    if (MT_LIKELY(size == 8))
        memcpy(to, from, 8);
    else if (size)
        memcpy(to, from, size);
}

static inline void own_waiter_free(struct own_waiter *waiter)
{
    if (waiter->kind != OWN_WAITS_TASK)
        free(waiter);
}

/* ---- queues of tasks ---- */
/* `before` NULL: at the end. */
static inline void own_queue_insert(struct own_queue *q, struct own_task *task, struct own_task *before)
{
    struct own_task *after = before ? before->prev : q->last;
    task->next = before;
    task->prev = after;
    if (after)
        after->next = task;
    else
        q->first = task;
    if (before)
        before->prev = task;
    else
        q->last = task;
    q->count++;
}
static inline void own_queue_push(struct own_queue *q, struct own_task *task)
{
    own_queue_insert(q, task, NULL);
}
static inline void own_queue_push_front(struct own_queue *q, struct own_task *task)
{
    own_queue_insert(q, task, q->first);
}
/* NULL: it is empty. */
static inline struct own_task *own_queue_pop(struct own_queue *q)
{
    struct own_task *task = q->first;
    if (task) {
        q->first = task->next;
        if (q->first)
            q->first->prev = NULL;
        else
            q->last = NULL;
        q->count--;
    }
    return task;
}
static inline void own_queue_remove(struct own_queue *q, struct own_task *task)
{
    if (task->prev)
        task->prev->next = task->next;
    else
        q->first = task->next;
    if (task->next)
        task->next->prev = task->prev;
    else
        q->last = task->prev;
    q->count--;
}

/* ---- failures: failure.c ---- */
/* A copy, or one more hold of what this has given before; without memory what stands for it. Never NULL; own_failure_free
 * takes it (NULL too). */
struct own_failure *own_failure_new(struct own *own, const struct own_failure *why);
void                own_failure_free(struct own *own, struct own_failure *failure);
void                own_failure_set(struct own_failure *f, int32_t code, const char *format, ...) MT_PRINTF(3, 4);
void                own_failure_freed(struct own_failure *f); /* by manta_free_now */

/* ---- what goes out: out.c ---- */
/* What a lane is told of a task that was sent by it: which one, without a payload. */
static inline struct lane_record own_task_record(const struct own *own, const struct own_task *task, uint16_t kind)
{
    return (struct lane_record){.length = LANE_RECORD_SIZE,
                                .kind = kind,
                                .epoch = own->epoch,
                                .sequence = task->sequence,
                                .id = task->id,
                                .attempt = task->attempt,
                                .slot = (uint32_t)(task->sequence & (LANE_SLOTS - 1))};
}
/* Appends one record for the up ring. */
void      own_out_record(struct own_out *out, uint16_t kind, uint32_t epoch, mt_id id, const void *payload, size_t size);
void      own_out_death(struct own *own, const struct own_death *news);
void      own_send(struct own *own, uint16_t kind, mt_id id, const void *payload, size_t size);
void      own_send_message(struct own *own, uint64_t process, uint32_t node, uint32_t subject, const void *head, size_t head_size,
                           const void *rest, size_t rest_size);
mt_status own_request_new(struct own *own, mt_id id, mt_id actor, enum own_request_kind kind);
/* A call has failed, and nobody will ever ask for its result. */
void own_out_unheard(struct own_out *out, mt_id task, const struct own_failure *why);
void own_callback_due(struct own *own, struct own_waiter *callback);
/* The process is an owner or a borrower: its death ends what is bound to it. */
void own_watch_peer(struct own *own, uint64_t process, uint32_t node);
/* A zero id: no memory. `process`: the actor's worker. */
mt_id own_monitor_actor(struct own *own, const struct own_actor *actor, uint64_t process, uint32_t node);
mt_id own_monitor_node(struct own *own, uint32_t node);
void  own_monitor_end(struct own *own, mt_id monitor);

static inline void own_wake(struct own *own, struct lane_park *park)
{
    struct own_out *out = &own->out;
    for (uint32_t i = 0; i < out->wake_count; i++)
        if (out->wake[i] == park)
            return;
    if (out->wake_count == sizeof out->wake / sizeof out->wake[0])
        lane_park_wake(out->wake[--out->wake_count]); /* more sleepers than room: rouse one early */
    out->wake[out->wake_count++] = park;
}

/* ---- slots of lanes ---- */
static inline uint32_t own_lane_node(const struct own *own, const struct own_lane *lane)
{
    return lane->is_remote ? lane->node : own->node;
}
static inline void own_lane_publish(struct own *own, struct own_lane *lane)
{
    lane->unpublished = 0;
    lane_ring_publish(&lane->forward);
    if (lane_park_must_wake(lane->peer))
        own_wake(own, lane->peer);
}
/* A task that was ahead was taken back: its worker may sleep at it, before others. */
static inline void own_lane_passed(struct own *own, struct own_lane *lane)
{
    if (lane_park_must_wake(lane->peer))
        own_wake(own, lane->peer);
}
/* The task has left its slot. */
static inline void own_lane_clear(struct own_lane *lane, struct own_task *task)
{
    uint32_t slot = (uint32_t)(task->sequence & (LANE_SLOTS - 1));
    lane->tasks[slot] = NULL;
    lane_claim_clear(&lane->claims[slot]);
    if (MT_UNLIKELY(task->cancel))
        lane_cancel_set(lane_header_of(lane->memory), slot, false);
    lane->inflight--;
    task->lane = NULL;
}

/* ---- a task's results ---- */
/* Of a generator: its end; its items are apart (stream->items). */
static inline uint32_t own_result_count(const struct own_task *task)
{
    return task->results ? task->results->count : 1;
}
static inline struct own_ref *own_result_at(const struct own_task *task, uint32_t i)
{
    return i ? task->results->more[i - 1] : task->ref;
}
static inline struct own_stream *own_stream_of(const struct own_task *task) /* NULL: it is no generator */
{
    return task->results ? task->results->stream : NULL;
}

/* ---- notes ----
 * Who must tell many posts a note and returns; own_settle (lineage/settle.c) is the one place that takes them up. */
/* The arguments of the task are ready. */
static inline void own_task_post(struct own *own, struct own_task *task)
{
    own_queue_push(&own->woken, task);
    own->is_posted = true;
}
/* The queues of the actor may move. */
static inline void own_actor_post(struct own *own, struct own_actor *actor)
{
    if (actor->is_woken)
        return;
    actor->is_woken = true;
    actor->next_woken = own->woken_actors;
    own->woken_actors = actor;
    own->is_posted = true;
}
/* What was sent ahead comes back. */
static inline void own_ahead_over(struct own *own)
{
    own->edges.is_over = true;
    own->is_posted = true;
}
/* Kept, and to run again, since a value of it is lost; `node` has died (0: none). It is in no queue. */
static inline void own_rerun_post(struct own *own, struct own_task *task, uint32_t node)
{
    task->lost_node = node;
    task->next = own->to_rerun;
    own->to_rerun = task;
    own->is_posted = true;
}
/* No longer kept. It is in no queue. */
static inline void own_given_up_post(struct own *own, struct own_task *task)
{
    task->next = own->given_up;
    own->given_up = task;
    own->is_posted = true;
}

#endif
