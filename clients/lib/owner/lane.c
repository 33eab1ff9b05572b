/* SPDX-License-Identifier: Apache-2.0
 *
 * lane.c - the owner's end of a lease: records out, outcomes in, and what happens to slots when it ends.
 *
 * Owns:   every struct own_lane; borrows its memory from the shell until it stands in out->unmap.
 * Thread: the caller's, under the owner lock.
 * Always: tasks[slot] is the task of that slot, and inflight counts them; a slot is reused only when it is empty. A
 *         task's slot is its sequence modulo the slots.
 *
 * After a death the completion ring is drained first, with what the worker wrote there and did not publish, then the
 * claims are read: PENDING has not run and costs no retry; RUNNING may have run and costs one.
 */
#include "clients/lib/owner/lineage.h"

#include <stdio.h>
#include <stdlib.h>
#include <sys/wait.h>

enum { PUBLISH_MAX = 16, PUBLISH_HUNGRY = 4 };

mt_status own_lane_open(struct own *own, const struct ctl_grant *grant, void *memory, struct lane_park *peer, struct own_lane **out)
{
    struct own_lane *lane = mt_stash_take(&own->stash, sizeof *lane);
    static_assert(sizeof *lane <= MT_STASH_LARGE_BYTES && sizeof(struct ctl_ended) <= MT_STASH_LARGE_BYTES &&
                      sizeof(struct own_failure) <= MT_STASH_LARGE_BYTES && sizeof(struct own_waiter) <= MT_STASH_SMALL_BYTES,
                  "what may not fail fits into what is set aside");
    if (!lane)
        return mt_error(MT_ENOMEM, 0, "open lane");
    lane->lease = grant->lease;
    lane->memory = memory;
    lane->peer = peer;
    lane->claims = lane_claims_of(memory);
    lane_producer_init(&lane->forward, &lane_header_of(memory)->forward, lane_forward_of(memory));
    lane_consumer_init(&lane->back, &lane_header_of(memory)->back, lane_back_of(memory));
    lane->next_sequence = 1;
    lane->progress_ns = own->now_ns;
    lane->worker = grant->peer;
    lane->node = grant->peer_node;
    lane->pid = grant->peer_pid;
    lane->is_remote = grant->flags & CTL_GRANT_REMOTE;
    lane->index = (uint32_t)own->lanes.count;
    if (mt_vec_push(&own->lanes, lane).code) {
        free(lane);
        return mt_error(MT_ENOMEM, 0, "open lane");
    }
    *out = lane;
    return mt_ok();
}

void own_lane_publish(struct own *own, struct own_lane *lane)
{
    lane->unpublished = 0;
    lane_ring_publish(&lane->forward);
    if (lane_park_must_wake(lane->peer))
        own_wake(own, lane->peer);
}

/* The sequence of the next record: the next one, but calls of a concurrent actor that take long keep their slots, so
 * those are passed over. 0: every slot is taken, or the one of the next task is. */
static uint64_t sequence_next(const struct own_lane *lane)
{
    uint64_t sequence = lane->next_sequence;
    if (lane->inflight == LANE_SLOTS)
        return 0;
    while (lane->tasks[sequence & (LANE_SLOTS - 1)]) {
        if (!lane->actor)
            return 0;
        sequence++;
    }
    return sequence;
}

bool own_lane_send(struct own *own, struct own_lane *lane, struct own_task *task)
{
    uint64_t           sequence = sequence_next(lane);
    uint32_t           slot = (uint32_t)(sequence & (LANE_SLOTS - 1));
    uint32_t           length = LANE_RECORD_SIZE + task->blob_size, room = length;
    uint8_t           *at;
    struct lane_record record = {.length = length,
                                 .kind = task->kind,
                                 .flags = (uint16_t)((task->is_limited ? LANE_TASK_LIMITED : 0) |
                                                     (task->kind == LANE_TASK && !task->retries_left ? LANE_TASK_ONCE : 0) |
                                                     task->group << LANE_CALL_GROUP_SHIFT),
                                 .epoch = own->epoch,
                                 .sequence = sequence,
                                 .id = task->id,
                                 .attempt = task->attempt,
                                 .slot = slot,
                                 .trace = task->submitted_ns,
                                 .aux = task->function};
    if (!sequence)
        return false;
    if (MT_UNLIKELY(task->results != NULL) && length <= LANE_RECORD_MAX - LANE_RECORD_SIZE)
        room += LANE_RECORD_SIZE; /* a generator's credit comes behind it */
    at = lane_ring_reserve(&lane->forward, room);
    if (!at)
        return false;
    shm_write(at, &record, sizeof record);
    shm_write(at + LANE_RECORD_SIZE, task->blob, task->blob_size);
    lane_claim_set(&lane->claims[slot], sequence, task->attempt);
    lane_ring_commit(&lane->forward, length);

    lane->tasks[slot] = task;
    lane->next_sequence = sequence + 1;
    if (lane->inflight++ == 0)
        lane->progress_ns = own->now_ns;
    lane->unpublished++;
    task->lane = lane;
    task->sequence = sequence;
    task->is_asked_back = false;
    task->state = OWN_SENT;
    if (MT_UNLIKELY(task->results != NULL))
        own_stream_sent(own, lane, task);
    /* A hungry worker gets the first record at once and then small batches: one line of shared memory moves for each
     * publication. A busy one is not waiting; the next get, or the helper's tick, publishes the rest. */
    if (lane->unpublished >= PUBLISH_MAX ||
        ((lane->unpublished >= PUBLISH_HUNGRY || lane->unpublished == lane->inflight) && lane_park_is_hungry(lane->peer)))
        own_lane_publish(own, lane);
    return true;
}

void own_lane_clear(struct own_lane *lane, struct own_task *task)
{
    uint32_t slot = (uint32_t)(task->sequence & (LANE_SLOTS - 1));
    lane->tasks[slot] = NULL;
    lane_claim_clear(&lane->claims[slot]);
    if (MT_UNLIKELY(task->cancel))
        lane_cancel_set(lane_header_of(lane->memory), slot, false);
    lane->inflight--;
    task->lane = NULL;
}

/* It has not run: it goes back to the front of its queue, in its old order where the caller walks newest first. */
static void task_back(struct own *own, struct own_task *task)
{
    task->state = OWN_QUEUED;
    if (MT_UNLIKELY(task->cancel)) {
        own_cancel_done(own, task);
        return;
    }
    if (task->actor)
        own_queue_push_front(own_actor_queue(task->actor, task), task);
    else
        own_class_push_back(task->cls, task);
}

/* ---- outcomes ---- */

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

mt_status own_task_outcome(struct own *own, struct own_lane *lane, struct own_task *task, const struct lane_record *record,
                           const uint8_t *payload, size_t size)
{
    struct own_failure failure;
    if (!(record->flags & LANE_DONE_ERROR))
        return done_with_value(own, lane, task, payload, size);
    failure_of_record(own, lane, task, record, payload, size, &failure);
    done_with_error(own, task, &failure);
    return mt_ok();
}

static mt_status lane_outcome(struct own *own, struct own_lane *lane, const struct lane_record *record, const uint8_t *payload)
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
    own_lane_clear(lane, task);
    if (record->kind == LANE_RETURNED) {
        task_back(own, task);
        return mt_ok();
    }
    if (record->kind != LANE_DONE)
        return mt_error(MT_EPROTO, 0, "unknown record from a worker");
    took = (uint64_t)1 << ((record->flags >> 8) & 63);
    if (task->cls)
        task->cls->task_ns = (task->cls->task_ns * 7 + took) / 8;
    return own_task_outcome(own, lane, task, record, payload, size);
}

/* A worker that breaks the protocol is as good as dead: the raylet is asked to make it so, or the actor's owner. */
static void lane_break(struct own *own, struct own_lane *lane)
{
    struct ctl_lease message = {.lease = lane->lease};
    lane->is_broken = true;
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

/* A task that wrote over the lane it came by may have lost those behind it, and live on: nobody would ever speak of them. */
void own_lane_look(struct own *own, struct own_lane *lane)
{
    uint64_t since = lane->looked_ns > lane->progress_ns ? lane->looked_ns : lane->progress_ns;
    uint32_t left = lane->inflight;
    if (MT_LIKELY(!left || own->now_ns < since + MT_LIB_CLAIMS_NS) || lane->is_broken)
        return;
    lane->looked_ns = own->now_ns;
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

    if (lane->is_broken || !lane_ring_has_more(&lane->back))
        return;
    while (found && st.code == 0) {
        st = lane_ring_peek(&lane->back, &record, &payload, &found);
        if (st.code || !found)
            break;
        st = lane_outcome(own, lane, &record, payload);
        lane_ring_consume(&lane->back);
        any |= record.kind != LANE_ITEM; /* what stands behind a generator waits for its end, not for its items */
    }
    lane_ring_release(&lane->back);
    if (any)
        lane->progress_ns = own->now_ns;
    if (st.code)
        lane_break(own, lane);
}

/* ---- taking back, and the end ---- */

static void revoke_remote(struct own *own, struct own_lane *lane, struct own_task *task)
{
    struct lane_record record = {.length = LANE_RECORD_SIZE,
                                 .kind = LANE_REVOKE,
                                 .epoch = own->epoch,
                                 .sequence = task->sequence,
                                 .id = task->id,
                                 .attempt = task->attempt,
                                 .slot = (uint32_t)(task->sequence & (LANE_SLOTS - 1))};
    if (task->is_asked_back || !lane_ring_push(&lane->forward, &record, NULL))
        return;
    task->is_asked_back = true; /* the answer is LANE_RETURNED, or its outcome */
    own_lane_publish(own, lane);
}

uint32_t own_lane_revoke(struct own *own, struct own_lane *lane, uint32_t keep)
{
    uint32_t taken = 0, left = lane->inflight;
    for (uint64_t back = 1; back <= LANE_SLOTS && back < lane->next_sequence && left > keep; back++) {
        uint64_t         sequence = lane->next_sequence - back;
        uint32_t         slot = (uint32_t)(sequence & (LANE_SLOTS - 1));
        struct own_task *task = lane->tasks[slot];
        if (!task)
            continue;
        left--;
        if (lane_claim_take(&lane->claims[slot], sequence, task->attempt, LANE_REVOKED) || MT_PLANT(MT_PLANT_REVOKE_BLIND)) {
            own_lane_clear(lane, task);
            task_back(own, task);
            taken++;
        } else if (lane->is_remote) {
            revoke_remote(own, lane, task);
        } else {
            break; /* older ones have begun as well: the worker goes in order */
        }
    }
    return taken;
}

bool own_task_withdraw(const struct own_task *task)
{
    if (task->attempt)
        return false;
    if (task->state != OWN_SENT || !task->lane) /* none: an actor's creation, which has come back and is kept for restarts */
        return task->state == OWN_WAITING || task->state == OWN_QUEUED;
    shm_u64 *slot = &task->lane->claims[task->sequence & (LANE_SLOTS - 1)];
    return lane_claim_take(slot, task->sequence, 0, LANE_REVOKED) || lane_claim_has_not_run(slot, task->sequence, 0) ||
           shm_load64_acquire(slot) == lane_claim_word(task->sequence, 0, LANE_REVOKED); /* we did, when it was last asked */
}

void own_lane_recall(struct own *own, struct own_lane *lane)
{
    lane->is_recalled = true;
    own_lane_revoke(own, lane, 0);
    if (lane->cls)
        own_class_pump(own, lane->cls);
}

static void failure_of_death(struct own *own, const struct own_task *task, const struct ctl_ended *why, struct own_failure *out)
{
    static const char silent[] = "its worker ended the lease and left no outcome; has it written over its shared memory?";
    const char       *end = memchr(why->text, '\n', sizeof why->text);
    size_t            first = end ? (size_t)(end - why->text) : strnlen(why->text, sizeof why->text);
    memset(out, 0, sizeof *out);
    out->code = why->code == MT_EPG_REMOVED ? why->code : task->actor ? MT_EACTOR_DIED : why->code ? why->code : MT_EWORKER_DIED;
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
        task_back(own, task);
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
    while (lane->inflight && !lane->is_broken && !lane->is_remote &&
           lane_next_unpublished(lane->claims, &lane->back, &record, &payload)) {
        if (lane_outcome(own, lane, &record, payload).code)
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
    settle_all(own, lane, why);
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
