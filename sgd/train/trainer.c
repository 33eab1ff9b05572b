/* SPDX-License-Identifier: Apache-2.0
 *
 * trainer.c - the state of one worker's trainer: its making, its first values, and agreement with the others.
 *
 * Owns:    the state, and its devices' threads and records. Thread: one per trainer.
 * Always:  has_state implies that parameters and moments are those after state->step whole steps.
 */
#include "sgd/train/trainer.h"

#include "sgd/ground/checksum.h"
#include "sgd/train/compute.h"

#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

static_assert(sizeof(struct sgd_state) % 64 == 0, "the floats begin on a cache line");
static_assert(SGD_METRICS_ALL - SGD_METRICS == SGD_VALUES - 2, "loss and accuracy, then a model's own");

enum { VRANKS_DEFAULT = 8, MICRO_BATCH_DEFAULT = 12, MICRO_BATCH_MAX = 1 << 20 };

static size_t floats_padded(const struct sgd_trainer *trainer)
{
    return (trainer->config.model->params.floats + 15) / 16 * 16;
}

/* ---- begin and end ---- */

static mt_status config_check(const struct sgd_trainer_config *config)
{
    if (config->vranks > MT_VRANKS_MAX || config->micro_batch > MICRO_BATCH_MAX || config->micro_batch > config->model->batch_max)
        return mt_error(MT_EINVAL, 0, "trainer: virtual ranks or micro-batch out of range");
    if (config->train->record_size != config->model->record_size ||
        (config->validate && config->validate->record_size != config->model->record_size))
        return mt_error(MT_EINVAL, 0, "trainer: the data's records are not the model's");
    if (config->model->extra_metrics > SGD_METRICS_ALL - SGD_METRICS || config->score >= 2 + config->model->extra_metrics)
        return mt_error(MT_EINVAL, 0, "trainer: metrics");
    return mt_ok();
}

/* A device's model differs from the first's in nothing but its memory. */
static mt_status devices_check(const struct sgd_trainer_config *config)
{
    const struct sgd_model *model = config->model;
    if (config->devices > MT_TRAIN_DEVICES_MAX)
        return mt_error(MT_EINVAL, 0, "trainer: too many devices");
    if (model->device && (config->devices > 1 || config->zero))
        return mt_error(MT_EINVAL, 0, "trainer: a model in a device's memory is the only one, and its state is whole (device.h)");
    for (uint32_t d = 0; d + 1 < config->devices; d++) {
        const struct sgd_model *other = config->others[d];
        if (!sgd_params_equal(&other->params, &model->params) || other->batch_max != model->batch_max ||
            other->record_size != model->record_size || other->extra_metrics != model->extra_metrics)
            return mt_error(MT_EINVAL, 0, "trainer: a device's model has other parameters, records or metrics than the first's");
    }
    return mt_ok();
}

static mt_status config_resolve(struct sgd_trainer_config *config)
{
    config->devices = config->devices ? config->devices : 1;
    config->vranks = config->vranks ? config->vranks : VRANKS_DEFAULT;
    config->micro_batch = config->micro_batch ? config->micro_batch : MICRO_BATCH_DEFAULT;
    config->epochs = config->epochs ? config->epochs : 1;
    config->validate_epochs = config->validate_epochs ? config->validate_epochs : 1;
    MT_TRY(sgd_optimizer_resolve(&config->optimizer));
    MT_TRY(devices_check(config));
    return config_check(config);
}

struct sgd_state *sgd_state_allocate(size_t size)
{
    enum { HUGE = 2 * 1024 * 1024 };
    size_t            align = size >= 4 * HUGE ? HUGE : 64, whole = (size + align - 1) / align * align;
    struct sgd_state *state = aligned_alloc(align, whole);
    if (state && align == HUGE)
        (void)madvise(state, whole, MADV_HUGEPAGE);
    return state;
}

static mt_status devices_make(struct sgd_trainer *trainer)
{
    const struct sgd_trainer_config *config = &trainer->config;
    trainer->devices = calloc(config->devices, sizeof *trainer->devices);
    if (!trainer->devices)
        return mt_error(MT_ENOMEM, 0, "trainer");
    for (uint32_t d = 0; d < config->devices; d++) {
        trainer->devices[d].model = d ? config->others[d - 1] : config->model;
        MT_TRY(sgd_feed_init(&trainer->devices[d].feed, &trainer->sampler, config->train));
    }
    trainer->team = sgd_team_new(config->devices);
    return trainer->team ? mt_ok() : mt_error(MT_ENOMEM, 0, "trainer: no memory, or no threads, for so many CPUs");
}

static void devices_unmake(struct sgd_trainer *trainer)
{
    sgd_team_free(trainer->team);
    for (uint32_t d = 0; trainer->devices && d < trainer->config.devices; d++)
        sgd_feed_fini(&trainer->devices[d].feed);
    free(trainer->devices);
}

uint64_t sgd_trainer_waited_ns(const struct sgd_trainer *trainer)
{
    uint64_t waited = 0, used = sgd_devices_used(trainer);
    for (uint32_t d = 0; d < used; d++)
        waited += trainer->devices[d].feed.waited_ns;
    return used ? waited / used : 0;
}

static mt_status buffers_allocate(struct sgd_trainer *trainer)
{
    size_t   floats = floats_padded(trainer);
    uint32_t moments = sgd_optimizer_moments(&trainer->config.optimizer);

    bool is_zero = trainer->config.zero, is_resident = trainer->config.model->device != NULL;
    bool has_squares = !is_zero && !is_resident, is_cut = trainer->config.optimizer.clip_norm > 0 && has_squares;

    trainer->state_size = sizeof(struct sgd_state) + (1 + (is_zero ? 0 : moments)) * floats * sizeof(float);
    trainer->state = sgd_state_allocate(trainer->state_size);
    trainer->cut = is_cut ? malloc(floats * sizeof(float)) : NULL;
    trainer->squares = has_squares ? malloc(sgd_shard_blocks(floats) * sizeof(double)) : NULL;
    if (!trainer->state || (is_cut && !trainer->cut) || (has_squares && !trainer->squares))
        return mt_error(MT_ENOMEM, 0, "trainer");
    MT_TRY(devices_make(trainer));
    memset(trainer->state, 0, trainer->state_size);
    sgd_trainer_attach(trainer, trainer->state);
    return is_resident ? sgd_resident_new(trainer) : mt_ok();
}

void sgd_trainer_attach(struct sgd_trainer *trainer, struct sgd_state *state)
{
    trainer->state = state;
    trainer->params = state->floats;
    for (uint32_t m = 0; m < sgd_optimizer_moments(&trainer->config.optimizer) && !trainer->config.zero; m++)
        trainer->moments[m] = state->floats + (m + 1) * floats_padded(trainer);
}

mt_status sgd_trainer_init(struct sgd_trainer *trainer, const struct sgd_trainer_config *config)
{
    *trainer = (struct sgd_trainer){.config = *config};
    MT_TRY(config_resolve(&trainer->config));
    config = &trainer->config;
    trainer->metrics = SGD_METRICS + config->model->extra_metrics;
    trainer->sampler = (struct sgd_sampler){config->seed, config->train->count, config->vranks, config->micro_batch,
                                            config->in_order};
    uint64_t samples = config->train->count * config->epochs, size = sgd_sampler_step_size(&trainer->sampler);
    trainer->steps_total = (samples + size - 1) / size;
    trainer->epoch_steps = (config->train->count + size - 1) / size;
    mt_status st = buffers_allocate(trainer);
    if (st.code != 0)
        sgd_trainer_fini(trainer);
    return st;
}

void sgd_trainer_fini(struct sgd_trainer *trainer)
{
    sgd_overlap_free(trainer->overlap);
    sgd_resident_free(trainer->resident);
    free(trainer->state);
    devices_unmake(trainer);
    free(trainer->cut);
    free(trainer->squares);
    sgd_zero_free(trainer);
    memset(trainer, 0, sizeof *trainer);
}

const char *sgd_trainer_kernels(const struct sgd_trainer *trainer)
{
    const struct k_ops *device = trainer->config.model->device;
    return device ? device->name : trainer->config.ops->name;
}

/* Everything that changes the result. Hashed field by field: structs have padding. */
static uint64_t fingerprint(const struct sgd_trainer *trainer)
{
    const struct sgd_trainer_config *config = &trainer->config;
    const struct sgd_optimizer      *o = &config->optimizer;
    const struct sgd_params         *params = &config->model->params;
    const struct sgd_dataset        *validate = config->validate;
    uint64_t                         fields[] = {config->seed,
                                                 config->vranks,
                                                 config->micro_batch,
                                                 config->epochs,
                                                 config->validate_epochs,
                                                 config->in_order,
                                                 config->score,
                                                 config->score_max,
                                                 config->patience,
                                                 config->train->count,
                                                 config->train->record_size,
                         validate ? validate->count : 0,
                                                 config->model->extra_metrics,
                                                 params->floats,
                                                 o->kind,
                                                 o->schedule,
                                                 o->step_epochs,
                                                 o->warmup,
                                                 0,
                                                 0};
    double reals[] = {(double)o->rate,    (double)o->momentum,   (double)o->decay,     (double)o->beta1,    (double)o->beta2,
                      (double)o->epsilon, (double)o->step_gamma, (double)o->clip_norm, (double)o->max_norm, config->min_delta};
    size_t last = sizeof fields / sizeof *fields - 1;
    fields[last - 1] = sgd_checksum(reals, sizeof reals);
    fields[last] = sgd_checksum(sgd_trainer_kernels(trainer), strlen(sgd_trainer_kernels(trainer)));
    for (size_t i = 0; i < params->items_count; i++)
        fields[last] ^= sgd_checksum(params->items[i].name, strlen(params->items[i].name)) * (2 * i + 3);
    return sgd_checksum(fields, sizeof fields);
}

struct sgd_group_plan sgd_trainer_plan(const struct sgd_trainer *trainer)
{
    return (struct sgd_group_plan){.vranks = trainer->config.vranks,
                                   .members_max = trainer->config.workers_max,
                                   .lanes = trainer->config.devices,
                                   .slot_floats = sgd_trainer_slot(trainer->config.model),
                                   .mean_floats = trainer->config.model->params.floats,
                                   .is_sharded = trainer->config.zero,
                                   .is_mirrored = trainer->config.zero_backup,
                                   .fingerprint = fingerprint(trainer)};
}

mt_status sgd_trainer_begin(struct sgd_trainer *trainer)
{
    sgd_trainer_settle(trainer);
    if (trainer->config.zero)
        MT_TRY(sgd_zero_begin(trainer));
    memset(trainer->state, 0, trainer->state_size);
    sgd_trainer_call(trainer, SGD_DOES_INIT);
    trainer->config.model->ops->init(trainer->config.model, trainer->config.seed, trainer->params);
    sgd_trainer_called(trainer);
    sgd_resident_changed(trainer);
    trainer->has_state = true;
    return mt_ok();
}

/* ---- the same state for all ---- */

/* From those that have it, into the state of whoever wants it. */
static mt_status state_pass(struct sgd_trainer *trainer, struct sgd_group *group, uint64_t holders, bool is_receiver)
{
    if (is_receiver)
        sgd_trainer_settle(trainer);
    else
        MT_TRY(sgd_resident_pull(trainer)); /* others may get it from here */
    return sgd_group_pass(group, holders, trainer->state, trainer->state_size);
}

static mt_status whole_sync(struct sgd_trainer *trainer, struct sgd_group *group)
{
    struct sgd_agreement agreement;
    uint64_t             mine = trainer->has_state ? sgd_trainer_how_far(trainer) : 0;

    MT_TRY(sgd_group_agree(group, trainer->has_state, mine, &agreement));
    if (!agreement.has_state)
        return mt_error(MT_ENOENT, 0, "sync: no member has a state");
    if (agreement.is_equal)
        return mt_ok();
    /* Who is as far as the root keeps what it has, so that the state survives the root's death in here. An
     * abort in the middle leaves a receiver with half of each. */
    bool is_receiver = !trainer->has_state || mine != agreement.step_max;
    trainer->has_state = !is_receiver;
    MT_TRY(state_pass(trainer, group, agreement.furthest, is_receiver));
    if (is_receiver)
        sgd_resident_changed(trainer);
    trainer->has_state = true;
    return mt_ok();
}

mt_status sgd_trainer_sync(struct sgd_trainer *trainer, struct sgd_group *group)
{
    mt_status st = trainer->config.zero ? sgd_zero_sync(trainer, group) : whole_sync(trainer, group);
    if (st.code == MT_OK)
        st = sgd_resident_join(trainer, group);
    if (sgd_resident_is_broken(trainer->resident))
        trainer->has_state = false;
    return st;
}

void sgd_trainer_leave(struct sgd_trainer *trainer)
{
    sgd_resident_leave(trainer);
}
