/* SPDX-License-Identifier: Apache-2.0
 *
 * cnn.h - a small convolutional network over pictures of one channel: the one that PyTorch's MNIST example has.
 *
 *   conv1 3x3, ReLU | conv2 3x3 | max 2x2, ReLU, dropout | fc1, ReLU, dropout | fc2 | softmax cross-entropy
 *
 * No padding: 28x28 becomes 26x26x32, 24x24x64, 12x12x64, 128, 10; 1,199,882 parameters. (The ReLU of conv2 stands
 * behind the maximum, where it comes to the same and has a quarter to do.)
 *
 * Pictures have their channels together: conv<i>.weight is [out, y, x, in], and fc1 takes [y, x, channel].
 */
#ifndef SGD_CNN_H
#define SGD_CNN_H

#include "kernels/kernels.h"
#include "sgd/ground/cast.h"
#include "sgd/model/model.h"

struct sgd_cnn_config {
    const struct k_ops *ops;           /* kept */
    uint32_t            height, width; /* of a picture; 0: 28 */
    uint32_t            channels[2];   /* 0: 32, 64 */
    uint32_t            dense;         /* 0: 128 */
    uint32_t            outputs;       /* classes, at most 256; 0: 10 */
    float               dropout[2];    /* rates, below 1 */
    uint32_t            batch_max;     /* records in one call */
    struct sgd_cast     cast;          /* of elements to the network's input; all 0: bytes, as those of Fashion-MNIST */
};

/* Makes a model; end it with model->ops->free. EINVAL for sizes out of range, ENOMEM. */
MT_MUST_USE mt_status sgd_cnn_new(const struct sgd_cnn_config *config, struct sgd_model **out_model);

#endif
