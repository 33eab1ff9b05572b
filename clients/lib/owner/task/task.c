/* SPDX-License-Identifier: Apache-2.0
 *
 * task.c - one task or call: its arguments, its payload, and how it ends or is tried again.
 *
 * Thread: the caller's, under the owner lock.
 * Always: a task is in exactly one place (state/task.h); own_check looks at it.
 */
#include "clients/lib/owner/task/task.h"

#include "core/base/plant.h"

#include <stdio.h>

/* ---- payloads: in the task, from a slab, or by themselves ---- */

enum { BLOBS_PER_CHUNK = 128 };

static uint8_t *blob_medium(struct own *own)
{
    void *blob = own->free_blobs;
    if (!blob) {
        uint8_t *chunk = malloc((size_t)BLOBS_PER_CHUNK * OWN_BLOB_MEDIUM);
        if (!chunk || mt_vec_push(&own->chunks, (void *)chunk).code) {
            free(chunk);
            return NULL;
        }
        for (int i = 0; i < BLOBS_PER_CHUNK; i++) {
            memcpy(chunk + (size_t)i * OWN_BLOB_MEDIUM, &blob, sizeof blob);
            blob = chunk + (size_t)i * OWN_BLOB_MEDIUM;
        }
    }
    memcpy(&own->free_blobs, blob, sizeof own->free_blobs);
    return blob;
}

uint8_t *own_blob_new(struct own *own, struct own_task *task, size_t size)
{
    return size <= OWN_BLOB_SMALL ? task->small : size <= OWN_BLOB_MEDIUM ? blob_medium(own) : mt_spare_take(&own->spare, size);
}

void own_blob_free(struct own *own, struct own_task *task)
{
    if (task->blob == task->small)
        return;
    if (task->blob_size <= OWN_BLOB_MEDIUM) {
        memcpy(task->blob, &own->free_blobs, sizeof own->free_blobs);
        own->free_blobs = task->blob;
    } else {
        mt_spare_give(&own->spare, task->blob, task->blob_size);
    }
    task->blob = task->small;
}

/* ---- the payload: lane_call_head, then lane_values, then lane_limits where there are some ---- */

/* Whether references go in short, and the worker asks for their values: else the arguments would be larger than a record. */
enum refs_as { REFS_WHOLE, REFS_ASKED };

static void put_value(struct own *own, uint8_t **at, const struct own_task *task, const struct own_arg *arg, enum refs_as as)
{
    struct lane_value value = {.type = (uint8_t)arg->type};
    struct lane_ref   wire;
    struct lane_asked asked;
    struct lane_edge  edge;
    const void       *bytes = arg->data;
    if (!arg->ref) {
        value.size = (uint32_t)arg->size;
    } else if (as == REFS_ASKED) {
        own_ref_wire(own, arg->ref, &wire);
        asked = (struct lane_asked){wire.id, wire.owner_node, wire.job};
        value.flags = LANE_VALUE_ASKED;
        value.size = sizeof asked;
        bytes = &asked;
    } else if (arg->type != 'r' && !own_ref_is_ready(arg->ref)) {
        edge = own_edge_name(own, task, (uint32_t)(arg - task->args));
        value.flags = LANE_VALUE_EDGE;
        value.size = sizeof edge;
        bytes = &edge;
    } else if (arg->type == 'r' || arg->ref->state == OWN_REF_PLACE) {
        own_ref_wire(own, arg->ref, &wire);
        value.flags = arg->type == 'r' ? 0 : LANE_VALUE_SHARED;
        value.size = sizeof wire;
        bytes = &wire;
    } else {
        value.type = arg->ref->type;
        value.size = arg->ref->size;
        bytes = own_ref_bytes(arg->ref);
    }
    memcpy(*at, &value, sizeof value);
    own_copy(*at + sizeof value, bytes, value.size);
    *at += sizeof value + ((value.size + 7u) & ~7u);
}

static size_t value_size(const struct own_arg *arg, enum refs_as as)
{
    size_t size = arg->size;
    if (arg->ref && as == REFS_ASKED)
        size = sizeof(struct lane_asked);
    else if (arg->ref)
        size = arg->type == 'r' || arg->ref->state == OWN_REF_PLACE ? sizeof(struct lane_ref)
               : arg->ref->state == OWN_REF_PENDING                 ? sizeof(struct lane_edge)
                                                                    : arg->ref->size;
    return sizeof(struct lane_value) + ((size + 7) & ~(size_t)7);
}

/* Of the whole payload. */
static size_t payload_size(const struct own_task *task, const struct own_arg *args, int argc, enum refs_as as)
{
    size_t size = sizeof(struct lane_call_head) + (task->is_limited ? sizeof(struct lane_limits) : 0);
    for (int i = 0; i < argc; i++)
        size += value_size(&args[i], as);
    return size;
}

mt_status own_task_encode(struct own *own, struct own_task *task, const struct own_arg *args, int argc)
{
    const size_t          most = LANE_RECORD_MAX - LANE_RECORD_SIZE;
    enum refs_as          as = REFS_WHOLE;
    size_t                size = payload_size(task, args, argc, as);
    struct lane_call_head head = {(uint32_t)argc, task->results || task->kind == LANE_CREATE ? own_results_word(task) : 1};
    uint8_t              *at;
    struct lane_limits    limits;
    memcpy(&limits, task->small, sizeof limits);
    if (MT_UNLIKELY(size > most) && !task->is_ahead)
        size = payload_size(task, args, argc, as = REFS_ASKED);
    if (size > most)
        return mt_error(MT_EINVAL, 0, "inline arguments exceed 16 KiB: put large values into the object store");
    task->blob = own_blob_new(own, task, size);
    if (!task->blob) {
        task->blob = task->small;
        return mt_error(MT_ENOMEM, 0, "task arguments");
    }
    at = task->blob + sizeof head;
    memcpy(task->blob, &head, sizeof head);
    for (int i = 0; i < argc; i++)
        put_value(own, &at, task, &args[i], as);
    if (task->is_limited)
        memcpy(at, &limits, sizeof limits);
    own->queued_bytes += size - task->blob_size;
    task->blob_size = (uint32_t)size;
    return mt_ok();
}

/* What it names is used no more. */
static void ahead_end(struct own *own, struct own_task *task)
{
    if (!MT_PLANT(MT_PLANT_CELL_KEPT))
        own_edges_drop(own, task);
    task->is_ahead = false;
    task->cls->ahead_count--;
    own->edges.ahead_count--;
}

void own_task_unencode(struct own *own, struct own_task *task)
{
    struct lane_limits limits = {0};
    if (task->is_ahead)
        ahead_end(own, task);
    if (task->is_limited)
        memcpy(&limits, task->blob + task->blob_size - sizeof limits, sizeof limits);
    own_blob_free(own, task);
    if (task->is_limited)
        memcpy(task->small, &limits, sizeof limits);
    task->blob_size = 0;
}

/* ---- arguments that wait ---- */

void own_task_wait(struct own *own, struct own_task *task)
{
    struct own_waiter *waiter = (struct own_waiter *)(task->args + task->arg_count);
    for (uint16_t i = 0; i < task->arg_count; i++) {
        struct own_ref *ref = task->args[i].ref;
        if (!ref)
            continue;
        if (task->args[i].type != 'r' && !own_ref_is_there(ref)) {
            *waiter = (struct own_waiter){.next = ref->waiters, .kind = OWN_WAITS_TASK, .of.task = task};
            ref->waiters = waiter;
            task->waiting_for++;
            own_ref_ask(own, ref);
        }
        waiter++;
    }
}

static const struct own_failure *failed_argument(struct own *own, const struct own_task *task)
{
    for (uint16_t i = 0; i < task->arg_count; i++) {
        struct own_ref *ref = task->args[i].ref;
        if (ref && task->args[i].type != 'r' && ref->state == OWN_REF_FAILED) {
            ref->is_heard = 1; /* the task's own values tell it from now on */
            return ref->value.failure;
        }
        if (ref && task->args[i].type != 'r' && ref->again == OWN_AGAIN_LOST)
            return own_extra_of(own, ref)->lost;
    }
    return NULL;
}

/* ---- the end ---- */

void own_task_name(const struct own_task *task, char *out, size_t room)
{
    if (task->kind == LANE_CALL)
        snprintf(out, room, "%s.%s", task->actor->name, task->name);
    else
        snprintf(out, room, "%s", task->name);
}

static void args_free(struct own *own, struct own_task *task)
{
    for (uint16_t i = 0; i < task->arg_count; i++)
        if (task->args[i].ref)
            own_ref_unhold(own, task->args[i].ref);
    mt_spare_give(&own->spare, task->args, task->args_size);
    task->args = NULL;
    task->arg_count = 0;
}

void own_task_wait_no_more(struct own_task *task)
{
    for (uint16_t i = 0; i < task->arg_count; i++) {
        struct own_waiter **link = task->args[i].ref ? &task->args[i].ref->waiters : NULL;
        while (link && *link) {
            struct own_waiter *waiter = *link;
            if (waiter->kind == OWN_WAITS_TASK && waiter->of.task == task)
                *link = waiter->next;
            else
                link = &waiter->next;
        }
    }
    task->waiting_for = 0;
}

void own_task_free(struct own *own, struct own_task *task)
{
    if (task->args)
        args_free(own, task);
    own_blob_free(own, task);
    own_task_set_state(task, OWN_NO_TASK);
    task->next = own->free_tasks;
    own->free_tasks = task;
}

void own_task_finish(struct own *own, struct own_task *task)
{
    if (task->waiting_for)
        own_task_wait_no_more(task);
    if (MT_UNLIKELY(task->is_ahead))
        ahead_end(own, task);
    if (MT_UNLIKELY(task->cell))
        own_cell_drop(own, task);
    if (task->ref) {
        struct own_ref *ref = task->ref;
        task->ref = NULL;
        ref->task = NULL;
        own_ref_unhold(own, ref);
    }
    if (task->results)
        own_results_drop(own, task);
    own->queued_bytes -= sizeof *task + task->blob_size;
    own->outstanding--;
    if (task->cls && !task->actor)
        task->cls->outstanding--;
    own_task_free(own, task);
}

void own_task_fail(struct own *own, struct own_task *task, const struct own_failure *why)
{
    struct own_actor *actor = task->actor;
    if (task->kind == LANE_CREATE) {
        own_task_set_state(task, OWN_CREATED);
        actor->create = task;
        actor->create_failed = own_failure_new(own, why);
        own_actor_post(own, actor);
        return;
    }
    own_task_set_failed(own, task, why);
    own_task_finish(own, task);
}

void own_task_fail_status(struct own *own, struct own_task *task, mt_status st)
{
    struct own_failure f;
    char               name[sizeof f.function];
    own_task_name(task, name, sizeof name);
    own_failure_set(&f, st.code, "%s: %s", name, st.what);
    memcpy(f.function, name, sizeof f.function);
    own_task_fail(own, task, &f);
}

void own_cancel_done(struct own *own, struct own_task *task)
{
    struct own_failure f;
    bool               may_have_run = task->attempt || task->state == OWN_SENT;
    own_failure_set(&f, MT_ECANCELLED, "%s was cancelled %s", task->name,
                    task->state == OWN_SENT ? "while it ran" : "before it ran");
    f.outcome = may_have_run ? 2 : 0;
    f.attempt = task->attempt;
    f.node = own->node;
    snprintf(f.function, sizeof f.function, "%s", task->name);
    own_task_fail(own, task, &f);
}

bool own_task_encode_ready(struct own *own, struct own_task *task)
{
    const struct own_failure *failed = failed_argument(own, task);
    mt_status                 st;
    if (failed) {
        struct own_failure *why = own_failure_new(own, failed); /* one for the whole chain behind it */
        own_task_fail(own, task, why);
        own_failure_free(own, why);
        return false;
    }
    if (task->blob_size == 0) {
        st = own_task_encode(own, task, task->args, task->arg_count);
        if (st.code) {
            own_task_fail_status(own, task, st);
            return false;
        }
    }
    return true;
}

void own_task_unahead(struct own *own, struct own_task *task)
{
    own->queued_bytes -= task->blob_size;
    own_task_unencode(own, task);
    own_cell_drop(own, task);
    own_task_set_state(task, OWN_WAITING);
    if (task->waiting_for)
        return;
    own_task_set_state(task, OWN_WOKEN);
    own_task_post(own, task);
}

/* From its lane to its queue. What waits for it comes back too, since it may be sent again behind that. True: it waits itself. */
static bool came_back(struct own *own, struct own_task *task)
{
    if (!MT_PLANT(MT_PLANT_AHEAD_PASSES))
        own_ahead_over(own);
    if (!task->is_ahead) {
        own_cell_drop(own, task);
        return false;
    }
    own_task_unahead(own, task);
    return true;
}

/* Stopped since its node left: that costs no retry. What may not run twice (MANTA_NO_RETRY, a call without max_task_retries) does
 * not run again for it either; what has used its retries up was allowed some, and ran again before. */
static bool own_task_is_free_again(const struct own_task *task, int32_t code)
{
    return code == MT_EPREEMPTED && (task->retries_left != 0 || task->attempt > 0) && !MT_PLANT(MT_PLANT_DRAIN_COUNTED);
}

void own_task_retry_or_fail(struct own *own, struct own_task *task, const struct own_failure *why)
{
    if (task->cancel) {
        own_cancel_done(own, task);
        return;
    }
    bool is_free = own_task_is_free_again(task, why->code);
    if (why->code == MT_EPG_REMOVED || (task->retries_left == 0 && !is_free) ||
        (task->retries_left > 0 && task->attempt == UINT16_MAX)) {
        own_task_fail(own, task, why);
        return;
    }
    if (task->retries_left > 0 && !is_free && !MT_PLANT(MT_PLANT_RETRY_UNCOUNTED))
        task->retries_left--;
    task->attempt = (uint16_t)(task->attempt == UINT16_MAX ? 1 : task->attempt + 1); /* 0: it never ran */
    if (task->results)
        own_results_again(own, task);
    own_task_set_state(task, OWN_QUEUED);
    if (MT_UNLIKELY(task->cell || task->is_ahead) && came_back(own, task))
        return;
    if (task->actor && MT_PLANT(MT_PLANT_RETRY_LAST))
        own_queue_push(own_actor_queue(task->actor, task), task);
    else if (task->actor)
        own_queue_push_front(own_actor_queue(task->actor, task), task);
    else
        own_class_push_back(task->cls, task);
}

void own_task_back(struct own *own, struct own_task *task)
{
    own_task_set_state(task, OWN_QUEUED);
    if (MT_UNLIKELY(task->cancel)) {
        own_cancel_done(own, task);
        return;
    }
    if (MT_UNLIKELY(task->cell || task->is_ahead) && came_back(own, task))
        return;
    if (task->actor)
        own_queue_push_front(own_actor_queue(task->actor, task), task);
    else
        own_class_push_back(task->cls, task);
}
