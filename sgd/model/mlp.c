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
#include "sgd/model/mlp.h"

#include "sgd/model/layer.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { CLASSES_MAX = 256, WIDTH_MAX = 1 << 20, BATCH_MAX = 1 << 20 };

struct mlp {
    struct sgd_model    model;
    const struct k_ops *ops;
    uint32_t            layers_count;
    struct sgd_linear   layers[MT_LAYERS_MAX];
    struct sgd_stage    stage;
    float              *work; /* everything below points into it */
    float              *act[MT_LAYERS_MAX + 1];
    float              *delta[MT_LAYERS_MAX + 1]; /* gradient of act[i]; none for act[0] */
    float              *probs, *losses;
};

static struct mlp *mlp_of(struct sgd_model *model)
{
    return mt_container_of(model, struct mlp, model);
}

/* Uniform in +-sqrt(6 / in) for weights before a ReLU and +-sqrt(3 / in) for the last layer's; biases start
 * at 0. */
static void mlp_init(struct sgd_model *model, uint64_t seed, float *params)
{
    struct mlp *mlp = mlp_of(model);
    for (uint32_t l = 0; l < mlp->layers_count; l++) {
        const struct sgd_linear *layer = &mlp->layers[l];
        double                   bound = sqrt((l + 1 < mlp->layers_count ? 6.0 : 3.0) / layer->in);
        sgd_init_uniform(seed, l, bound, params + layer->weight, (size_t)layer->in * layer->out);
        memset(params + layer->bias, 0, layer->out * sizeof *params);
    }
}

static mt_status forward(struct mlp *mlp, const float *params, const struct sgd_batch *batch, struct k_xent *xent)
{
    const struct k_ops *ops = mlp->ops;
    uint32_t            n = batch->count, last = mlp->layers_count - 1;

    MT_TRY(sgd_stage_inputs(&mlp->stage, batch, 0, n, mlp->act[0]));
    for (uint32_t l = 0; l <= last; l++) {
        const struct sgd_linear *layer = &mlp->layers[l];
        MT_TRY(sgd_linear_forward(layer, ops, params, mlp->act[l], n, mlp->act[l + 1]));
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
    uint32_t            n = batch->count;

    for (uint32_t l = mlp->layers_count; l-- > 0;) {
        const struct sgd_linear *layer = &mlp->layers[l];
        MT_TRY(sgd_linear_backward(layer, ops, params, mlp->act[l], mlp->delta[l + 1], n, l ? mlp->delta[l] : NULL, grads));
        sgd_linear_ready(layer, &mlp->model);
        if (l == 0)
            break;
        MT_TRY(ops->relu_backward(NULL, mlp->act[l], mlp->delta[l], (size_t)n * layer->in));
    }
    return mt_ok();
}

static uint32_t classes_of(const struct mlp *mlp)
{
    return mlp->layers[mlp->layers_count - 1].out;
}

/* `grads` NULL: none are wanted. */
static mt_status mlp_gradient(struct sgd_model *model, const float *params, const struct sgd_batch *batch, float scale,
                              float *grads, float metrics[SGD_METRICS])
{
    struct mlp      *mlp = mlp_of(model);
    struct sgd_batch in;
    struct k_xent    xent;

    MT_TRY(sgd_batch_check(model, batch, classes_of(mlp)));
    MT_TRY(sgd_stage_in(&mlp->stage, batch, &in));
    MT_TRY(forward(mlp, params, &in, &xent));
    xent.scale = scale;
    if (grads) {
        MT_TRY(mlp->ops->xent_backward(NULL, &xent));
        MT_TRY(backward(mlp, params, &in, grads));
    }
    return sgd_class_metrics(&mlp->stage, &xent, batch->labels, metrics);
}

static mt_status mlp_evaluate(struct sgd_model *model, const float *params, const struct sgd_batch *batch,
                              float metrics[SGD_METRICS])
{
    return mlp_gradient(model, params, batch, 0, NULL, metrics);
}

static void mlp_free(struct sgd_model *model)
{
    struct mlp *mlp = mlp_of(model);
    sgd_params_fini(&model->params);
    if (mlp->work)
        mlp->ops->release(mlp->work);
    sgd_stage_fini(&mlp->stage);
    free(mlp);
}

static const struct sgd_model_ops mlp_model_ops = {
    .init = mlp_init, .gradient = mlp_gradient, .evaluate = mlp_evaluate, .free = mlp_free};

static mt_status layer_add(struct mlp *mlp, uint32_t in, uint32_t out)
{
    uint32_t l = mlp->layers_count++;
    char     name[MT_NAME_BYTES_MAX];

    if (in == 0 || in > WIDTH_MAX || out > WIDTH_MAX)
        return mt_error(MT_EINVAL, 0, "model: width of a layer");
    snprintf(name, sizeof name, "layers.%u", l);
    return sgd_linear_add(&mlp->model.params, name, in, out, &mlp->layers[l]);
}

/* One allocation, cut into the buffers of each layer. */
static mt_status work_allocate(struct mlp *mlp, const struct sgd_cast *cast)
{
    size_t n = mlp->model.batch_max, floats = n * mlp->layers[0].in;
    size_t classes = mlp->layers[mlp->layers_count - 1].out;
    for (uint32_t l = 0; l < mlp->layers_count; l++)
        floats += 2 * n * mlp->layers[l].out;
    MT_TRY(sgd_stage_init(&mlp->stage, &(struct sgd_stage_plan){.ops = mlp->ops,
                                                                .batch_max = mlp->model.batch_max,
                                                                .inputs = mlp->layers[0].in,
                                                                .classes = (uint32_t)classes,
                                                                .cast = *cast}));
    MT_TRY(mlp->ops->alloc((floats + n * classes + n) * sizeof *mlp->work, (void **)&mlp->work));
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

    mlp->ops = config->ops;
    if (in == 0 || in > WIDTH_MAX)
        return mt_error(MT_EINVAL, 0, "model: width of a layer");
    mlp->model = (struct sgd_model){.ops = &mlp_model_ops,
                                    .batch_max = config->batch_max,
                                    .device = sgd_model_device(config->ops),
                                    .record_size = in * sgd_element_size(config->cast.element)};
    if (outputs > CLASSES_MAX || config->batch_max == 0 || config->batch_max > BATCH_MAX)
        return mt_error(MT_EINVAL, 0, "model: configuration out of range");
    for (uint32_t h = 0; h < MT_LAYERS_MAX - 1; h++) {
        uint32_t width = h == 0 && !config->hidden[0] ? 128 : config->hidden[h];
        if (!width)
            break;
        MT_TRY(layer_add(mlp, in, width));
        in = width;
    }
    MT_TRY(layer_add(mlp, in, outputs));
    return work_allocate(mlp, &config->cast);
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
