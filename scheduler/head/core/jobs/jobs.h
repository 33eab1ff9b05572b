/* SPDX-License-Identifier: Apache-2.0
 *
 * jobs.h - door: jobs, their attempts on nodes, their logs and files, and detached actors, each a job of its own.
 *
 * The files form a list: spec.c, array.c, after.c, pace.c, turns.c (queue.h) < jobs.c < waits.c, blobs.c, log.c < end.c < queue.c
 * (queue.h) < submit.c < attempts.c < actors.c.
 */
#ifndef HEAD_JOBS_H
#define HEAD_JOBS_H

#include "scheduler/head/core/kit/kit.h"

static inline bool head_jobs_has_ended(const struct job *job)
{
    return job->state >= JOB_STOPPED;
}

/* ---- jobs.c: the table --------------------------------------------------------------------------------------------- */

struct job           *head_jobs_find(const struct head *h, const char *id);
const char           *head_jobs_state_text(enum job_state state);
void                  head_jobs_set_state(struct head *h, struct job *job, enum job_state next);
void                  head_jobs_free(struct head *h, struct job *job);
MT_MUST_USE mt_status head_jobs_load(struct head *h, const Manta__Store__JobRecord *record);

/* ---- waits.c: what clients are told of a job ----------------------------------------------------------------------- */

struct head_job_info {
    job_info         info;
    Manta__V1__Spent spent; /* info.spent, where it has spent anything */
    char             reason[HEAD_TEXT_SIZE];
};
/* Borrows the job; the rest of what it points to is in *out itself ... */
void head_jobs_info(const struct head *h, const struct job *job, struct head_job_info *out);
/* ... which has been moved. */
void head_jobs_info_moved(struct head_job_info *info);
void head_jobs_reply(struct head *h, uint64_t call, enum head_method method, const struct job *job);
void head_jobs_reply_error(struct head *h, uint64_t call, enum head_method method, int32_t code, const char *text);
/* NULL: there is none, and the call has been told so. */
struct job *head_jobs_find_or_error(struct head *h, uint64_t call, enum head_method method, const char *id);
void        head_jobs_get(struct head *h, uint64_t call, const Manta__V1__JobRequest *request); /* a job, or an array */
void        head_jobs_wait(struct head *h, uint64_t call, const Manta__V1__WaitJobRequest *request);
void        head_jobs_call_gone(struct head *h, uint64_t call);
void        head_jobs_tick_waits(struct head *h);

/* ---- end.c --------------------------------------------------------------------------------------------------------- */

/* An ended one, its record and its log. */
void head_jobs_forget(struct head *h, struct job *job);
void head_jobs_prune(struct head *h);

/* ---- log.c --------------------------------------------------------------------------------------------------------- */

/* Of a job that runs on that node, by who may speak for it. */
void head_jobs_log(struct head *h, struct stream *s, uint32_t node, const Manta__V1__LogChunk *chunk);
void head_jobs_log_written(struct head *h, const char *id, uint64_t size);
bool head_jobs_log_found(struct head *h, const char *id, uint64_t size); /* at the start; false: it is nobody's */

/* ---- submit.c, actors.c -------------------------------------------------------------------------------------------- */

/* Takes a job in, or says why not. `indices`: of an array, sorted; NULL: 0 and so on. `user`: the name of the token that it came
 * with; "": nobody's. */
MT_MUST_USE int32_t head_jobs_submit(struct head *h, const job_spec *spec, const uint32_t *indices, const char *user,
                                     struct job **out_job, char *text, size_t text_size);
void                head_actors_request(struct head *h, struct stream *s, const Manta__V1__ActorRequest *request);
/* A request about a name, which may be a detached actor's. */
void head_actors_name(struct head *h, struct stream *s, const Manta__V1__NameRequest *request);

/* ---- spec.c: what a job may look like ------------------------------------------------------------------------------ */

bool head_spec_equal(const job_spec *a, const job_spec *b);

#endif
