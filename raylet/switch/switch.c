/* SPDX-License-Identifier: Apache-2.0
 *
 * switch.c - moving records: up rings to the core, the core's words into down rings, lanes to and from other nodes.
 *
 * Owns: its view of each ring, and what waits for room in one; borrows the memory. Thread: one at a time.
 * Always: records for one process keep their order: while some wait, none goes past them.
 */
#include "raylet/switch/switch.h"

#include "core/base/buf.h"
#include "core/base/plant.h"
#include "core/ds/map.h"

#include <stdlib.h>

/* One process of this node. */
struct sw_process {
    uint64_t             conn;
    struct lane_consumer up;
    struct lane_producer down;
    struct lane_park    *park;
    mt_buf               backlog;      /* whole records, padded, that did not fit into the down ring */
    size_t               backlog_done; /* of it: already in the ring */
    bool                 is_broken;    /* nothing is read from it, nothing written to it */
};

/* One end of a lane whose other end is on another node. */
struct sw_lane {
    uint64_t             lane, conn; /* the process at this node's end */
    uint32_t             node, route, peer_route;
    enum rlt_side        side;
    void                *memory;
    shm_u64             *claims;
    struct lane_consumer from;
    struct lane_producer to;
    mt_buf               backlog;
    size_t               backlog_done;
    uint64_t             taken; /* OWNER side: highest sequence of a task that came in */
    struct sw_held      *held;  /* what goes down to the process when the backlog is in the ring */
    uint32_t             ahead; /* OWNER side: tasks of it that may wait for a cell, one bit of the next word each */
    uint64_t             ahead_slots[LANE_SLOTS / 64];
    bool                 is_broken;
    bool                 is_over;    /* its worker is gone: nothing more is read from the owner */
    bool                 is_closing; /* LANE_CLOSED follows once nothing waits */
};

/* A record for a down ring that waits behind a lane's last records. */
struct sw_held {
    struct rlt_a_sw_down down;
    uint8_t              payload[];
};

/* Records that leave for one node, collected for one round. */
struct sw_node {
    uint32_t node;
    bool     is_paused;
    mt_buf   run;
};

struct sw {
    mt_map   processes; /* conn -> sw_process */
    mt_map   lanes;     /* number -> sw_lane */
    mt_map   routes;    /* route -> sw_lane */
    mt_map   nodes;     /* number -> sw_node */
    uint64_t ahead;     /* tasks of all lanes that may wait for a cell */
};

struct sw *sw_new(void)
{
    return calloc(1, sizeof(struct sw));
}

static void process_free(struct sw *sw, struct sw_process *p)
{
    mt_map_remove(&sw->processes, mt_map_key(p->conn));
    mt_buf_fini(&p->backlog);
    free(p);
}

static void lane_free(struct sw *sw, struct sw_lane *l)
{
    mt_map_remove(&sw->lanes, mt_map_key(l->lane));
    mt_map_remove(&sw->routes, mt_map_key(l->route));
    sw->ahead -= l->ahead;
    mt_buf_fini(&l->backlog);
    free(l->held);
    free(l);
}

void sw_free(struct sw *sw)
{
    MT_MAP_EACH(&sw->processes, entry)
        process_free(sw, entry->value.ptr);
    MT_MAP_EACH(&sw->lanes, entry)
        lane_free(sw, entry->value.ptr);
    MT_MAP_EACH(&sw->nodes, entry) {
        struct sw_node *n = entry->value.ptr;
        mt_buf_fini(&n->run);
        free(n);
    }
    mt_map_fini(&sw->processes);
    mt_map_fini(&sw->lanes);
    mt_map_fini(&sw->routes);
    mt_map_fini(&sw->nodes);
    free(sw);
}

mt_status sw_process_add(struct sw *sw, uint64_t conn, void *lane, struct lane_park *park)
{
    struct sw_process *p = calloc(1, sizeof *p);
    if (!p)
        return mt_error(MT_ENOMEM, 0, "switch: a process");
    struct lane_header *header = lane_header_of(lane);
    p->conn = conn;
    p->park = park;
    lane_consumer_init(&p->up, &header->forward, lane_forward_of(lane));
    lane_producer_init(&p->down, &header->back, lane_back_of(lane));
    mt_status st = mt_map_put_ptr(&sw->processes, mt_map_key(conn), p);
    if (st.code)
        free(p);
    return st;
}

/* ---- down ------------------------------------------------------------------------------------------------------ */

static void wake(struct sw_out *out, struct lane_park *park)
{
    if (park && lane_park_must_wake(park))
        out->wake(out, park);
}

/* What waited goes first. True: all of it is in the ring. */
static bool backlog_flush(struct lane_producer *ring, mt_buf *backlog, size_t *done)
{
    while (*done < backlog->size) {
        struct lane_record record;
        memcpy(&record, backlog->data + *done, sizeof record);
        if (!lane_ring_push(ring, &record, backlog->data + *done + LANE_RECORD_SIZE))
            return false;
        *done += lane_record_padded(record.length);
    }
    backlog->size = *done = 0;
    return true;
}

/* Into the ring, or behind those that wait. ENOMEM: it is lost. */
static mt_status push_or_keep(struct lane_producer *ring, mt_buf *backlog, size_t *done, const struct lane_record *record,
                              const void *payload)
{
    static const uint8_t zeroes[64];
    size_t               padding = lane_record_padded(record->length) - record->length;
    if ((backlog_flush(ring, backlog, done) || MT_PLANT(MT_PLANT_SWITCH_PASSES)) && lane_ring_push(ring, record, payload))
        return mt_ok();
    MT_TRY(mt_buf_reserve(backlog, record->length + padding));
    MT_TRY(mt_buf_append(backlog, record, LANE_RECORD_SIZE));
    MT_TRY(mt_buf_append(backlog, payload, record->length - LANE_RECORD_SIZE));
    return mt_buf_append(backlog, zeroes, padding);
}

static void process_break(struct sw_process *p, struct sw_out *out)
{
    struct rlt_event e = {.kind = RLT_EV_UP_BROKEN, .up_broken = {.conn = p->conn}};
    p->is_broken = true;
    out->event(out, &e);
}

static void undelivered(uint64_t conn, const struct lane_record *record, const uint8_t *payload, struct sw_out *out)
{
    struct rlt_event e = {.kind = RLT_EV_UNDELIVERED, .undelivered = {.conn = conn, .record = *record, .payload = payload}};
    out->event(out, &e);
}

/* True: it waits for room. */
static bool process_down(struct sw *sw, const struct rlt_a_sw_down *a, struct sw_out *out)
{
    struct sw_process *p = mt_map_ptr(&sw->processes, mt_map_key(a->conn));
    size_t             waiting = p ? p->backlog.size - p->backlog_done : 0;
    if (!p || p->is_broken || (a->record.kind == CTL_MESSAGE && waiting > MT_SW_DOWN_MESSAGES_MAX)) {
        if (a->record.kind == CTL_MESSAGE)
            undelivered(a->conn, &a->record, a->payload, out);
        return false;
    }
    if (waiting > MT_SW_DOWN_BYTES_MAX || push_or_keep(&p->down, &p->backlog, &p->backlog_done, &a->record, a->payload).code) {
        process_break(p, out);
        return false;
    }
    lane_ring_publish(&p->down);
    wake(out, p->park);
    return p->backlog.size > 0;
}

/* ---- up -------------------------------------------------------------------------------------------------------- */

/* At most `most` records of one up ring. Returns how many. */
static uint32_t process_up(struct sw_process *p, uint32_t most, struct sw_out *out)
{
    uint64_t copy[(LANE_RECORD_MAX - LANE_RECORD_SIZE) / 8];
    uint32_t count = 0;
    while (count < most && !p->is_broken) {
        struct rlt_event e = {.kind = RLT_EV_UP, .up = {.conn = p->conn}};
        const uint8_t   *payload;
        bool             found;
        if (lane_ring_peek(&p->up, &e.up.record, &payload, &found).code) {
            process_break(p, out);
            break;
        }
        if (!found)
            break;
        /* A copy: the process may write there while the core looks at it. */
        shm_read(copy, payload, e.up.record.length - LANE_RECORD_SIZE);
        e.up.payload = (const uint8_t *)copy;
        lane_ring_consume(&p->up);
        out->event(out, &e);
        count++;
    }
    lane_ring_release(&p->up);
    return count;
}

static void process_drain(struct sw *sw, uint64_t conn, struct sw_out *out)
{
    struct sw_process *p = mt_map_ptr(&sw->processes, mt_map_key(conn));
    struct rlt_event   e = {.kind = RLT_EV_PROC_DRAINED, .proc_drained = {.conn = conn}};
    char               crash[LANE_CRASH_SIZE + 1] = "";
    if (p) {
        /* A process that is being killed may still write: no more than a ring full is read. */
        process_up(p, LANE_RING_BYTES / LANE_RECORD_SIZE, out);
        shm_read(crash, p->park->crash, LANE_CRASH_SIZE);
        process_free(sw, p);
    }
    e.proc_drained.crash = crash;
    out->event(out, &e);
}

/* ---- lanes: out ------------------------------------------------------------------------------------------------ */

static struct sw_node *node_of(struct sw *sw, uint32_t number)
{
    struct sw_node *n = mt_map_ptr(&sw->nodes, mt_map_key(number));
    if (n)
        return n;
    n = calloc(1, sizeof *n);
    if (n)
        n->node = number;
    if (n && mt_map_put_ptr(&sw->nodes, mt_map_key(number), n).code) {
        free(n);
        n = NULL;
    }
    return n;
}

static void node_flush(struct sw_node *n, struct sw_out *out)
{
    struct rlt_event e = {.kind = RLT_EV_OUT, .out = {.node = n->node, .bytes = n->run.data, .size = n->run.size}};
    if (!n->run.size)
        return;
    out->event(out, &e);
    n->run.size = 0;
}

static void lane_break(struct sw_lane *l, struct sw_out *out)
{
    struct rlt_event e = {.kind = RLT_EV_LANE_BROKEN, .lane_broken = {.lane = l->lane}};
    if (l->is_broken)
        return;
    l->is_broken = true;
    out->event(out, &e);
}

/* One record for the other node; false: no memory. */
static bool lane_out(struct sw *sw, const struct sw_lane *l, const struct lane_record *record, const uint8_t *payload,
                     struct sw_out *out)
{
    static const uint8_t zeroes[64];
    struct sw_node      *n = node_of(sw, l->node);
    struct lane_record   copy = *record;
    size_t               size = record->length - LANE_RECORD_SIZE;
    size_t               padding = lane_record_padded(record->length) - record->length;
    if (!n || mt_buf_reserve(&n->run, record->length + padding).code)
        return false;
    copy.route = l->peer_route;
    if (mt_buf_append(&n->run, &copy, sizeof copy).code || (size && mt_buf_append(&n->run, payload, size).code) ||
        mt_buf_append(&n->run, zeroes, padding).code)
        return false; /* cannot be: the room is there */
    if (n->run.size >= MT_SW_OUT_BYTES)
        node_flush(n, out);
    return true;
}

/* Whether the task in that slot was sent ahead of its arguments. */
static void ahead_set(struct sw *sw, struct sw_lane *l, uint32_t slot, bool is_ahead)
{
    uint64_t *word = &l->ahead_slots[slot / 64], bit = UINT64_C(1) << slot % 64;
    if (MT_LIKELY(!(*word & bit) == !is_ahead))
        return;
    *word ^= bit;
    l->ahead += is_ahead ? 1u : UINT32_MAX;
    sw->ahead += is_ahead ? 1 : UINT64_MAX;
}

static void lane_wake(struct sw *sw, const struct sw_lane *l, struct sw_out *out)
{
    struct sw_process *p = mt_map_ptr(&sw->processes, mt_map_key(l->conn));
    if (p)
        wake(out, p->park);
}

/* An outcome of that lane has come: others may sleep who wait for its value. Their owner, who is elsewhere, can't wake them. */
static void wake_ahead(struct sw *sw, const struct sw_lane *from, struct sw_out *out)
{
    if (MT_LIKELY(!sw->ahead) || from->side != RLT_SIDE_OWNER)
        return;
    MT_MAP_EACH(&sw->lanes, entry) {
        const struct sw_lane *l = entry->value.ptr;
        if (l->ahead && l != from && l->node == from->node && !MT_PLANT(MT_PLANT_SWITCH_SILENT))
            lane_wake(sw, l, out);
    }
}

static bool is_task(const struct lane_record *record)
{
    return record->kind == LANE_TASK || record->kind == LANE_CREATE || record->kind == LANE_CALL;
}

/* A record from the process at this end. False: it may not say that. */
static bool lane_take(struct sw *sw, struct sw_lane *l, const struct lane_record *record, const uint8_t *payload,
                      struct sw_out *out)
{
    bool is_outcome = record->kind == LANE_DONE || record->kind == LANE_RETURNED;
    bool is_news = record->kind == LANE_END || record->kind == LANE_EXIT || record->kind == LANE_SAVED; /* of no slot */
    bool is_part = record->kind == LANE_ITEM || record->kind == LANE_REFS;
    if (!is_news && record->slot >= LANE_SLOTS)
        return false;
    if (l->side == RLT_SIDE_WORKER) {
        if (is_task(record)) /* we are the worker here: what the owner has taken back meanwhile does not leave */
            return !lane_claim_take(&l->claims[record->slot], record->sequence, record->attempt, LANE_RUNNING) ||
                   lane_out(sw, l, record, payload, out);
        return (record->kind == LANE_ARGUMENT || record->kind == LANE_REVOKE || record->kind == LANE_CANCEL ||
                record->kind == LANE_ACK) &&
               lane_out(sw, l, record, payload, out);
    }
    if (is_outcome) { /* we are the owner here: the slot is free for the next task that comes in */
        lane_claim_clear(&l->claims[record->slot]);
        ahead_set(sw, l, record->slot, false);
    }
    return (is_outcome || is_part || is_news) && lane_out(sw, l, record, payload, out);
}

static uint32_t lane_read(struct sw *sw, struct sw_lane *l, uint32_t most, struct sw_out *out)
{
    uint32_t count = 0;
    while (count < most && !l->is_broken && lane_ring_has_more(&l->from)) {
        struct lane_record record;
        const uint8_t     *payload;
        bool               found;
        if (lane_ring_peek(&l->from, &record, &payload, &found).code || (found && !lane_take(sw, l, &record, payload, out))) {
            lane_break(l, out);
            break;
        }
        if (!found)
            break;
        lane_ring_consume(&l->from);
        count++;
    }
    lane_ring_release(&l->from);
    if (count)
        wake_ahead(sw, l, out);
    return count;
}

/* ---- lanes: in ------------------------------------------------------------------------------------------------- */

static void lane_push(struct sw_lane *l, const struct lane_record *record, const uint8_t *payload, struct sw_out *out)
{
    struct lane_record copy = *record;
    copy.route = 0;
    if (l->backlog.size - l->backlog_done > MT_SW_DOWN_BYTES_MAX ||
        push_or_keep(&l->to, &l->backlog, &l->backlog_done, &copy, payload).code)
        lane_break(l, out);
}

static void returned(struct sw *sw, struct sw_lane *l, const struct lane_record *of, struct sw_out *out)
{
    struct lane_record r = *of;
    r.length = LANE_RECORD_SIZE;
    r.kind = LANE_RETURNED;
    r.flags = 0;
    if (!lane_out(sw, l, &r, NULL, out))
        lane_break(l, out);
}

/* The owner's words, for the worker of this node. */
static void owner_says(struct sw *sw, struct sw_lane *l, const struct lane_record *r, const uint8_t *payload, struct sw_out *out)
{
    shm_u64 *slot = &l->claims[r->slot];
    if (r->kind == LANE_REVOKE || r->kind == LANE_CANCEL) {
        if (lane_claim_take(slot, r->sequence, r->attempt, LANE_REVOKED)) {
            lane_claim_clear(slot);
            ahead_set(sw, l, r->slot, false);
            returned(sw, l, r, out);
        } else if (r->kind == LANE_CANCEL && shm_load64(slot) == lane_claim_word(r->sequence, r->attempt, LANE_RUNNING)) {
            lane_cancel_set(lane_header_of(l->memory), r->slot, true);
        }
    } else if (r->kind == LANE_ARGUMENT) {
        if (shm_load64(slot) == lane_claim_word(r->sequence, r->attempt, LANE_PENDING) || MT_PLANT(MT_PLANT_ARGUMENT_LATE))
            lane_push(l, r, payload, out); /* else nobody waits for it any more */
    } else if (r->kind == LANE_ACK) {
        lane_credit_set(l->memory, r->slot, r->sequence, r->aux & LANE_GONE);
    } else if (is_task(r) && (l->is_over || lane_claim_state_of(shm_load64(slot)) != LANE_FREE)) {
        returned(sw, l, r, out); /* the lease is at its end here (or the slot is not free, which breaks the rules) */
    } else if (is_task(r)) {
        if (MT_UNLIKELY(lane_cancel_is_set(lane_header_of(l->memory), r->slot))) /* of the slot's last task */
            lane_cancel_set(lane_header_of(l->memory), r->slot, false);
        lane_claim_set(slot, r->sequence, r->attempt);
        l->taken = r->sequence;
        ahead_set(sw, l, r->slot, r->kind == LANE_TASK && r->flags & LANE_TASK_AHEAD);
        lane_push(l, r, payload, out);
    }
}

/* The worker's words, for the owner of this node. A return without an id is told by the claim alone: it comes with the
 * lease's end, when the owner reads the claims. */
static void worker_says(struct sw_lane *l, const struct lane_record *r, const uint8_t *payload, struct sw_out *out)
{
    shm_u64 *slot = &l->claims[r->slot];
    uint64_t running = lane_claim_word(r->sequence, r->attempt, LANE_RUNNING);
    if (r->kind == LANE_END || r->kind == LANE_EXIT || r->kind == LANE_SAVED) {
        lane_push(l, r, payload, out);
    } else if (r->kind == LANE_RETURNED) {
        if (shm_cas64(slot, running, lane_claim_word(r->sequence, r->attempt, LANE_RETURNED_CLAIM)) && !mt_id_is_zero(r->id))
            lane_push(l, r, payload, out);
    } else if (r->kind == LANE_ITEM || r->kind == LANE_REFS) {
        if (shm_load64(slot) == running)
            lane_push(l, r, payload, out);
    } else if (r->kind == LANE_DONE) {
        if (shm_cas64(slot, running, lane_claim_word(r->sequence, r->attempt, LANE_DONE_CLAIM)))
            lane_push(l, r, payload, out);
    }
}

/* Shows what was pushed. True: some of it waits for room. */
static bool lane_shown(struct sw *sw, struct sw_lane *l, struct sw_out *out)
{
    lane_ring_publish(&l->to);
    lane_wake(sw, l, out);
    return l->backlog.size > 0;
}

/* True: some of it waits for room, or something goes back. */
static bool frame_in(struct sw *sw, const struct rlt_a_sw_frame *a, struct sw_out *out)
{
    struct sw_node *n;
    struct sw_lane *last = NULL;
    bool            waits = false;
    for (size_t at = 0; at + LANE_RECORD_SIZE <= a->size;) {
        struct lane_record record;
        memcpy(&record, a->bytes + at, sizeof record);
        if (record.length < LANE_RECORD_SIZE || record.length > LANE_RECORD_MAX || lane_record_padded(record.length) > a->size - at)
            break; /* the core has checked; a peer's frame is never trusted twice */
        struct sw_lane *l = mt_map_ptr(&sw->routes, mt_map_key(record.route));
        const uint8_t  *payload = a->bytes + at + LANE_RECORD_SIZE;
        at += lane_record_padded(record.length);
        if (!l || l->node != a->node || record.slot >= LANE_SLOTS || l->is_broken)
            continue; /* of a lane that is no more: its end has been told, with what never arrived */
        if (last && last != l)
            waits |= lane_shown(sw, last, out);
        last = l;
        if (l->side == RLT_SIDE_OWNER)
            owner_says(sw, l, &record, payload, out);
        else
            worker_says(l, &record, payload, out);
    }
    if (last)
        waits |= lane_shown(sw, last, out);
    n = mt_map_ptr(&sw->nodes, mt_map_key(a->node));
    return waits || (n && n->run.size); /* what is returned at once leaves with the next round */
}

/* ---- lanes: begin and end ---------------------------------------------------------------------------------------- */

static void lane_open(struct sw *sw, const struct rlt_a_sw_lane_open *a, void *memory, struct sw_out *out)
{
    struct sw_lane     *l = memory ? calloc(1, sizeof *l) : NULL;
    struct lane_header *h = memory ? lane_header_of(memory) : NULL;
    struct rlt_event    broken = {.kind = RLT_EV_LANE_BROKEN, .lane_broken = {.lane = a->lane}};
    if (!l) {
        out->event(out, &broken);
        return;
    }
    l->lane = a->lane;
    l->conn = a->conn;
    l->node = a->node;
    l->route = a->route;
    l->peer_route = a->peer_route;
    l->side = a->side;
    l->memory = memory;
    l->claims = lane_claims_of(memory);
    if (l->side == RLT_SIDE_WORKER) {
        lane_consumer_init(&l->from, &h->forward, lane_forward_of(memory));
        lane_producer_init(&l->to, &h->back, lane_back_of(memory));
    } else {
        lane_consumer_init(&l->from, &h->back, lane_back_of(memory));
        lane_producer_init(&l->to, &h->forward, lane_forward_of(memory));
    }
    if (mt_map_put_ptr(&sw->lanes, mt_map_key(l->lane), l).code || mt_map_put_ptr(&sw->routes, mt_map_key(l->route), l).code) {
        lane_free(sw, l);
        out->event(out, &broken);
    }
}

/* What the worker of this node had finished when it died, and not yet shown. */
static void lane_read_unpublished(struct sw *sw, struct sw_lane *l, struct sw_out *out)
{
    struct lane_record record;
    const uint8_t     *payload;
    while (!l->is_broken && l->side == RLT_SIDE_OWNER && lane_next_unpublished(l->claims, &l->from, &record, &payload)) {
        if (!lane_take(sw, l, &record, payload, out))
            return;
        lane_ring_consume(&l->from);
    }
}

/* The worker of this node is done with the lane, or dead: all that it finished goes out, then every task that it never
 * began. */
static void lane_drain(struct sw *sw, uint64_t number, struct sw_out *out)
{
    struct sw_lane  *l = mt_map_ptr(&sw->lanes, mt_map_key(number));
    struct rlt_event e = {.kind = RLT_EV_LANE_DRAINED, .lane_drained = {.lane = number}};
    if (l) {
        lane_read(sw, l, LANE_RING_BYTES / LANE_RECORD_SIZE, out);
        lane_read_unpublished(sw, l, out);
        l->is_over = true;
        for (uint32_t slot = 0; slot < LANE_SLOTS; slot++) {
            uint64_t           word = shm_load64_acquire(&l->claims[slot]);
            struct lane_record r = {.length = LANE_RECORD_SIZE, .slot = slot, .sequence = word >> 24};
            r.attempt = (uint32_t)(word >> 8 & 0xffff);
            bool is_back = lane_claim_state_of(word) == LANE_RETURNED_CLAIM; /* the record was not published any more */
            if (is_back || (lane_claim_state_of(word) == LANE_PENDING &&
                            lane_claim_take(&l->claims[slot], r.sequence, r.attempt, LANE_REVOKED)))
                returned(sw, l, &r, out);
        }
        e.lane_drained.reached = l->taken;
        node_flush(node_of(sw, l->node), out);
    }
    out->event(out, &e);
}

/* The worker elsewhere is gone. Tasks that left and never reached it have not run. */
static void lane_over(struct sw_lane *l, uint64_t taken)
{
    l->is_over = true;
    for (uint32_t slot = 0; slot < LANE_SLOTS; slot++) {
        uint64_t word = shm_load64_acquire(&l->claims[slot]);
        if (lane_claim_state_of(word) == LANE_RUNNING && word >> 24 > taken)
            shm_cas64(&l->claims[slot], word, (word & ~(uint64_t)0xff) | LANE_RETURNED_CLAIM);
    }
}

/* True: it, or the lane, waits for room. */
static bool down_behind_lane(struct sw *sw, const struct rlt_a_sw_down *a, struct sw_out *out)
{
    struct sw_lane *l = mt_map_ptr(&sw->lanes, mt_map_key(a->lane));
    size_t          size = a->record.length - LANE_RECORD_SIZE;
    if (l)
        lane_over(l, a->taken);
    if (!l || l->is_broken || l->held || !l->backlog.size)
        return process_down(sw, a, out);
    l->held = malloc(sizeof *l->held + size);
    if (!l->held)
        return process_down(sw, a, out);
    l->held->down = *a;
    if (size)
        memcpy(l->held->payload, a->payload, size);
    return true;
}

/* What waits for room goes on; then what was held behind it; then the lane may go. True: something moved. */
static bool lane_settle(struct sw *sw, struct sw_lane *l, struct sw_out *out)
{
    uint64_t head = l->to.head;
    bool     is_gone = !mt_map_find(&sw->processes, mt_map_key(l->conn));
    if (l->backlog.size && !l->is_broken && !is_gone)
        backlog_flush(&l->to, &l->backlog, &l->backlog_done);
    if (l->to.head != head) {
        lane_ring_publish(&l->to);
        lane_wake(sw, l, out);
    }
    if (l->backlog.size && !l->is_broken && !is_gone)
        return l->to.head != head;
    if (l->held) {
        l->held->down.payload = l->held->payload;
        process_down(sw, &l->held->down, out);
        free(l->held);
        l->held = NULL;
    }
    if (l->is_closing) {
        struct rlt_event e = {.kind = RLT_EV_LANE_CLOSED, .lane_closed = {.lane = l->lane}};
        lane_free(sw, l);
        out->event(out, &e);
        return true;
    }
    return l->to.head != head;
}

static void lane_close(struct sw *sw, uint64_t number, struct sw_out *out)
{
    struct sw_lane  *l = mt_map_ptr(&sw->lanes, mt_map_key(number));
    struct rlt_event e = {.kind = RLT_EV_LANE_CLOSED, .lane_closed = {.lane = number}};
    if (!l) {
        out->event(out, &e);
        return;
    }
    l->is_closing = true;
    lane_settle(sw, l, out);
}

/* ---- the machine ------------------------------------------------------------------------------------------------ */

bool sw_act(struct sw *sw, const struct rlt_action *action, void *lane, struct sw_out *out)
{
    struct sw_node *n;
    switch (action->kind) {
    case RLT_A_SW_DOWN: return (action->sw_down.lane ? down_behind_lane : process_down)(sw, &action->sw_down, out);
    case RLT_A_SW_FRAME: return frame_in(sw, &action->sw_frame, out);
    case RLT_A_SW_PROC_DRAIN: process_drain(sw, action->sw_proc_drain.conn, out); return true;
    case RLT_A_SW_LANE_OPEN: lane_open(sw, &action->sw_lane_open, lane, out); return true;
    case RLT_A_SW_LANE_DRAIN: lane_drain(sw, action->sw_lane_drain.lane, out); return true;
    case RLT_A_SW_LANE_CLOSE: lane_close(sw, action->sw_lane_close.lane, out); return true;
    case RLT_A_SW_PAUSE:
        if ((n = node_of(sw, action->sw_pause.node)))
            n->is_paused = action->sw_pause.is_paused;
        return true;
    default: return false; /* not the switch's */
    }
}

static bool process_poll(struct sw_process *p, struct sw_out *out)
{
    uint64_t head = p->down.head;
    bool     worked = process_up(p, MT_SW_POLL_RECORDS, out) > 0;
    if (p->backlog.size && !p->is_broken) {
        backlog_flush(&p->down, &p->backlog, &p->backlog_done);
        if (p->down.head != head) {
            lane_ring_publish(&p->down);
            wake(out, p->park);
            worked = true;
        }
    }
    return worked;
}

static bool lane_is_readable(struct sw *sw, struct sw_lane *l)
{
    struct sw_node *n = mt_map_ptr(&sw->nodes, mt_map_key(l->node));
    return !l->is_broken && !l->is_over && !(n && n->is_paused) && lane_ring_has_more(&l->from);
}

bool sw_poll(struct sw *sw, struct sw_out *out)
{
    bool worked = false;
    MT_MAP_EACH(&sw->processes, entry)
        worked |= process_poll(entry->value.ptr, out);
    MT_MAP_EACH(&sw->lanes, entry) {
        struct sw_lane *l = entry->value.ptr;
        if (lane_is_readable(sw, l))
            worked |= lane_read(sw, l, MT_SW_POLL_RECORDS, out) > 0;
        if (l->backlog.size || l->held || l->is_closing)
            worked |= lane_settle(sw, l, out);
    }
    MT_MAP_EACH(&sw->nodes, entry)
        node_flush(entry->value.ptr, out);
    return worked;
}

bool sw_has_work(struct sw *sw)
{
    MT_MAP_EACH(&sw->processes, entry) {
        struct sw_process *p = entry->value.ptr;
        if (!p->is_broken && lane_ring_has_more(&p->up))
            return true;
    }
    MT_MAP_EACH(&sw->lanes, entry)
        if (lane_is_readable(sw, entry->value.ptr))
            return true;
    return false;
}

bool sw_has_backlog(const struct sw *sw)
{
    MT_MAP_EACH(&sw->processes, entry) {
        const struct sw_process *p = entry->value.ptr;
        if (p->backlog.size && !p->is_broken)
            return true;
    }
    MT_MAP_EACH(&sw->lanes, entry) {
        const struct sw_lane *l = entry->value.ptr;
        if (l->backlog.size && !l->is_broken)
            return true;
    }
    return false;
}
