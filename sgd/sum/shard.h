/* SPDX-License-Identifier: Apache-2.0
 *
 * shard.h - the parameters cut into shards, one for each member of a group: whose optimizer keeps state for which.
 *
 * A shard is a run of whole blocks; the block is also the unit in which the gradient's length is summed, so that this sum has one
 * order whatever the number of members. Members are numbered node by node, so the shards of a node are one run as well.
 *
 * Errors, blocking and threads of the calls with a group: as in group.h.
 */
#ifndef SGD_SHARD_H
#define SGD_SHARD_H

#include "sgd/sum/collective.h"

enum { SGD_SHARD_BLOCK = 1024 }; /* floats */

static inline size_t sgd_shard_blocks(size_t floats)
{
    return (floats + SGD_SHARD_BLOCK - 1) / SGD_SHARD_BLOCK;
}

/* Where the shard of `rank` of `members` begins; of rank == members: where the last one ends. */
static inline size_t sgd_shard_begin(size_t floats, uint32_t rank, uint32_t members)
{
    size_t at = (size_t)((uint64_t)sgd_shard_blocks(floats) * rank / members) * SGD_SHARD_BLOCK;
    return at < floats ? at : floats;
}

static inline struct sgd_range sgd_shard_of(size_t floats, uint32_t rank, uint32_t members)
{
    return (struct sgd_range){sgd_shard_begin(floats, rank, members), sgd_shard_begin(floats, rank + 1, members)};
}

/* Whose shard a member mirrors: half of the group away, so on another node where there are several of one size. */
static inline uint32_t sgd_shard_mirrored(uint32_t rank, uint32_t members)
{
    return (rank + members / 2) % members;
}

/* Each member has written its shard's part of group->squares (a double for each block), or of group->fresh: afterwards all of
 * them stand there on every node, until this member's next reduction. */
MT_MUST_USE mt_status sgd_group_share_squares(struct sgd_group *group);
MT_MUST_USE mt_status sgd_group_share_fresh(struct sgd_group *group);

#endif
