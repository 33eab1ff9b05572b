/* SPDX-License-Identifier: Apache-2.0
 *
 * compute.h - the virtual ranks of a worker, by its devices at the same time.
 *
 * Of n devices in use, device d has every n-th of the worker's virtual ranks, from the d-th on; it never has another's, so that
 * its records can be read ahead. Which device computes what changes no bit: a virtual rank has a slot of its own.
 */
#ifndef SGD_COMPUTE_H
#define SGD_COMPUTE_H

#include "sgd/trainer_local.h"

/* One virtual rank's work, by one device. Called in the device's thread. */
typedef mt_status sgd_vrank_work(struct sgd_trainer *trainer, uint32_t device, uint32_t vrank, void *user);

/* From now on this worker's virtual ranks are first <= v < last. */
void sgd_share_set(struct sgd_trainer *trainer, uint32_t first, uint32_t last);

/* How many devices have some of these. */
uint32_t sgd_devices_used(const struct sgd_trainer *trainer);

/* Does the work of some of its virtual ranks, first <= v < last, and returns when no device is at it any more. The error is
 * that of the lowest virtual rank that had one, whatever the number of devices. */
MT_MUST_USE mt_status sgd_vranks_run(struct sgd_trainer *trainer, uint32_t first, uint32_t last, sgd_vrank_work *work, void *user);

/* Floats 0 to `count` in one part for each device, cut at whole blocks (SGD_SHARD_BLOCK); all in one where they are few. */
typedef mt_status sgd_part_work(struct sgd_trainer *trainer, struct sgd_range range, void *user);
MT_MUST_USE mt_status sgd_parts_run(struct sgd_trainer *trainer, size_t count, sgd_part_work *work, void *user);

/* The gradients of the share's virtual ranks first <= v < last into slots[v - the share's first]. */
MT_MUST_USE mt_status sgd_gradients_run(struct sgd_trainer *trainer, uint32_t first, uint32_t last, float *const *slots);

/* With a resident: the sum of squares of a virtual rank's gradient, which is computed again: its buffer holds a sum by now. */
MT_MUST_USE mt_status sgd_gradient_squares(struct sgd_trainer *trainer, uint32_t v, double *out_squares);

#endif
