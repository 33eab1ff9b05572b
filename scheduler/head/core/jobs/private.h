/* SPDX-License-Identifier: Apache-2.0
 *
 * private.h - what the files of this room share.
 */
#ifndef HEAD_JOBS_PRIVATE_H
#define HEAD_JOBS_PRIVATE_H

#include "scheduler/head/core/jobs/jobs.h"

/* ---- jobs.c ---- */

/* `born`: PENDING, or as the store has it. */
MT_MUST_USE mt_status head_jobs_add(struct head *h, job_spec *take_spec, enum job_state born, struct job **out_job);
void                  head_jobs_store(struct head *h, const struct job *job);
/* Of one that names its node: ENOENT (it is not there), EINVAL (it is to leave), with a text; or MT_OK. */
int32_t head_jobs_node_check(const struct head *h, const job_spec *spec, char *text, size_t text_size);

/* ---- waits.c ---- */

void head_jobs_answer_waits(struct head *h, struct job *job); /* it has ended */

/* ---- end.c ---- */

/* Sets the reason, ends the job, answers who waits, and stores it. */
void head_jobs_end(struct head *h, struct job *job, enum job_state how, int32_t exit_code, const char *reason);

/* ---- log.c ---- */

void head_attempts_log_ack(struct head *h, struct job *job, uint64_t written);

/* ---- spec.c ---- */

/* EINVAL with a text that says what is wrong. */
MT_MUST_USE mt_status head_spec_check(const job_spec *spec, char *text, size_t text_size);
/* What its driver needs: resources, and the node that it names. EINVAL likewise. */
MT_MUST_USE mt_status head_spec_request(struct head *h, const job_spec *spec, struct policy_request *out, char *text,
                                        size_t text_size);
MT_MUST_USE mt_status head_spec_copy(const job_spec *spec, job_spec **out_spec);

#endif
