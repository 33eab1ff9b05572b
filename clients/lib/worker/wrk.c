/* SPDX-License-Identifier: Apache-2.0
 *
 * wrk.c - the worker's end of its lanes: claim, report, return.
 *
 * Owns:   every struct wrk_lane; borrows its memory from the shell until it stands in out->unmap.
 * Thread: the one that runs tasks.
 * Always: a record is consumed only after its outcome is written, so what a dead worker held is in the claims.
 */
#include "clients/lib/worker/wrk.h"
#include "clients/lib/worker/private.h"

#include "core/base/limits/lib.h"

enum {
    OUTCOMES_PER_PUBLISH = 16,
    OUTCOME_DELAY_NS = 20 * 1000, /* an outcome waits at most so long for company */
    FEEDS_PER_WAKE = 64, /* the same of outcomes that go to a cell as well: shown at once, but nobody waits for the owner */
    FEEDS_DELAY_NS = 200 * 1000,
    RECORDS_PER_RELEASE = 16,
};

void wrk_init(struct wrk *wrk, uint32_t epoch)
{
    memset(wrk, 0, sizeof *wrk);
    wrk->epoch = epoch;
}

static void calls_free(struct wrk_call *call)
{
    while (call) {
        struct wrk_call *next = call->next;
        free(call);
        call = next;
    }
}

void wrk_fini(struct wrk *wrk)
{
    for (uint32_t i = 0; i < wrk->group_count; i++)
        calls_free(wrk->groups[i].first);
    calls_free(wrk->free_calls);
    for (size_t i = 0; i < wrk->lanes.count; i++) {
        wrk_given_free(wrk->lanes.data[i]);
        free(wrk->lanes.data[i]);
    }
    free(wrk->spare);
    mt_vec_fini(&wrk->lanes);
    mt_vec_fini(&wrk->boards_gone);
    mt_vec_fini(&wrk->out.unmap);
    mt_vec_fini(&wrk->out.deaths);
    mt_buf_fini(&wrk->out.up);
}

mt_status wrk_prepare(struct wrk *wrk)
{
    mt_status lanes = mt_vec_reserve(&wrk->lanes, MT_LIB_SPARE), unmap = mt_vec_reserve(&wrk->out.unmap, MT_LIB_SPARE);
    mt_status up = mt_buf_reserve(&wrk->out.up, MT_LIB_SPARE_BYTES / 8); /* says little: how leases end, and waits */
    if (!wrk->spare)
        wrk->spare = calloc(1, sizeof *wrk->spare);
    if (!wrk->spare)
        return mt_error(MT_ENOMEM, 0, "a spare lane");
    return lanes.code ? lanes : unmap.code ? unmap : up;
}

static void out_wake(struct wrk *wrk, struct lane_park *park)
{
    for (uint32_t i = 0; i < wrk->out.wake_count; i++)
        if (wrk->out.wake[i] == park)
            return;
    if (wrk->out.wake_count == sizeof wrk->out.wake / sizeof wrk->out.wake[0])
        lane_park_wake(wrk->out.wake[--wrk->out.wake_count]);
    wrk->out.wake[wrk->out.wake_count++] = park;
}

static void send_up(struct wrk *wrk, uint16_t kind, const void *payload, size_t size)
{
    own_out_record(&wrk->out, kind, wrk->epoch, (mt_id){0, 0}, payload, size);
}

/* ---- lanes come and go ---- */

static mt_status lane_open(struct wrk *wrk, const struct ctl_grant *grant, void *memory, struct lane_park *park)
{
    struct wrk_lane *lane;
    if (!memory || !park)
        return mt_error(MT_EPROTO, 0, "a lane without memory");
    if (wrk_prepare(wrk).code && (!wrk->spare || wrk->lanes.count == wrk->lanes.capacity))
        return mt_error(MT_ENOMEM, 0, "open lane");
    lane = wrk->spare;
    wrk->spare = NULL;
    (void)mt_vec_push(&wrk->lanes, lane).code; /* there is room */
    lane->lease = grant->lease;
    lane->owner = grant->peer;
    lane->owner_node = grant->peer_node;
    lane->is_creator = grant->flags & CTL_CLASS_ACTOR;
    lane->memory = memory;
    lane->peer = park;
    lane->claims = lane_claims_of(memory);
    lane_consumer_init(&lane->forward, &lane_header_of(memory)->forward, lane_forward_of(memory));
    lane->scan = lane->forward;
    lane_producer_init(&lane->back, &lane_header_of(memory)->back, lane_back_of(memory));
    return mt_ok();
}

static void lane_publish(struct wrk *wrk, struct wrk_lane *lane)
{
    lane->untold = 0;
    lane_ring_publish(&lane->back);
    if (lane_park_must_wake(lane->peer))
        out_wake(wrk, lane->peer);
}

static void lane_release(struct wrk_lane *lane)
{
    lane->unreleased = 0;
    lane_ring_release(&lane->forward);
}

void wrk_lane_consumed(struct wrk_lane *lane)
{
    lane_ring_consume(&lane->forward);
    if (++lane->unreleased >= RECORDS_PER_RELEASE)
        lane_release(lane);
}

static void lane_forget(struct wrk *wrk, struct wrk_lane *lane)
{
    struct ctl_lease message = {.lease = lane->lease};
    lane_release(lane);
    lane_publish(wrk, lane);
    send_up(wrk, CTL_DRAINED, &message, sizeof message);
    for (size_t i = 0; i < wrk->lanes.count; i++)
        if (wrk->lanes.data[i] == lane)
            mt_vec_remove_swap(&wrk->lanes, i);
    if (lane->is_creator)
        wrk->is_over = true;
    (void)mt_vec_push(&wrk->out.unmap, lane->memory).code;
    if (lane->cells) /* without memory for the note it stays mapped */
        (void)mt_vec_push(&wrk->boards_gone, (struct wrk_board){lane->region, lane->cell_count, lane->cells}).code;
    wrk_given_free(lane);
    free(lane);
    wrk_boards_wanted(wrk); /* not what only this one wanted */
}

static bool report(struct wrk *wrk, struct wrk_lane *lane, uint16_t kind, const struct lane_record *of)
{
    struct lane_record record = {.length = LANE_RECORD_SIZE, .kind = kind, .epoch = wrk->epoch};
    if (of) {
        record.sequence = of->sequence;
        record.id = of->id;
        record.attempt = of->attempt;
        record.slot = of->slot;
    }
    if (!lane_ring_push(&lane->back, &record, NULL))
        return false;
    lane->untold++;
    return true;
}

/* Gives back every task that stands in the ring and has not begun. The running one is the first record and stays, and so
 * do calls: they wait for their actor. False: the completion ring is full; what is left comes back in the next round. */
static bool return_pending(struct wrk *wrk, struct wrk_lane *lane)
{
    struct lane_consumer ahead = lane->forward; /* looks past the running record */
    struct lane_record   record;
    const uint8_t       *payload;
    bool                 found;

    if (wrk->running == lane)
        lane_ring_consume(&ahead);
    while (lane_ring_peek(&ahead, &record, &payload, &found).code == 0 && found) {
        if (record.kind != LANE_TASK && record.kind != LANE_ARGUMENT)
            break; /* calls of an actor wait in their lane until it can take them */
        if (record.kind == LANE_TASK && record.slot < LANE_SLOTS &&
            lane_claim_take(&lane->claims[record.slot], record.sequence, record.attempt, LANE_RETURNED_CLAIM) &&
            !report(wrk, lane, LANE_RETURNED, &record))
            return false; /* the claim says RETURNED: the owner finds it when the lease ends */
        lane_ring_consume(&ahead);
    }
    if (wrk->running != lane)
        lane->forward = ahead;
    lane_publish(wrk, lane);
    return true;
}

void wrk_lane_recalled(struct wrk *wrk, struct wrk_lane *lane)
{
    if (lane->inflight)
        return; /* it ends with the last call of it that runs */
    if (lane->is_creator && wrk->leave != WRK_SAVED && shm_load32(&lane_header_of(lane->memory)->recall) == LANE_RECALL_SAVE) {
        wrk->leave = wrk->leave == WRK_STAYS ? WRK_SAVES : wrk->leave;
        return;
    }
    if (!lane->is_creator && !return_pending(wrk, lane))
        return;
    if (report(wrk, lane, LANE_END, NULL))
        lane_forget(wrk, lane);
}

mt_status wrk_control(struct wrk *wrk, const struct lane_record *record, const uint8_t *payload, void *memory,
                      struct lane_park *park)
{
    size_t           size = record->length - LANE_RECORD_SIZE;
    struct ctl_grant grant;
    struct ctl_lease lease;

    if (record->kind == CTL_LANE) {
        if (size < sizeof grant)
            return mt_error(MT_EPROTO, 0, "a lane record that is too short");
        shm_read(&grant, payload, sizeof grant);
        return lane_open(wrk, &grant, memory, park);
    }
    if (record->kind == CTL_RECALL && size >= sizeof lease) {
        shm_read(&lease, payload, sizeof lease);
        for (size_t i = 0; i < wrk->lanes.count; i++)
            if (wrk->lanes.data[i]->lease == lease.lease)
                wrk->lanes.data[i]->is_recalled = true;
    }
    return mt_ok();
}

/* ---- running ---- */

/* A record that a correct owner never sends ends the lane; the owner learns it from the raylet. */
static void lane_broken(struct wrk *wrk, struct wrk_lane *lane)
{
    lane->is_recalled = true;
    wrk_lane_recalled(wrk, lane);
}

/* Its owner sends it anew. False: the completion ring is full, and it is tried again. */
static bool give_back(struct wrk *wrk, struct wrk_lane *lane, const struct lane_record *record)
{
    shm_u64 *claim = &lane->claims[record->slot];
    if (!lane_claim_take(claim, record->sequence, record->attempt, LANE_RETURNED_CLAIM) &&
        shm_load64(claim) != lane_claim_word(record->sequence, record->attempt, LANE_RETURNED_CLAIM))
        return true; /* its owner has taken it back */
    if (!report(wrk, lane, LANE_RETURNED, record))
        return false;
    lane_publish(wrk, lane);
    return true;
}

static bool lane_claim_next(struct wrk *wrk, struct wrk_lane *lane, struct wrk_run *run)
{
    bool found = true;
    while (lane_ring_has_more(&lane->forward)) {
        if (lane_ring_peek(&lane->forward, &run->record, &run->payload, &found).code) {
            lane_broken(wrk, lane);
            return false;
        }
        if (!found)
            return false;
        if (run->record.kind == LANE_ARGUMENT) { /* its task has gone before */
            lane_ring_consume(&lane->forward);
            continue;
        }
        if (run->record.kind < LANE_TASK || run->record.kind > LANE_CALL || run->record.slot >= LANE_SLOTS) {
            lane_broken(wrk, lane);
            return false;
        }
        enum lane_cell_state ahead = LANE_CELL_VALUE;
        if (MT_UNLIKELY(run->record.kind == LANE_TASK && run->record.flags & LANE_TASK_AHEAD) &&
            (ahead = wrk_ahead_state(wrk, lane, &run->record, run->payload)) == LANE_CELL_EMPTY)
            return false;
        if (MT_UNLIKELY(run->record.flags & LANE_TASK_FEEDS) && wrk_lacks_board(wrk, lane, &run->record, run->payload))
            return false;
        if (MT_UNLIKELY(ahead != LANE_CELL_VALUE)) {
            if (!give_back(wrk, lane, &run->record))
                return false;
        } else if (lane_claim_take(&lane->claims[run->record.slot], run->record.sequence, run->record.attempt, LANE_RUNNING)) {
            run->lane = lane;
            run->size = run->record.length - LANE_RECORD_SIZE;
            run->cell = NULL;
            if (MT_UNLIKELY(run->record.flags & LANE_TASK_FEEDS))
                wrk_feeds(wrk, run);
            return true;
        }
        lane_ring_consume(&lane->forward); /* its owner has taken it back */
    }
    return false;
}

/* Outcomes that wait for company would wait for this task's end, however far off that is. */
static void publish_before(struct wrk *wrk, const struct wrk_run *next)
{
    if (MT_LIKELY(next->record.aux == wrk->quick))
        return;
    for (size_t i = 0; i < wrk->lanes.count; i++)
        if (wrk->lanes.data[i]->untold)
            lane_publish(wrk, wrk->lanes.data[i]);
}

/* The actor's state has gone to its creator: only its lane has something left to do, which is to end. */
static void leave_on(struct wrk *wrk)
{
    for (size_t i = 0; wrk->leave == WRK_SAVED && i < wrk->lanes.count; i++) {
        if (!wrk->lanes.data[i]->is_creator)
            continue;
        wrk_lane_recalled(wrk, wrk->lanes.data[i]);
        return;
    }
}

bool wrk_save_begin(struct wrk *wrk)
{
    if (MT_LIKELY(wrk->leave != WRK_SAVES) || wrk->calls_running)
        return false;
    wrk->leave = WRK_SAVING;
    return true;
}

void wrk_saved(struct wrk *wrk)
{
    MT_ASSERT(wrk->leave == WRK_SAVING);
    wrk->leave = WRK_SAVED;
}

bool wrk_next(struct wrk *wrk, struct wrk_run *out)
{
    size_t count = wrk->lanes.count;
    if (MT_UNLIKELY(wrk->leave != WRK_STAYS)) {
        leave_on(wrk);
        return false;
    }
    if (wrk->turn >= count)
        wrk->turn = 0; /* lanes have gone since */
    for (size_t i = 0; i < count; i++) {
        size_t           at = wrk->turn + i < count ? wrk->turn + i : wrk->turn + i - count;
        struct wrk_lane *lane = wrk->lanes.data[at];
        if (MT_UNLIKELY(lane->is_recalled || shm_load32(&lane_header_of(lane->memory)->recall))) {
            lane->is_recalled = true;
            wrk_lane_recalled(wrk, lane);
            return false; /* the list has changed: the caller comes again */
        }
        if (lane_claim_next(wrk, lane, out)) {
            wrk->turn = at + 1 < count ? at + 1 : 0;
            wrk->running = lane;
            wrk->run = *out;
            publish_before(wrk, out);
            return true;
        }
        if (wrk->lanes.count != count)
            return false;
    }
    return false;
}

/* Writes the outcome of one claimed task and paces its publication. `has_more`: another outcome of the lane comes soon. */
bool wrk_outcome(struct wrk *wrk, const struct wrk_run *run, bool has_more, uint16_t flags, int32_t code, int32_t user_code,
                 const void *payload, size_t size, uint64_t now_ns, uint64_t took_ns)
{
    struct wrk_lane   *lane = run->lane;
    uint16_t           log2_took = took_ns ? (uint16_t)(63 - __builtin_clzll(took_ns)) : 0;
    struct lane_record record = {.length = (uint32_t)(LANE_RECORD_SIZE + size),
                                 .kind = LANE_DONE,
                                 .flags = (uint16_t)(flags | log2_took << 8),
                                 .epoch = wrk->epoch,
                                 .sequence = run->record.sequence,
                                 .id = run->record.id,
                                 .attempt = run->record.attempt,
                                 .slot = run->record.slot,
                                 .aux = (uint32_t)code | (uint64_t)(uint32_t)user_code << 32};

    if (MT_PLANT(MT_PLANT_CELL_BEFORE) && run->cell)
        (void)lane_cell_fill(run->cell, run->generation, !(flags & LANE_DONE_ERROR), payload, size);
    if (!lane_ring_push(&lane->back, &record, payload) && !lane->is_gone) {
        lane_publish(wrk, lane);
        return false;
    }
    lane_claim_finish(&lane->claims[record.slot], record.sequence, record.attempt);
    bool feeds = MT_UNLIKELY(run->cell != NULL);
    if (MT_UNLIKELY(run->record.kind == LANE_TASK && run->record.flags & LANE_TASK_TOLD))
        has_more = false;
    if (feeds && lane_cell_fill(run->cell, run->generation, !(flags & LANE_DONE_ERROR) && !wrk_is_cancelled(run), payload, size))
        has_more = false; /* who waits for it sleeps: the owner wakes him */
    if (feeds && lane_ring_is_taken(&lane->back))
        lane->untold = 0; /* its owner was woken by another worker, and has looked here too */
    if (lane->untold++ == 0)
        lane->oldest_ns = now_ns;
    if (lane->untold >= (feeds ? FEEDS_PER_WAKE : OUTCOMES_PER_PUBLISH) ||
        now_ns - lane->oldest_ns >= (feeds ? FEEDS_DELAY_NS : OUTCOME_DELAY_NS) || !has_more)
        lane_publish(wrk, lane);
    else if (feeds)
        lane_ring_publish(&lane->back);
    return true;
}

/* Whether a record stands behind the one that peek showed. */
static bool has_more_behind(struct lane_consumer *c)
{
    uint64_t next = c->tail + c->record_bytes;
    if (c->head_seen == next)
        c->head_seen = shm_load64_acquire(&c->words->head);
    return c->head_seen != next;
}

bool wrk_done(struct wrk *wrk, uint16_t flags, int32_t code, int32_t user_code, const void *payload, size_t size, uint64_t now_ns,
              uint64_t took_ns)
{
    struct wrk_lane *lane = wrk->run.lane;
    if (!wrk_outcome(wrk, &wrk->run, has_more_behind(&lane->forward), flags, code, user_code, payload, size, now_ns, took_ns))
        return false;
    wrk_lane_consumed(lane);
    wrk->running = NULL;
    wrk->quick = took_ns < (wrk->run.cell ? FEEDS_DELAY_NS : OUTCOME_DELAY_NS) ? wrk->run.record.aux : 0;
    return true;
}

bool wrk_tell_creator(struct wrk *wrk, uint16_t kind, const void *payload, size_t size)
{
    struct lane_record record = {.length = (uint32_t)(LANE_RECORD_SIZE + size), .kind = kind, .epoch = wrk->epoch};
    for (size_t i = 0; i < wrk->lanes.count; i++) {
        struct wrk_lane *lane = wrk->lanes.data[i];
        if (!lane->is_creator)
            continue;
        bool ok = lane_ring_push(&lane->back, &record, payload);
        lane_publish(wrk, lane);
        return ok;
    }
    return true;
}

bool wrk_report(struct wrk *wrk, const struct wrk_run *run, uint16_t kind, uint64_t aux, const void *head, size_t head_size,
                const void *data, size_t size)
{
    struct wrk_lane   *lane = run->lane;
    struct lane_record record = {.length = (uint32_t)(LANE_RECORD_SIZE + head_size + size),
                                 .kind = kind,
                                 .epoch = wrk->epoch,
                                 .sequence = run->record.sequence,
                                 .id = run->record.id,
                                 .attempt = run->record.attempt,
                                 .slot = run->record.slot,
                                 .aux = aux};
    uint8_t           *at = lane_ring_reserve(&lane->back, record.length);
    if (!at) {
        lane_publish(wrk, lane);
        return false;
    }
    shm_write(at, &record, sizeof record);
    shm_write(at + sizeof record, head, head_size);
    if (size)
        shm_write(at + sizeof record + head_size, data, size);
    lane_ring_commit(&lane->back, record.length);
    lane_publish(wrk, lane);
    return true;
}

void wrk_owner_gone(struct wrk *wrk, const struct wrk_run *run)
{
    (void)wrk;
    run->lane->is_gone = true;
}

uint64_t wrk_used(const struct wrk_run *run)
{
    return lane_credit_of(run->lane->memory, run->record.slot, run->record.sequence);
}

static bool call_stands(const struct wrk *wrk, mt_id call)
{
    for (size_t i = 0; i < wrk->lanes.count; i++) {
        struct lane_consumer ahead = wrk->lanes.data[i]->forward;
        struct lane_record   record;
        const uint8_t       *payload;
        bool                 found;
        for (uint32_t n = 0; n < LANE_SLOTS; n++) {
            if (lane_ring_peek(&ahead, &record, &payload, &found).code || !found || record.kind == LANE_TASK)
                break;
            if (mt_id_equal(record.id, call))
                return true;
            lane_ring_consume(&ahead);
        }
    }
    return false;
}

void wrk_tie(struct wrk *wrk, struct own *own)
{
    own->wrk = wrk;
    own->call_stands = call_stands;
}

void wrk_block(struct wrk *wrk)
{
    if (wrk->is_blocked || (!wrk->running && !wrk->calls_running))
        return;
    wrk->is_blocked = true;
    for (size_t i = 0; i < wrk->lanes.count; i++) {
        struct wrk_lane *lane = wrk->lanes.data[i];
        shm_store32_release(&lane_header_of(lane->memory)->worker_blocked, 1);
        (void)return_pending(wrk, lane);
    }
    send_up(wrk, CTL_BLOCKED, NULL, 0);
}

void wrk_unblock(struct wrk *wrk)
{
    if (!wrk->is_blocked)
        return;
    wrk->is_blocked = false;
    for (size_t i = 0; i < wrk->lanes.count; i++)
        shm_store32_release(&lane_header_of(wrk->lanes.data[i]->memory)->worker_blocked, 0);
    send_up(wrk, CTL_UNBLOCKED, NULL, 0);
}

void wrk_flush(struct wrk *wrk)
{
    for (size_t i = 0; i < wrk->lanes.count; i++) {
        struct wrk_lane *lane = wrk->lanes.data[i];
        if (lane->untold)
            lane_publish(wrk, lane);
        if (lane->unreleased)
            lane_release(lane);
        if (wrk->is_blocked && lane_ring_has_more(&lane->forward))
            (void)return_pending(wrk, lane);
    }
}

void wrk_retire(struct wrk *wrk)
{
    for (size_t i = 0; i < wrk->lanes.count; i++)
        wrk->lanes.data[i]->is_recalled = true;
}

/* What still stands in the ring of a recalled lane is its owner's again: there is nothing to do until its calls have ended. */
static bool lane_has_work(struct wrk *wrk, struct wrk_lane *lane)
{
    if (lane->is_recalled || shm_load32(&lane_header_of(lane->memory)->recall))
        return !lane->inflight && wrk->leave != WRK_SAVING && (wrk->leave != WRK_SAVES || !wrk->calls_running);
    return lane_ring_has_more(&lane->forward) && !wrk_lane_waits_ahead(wrk, lane);
}

bool wrk_has_work(struct wrk *wrk)
{
    if (MT_UNLIKELY(wrk->asks_board))
        return true;
    for (size_t i = 0; i < wrk->lanes.count; i++)
        if (lane_has_work(wrk, wrk->lanes.data[i]))
            return true;
    return false;
}

unsigned wrk_where_fed(const struct wrk *wrk, uint32_t cpu)
{
    unsigned where = 0;
    for (size_t i = 0; i < wrk->lanes.count; i++)
        if (!lane_park_is_asleep(shm_load32(&wrk->lanes.data[i]->peer->state))) /* a sleeper wants no CPU */
            where |= shm_load32(&wrk->lanes.data[i]->peer->cpu) == cpu ? OWN_HERE : OWN_ELSEWHERE;
    return where;
}

bool wrk_is_crowded(const struct wrk *wrk, uint32_t cpu, uint32_t cpus)
{
    uint32_t here = 1, elsewhere = 0;
    for (size_t i = 0; i < wrk->lanes.count; i++) {
        const struct wrk_lane *lane = wrk->lanes.data[i];
        uint32_t               at = shm_load32(&lane->peer->cpu);
        if (lane->is_creator || at == 0 || lane_park_is_asleep(shm_load32(&lane->peer->state)))
            continue;
        here += at == cpu;
        elsewhere += at != cpu;
    }
    return cpus > 1 && here >= 2 + elsewhere / (cpus - 1);
}
