/* SPDX-License-Identifier: Apache-2.0
 *
 * tree.h - who sends a large value that several nodes want: each of them sends on what it has, so a tree forms by itself.
 *
 * The node that has the value is asked by each node that wants it (pull.h). It serves one itself, and names to the next one the
 * first node that sends to nobody yet: a chain, in which chunks follow each other, so that all have the value a few chunks after
 * the first. From as many nodes on as the value has chunks each may send to two, or the last chunk would come too late.
 *
 *   ask(1) -> serve it yourself            source --> 1 --> 2 --> 3
 *   ask(2) -> 1                            1 dies: ask(2) -> serve it yourself, if the source is free by then; else 3 is no choice:
 *   ask(3) -> 2                            it gets its chunks from 2
 *
 * A node that asks again has left the node that it was sent to, so nobody is sent there any more, and it is never sent to one that
 * gets its chunks from it. So there are no circles. Pure decisions: no system call, no clock.
 */
#ifndef OS_TREE_H
#define OS_TREE_H

#include "core/ds/map.h"
#include "core/lane/record.h"

enum {
    OS_TREE_CHUNKS_MIN = 4,       /* smaller values are sent to all by the node that has them */
    OS_TREES_MAX = 1024,          /* values at a time; what is beyond is served by the source */
    OS_TREE_STALE_MS = 10 * 1000, /* since somebody asked */
};

struct os_trees { /* zeroed: empty */
    mt_map all;   /* object id -> tree */
};

/* `node` asks for a value of so many chunks. 0: serve it yourself, and say when that has ended; else the node to name. */
uint32_t os_trees_ask(struct os_trees *trees, const struct lane_ref *ref, uint64_t chunks, uint32_t node, uint64_t now_ms);
/* What was sent to `node` from here has ended, whole or not. */
void os_trees_served(struct os_trees *trees, mt_id id, uint32_t node);
void os_trees_dead(struct os_trees *trees, mt_id id);
void os_trees_node_lost(struct os_trees *trees, uint32_t node); /* nobody is sent there any more */
void os_trees_fini(struct os_trees *trees);

#endif
