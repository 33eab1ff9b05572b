/* SPDX-License-Identifier: Apache-2.0
 *
 * optimizer.h - from a gradient to new parameters: the update, and the rate of a step.
 *
 * Pure functions over the caller's memory. Everything here is computed by each worker alike, from the same sum: so all of
 * them end with the same bits without a further message.
 */
#ifndef SGD_OPTIMIZER_H
#define SGD_OPTIMIZER_H

#include "kernels/kernels.h"

enum sgd_optimizer_kind { SGD_MOMENTUM, SGD_ADAMW };
enum sgd_schedule { SGD_COSINE, SGD_CONSTANT, SGD_STEP };
enum { SGD_MOMENTS_MAX = 2 };

/* Zero means the default (manta_sgd.h names them); of momentum and decay, negative means none. */
struct sgd_optimizer {
    uint32_t kind, schedule;
    float    rate, momentum, beta1, beta2, epsilon, decay;
    float    step_gamma;
    uint32_t step_epochs;
    uint64_t warmup;    /* steps */
    float    clip_norm; /* 0: gradients are not cut */
    float    max_norm;  /* 0: any finite one is good */
};

/* Puts defaults in place; once. EINVAL: something is out of range. */
MT_MUST_USE mt_status sgd_optimizer_resolve(struct sgd_optimizer *optimizer);

/* Vectors that it keeps, each as long as the parameters, and their names in checkpoints. */
uint32_t    sgd_optimizer_moments(const struct sgd_optimizer *optimizer);
const char *sgd_optimizer_moment(const struct sgd_optimizer *optimizer, uint32_t index);

/* The rate of the step after `step` completed ones. */
float sgd_optimizer_rate(const struct sgd_optimizer *optimizer, uint64_t step, uint64_t steps_total, uint64_t epoch_steps);

/* Parameters and moments after one more step; `step` counts the completed ones. EDEVICE. */
MT_MUST_USE mt_status sgd_optimizer_update(const struct sgd_optimizer *optimizer, const struct k_ops *ops, float rate,
                                           uint64_t step, const float *gradient, size_t count, float *params,
                                           float *const moments[SGD_MOMENTS_MAX]);

#endif
