/* SPDX-License-Identifier: Apache-2.0
 *
 * device.c - copies parameters to the device and gradients back. Owns: the inner model, and both buffers on the device.
 * Thread: one at a time per model.
 */
#include "sgd/model/device.h"

#include <stdlib.h>
#include <string.h>

struct on_device {
    struct sgd_model    model;
    struct sgd_model   *inner;
    const struct k_ops *ops;
    float              *params, *grads;
};

static struct on_device *of(struct sgd_model *model)
{
    return mt_container_of(model, struct on_device, model);
}

static void device_init(struct sgd_model *model, uint64_t seed, float *params)
{
    struct sgd_model *inner = of(model)->inner;
    inner->ops->init(inner, seed, params);
}

static mt_status params_lend(struct on_device *d, const float *params)
{
    return d->ops->copy(NULL, d->params, params, d->model.params.floats * sizeof *params);
}

static mt_status device_gradient(struct sgd_model *model, const float *params, const struct sgd_batch *batch, float scale,
                                 float *grads, float metrics[SGD_METRICS])
{
    struct on_device *d = of(model);
    MT_TRY(params_lend(d, params));
    MT_TRY(d->inner->ops->gradient(d->inner, d->params, batch, scale, d->grads, metrics));
    MT_TRY(d->ops->copy(NULL, grads, d->grads, model->params.floats * sizeof *grads));
    return d->ops->wait(NULL);
}

static mt_status device_evaluate(struct sgd_model *model, const float *params, const struct sgd_batch *batch,
                                 float metrics[SGD_METRICS])
{
    struct on_device *d = of(model);
    MT_TRY(params_lend(d, params));
    MT_TRY(d->inner->ops->evaluate(d->inner, d->params, batch, metrics));
    return d->ops->wait(NULL);
}

static void device_free(struct sgd_model *model)
{
    struct on_device *d = of(model);
    if (d->params)
        d->ops->release(d->params);
    if (d->grads)
        d->ops->release(d->grads);
    d->inner->ops->free(d->inner);
    free(d);
}

static const struct sgd_model_ops device_ops = {
    .init = device_init, .gradient = device_gradient, .evaluate = device_evaluate, .free = device_free};

static mt_status buffers_allocate(struct on_device *d)
{
    size_t size = d->model.params.floats * sizeof(float);
    MT_TRY(d->ops->alloc(size, (void **)&d->params));
    return d->ops->alloc(size, (void **)&d->grads);
}

mt_status sgd_device_new(struct sgd_model *take_inner, struct sgd_model **out_model)
{
    struct on_device *d = calloc(1, sizeof *d);
    MT_ASSERT(take_inner->device);
    if (!d) {
        take_inner->ops->free(take_inner);
        return mt_error(MT_ENOMEM, 0, "model on a device");
    }
    d->inner = take_inner;
    d->ops = take_inner->device;
    d->model = *take_inner; /* the table of parameters stays the inner model's, and is freed with it */
    d->model.ops = &device_ops;
    d->model.device = NULL;
    mt_status st = buffers_allocate(d);
    if (st.code != 0) {
        device_free(&d->model);
        return st;
    }
    *out_model = &d->model;
    return mt_ok();
}
