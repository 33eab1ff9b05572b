/* SPDX-License-Identifier: Apache-2.0
 *
 * cnn.c - forward and backward pass of a convolutional network over one micro-batch.
 *
 * Owns:   its table of parameters and one workspace. Thread: one at a time per model.
 *
 * The pictures go through the convolutions one after the other, in both directions, so that what lies between two
 * layers stays in the cache; the dense layers take the whole batch. An evaluation keeps no picture's activations.
 */
#include "sgd/model/cnn.h"

#include "sgd/model/layer.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

enum { KERNEL = 3, POOL = 2, SIDE_MAX = 4096, CHANNELS_MAX = 1024, DENSE_MAX = 1 << 20, BATCH_MAX = 1 << 16, CLASSES_MAX = 256 };

struct cnn {
    struct sgd_model    model;
    const struct k_ops *ops;
    float               dropout[2];
    struct k_conv       conv[2]; /* shapes; the buffers are filled in for each picture */
    struct k_pool       pool;
    size_t              weight[2], bias[2]; /* of the convolutions, in the flat buffer */
    struct sgd_linear   fc[2];
    size_t              input_floats, conv_floats[2]; /* of one picture */
    struct sgd_stage    stage;
    float              *work;             /* everything below points into it */
    float              *input, *act[2];   /* per picture: records, after ReLU, before the maximum */
    float              *pooled, *dropped; /* per picture: after ReLU; with dropout, of its own only where there is any */
    float              *hidden, *logits, *probs, *losses; /* per picture; hidden is after ReLU and dropout */
    float              *dlogits, *dhidden, *dpooled;
    float              *dact[2], *cols; /* of one picture */
};

static struct cnn *cnn_of(struct sgd_model *model)
{
    return mt_container_of(model, struct cnn, model);
}

/* Uniform in +-sqrt(6 / inputs) before a ReLU, +-sqrt(3 / inputs) in the last layer; biases start at 0. */
static void cnn_init(struct sgd_model *model, uint64_t seed, float *params)
{
    struct cnn *cnn = cnn_of(model);
    memset(params, 0, model->params.floats * sizeof *params);
    for (uint64_t i = 0; i < 2; i++) {
        size_t inputs = KERNEL * KERNEL * cnn->conv[i].channels_in;
        sgd_init_uniform(seed, i, sqrt(6.0 / (double)inputs), params + cnn->weight[i], inputs * cnn->conv[i].channels_out);
        sgd_init_uniform(seed, 2 + i, sqrt((i ? 3.0 : 6.0) / cnn->fc[i].in), params + cnn->fc[i].weight,
                         (size_t)cnn->fc[i].in * cnn->fc[i].out);
    }
}

/* ---- pictures: one at a time, on a device as many as there are ---- */

static uint32_t together(const struct cnn *cnn, uint32_t count)
{
    return cnn->ops->is_device ? count : 1;
}

static struct k_conv conv_of(const struct cnn *cnn, int i, const float *params, const float *x, float *y, uint32_t pictures)
{
    struct k_conv conv = cnn->conv[i];
    conv.batch = pictures;
    conv.x = x;
    conv.y = y;
    conv.weight = params + cnn->weight[i];
    conv.bias = params + cnn->bias[i];
    conv.work = cnn->cols;
    return conv;
}

/* Where a picture's activations are: in an evaluation all share the first place. */
static size_t place(uint32_t picture, bool is_kept)
{
    return is_kept ? picture : 0;
}

static mt_status pictures_forward(struct cnn *cnn, const float *params, const struct sgd_batch *batch, uint32_t i,
                                  uint32_t pictures, bool is_kept)
{
    const struct k_ops *ops = cnn->ops;
    size_t              at = place(i, is_kept);
    float              *input = cnn->input + at * cnn->input_floats, *act[2];
    struct k_pool       pool = cnn->pool;

    for (int c = 0; c < 2; c++)
        act[c] = cnn->act[c] + at * cnn->conv_floats[c];
    MT_TRY(sgd_stage_inputs(&cnn->stage, batch, i, pictures, input));
    struct k_conv first = conv_of(cnn, 0, params, input, act[0], pictures);
    struct k_conv second = conv_of(cnn, 1, params, act[0], act[1], pictures);
    MT_TRY(ops->conv_forward(NULL, &first));
    MT_TRY(ops->relu_forward(NULL, act[0], pictures * cnn->conv_floats[0]));
    MT_TRY(ops->conv_forward(NULL, &second));
    pool.batch = pictures;
    pool.x = act[1];
    pool.y = cnn->pooled + (size_t)i * cnn->fc[0].in;
    return ops->pool_forward(NULL, &pool);
}

static mt_status pictures_backward(struct cnn *cnn, const float *params, uint32_t i, uint32_t pictures, float *grads)
{
    const struct k_ops *ops = cnn->ops;
    float              *act[2] = {cnn->act[0] + i * cnn->conv_floats[0], cnn->act[1] + i * cnn->conv_floats[1]};
    struct k_conv       first = conv_of(cnn, 0, params, cnn->input + i * cnn->input_floats, act[0], pictures);
    struct k_conv       second = conv_of(cnn, 1, params, act[0], act[1], pictures);
    struct k_pool       pool = cnn->pool;

    pool.batch = pictures;
    pool.x = act[1];
    pool.y = cnn->pooled + (size_t)i * cnn->fc[0].in;
    pool.dy = cnn->dpooled + (size_t)i * cnn->fc[0].in;
    pool.dx = cnn->dact[1];
    MT_TRY(ops->pool_backward(NULL, &pool));
    second.dy = cnn->dact[1];
    second.dx = cnn->dact[0];
    second.dweight = grads + cnn->weight[1];
    second.dbias = grads + cnn->bias[1];
    second.adds = i > 0;
    MT_TRY(ops->conv_backward(NULL, &second));
    MT_TRY(ops->relu_backward(NULL, act[0], cnn->dact[0], pictures * cnn->conv_floats[0]));
    first.dy = cnn->dact[0];
    first.dweight = grads + cnn->weight[0];
    first.dbias = grads + cnn->bias[0];
    first.adds = i > 0;
    return ops->conv_backward(NULL, &first);
}

/* ---- a batch ---- */

/* Each picture's own key, and another for each layer, so that what is dropped depends on neither batch nor worker. */
static mt_status drop(const struct cnn *cnn, float *x, uint32_t count, int layer, uint64_t key)
{
    size_t width = layer ? cnn->fc[0].out : cnn->fc[0].in;
    if (key == 0 || cnn->dropout[layer] == 0.0f)
        return mt_ok();
    for (uint32_t i = 0; i < count; i++)
        MT_TRY(cnn->ops->dropout(NULL, x + i * width, width, (key + i) * 2 + (uint64_t)layer, cnn->dropout[layer]));
    return mt_ok();
}

static mt_status forward(struct cnn *cnn, const float *params, const struct sgd_batch *batch, bool is_kept, struct k_xent *xent)
{
    const struct k_ops *ops = cnn->ops;
    uint32_t            n = batch->count;

    size_t pooled = (size_t)n * cnn->fc[0].in;

    for (uint32_t i = 0, step = together(cnn, n); i < n; i += step)
        MT_TRY(pictures_forward(cnn, params, batch, i, step, is_kept));
    MT_TRY(ops->relu_forward(NULL, cnn->pooled, pooled));
    if (cnn->dropped != cnn->pooled)
        MT_TRY(ops->copy(NULL, cnn->dropped, cnn->pooled, pooled * sizeof(float)));
    MT_TRY(drop(cnn, cnn->dropped, n, 0, batch->key));
    MT_TRY(sgd_linear_forward(&cnn->fc[0], ops, params, cnn->dropped, n, cnn->hidden));
    MT_TRY(ops->relu_forward(NULL, cnn->hidden, (size_t)n * cnn->fc[0].out));
    MT_TRY(drop(cnn, cnn->hidden, n, 1, batch->key));
    MT_TRY(sgd_linear_forward(&cnn->fc[1], ops, params, cnn->hidden, n, cnn->logits));
    *xent = (struct k_xent){.logits = cnn->logits,
                            .labels = batch->labels,
                            .probs = cnn->probs,
                            .losses = cnn->losses,
                            .grads = cnn->dlogits,
                            .rows = n,
                            .classes = cnn->fc[1].out};
    return ops->xent_forward(NULL, xent);
}

static mt_status backward(struct cnn *cnn, const float *params, const struct sgd_batch *batch, float *grads)
{
    const struct k_ops *ops = cnn->ops;
    uint32_t            n = batch->count;

    MT_TRY(sgd_linear_backward(&cnn->fc[1], ops, params, cnn->hidden, cnn->dlogits, n, cnn->dhidden, grads));
    sgd_linear_ready(&cnn->fc[1], &cnn->model);
    MT_TRY(drop(cnn, cnn->dhidden, n, 1, batch->key));
    MT_TRY(ops->relu_backward(NULL, cnn->hidden, cnn->dhidden, (size_t)n * cnn->fc[0].out));
    MT_TRY(sgd_linear_backward(&cnn->fc[0], ops, params, cnn->dropped, cnn->dhidden, n, cnn->dpooled, grads));
    sgd_linear_ready(&cnn->fc[0], &cnn->model);
    MT_TRY(drop(cnn, cnn->dpooled, n, 0, batch->key));
    MT_TRY(ops->relu_backward(NULL, cnn->pooled, cnn->dpooled, (size_t)n * cnn->fc[0].in));
    for (uint32_t i = 0, step = together(cnn, n); i < n; i += step)
        MT_TRY(pictures_backward(cnn, params, i, step, grads));
    return mt_ok();
}

/* `grads` NULL: none are wanted, and nothing is dropped. */
static mt_status cnn_gradient(struct sgd_model *model, const float *params, const struct sgd_batch *batch, float scale,
                              float *grads, float metrics[SGD_METRICS])
{
    struct cnn      *cnn = cnn_of(model);
    struct sgd_batch in;
    struct k_xent    xent;

    MT_TRY(sgd_batch_check(model, batch, cnn->fc[1].out));
    MT_TRY(sgd_stage_in(&cnn->stage, batch, &in));
    MT_TRY(forward(cnn, params, &in, grads != NULL, &xent));
    xent.scale = scale;
    if (grads) {
        MT_TRY(cnn->ops->xent_backward(NULL, &xent));
        MT_TRY(backward(cnn, params, &in, grads));
    }
    return sgd_class_metrics(&cnn->stage, &xent, batch->labels, metrics);
}

static mt_status cnn_evaluate(struct sgd_model *model, const float *params, const struct sgd_batch *batch,
                              float metrics[SGD_METRICS])
{
    return cnn_gradient(model, params, batch, 0, NULL, metrics);
}

/* ---- begin and end ---- */

static void cnn_free(struct sgd_model *model)
{
    struct cnn *cnn = cnn_of(model);
    sgd_params_fini(&model->params);
    if (cnn->work)
        cnn->ops->release(cnn->work);
    sgd_stage_fini(&cnn->stage);
    free(cnn);
}

static const struct sgd_model_ops cnn_model_ops = {
    .init = cnn_init, .gradient = cnn_gradient, .evaluate = cnn_evaluate, .free = cnn_free};

static mt_status conv_add(struct cnn *cnn, int i, const char *weight, const char *bias)
{
    const struct k_conv *conv = &cnn->conv[i];
    uint64_t             shape[4] = {conv->channels_out, KERNEL, KERNEL, conv->channels_in};
    MT_TRY(sgd_params_add(&cnn->model.params, weight, 4, shape, &cnn->weight[i]));
    return sgd_params_add(&cnn->model.params, bias, 1, shape, &cnn->bias[i]);
}

static mt_status params_add(struct cnn *cnn, uint32_t dense, uint32_t outputs)
{
    const struct k_pool *pool = &cnn->pool;
    size_t               pooled = pool->height / POOL * (pool->width / POOL) * pool->channels;

    if (pooled > UINT32_MAX)
        return mt_error(MT_EINVAL, 0, "model: configuration out of range");
    MT_TRY(conv_add(cnn, 0, "conv1.weight", "conv1.bias"));
    MT_TRY(conv_add(cnn, 1, "conv2.weight", "conv2.bias"));
    MT_TRY(sgd_linear_add(&cnn->model.params, "fc1", (uint32_t)pooled, dense, &cnn->fc[0]));
    return sgd_linear_add(&cnn->model.params, "fc2", dense, outputs, &cnn->fc[1]);
}

/* One allocation, cut into buffers. */
static mt_status work_allocate(struct cnn *cnn, const struct sgd_cast *cast)
{
    size_t n = cnn->model.batch_max, cols[2] = {k_conv_work(&cnn->conv[0]), k_conv_work(&cnn->conv[1])};
    struct {
        float **at;
        size_t  floats;
    } buffers[] = {{&cnn->input, n * cnn->input_floats},
                   {&cnn->act[0], n * cnn->conv_floats[0]},
                   {&cnn->act[1], n * cnn->conv_floats[1]},
                   {&cnn->pooled, n * cnn->fc[0].in},
                   {&cnn->dropped, cnn->dropout[0] > 0.0f ? n * cnn->fc[0].in : 0},
                   {&cnn->hidden, n * cnn->fc[0].out},
                   {&cnn->logits, n * cnn->fc[1].out},
                   {&cnn->probs, n * cnn->fc[1].out},
                   {&cnn->losses, n},
                   {&cnn->dlogits, n * cnn->fc[1].out},
                   {&cnn->dhidden, n * cnn->fc[0].out},
                   {&cnn->dpooled, n * cnn->fc[0].in},
                   {&cnn->dact[0], together(cnn, cnn->model.batch_max) * cnn->conv_floats[0]},
                   {&cnn->dact[1], together(cnn, cnn->model.batch_max) * cnn->conv_floats[1]},
                   {&cnn->cols, cols[0] > cols[1] ? cols[0] : cols[1]}};
    size_t floats = 0;

    for (size_t i = 0; i < sizeof buffers / sizeof *buffers; i++)
        floats += buffers[i].floats;
    MT_TRY(sgd_stage_init(&cnn->stage, &(struct sgd_stage_plan){.ops = cnn->ops,
                                                                .batch_max = cnn->model.batch_max,
                                                                .inputs = (uint32_t)cnn->input_floats,
                                                                .classes = cnn->fc[1].out,
                                                                .cast = *cast}));
    MT_TRY(cnn->ops->alloc(floats * sizeof *cnn->work, (void **)&cnn->work));
    float *next = cnn->work;
    for (size_t i = 0; i < sizeof buffers / sizeof *buffers; i++)
        *buffers[i].at = next, next += buffers[i].floats;
    if (!(cnn->dropout[0] > 0.0f))
        cnn->dropped = cnn->pooled;
    return mt_ok();
}

/* Shapes, from the picture down to the pooled one. */
static void shapes_set(struct cnn *cnn, size_t height, size_t width, const size_t channels[2])
{
    cnn->conv[0] = (struct k_conv){
        .batch = 1, .height = height, .width = width, .channels_in = 1, .channels_out = channels[0], .kernel = KERNEL};
    cnn->conv[1] = (struct k_conv){.batch = 1,
                                   .height = height - 2,
                                   .width = width - 2,
                                   .channels_in = channels[0],
                                   .channels_out = channels[1],
                                   .kernel = KERNEL};
    cnn->pool = (struct k_pool){.batch = 1, .height = height - 4, .width = width - 4, .channels = channels[1], .size = POOL};
    cnn->input_floats = height * width;
    cnn->conv_floats[0] = (height - 2) * (width - 2) * channels[0];
    cnn->conv_floats[1] = (height - 4) * (width - 4) * channels[1];
}

static mt_status cnn_build(struct cnn *cnn, const struct sgd_cnn_config *c)
{
    uint32_t height = c->height ? c->height : 28, width = c->width ? c->width : 28;
    uint32_t dense = c->dense ? c->dense : 128, outputs = c->outputs ? c->outputs : 10;
    size_t   channels[2] = {c->channels[0] ? c->channels[0] : 32, c->channels[1] ? c->channels[1] : 64};

    cnn->ops = c->ops;
    cnn->model = (struct sgd_model){.ops = &cnn_model_ops,
                                    .batch_max = c->batch_max,
                                    .device = sgd_model_device(c->ops),
                                    .record_size = height * width * sgd_element_size(c->cast.element)};
    if (height < 6 || width < 6 || height > SIDE_MAX || width > SIDE_MAX || dense > DENSE_MAX || outputs > CLASSES_MAX ||
        channels[0] > CHANNELS_MAX || channels[1] > CHANNELS_MAX)
        return mt_error(MT_EINVAL, 0, "model: configuration out of range");
    if (c->batch_max == 0 || c->batch_max > BATCH_MAX)
        return mt_error(MT_EINVAL, 0, "model: configuration out of range");
    for (int i = 0; i < 2; i++) {
        cnn->dropout[i] = c->dropout[i];
        if (!(c->dropout[i] >= 0.0f && c->dropout[i] < 1.0f))
            return mt_error(MT_EINVAL, 0, "model: a rate of dropout is at least 0 and below 1");
    }
    shapes_set(cnn, height, width, channels);
    MT_TRY(params_add(cnn, dense, outputs));
    return work_allocate(cnn, &c->cast);
}

mt_status sgd_cnn_new(const struct sgd_cnn_config *config, struct sgd_model **out_model)
{
    struct cnn *cnn = calloc(1, sizeof *cnn);
    if (!cnn)
        return mt_error(MT_ENOMEM, 0, "model");
    mt_status st = cnn_build(cnn, config);
    if (st.code != 0) {
        cnn_free(&cnn->model);
        return st;
    }
    *out_model = &cnn->model;
    return mt_ok();
}
