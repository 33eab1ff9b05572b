/* SPDX-License-Identifier: Apache-2.0
 *
 * async.h - collective calls one after the other on a thread of their own, and several small sums as one.
 *
 * The thread starts with the first call that is started and not made, and ends with the member. From then on every call of
 * that member goes through its queue, so that the order of calls is the order in which they were made.
 *
 * Thread: coll_jobs_... by the member's one thread; only the queue's own thread runs calls.
 */
#ifndef SGD_COLL_ASYNC_H
#define SGD_COLL_ASYNC_H

#include "sgd/coll/api/link.h"

/* A call, or the sums of several tensors by one type and operation. */
struct coll_job {
    struct coll_call         call;
    const manta_coll_tensor *tensors; /* NULL: the call as it stands */
    size_t                   tensor_count;
};

/* Runs a job here and now. `bucket` (MT_COLL_BUCKET_BYTES) is made when it is needed; its owner frees it. */
manta_status coll_job_run(struct coll_link *link, const struct coll_job *job, void **bucket);

struct coll_jobs;
/* NULL: no memory, or no thread. Borrows the link. */
struct coll_jobs *coll_jobs_new(struct coll_link *link);
/* Ends the generation if there are jobs left, waits for the thread, and drops what nobody has waited for. */
void coll_jobs_free(struct coll_jobs *jobs);
/* Copies the job, its tensors too. NULL: MT_COLL_QUEUE_MAX are there, or no memory. */
manta_coll_request *coll_jobs_add(struct coll_jobs *jobs, const struct coll_job *job);
/* Waits until all are done. */
void coll_jobs_drain(struct coll_jobs *jobs);

#endif
