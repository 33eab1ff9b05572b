/* SPDX-License-Identifier: Apache-2.0
 *
 * step.c - a step: gradients (compute.h), their sum, the guard, the update; and the validation that closes an epoch.
 *
 * Owns: nothing. Thread: the trainer's.
 */
#include "sgd/train/step.h"

#include "core/base/clock.h"
#include "sgd/train/compute.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

/* ---- the update ---- */

/* What the update of a part needs. */
struct update {
    const float *gradient; /* as it was summed */
    float        rate, part;
};

static mt_status part_squares(struct sgd_trainer *trainer, struct sgd_range range, void *user)
{
    return sgd_step_squares(trainer, ((struct update *)user)->gradient, range, trainer->squares);
}

/* By all of it, or by what is left of it when it is shortened. */
static mt_status range_update(struct sgd_trainer *trainer, struct sgd_range range, const struct update *u)
{
    const float *gradient = u->gradient;
    float       *moments[SGD_MOMENTS_MAX] = {NULL};

    for (size_t i = range.begin; u->part != 1.0f && i < range.end; i++)
        trainer->cut[i] = gradient[i] * u->part;
    gradient = u->part == 1.0f ? gradient : trainer->cut;
    for (uint32_t m = 0; m < sgd_optimizer_moments(&trainer->config.optimizer); m++)
        moments[m] = trainer->moments[m] + range.begin;
    return sgd_optimizer_update(&trainer->config.optimizer, trainer->config.ops, u->rate, trainer->state->step,
                                gradient + range.begin, range.end - range.begin, trainer->params + range.begin, moments);
}

/* Piece by piece where the state is being copied: each is read from memory once. */
static mt_status part_update(struct sgd_trainer *trainer, struct sgd_range range, void *user)
{
    for (size_t at = range.begin, end; at < range.end; at = end) {
        end = sgd_trainer_settle_some(trainer, at, range.end);
        MT_TRY(range_update(trainer, (struct sgd_range){at, end}, user));
    }
    return mt_ok();
}

/* Which of this worker's virtual ranks gave what is not finite. The sum is made, so nobody reads the slots
 * any more. */
static void culprit_find(struct sgd_trainer *trainer, const struct sgd_group *group)
{
    trainer->is_culprit = false;
    for (uint32_t v = trainer->share_first; v < trainer->share_last && !trainer->is_culprit; v++) {
        bool      is_finite = true;
        mt_status st = sgd_vrank_is_finite(trainer, v, sgd_group_bottom(group), &is_finite);
        if (st.code == MT_OK && is_finite)
            continue;
        trainer->is_culprit = true;
        size_t used = strlen(trainer->fault);
        snprintf(trainer->fault + used, sizeof trainer->fault - used, "; from virtual rank %u, records from sample %llu", v,
                 (unsigned long long)trainer->state->samples + (unsigned long long)v * trainer->config.micro_batch);
    }
}

/* ---- the step ---- */

static mt_status norm_take(struct sgd_trainer *trainer, struct update *update, double *out_norm)
{
    if (trainer->resident)
        return sgd_resident_norm(trainer, update->gradient, out_norm);
    MT_TRY(sgd_parts_run(trainer, trainer->config.model->params.floats, part_squares, update));
    *out_norm = sgd_step_norm(trainer, trainer->squares);
    return mt_ok();
}

static mt_status update_make(struct sgd_trainer *trainer, struct update *update)
{
    if (trainer->resident)
        return sgd_resident_update(trainer, update->rate, update->part);
    return sgd_parts_run(trainer, trainer->config.model->params.floats, part_update, update);
}

mt_status sgd_train_apply(struct sgd_trainer *trainer, const float *sum, struct sgd_result *out_result)
{
    const float      *behind = sum + trainer->config.model->params.floats;
    struct sgd_result result = sgd_step_result(trainer, behind);
    struct update     update = {.gradient = sum, .rate = sgd_step_rate(trainer)};
    double            norm;

    MT_TRY(norm_take(trainer, &update, &norm));
    MT_TRY(sgd_step_guard(trainer, &result, norm, &update.part));
    MT_TRY(update_make(trainer, &update));
    sgd_step_count(trainer, &result, behind + trainer->metrics);
    *out_result = result;
    return mt_ok();
}

/* Between nodes a sum takes long enough to begin it while the last gradient is computed. In all members alike. */
static bool is_overlapped(const struct sgd_trainer *trainer, const struct sgd_group *group)
{
    return group->is_wide && !trainer->is_lockstep && !trainer->resident &&
           trainer->config.model->params.floats * sizeof(float) >= 2 * MT_TRAIN_BUCKET_BYTES;
}

static void gradient_ready(void *user, size_t begin, size_t end)
{
    const struct sgd_device *device = user;
    sgd_overlap_ready(device->overlap, device->index, begin, end);
}

/* The last of each device's virtual ranks, with the sum beside it. */
static mt_status compute_announced(struct sgd_trainer *trainer, struct sgd_group *group)
{
    uint32_t devices = sgd_devices_used(trainer);
    sgd_overlap_begin(trainer->overlap, group, devices);
    for (uint32_t d = 0; d < devices; d++) {
        struct sgd_device *device = &trainer->devices[d];
        device->overlap = trainer->overlap;
        device->index = d;
        device->model->ready = gradient_ready;
        device->model->ready_user = device;
    }
    mt_status st = sgd_gradients_run(trainer, group, SGD_PART_LAST);
    for (uint32_t d = 0; d < devices; d++)
        trainer->devices[d].model->ready = NULL;
    return st;
}

/* All gradients but the last of each device, then those with the sum beside them. */
static mt_status compute_overlapped(struct sgd_trainer *trainer, struct sgd_group *group)
{
    trainer->overlap = trainer->overlap ? trainer->overlap : sgd_overlap_new(trainer->config.ops, trainer->trace);
    if (!trainer->overlap)
        return mt_error(MT_ENOMEM, 0, "train: no memory, or no thread, for sums beside the work");
    uint64_t begun = mt_now_ns();
    MT_TRY(sgd_gradients_run(trainer, group, SGD_PART_BUT_LAST));
    mt_status st = compute_announced(trainer, group);
    trainer->work_ns += mt_now_ns() - begun;
    trainer->gave_up = st.code != MT_OK;
    if (trainer->gave_up) /* the sum that is under way would wait for ever for this member's next bucket */
        sgd_group_abort(group->shm.shared, group->generation, (enum mt_code)st.code, group->shm.rank);
    sgd_trainer_does(trainer, SGD_DOES_SUM);
    sgd_trace_open(trainer->trace, SGD_TRACK_MAIN, SGD_SPAN_SUM_WAIT, 0);
    mt_status summed = sgd_overlap_end(trainer->overlap);
    sgd_trace_close(trainer->trace, SGD_TRACK_MAIN);
    return st.code ? st : summed;
}

static mt_status compute_and_reduce(struct sgd_trainer *trainer, struct sgd_group *group)
{
    const float *sum;
    if (is_overlapped(trainer, group))
        return compute_overlapped(trainer, group);
    uint64_t begun = mt_now_ns();
    MT_TRY(sgd_gradients_run(trainer, group, SGD_PART_ALL));
    trainer->work_ns += mt_now_ns() - begun;
    sgd_trainer_does(trainer, SGD_DOES_SUM);
    sgd_trace_open(trainer->trace, SGD_TRACK_MAIN, SGD_SPAN_SUM, trainer->config.model->params.floats * sizeof(float));
    group->team = trainer->team;
    mt_status st = trainer->resident ? sgd_resident_reduce(trainer, group) : sgd_group_reduce(group, trainer->config.ops, &sum);
    group->team = NULL;
    sgd_trace_close(trainer->trace, SGD_TRACK_MAIN);
    return st;
}

static void share_take(struct sgd_trainer *trainer, const struct sgd_group *group)
{
    uint32_t first, last;
    sgd_group_vranks(group, &first, &last);
    MT_ASSERT(group->plan.lanes == trainer->config.devices);
    sgd_share_set(trainer, first, last);
}

static mt_status step_make(struct sgd_trainer *trainer, struct sgd_group *group, struct sgd_result *out_result)
{
    MT_TRY(sgd_resident_ready(trainer, group));
    share_take(trainer, group);
    MT_TRY(compute_and_reduce(trainer, group));
    sgd_trainer_does(trainer, SGD_DOES_UPDATE);
    sgd_trace_open(trainer->trace, SGD_TRACK_MAIN, SGD_SPAN_UPDATE, 0);
    mt_status st = trainer->config.zero ? sgd_zero_apply(trainer, group, out_result)
                                        : sgd_train_apply(trainer, group->sum, out_result);
    sgd_trace_close(trainer->trace, SGD_TRACK_MAIN);
    if (st.code == MT_ETASK)
        culprit_find(trainer, group);
    return st;
}

mt_status sgd_train_step(struct sgd_trainer *trainer, struct sgd_group *group, struct sgd_result *out_result)
{
    mt_status st = step_make(trainer, group, out_result);
    if (sgd_resident_is_broken(trainer->resident))
        trainer->has_state = false; /* what has failed may be the update of the step before, which nobody has waited for */
    return st;
}

/* ---- evaluation ---- */

/* Adds the metrics over the records from `begin` to `end` to sums[trainer->metrics]. */
static mt_status range_evaluate(struct sgd_trainer *trainer, struct sgd_model *model, const struct sgd_dataset *set, uint64_t begin,
                                uint64_t end, double *sums)
{
    const float *params;
    MT_TRY(sgd_resident_params(trainer, &params));
    while (begin < end) {
        uint64_t         left = end - begin;
        struct sgd_batch batch = {.records = set->records + begin * set->record_size,
                                  .labels = set->labels ? set->labels + begin : NULL,
                                  .count = left < model->batch_max ? (uint32_t)left : model->batch_max,
                                  .record_size = set->record_size,
                                  .sample = begin};
        float            metrics[SGD_METRICS_ALL] = {0};
        sgd_trainer_call(trainer, SGD_DOES_VALIDATE);
        mt_status st = model->ops->evaluate(model, params, &batch, metrics);
        sgd_trainer_called(trainer);
        MT_TRY(sgd_resident_note(trainer, st));
        for (size_t i = 0; i < trainer->metrics; i++)
            sums[i] += (double)metrics[i];
        begin += batch.count;
        sgd_trainer_beat(trainer);
    }
    return mt_ok();
}

mt_status sgd_trainer_evaluate(struct sgd_trainer *trainer, const struct sgd_dataset *set, struct sgd_result *out_result)
{
    double sums[SGD_METRICS_ALL] = {0};
    float  metrics[SGD_METRICS_ALL];
    MT_TRY(range_evaluate(trainer, trainer->config.model, set, 0, set->count, sums));
    for (size_t i = 0; i < trainer->metrics; i++)
        metrics[i] = (float)sums[i];
    *out_result = sgd_step_result(trainer, metrics);
    return mt_ok();
}

/* What stands behind the gradient in a slot. */
static struct sgd_range metrics_range(const struct sgd_trainer *trainer)
{
    return (struct sgd_range){trainer->config.model->params.floats, sgd_trainer_slot(trainer->config.model)};
}

static mt_status vrank_validate(struct sgd_trainer *trainer, uint32_t device, uint32_t done, void *user)
{
    const struct sgd_dataset *set = trainer->config.validate;
    struct sgd_model         *model = trainer->devices[device].model;
    uint32_t                  vranks = trainer->config.vranks, v = sgd_lane_vrank(&trainer->devices[device].lane, done);
    struct sgd_range          range = metrics_range(trainer);
    double                    sums[SGD_METRICS_ALL] = {0};
    float                    *slot;

    MT_TRY(sgd_group_room(user, trainer->config.ops, device, done, range, &slot));
    MT_TRY(range_evaluate(trainer, model, set, set->count * v / vranks, set->count * (v + 1) / vranks, sums));
    memset(slot + range.begin, 0, (range.end - range.begin) * sizeof *slot);
    for (size_t i = 0; i < trainer->metrics; i++)
        slot[range.begin + i] = (float)sums[i];
    return mt_ok();
}

/* Each virtual rank takes its share of the records, in order, and the shares are added as gradients are. */
static mt_status validate(struct sgd_trainer *trainer, struct sgd_group *group, struct sgd_result *out)
{
    struct sgd_range metrics = metrics_range(trainer);

    share_take(trainer, group);
    MT_TRY(sgd_vranks_run(trainer, SGD_PART_ALL, vrank_validate, group));
    sgd_trainer_does(trainer, SGD_DOES_SUM);
    MT_TRY(sgd_group_reduce_ranges(group, trainer->config.ops, &metrics, 1));
    *out = sgd_step_result(trainer, group->sum + metrics.begin);
    return mt_ok();
}

static void score(struct sgd_trainer *trainer, const struct sgd_result *result)
{
    struct sgd_progress *p = &trainer->state->progress;
    bool                 is_first = p->epochs_closed == 0;
    p->score = (double)result->values[trainer->config.score];
    double better = trainer->config.score_max ? p->score - p->best : p->best - p->score;
    if (is_first || better > trainer->config.min_delta) {
        p->best = p->score;
        p->bad = 0;
    } else {
        p->bad++;
    }
    if (p->stop == SGD_STOPPING || (trainer->config.patience && p->bad >= trainer->config.patience))
        p->stop = SGD_STOPPED;
}

mt_status sgd_trainer_close(struct sgd_trainer *trainer, struct sgd_group *group, struct sgd_result *out_result)
{
    struct sgd_progress *p = &trainer->state->progress;
    struct sgd_result    result = {0};

    MT_ASSERT(trainer->has_state && sgd_trainer_is_open(trainer));
    if (trainer->config.validate)
        MT_TRY(validate(trainer, group, &result));
    else
        sgd_progress_values(p, result.values);
    result.loss = result.values[0];
    result.accuracy = result.values[1];
    score(trainer, &result);
    uint64_t ended = sgd_sampler_epoch(&trainer->sampler, trainer->state->samples);
    p->epochs_closed = (uint32_t)(ended > p->epochs_closed ? ended : p->epochs_closed + 1);
    p->steps = 0;
    memset(p->sums, 0, sizeof p->sums);
    memcpy(p->values, result.values, sizeof p->values);
    *out_result = result;
    return mt_ok();
}
