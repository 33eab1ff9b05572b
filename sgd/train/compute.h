/* SPDX-License-Identifier: Apache-2.0
 *
 * compute.h - the virtual ranks of a worker, by its devices at the same time.
 *
 * Each device in use has a lane of the worker's virtual ranks (tree/tree.h), the same in every step, so that
 * its records can be read ahead. Which device computes what changes no bit: the sum is that of the fixed
 * tree.
 */
#ifndef SGD_COMPUTE_H
#define SGD_COMPUTE_H

#include "sgd/train/trainer.h"

/* The work of the virtual rank that a device's lane comes to after `done` others. Called in the device's
 * thread. */
typedef mt_status sgd_vrank_work(struct sgd_trainer *trainer, uint32_t device, uint32_t done, void *user);

/* From now on this worker's virtual ranks are first <= v < last. */
void sgd_share_set(struct sgd_trainer *trainer, uint32_t first, uint32_t last);

/* How many devices have some of these. */
uint32_t sgd_devices_used(const struct sgd_trainer *trainer);

/* Of each device's virtual ranks: all, all but the last, or that one. */
enum sgd_part { SGD_PART_ALL, SGD_PART_BUT_LAST, SGD_PART_LAST };

/* Does the work of its virtual ranks, and returns when no device is at it any more. The error is that of the
 * lowest virtual rank that had one, whatever the number of devices. */
MT_MUST_USE mt_status sgd_vranks_run(struct sgd_trainer *trainer, enum sgd_part part, sgd_vrank_work *work, void *user);

/* Floats 0 to `count` in one part for each device, cut at whole blocks (SGD_SHARD_BLOCK); all in one where they are few. */
typedef mt_status     sgd_part_work(struct sgd_trainer *trainer, struct sgd_range range, void *user);
MT_MUST_USE mt_status sgd_parts_run(struct sgd_trainer *trainer, size_t count, sgd_part_work *work, void *user);

/* The gradients of the share's virtual ranks into the group's slots. */
MT_MUST_USE mt_status sgd_gradients_run(struct sgd_trainer *trainer, struct sgd_group *group, enum sgd_part part);

/* Is what a virtual rank gave finite? It is computed again: its slot holds a sum by now. `room` (a slot) gets
 * it. */
MT_MUST_USE mt_status sgd_vrank_is_finite(struct sgd_trainer *trainer, uint32_t v, float *room, bool *out_is_finite);

#endif
