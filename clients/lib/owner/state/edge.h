/* SPDX-License-Identifier: Apache-2.0
 *
 * edge.h - cells that values take from worker to worker: what their owner knows of them (core/lane/edge.h).
 *
 * Data only. Thread: as own.h.
 */
#ifndef OWN_STATE_EDGE_H
#define OWN_STATE_EDGE_H

#include "core/lane/edge.h"

struct own_cell {
    uint64_t generation; /* of its last use */
    uint32_t users;      /* the task that makes the value, and those that were sent ahead for it; 0: free */
    uint32_t next;       /* free: the next one, + 1 */
};

struct own_edges {
    struct lane_cell *memory; /* shared; NULL: nothing is sent ahead */
    struct own_cell  *cells;
    uint32_t          board; /* number of that memory */
    uint32_t          count;
    uint32_t          free;        /* + 1; 0: none */
    uint32_t          ahead_count; /* tasks that were sent ahead, or are queued to be */
    uint64_t          short_ns;    /* classes whose tasks take less send ahead */
    bool              is_wanted;   /* some task could be sent ahead, and there is no memory */
    bool              is_over;     /* a note for own_settle: what was sent ahead comes back */
};
enum {
    OWN_EDGE_CELLS = 8192,
    OWN_EDGE_TASKS = 4096,      /* of a class get a cell after one has waited for another of the class */
    OWN_EDGE_PAUSE_TICKS = 20,  /* tasks wait as ever for so long after sending them ahead has not helped */
    OWN_EDGE_STUCK_TICKS = 4,   /* what was sent ahead comes back from a lane on which nothing moved for so long */
    OWN_EDGE_ARGS = 16,         /* tasks with more are not sent ahead: their worker looks at all of them, again and again */
    OWN_EDGE_READY = 4,         /* for each lane: where more tasks wait for nobody, no others are sent ahead */
    OWN_EDGE_SHORT_NS = 100000, /* longer tasks gain nothing, and may stand before others */
};

#endif
