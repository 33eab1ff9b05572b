/* SPDX-License-Identifier: Apache-2.0
 *
 * ahead.c - tasks whose arguments come from other workers, by cells of their owner (core/lane/edge.h).
 *
 * Owns:   nothing; a board is mapped by the shell, once for each lane. Where the owner is on another node nobody but a worker fills
 *         its cells: there no task begins that feeds one before the board is mapped. Thread: the one that runs tasks.
 * Always: a cell's value is read only after the task was claimed: until its outcome the owner keeps the cell for it.
 */
#include "clients/lib/worker/wrk.h"
#include "clients/lib/worker/private.h"

#include <stdlib.h>

static struct lane_cell *cell_of(struct wrk *wrk, struct wrk_lane *lane, const struct lane_edge *edge)
{
    if (MT_UNLIKELY(edge->board != lane->board)) {
        if (lane->board == 0) {
            lane->board_asked = edge->board;
            wrk->asks_board = true;
        }
        return NULL;
    }
    return lane->cells && edge->cell < lane->cell_count ? &lane->cells[edge->cell] : NULL;
}

/* ---- arguments that their owner has sent behind the task (LANE_ARGUMENT) ---- */

struct wrk_given {
    struct wrk_given *next; /* of the same slot */
    uint64_t          sequence;
    uint64_t          argument;
    struct lane_value value;
    uint8_t           bytes[]; /* aligned to 8, as in a record */
};
static_assert(offsetof(struct wrk_given, bytes) % 8 == 0, "as in a record");

static void slot_free(struct wrk_given **first)
{
    while (*first) {
        struct wrk_given *given = *first;
        *first = given->next;
        free(given);
    }
}

void wrk_given_free(struct wrk_lane *lane)
{
    for (uint32_t slot = 0; lane->given && slot < LANE_SLOTS; slot++)
        slot_free(&lane->given[slot]);
    free(lane->given);
    lane->given = NULL;
}

static const struct wrk_given *given_find(const struct wrk_lane *lane, const struct lane_record *record, uint64_t argument)
{
    const struct wrk_given *given = lane->given && record->slot < LANE_SLOTS ? lane->given[record->slot] : NULL;
    while (given && (given->sequence != record->sequence || given->argument != argument))
        given = given->next;
    return given;
}

/* A copy, in the place of what an earlier task of the slot got; the first one stands. Without memory for it its owner takes the
 * task back in time, as from any lane that stands still. */
static void keep(struct wrk_lane *lane, const struct lane_record *record, const uint8_t *payload)
{
    size_t            size = record->length - LANE_RECORD_SIZE;
    struct lane_value value;
    if (record->slot >= LANE_SLOTS || record->aux >= OWN_EDGE_ARGS || size < sizeof value || given_find(lane, record, record->aux))
        return;
    shm_read(&value, payload, sizeof value);
    if (value.flags || value.ref_count || value.size > size - sizeof value)
        return;
    struct wrk_given **first = &lane->given[record->slot];
    if (*first && (*first)->sequence != record->sequence)
        slot_free(first);
    struct wrk_given *given = malloc(sizeof *given + value.size);
    if (!given)
        return;
    *given = (struct wrk_given){.next = *first, .sequence = record->sequence, .argument = record->aux, .value = value};
    shm_read(given->bytes, payload + sizeof value, value.size);
    *first = given;
}

/* They stand behind tasks that have not begun: each is looked at once. */
static void scan(struct wrk_lane *lane)
{
    struct lane_record record;
    const uint8_t     *payload;
    bool               found;
    if (!lane->given && !(lane->given = calloc(LANE_SLOTS, sizeof *lane->given)))
        return;
    if (lane->scan.tail < lane->forward.tail)
        lane->scan = lane->forward;
    while (lane_ring_has_more(&lane->scan)) {
        if (lane_ring_peek(&lane->scan, &record, &payload, &found).code || !found)
            return; /* whoever takes the record says so */
        if (record.kind == LANE_ARGUMENT)
            keep(lane, &record, payload);
        lane_ring_consume(&lane->scan);
    }
}

static enum lane_cell_state given_state(struct wrk_lane *lane, const struct lane_record *record, uint64_t argument)
{
    if (!given_find(lane, record, argument))
        scan(lane);
    return given_find(lane, record, argument) ? LANE_CELL_VALUE : LANE_CELL_EMPTY;
}

/* ---- cells ---- */

static enum lane_cell_state look(struct wrk *wrk, struct wrk_lane *lane, const struct lane_record *record, const uint8_t *payload,
                                 bool watches)
{
    size_t               size = record->length - LANE_RECORD_SIZE, at = sizeof(struct lane_call_head);
    enum lane_cell_state all = LANE_CELL_VALUE;
    uint32_t             count = 0;
    if (size >= sizeof(struct lane_call_head))
        shm_read(&count, payload, sizeof count);
    for (uint32_t i = 0; i < count; i++) {
        struct lane_value value;
        struct lane_edge  edge;
        if (at + sizeof value > size)
            return LANE_CELL_VALUE; /* cut short: whoever takes the arguments says so */
        shm_read(&value, payload + at, sizeof value);
        at += sizeof value;
        if (value.flags & LANE_VALUE_EDGE && at + sizeof edge <= size) {
            shm_read(&edge, payload + at, sizeof edge);
            bool              is_sent = edge.board == LANE_BOARD_SENT;
            struct lane_cell *cell = is_sent ? NULL : cell_of(wrk, lane, &edge);
            if (!cell && !is_sent && lane->board_asked)
                return LANE_CELL_EMPTY;
            enum lane_cell_state one = is_sent ? given_state(lane, record, edge.cell)
                                       : cell  ? lane_cell_look(cell, edge.generation)
                                               : LANE_CELL_NONE;
            if (one == LANE_CELL_NONE || one == LANE_CELL_FREE)
                return LANE_CELL_NONE;
            all = one == LANE_CELL_EMPTY ? one : all;
            if (one == LANE_CELL_EMPTY && watches && cell)
                lane_cell_watch(cell, edge.generation);
        }
        at += ((size_t)value.size + 7) & ~(size_t)7;
    }
    uint64_t pending = lane_claim_word(record->sequence, record->attempt, LANE_PENDING);
    if (all == LANE_CELL_EMPTY && shm_load64_acquire(&lane->claims[record->slot]) != pending)
        return LANE_CELL_VALUE; /* its owner has taken it back: the claim fails */
    return all;
}

enum lane_cell_state wrk_ahead_state(struct wrk *wrk, struct wrk_lane *lane, const struct lane_record *record,
                                     const uint8_t *payload)
{
    return look(wrk, lane, record, payload, false);
}

static bool waits(struct wrk *wrk, struct wrk_lane *lane, bool watches)
{
    struct lane_record record;
    const uint8_t     *payload;
    bool               found;
    if (wrk->group_count || lane_ring_peek(&lane->forward, &record, &payload, &found).code)
        return false;
    return found && record.kind == LANE_TASK && record.flags & LANE_TASK_AHEAD && record.slot < LANE_SLOTS &&
           look(wrk, lane, &record, payload, watches) == LANE_CELL_EMPTY;
}

bool wrk_lane_waits_ahead(struct wrk *wrk, struct wrk_lane *lane)
{
    return waits(wrk, lane, false);
}

void wrk_watch_ahead(struct wrk *wrk)
{
    for (size_t i = 0; i < wrk->lanes.count; i++)
        if (wrk->lanes.data[i]->cells && lane_ring_has_more(&wrk->lanes.data[i]->forward))
            (void)waits(wrk, wrk->lanes.data[i], true);
}

bool wrk_waits_ahead(struct wrk *wrk)
{
    for (size_t i = 0; i < wrk->lanes.count; i++)
        if ((wrk->lanes.data[i]->cells || wrk->lanes.data[i]->given) && lane_ring_has_more(&wrk->lanes.data[i]->forward) &&
            wrk_lane_waits_ahead(wrk, wrk->lanes.data[i]))
            return true;
    return false;
}

/* The cell that takes the task's result; false: its record names none. */
static bool fed_by(const struct lane_record *record, const uint8_t *payload, struct lane_edge *out)
{
    size_t size = record->length - LANE_RECORD_SIZE;
    if (record->kind != LANE_TASK || !(record->flags & LANE_TASK_FEEDS) || size < sizeof *out)
        return false;
    shm_read(out, payload + size - sizeof *out, sizeof *out);
    return true;
}

bool wrk_lacks_board(struct wrk *wrk, struct wrk_lane *lane, const struct lane_record *record, const uint8_t *payload)
{
    struct lane_edge edge;
    return !lane->board && fed_by(record, payload, &edge) && edge.board & LANE_BOARD_FAR && !cell_of(wrk, lane, &edge);
}

void wrk_feeds(struct wrk *wrk, struct wrk_run *run)
{
    struct lane_edge edge;
    if (!fed_by(&run->record, run->payload, &edge))
        return;
    run->size -= sizeof edge;
    run->cell = cell_of(wrk, run->lane, &edge);
    run->generation = edge.generation;
}

const struct wrk_lane *wrk_board_asked(const struct wrk *wrk)
{
    for (size_t i = 0; i < wrk->lanes.count && wrk->asks_board; i++)
        if (wrk->lanes.data[i]->board_asked)
            return wrk->lanes.data[i];
    return NULL;
}

void wrk_boards_wanted(struct wrk *wrk)
{
    wrk->asks_board = false;
    for (size_t i = 0; i < wrk->lanes.count; i++)
        wrk->asks_board |= wrk->lanes.data[i]->board_asked != 0;
}

void wrk_board_open(struct wrk *wrk, uint64_t lease, const struct wrk_board *board)
{
    struct wrk_lane *lane = NULL;
    for (size_t i = 0; i < wrk->lanes.count && !lane; i++)
        if (wrk->lanes.data[i]->lease == lease && wrk->lanes.data[i]->board_asked)
            lane = wrk->lanes.data[i];
    if (!lane) { /* it has ended meanwhile */
        if (board->memory)
            (void)mt_vec_push(&wrk->boards_gone, *board).code;
        return;
    }
    lane->board = lane->board_asked;
    lane->board_asked = 0;
    wrk_boards_wanted(wrk);
    lane->region = board->region;
    lane->cells = board->memory;
    lane->cell_count = board->memory ? board->count : 0;
}

bool wrk_edge_value(const struct wrk_run *run, const uint8_t *edge, struct lane_value *out, const uint8_t **bytes)
{
    struct lane_edge  e;
    struct lane_cell *cells = run->lane->cells;
    shm_read(&e, edge, sizeof e);
    if (e.board == LANE_BOARD_SENT) {
        const struct wrk_given *given = given_find(run->lane, &run->record, e.cell);
        if (!given)
            return false;
        *out = given->value;
        *bytes = given->bytes;
        return true;
    }
    if (!cells || e.board != run->lane->board || e.cell >= run->lane->cell_count ||
        lane_cell_look(&cells[e.cell], e.generation) != LANE_CELL_VALUE)
        return false;
    shm_read(out, cells[e.cell].value, sizeof *out);
    *bytes = cells[e.cell].value + sizeof *out;
    return out->flags == 0 && out->size <= sizeof cells->value - sizeof *out;
}
