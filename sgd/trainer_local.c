/* SPDX-License-Identifier: Apache-2.0
 *
 * trainer_local.c - state, step, and agreement of one worker.
 *
 * Owns:    the state and the buffers of one micro-batch. Thread: one per trainer.
 * Always:  has_state implies that params and velocity are those after state->step whole steps.
 */
#include "sgd/trainer_local.h"

#include "sgd/checksum.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static_assert(sizeof(struct sgd_state) == 64, "the floats begin on a cache line");

enum { VRANKS_DEFAULT = 8, MICRO_BATCH_DEFAULT = 12, MICRO_BATCH_MAX = 1 << 20 };

#define VELOCITY_PREFIX "optimizer.velocity."

static size_t floats_padded(const struct sgd_trainer *trainer)
{
    return (trainer->config.model->params.floats + 15) / 16 * 16;
}

/* ---- begin and end ---- */

static void defaults_set(struct sgd_trainer_config *config)
{
    config->vranks = config->vranks ? config->vranks : VRANKS_DEFAULT;
    config->micro_batch = config->micro_batch ? config->micro_batch : MICRO_BATCH_DEFAULT;
    config->epochs = config->epochs ? config->epochs : 1;
    config->rate = config->rate != 0.0f ? config->rate : 0.03f;
    config->momentum = config->momentum == 0.0f ? 0.9f : config->momentum < 0.0f ? 0.0f : config->momentum;
}

static mt_status config_check(const struct sgd_trainer_config *config)
{
    if (config->vranks > MT_VRANKS_MAX || config->micro_batch > MICRO_BATCH_MAX ||
        config->micro_batch > config->model->batch_max)
        return mt_error(MT_EINVAL, 0, "trainer: virtual ranks or micro-batch out of range");
    if (config->train->record_size != config->model->record_size)
        return mt_error(MT_EINVAL, 0, "trainer: the data's records are not the model's");
    if (!(config->rate > 0.0f) || !(config->momentum < 1.0f) || !(config->decay >= 0.0f))
        return mt_error(MT_EINVAL, 0, "trainer: rate, momentum or decay out of range");
    return mt_ok();
}

static mt_status buffers_allocate(struct sgd_trainer *trainer)
{
    size_t floats = floats_padded(trainer), micro = trainer->config.micro_batch;

    trainer->state_size = sizeof(struct sgd_state) + 2 * floats * sizeof(float);
    trainer->state = aligned_alloc(64, trainer->state_size);
    trainer->records = malloc(micro * trainer->config.model->record_size);
    trainer->labels = malloc(micro);
    trainer->indices = malloc(micro * sizeof *trainer->indices);
    if (!trainer->state || !trainer->records || !trainer->labels || !trainer->indices)
        return mt_error(MT_ENOMEM, 0, "trainer");
    memset(trainer->state, 0, trainer->state_size);
    trainer->params = trainer->state->floats;
    trainer->velocity = trainer->state->floats + floats;
    return mt_ok();
}

mt_status sgd_trainer_init(struct sgd_trainer *trainer, const struct sgd_trainer_config *config)
{
    *trainer = (struct sgd_trainer){.config = *config};
    defaults_set(&trainer->config);
    config = &trainer->config;
    MT_TRY(config_check(config));
    trainer->sampler =
        (struct sgd_sampler){config->seed, config->train->count, config->vranks, config->micro_batch};
    uint64_t samples = config->train->count * config->epochs, size = sgd_sampler_step_size(&trainer->sampler);
    trainer->steps_total = (samples + size - 1) / size;
    mt_status st = buffers_allocate(trainer);
    if (st.code != 0)
        sgd_trainer_fini(trainer);
    return st;
}

void sgd_trainer_fini(struct sgd_trainer *trainer)
{
    free(trainer->state);
    free(trainer->records);
    free(trainer->labels);
    free(trainer->indices);
    memset(trainer, 0, sizeof *trainer);
}

/* Everything that changes the result. Hashed field by field: structs have padding. */
static uint64_t fingerprint(const struct sgd_trainer *trainer)
{
    const struct sgd_trainer_config *config = &trainer->config;
    const struct sgd_params *params = &config->model->params;
    uint64_t fields[] = {config->seed,
                         config->vranks,
                         config->micro_batch,
                         config->epochs,
                         config->warmup,
                         config->train->count,
                         config->train->record_size,
                         params->floats,
                         0,
                         0};
    float rates[3] = {config->rate, config->momentum, config->decay};
    fields[8] = sgd_checksum(rates, sizeof rates);
    fields[9] = sgd_checksum(config->ops->name, strlen(config->ops->name));
    for (size_t i = 0; i < params->items_count; i++)
        fields[9] ^= sgd_checksum(params->items[i].name, strlen(params->items[i].name)) * (2 * i + 3);
    return sgd_checksum(fields, sizeof fields);
}

struct sgd_group_plan sgd_trainer_plan(const struct sgd_trainer *trainer)
{
    return (struct sgd_group_plan){.vranks = trainer->config.vranks,
                                   .slot_floats = trainer->config.model->params.floats + SGD_METRICS,
                                   .fingerprint = fingerprint(trainer)};
}

void sgd_trainer_begin(struct sgd_trainer *trainer)
{
    memset(trainer->state, 0, trainer->state_size);
    trainer->config.model->ops->init(trainer->config.model, trainer->config.seed, trainer->params);
    trainer->has_state = true;
}

/* ---- a step ---- */

mt_status sgd_train_compute(struct sgd_trainer *trainer, uint32_t first, uint32_t last, float *const *slots)
{
    struct sgd_model *model = trainer->config.model;
    const struct sgd_dataset *train = trainer->config.train;
    uint32_t micro = trainer->config.micro_batch;
    float scale = 1.0f / (float)sgd_sampler_step_size(&trainer->sampler);
    struct sgd_batch batch = {
        .records = trainer->records, .labels = trainer->labels, .count = micro, .record_size = train->record_size};

    MT_ASSERT(trainer->has_state);
    for (uint32_t v = first; v < last; v++) {
        float *slot = slots[v - first];
        sgd_sampler_batch(&trainer->sampler, trainer->state->samples, v, trainer->indices);
        sgd_dataset_gather(train, trainer->indices, micro, trainer->records, trainer->labels);
        batch.key = sgd_sampler_key(&trainer->sampler, trainer->state->samples + (uint64_t)v * micro);
        MT_TRY(
            model->ops->gradient(model, trainer->params, &batch, scale, slot, slot + model->params.floats));
    }
    return mt_ok();
}

/* Grows from 0 for `warmup` steps, then falls to 0 as half a cosine. */
static float rate_now(const struct sgd_trainer *trainer)
{
    const struct sgd_trainer_config *config = &trainer->config;
    uint64_t step = trainer->state->step;
    if (step < config->warmup)
        return config->rate * (float)(step + 1) / (float)config->warmup;
    if (step >= trainer->steps_total || trainer->steps_total == config->warmup)
        return 0.0f;
    double part = (double)(step - config->warmup) / (double)(trainer->steps_total - config->warmup);
    return (float)(config->rate * 0.5 * (1.0 + cos(part * 3.14159265358979323846)));
}

static struct sgd_result result_of(const float *metrics)
{
    float samples = metrics[SGD_METRIC_SAMPLES];
    return (struct sgd_result){metrics[SGD_METRIC_LOSS] / samples, metrics[SGD_METRIC_CORRECT] / samples,
                               (uint64_t)samples};
}

mt_status sgd_train_apply(struct sgd_trainer *trainer, const float *sum, struct sgd_result *out_result)
{
    const struct sgd_trainer_config *config = &trainer->config;
    size_t floats = config->model->params.floats;
    struct sgd_result result = result_of(sum + floats);

    if (!isfinite(result.loss))
        return mt_error(MT_ETASK, 0, "train: the loss is not finite");
    struct k_sgd update = {trainer->params,   trainer->velocity, sum,          floats,
                           rate_now(trainer), config->momentum,  config->decay};
    MT_TRY(config->ops->sgd_update(NULL, &update));
    trainer->state->step++;
    trainer->state->samples += sgd_sampler_step_size(&trainer->sampler);
    *out_result = result;
    return mt_ok();
}

mt_status sgd_train_step(struct sgd_trainer *trainer, struct sgd_group *group, struct sgd_result *out_result)
{
    float *slots[MT_VRANKS_MAX];
    const float *sum;
    uint32_t first, last;

    sgd_group_vranks(group, &first, &last);
    for (uint32_t v = first; v < last; v++)
        slots[v - first] = sgd_group_slot(group, v);
    MT_TRY(sgd_train_compute(trainer, first, last, slots));
    MT_TRY(sgd_group_reduce(group, trainer->config.ops, &sum));
    return sgd_train_apply(trainer, sum, out_result);
}

mt_status sgd_trainer_sync(struct sgd_trainer *trainer, struct sgd_group *group)
{
    struct sgd_agreement agreement;

    MT_TRY(sgd_group_agree(group, trainer->has_state, trainer->state->step, &agreement));
    if (!agreement.has_state)
        return mt_error(MT_ENOENT, 0, "sync: no member has a state");
    if (agreement.is_equal)
        return mt_ok();
    /* Who is as far as the root keeps what it has, so that the state survives the root's death in here. An
     * abort in the middle leaves a receiver with half of each. */
    bool is_receiver = !trainer->has_state || trainer->state->step != agreement.step_max;
    bool is_root = group->rank == agreement.root;
    trainer->has_state = !is_receiver;
    MT_TRY(sgd_group_broadcast(group, agreement.root, is_receiver || is_root ? trainer->state : NULL,
                               trainer->state_size));
    trainer->has_state = true;
    return mt_ok();
}

/* ---- evaluation ---- */

mt_status sgd_trainer_evaluate(struct sgd_trainer *trainer, const struct sgd_dataset *set,
                               struct sgd_result *out_result)
{
    struct sgd_model *model = trainer->config.model;
    double loss = 0, correct = 0;

    for (uint64_t done = 0; done < set->count;) {
        uint64_t left = set->count - done;
        struct sgd_batch batch = {.records = set->records + done * set->record_size,
                                  .labels = set->labels + done,
                                  .count = left < model->batch_max ? (uint32_t)left : model->batch_max,
                                  .record_size = set->record_size};
        float metrics[SGD_METRICS];
        MT_TRY(model->ops->evaluate(model, trainer->params, &batch, metrics));
        loss += (double)metrics[SGD_METRIC_LOSS];
        correct += (double)metrics[SGD_METRIC_CORRECT];
        done += batch.count;
    }
    *out_result = (struct sgd_result){(float)(loss / (double)set->count),
                                      (float)(correct / (double)set->count), set->count};
    return mt_ok();
}

bool sgd_trainer_is_done(const struct sgd_trainer *trainer)
{
    return trainer->state->step >= trainer->steps_total;
}

/* ---- checkpoints ---- */

/* The i-th tensor of a checkpoint: parameters first, then the velocity of each. */
static mt_status tensor_of(const struct sgd_trainer *trainer, size_t i, struct sgd_tensor *out_tensor)
{
    const struct sgd_params *params = &trainer->config.model->params;
    bool is_velocity = i >= params->items_count;
    const struct sgd_param *item = &params->items[is_velocity ? i - params->items_count : i];
    struct sgd_tensor tensor = {.dtype = SGD_F32, .ndim = item->ndim};

    int n = snprintf(tensor.name, sizeof tensor.name, "%s%s", is_velocity ? VELOCITY_PREFIX : "", item->name);
    if (n < 0 || (size_t)n >= sizeof tensor.name)
        return mt_error(MT_EINVAL, 0, "trainer: a parameter's name is too long");
    memcpy(tensor.shape, item->shape, sizeof tensor.shape);
    tensor.data = (is_velocity ? trainer->velocity : trainer->params) + item->offset;
    *out_tensor = tensor;
    return mt_ok();
}

mt_status sgd_trainer_save(const struct sgd_trainer *trainer, const char *folder, uint32_t keep,
                           uint64_t generation)
{
    const struct sgd_state *state = trainer->state;
    struct sgd_checkpoint_meta meta = {.step = state->step,
                                       .samples = state->samples,
                                       .epoch = sgd_sampler_epoch(&trainer->sampler, state->samples),
                                       .seed = trainer->config.seed,
                                       .generation = generation};
    size_t count = 2 * trainer->config.model->params.items_count;
    mt_status st = mt_ok();

    MT_ASSERT(trainer->has_state);
    snprintf(meta.kernels, sizeof meta.kernels, "%s %s", trainer->config.ops->name, k_blas_core());
    struct sgd_tensor *tensors = calloc(count, sizeof *tensors);
    if (!tensors)
        return mt_error(MT_ENOMEM, 0, "save checkpoint");
    for (size_t i = 0; i < count && st.code == 0; i++)
        st = tensor_of(trainer, i, &tensors[i]);
    if (st.code == 0)
        st = sgd_checkpoint_save(folder, keep, &meta, tensors, count);
    free(tensors);
    return st;
}

/* All tensors are there, of the same shape; with `into`, they are copied. */
static mt_status tensors_take(struct sgd_trainer *trainer, const struct sgd_checkpoint *checkpoint, bool into)
{
    size_t count = 2 * trainer->config.model->params.items_count;

    if (checkpoint->count != count)
        return mt_error(MT_EINVAL, 0, "resume: the checkpoint is of another model");
    for (size_t i = 0; i < count; i++) {
        struct sgd_tensor want;
        MT_TRY(tensor_of(trainer, i, &want));
        const struct sgd_tensor *have = sgd_checkpoint_find(checkpoint, want.name);
        if (!have || have->dtype != want.dtype || have->ndim != want.ndim ||
            memcmp(have->shape, want.shape, sizeof want.shape) != 0)
            return mt_error(MT_EINVAL, 0, "resume: the checkpoint is of another model");
        if (into)
            memcpy((float *)(uintptr_t)want.data, have->data, have->end - have->begin);
    }
    return mt_ok();
}

mt_status sgd_trainer_resume(struct sgd_trainer *trainer, const char *folder,
                             struct sgd_checkpoint_report *report)
{
    struct sgd_checkpoint checkpoint;
    mt_status st;

    MT_TRY(sgd_checkpoint_load(folder, &checkpoint, report));
    if (checkpoint.meta.seed != trainer->config.seed) {
        st = mt_error(MT_EINVAL, 0, "resume: the checkpoint was made with another seed");
        goto done;
    }
    if (checkpoint.meta.samples != checkpoint.meta.step * sgd_sampler_step_size(&trainer->sampler)) {
        st = mt_error(MT_EINVAL, 0, "resume: the checkpoint was made with another batch size");
        goto done;
    }
    MT_TRY_GOTO(st, tensors_take(trainer, &checkpoint, false), done);
    memset(trainer->state, 0, trainer->state_size);
    MT_TRY_GOTO(st, tensors_take(trainer, &checkpoint, true), done);
    trainer->state->step = checkpoint.meta.step;
    trainer->state->samples = checkpoint.meta.samples;
    trainer->has_state = true;
done:
    sgd_checkpoint_fini(&checkpoint);
    return st;
}
