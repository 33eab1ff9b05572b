/* SPDX-License-Identifier: Apache-2.0
 *
 * switch.c - moving records: up rings to the core, the core's words into down rings.
 *
 * Owns: its view of each ring, and what waits for room in one; borrows the memory. Thread: one, the switch thread.
 * Always: records for one process keep their order: while some wait, none goes past them.
 */
#include "raylet/switch.h"

#include "core/base/buf.h"
#include "core/base/map.h"

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

struct sw {
    mt_map processes; /* conn -> sw_process */
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

void sw_free(struct sw *sw)
{
    MT_MAP_EACH(&sw->processes, entry)
        process_free(sw, entry->value.ptr);
    mt_map_fini(&sw->processes);
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
    if (backlog_flush(ring, backlog, done) && lane_ring_push(ring, record, payload))
        return mt_ok();
    MT_TRY(mt_buf_reserve(backlog, record->length + padding));
    MT_TRY(mt_buf_append(backlog, record, LANE_RECORD_SIZE));
    MT_TRY(mt_buf_append(backlog, payload, record->length - LANE_RECORD_SIZE));
    return mt_buf_append(backlog, zeroes, padding);
}

static void process_break(struct sw_process *p, struct sw_out *out)
{
    struct rlt_event e = {.kind = RLT_EV_UP_BROKEN, .conn = p->conn, .fd = -1};
    p->is_broken = true;
    out->event(out, &e);
}

static void undelivered(uint64_t conn, const struct lane_record *record, const uint8_t *payload, struct sw_out *out)
{
    struct rlt_event e = {.kind = RLT_EV_UNDELIVERED, .conn = conn, .fd = -1, .record = *record, .payload = payload};
    out->event(out, &e);
}

static void process_down(struct sw *sw, const struct rlt_action *a, struct sw_out *out)
{
    struct sw_process *p = mt_map_ptr(&sw->processes, mt_map_key(a->conn));
    size_t             waiting = p ? p->backlog.size - p->backlog_done : 0;
    if (!p || p->is_broken || (a->record.kind == CTL_MESSAGE && waiting > SW_DOWN_MESSAGES_MAX)) {
        if (a->record.kind == CTL_MESSAGE)
            undelivered(a->conn, &a->record, a->payload, out);
        return;
    }
    if (waiting > SW_DOWN_BYTES_MAX ||
        push_or_keep(&p->down, &p->backlog, &p->backlog_done, &a->record, a->payload).code) {
        process_break(p, out);
        return;
    }
    lane_ring_publish(&p->down);
    wake(out, p->park);
}

/* ---- up -------------------------------------------------------------------------------------------------------- */

/* At most `most` records of one up ring. Returns how many. */
static uint32_t process_up(struct sw_process *p, uint32_t most, struct sw_out *out)
{
    uint64_t copy[(LANE_RECORD_MAX - LANE_RECORD_SIZE) / 8];
    uint32_t count = 0;
    while (count < most && !p->is_broken) {
        struct rlt_event e = {.kind = RLT_EV_UP, .conn = p->conn, .fd = -1};
        const uint8_t   *payload;
        bool             found;
        if (lane_ring_peek(&p->up, &e.record, &payload, &found).code) {
            process_break(p, out);
            break;
        }
        if (!found)
            break;
        /* A copy: the process may write there while the core looks at it. */
        shm_read(copy, payload, e.record.length - LANE_RECORD_SIZE);
        e.payload = (const uint8_t *)copy;
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
    struct rlt_event   e = {.kind = RLT_EV_PROC_DRAINED, .conn = conn, .fd = -1};
    char               crash[LANE_CRASH_SIZE + 1] = "";
    if (p) {
        /* A process that is being killed may still write: no more than a ring full is read. */
        process_up(p, LANE_RING_BYTES / LANE_RECORD_SIZE, out);
        shm_read(crash, p->park->crash, LANE_CRASH_SIZE);
        process_free(sw, p);
    }
    e.text = crash;
    out->event(out, &e);
}

/* ---- the machine ------------------------------------------------------------------------------------------------ */

void sw_act(struct sw *sw, const struct rlt_action *action, void *lane, struct lane_park *park, struct sw_out *out)
{
    (void)lane;
    (void)park;
    switch (action->kind) {
    case RLT_A_SW_DOWN:
        process_down(sw, action, out);
        break;
    case RLT_A_SW_PROC_DRAIN:
        process_drain(sw, action->conn, out);
        break;
    default:
        break;
    }
}

static bool process_poll(struct sw_process *p, struct sw_out *out)
{
    uint64_t head = p->down.head;
    bool     worked = process_up(p, SW_POLL_RECORDS, out) > 0;
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

bool sw_poll(struct sw *sw, struct sw_out *out)
{
    bool worked = false;
    MT_MAP_EACH(&sw->processes, entry)
        worked |= process_poll(entry->value.ptr, out);
    return worked;
}

bool sw_has_work(struct sw *sw)
{
    MT_MAP_EACH(&sw->processes, entry) {
        struct sw_process *p = entry->value.ptr;
        if (!p->is_broken && lane_ring_has_more(&p->up))
            return true;
    }
    return false;
}
