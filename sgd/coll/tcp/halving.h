/* SPDX-License-Identifier: Apache-2.0
 *
 * halving.h - who talks to whom in a sum by recursive halving, for any number of members, so that its bits are those of the fixed
 * tree over ranks.
 *
 * Of P = 2^K positions, the lowest that hold all members, the first are the members. Step k joins two neighbours of the tree: on
 * its left a whole run of 2^k members, on its right the next run, which may be shorter. Position i of the left meets position i
 * of the right, and each keeps half of what it has: slices (there are P) whose number is its own modulo 2^(k + 1). After K steps
 * member r has slice r. The way back, K - 1 to 0, gathers.
 *
 *   p = 6:   0 1 2 3 4 5 (6 7)    step 0: 0-1 2-3 4-5    step 1: 0-2 1-3    step 2: 0-4 1-5 2-(6) 3-(7)
 *
 * Positions without a member are those of a member of the same right side: (6) is 4's and (7) is 5's. So the lower ranks always
 * come first, nothing is added in another order than the tree's, and each slice is sent p - 1 times: as few as possible. Slices
 * whose number is no member's are empty.
 *
 * Peers: K of each member where p is 2^K. Else a member of a short right side has one for each position that is its own: up
 * to P / 2, where p is 2^n + 1.
 *
 * Thread: any; pure.
 */
#ifndef SGD_COLL_HALVING_H
#define SGD_COLL_HALVING_H

#include "core/base/limits/train.h"

#include <stdbool.h>
#include <stdint.h>

/* One exchange of a step: this member keeps slices keep, keep + modulus, ...; its peer keeps the others. */
struct coll_pair {
    uint32_t peer, keep, give;
    bool     is_left; /* the peer's ranks are the higher ones */
};

/* K. */
uint32_t coll_halving_steps(uint32_t members);
/* The pairs of a member in a step, in which `modulus` is 2^(step + 1); at most MT_GROUP_MEMBERS_MAX / 2. */
uint32_t coll_halving_pairs(uint32_t members, uint32_t rank, uint32_t step, struct coll_pair out[MT_GROUP_MEMBERS_MAX / 2]);
/* Bit m: member m is a peer in some step. */
uint64_t coll_halving_peers(uint32_t members, uint32_t rank);
/* The index-th slice as they follow each other in a vector: then those of one modulus are one run. */
uint32_t coll_halving_slice(uint32_t members, uint32_t index);

#endif
