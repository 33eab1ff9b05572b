/* SPDX-License-Identifier: Apache-2.0
 *
 * device_sum.h - gradients of the workers' GPUs summed by NCCL, in the fixed tree over all virtual ranks.
 */
#ifndef SGD_DEVICE_SUM_H
#define SGD_DEVICE_SUM_H

#include "kernels/kernels.h"
#include "sgd/group.h"

struct sgd_device_sum;

/* Opens NCCL for this worker's device. EUNSUPPORTED (text says why): no plugin; then sums go through the host's slots. ENOMEM. */
MT_MUST_USE mt_status sgd_device_sum_new(const struct k_ops *ops, int device, struct sgd_device_sum **out, char text[256]);
/* Collective, after each sgd_group_join: all members of the generation. Errors as of sgd_group's collectives; EDEVICE. */
MT_MUST_USE mt_status sgd_device_sum_join(struct sgd_device_sum *s, struct sgd_group *group);
/* Collective: `pieces` are this member's device buffers, sums of the largest aligned runs of its virtual ranks (as in
 * group_wide.h; in order), `floats` long; out (device) gets the fixed tree's sum over all virtual ranks. */
MT_MUST_USE mt_status sgd_device_sum_run(struct sgd_device_sum *s, struct sgd_group *group, const float *const *pieces,
                                         uint32_t count, size_t floats, float *out);
/* The generation is over. */
void sgd_device_sum_leave(struct sgd_device_sum *s);
void sgd_device_sum_free(struct sgd_device_sum *s);

#endif
