/* SPDX-License-Identifier: Apache-2.0
 *
 * pace.h - of jobs with a deadline, what the files of this room call of pace.c (the rest: queue.h).
 */
#ifndef HEAD_JOBS_PACE_H
#define HEAD_JOBS_PACE_H

#include "scheduler/head/core/kit/kit.h"

const char *head_pace_check(const job_spec *spec); /* what is wrong with what it says of it; NULL: nothing */
int32_t     head_pace_may(const struct head *h, const job_spec *spec, char *text, size_t size); /* MT_OK; else why not now */
void        head_pace_keep(const struct head *h, struct job *job); /* its attempt is over: what it has done of its work counts */
void        head_pace_look(struct head *h, struct bucket *b);      /* of such a job: on which nodes it may begin now */
const char *head_pace_text(const struct head *h, const struct job *job, char *text, size_t size); /* how it stands */
/* It ends: where that is after its deadline, that is added. */
void head_pace_late(const struct head *h, const struct job *job, char *text, size_t size);

#endif
