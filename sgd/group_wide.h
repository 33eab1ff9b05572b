/* SPDX-License-Identifier: Apache-2.0
 *
 * group_wide.h - one sum over the virtual ranks of several nodes, in the tree of one node.
 *
 * The tree over V virtual ranks joins 0..1, 2..3, ..., then 0..3, ...: aligned runs of 2^l. A node's virtual ranks are one
 * run from `first` to `last`, which falls into the largest aligned runs that fit (its pieces): these are nodes of the tree,
 * whatever the other virtual ranks are. So each node sums its pieces, the leaders exchange them, and who has all of
 * them joins them as the tree does. Two nodes with half of the virtual ranks each have one piece each.
 */
#ifndef SGD_GROUP_WIDE_H
#define SGD_GROUP_WIDE_H

#include "sgd/collective.h"

enum { SGD_PIECES_MAX = 20 }; /* of one node: two of each size below MT_VRANKS_MAX */
static_assert(MT_VRANKS_MAX <= 1 << (SGD_PIECES_MAX / 2), "an aligned run at each end, of each size");

/* An aligned run of 2^level virtual ranks. */
struct sgd_piece {
    uint32_t first, level;
};

/* The pieces of the virtual ranks first <= vrank < last, in order. */
uint32_t sgd_pieces_of(uint32_t first, uint32_t last, struct sgd_piece out[SGD_PIECES_MAX]);
/* Those of a node of the group. */
uint32_t sgd_group_pieces(const struct sgd_group *group, uint32_t node, struct sgd_piece out[SGD_PIECES_MAX]);

/* Where this node's sum of its i-th piece stands: a slot, where it is one virtual rank. */
float *sgd_group_partial(const struct sgd_group *group, const struct sgd_piece *piece, uint32_t index);

/* A leader's: from the sums of its node's pieces to group->sum, in these ranges, on every node. `shape` is compared first. */
MT_MUST_USE mt_status sgd_group_sum_nodes(struct sgd_group *group, const struct sgd_range *ranges, size_t count,
                                          uint64_t shape);

#endif
