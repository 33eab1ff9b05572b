/* SPDX-License-Identifier: Apache-2.0
 *
 * submit.c - a task or call from what the user asked for to its place in a queue.
 *
 * Owns:   every struct own_task, from slabs that are kept until the end.
 * Thread: the caller's, under the owner lock.
 */
#include "clients/lib/owner/call/call.h"

static struct own_task *task_new(struct own *own)
{
    struct own_task *task = own->free_tasks;
    if (!task) {
        struct own_task *chunk = calloc(OWN_TASKS_PER_CHUNK, sizeof *chunk);
        if (!chunk || mt_vec_push(&own->task_chunks, chunk).code) {
            free(chunk);
            return NULL;
        }
        for (int i = 0; i < OWN_TASKS_PER_CHUNK; i++) {
            chunk[i].next = own->free_tasks;
            own->free_tasks = &chunk[i];
        }
        task = own->free_tasks;
    }
    own->free_tasks = task->next;
    return task;
}

static bool copy_args(struct own *own, struct own_task *task, const struct own_call *call)
{
    task->args = calloc((size_t)call->argc, sizeof *task->args);
    if (!task->args)
        return false;
    for (int i = 0; i < call->argc; i++) {
        struct own_arg *to = &task->args[i];
        *to = call->args[i];
        task->arg_count++;
        if (to->ref) {
            own_ref_hold(to->ref);
        } else if (to->size) {
            void *copy = malloc(to->size);
            to->data = copy;
            if (!copy)
                return false;
            memcpy(copy, call->args[i].data, to->size);
        } else {
            to->data = NULL;
        }
    }
    (void)own;
    return true;
}

static void task_fill(struct own *own, struct own_task *task, const struct own_call *call)
{
    task->id = own_id_next(own);
    task->function = call->function;
    task->name = call->name;
    task->cls = call->cls;
    task->actor = call->actor;
    task->lane = NULL;
    task->kind = call->kind;
    task->submitted_ns = own->wall_ns ? own->now_ns + own->wall_ns : 0;
    task->attempt = 0;
    own_task_set_state(task, OWN_WAITING);
    task->retry_on_error = call->retry_on_error;
    task->group = call->group;
    task->cancel = 0;
    task->parent = own->run.number;
    own->run_submits = true;
    task->arg_count = 0;
    task->priority = call->priority;
    task->waiting_for = 0;
    task->retries_left = call->retries;
    task->blob_size = 0;
    task->is_ahead = false;
    task->cell = 0;
    task->args = NULL;
    task->blob = task->small;
    task->is_limited = call->limits.timeout_ms || call->limits.max_calls;
    memcpy(task->small, &call->limits, sizeof call->limits);
    task->results = NULL;
    own->outstanding++;
    own->submitted++;
    own->queued_bytes += sizeof *task;
    if (!task->actor)
        task->cls->outstanding++;
}

struct own_ref *own_task_submit(struct own *own, const struct own_call *call)
{
    bool             has_refs = false;
    struct own_task *task = task_new(own);
    struct own_ref  *ref;
    mt_status        st = mt_ok();

    if (!task)
        return NULL;
    task_fill(own, task, call);
    ref = own_ref_new(own, task->id);
    task->ref = ref;
    if (!ref) {
        own_task_finish(own, task);
        return NULL;
    }
    ref->id = mt_id_with_index(task->id, 1);
    ref->task = task;
    own_ref_hold(ref); /* the task's own hold, until it is finished */
    if (MT_UNLIKELY(call->count > 1 || call->stream) && !own_results_new(own, task, call)) {
        own_task_finish(own, task);
        own_ref_unhold(own, ref);
        return NULL;
    }
    for (int i = 0; i < call->argc; i++)
        has_refs |= call->args[i].ref != NULL;
    if (has_refs) {
        if (!copy_args(own, task, call) || !own_task_wait(own, task))
            st = mt_error(MT_ENOMEM, 0, "task arguments");
    } else {
        st = own_task_encode(own, task, call->args, call->argc);
    }
    if (st.code) {
        own_task_fail_status(own, task, st);
        return ref;
    }
    if (task->actor) {
        st = own_actor_add(own, task->actor, task);
        if (st.code)
            own_task_fail_status(own, task, st);
    } else if (!task->waiting_for && own_task_ready(own, task)) {
        own_class_push(own, call->cls, task);
        own_class_pump(own, call->cls);
    } else if (task->waiting_for && own_ahead_submitted(own, task)) {
        own_class_pump(own, call->cls);
    }
    return ref;
}
