/* SPDX-License-Identifier: Apache-2.0
 *
 * edge.c - cells of values that go from worker to worker.
 *
 * Owns:   own->edges.cells; borrows the shared memory from the shell. Thread: the caller's, under the owner lock.
 * Always: a cell's users are the unfinished task that it belongs to and the tasks whose payload names it. Nobody reads or fills a
 *         cell that has none. The generation is kept here: what stands in shared memory may be anybody's.
 */
#include "clients/lib/owner/edge/edge.h"

#include <stdlib.h>

bool own_edges_open(struct own *own, void *memory, uint32_t board, uint32_t count)
{
    struct own_edges *e = &own->edges;
    e->is_wanted = false;
    e->cells = calloc(count, sizeof *e->cells);
    if (!e->cells)
        return false;
    e->memory = memory;
    e->board = board;
    e->count = count;
    for (uint32_t i = count; i-- > 0;) {
        e->cells[i].next = e->free;
        e->free = i + 1;
    }
    return true;
}

void own_edges_close(struct own *own)
{
    free(own->edges.cells);
    own->edges = (struct own_edges){.short_ns = own->edges.short_ns};
}

static void use_end(struct own_edges *e, uint32_t cell)
{
    MT_ASSERT(cell < e->count && e->cells[cell].users > 0);
    if (--e->cells[cell].users)
        return;
    e->cells[cell].next = e->free;
    e->free = cell + 1;
}

void own_cell_take(struct own *own, struct own_task *task)
{
    struct own_edges *e = &own->edges;
    uint32_t          cell = e->free;
    if (!cell || task->cell)
        return;
    e->free = e->cells[cell - 1].next;
    e->cells[cell - 1].users = 1;
    lane_cell_open(&e->memory[cell - 1], ++e->cells[cell - 1].generation);
    task->cell = cell;
}

void own_cell_drop(struct own *own, struct own_task *task)
{
    if (!task->cell)
        return;
    if (MT_PLANT(MT_PLANT_CELL_REUSED))
        own->edges.cells[task->cell - 1].users = 1;
    use_end(&own->edges, task->cell - 1);
    task->cell = 0;
}

/* Others wait for it on a node whose cells we can't fill, and its worker does not fill this one there: they come back. */
static void settle_far(struct own *own, const struct own_task *task, const struct own_lane *lane)
{
    const struct own_class *cls = task->cls;
    if (own->edges.cells[task->cell - 1].users < 2 || !cls || !cls->ahead_count || cls->ahead_node == own->node)
        return;
    if (!lane || !lane->is_remote || lane->node != cls->ahead_node || !task->feeds)
        own_ahead_over(own);
}

void own_cell_sent(struct own *own, const struct own_task *task)
{
    settle_far(own, task, task->lane);
}

void own_cell_outcome(struct own *own, const struct own_task *task, const struct own_lane *lane, bool is_good, const void *payload,
                      size_t size)
{
    uint32_t cell = task->cell - 1;
    if (own->edges.cells[cell].users > 1 && !MT_PLANT(MT_PLANT_CELL_UNSETTLED))
        (void)lane_cell_fill(&own->edges.memory[cell], own->edges.cells[cell].generation, is_good, payload, size);
    settle_far(own, task, lane);
}

bool own_cell_is_good(const struct own *own, const struct own_task *task)
{
    uint32_t             cell = task->cell - 1;
    enum lane_cell_state state = lane_cell_look(&own->edges.memory[cell], own->edges.cells[cell].generation);
    return state == LANE_CELL_EMPTY || state == LANE_CELL_VALUE;
}

struct lane_edge own_cell_name(const struct own *own, const struct own_task *task, bool is_far)
{
    uint32_t cell = task->cell - 1;
    return (struct lane_edge){
        .generation = own->edges.cells[cell].generation, .board = own->edges.board | (is_far ? LANE_BOARD_FAR : 0), .cell = cell};
}

struct lane_edge own_edge_name(struct own *own, const struct own_task *consumer, uint32_t argument)
{
    const struct own_task *maker = consumer->args[argument].ref->task;
    uint32_t               node = consumer->cls->ahead_node;
    if (node != own->node && own_edge_crosses(own, maker, node))
        return (struct lane_edge){.board = LANE_BOARD_SENT, .cell = argument};
    own->edges.cells[maker->cell - 1].users += !MT_PLANT(MT_PLANT_CELL_UNCOUNTED);
    return own_cell_name(own, maker, node != own->node);
}

/* The next argument that does not stand in the payload: by a cell, or sent behind it. */
static bool edge_next(const struct own_task *consumer, size_t *at, struct lane_edge *out)
{
    *at = *at ? *at : sizeof(struct lane_call_head);
    while (*at + sizeof(struct lane_value) <= consumer->blob_size) {
        struct lane_value value;
        memcpy(&value, consumer->blob + *at, sizeof value);
        const uint8_t *bytes = consumer->blob + *at + sizeof value;
        *at += sizeof value + ((value.size + 7u) & ~7u);
        if (!(value.flags & LANE_VALUE_EDGE))
            continue;
        memcpy(out, bytes, sizeof *out);
        return true;
    }
    return false;
}

bool own_edge_next(const struct own_task *consumer, size_t *at, struct lane_edge *out)
{
    while (edge_next(consumer, at, out))
        if (out->board != LANE_BOARD_SENT)
            return true;
    return false;
}

/* False: it can't be sent so. */
static bool give(struct own *own, struct own_task *consumer, uint32_t argument)
{
    const struct own_ref *ref = consumer->args[argument].ref;
    struct lane_record    record = own_task_record(own, consumer, LANE_ARGUMENT);
    struct lane_value     value = {.type = ref->type, .size = ref->size};
    if (ref->state != OWN_REF_INLINE)
        return false;
    record.aux = argument;
    record.length += (uint32_t)sizeof value + ref->size;
    uint8_t *at = lane_ring_reserve(&consumer->lane->forward, record.length);
    if (!at)
        return false;
    shm_write(at, &record, sizeof record);
    shm_write(at + sizeof record, &value, sizeof value);
    if (ref->size)
        shm_write(at + sizeof record + sizeof value, own_ref_bytes(ref), ref->size);
    lane_ring_commit(&consumer->lane->forward, record.length);
    own_lane_publish(own, consumer->lane);
    return true;
}

void own_edges_give(struct own *own, struct own_task *consumer, const struct own_ref *of)
{
    struct lane_edge edge;
    bool             ok = true;
    for (size_t at = 0; ok && edge_next(consumer, &at, &edge);) {
        const struct own_ref *ref = edge.board == LANE_BOARD_SENT ? consumer->args[edge.cell].ref : NULL;
        if (ref && (!of || of == ref) && own_ref_is_ready(ref))
            ok = give(own, consumer, edge.cell);
    }
    if (ok)
        return;
    consumer->cls->edge_pause = OWN_EDGE_PAUSE_TICKS;
    own_ahead_over(own);
}

void own_edges_drop(struct own *own, const struct own_task *consumer)
{
    struct lane_edge edge;
    for (size_t at = 0; own_edge_next(consumer, &at, &edge);)
        use_end(&own->edges, edge.cell);
}
