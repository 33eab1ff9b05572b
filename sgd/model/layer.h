/* SPDX-License-Identifier: Apache-2.0
 *
 * layer.h - what models are made of: linear layers over the flat buffer, initial values, the metrics of a classifier.
 */
#ifndef SGD_LAYER_H
#define SGD_LAYER_H

#include "kernels/kernels.h"
#include "sgd/ground/cast.h"
#include "sgd/model/model.h"

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

/* Between a batch, which lies in the host's memory, and entries that may work in a device's. On the CPU it has nothing. */
struct sgd_stage {
    const struct k_ops *ops;
    struct sgd_cast     cast;                /* resolved; bytes become floats by the entry `unpack`, the others on the host */
    uint8_t            *device;              /* a batch's records, bytes or floats, then its labels */
    float              *host;                /* its scores, then its losses, then its records as floats where they are no bytes */
    size_t              scores, records_max; /* of host: floats before the records; of device: bytes of records */
};

struct sgd_stage_plan {
    const struct k_ops *ops;
    uint32_t            batch_max, inputs, classes; /* inputs: elements of a record */
    struct sgd_cast     cast;
};

/* EINVAL: no such cast; EDEVICE, ENOMEM; sgd_stage_fini in any case. */
MT_MUST_USE mt_status sgd_stage_init(struct sgd_stage *stage, const struct sgd_stage_plan *plan);
void                  sgd_stage_fini(struct sgd_stage *stage);
/* The batch as the entries can read it, until the next call. */
MT_MUST_USE mt_status sgd_stage_in(struct sgd_stage *stage, const struct sgd_batch *batch, struct sgd_batch *out);
/* `count` records of a batch that is in, from the first-th on, as the network's inputs, where the entries work. */
MT_MUST_USE mt_status sgd_stage_inputs(const struct sgd_stage *stage, const struct sgd_batch *in, uint32_t first, uint32_t count,
                                       float *to);
/* Adds up the losses and counts the rows whose label has the largest score. Call it before the scores are overwritten; it
 * waits. `labels` are the host's. */
MT_MUST_USE mt_status sgd_class_metrics(struct sgd_stage *stage, const struct k_xent *xent, const uint8_t *labels,
                                        float metrics[SGD_METRICS]);

/* What a caller may get wrong: a data set that is not the model's, too many records at once, a label out of range. */
MT_MUST_USE mt_status sgd_batch_check(const struct sgd_model *model, const struct sgd_batch *batch, uint32_t classes);

#endif
