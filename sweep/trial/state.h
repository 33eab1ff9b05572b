/* SPDX-License-Identifier: Apache-2.0
 *
 * state.h - files with what trials have saved: FOLDER/state/N, whole or absent.
 *
 *   "MANTASWP" | step (i64) | size (u64) | sum of the bytes (u64) | bytes            little-endian
 *
 * A state is written aside under its run's name and becomes the trial's by one rename. A copy of another trial's is a second
 * link to the same file, which is never changed. They outlive any process; after a power cut one that is torn is found out by
 * its sum, and the trial begins again. Thread: any.
 */
#ifndef SWP_STATE_H
#define SWP_STATE_H

#include "core/base/buf.h"
#include "core/base/limits/sweep.h"
#include "core/base/limits/text.h"

/* A checksum against torn writes, not against malice. */
uint64_t swp_sum(mt_view bytes);
/* EDISK_FULL, ESYS; then nothing is left. */
MT_MUST_USE mt_status swp_state_write(const char *folder, int64_t trial, uint32_t run, int64_t step, mt_view bytes);
void                  swp_state_publish(const char *folder, int64_t trial, uint32_t run);
/* ENOENT: the other has none. */
MT_MUST_USE mt_status swp_state_clone(const char *folder, int64_t trial, int64_t from);
/* Appends the bytes and tells their step. ENOENT: there is none; ECORRUPT, ENOMEM, ESYS. */
MT_MUST_USE mt_status swp_state_read(const char *folder, int64_t trial, int64_t *out_step, mt_buf *out);
/* Removes the trial's state, and what its last run has left aside. */
void swp_state_drop(const char *folder, int64_t trial, uint32_t run);

#endif
