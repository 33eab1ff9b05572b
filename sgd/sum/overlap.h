/* SPDX-License-Identifier: Apache-2.0
 *
 * overlap.h - the sum of gradients while the rest of them is computed.
 *
 * Whoever computes says which floats of its slot are final (in the last of a device's virtual ranks; the others are complete by
 * then); a thread of its own sums them bucket by bucket with the other members. Buckets are made by the order of these
 * announcements alone, never by time, so they are the same in all members: a bucket is closed when it has MT_TRAIN_BUCKET_BYTES,
 * and what nobody announced comes last. Of several devices all must have said it, in the same order.
 *
 *   sgd_overlap_begin --ready, ready, ...--> sgd_overlap_end: all is summed
 *
 * Between begin and end the group belongs to that thread. Thread: the trainer's for all calls here, but sgd_overlap_ready.
 */
#ifndef SGD_OVERLAP_H
#define SGD_OVERLAP_H

#include "sgd/sum/collective.h"
#include "sgd/ground/trace.h"

struct sgd_overlap;

/* NULL: no memory, or no thread. */
struct sgd_overlap *sgd_overlap_new(const struct k_ops *ops, struct sgd_trace_row *trace);
/* Only between end and begin. NULL is allowed. */
void sgd_overlap_free(struct sgd_overlap *overlap);

/* Of so many devices, at most MT_TRAIN_DEVICES_MAX, announcements will come. */
void sgd_overlap_begin(struct sgd_overlap *overlap, struct sgd_group *group, uint32_t devices);
/* Floats `begin` to `end` of the slots of this device are final. Thread: the device's. */
void sgd_overlap_ready(struct sgd_overlap *overlap, uint32_t device, size_t begin, size_t end);
/* The slots are complete: sums the rest, and waits. Errors of sgd_group_reduce; ENOMEM; EINVAL: devices did not say the same. */
MT_MUST_USE mt_status sgd_overlap_end(struct sgd_overlap *overlap);

#endif
