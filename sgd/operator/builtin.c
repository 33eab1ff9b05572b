/* SPDX-License-Identifier: Apache-2.0
 *
 * builtin.c - models of ours (model.h) as operators, by the same door as a user's.
 *
 * A row of OPERATOR: the name, and a function that makes the model out of the configuration once the data is known.
 *
 * Thread: the operator's.
 */
#include "sgd/operator/builtin.h"
#include "sgd/model/cnn.h"
#include "sgd/model/gpt2.h"
#include "sgd/model/mlp.h"
#include "sgd/operator/operator.h"
#include "sgd/data/sampler.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { EVALUATE_BATCH = 256, GPT2_CONTEXT = 256 };

struct builtin {
    struct sgd_model *model;
    float           **values, **gradients; /* the pointers that manta_sgd_param keeps */
    manta_sgd        *in;                  /* whose this is */
};

typedef manta_status data_fn(manta_sgd *t, struct sgd_inputs *out);
/* Where the arithmetic runs, and on what. */
struct place {
    const struct k_ops *ops;
    int                 device;
    bool                is_half;
};
typedef manta_status make_fn(manta_sgd *t, const struct sgd_inputs *data, const struct place *place, struct sgd_model **out_model);

/* ---- any model ---- */

static manta_status fail(manta_sgd *t, mt_status st)
{
    return sgd_operator_fault(t, st, "");
}

static manta_status params_name(manta_sgd *t, struct builtin *b)
{
    const struct sgd_params *params = &b->model->params;
    b->values = manta_sgd_alloc(t, params->items_count * sizeof *b->values);
    b->gradients = manta_sgd_alloc(t, params->items_count * sizeof *b->gradients);
    if (!b->values || !b->gradients)
        return MANTA_ENOMEM;
    for (size_t i = 0; i < params->items_count; i++) {
        const struct sgd_param *item = &params->items[i];
        int64_t                 shape[MT_TENSOR_DIMS_MAX];
        for (uint32_t d = 0; d < item->ndim; d++)
            shape[d] = (int64_t)item->shape[d];
        manta_status code = manta_sgd_param(t, item->name, MANTA_SGD_F32, (int)item->ndim, shape, &b->values[i], &b->gradients[i]);
        if (code != MANTA_OK)
            return code;
    }
    return MANTA_OK;
}

/* config device: "cpu", "cuda" or "cuda:N". */
static manta_status device_read(manta_sgd *t, struct k_config *out)
{
    const char *text = manta_sgd_conf_str(t, "device", "cpu");
    char       *end = NULL;
    *out = (struct k_config){.kind = K_CPU};
    if (strcmp(text, "cpu") == 0) {
        sgd_operator_shares(t);
        return MANTA_OK;
    }
    out->kind = K_CUDA;
    if (strcmp(text, "cuda") == 0) {
        manta_sgd_gpus(t, 1);
        return MANTA_OK;
    }
    long device = strncmp(text, "cuda:", 5) == 0 ? strtol(text + 5, &end, 10) : -1;
    out->device = (int)device;
    if (device < 0 || device > INT16_MAX || end == text + 5 || *end)
        return manta_sgd_fail(t, MANTA_EINVAL, "config device is \"%.60s\": cpu, cuda or cuda:NUMBER", text);
    return MANTA_OK;
}

/* config precision: "float32", "tf32" (products on a GPU) or "bfloat16": on the CPU a table of kernels for every model, on a GPU
 * a model of its own (gpt2). */
static manta_status precision_read(manta_sgd *t, struct k_config *config, bool *out_is_half)
{
    const char *text = manta_sgd_conf_str(t, "precision", "float32");
    bool        is_bf16 = strcmp(text, "bfloat16") == 0 || strcmp(text, "bf16") == 0;
    *out_is_half = is_bf16 && config->kind == K_CUDA;
    config->bf16 = is_bf16 && config->kind == K_CPU;
    config->tf32 = strcmp(text, "tf32") == 0;
    if (!is_bf16 && !config->tf32 && strcmp(text, "float32") != 0)
        return manta_sgd_fail(t, MANTA_EINVAL, "config precision is \"%.60s\": float32, tf32 or bfloat16", text);
    if (config->tf32 && config->kind != K_CUDA)
        return manta_sgd_fail(t, MANTA_EINVAL, "config precision is tf32: that is for config device=cuda");
    return MANTA_OK;
}

/* The driver computes nothing: it looks whether there is a GPU, where the workers are to be on its node, and leaves it alone. */
static manta_status place_find(manta_sgd *t, struct place *out)
{
    struct k_config config;
    manta_status    code = device_read(t, &config);
    if (code == MANTA_OK)
        code = precision_read(t, &config, &out->is_half);
    if (code != MANTA_OK)
        return code;
    mt_status st = mt_ok();
    if (config.kind == K_CUDA)
        manta_sgd_devices_max(t, 1); /* one thread keeps a GPU busy */
    if (config.kind == K_CUDA && manta_sgd_is_driver(t)) {
        st = t->is_spread ? st : k_cuda_probe();
        config.kind = K_CPU;
    }
    if (st.code == 0)
        st = k_ops_choose(&config, &out->ops);
    out->device = config.device;
    if (st.code == 0)
        return MANTA_OK;
    const char *device = manta_sgd_conf_str(t, "device", NULL);
    if (!device)
        return fail(t, st);
    char text[128];
    snprintf(text, sizeof text, "config device is \"%.60s\"", device);
    return sgd_operator_fault(t, st, text);
}

static manta_status setup(manta_sgd *t, void **self, data_fn *data_name, make_fn *make)
{
    struct builtin   *b = *self = manta_sgd_alloc(t, sizeof *b);
    struct place      place;
    struct sgd_inputs data;
    if (!b)
        return MANTA_ENOMEM;
    manta_status code = place_find(t, &place);
    if (code == MANTA_OK)
        code = data_name(t, &data);
    if (code == MANTA_OK)
        code = make(t, &data, &place, &b->model);
    if (code == MANTA_OK && b->model->device)
        sgd_operator_device(t, b->model->device, place.device);
    return code == MANTA_OK ? params_name(t, b) : code;
}

static manta_status half_refuse(manta_sgd *t, const struct place *place)
{
    return place->is_half ? manta_sgd_fail(t, MANTA_EINVAL, "config precision is bfloat16: on a GPU only gpt2 has that") : MANTA_OK;
}

/* The parameters were named in the model's order, so they lie as the model has them. */
static manta_status init(manta_sgd *t, void *self)
{
    struct builtin *b = self;
    b->model->ops->init(b->model, manta_sgd_seed(t), b->values[0]);
    return MANTA_OK;
}

static manta_status report(manta_sgd *t, mt_status st, const float *metrics)
{
    if (st.code != 0)
        return fail(t, st);
    double       samples = (double)metrics[SGD_METRIC_SAMPLES];
    manta_status code = manta_sgd_metric(t, "loss", (double)metrics[SGD_METRIC_LOSS] / samples);
    return code ? code : manta_sgd_metric(t, "accuracy", (double)metrics[SGD_METRIC_CORRECT] / samples);
}

static struct sgd_batch batch_of(const manta_sgd_batch *b)
{
    return (struct sgd_batch){.records = b->data,
                              .labels = b->labels,
                              .count = (uint32_t)b->count,
                              .record_size = (uint32_t)b->record,
                              .indices = b->numbers,
                              .sample = b->sample};
}

/* The model's news of its flat buffer, as the parameter that it is part of. */
static void part_ready(void *user, size_t begin, size_t end)
{
    struct builtin          *b = user;
    const struct sgd_params *params = &b->model->params;
    for (size_t i = 0; i < params->items_count; i++)
        if (begin >= params->items[i].offset && end <= params->items[i].offset + params->items[i].count)
            (void)manta_sgd_ready(b->in, &b->gradients[i], (int64_t)(begin - params->items[i].offset), (int64_t)(end - begin));
}

static manta_status train_batch(manta_sgd *t, void *self, const manta_sgd_batch *b)
{
    struct builtin  *own = self;
    struct sgd_batch batch = batch_of(b);
    float            metrics[SGD_METRICS];
    own->in = t;
    own->model->ready = part_ready;
    own->model->ready_user = own;
    own->model->version = sgd_operator_version(t);
    batch.key = sgd_sampler_key(&(struct sgd_sampler){.seed = manta_sgd_seed(t)}, b->sample);
    return report(t,
                  own->model->ops->gradient(own->model, own->values[0], &batch, 1.0f / (float)b->count, own->gradients[0], metrics),
                  metrics);
}

static manta_status validate_batch(manta_sgd *t, void *self, const manta_sgd_batch *b)
{
    struct builtin  *own = self;
    struct sgd_batch batch = batch_of(b);
    float            metrics[SGD_METRICS];
    own->model->version = sgd_operator_version(t);
    return report(t, own->model->ops->evaluate(own->model, own->values[0], &batch, metrics), metrics);
}

static void teardown(manta_sgd *t, void *self)
{
    struct builtin *b = self;
    (void)t;
    if (b && b->model)
        b->model->ops->free(b->model);
}

#define BUILTIN(name, data_name, validate_max) \
    static manta_status setup_##name(manta_sgd *t, void **self) \
    { \
        return setup(t, self, data_name, make_##name); \
    } \
    MANTA_SGD_OPERATOR(name, .setup = setup_##name, .init = init, .train_batch = train_batch, .validate_batch = validate_batch, \
                       .teardown = teardown, .sets_gradients = true, .validate_batch_max = validate_max)

/* ---- mlp ---- */

/* "256" or "256,128". */
static manta_status widths_read(manta_sgd *t, uint32_t hidden[MT_LAYERS_MAX - 1])
{
    const char *text = manta_sgd_conf_str(t, "hidden", "256"), *next = text;
    for (int i = 0; *next; i++) {
        char *end;
        long  width = strtol(next, &end, 10);
        if (i == MT_LAYERS_MAX - 1 || end == next || width < 1 || width > 1 << 20 || (*end && *end != ','))
            return manta_sgd_fail(t, MANTA_EINVAL, "config hidden is \"%.60s\": up to %d widths with commas between them", text,
                                  MT_LAYERS_MAX - 1);
        hidden[i] = (uint32_t)width;
        next = *end ? end + 1 : end;
    }
    return MANTA_OK;
}

static manta_status make_mlp(manta_sgd *t, const struct sgd_inputs *data, const struct place *place, struct sgd_model **out_model)
{
    struct sgd_mlp_config config = {.ops = place->ops,
                                    .inputs = data->count,
                                    .outputs = (uint32_t)data->info.classes,
                                    .cast = data->cast,
                                    .batch_max = (uint32_t)manta_sgd_batch_max(t)};
    manta_status          code = half_refuse(t, place);
    if (code == MANTA_OK)
        code = widths_read(t, config.hidden);
    if (code != MANTA_OK)
        return code;
    mt_status st = sgd_mlp_new(&config, out_model);
    return st.code ? fail(t, st) : MANTA_OK;
}
BUILTIN(mlp, sgd_builtin_classes, EVALUATE_BATCH);

/* ---- cnn ---- */

static manta_status make_cnn(manta_sgd *t, const struct sgd_inputs *data, const struct place *place, struct sgd_model **out_model)
{
    uint32_t side = 1;
    while ((uint64_t)side * side < data->count)
        side++;
    float                 dropout = (float)manta_sgd_conf_f64(t, "dropout", 0);
    struct sgd_cnn_config config = {.ops = place->ops,
                                    .height = side,
                                    .width = side,
                                    .outputs = (uint32_t)data->info.classes,
                                    .cast = data->cast,
                                    .dense = (uint32_t)manta_sgd_conf_i64(t, "dense", 128),
                                    .dropout = {dropout, dropout},
                                    .batch_max = (uint32_t)manta_sgd_batch_max(t)};
    if (half_refuse(t, place) != MANTA_OK)
        return MANTA_EINVAL;
    if ((uint64_t)side * side != data->count)
        return manta_sgd_fail(t, MANTA_EINVAL, "cnn: pictures of %u numbers are not square", data->count);
    mt_status st = sgd_cnn_new(&config, out_model);
    return st.code ? fail(t, st) : MANTA_OK;
}
BUILTIN(cnn, sgd_builtin_classes, EVALUATE_BATCH);

/* ---- gpt2 ---- */

static manta_status text(manta_sgd *t, struct sgd_inputs *out)
{
    const char         *path = manta_sgd_conf_str(t, "data", NULL);
    int64_t             context = manta_sgd_conf_i64(t, "context", GPT2_CONTEXT);
    manta_sgd_data_opts opts = {.format = MANTA_SGD_TOKENS, .record = context, .shuffle = true};
    manta_status        code = manta_sgd_data(t, path, &opts);
    opts.validate = true;
    opts.shuffle = false;
    if (code == MANTA_OK)
        code = manta_sgd_data(t, path, &opts);
    if (code == MANTA_OK)
        (void)manta_sgd_data_info(t, false, &out->info);
    return code;
}

static manta_status make_gpt2(manta_sgd *t, const struct sgd_inputs *data, const struct place *place, struct sgd_model **out_model)
{
    uint32_t               context = (uint32_t)manta_sgd_conf_i64(t, "context", GPT2_CONTEXT);
    uint32_t               token_bytes = (uint32_t)(data->info.record / (context + 1));
    struct sgd_gpt2_config config = {
        .ops = place->ops,
        .shape = {.layers = (uint32_t)manta_sgd_conf_i64(t, "layers", 6),
                  .width = (uint32_t)manta_sgd_conf_i64(t, "width", 256),
                  .heads = (uint32_t)manta_sgd_conf_i64(t, "heads", 8),
                  .context = context,
                  .vocabulary = (uint32_t)manta_sgd_conf_i64(t, "vocabulary", token_bytes == 1 ? 256 : 50257)},
        .token_bytes = token_bytes,
        .batch_max = (uint32_t)manta_sgd_batch_max(t)};
    mt_status st = place->is_half ? sgd_gpt2_half_new(&config, out_model) : sgd_gpt2_new(&config, out_model);
    return st.code ? fail(t, st) : MANTA_OK;
}
BUILTIN(gpt2, text, 0);
