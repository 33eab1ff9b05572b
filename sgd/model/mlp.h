/* SPDX-License-Identifier: Apache-2.0
 *
 * mlp.h - a multilayer perceptron over records of numbers: linear layers, ReLU between them, softmax cross-entropy.
 *
 * Parameters are layers.<i>.weight [out, in] and layers.<i>.bias [out], as other frameworks do.
 */
#ifndef SGD_MLP_H
#define SGD_MLP_H

#include "kernels/kernels.h"
#include "sgd/ground/cast.h"
#include "sgd/model/model.h"

struct sgd_mlp_config {
    const struct k_ops *ops;                       /* kept */
    uint32_t            inputs;                    /* elements of a record; 0: 784 */
    uint32_t            outputs;                   /* classes, at most 256; 0: 10 */
    uint32_t            hidden[MT_LAYERS_MAX - 1]; /* sizes, ended by 0; none: one of 128 */
    uint32_t            batch_max;                 /* records in one call */
    struct sgd_cast     cast; /* of its elements to the network's input; all 0: bytes, as those of Fashion-MNIST */
};

/* Makes a model; end it with model->ops->free. EINVAL for sizes out of range, ENOMEM. */
MT_MUST_USE mt_status sgd_mlp_new(const struct sgd_mlp_config *config, struct sgd_model **out_model);

#endif
