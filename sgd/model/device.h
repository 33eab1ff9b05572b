/* SPDX-License-Identifier: Apache-2.0
 *
 * device.h - a model whose buffers are a device's, as one whose buffers are the host's.
 *
 * Parameters are copied to the device before each gradient, the gradient back after it: for GPT-2 124M half a gigabyte each
 * way, 10 ms on PCIe 5. It is for whoever keeps the state in the host's memory all the same: an optimizer's state in shards
 * (zero.h), and tests that compare devices. The trainer leaves a whole state on the device (resident.h).
 */
#ifndef SGD_DEVICE_H
#define SGD_DEVICE_H

#include "sgd/model/model.h"

/* Makes the model; `take_inner`, which has a device, is freed with it, and at once where this fails. ENOMEM, EDEVICE. */
MT_MUST_USE mt_status sgd_device_new(struct sgd_model *take_inner, struct sgd_model **out_model);

#endif
