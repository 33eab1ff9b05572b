/* SPDX-License-Identifier: Apache-2.0
 *
 * lost.h - what tests of lost values share: a cluster whose node 1 dies, values by seed, and a board that counts runs.
 */
#ifndef TEST_CLUSTER_LOST_H
#define TEST_CLUSTER_LOST_H

#include "tests/integration/cluster/nodes.h"

#include <stdlib.h>

enum { SIZE = 100 * 1000 }; /* of each value: it stands in the store of the node that made it */

/* In a worker: the value of that seed is returned; a value's seed, or -1. */
manta_status lost_give(manta_ctx *c, int64_t seed);
int64_t      lost_seen(const char *data, size_t size, int64_t seed);

/* The driver's; workers map the board by its number. */
extern struct test_board *lost_board;
extern uint64_t           lost_board_number;

/* First thing in a case: so many nodes, each with room for everything, and the board. */
void lost_begin(struct nodes *n, int count);
/* Labels of node 1, and of the heir, which is not there yet: what has them runs on node 1, also where that is suspect meanwhile. */
const char *lost_victim(void);
/* The heir joins, and the driver's node knows it. */
void lost_heir(struct nodes *n);
/* Kills it; brings it back, as another incarnation. */
void lost_kill(struct nodes *n);
void lost_bring_back(struct nodes *n);
/* A task on node i that has begun, and holds the ref; it reads the value when word 11 is 1, and gives its seed, or -1. */
manta_ref *lost_borrow(int i, manta_ref *ref, int64_t seed, uint64_t size);
void       lost_wait_made(manta_ref *ref); /* and leaves no copy here */
void       lost_check_value(manta_ref *ref, int64_t seed);
void       lost_check_gone(manta_ref *ref, const char *says);

#endif
