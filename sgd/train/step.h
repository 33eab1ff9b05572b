/* SPDX-License-Identifier: Apache-2.0
 *
 * step.h - what both ways to update, the whole (step.c) and by shards (zero.c), have in common.
 */
#ifndef SGD_STEP_H
#define SGD_STEP_H

#include "sgd/train/trainer.h"

/* What stands behind the gradient in a sum, as means. */
struct sgd_result sgd_step_result(const struct sgd_trainer *trainer, const float *metrics);
/* Sums of squares of whole blocks (SGD_SHARD_BLOCK) from `begin` to `end`, into squares[block]. */
MT_MUST_USE mt_status sgd_step_squares(const struct sgd_trainer *trainer, const float *gradient, struct sgd_range range,
                                       double *squares);
/* The gradient's length by the squares of all its blocks, always in the same order. */
double sgd_step_norm(const struct sgd_trainer *trainer, const double *squares);
/* May the update be made? *out_part: by what the gradient is to be multiplied first. ETASK; then trainer->fault says why. */
MT_MUST_USE mt_status sgd_step_guard(struct sgd_trainer *trainer, const struct sgd_result *result, double norm, float *out_part);
/* The factor alone, of a gradient that has passed the guard. */
float sgd_step_part(const struct sgd_trainer *trainer, double norm);
/* The rate of the step that is under way. */
float sgd_step_rate(const struct sgd_trainer *trainer);
/* Counts the step, with what stands behind the gradient in its sum. */
void sgd_step_count(struct sgd_trainer *trainer, const struct sgd_result *result, const float *flags);

#endif
