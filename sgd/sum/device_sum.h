/* SPDX-License-Identifier: Apache-2.0
 *
 * device_sum.h - the sum over virtual ranks between workers whose gradients are on GPUs: NCCL moves, our tree adds.
 *
 * Each member brings the sums of its pieces (wide.h): nodes of the fixed tree. These go to whoever joins them, by messages
 * of NCCL, and are joined by the table's kernels as the tree does; NCCL adds nothing, its order would follow the number of
 * members. So the bits are those of the host's sum (collective.h) of the same slots, before it makes means.
 *
 *   two members     each sends the other its pieces, and adds
 *   more            member r gets slice r of all pieces and joins it; then each sends the others its slice of the sum
 *
 * Since the bits are the host's, a step may go either way: where making a communicator takes long (sgd_device_sum_begin), steps
 * go by the host's slots until all members have theirs.
 *
 * A communicator lives as long as a generation. Every wait looks at the generation, so a death ends it at once; NCCL alone would
 * wait for ever. Calls are told and compared by an arrival of the group's, so NCCL is entered only by members that are all there.
 *
 * The table's own stream (NULL) has made the pieces, and has `out` when what was put on it before is done. Thread: the group's.
 */
#ifndef SGD_DEVICE_SUM_H
#define SGD_DEVICE_SUM_H

#include "kernels/kernels.h"
#include "sgd/sum/group.h"

struct sgd_device_sum;

/* Opens NCCL for this worker's device, and makes a communicator of one to find out whether it works: which also loads what the
 * next one then has (seconds; before the worker has a rank). EUNSUPPORTED (text says why): no plugin, or it does not work here;
 * then sums go through the host's slots. ENOMEM. */
MT_MUST_USE mt_status sgd_device_sum_new(const struct k_ops *ops, int device, struct sgd_device_sum **out, char text[256]);

/* Called while NCCL is waited for, and with `user`: a sign of life for who watches this worker. */
void sgd_device_sum_beats(struct sgd_device_sum *s, void (*beat)(void *user), void *user);

/* Collective, after each sgd_group_join: all members of the generation, one without NCCL with NULL. The slots' contents are lost.
 * EUNSUPPORTED, in all members: one of them has no NCCL, or it fails there; two share a GPU, which NCCL refuses (unless each has an
 * NCCL_HOSTID of its own); they are on several nodes. The generation goes on, by the host's slots. Else errors as of sgd_group's
 * collectives; EDEVICE: it is stuck. */
MT_MUST_USE mt_status sgd_device_sum_join(struct sgd_device_sum *s, struct sgd_group *group);

/* The same without waiting for NCCL: the communicator is made by a thread. Collective; errors as above. */
MT_MUST_USE mt_status sgd_device_sum_begin(struct sgd_device_sum *s, struct sgd_group *group);
/* Collective, after begin: whether all members' communicators are there, the same answer for all. Costs two barriers. Errors as
 * of join: what went wrong in the making comes out here; after EUNSUPPORTED it has been left. */
MT_MUST_USE mt_status sgd_device_sum_ready(struct sgd_device_sum *s, struct sgd_group *group, bool *out_is_ready);

/* Collective, when it is ready: `pieces` are this member's device buffers, sums of the largest aligned runs of its virtual ranks
 * (as in wide.h; in order), `floats` long; out (device, none of them) gets the fixed tree's sum over all virtual ranks. Where
 * it returns without an error, it has all that all members need. After an error `out` holds anything, and the generation is over;
 * pieces may be written again, unless it is stuck. */
MT_MUST_USE mt_status sgd_device_sum_run(struct sgd_device_sum *s, struct sgd_group *group, const float *const *pieces,
                                         uint32_t count, size_t floats, float *out);

/* The generation is over; before sgd_group_leave. Blocks at most MT_NCCL_ABORT_MS. NULL is allowed, here and below. */
void sgd_device_sum_leave(struct sgd_device_sum *s);
/* NCCL did not end within its limit: the device may still write into buffers that a sum was given. Keep them, and end the
 * process; in another generation it would only be in the way. */
bool sgd_device_sum_is_stuck(const struct sgd_device_sum *s);
/* The last error in words. */
const char *sgd_device_sum_text(const struct sgd_device_sum *s);
void        sgd_device_sum_free(struct sgd_device_sum *s);

#endif
