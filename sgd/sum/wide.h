/* SPDX-License-Identifier: Apache-2.0
 *
 * wide.h - one sum over the virtual ranks of several nodes, in the tree of one node.
 *
 * A node's virtual ranks are one run, which falls into pieces of the tree (tree/tree.h). So each node sums
 * its pieces, the leaders exchange them, and who has all of them joins them as the tree does. Two nodes with
 * half of the virtual ranks each have one piece each.
 */
#ifndef SGD_GROUP_WIDE_H
#define SGD_GROUP_WIDE_H

#include "sgd/sum/collective.h"

/* The pieces of a node of the group, in order. */
uint32_t sgd_group_pieces(const struct sgd_group *group, uint32_t node, struct sgd_piece out[SGD_PIECES_MAX]);

/* Where this node's sum of its i-th piece stands. */
float *sgd_group_partial(const struct sgd_group *group, uint32_t index);

/* A leader's: room for what a sum of everything brings. */
MT_MUST_USE mt_status sgd_group_scratch(struct sgd_group *group);

/* A leader's: from the sums of its node's pieces to group->sum, in these ranges, on every node. `shape` is compared first. */
MT_MUST_USE mt_status sgd_group_sum_nodes(struct sgd_group *group, const struct sgd_range *ranges, size_t count, uint64_t shape);

#endif
