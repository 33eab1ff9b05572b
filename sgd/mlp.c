/* SPDX-License-Identifier: Apache-2.0
 *
 * mlp.c - forward and backward pass of a multilayer perceptron over one micro-batch.
 *
 * Owns:   its table of parameters and one workspace: an activation and a gradient buffer per layer.
 * Parameters and gradients are the trainer's. Thread: one at a time per model.
 *
 *   records --unpack--> act[0] --W0,b0,ReLU--> act[1] -- ... --W(n-1),b(n-1)--> act[n] = logits --softmax-->
 * losses
 */
#include "sgd/mlp.h"

#include "core/base/rng.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { CLASSES_MAX = 256, WIDTH_MAX = 1 << 20, BATCH_MAX = 1 << 20 };

struct layer {
    uint32_t in, out;
    size_t weight, bias; /* offsets in the flat buffer */
};

struct mlp {
    struct sgd_model model;
    const struct k_ops *ops;
    float scale, shift; /* byte -> input */
    uint32_t layers_count;
    struct layer layers[MT_LAYERS_MAX];
    float *work; /* everything below points into it */
    float *act[MT_LAYERS_MAX + 1];
    float *delta[MT_LAYERS_MAX + 1]; /* gradient of act[i]; none for act[0] */
    float *probs, *losses;
};

static struct mlp *mlp_of(struct sgd_model *model)
{
    return mt_container_of(model, struct mlp, model);
}

/* Uniform in +-sqrt(6 / in) for weights before a ReLU and +-sqrt(3 / in) for the last layer's; biases start
 * at 0. Each layer draws from its own generator, so that adding a layer does not change the others. */
static void mlp_init(struct sgd_model *model, uint64_t seed, float *params)
{
    struct mlp *mlp = mlp_of(model);
    for (uint32_t l = 0; l < mlp->layers_count; l++) {
        const struct layer *layer = &mlp->layers[l];
        mt_rng key = {seed}, rng = {mt_rng_next(&key) ^ (l + 1) * 0x9e3779b97f4a7c15u};
        double bound = sqrt((l + 1 < mlp->layers_count ? 6.0 : 3.0) / layer->in);
        for (size_t i = 0; i < (size_t)layer->in * layer->out; i++) {
            double unit = (double)(mt_rng_next(&rng) >> 11) * 0x1p-53;
            params[layer->weight + i] = (float)(bound * (2.0 * unit - 1.0));
        }
        memset(params + layer->bias, 0, layer->out * sizeof *params);
    }
}

static mt_status forward(struct mlp *mlp, const float *params, const struct sgd_batch *batch,
                         struct k_xent *xent)
{
    const struct k_ops *ops = mlp->ops;
    uint32_t n = batch->count, last = mlp->layers_count - 1;

    MT_TRY(ops->unpack(NULL, batch->records, mlp->act[0], (size_t)n * batch->record_size, mlp->scale,
                       mlp->shift));
    for (uint32_t l = 0; l <= last; l++) {
        const struct layer *layer = &mlp->layers[l];
        struct k_gemm gemm = {.m = (int)n,
                              .n = (int)layer->out,
                              .k = (int)layer->in,
                              .b_transposed = true,
                              .a = mlp->act[l],
                              .b = params + layer->weight,
                              .c = mlp->act[l + 1]};
        MT_TRY(ops->gemm(NULL, &gemm));
        MT_TRY(ops->bias_add(NULL, mlp->act[l + 1], params + layer->bias, n, layer->out));
        if (l < last)
            MT_TRY(ops->relu_forward(NULL, mlp->act[l + 1], (size_t)n * layer->out));
    }
    *xent = (struct k_xent){.logits = mlp->act[last + 1],
                            .labels = batch->labels,
                            .probs = mlp->probs,
                            .losses = mlp->losses,
                            .grads = mlp->delta[last + 1],
                            .rows = n,
                            .classes = mlp->layers[last].out};
    return ops->xent_forward(NULL, xent);
}

static mt_status backward(struct mlp *mlp, const float *params, const struct sgd_batch *batch, float *grads)
{
    const struct k_ops *ops = mlp->ops;
    uint32_t n = batch->count;

    for (uint32_t l = mlp->layers_count; l-- > 0;) {
        const struct layer *layer = &mlp->layers[l];
        const float *delta = mlp->delta[l + 1];
        struct k_gemm weight = {.m = (int)layer->out,
                                .n = (int)layer->in,
                                .k = (int)n,
                                .a_transposed = true,
                                .a = delta,
                                .b = mlp->act[l],
                                .c = grads + layer->weight};
        MT_TRY(ops->gemm(NULL, &weight));
        MT_TRY(ops->bias_grad(NULL, delta, grads + layer->bias, n, layer->out));
        if (l == 0)
            break;
        struct k_gemm input = {.m = (int)n,
                               .n = (int)layer->in,
                               .k = (int)layer->out,
                               .a = delta,
                               .b = params + layer->weight,
                               .c = mlp->delta[l]};
        MT_TRY(ops->gemm(NULL, &input));
        MT_TRY(ops->relu_backward(NULL, mlp->act[l], mlp->delta[l], (size_t)n * layer->in));
    }
    return mt_ok();
}

static void metrics_set(const struct k_xent *xent, float metrics[SGD_METRICS])
{
    float loss = 0.0f, correct = 0.0f;
    for (size_t r = 0; r < xent->rows; r++) {
        const float *logits = xent->logits + r * xent->classes;
        size_t best = 0;
        for (size_t c = 1; c < xent->classes; c++)
            best = logits[c] > logits[best] ? c : best;
        loss += xent->losses[r];
        correct += best == xent->labels[r] ? 1.0f : 0.0f;
    }
    metrics[SGD_METRIC_LOSS] = loss;
    metrics[SGD_METRIC_CORRECT] = correct;
    metrics[SGD_METRIC_SAMPLES] = (float)xent->rows;
}

/* What a caller may get wrong: a data set that is not the model's, or too many records at once. */
static mt_status batch_check(const struct mlp *mlp, const struct sgd_batch *batch)
{
    if (batch->count == 0 || batch->count > mlp->model.batch_max)
        return mt_error(MT_EINVAL, 0, "model: number of records in the batch");
    if (batch->record_size != mlp->model.record_size)
        return mt_error(MT_EINVAL, 0, "model: size of a record");
    for (uint32_t i = 0; i < batch->count; i++)
        if (batch->labels[i] >= mlp->layers[mlp->layers_count - 1].out)
            return mt_error(MT_EINVAL, 0, "model: label out of range");
    return mt_ok();
}

static mt_status mlp_gradient(struct sgd_model *model, const float *params, const struct sgd_batch *batch,
                              float scale, float *grads, float metrics[SGD_METRICS])
{
    struct mlp *mlp = mlp_of(model);
    struct k_xent xent;

    MT_TRY(batch_check(mlp, batch));
    MT_TRY(forward(mlp, params, batch, &xent));
    xent.scale = scale;
    MT_TRY(mlp->ops->xent_backward(NULL, &xent));
    MT_TRY(backward(mlp, params, batch, grads));
    metrics_set(&xent, metrics);
    return mt_ok();
}

static mt_status mlp_evaluate(struct sgd_model *model, const float *params, const struct sgd_batch *batch,
                              float metrics[SGD_METRICS])
{
    struct mlp *mlp = mlp_of(model);
    struct k_xent xent;

    MT_TRY(batch_check(mlp, batch));
    MT_TRY(forward(mlp, params, batch, &xent));
    metrics_set(&xent, metrics);
    return mt_ok();
}

static void mlp_free(struct sgd_model *model)
{
    struct mlp *mlp = mlp_of(model);
    sgd_params_fini(&model->params);
    free(mlp->work);
    free(mlp);
}

static const struct sgd_model_ops mlp_model_ops = {
    .init = mlp_init, .gradient = mlp_gradient, .evaluate = mlp_evaluate, .free = mlp_free};

static mt_status layer_add(struct mlp *mlp, uint32_t in, uint32_t out)
{
    uint32_t l = mlp->layers_count++;
    struct layer *layer = &mlp->layers[l];
    uint64_t shape[2] = {out, in};
    char name[MT_NAME_BYTES_MAX];

    if (in == 0 || in > WIDTH_MAX || out > WIDTH_MAX)
        return mt_error(MT_EINVAL, 0, "model: width of a layer");
    layer->in = in;
    layer->out = out;
    snprintf(name, sizeof name, "layers.%u.weight", l);
    MT_TRY(sgd_params_add(&mlp->model.params, name, 2, shape, &layer->weight));
    snprintf(name, sizeof name, "layers.%u.bias", l);
    return sgd_params_add(&mlp->model.params, name, 1, shape, &layer->bias);
}

/* One allocation, cut into the buffers of each layer. */
static mt_status work_allocate(struct mlp *mlp)
{
    size_t n = mlp->model.batch_max, floats = n * mlp->layers[0].in;
    size_t classes = mlp->layers[mlp->layers_count - 1].out;
    for (uint32_t l = 0; l < mlp->layers_count; l++)
        floats += 2 * n * mlp->layers[l].out;
    mlp->work = calloc(floats + n * classes + n, sizeof *mlp->work);
    if (!mlp->work)
        return mt_error(MT_ENOMEM, 0, "model: workspace");
    float *next = mlp->work;
    mlp->act[0] = next, next += n * mlp->layers[0].in;
    for (uint32_t l = 0; l < mlp->layers_count; l++) {
        mlp->act[l + 1] = next, next += n * mlp->layers[l].out;
        mlp->delta[l + 1] = next, next += n * mlp->layers[l].out;
    }
    mlp->probs = next, next += n * classes;
    mlp->losses = next;
    return mt_ok();
}

static mt_status mlp_build(struct mlp *mlp, const struct sgd_mlp_config *config)
{
    uint32_t in = config->inputs ? config->inputs : 784, outputs = config->outputs ? config->outputs : 10;
    bool is_default = config->mean == 0.0f && config->deviation == 0.0f;
    float mean = is_default ? 0.2860f : config->mean, deviation = is_default ? 0.3530f : config->deviation;

    mlp->ops = config->ops;
    mlp->scale = 1.0f / (255.0f * deviation);
    mlp->shift = -mean / deviation;
    mlp->model = (struct sgd_model){.ops = &mlp_model_ops, .batch_max = config->batch_max, .record_size = in};
    if (outputs > CLASSES_MAX || config->batch_max == 0 || config->batch_max > BATCH_MAX ||
        !(deviation > 0.0f))
        return mt_error(MT_EINVAL, 0, "model: configuration out of range");
    for (uint32_t h = 0; h < MT_LAYERS_MAX - 1; h++) {
        uint32_t width = h == 0 && !config->hidden[0] ? 128 : config->hidden[h];
        if (!width)
            break;
        MT_TRY(layer_add(mlp, in, width));
        in = width;
    }
    MT_TRY(layer_add(mlp, in, outputs));
    return work_allocate(mlp);
}

mt_status sgd_mlp_new(const struct sgd_mlp_config *config, struct sgd_model **out_model)
{
    struct mlp *mlp = calloc(1, sizeof *mlp);
    if (!mlp)
        return mt_error(MT_ENOMEM, 0, "model");
    mt_status st = mlp_build(mlp, config);
    if (st.code != 0) {
        mlp_free(&mlp->model);
        return st;
    }
    *out_model = &mlp->model;
    return mt_ok();
}
