/* SPDX-License-Identifier: Apache-2.0
 *
 * lane.c - the owner's end of a lease: records out, and what has not begun back.
 *
 * Owns:   every struct own_lane; borrows its memory from the shell until it stands in out->unmap.
 * Thread: the caller's, under the owner lock.
 * Always: tasks[slot] is the task of that slot, and inflight counts them; a slot is reused only when it is empty. A
 *         task's slot is its sequence modulo the slots.
 */
#include "clients/lib/owner/lane/lane.h"

#include "core/base/plant.h"

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

/* What it makes is wanted on another node, and goes there by us. */
static bool is_told(const struct own_task *task)
{
    return MT_UNLIKELY(task->cell) && task->cls->told_tasks;
}

bool own_lane_send(struct own *own, struct own_lane *lane, struct own_task *task)
{
    uint64_t sequence = sequence_next(lane);
    uint32_t slot = (uint32_t)(sequence & (LANE_SLOTS - 1));
    bool     feeds = MT_UNLIKELY(task->cell) && (!lane->is_remote || own_class_node(own, lane->cls)) &&
                 task->blob_size <= LANE_RECORD_MAX - LANE_RECORD_SIZE - sizeof(struct lane_edge);
    uint32_t           length = LANE_RECORD_SIZE + task->blob_size + (feeds ? (uint32_t)sizeof(struct lane_edge) : 0);
    uint32_t           room = length;
    uint8_t           *at;
    struct lane_record record = {.length = length,
                                 .kind = task->kind,
                                 .flags = (uint16_t)((task->is_limited ? LANE_TASK_LIMITED : 0) |
                                                     (task->kind == LANE_TASK && !task->retries_left ? LANE_TASK_ONCE : 0) |
                                                     (feeds ? LANE_TASK_FEEDS : 0) | (task->is_ahead ? LANE_TASK_AHEAD : 0) |
                                                     (is_told(task) ? LANE_TASK_TOLD : 0) | task->group << LANE_CALL_GROUP_SHIFT),
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
    if (MT_UNLIKELY(feeds)) {
        struct lane_edge edge = own_cell_name(own, task, lane->is_remote);
        shm_write(at + LANE_RECORD_SIZE + task->blob_size, &edge, sizeof edge);
    }
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
    task->feeds = feeds;
    if (MT_UNLIKELY(task->cell))
        own_cell_sent(own, task);
    own_task_set_state(task, OWN_SENT);
    if (MT_UNLIKELY(task->results != NULL))
        own_stream_sent(own, lane, task);
    if (MT_UNLIKELY(task->is_ahead) && lane->is_remote)
        own_edges_give(own, task, NULL);
    /* A hungry worker gets the first record at once and then small batches: one line of shared memory moves for each
     * publication. A busy one is not waiting; the next get, or the helper's tick, publishes the rest. */
    if (lane->unpublished >= PUBLISH_MAX ||
        ((lane->unpublished >= PUBLISH_HUNGRY || lane->unpublished == lane->inflight) && lane_park_is_hungry(lane->peer)))
        own_lane_publish(own, lane);
    return true;
}

/* ---- taking back ---- */

void own_lane_ask_back(struct own *own, struct own_lane *lane, struct own_task *task)
{
    struct lane_record record = own_task_record(own, task, LANE_REVOKE);
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
            if (MT_UNLIKELY(task->is_ahead))
                own_lane_passed(own, lane);
            own_task_back(own, task);
            taken++;
        } else if (lane->is_remote) {
            own_lane_ask_back(own, lane, task);
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
    if (task->state != OWN_SENT)
        return task->state == OWN_WAITING || task->state == OWN_QUEUED;
    shm_u64 *slot = &task->lane->claims[task->sequence & (LANE_SLOTS - 1)];
    return lane_claim_take(slot, task->sequence, 0, LANE_REVOKED) || lane_claim_has_not_run(slot, task->sequence, 0) ||
           shm_load64_acquire(slot) == lane_claim_word(task->sequence, 0, LANE_REVOKED); /* we did, when it was last asked */
}
