/* SPDX-License-Identifier: Apache-2.0
 *
 * queue.h - door: jobs that wait for their turn, for others, or for somebody to release them; lines of jobs; and arrays.
 */
#ifndef HEAD_QUEUE_H
#define HEAD_QUEUE_H

#include "scheduler/head/core/kit/kit.h"

/* ---- turns.c: where each job stands -------------------------------------------------------------------------------- */

/* Of `ready` or `parked` of a bucket, h->placed, h->ended: by order of submission. NULL: there is none. */
struct job *head_turns_first(const mt_sorted *line);
struct job *head_turns_after(const mt_sorted *line, const struct job *job); /* which need not stand there any more */
/* Each that is PENDING, in its turn, but for the first `skip`; false from `fn`, which changes nothing, ends it. */
void        head_turns_each(struct head *h, size_t skip, bool (*fn)(struct head *h, struct job *job, void *user), void *user);
const char *head_turns_check(const struct head *h);
void        head_turns_fini(struct head *h);

/* ---- queue.c: jobs that wait --------------------------------------------------------------------------------------- */

/* What `after` of a new job says: MT_OK, or why it may not come in. Sets what holds already. */
int32_t head_queue_after(struct head *h, const job_spec *spec, uint64_t *out_met, char *text, size_t size);
/* Jobs have ended in this step: those that waited for them may start, or never will and end too. */
void head_queue_settle(struct head *h);
void head_queue_hold(struct head *h, struct job *job, bool is_held);

/* ---- pace.c -------------------------------------------------------------------------------------------------------- */

/* What a job with a deadline, which has not ended, still has to do. */
void head_pace_of(const struct head *h, const struct job *job, struct scl_pace *out);

/* ---- array.c -------------------------------------------------------------------------------------------------------- */

/* How many of its jobs have not ended. */
static inline uint32_t head_array_active(const struct array *a)
{
    return a->in[JOB_PENDING] + a->in[JOB_STARTING] + a->in[JOB_RUNNING];
}
/* Those that run, or are on their way to a node. */
static inline uint32_t head_array_placed(const struct array *a)
{
    return a->in[JOB_STARTING] + a->in[JOB_RUNNING];
}
/* The indices of the request's array, sorted, for the caller to free; NULL: 0 and so on. EINVAL: `text` says why. */
int32_t head_array_indices(struct head *h, const Manta__V1__SubmitRequest *request, uint32_t **out, char *text, size_t size);
/* Those of its jobs that are there have such indices. */
bool                head_array_has(const struct array *a, const uint32_t *indices, uint32_t count);
const struct array *head_array_find(const struct head *h, const char *id); /* NULL: none of its jobs is there */
/* Each job of the array, those that are there: `fn` may end them. Returns how many. */
size_t head_array_each(struct head *h, const char *id, void (*fn)(struct head *h, struct job *job, void *user), void *user);
/* The spec of one job of the array, for the caller to free. */
MT_MUST_USE mt_status head_array_spec(const job_spec *array, uint32_t index, job_spec **out_spec);

#endif
