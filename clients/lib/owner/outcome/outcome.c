/* SPDX-License-Identifier: Apache-2.0
 *
 * outcome.c - what workers write back: outcomes, items, tasks returned.
 *
 * Thread: the caller's, under the owner lock.
 */
#include "clients/lib/owner/outcome/outcome.h"

#include <stdio.h>

static void failure_of_record(struct own *own, const struct own_lane *lane, const struct own_task *task,
                              const struct lane_record *record, const uint8_t *payload, size_t size, struct own_failure *out)
{
    struct lane_failure head = {0};
    size_t              text, where, held;
    memset(out, 0, sizeof *out);
    if (size >= sizeof head)
        shm_read(&head, payload, sizeof head);
    text = size >= sizeof head ? size - sizeof head : 0;
    held = head.held_size < text ? head.held_size : text;
    text -= held;
    own_note_held(own, lane, payload + size - held, held);
    where = head.where_size < text ? head.where_size : text;
    out->code = (int32_t)(uint32_t)record->aux;
    out->user_code = (int32_t)(record->aux >> 32);
    out->outcome = out->code == MT_ETIMEDOUT ? 2 : 1; /* done: the function itself said so */
    out->pid = head.pid;
    out->node = head.node;
    out->attempt = task->attempt;
    own_task_name(task, out->function, sizeof out->function);
    snprintf(out->where, sizeof out->where, "%.*s", (int)where, (const char *)payload + sizeof head);
    snprintf(out->message, sizeof out->message, "%.*s", (int)(text - where), (const char *)payload + sizeof head + where);
}

static void done_with_error(struct own *own, struct own_task *task, const struct own_failure *failure)
{
    if (task->kind == LANE_CREATE) {
        own_actor_created(own, task->actor, task, failure);
        return;
    }
    if (MT_UNLIKELY(task->cancel)) {
        own_cancel_done(own, task);
        return;
    }
    if (task->retry_on_error && task->retries_left != 0) {
        own_task_retry_or_fail(own, task, failure);
        return;
    }
    own_task_set_failed(own, task, failure);
    own_settle_posted(own);
    own_task_finish(own, task);
}

static mt_status done_with_value(struct own *own, struct own_lane *lane, struct own_task *task, const uint8_t *payload, size_t size)
{
    struct own_failure failure;
    mt_status          st;
    if (MT_UNLIKELY(task->cancel)) {
        own_task_drop_values(own, lane, task, payload, size);
        own_cancel_done(own, task);
        return mt_ok();
    }
    st = own_task_set_values(own, lane, task, payload, size);
    own_settle_posted(own);
    if (st.code) {
        own_failure_set(&failure, st.code, "%s: %s", task->name, st.what);
        done_with_error(own, task, &failure);
    } else if (task->kind == LANE_CREATE) {
        own_actor_created(own, task->actor, task, NULL);
    } else if (MT_LIKELY(!lane || (!lane->is_remote && !task->attempt)) || !own_lineage_keep(own, task)) {
        own_task_finish(own, task);
    }
    return st;
}

static mt_status task_outcome(struct own *own, struct own_lane *lane, struct own_task *task, const struct lane_record *record,
                              const uint8_t *payload, size_t size)
{
    struct own_failure failure;
    bool               is_good = !(record->flags & LANE_DONE_ERROR);
    if (MT_UNLIKELY(task->cell)) /* before its ref is ready: who waits for both is woken once, then */
        own_cell_outcome(own, task, lane, is_good && !task->cancel, payload, size);
    if (is_good)
        return done_with_value(own, lane, task, payload, size);
    failure_of_record(own, lane, task, record, payload, size, &failure);
    done_with_error(own, task, &failure);
    return mt_ok();
}

mt_status own_task_outcome(struct own *own, struct own_lane *lane, struct own_task *task, const struct lane_record *record,
                           const uint8_t *payload, size_t size)
{
    mt_status st = task_outcome(own, lane, task, record, payload, size);
    own_settle_posted(own);
    return st;
}

mt_status own_lane_outcome(struct own *own, struct own_lane *lane, const struct lane_record *record, const uint8_t *payload)
{
    size_t           size = record->length - LANE_RECORD_SIZE;
    struct own_task *task = record->slot < LANE_SLOTS ? lane->tasks[record->slot] : NULL;
    uint64_t         took;

    if (record->kind == LANE_END)
        return mt_ok(); /* CTL_ENDED follows from the raylet */
    if (record->kind == LANE_EXIT || record->kind == LANE_SAVED)
        return own_actor_says(own, lane->actor, record, payload);
    if (!task || !mt_id_equal(task->id, record->id) || task->attempt != record->attempt)
        return record->kind == LANE_RETURNED || record->kind == LANE_DONE
                   ? mt_error(MT_EPROTO, 0, "an outcome for a slot that is not under way")
                   : mt_error(MT_EPROTO, 0, "unknown record from a worker");
    if (record->kind == LANE_ITEM)
        return own_stream_item(own, task, record, payload, size);
    if (record->kind == LANE_REFS)
        return own_task_declares(own, task, payload, size);
    if (record->kind != LANE_RETURNED && record->kind != LANE_DONE)
        return mt_error(MT_EPROTO, 0, "unknown record from a worker"); /* the task stays on the lane, whose end settles it */
    own_lane_clear(lane, task);
    if (record->kind == LANE_RETURNED) {
        if (task->is_ahead && !task->is_asked_back)
            task->cls->edge_pause = OWN_EDGE_PAUSE_TICKS; /* what it waited for is of no use there */
        own_task_back(own, task);
        return mt_ok();
    }
    took = (uint64_t)1 << ((record->flags >> 8) & 63);
    if (task->cls)
        task->cls->task_ns = (task->cls->task_ns * 7 + took) / 8;
    return task_outcome(own, lane, task, record, payload, size);
}

/* A worker that breaks the protocol is as good as dead: the raylet is asked to make it so, or the actor's owner. */
static void lane_break(struct own *own, struct own_lane *lane)
{
    struct ctl_lease message = {.lease = lane->lease};
    own_lane_set_state(lane, OWN_LANE_BROKEN);
    if (lane->actor && !lane->actor->is_mine)
        own_actor_kill(own, lane->actor, true);
    else
        own_send(own, CTL_KILL, own_id_next(own), &message, sizeof message);
}

/* Whether the worker can have left this claim of a task that is under way: not one that no protocol writes there, nor one that
 * says that it has not begun behind the last record that the worker has read. */
static bool claim_makes_sense(const struct own_lane *lane, const struct own_task *task, bool is_all_read)
{
    uint64_t              word = shm_load64(&lane->claims[task->sequence & (LANE_SLOTS - 1)]);
    enum lane_claim_state state = lane_claim_state_of(word);
    if (word != lane_claim_word(task->sequence, task->attempt, state) || state == LANE_FREE || state > LANE_DONE_CLAIM)
        return false;
    return state != LANE_PENDING || !is_all_read;
}

/* Nobody waits inside a task where none runs: the worker takes that word back before it tells the task's outcome. That of an actor
 * says it to all callers. */
static bool says_blocked_alone(const struct own_lane *lane)
{
    return !lane->actor && lane->state == OWN_LANE_OPEN && shm_load32(&lane_header_of(lane->memory)->worker_blocked);
}

/* A task that wrote over the lane it came by may have lost those behind it, and live on: nobody would ever speak of them. Or it has
 * said for ever that its worker waits inside a task: no other one would be sent there, and its CPU would be nobody's. */
void own_lane_look(struct own *own, struct own_lane *lane)
{
    uint64_t since = lane->looked_ns > lane->progress_ns ? lane->looked_ns : lane->progress_ns;
    uint32_t left = lane->inflight;
    if (MT_LIKELY(own->now_ns < since + MT_LIB_CLAIMS_NS) || lane->state == OWN_LANE_BROKEN)
        return;
    lane->looked_ns = own->now_ns;
    if (!left && says_blocked_alone(lane)) {
        lane_break(own, lane);
        return;
    }
    /* Calls of an actor may wait in its process after they were read. */
    bool is_all_read = !lane->actor && lane->forward.published == lane->forward.head &&
                       shm_load64_acquire(&lane_header_of(lane->memory)->forward.tail) == lane->forward.head;
    for (uint64_t back = 1; back <= LANE_SLOTS && back < lane->next_sequence && left; back++) {
        const struct own_task *task = lane->tasks[(lane->next_sequence - back) & (LANE_SLOTS - 1)];
        if (!task)
            continue;
        left--;
        if (!claim_makes_sense(lane, task, is_all_read)) {
            lane_break(own, lane);
            return;
        }
    }
}

void own_lane_poll(struct own *own, struct own_lane *lane)
{
    struct lane_record record;
    const uint8_t     *payload;
    bool               found = true, any = false;
    mt_status          st = mt_ok();

    if (lane->state == OWN_LANE_BROKEN || !lane_ring_has_more(&lane->back))
        return;
    while (found && st.code == 0) {
        st = lane_ring_peek(&lane->back, &record, &payload, &found);
        if (st.code || !found)
            break;
        st = own_lane_outcome(own, lane, &record, payload);
        lane_ring_consume(&lane->back);
        any |= record.kind != LANE_ITEM; /* what stands behind a generator waits for its end, not for its items */
    }
    lane_ring_release(&lane->back);
    own_settle_posted(own);
    if (any)
        lane->progress_ns = own->now_ns;
    if (st.code)
        lane_break(own, lane);
}
