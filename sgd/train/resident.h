/* SPDX-License-Identifier: Apache-2.0
 *
 * resident.h - a trainer whose model works in a device's memory: parameters, moments and sums of gradients stay there.
 *
 * What counts is the device's. The floats of the trainer's state, in the host's memory, are its mirror:
 *
 *   HOST ----push----> BOTH ----update----> DEVICE ----pull----> BOTH
 *   the host's are     both hold the        the host's are
 *   new: begun,        same                 those of an earlier step
 *   loaded, received
 *
 * A pull is for whoever reads the mirror: a checkpoint, members that need the state, the end of the run. A push is for the next
 * gradient after somebody wrote it. Steps of one worker copy neither parameters nor gradients; those of several do only where
 * the sum over workers goes through the host's slots (sgd_resident_join chooses).
 *
 * Where the model works in the host's memory there is no resident, and the calls that say so do nothing. Thread: the trainer's.
 */
#ifndef SGD_RESIDENT_H
#define SGD_RESIDENT_H

#include "core/base/status.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct sgd_group;
struct sgd_resident;
struct sgd_trainer;

/* trainer->resident, where the model has a device. ENOMEM, EDEVICE. */
MT_MUST_USE mt_status sgd_resident_new(struct sgd_trainer *trainer);
/* NULL is allowed. */
void sgd_resident_free(struct sgd_resident *resident);

/* What an entry of the device's or a model on it gave; passes it on. EDEVICE: from then on there is no state. */
mt_status sgd_resident_note(const struct sgd_trainer *trainer, mt_status st);
/* The device has failed, or NCCL hangs on it: this process is of no more use. NULL is allowed. */
bool sgd_resident_is_broken(const struct sgd_resident *resident);
/* What a generation's error comes to: errors of a GPU, or of NCCL on it, stay with the process that had one, so it dies here, and
 * is replaced. To the others (`group`: the region that tells them) it is a death like any other. Else: the error. */
mt_status sgd_resident_failed(const struct sgd_resident *resident, const void *group, uint32_t generation, uint32_t rank,
                              mt_status st);

/* ---- the mirror; without a resident there is nothing to do ---- */

/* Somebody is about to read the host's floats. EDEVICE. */
MT_MUST_USE mt_status sgd_resident_pull(const struct sgd_trainer *trainer);
/* Somebody has written them. */
void sgd_resident_changed(struct sgd_trainer *trainer);
/* Where the trainer's models are to read the parameters. EDEVICE. */
MT_MUST_USE mt_status sgd_resident_params(struct sgd_trainer *trainer, const float **out_params);

/* ---- a generation; without a resident there is nothing to do ---- */

/* Collective, once the members have their state: chooses how gradients are summed over them, on the devices where all members can.
 * Errors of the group's collectives; EDEVICE. */
MT_MUST_USE mt_status sgd_resident_join(struct sgd_trainer *trainer, struct sgd_group *group);
/* Collective, before each step: whether the exchange between devices, which is made beside the first steps, can be used from now
 * on. Errors as of join: also what went wrong in its making. */
MT_MUST_USE mt_status sgd_resident_ready(struct sgd_trainer *trainer, struct sgd_group *group);
void                  sgd_resident_leave(struct sgd_trainer *trainer);
/* Why this worker can't sum with other workers' devices; NULL: it can, or there is no reason to. */
const char *sgd_resident_why_by_slots(const struct sgd_resident *resident);

/* Gradients are summed on the device, and only what stands behind them here. False without a resident. */
bool sgd_resident_sums(const struct sgd_resident *resident);

/* ---- a step; with a resident only ---- */

/* Before the first gradient. */
void sgd_resident_begin(struct sgd_trainer *trainer);
/* Where a model is to leave a gradient. ENOMEM, EDEVICE. */
MT_MUST_USE mt_status sgd_resident_room(struct sgd_trainer *trainer, float **out_gradient);
/* It has, that of this virtual rank: adds it, or copies it into the slot where the sum goes through those. EDEVICE. */
MT_MUST_USE mt_status sgd_resident_take(struct sgd_trainer *trainer, uint32_t vrank, float *slot);
/* Sum of squares of what stands in the room: is a gradient finite? EDEVICE. */
MT_MUST_USE mt_status sgd_resident_squares(struct sgd_trainer *trainer, double *out_squares);
/* Collective: the mean over all virtual ranks, on the device or in group->sum, and in group->sum what stands behind it. Errors of
 * the group's collectives; EDEVICE. */
MT_MUST_USE mt_status sgd_resident_reduce(struct sgd_trainer *trainer, struct sgd_group *group);
/* The length of the gradient: of the one on the device, else of `sum`, which is copied there. EDEVICE. */
MT_MUST_USE mt_status sgd_resident_norm(struct sgd_trainer *trainer, const float *sum, double *out_norm);
/* The update by `part` of the gradient whose length was asked. EDEVICE: parameters and moments are not to be used any more. */
MT_MUST_USE mt_status sgd_resident_update(struct sgd_trainer *trainer, float rate, float part);

#endif
