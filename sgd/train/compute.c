/* SPDX-License-Identifier: Apache-2.0
 *
 * compute.c - who of a worker's devices computes which virtual rank, and the gradient of one.
 *
 * Owns: nothing; devices and their threads are the trainer's. Thread: the trainer's; work runs in the devices'.
 */
#include "sgd/train/compute.h"

#include <math.h>
#include <string.h>

/* ---- virtual ranks ---- */

void sgd_share_set(struct sgd_trainer *trainer, uint32_t first, uint32_t last)
{
    uint32_t count = trainer->config.devices < last - first ? trainer->config.devices : last - first;
    if (trainer->share_first == first && trainer->share_last == last)
        return;
    trainer->share_first = first;
    trainer->share_last = last;
    for (uint32_t d = 0; d < count; d++) {
        trainer->devices[d].lane = sgd_lane_of(first, last, d, count);
        sgd_feed_share(&trainer->devices[d].feed, trainer->devices[d].lane);
    }
}

uint32_t sgd_devices_used(const struct sgd_trainer *trainer)
{
    uint32_t count = trainer->share_last - trainer->share_first;
    return count < trainer->config.devices ? count : trainer->config.devices;
}

struct round {
    struct sgd_trainer *trainer;
    enum sgd_part       part;
    sgd_vrank_work     *work;
    void               *user;
    _Atomic uint32_t    failed; /* the lowest virtual rank that did; UINT32_MAX: none */
};

static void failed_note(struct round *r, uint32_t v)
{
    uint32_t seen = atomic_load(&r->failed);
    while (v < seen && !atomic_compare_exchange_weak(&r->failed, &seen, v))
        ;
}

/* Goes on below the lowest that has failed: one that is still to fail there would have been the first without threads. */
static mt_status device_run(void *user, uint32_t d)
{
    struct round      *r = user;
    struct sgd_device *device = &r->trainer->devices[d];
    uint32_t           length = sgd_lane_length(&device->lane), end = r->part == SGD_PART_BUT_LAST ? length - 1 : length;

    device->failed = UINT32_MAX;
    for (uint32_t done = r->part == SGD_PART_LAST ? length - 1 : 0; done < end; done++) {
        uint32_t  v = sgd_lane_vrank(&device->lane, done);
        mt_status st = v < atomic_load(&r->failed) ? r->work(r->trainer, d, done, r->user) : mt_ok();
        if (st.code == MT_OK)
            continue;
        device->st = st;
        device->failed = v;
        failed_note(r, v);
    }
    return mt_ok();
}

mt_status sgd_vranks_run(struct sgd_trainer *trainer, enum sgd_part part, sgd_vrank_work *work, void *user)
{
    struct round r = {.trainer = trainer, .part = part, .work = work, .user = user, .failed = UINT32_MAX};
    uint32_t     devices = sgd_devices_used(trainer);

    MT_TRY(sgd_team_run(trainer->team, devices, device_run, &r));
    for (uint32_t d = 0, failed = atomic_load(&r.failed); failed != UINT32_MAX && d < devices; d++)
        if (trainer->devices[d].failed == failed)
            return trainer->devices[d].st;
    return mt_ok();
}

/* ---- parts of a vector ---- */

struct parts {
    struct sgd_trainer *trainer;
    size_t              count;
    uint32_t            parts;
    sgd_part_work      *work;
    void               *user;
};

static mt_status part_run(void *user, uint32_t index)
{
    struct parts *p = user;
    return p->work(p->trainer, sgd_shard_of(p->count, index, p->parts), p->user);
}

mt_status sgd_parts_run(struct sgd_trainer *trainer, size_t count, sgd_part_work *work, void *user)
{
    struct parts p = {trainer, count, trainer->config.devices, work, user};
    if (p.parts > count / MT_TRAIN_PART_FLOATS)
        p.parts = count < 2 * MT_TRAIN_PART_FLOATS ? 1 : (uint32_t)(count / MT_TRAIN_PART_FLOATS);
    return sgd_team_run(trainer->team, p.parts, part_run, &p);
}

/* ---- gradients ---- */

static const struct sgd_portion *records_take(struct sgd_trainer *trainer, uint32_t device, const struct sgd_feed_at *at)
{
    enum sgd_trace_track track = SGD_TRACK_MAIN;
    bool                 is_traced = sgd_trace_device(trainer->trace, device, &track);
    sgd_trainer_does(trainer, SGD_DOES_RECORDS);
    int64_t                   begun = is_traced ? mt_now_ns() : 0;
    const struct sgd_portion *portion = sgd_feed_take(&trainer->devices[device].feed, at);
    if (is_traced && mt_now_ns() - begun >= SGD_TRACE_LEAST_NS)
        sgd_trace_put_whole(trainer->trace, track, SGD_SPAN_DATA_WAIT, begun);
    return portion;
}

/* The gradient of a batch where the model's device leaves it; *grads: where that is. */
static mt_status batch_gradient(struct sgd_trainer *trainer, struct sgd_model *model, const struct sgd_batch *batch, float **grads,
                                float *metrics)
{
    const float *params;
    MT_TRY(sgd_resident_params(trainer, &params));
    if (trainer->resident)
        MT_TRY(sgd_resident_room(trainer, grads));
    return sgd_resident_note(trainer, model->ops->gradient(model, params, batch, 1.0f / (float)batch->count, *grads, metrics));
}

static struct sgd_batch batch_take(struct sgd_trainer *trainer, uint32_t device, uint32_t v)
{
    uint32_t                  micro = trainer->config.micro_batch;
    uint64_t                  samples = trainer->state->samples, sample = samples + (uint64_t)v * micro;
    const struct sgd_portion *portion = records_take(trainer, device, &(struct sgd_feed_at){samples, v});
    return (struct sgd_batch){.records = portion->records,
                              .labels = trainer->config.train->labels ? portion->labels : NULL,
                              .count = micro,
                              .record_size = trainer->config.train->record_size,
                              .indices = portion->indices,
                              .sample = sample,
                              .key = sgd_sampler_key(&trainer->sampler, sample)};
}

mt_status sgd_vrank_is_finite(struct sgd_trainer *trainer, uint32_t v, float *room, bool *out_is_finite)
{
    struct sgd_model *model = trainer->devices[0].model;
    float             metrics[SGD_METRICS_ALL], *grads = room;
    struct sgd_batch  batch = batch_take(trainer, 0, v);
    double            squares;
    MT_TRY(batch_gradient(trainer, model, &batch, &grads, metrics));
    sgd_trainer_beat(trainer);
    if (trainer->resident)
        MT_TRY(sgd_resident_squares(trainer, &squares));
    else
        MT_TRY(trainer->config.ops->sum_squares(NULL, grads, model->params.floats, &squares));
    *out_is_finite = isfinite(metrics[SGD_METRIC_LOSS]) && isfinite(squares);
    return mt_ok();
}

/* Where a virtual rank's gradient goes: into its group's slots, or into a slot of its own. */
struct gradients {
    struct sgd_group *group; /* NULL: `slots` */
    float *const     *slots;
};

/* What of a slot the host sums: the whole, or what stands behind a gradient that stays on a device. */
static struct sgd_range slot_summed(const struct sgd_trainer *trainer)
{
    size_t floats = trainer->config.model->params.floats;
    return (struct sgd_range){sgd_resident_sums(trainer->resident) ? floats : 0, sgd_trainer_slot(trainer->config.model)};
}

static mt_status vrank_gradient(struct sgd_trainer *trainer, uint32_t device, uint32_t done, void *user)
{
    const struct gradients *to = user;
    struct sgd_model       *model = trainer->devices[device].model;
    uint32_t                v = sgd_lane_vrank(&trainer->devices[device].lane, done);
    enum sgd_trace_track    track = SGD_TRACK_MAIN;
    bool                    is_traced = sgd_trace_device(trainer->trace, device, &track);
    float                  *slot = to->group ? NULL : to->slots[v - trainer->share_first], *grads, *metrics;
    struct sgd_batch        batch = batch_take(trainer, device, v);

    if (is_traced)
        sgd_trace_put_open(trainer->trace, track, SGD_SPAN_COMPUTE, v);
    mt_status st = to->group ? sgd_group_room(to->group, trainer->config.ops, device, done, slot_summed(trainer), &slot) : mt_ok();
    grads = slot, metrics = slot + model->params.floats;
    sgd_trainer_call(trainer, SGD_DOES_TRAIN);
    if (st.code == MT_OK)
        st = batch_gradient(trainer, model, &batch, &grads, metrics);
    if (st.code == MT_OK && trainer->resident)
        st = sgd_resident_take(trainer, v, slot);
    sgd_trainer_called(trainer); /* a GPU may have been at the call's work until now */
    if (is_traced)
        sgd_trace_put_close(trainer->trace, track);
    MT_TRY(st);
    metrics[trainer->metrics + SGD_FLAG_STOP] = trainer->wants_stop ? 1.0f : 0.0f;
    metrics[trainer->metrics + SGD_FLAG_SAVE] = trainer->wants_save ? 1.0f : 0.0f;
    metrics[trainer->metrics + SGD_FLAG_PAUSE] = trainer->wants_pause ? 1.0f : 0.0f;
    metrics[trainer->metrics + SGD_FLAG_LEAVE] = trainer->wants_leave ? 1.0f : 0.0f;
    metrics[trainer->metrics + SGD_FLAG_LACK] = trainer->lacks_save ? 1.0f : 0.0f;
    sgd_trainer_beat(trainer);
    return mt_ok();
}

static mt_status gradients_run(struct sgd_trainer *trainer, enum sgd_part part, struct gradients to)
{
    MT_ASSERT(trainer->has_state);
    if (trainer->resident)
        sgd_resident_begin(trainer);
    return sgd_vranks_run(trainer, part, vrank_gradient, &to);
}

mt_status sgd_gradients_run(struct sgd_trainer *trainer, struct sgd_group *group, enum sgd_part part)
{
    return gradients_run(trainer, part, (struct gradients){.group = group});
}

mt_status sgd_train_compute(struct sgd_trainer *trainer, uint32_t first, uint32_t last, float *const *slots)
{
    sgd_share_set(trainer, first, last);
    return gradients_run(trainer, SGD_PART_ALL, (struct gradients){.slots = slots});
}
