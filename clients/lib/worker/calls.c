/* SPDX-License-Identifier: Apache-2.0
 *
 * calls.c - a concurrent actor's calls: out of the rings into their groups, claimed when they begin.
 *
 * Owns:   every struct wrk_call. Thread: any one at a time; libmanta holds its owner lock.
 * Always: a call in a group's queue is PENDING, so what a dead worker had only queued has not run; calls of one caller
 *         in one group begin in the order in which they were made.
 */
#include "clients/lib/worker/wrk.h"
#include "clients/lib/worker/private.h"

void wrk_calls_start(struct wrk *wrk, const uint32_t *limits, uint32_t count)
{
    MT_ASSERT(count >= 1 && count <= WRK_GROUPS);
    for (uint32_t i = 0; i < count; i++)
        wrk->groups[i].limit = limits[i] ? limits[i] : 1;
    wrk->group_count = count;
}

/* ---- out of the rings ---- */

static struct wrk_call *call_new(struct wrk *wrk, size_t size)
{
    struct wrk_call *call = wrk->free_calls;
    size_t           room = size <= 256 ? 256 : size;
    if (!call || call->room < size) {
        call = malloc(sizeof *call + room);
        if (call)
            call->room = room;
        return call;
    }
    wrk->free_calls = call->next;
    return call;
}

static void call_free(struct wrk *wrk, struct wrk_call *call)
{
    if (call->room > 256) {
        free(call);
        return;
    }
    call->next = wrk->free_calls;
    wrk->free_calls = call;
}

/* There is no memory to keep it until its turn, so its caller is told. EAGAIN: nor is there room to say so, for now. */
static mt_status call_refuse(struct wrk *wrk, struct wrk_lane *lane, const struct lane_record *record)
{
    static const char   text[] = "the actor's process has no memory to queue the call";
    struct lane_failure head = {.node = 0};
    struct wrk_run      run = {.lane = lane, .record = *record};
    shm_u64            *claim = &lane->claims[record->slot];
    uint8_t             payload[sizeof head + sizeof text - 1];
    memcpy(payload, &head, sizeof head);
    memcpy(payload + sizeof head, text, sizeof text - 1);
    if (!lane_claim_take(claim, record->sequence, record->attempt, LANE_RUNNING) &&
        lane_claim_state_of(shm_load64_acquire(claim)) != LANE_RUNNING) /* RUNNING: of the last time, when there was no room */
        return mt_ok();                                                 /* its owner has taken it back */
    if (!wrk_outcome(wrk, &run, false, LANE_DONE_ERROR, MT_ENOMEM, 0, payload, sizeof payload, 0, 0))
        return mt_error(MT_EAGAIN, 0, "the completion ring is full");
    return mt_ok();
}

/* EPROTO: the owner broke the protocol. EAGAIN: later. */
static mt_status call_take(struct wrk *wrk, struct wrk_lane *lane, const struct lane_record *record, const uint8_t *payload)
{
    size_t            size = record->length - LANE_RECORD_SIZE;
    uint32_t          group = record->flags >> LANE_CALL_GROUP_SHIFT & 15;
    struct wrk_call  *call;
    struct wrk_group *g;
    if (record->kind != LANE_CALL || record->slot >= LANE_SLOTS || group >= wrk->group_count)
        return mt_error(MT_EPROTO, 0, "a record that is no call of this actor");
    call = call_new(wrk, size);
    if (!call)
        return call_refuse(wrk, lane, record);
    g = &wrk->groups[group];
    shm_read(call->bytes, payload, size);
    call->run = (struct wrk_run){.lane = lane, .record = *record, .payload = call->bytes, .size = size};
    call->group = group;
    call->next = NULL;
    if (g->first)
        g->last->next = call;
    else
        g->first = call;
    g->last = call;
    lane->inflight++;
    wrk->calls_queued++;
    return mt_ok();
}

static void lane_take(struct wrk *wrk, struct wrk_lane *lane)
{
    struct lane_record record;
    const uint8_t     *payload;
    bool               found = true;
    while (!lane->is_recalled && lane_ring_has_more(&lane->forward)) {
        mt_status st = lane_ring_peek(&lane->forward, &record, &payload, &found);
        if (st.code == MT_OK && found)
            st = call_take(wrk, lane, &record, payload);
        lane->is_recalled = st.code != MT_OK && st.code != MT_EAGAIN;
        if (st.code || !found)
            return;
        wrk_lane_consumed(lane);
    }
}

static void take_all(struct wrk *wrk)
{
    for (size_t i = 0; i < wrk->lanes.count; i++) {
        struct wrk_lane *lane = wrk->lanes.data[i];
        size_t           count = wrk->lanes.count;
        if (MT_UNLIKELY(lane->is_recalled || shm_load32(&lane_header_of(lane->memory)->recall))) {
            lane->is_recalled = true;
            wrk_lane_recalled(wrk, lane);
            i -= wrk->lanes.count < count; /* the last one has taken its place */
            continue;
        }
        lane_take(wrk, lane);
    }
}

/* ---- running ---- */

static struct wrk_call *group_pop(struct wrk *wrk, struct wrk_group *g)
{
    struct wrk_call *call = g->first;
    g->first = call->next;
    wrk->calls_queued--;
    return call;
}

static struct wrk_call *group_next(struct wrk *wrk, struct wrk_group *g)
{
    while (g->first && g->running < g->limit) {
        struct wrk_call *call = group_pop(wrk, g);
        struct wrk_lane *lane = call->run.lane;
        if (!lane->is_recalled && lane_claim_take(&lane->claims[call->run.record.slot], call->run.record.sequence,
                                                  call->run.record.attempt, LANE_RUNNING)) {
            g->running++;
            wrk->calls_running++;
            return call;
        }
        lane->inflight--; /* its owner has taken it back, or is gone */
        call_free(wrk, call);
    }
    return NULL;
}

struct wrk_call *wrk_call_next(struct wrk *wrk)
{
    struct wrk_call *call = NULL;
    if (wrk->is_exiting)
        return NULL;
    take_all(wrk);
    if (MT_UNLIKELY(wrk->leave != WRK_STAYS))
        return NULL; /* what waits in the queues has not run: its callers call the next incarnation */
    for (uint32_t i = 0; i < wrk->group_count && !call; i++)
        call = group_next(wrk, &wrk->groups[(wrk->turn + i) % wrk->group_count]);
    wrk->turn++;
    return call;
}

bool wrk_other_groups_wait(const struct wrk *wrk)
{
    for (uint32_t i = 1; i < wrk->group_count; i++)
        if (wrk->groups[i].first)
            return true;
    return false;
}

bool wrk_call_waits(const struct wrk *wrk)
{
    for (uint32_t i = 0; wrk->calls_queued && wrk->leave == WRK_STAYS && i < wrk->group_count; i++)
        if (wrk->groups[i].first && wrk->groups[i].running < wrk->groups[i].limit)
            return true;
    return false;
}

bool wrk_call_done(struct wrk *wrk, struct wrk_call *call, uint16_t flags, int32_t code, int32_t user_code, const void *payload,
                   size_t size, uint64_t now_ns, uint64_t took_ns)
{
    struct wrk_lane *lane = call->run.lane;
    if (!wrk_outcome(wrk, &call->run, lane->inflight > 1, flags, code, user_code, payload, size, now_ns, took_ns))
        return false;
    lane->inflight--;
    wrk->groups[call->group].running--;
    wrk->calls_running--;
    call_free(wrk, call);
    return true;
}
