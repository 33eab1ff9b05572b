/* SPDX-License-Identifier: Apache-2.0
 *
 * zero.h - the optimizer's state cut into shards, one for each member of a generation (ZeRO, stage 1).
 *
 * A member keeps all parameters, and the optimizer's vectors for its own shard (shard.h) only; with a backup also those of the
 * member half of the group away, which it computes again from the same sum instead of being sent them. A step:
 *
 *   reduce --> squares of the own shard, shared --> guard --> update of the shard(s) --> new parameters, shared --> all have them
 *                                                             |------------- is_partial -------------|
 *
 * What a death leaves of a step can be put right where all shards are left: once one member has passed the guard, each other one
 * has the sum of its shard in its node's region, and does the same update when it learns of that (sgd_zero_sync).
 *
 * Thread: the trainer's.
 */
#ifndef SGD_ZERO_H
#define SGD_ZERO_H

#include "sgd/model/optimizer.h"
#include "sgd/save/checkpoint.h"
#include "sgd/sum/shard.h"

#include <stdatomic.h>

struct sgd_trainer;
struct sgd_result;

/* What a member of a generation keeps. */
struct sgd_shards {
    bool             is_whole;                  /* else nothing of it counts */
    uint32_t         generation, rank, members; /* when it was cut so; generation 0: begun or loaded, by one */
    struct sgd_range of[2];                     /* floats of the parameters: its own, and the ones that it mirrors */
    float           *moments[2][SGD_MOMENTS_MAX];
};

struct sgd_zero {
    struct sgd_shards           now, next;  /* `next` while shards are passed on, until all have theirs */
    bool                        is_partial; /* parameters outside of `now` may be those of the step before */
    const _Atomic bool         *given_up;   /* of a copy that is being saved: nobody waits for it; NULL: somebody does */
    struct sgd_checkpoint_apart apart;      /* who keeps what where members see several folders */
};

/* The shards of one member that has everything, all 0. ENOMEM. */
MT_MUST_USE mt_status sgd_zero_begin(struct sgd_trainer *trainer);
void                  sgd_zero_free(struct sgd_trainer *trainer);

/* Collective: the update, by the sum of a reduction. Errors of sgd_train_step. */
MT_MUST_USE mt_status sgd_zero_apply(struct sgd_trainer *trainer, struct sgd_group *group, struct sgd_result *out_result);

/* Collective: sgd_trainer_sync for shards. ENOENT also where a shard is nowhere any more. */
MT_MUST_USE mt_status sgd_zero_sync(struct sgd_trainer *trainer, struct sgd_group *group);

/* Collective, after a step. Those in `leavers` (bit r: rank r; rank 0's word counts) will be in no other generation: those who stay
 * have all shards afterwards, cut anew among them. Nothing happens where nobody leaves, or all do. An error ends the generation;
 * the shards are where they were then, or where they go to. */
MT_MUST_USE mt_status sgd_zero_hand_over(struct sgd_trainer *trainer, struct sgd_group *group, uint64_t leavers);

/* The own shard of `from` into a trainer that is to be saved. ENOMEM. */
MT_MUST_USE mt_status sgd_zero_copy(struct sgd_trainer *to, const struct sgd_trainer *from);

/* Bytes of the optimizer's state in this process. */
size_t sgd_zero_bytes(const struct sgd_trainer *trainer);

#endif
