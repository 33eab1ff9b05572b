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

/* In one block: the arguments, a waiter for each reference among them (own_task_wait), the bytes of the values. A block of malloc
 * for each was a third of the owner's time. */
static bool copy_args(struct own *own, struct own_task *task, const struct own_call *call)
{
    size_t bytes = 0, refs = 0;
    for (int i = 0; i < call->argc; i++) {
        refs += call->args[i].ref != NULL;
        bytes += call->args[i].ref ? 0 : (call->args[i].size + 7) & ~(size_t)7;
    }
    size_t          size = (size_t)call->argc * sizeof *task->args + refs * sizeof(struct own_waiter) + bytes;
    struct own_arg *args = mt_spare_take(&own->spare, size);
    if (!args)
        return false;
    uint8_t *at = (uint8_t *)((struct own_waiter *)(args + call->argc) + refs);
    task->args = args;
    task->args_size = (uint32_t)size;
    task->arg_count = (uint16_t)call->argc;
    for (int i = 0; i < call->argc; i++) {
        const struct own_arg *from = &call->args[i];
        args[i] = (struct own_arg){.type = from->type, .ref = from->ref};
        if (from->ref) {
            own_ref_hold(from->ref);
            continue;
        }
        own_copy(at, from->data, from->size);
        args[i].data = at;
        args[i].size = from->size;
        at += (from->size + 7) & ~(size_t)7;
    }
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
        if (copy_args(own, task, call))
            own_task_wait(own, task);
        else
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
