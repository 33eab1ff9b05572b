/* SPDX-License-Identifier: Apache-2.0
 *
 * edge.h - cells: handed out, named in records, filled in a dead worker's place, and free again.
 *
 * Thread: as own.h.
 */
#ifndef OWN_EDGE_H
#define OWN_EDGE_H

#include "clients/lib/owner/kit/kit.h"

/* `memory`: zeroed room for `count` cells under that number; the caller's, until own_close. False: no memory of our own. */
bool own_edges_open(struct own *own, void *memory, uint32_t board, uint32_t count);
void own_edges_close(struct own *own);

/* The task's result goes to a cell from now on, if one is free; or no more. */
void own_cell_take(struct own *own, struct own_task *task);
void own_cell_drop(struct own *own, struct own_task *task);
/* It stands in its lane. */
void own_cell_sent(struct own *own, const struct own_task *task);
/* What its worker says of it (payload of LANE_DONE): for those who wait, if the worker has not told them. `lane`: where it ran. */
void own_cell_outcome(struct own *own, const struct own_task *task, const struct own_lane *lane, bool is_good, const void *payload,
                      size_t size);
/* Whether a value may still come by it. */
bool own_cell_is_good(const struct own *own, const struct own_task *task);

/* `is_far`: as those know it who run on another node. */
struct lane_edge own_cell_name(const struct own *own, const struct own_task *task, bool is_far);
/* What stands for an argument of a task that goes ahead. A cell is used by it from now on: until own_edges_drop. */
struct lane_edge own_edge_name(struct own *own, const struct own_task *consumer, uint32_t argument);
void             own_edges_drop(struct own *own, const struct own_task *consumer);
/* The next cell in a payload of arguments; *at: 0 at first. False: there are no more. */
bool own_edge_next(const struct own_task *consumer, size_t *at, struct lane_edge *out);

/* ---- from one node to another: no memory is of both, and we send what has come ---- */
/* Whether the task runs on another node than that one: what it makes does not come there by a cell. */
static inline bool own_edge_crosses(const struct own *own, const struct own_task *maker, uint32_t node)
{
    return maker->state == OWN_SENT && own_lane_node(own, maker->lane) != node;
}
/* Sends the value of that ref (NULL: of each that has come) to a task that is ahead. Where it can not, all ahead come back. */
void own_edges_give(struct own *own, struct own_task *consumer, const struct own_ref *of);

#endif
