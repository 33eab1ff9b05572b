/* SPDX-License-Identifier: Apache-2.0
 *
 * task.h - one task or call: its arguments, its payload, the queue that it stands in, and how it ends or is tried again.
 *
 * Thread: as own.h.
 */
#ifndef OWN_TASK_H
#define OWN_TASK_H

#include "clients/lib/owner/edge/edge.h"
#include "clients/lib/owner/result/result.h"

/* ---- one task: task.c ---- */
uint8_t  *own_blob_new(struct own *own, struct own_task *task, size_t size); /* NULL without memory */
void      own_blob_free(struct own *own, struct own_task *task);
mt_status own_task_encode(struct own *own, struct own_task *task, const struct own_arg *args, int argc);
/* Its arguments are encoded anew before it is sent again. */
void own_task_unencode(struct own *own, struct own_task *task);
/* Notes the task with each argument whose value is still to come; it waits for none yet. */
void own_task_wait(struct own *own, struct own_task *task);
/* One that ends, or is kept, before its arguments came must not be found by them. */
void own_task_wait_no_more(struct own_task *task);
/* Its arguments are there: encodes them. False: one of them failed, and so did the task, which is gone. */
bool               own_task_encode_ready(struct own *own, struct own_task *task);
static inline bool own_task_ready(struct own *own, struct own_task *task)
{
    if (MT_UNLIKELY(task->args != NULL) && !own_task_encode_ready(own, task))
        return false;
    own_task_set_state(task, OWN_QUEUED);
    return true;
}
/* For errors: "function", or "actor.method". */
void own_task_name(const struct own_task *task, char *out, size_t room);
/* Back among those that are free; its arguments and results are let go. */
void own_task_free(struct own *own, struct own_task *task);
void own_task_finish(struct own *own, struct own_task *task); /* frees it and what it holds */
/* It and its values fail. An actor's creation is posted to the actor instead. */
void own_task_fail(struct own *own, struct own_task *task, const struct own_failure *why);
void own_task_fail_status(struct own *own, struct own_task *task, mt_status st);
void own_task_retry_or_fail(struct own *own, struct own_task *task, const struct own_failure *why);
/* The end of a task whose cancel was asked. */
void own_cancel_done(struct own *own, struct own_task *task);
/* It was ahead, has not begun and stands nowhere (QUEUED): it waits for its arguments, or is posted where they have come. */
void own_task_unahead(struct own *own, struct own_task *task);
/* It has not run: it goes back to the front of its queue, in its old order where the caller walks newest first. */
void own_task_back(struct own *own, struct own_task *task);

/* ---- where it stands: queues.c ---- */
/* The queue that this task stands in, or is to stand in: without memory for its level, that of priority 0. */
struct own_queue *own_class_queue(struct own_class *cls, struct own_task *task);
/* It was sent, and has not run, or is to run again. With priorities it goes before those submitted after it. */
void               own_class_push_back(struct own_class *cls, struct own_task *task);
void               own_class_remove(struct own_class *cls, struct own_task *task);
static inline bool own_class_has_queued(const struct own_class *cls)
{
    return cls->queue.first || cls->leveled;
}
struct own_queue *own_actor_queue(struct own_actor *actor, const struct own_task *task);
uint32_t          own_actor_pending(const struct own_actor *actor);
bool              own_actor_has_queued(const struct own_actor *actor);

#endif
