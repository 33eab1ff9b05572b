/* SPDX-License-Identifier: Apache-2.0
 *
 * device.h - a model whose buffers are a device's, as one whose buffers are the host's: what the trainer takes.
 *
 * Parameters are copied to the device before each gradient, the gradient back after it: for GPT-2 124M half a gigabyte each
 * way, 10 ms on PCIe 5. So everything above (reduction over virtual ranks, update, checkpoints, recovery, bits that do not
 * depend on the number of workers) is the same with a device and without. A loop of one's own that keeps parameters and
 * moments on the device (tests/gpu/gpt2_bench.c) saves these copies.
 */
#ifndef SGD_DEVICE_H
#define SGD_DEVICE_H

#include "kernels/kernels.h"
#include "sgd/model.h"

/* Makes the model; `take_inner` is freed with it, and at once where this fails. ENOMEM, EDEVICE. */
MT_MUST_USE mt_status sgd_device_new(struct sgd_model *take_inner, const struct k_ops *ops, struct sgd_model **out_model);

#endif
