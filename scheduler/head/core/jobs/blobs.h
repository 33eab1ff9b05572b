/* SPDX-License-Identifier: Apache-2.0
 *
 * blobs.h - part of the door: which uploaded files are here, who needs them, and which may go.
 */
#ifndef HEAD_BLOBS_H
#define HEAD_BLOBS_H

#include "scheduler/head/core/kit/kit.h"

void head_blobs_add(struct head *h, const uint8_t *sha256, uint64_t size);
/* At the start: one that lies on the disk. */
MT_MUST_USE mt_status head_blobs_found(struct head *h, const uint8_t sha256[HEAD_SHA_SIZE], uint64_t size);
/* How often jobs that have not ended name it. */
uint32_t head_blobs_needs(const struct head *h, const uint8_t sha256[HEAD_SHA_SIZE]);
/* EEXIST, EAGAIN, EDISK_FULL: not to be uploaded. */
MT_MUST_USE mt_status head_blobs_admit(const struct head *h, const uint8_t sha256[HEAD_SHA_SIZE], uint64_t size);
/* A job that needs its files comes (+1) or has ended (-1). */
void head_blobs_need(struct head *h, const job_spec *spec, int change);
/* A job is deleted: its files go, but for those that another one needs. */
void head_blobs_release(struct head *h, const job_spec *spec);
/* The first file of the job whose content is not here; NULL: all are. */
const Manta__V1__JobFile *head_blobs_missing(const struct head *h, const job_spec *spec);
void                      head_blobs_has(struct head *h, uint64_t call, const Manta__V1__HasBlobsRequest *request);
void                      head_blobs_tick(struct head *h);

#endif
