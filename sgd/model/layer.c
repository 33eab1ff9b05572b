/* SPDX-License-Identifier: Apache-2.0
 *
 * layer.c - linear layers, initial values, metrics. Owns nothing. Thread: any.
 */
#include "sgd/model/layer.h"

#include "core/base/rng.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

mt_status sgd_linear_add(struct sgd_params *params, const char *name, uint32_t in, uint32_t out, struct sgd_linear *out_linear)
{
    uint64_t shape[2] = {out, in};
    char     full[MT_NAME_BYTES_MAX];

    *out_linear = (struct sgd_linear){.in = in, .out = out};
    snprintf(full, sizeof full, "%s.weight", name);
    MT_TRY(sgd_params_add(params, full, 2, shape, &out_linear->weight));
    snprintf(full, sizeof full, "%s.bias", name);
    return sgd_params_add(params, full, 1, shape, &out_linear->bias);
}

mt_status sgd_linear_forward(const struct sgd_linear *linear, const struct k_ops *ops, const float *params, const float *x,
                             size_t rows, float *y)
{
    struct k_gemm gemm = {.m = (int)rows,
                          .n = (int)linear->out,
                          .k = (int)linear->in,
                          .b_transposed = true,
                          .a = x,
                          .b = params + linear->weight,
                          .c = y};
    MT_TRY(ops->gemm(NULL, &gemm));
    return ops->bias_add(NULL, y, params + linear->bias, rows, linear->out);
}

mt_status sgd_linear_backward(const struct sgd_linear *linear, const struct k_ops *ops, const float *params, const float *x,
                              const float *dy, size_t rows, float *dx, float *grads)
{
    struct k_gemm weight = {.m = (int)linear->out,
                            .n = (int)linear->in,
                            .k = (int)rows,
                            .a_transposed = true,
                            .a = dy,
                            .b = x,
                            .c = grads + linear->weight};
    struct k_gemm input = {
        .m = (int)rows, .n = (int)linear->in, .k = (int)linear->out, .a = dy, .b = params + linear->weight, .c = dx};
    MT_TRY(ops->gemm(NULL, &weight));
    MT_TRY(ops->bias_grad(NULL, dy, grads + linear->bias, rows, linear->out));
    return dx ? ops->gemm(NULL, &input) : mt_ok();
}

/* ---- initial values ---- */

static mt_rng generator(uint64_t seed, uint64_t stream)
{
    mt_rng key = {seed};
    return (mt_rng){mt_rng_next(&key) ^ (stream + 1) * 0x9e3779b97f4a7c15u};
}

/* In [0, 1). */
static double unit(mt_rng *rng)
{
    return (double)(mt_rng_next(rng) >> 11) * 0x1p-53;
}

void sgd_init_uniform(uint64_t seed, uint64_t stream, double bound, float *out, size_t count)
{
    mt_rng rng = generator(seed, stream);
    for (size_t i = 0; i < count; i++)
        out[i] = (float)(bound * (2.0 * unit(&rng) - 1.0));
}

void sgd_init_normal(uint64_t seed, uint64_t stream, double deviation, float *out, size_t count)
{
    mt_rng rng = generator(seed, stream);
    for (size_t i = 0; i < count; i += 2) { /* Box and Muller's pairs */
        double radius = deviation * sqrt(-2.0 * log(1.0 - unit(&rng))), angle = 2.0 * 3.14159265358979323846 * unit(&rng);
        out[i] = (float)(radius * cos(angle));
        if (i + 1 < count)
            out[i + 1] = (float)(radius * sin(angle));
    }
}

/* ---- batches and metrics ---- */

mt_status sgd_stage_init(struct sgd_stage *stage, const struct sgd_stage_plan *plan)
{
    bool   is_byte = sgd_element_is_byte(plan->cast.element);
    size_t elements = (size_t)plan->batch_max * plan->inputs, scores = (size_t)plan->batch_max * (plan->classes + 1);
    *stage = (struct sgd_stage){.ops = plan->ops,
                                .cast = sgd_cast_resolve(&plan->cast),
                                .scores = scores,
                                .records_max = elements * (is_byte ? 1 : sizeof(float))};
    if (!sgd_cast_is_known(plan->cast.element) || !isfinite(stage->cast.mean) || !isfinite(stage->cast.deviation) ||
        !(stage->cast.deviation > 0))
        return mt_error(MT_EINVAL, 0, "model: elements of a record, or their mean or deviation");
    if (!plan->ops->is_device)
        return mt_ok();
    stage->host = malloc((scores + (is_byte ? 0 : elements)) * sizeof *stage->host);
    if (!stage->host)
        return mt_error(MT_ENOMEM, 0, "model: workspace");
    return plan->ops->alloc(stage->records_max + plan->batch_max, (void **)&stage->device);
}

void sgd_stage_fini(struct sgd_stage *stage)
{
    if (stage->device)
        stage->ops->release(stage->device);
    free(stage->host);
}

mt_status sgd_stage_in(struct sgd_stage *stage, const struct sgd_batch *batch, struct sgd_batch *out)
{
    const struct k_ops *ops = stage->ops;
    const void         *from = batch->records;
    size_t              size = (size_t)batch->count * batch->record_size;
    *out = *batch;
    if (!ops->is_device)
        return mt_ok();
    if (!sgd_element_is_byte(stage->cast.element)) {
        size_t elements = size / stage->cast.element.width;
        sgd_cast_run(&stage->cast, batch->records, elements, stage->host + stage->scores);
        from = stage->host + stage->scores;
        size = elements * sizeof(float);
    }
    uint8_t *labels = stage->device + stage->records_max;
    out->records = stage->device;
    out->labels = labels;
    MT_TRY(ops->copy(NULL, stage->device, from, size));
    return ops->copy(NULL, labels, batch->labels, batch->count);
}

mt_status sgd_stage_inputs(const struct sgd_stage *stage, const struct sgd_batch *in, uint32_t first, uint32_t count, float *to)
{
    const struct k_ops    *ops = stage->ops;
    const struct sgd_cast *cast = &stage->cast;
    size_t                 inputs = in->record_size / cast->element.width, n = inputs * count;
    if (sgd_element_is_byte(cast->element)) {
        float scale = 1.0f / (float)cast->deviation, shift = (float)(-cast->mean / cast->deviation);
        return ops->unpack(NULL, in->records + first * inputs, to, n, scale, shift);
    }
    if (ops->is_device)
        return ops->copy(NULL, to, in->records + first * inputs * sizeof *to, n * sizeof *to);
    sgd_cast_run(cast, in->records + (size_t)first * in->record_size, n, to);
    return mt_ok();
}

mt_status sgd_class_metrics(struct sgd_stage *stage, const struct k_xent *xent, const uint8_t *labels, float metrics[SGD_METRICS])
{
    const struct k_ops *ops = stage->ops;
    const float        *scores = xent->logits, *losses = xent->losses;
    float               loss = 0.0f, correct = 0.0f;
    size_t              count = xent->rows * xent->classes;

    if (ops->is_device) {
        MT_TRY(ops->copy(NULL, stage->host, scores, count * sizeof *scores));
        MT_TRY(ops->copy(NULL, stage->host + count, losses, xent->rows * sizeof *losses));
        MT_TRY(ops->wait(NULL));
        scores = stage->host;
        losses = stage->host + count;
    }
    for (size_t r = 0; r < xent->rows; r++) {
        const float *logits = scores + r * xent->classes;
        size_t       best = 0;
        for (size_t c = 1; c < xent->classes; c++)
            best = logits[c] > logits[best] ? c : best;
        loss += losses[r];
        correct += best == labels[r] ? 1.0f : 0.0f;
    }
    metrics[SGD_METRIC_LOSS] = loss;
    metrics[SGD_METRIC_CORRECT] = correct;
    metrics[SGD_METRIC_SAMPLES] = (float)xent->rows;
    return mt_ok();
}

mt_status sgd_batch_check(const struct sgd_model *model, const struct sgd_batch *batch, uint32_t classes)
{
    if (batch->count == 0 || batch->count > model->batch_max)
        return mt_error(MT_EINVAL, 0, "model: number of records in the batch");
    if (batch->record_size != model->record_size)
        return mt_error(MT_EINVAL, 0, "model: size of a record");
    if (!batch->labels)
        return mt_error(MT_EINVAL, 0, "model: the records have no labels");
    for (uint32_t i = 0; i < batch->count; i++)
        if (batch->labels[i] >= classes)
            return mt_error(MT_EINVAL, 0, "model: label out of range");
    return mt_ok();
}
