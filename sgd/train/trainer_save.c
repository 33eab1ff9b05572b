/* SPDX-License-Identifier: Apache-2.0
 *
 * trainer_save.c - a trainer's state to a checkpoint and back.
 *
 * Owns: nothing. Thread: the trainer's, or of one that has a copy of its own.
 */
#include "sgd/train/trainer.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* The i-th tensor of a checkpoint: parameters first, then each moment of all of them. */
static mt_status tensor_of(const struct sgd_trainer *trainer, size_t i, struct sgd_tensor *out_tensor)
{
    const struct sgd_params *params = &trainer->config.model->params;
    size_t                   part = i / params->items_count;
    const struct sgd_param  *item = &params->items[i % params->items_count];
    struct sgd_tensor        tensor = {.dtype = SGD_F32, .ndim = item->ndim};
    int                      n;

    if (part == 0)
        n = snprintf(tensor.name, sizeof tensor.name, "%s", item->name);
    else
        n = snprintf(tensor.name, sizeof tensor.name, "optimizer.%s.%s",
                     sgd_optimizer_moment(&trainer->config.optimizer, (uint32_t)part - 1), item->name);
    if (n < 0 || (size_t)n >= sizeof tensor.name)
        return mt_error(MT_EINVAL, 0, "trainer: a parameter's name is too long");
    memcpy(tensor.shape, item->shape, sizeof tensor.shape);
    const float *vector = part == 0 ? trainer->params : trainer->moments[part - 1];
    tensor.data = vector ? vector + item->offset : NULL; /* NULL: it is sharded */
    *out_tensor = tensor;
    return mt_ok();
}

static size_t tensors_count(const struct sgd_trainer *trainer)
{
    return (1 + sgd_optimizer_moments(&trainer->config.optimizer)) * trainer->config.model->params.items_count;
}

static_assert(sizeof(struct sgd_progress) <= SGD_PROGRESS_BYTES, "fits in a manifest");

static void meta_fill(const struct sgd_trainer *trainer, uint64_t generation, struct sgd_checkpoint_meta *meta)
{
    const struct sgd_state *state = trainer->state;
    *meta = (struct sgd_checkpoint_meta){.step = state->step,
                                         .samples = state->samples,
                                         .epoch = sgd_sampler_epoch(&trainer->sampler, state->samples),
                                         .seed = trainer->config.seed,
                                         .data = sgd_dataset_mark(trainer->config.train),
                                         .generation = generation,
                                         .has_score = state->progress.epochs_closed > 0,
                                         .score = state->progress.score,
                                         .progress_size = sizeof state->progress};
    memcpy(meta->progress, &state->progress, sizeof state->progress);
    snprintf(meta->kernels, sizeof meta->kernels, "%s %s", sgd_trainer_kernels(trainer), k_blas_core());
}

/* What a member's shard has of the i-th tensor of a checkpoint; 0 elements: nothing. */
static mt_status piece_of(const struct sgd_trainer *trainer, size_t i, struct sgd_tensor *out_tensor)
{
    const struct sgd_params *params = &trainer->config.model->params;
    const struct sgd_param  *item = &params->items[i % params->items_count];
    const struct sgd_shards *shards = &trainer->zero.now;
    size_t                   moment = i / params->items_count - 1;
    size_t                   begin = item->offset > shards->of[0].begin ? item->offset : shards->of[0].begin;
    size_t                   end = item->offset + item->count < shards->of[0].end ? item->offset + item->count : shards->of[0].end;

    *out_tensor = (struct sgd_tensor){.ndim = 0};
    if (begin >= end)
        return mt_ok();
    struct sgd_tensor whole;
    MT_TRY(tensor_of(trainer, i, &whole));
    *out_tensor = (struct sgd_tensor){
        .dtype = SGD_F32, .ndim = 1, .shape = {end - begin}, .data = shards->moments[0][moment] + (begin - shards->of[0].begin)};
    return sgd_checkpoint_piece(whole.name, begin - item->offset, out_tensor->name);
}

/* A state in shards: this member's part; the first one, of those who see one folder, also writes the rest, and waits for the
 * others. */
static mt_status shards_save(const struct sgd_trainer *trainer, const char *folder, const struct sgd_keep *keep,
                             const struct sgd_checkpoint_meta *meta, struct sgd_tensor *tensors)
{
    const struct sgd_shards           *shards = &trainer->zero.now;
    const struct sgd_checkpoint_apart *apart = &trainer->zero.apart;
    struct sgd_checkpoint_part         part = {.index = shards->rank,
                                               .parts = shards->members,
                                               .mark = sgd_trainer_how_far(trainer),
                                               .given_up = trainer->zero.given_up,
                                               .apart = sgd_checkpoint_is_apart(apart) ? apart : NULL};
    struct sgd_keep                    kept = *keep;
    bool                               keeps = part.apart ? apart->keeps : shards->rank == 0;
    size_t                             items = trainer->config.model->params.items_count, count = 0;
    for (size_t i = items; i < tensors_count(trainer); i++) {
        MT_TRY(piece_of(trainer, i, &tensors[count]));
        count += tensors[count].ndim != 0;
    }
    MT_TRY(sgd_checkpoint_save_part(folder, meta, &part, tensors, count));
    if (part.apart)
        kept.hold_from = apart->settled ? apart->settled : 1;
    for (size_t i = 0; i < items && keeps; i++)
        MT_TRY(tensor_of(trainer, i, &tensors[i]));
    return keeps ? sgd_checkpoint_save_with_parts(folder, &kept, meta, &part, tensors, items) : mt_ok();
}

mt_status sgd_trainer_save(const struct sgd_trainer *trainer, const char *folder, const struct sgd_keep *keep, uint64_t generation)
{
    struct sgd_checkpoint_meta meta;
    size_t                     count = tensors_count(trainer);
    mt_status                  st = mt_ok();

    MT_ASSERT(trainer->has_state);
    MT_TRY(sgd_resident_pull(trainer));
    meta_fill(trainer, generation, &meta);
    bool               is_in_parts = trainer->config.zero && trainer->zero.now.members > 1;
    struct sgd_tensor *tensors = calloc(count, sizeof *tensors);
    if (!tensors)
        return mt_error(MT_ENOMEM, 0, "save checkpoint");
    for (size_t i = 0; i < count && st.code == 0 && !is_in_parts; i++)
        st = tensor_of(trainer, i, &tensors[i]);
    if (st.code == 0)
        st = is_in_parts ? shards_save(trainer, folder, keep, &meta, tensors)
                         : sgd_checkpoint_save(folder, keep, &meta, tensors, count);
    free(tensors);
    return st;
}

/* ---- resuming ---- */

static int shape_print(char *to, size_t size, const struct sgd_tensor *tensor)
{
    int n = snprintf(to, size, "[");
    for (uint32_t d = 0; d < tensor->ndim && n >= 0 && (size_t)n < size; d++)
        n += snprintf(to + n, size - (size_t)n, "%s%llu", d ? ", " : "", (unsigned long long)tensor->shape[d]);
    return n >= 0 && (size_t)n < size ? n + snprintf(to + n, size - (size_t)n, "]") : n;
}

static mt_status differs(struct sgd_trainer *trainer, const struct sgd_checkpoint *checkpoint, const struct sgd_tensor *want,
                         const struct sgd_tensor *have)
{
    char wanted[64] = "", found[64] = "";
    shape_print(wanted, sizeof wanted, want);
    if (have)
        shape_print(found, sizeof found, have);
    if (have)
        snprintf(trainer->fault, sizeof trainer->fault, "%s is of another model: %.60s is %.40s there and %.40s here",
                 checkpoint->name, want->name, found, wanted);
    else
        snprintf(trainer->fault, sizeof trainer->fault, "%s is of another model: it has no %.90s %.40s", checkpoint->name,
                 want->name, wanted);
    return mt_error(MT_EINVAL, 0, "resume: the checkpoint is of another model");
}

/* A tensor that is there and that this model has not. */
static mt_status surplus(struct sgd_trainer *trainer, const struct sgd_checkpoint *checkpoint)
{
    for (size_t t = 0; t < checkpoint->count; t++) {
        bool is_known = false;
        for (size_t i = 0; i < tensors_count(trainer) && !is_known; i++) {
            struct sgd_tensor want;
            MT_TRY(tensor_of(trainer, i, &want));
            is_known = strcmp(want.name, checkpoint->tensors[t].name) == 0;
        }
        if (is_known)
            continue;
        snprintf(trainer->fault, sizeof trainer->fault, "%s is of another model: it also has %.100s", checkpoint->name,
                 checkpoint->tensors[t].name);
        break;
    }
    return mt_error(MT_EINVAL, 0, "resume: the checkpoint is of another model");
}

/* All tensors are there, of the same shape; with `into`, they are copied. */
static mt_status tensors_take(struct sgd_trainer *trainer, const struct sgd_checkpoint *checkpoint, bool into)
{
    size_t count = tensors_count(trainer);

    for (size_t i = 0; i < count; i++) {
        struct sgd_tensor want;
        MT_TRY(tensor_of(trainer, i, &want));
        const struct sgd_tensor *have = sgd_checkpoint_find(checkpoint, want.name);
        if (!have || have->dtype != want.dtype || have->ndim != want.ndim ||
            memcmp(have->shape, want.shape, sizeof want.shape) != 0)
            return differs(trainer, checkpoint, &want, have);
        if (into)
            memcpy((float *)(uintptr_t)want.data, have->data, have->end - have->begin);
    }
    return checkpoint->count == count ? mt_ok() : surplus(trainer, checkpoint);
}

static mt_status meta_check(struct sgd_trainer *trainer, const struct sgd_checkpoint *checkpoint)
{
    const struct sgd_checkpoint_meta *meta = &checkpoint->meta;
    if (meta->seed != trainer->config.seed) {
        snprintf(trainer->fault, sizeof trainer->fault, "%s was made with another seed: %llu, not %llu", checkpoint->name,
                 (unsigned long long)meta->seed, (unsigned long long)trainer->config.seed);
        return mt_error(MT_EINVAL, 0, "resume: the checkpoint was made with another seed");
    }
    uint64_t size = sgd_sampler_step_size(&trainer->sampler);
    if (meta->samples != meta->step * size) {
        snprintf(trainer->fault, sizeof trainer->fault, "%s was made with another batch size: %llu, not %llu", checkpoint->name,
                 (unsigned long long)(meta->step ? meta->samples / meta->step : 0), (unsigned long long)size);
        return mt_error(MT_EINVAL, 0, "resume: the checkpoint was made with another batch size");
    }
    if (meta->data && meta->data != sgd_dataset_mark(trainer->config.train) && !trainer->config.other_data) {
        snprintf(trainer->fault, sizeof trainer->fault,
                 "%s was made with other data than this; checkpoint.other_data: true goes "
                 "on with it all the same",
                 checkpoint->name);
        return mt_error(MT_EINVAL, 0, "resume: the checkpoint was made with other data");
    }
    if (meta->progress_size != sizeof(struct sgd_progress))
        return mt_error(MT_EUNSUPPORTED, 0, "resume: the checkpoint was made by another version");
    return mt_ok();
}

mt_status sgd_trainer_resume(struct sgd_trainer *trainer, const char *folder, struct sgd_checkpoint_report *report)
{
    struct sgd_checkpoint checkpoint;
    mt_status             st;

    trainer->fault[0] = 0;
    struct sgd_beat life = {sgd_pulse_beat, trainer->pulse};
    MT_TRY(sgd_checkpoint_load_with(folder, &checkpoint, report, &life, trainer->elsewhere));
    MT_TRY_GOTO(st, meta_check(trainer, &checkpoint), done);
    MT_TRY_GOTO(st, tensors_take(trainer, &checkpoint, false), done);
    sgd_trainer_settle(trainer);
    if (trainer->config.zero)
        MT_TRY_GOTO(st, sgd_zero_begin(trainer), done);
    memset(trainer->state, 0, trainer->state_size);
    MT_TRY_GOTO(st, tensors_take(trainer, &checkpoint, true), done);
    trainer->state->step = checkpoint.meta.step;
    trainer->state->samples = checkpoint.meta.samples;
    memcpy(&trainer->state->progress, checkpoint.meta.progress, sizeof trainer->state->progress);
    sgd_resident_changed(trainer);
    trainer->has_state = true;
done:
    sgd_checkpoint_fini(&checkpoint);
    return st;
}
