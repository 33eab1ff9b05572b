/* SPDX-License-Identifier: Apache-2.0
 *
 * layer.h - what models are made of: linear layers over the flat buffer, initial values, the metrics of a classifier.
 */
#ifndef SGD_LAYER_H
#define SGD_LAYER_H

#include "kernels/kernels.h"
#include "sgd/model.h"

/* y = x weight^T + bias; weight is [out, in], as other frameworks have it. */
struct sgd_linear {
    uint32_t in, out;
    size_t   weight, bias; /* offsets in the flat buffer */
};

/* Adds <name>.weight and <name>.bias to the table. Errors of sgd_params_add. */
MT_MUST_USE mt_status sgd_linear_add(struct sgd_params *params, const char *name, uint32_t in, uint32_t out,
                                     struct sgd_linear *out_linear);
/* x: rows x in, y: rows x out. */
MT_MUST_USE mt_status sgd_linear_forward(const struct sgd_linear *linear, const struct k_ops *ops, const float *params,
                                         const float *x, size_t rows, float *y);
/* Sets the layer's part of grads, and dx unless it is NULL. */
MT_MUST_USE mt_status sgd_linear_backward(const struct sgd_linear *linear, const struct k_ops *ops, const float *params,
                                          const float *x, const float *dy, size_t rows, float *dx, float *grads);

/* The layer's part of the gradient is final. */
static inline void sgd_linear_ready(const struct sgd_linear *linear, const struct sgd_model *model)
{
    sgd_model_ready(model, linear->weight, (size_t)linear->in * linear->out);
    sgd_model_ready(model, linear->bias, linear->out);
}

/* Fills with uniform values in +-bound. `stream` numbers the tensors of a model: each draws from a generator of its own,
 * so that adding one does not change the others. */
void sgd_init_uniform(uint64_t seed, uint64_t stream, double bound, float *out, size_t count);
/* The same with normal values of this deviation. */
void sgd_init_normal(uint64_t seed, uint64_t stream, double deviation, float *out, size_t count);

/* Adds up the losses and counts the rows whose label has the largest score. Call it before the scores are overwritten. */
void sgd_class_metrics(const struct k_xent *xent, float metrics[SGD_METRICS]);

/* What a caller may get wrong: a data set that is not the model's, too many records at once, a label out of range. */
MT_MUST_USE mt_status sgd_batch_check(const struct sgd_model *model, const struct sgd_batch *batch, uint32_t classes);

/* A byte / 255 to the network's input: out = byte * scale + shift. Both 0: mean and deviation of Fashion-MNIST. */
void sgd_byte_scale(float mean, float deviation, float *out_scale, float *out_shift);

#endif
