/* SPDX-License-Identifier: Apache-2.0
 *
 * collective.h - what a group computes together. Errors, blocking and threads: as in group.h.
 */
#ifndef SGD_COLLECTIVE_H
#define SGD_COLLECTIVE_H

#include "kernels/kernels.h"
#include "sgd/sum/group.h"

/* Adds what all virtual ranks contributed in one fixed binary tree and gives the sum (plan.slot_floats; the
 * first plan.mean_floats of them are divided by the number of virtual ranks), in shared memory, readable
 * until this member's next collective call. The tree is over virtual ranks, so the bits do not depend on how
 * many members share the work, nor on which nodes they are: each node sends the others the sums of complete
 * subtrees. Each member has written its slots before; it may write them again as soon as this returns. Where
 * the plan is sharded, of the first mean_floats only the shards of this node's members are set, unless it is
 * mirrored. */
MT_MUST_USE mt_status sgd_group_reduce(struct sgd_group *group, const struct k_ops *ops, const float **out_sum);
/* The same for some parts of every slot, in rising order, the same in all members (else EINVAL): group->sum
 * there. */
MT_MUST_USE mt_status sgd_group_reduce_ranges(struct sgd_group *group, const struct k_ops *ops, const struct sgd_range *ranges,
                                              size_t count);

/* Copies `size` bytes from `root`'s `data` to everybody's, through the slots (whose contents are lost). A member
 * other than the root that has no need of them passes NULL. After an error the others' data may be partly
 * overwritten. */
MT_MUST_USE mt_status sgd_group_broadcast(struct sgd_group *group, uint32_t root, void *data, size_t size);

/* Copies `size` bytes from those members that have them (bit r of `holders`: rank r; one at least, the same in all members) to
 * those that lack them. Each node that has them serves its own members; of the others each gets them once, by its leader. After an
 * error the data of those that lack them may be partly overwritten; that of holders never is. */
MT_MUST_USE mt_status sgd_group_pass(struct sgd_group *group, uint64_t holders, void *data, size_t size);

/* Gives all members a number of each. */
MT_MUST_USE mt_status sgd_group_exchange(struct sgd_group *group, uint64_t mine, uint64_t out_all[MT_GROUP_MEMBERS_MAX]);

/* How far the members are. */
struct sgd_agreement {
    bool     has_state;          /* somebody has; else the rest is 0 */
    bool     is_equal;           /* all members have a state, of the same step */
    uint64_t step_min, step_max; /* over those that have a state */
    uint32_t root;               /* the lowest rank whose state is of step_max: from whom the others take it */
    uint64_t furthest;           /* bit r: rank r's is */
};

/* Tells the others whether this member has a state and of which completed step (below 2^64 - 1), and gives
 * what all of them said. All get the same answer. */
MT_MUST_USE mt_status sgd_group_agree(struct sgd_group *group, bool has_state, uint64_t step, struct sgd_agreement *out_agreement);

#endif
