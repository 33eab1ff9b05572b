/* SPDX-License-Identifier: Apache-2.0
 *
 * trainer_local.h - one worker's part of a data-parallel run: the loop body that everything above calls.
 *
 * A trainer holds a full copy of the state (parameters, velocity, progress) and nothing of how workers come
 * and go:
 *
 *   sgd_trainer_init
 *   for each generation of the group:
 *       sgd_group_join       with the plan of sgd_trainer_plan
 *       sgd_trainer_sync     the state of who is furthest; ENOENT: nobody has one; then rank 0 calls
 *                            sgd_trainer_resume or sgd_trainer_begin, and all sync again
 *       sgd_train_step       until sgd_trainer_is_done, or an error: then this generation is over
 *   sgd_trainer_fini
 *
 * Which samples a step uses, how they are cut into virtual ranks, and the order in which gradients are added
 * depend on the configuration only. So the state after step k has the same bits for any number of workers,
 * and after any death.
 *
 * Thread: one per trainer. The model, data set and kernels are borrowed until sgd_trainer_fini.
 */
#ifndef SGD_TRAINER_LOCAL_H
#define SGD_TRAINER_LOCAL_H

#include "sgd/checkpoint.h"
#include "sgd/collective.h"
#include "sgd/model.h"
#include "sgd/sampler.h"

/* Zero means the default. The same in all workers: the group compares a fingerprint of it. */
struct sgd_trainer_config {
    const struct k_ops       *ops;
    struct sgd_model         *model;
    const struct sgd_dataset *train;
    uint64_t                  seed;
    uint32_t                  vranks;      /* 8; the most workers that can share a step */
    uint32_t                  micro_batch; /* 12 samples of each virtual rank per step */
    uint32_t                  epochs;      /* 1 */
    uint64_t                  warmup;      /* steps in which the rate grows; then it falls as a cosine */
    float                     rate;        /* 0.03 */
    float                     momentum;    /* 0.9; negative: none */
    float                     decay;       /* of weights; none */
};

/* Everything that a step changes, in one block, so that one broadcast carries it. */
struct sgd_state {
    uint64_t step;        /* completed */
    uint64_t samples;     /* consumed */
    uint64_t reserved[6]; /* so that the floats begin on a cache line */
    float    floats[];    /* params, then velocity, each in whole cache lines */
};

struct sgd_trainer {
    struct sgd_trainer_config config;
    struct sgd_sampler        sampler;
    struct sgd_state         *state;
    bool                      has_state; /* false: no values yet, or torn by a broadcast that was aborted */
    float                    *params, *velocity;
    uint64_t                  steps_total;
    size_t                    state_size;
    uint8_t                  *records, *labels; /* of one micro-batch */
    uint64_t                 *indices;
};

/* What a step or an evaluation did, over all workers. */
struct sgd_result {
    float    loss, accuracy; /* means over its samples */
    uint64_t samples;
};

/* EINVAL: configuration out of range or not fitting model and data; ENOMEM. */
MT_MUST_USE mt_status sgd_trainer_init(struct sgd_trainer *trainer, const struct sgd_trainer_config *config);
void sgd_trainer_fini(struct sgd_trainer *trainer);

/* The plan with which the trainer's groups are joined. */
struct sgd_group_plan sgd_trainer_plan(const struct sgd_trainer *trainer);

/* Initial parameters from the seed; step 0. */
void sgd_trainer_begin(struct sgd_trainer *trainer);

/* The state of the newest valid checkpoint in `folder`. ENOENT: none; EINVAL: it belongs to another model,
 * data position or seed. The state is unchanged by an error; `report` says what was passed over. */
MT_MUST_USE mt_status sgd_trainer_resume(struct sgd_trainer *trainer, const char *folder,
                                         struct sgd_checkpoint_report *report);

/* Saves the state; errors of sgd_checkpoint_save. */
MT_MUST_USE mt_status sgd_trainer_save(const struct sgd_trainer *trainer, const char *folder, uint32_t keep,
                                       uint64_t generation);

/* Collective. Gives every member the state of the furthest (see sgd_group_agree). ENOENT, in all: nobody has
 * one. */
MT_MUST_USE mt_status sgd_trainer_sync(struct sgd_trainer *trainer, struct sgd_group *group);

/* Collective: the gradient of this member's virtual ranks, the sum over all, the update. ETASK, in all and
 * before the update: the loss is not finite. After any error the state is that of the last completed step. */
MT_MUST_USE mt_status sgd_train_step(struct sgd_trainer *trainer, struct sgd_group *group,
                                     struct sgd_result *out_result);

/* The parts of sgd_train_step, for callers with a reduction of their own: the gradients of virtual ranks
 * first <= v < last into slots[v - first] (plan.slot_floats each), and the update by a sum over all of them.
 */
MT_MUST_USE mt_status sgd_train_compute(struct sgd_trainer *trainer, uint32_t first, uint32_t last,
                                        float *const *slots);
MT_MUST_USE mt_status sgd_train_apply(struct sgd_trainer *trainer, const float *sum,
                                      struct sgd_result *out_result);

/* Loss and accuracy of the present parameters over a data set. */
MT_MUST_USE mt_status sgd_trainer_evaluate(struct sgd_trainer *trainer, const struct sgd_dataset *set,
                                           struct sgd_result *out_result);

bool sgd_trainer_is_done(const struct sgd_trainer *trainer);

#endif
