/* SPDX-License-Identifier: Apache-2.0
 *
 * progress.c - how far a run is, and what a sum says of a step: what both ways to update (step.c, zero.c) have in common.
 *
 * Owns: nothing. Thread: the trainer's.
 */
#include "sgd/train/step.h"

#include <math.h>
#include <stdio.h>

/* ---- where it is ---- */

bool sgd_trainer_is_done(const struct sgd_trainer *trainer)
{
    return trainer->state->step >= trainer->steps_total || trainer->state->progress.stop != SGD_GOES_ON;
}

bool sgd_trainer_is_open(const struct sgd_trainer *trainer)
{
    const struct sgd_progress *progress = &trainer->state->progress;
    uint64_t                   ended = sgd_sampler_epoch(&trainer->sampler, trainer->state->samples);
    if (progress->stop != SGD_GOES_ON)
        return progress->stop == SGD_STOPPING;
    if (trainer->state->step >= trainer->steps_total)
        return progress->epochs_closed < ended;
    return ended >= progress->epochs_closed + (uint64_t)trainer->config.validate_epochs;
}

uint64_t sgd_trainer_how_far(const struct sgd_trainer *trainer)
{
    return 2 * trainer->state->step + !sgd_trainer_is_open(trainer);
}

/* ---- what a sum says ---- */

struct sgd_result sgd_step_result(const struct sgd_trainer *trainer, const float *metrics)
{
    float             samples = metrics[SGD_METRIC_SAMPLES];
    struct sgd_result result = {.samples = (uint64_t)samples};
    for (size_t i = 0; i < 2; i++)
        result.values[i] = metrics[i] / samples;
    for (size_t i = SGD_METRICS; i < trainer->metrics; i++)
        result.values[i - SGD_METRICS + 2] = metrics[i] / samples;
    result.loss = result.values[0];
    result.accuracy = result.values[1];
    return result;
}

/* ---- the guard ---- */

static mt_status fault(struct sgd_trainer *trainer, const char *what, double value, double limit)
{
    unsigned long long step = trainer->state->step + 1;
    if (limit > 0)
        snprintf(trainer->fault, sizeof trainer->fault, "step %llu: %s is %g, more than %g", step, what, value, limit);
    else
        snprintf(trainer->fault, sizeof trainer->fault, "step %llu: %s is not finite (%g)", step, what, value);
    return mt_error(MT_ETASK, 0, "train: loss or gradient is not finite, or too long");
}

mt_status sgd_step_squares(const struct sgd_trainer *trainer, const float *gradient, struct sgd_range range, double *squares)
{
    for (size_t at = range.begin; at < range.end; at += SGD_SHARD_BLOCK) {
        size_t count = range.end - at < SGD_SHARD_BLOCK ? range.end - at : SGD_SHARD_BLOCK;
        MT_TRY(trainer->config.ops->sum_squares(NULL, gradient + at, count, &squares[at / SGD_SHARD_BLOCK]));
    }
    return mt_ok();
}

double sgd_step_norm(const struct sgd_trainer *trainer, const double *squares)
{
    double sum = 0;
    for (size_t b = 0; b < sgd_shard_blocks(trainer->config.model->params.floats); b++)
        sum += squares[b];
    return sqrt(sum);
}

float sgd_step_part(const struct sgd_trainer *trainer, double norm)
{
    double most = (double)trainer->config.optimizer.clip_norm;
    return most == 0 || norm <= most ? 1.0f : (float)(most / norm);
}

mt_status sgd_step_guard(struct sgd_trainer *trainer, const struct sgd_result *result, double norm, float *out_part)
{
    const struct sgd_optimizer *o = &trainer->config.optimizer;

    if (!isfinite(result->loss))
        return fault(trainer, "the loss", (double)result->loss, 0);
    if (!isfinite(norm))
        return fault(trainer, "the gradient", norm, 0);
    if (o->max_norm > 0 && norm > (double)o->max_norm)
        return fault(trainer, "the gradient's length", norm, (double)o->max_norm);
    *out_part = sgd_step_part(trainer, norm);
    return mt_ok();
}

/* ---- counting ---- */

float sgd_step_rate(const struct sgd_trainer *trainer)
{
    return sgd_optimizer_rate(&trainer->config.optimizer, trainer->state->step, trainer->steps_total, trainer->epoch_steps);
}

void sgd_step_count(struct sgd_trainer *trainer, const struct sgd_result *result, const float *flags)
{
    struct sgd_state *state = trainer->state;
    state->step++;
    state->samples += sgd_sampler_step_size(&trainer->sampler);
    state->progress.steps++;
    for (int i = 0; i < SGD_VALUES; i++)
        state->progress.sums[i] += (double)result->values[i];
    if (flags[SGD_FLAG_STOP] > 0)
        state->progress.stop = SGD_STOPPING;
    trainer->is_save_asked = flags[SGD_FLAG_SAVE] > 0;
    trainer->is_pause_asked = flags[SGD_FLAG_PAUSE] > 0;
    trainer->is_leave_asked = flags[SGD_FLAG_LEAVE] > 0;
    trainer->is_save_lacking = flags[SGD_FLAG_LACK] > 0;
}
