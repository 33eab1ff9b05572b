/* SPDX-License-Identifier: Apache-2.0
 *
 * model.h - what a trainer knows of a model: a table of named parameters in one flat buffer, and operations.
 *
 * The trainer owns the buffers of parameters and gradients, which lie where the model's kernels work: in the host's memory,
 * or in a device's (`device`; resident.h). Batches, metrics and what `init` fills are the host's always. A model owns its table
 * and its workspace. A model's gradient of given parameters and a given batch must be the same bits each
 * time, in each process.
 */
#ifndef SGD_MODEL_H
#define SGD_MODEL_H

#include "kernels/kernels.h"
#include "sgd/data/data.h"

/* A named tensor of float32 in the flat buffer. */
struct sgd_param {
    char     name[MT_NAME_BYTES_MAX];
    uint32_t ndim;
    uint64_t shape[MT_TENSOR_DIMS_MAX];
    size_t   offset, count; /* in floats */
};

struct sgd_params {
    struct sgd_param *items;
    size_t            items_count;
    size_t            floats; /* of the whole flat buffer */
};

/* Appends a tensor and gives its offset. EINVAL for a name that sgd_name_is_valid refuses, a shape without
 * elements or with too many dimensions; EEXIST for a name that is taken; EAGAIN past MT_TENSORS_MAX. */
MT_MUST_USE mt_status sgd_params_add(struct sgd_params *params, const char *name, uint32_t ndim, const uint64_t *shape,
                                     size_t *out_offset);
void                  sgd_params_fini(struct sgd_params *params);
/* The same tensors in the same places: one flat buffer serves both. */
bool sgd_params_equal(const struct sgd_params *a, const struct sgd_params *b);

/* 1 to MT_NAME_BYTES_MAX - 1 of A-Z a-z 0-9 . _ - / and not beginning with two underscores: needs no escaping
 * in JSON. */
bool sgd_name_is_valid(const char *name);

/* What a batch did, as floats that a reduction can add. */
enum sgd_metric { SGD_METRIC_LOSS, SGD_METRIC_CORRECT, SGD_METRIC_SAMPLES, SGD_METRICS };

struct sgd_model;

struct sgd_model_ops {
    /* Fills the flat buffer with initial values, from the seed alone. */
    void (*init)(struct sgd_model *model, uint64_t seed, float *params);
    /* grads (set, not added to) = gradient of scale * (sum of the batch's losses); metrics are set. */
    mt_status (*gradient)(struct sgd_model *model, const float *params, const struct sgd_batch *batch, float scale, float *grads,
                          float metrics[SGD_METRICS]);
    /* Metrics alone. */
    mt_status (*evaluate)(struct sgd_model *model, const float *params, const struct sgd_batch *batch, float metrics[SGD_METRICS]);
    void (*free)(struct sgd_model *model);
};

/* Embedded in a model's own struct. Used by one thread at a time. */
struct sgd_model {
    const struct sgd_model_ops *ops;
    struct sgd_params           params;
    uint32_t                    batch_max;     /* records in one call */
    uint32_t                    record_size;   /* that it takes */
    uint32_t                    extra_metrics; /* that its metrics have after SGD_METRICS; sums over samples as those */
    const struct k_ops         *device;        /* in whose memory parameters and gradients lie; NULL: in the host's */
    int                         device_number; /* which of the machine's it is */
    /* Of the parameters, by whoever changes them: what a model has made of them holds while it stays the same. 0: they may be
     * others in each call. */
    uint64_t version;
    /* Told in the middle of `gradient`: floats `begin` to `end` of grads are final. NULL: nobody asks. */
    void (*ready)(void *user, size_t begin, size_t end);
    void *ready_user;
};

/* For models: `device` of one whose kernels are these. */
static inline const struct k_ops *sgd_model_device(const struct k_ops *ops)
{
    return ops->is_device ? ops : NULL;
}

/* For models: a part of the gradient has its last value. In each batch the same parts in the same order. */
static inline void sgd_model_ready(const struct sgd_model *model, size_t begin, size_t count)
{
    if (model->ready)
        model->ready(model->ready_user, begin, begin + count);
}

#endif
