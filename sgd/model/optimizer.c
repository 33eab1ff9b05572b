/* SPDX-License-Identifier: Apache-2.0
 *
 * optimizer.c - SGD with momentum, AdamW, and schedules.
 *
 * Owns: nothing. Thread: any.
 */
#include "sgd/model/optimizer.h"

#include <math.h>

/* ---- configuration ---- */

static float defaulted(float value, float otherwise)
{
    return value == 0.0f ? otherwise : value < 0.0f ? 0.0f : value;
}

mt_status sgd_optimizer_resolve(struct sgd_optimizer *o)
{
    bool is_adamw = o->kind == SGD_ADAMW;
    if (o->kind > SGD_ADAMW || o->schedule > SGD_STEP)
        return mt_error(MT_EINVAL, 0, "optimizer: unknown kind or schedule");
    if (!(o->rate >= 0.0f) || !isfinite(o->rate) || !(o->momentum < 1.0f) || !(o->clip_norm >= 0.0f) || !(o->max_norm >= 0.0f))
        return mt_error(MT_EINVAL, 0, "optimizer: lr, momentum, clip_norm or max_norm is out of range");
    if (!(o->beta1 >= 0.0f && o->beta1 < 1.0f) || !(o->beta2 >= 0.0f && o->beta2 < 1.0f) || !(o->epsilon >= 0.0f))
        return mt_error(MT_EINVAL, 0, "optimizer: beta1, beta2 or epsilon is out of range");
    if (!isfinite(o->decay) || !(o->step_gamma >= 0.0f) || !isfinite(o->step_gamma))
        return mt_error(MT_EINVAL, 0, "optimizer: weight_decay or step_gamma is out of range");
    o->rate = defaulted(o->rate, is_adamw ? 1e-3f : 0.03f);
    o->momentum = defaulted(o->momentum, 0.9f);
    o->beta1 = defaulted(o->beta1, 0.9f);
    o->beta2 = defaulted(o->beta2, 0.999f);
    o->epsilon = defaulted(o->epsilon, 1e-8f);
    o->decay = defaulted(o->decay, is_adamw ? 0.01f : 0.0f);
    o->step_gamma = defaulted(o->step_gamma, 0.1f);
    o->step_epochs = o->step_epochs ? o->step_epochs : 1;
    return mt_ok();
}

uint32_t sgd_optimizer_moments(const struct sgd_optimizer *o)
{
    return o->kind == SGD_ADAMW ? 2 : 1;
}

const char *sgd_optimizer_moment(const struct sgd_optimizer *o, uint32_t index)
{
    return o->kind == SGD_MOMENTUM ? "velocity" : index == 0 ? "m" : "v";
}

/* ---- rate ---- */

float sgd_optimizer_rate(const struct sgd_optimizer *o, uint64_t step, uint64_t steps_total, uint64_t epoch_steps)
{
    if (step < o->warmup)
        return o->rate * (float)(step + 1) / (float)o->warmup;
    if (o->schedule == SGD_CONSTANT)
        return o->rate;
    if (o->schedule == SGD_STEP)
        return (float)((double)o->rate * pow((double)o->step_gamma, (double)(step / (epoch_steps * o->step_epochs))));
    if (step >= steps_total || steps_total == o->warmup)
        return 0.0f;
    double part = (double)(step - o->warmup) / (double)(steps_total - o->warmup);
    return (float)((double)o->rate * 0.5 * (1.0 + cos(part * 3.14159265358979323846)));
}

/* ---- update ---- */

mt_status sgd_optimizer_update(const struct sgd_optimizer *o, const struct k_ops *ops, float rate, uint64_t step,
                               const float *gradient, size_t count, float *params, float *const moments[SGD_MOMENTS_MAX])
{
    struct k_sgd update = {params, moments[0], gradient, count, rate, o->momentum, o->decay};
    if (o->kind == SGD_MOMENTUM)
        return ops->sgd_update(NULL, &update);
    struct k_adamw adamw = {params, moments[0], moments[1], gradient,   count,   step + 1,
                            rate,   o->beta1,   o->beta2,   o->epsilon, o->decay};
    return ops->adamw_update(NULL, &adamw);
}
