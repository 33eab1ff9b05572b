/* SPDX-License-Identifier: Apache-2.0
 *
 * async.c - the queue of started calls, its thread, and buckets of small tensors.
 *
 * Owns:   the requests, the thread, its bucket. `lock` guards the list and the requests' states.
 * Always: requests run in order, one at a time.
 *
 *   QUEUED --the thread takes it--> RUNS --the call is back--> DONE
 */
#include "sgd/coll/api/async.h"

#include "core/base/cond.h"
#include "core/base/machine.h"
#include "sgd/coll/api/handle.h"

#include <pthread.h>
#include <stdlib.h>
#include <string.h>

enum request_state { REQUEST_QUEUED, REQUEST_RUNS, REQUEST_DONE };

struct request {
    struct coll_jobs   *jobs;
    struct request     *next, *previous;
    manta_coll_request *handle; /* the user's */
    struct coll_job     job;
    enum request_state  state;
    manta_status        code; /* from here on: DONE */
    manta_error         e;
};

struct coll_jobs {
    pthread_mutex_t   lock;
    pthread_cond_t    work, done;
    pthread_t         thread;
    struct coll_link *link;
    struct request   *first, *last; /* not waited for yet, in order */
    size_t            count;        /* of these, how many are not done */
    bool              is_ending;
    void             *bucket;
};

static const char *const names[] = {[REQUEST_QUEUED] = "QUEUED", [REQUEST_RUNS] = "RUNS", [REQUEST_DONE] = "DONE"};
static const uint32_t    next_of[] = {
       [REQUEST_QUEUED] = MT_STATE(REQUEST_RUNS), [REQUEST_RUNS] = MT_STATE(REQUEST_DONE), [REQUEST_DONE] = 0};
static const struct mt_machine machine = MT_MACHINE("started call", names, next_of);

/* The lock is held. */
static void request_set_state(struct request *r, enum request_state next)
{
    MT_TRANSITION(&machine, r->state, next);
    MT_ASSERT(!r->previous || r->previous->state == REQUEST_DONE); /* in order */
    r->state = next;
}

/* ---- several small ones as one ---- */

static uint64_t hash_add(uint64_t hash, uint64_t value)
{
    hash = (hash ^ value) * 0x9e3779b97f4a7c15u;
    return hash ^ hash >> 29;
}

/* How many of the tensors go together: those that fit into a bucket; a large one goes alone, as it lies. */
static size_t bundle_size(const struct coll_job *job, size_t first, size_t size, size_t *out_elements)
{
    size_t n = first, elements = 0, most = MT_COLL_BUCKET_BYTES / size;
    while (n < job->tensor_count && job->tensors[n].count <= most / 4 && elements + job->tensors[n].count <= most)
        elements += job->tensors[n++].count;
    *out_elements = elements;
    return n - first;
}

static void bundle_copy(const struct coll_job *job, size_t first, size_t count, size_t size, char *bucket, bool is_out)
{
    for (size_t i = first; i < first + count; i++) {
        size_t bytes = job->tensors[i].count * size;
        if (bytes && is_out)
            memcpy(job->tensors[i].out, bucket, bytes);
        else if (bytes)
            memcpy(bucket, job->tensors[i].in, bytes);
        bucket += bytes;
    }
}

static manta_status bundle_run(struct coll_link *link, const struct coll_job *job, size_t first, size_t count, void *bucket)
{
    struct coll_call call = job->call;
    size_t           size = coll_type_size(call.type);
    call.count = 0;
    call.shape = 1;
    for (size_t i = first; i < first + count; i++) {
        call.count += job->tensors[i].count;
        call.shape = hash_add(call.shape, job->tensors[i].count);
    }
    call.in = call.out = bucket;
    bundle_copy(job, first, count, size, bucket, false);
    manta_status code = coll_link_run(link, &call);
    if (code == MANTA_OK)
        bundle_copy(job, first, count, size, bucket, true);
    return code;
}

manta_status coll_job_run(struct coll_link *link, const struct coll_job *job, void **bucket)
{
    manta_status code = MANTA_OK;
    if (!job->tensors)
        return coll_link_run(link, &job->call);
    for (size_t i = 0, n; i < job->tensor_count && code == MANTA_OK; i += n) {
        struct coll_call alone = job->call;
        size_t           elements;
        n = bundle_size(job, i, coll_type_size(job->call.type), &elements);
        if (n == 0) {
            alone.in = job->tensors[i].in, alone.out = job->tensors[i].out, alone.count = job->tensors[i].count;
            code = coll_link_run(link, &alone);
            n = 1;
            continue;
        }
        *bucket = *bucket ? *bucket : aligned_alloc(64, MT_COLL_BUCKET_BYTES);
        if (!*bucket)
            return sgd_fail(&link->e, MANTA_ENOMEM, "no memory for a bucket of small tensors");
        code = bundle_run(link, job, i, n, *bucket);
    }
    return code;
}

/* ---- the queue ---- */

static struct request *next_job(struct coll_jobs *jobs)
{
    struct request *r = jobs->first;
    while (r && r->state == REQUEST_DONE)
        r = r->next;
    return r;
}

static void *serve(void *arg)
{
    struct coll_jobs *jobs = arg;
    pthread_mutex_lock(&jobs->lock);
    for (;;) {
        struct request *r = next_job(jobs);
        if (!r && jobs->is_ending)
            break;
        if (!r) {
            pthread_cond_wait(&jobs->work, &jobs->lock);
            continue;
        }
        request_set_state(r, REQUEST_RUNS);
        pthread_mutex_unlock(&jobs->lock);
        manta_status code = coll_job_run(jobs->link, &r->job, &jobs->bucket);
        pthread_mutex_lock(&jobs->lock);
        r->code = code;
        (void)coll_link_fail(jobs->link, code, &r->e);
        request_set_state(r, REQUEST_DONE);
        jobs->count--;
        pthread_cond_broadcast(&jobs->done);
    }
    pthread_mutex_unlock(&jobs->lock);
    return NULL;
}

struct coll_jobs *coll_jobs_new(struct coll_link *link)
{
    struct coll_jobs *jobs = calloc(1, sizeof *jobs);
    if (!jobs)
        return NULL;
    jobs->link = link;
    pthread_mutex_init(&jobs->lock, NULL);
    pthread_cond_init(&jobs->work, NULL);
    mt_cond_init(&jobs->done);
    if (pthread_create(&jobs->thread, NULL, serve, jobs) == 0)
        return jobs;
    free(jobs);
    return NULL;
}

static void request_free(struct request *r)
{
    (void)coll_handle_close(MT_HANDLE_REQUEST, r->handle);
    free(r);
}

manta_coll_request *coll_jobs_add(struct coll_jobs *jobs, const struct coll_job *job)
{
    size_t              bytes = job->tensor_count * sizeof *job->tensors;
    struct request     *r = calloc(1, sizeof *r + bytes);
    manta_coll_request *handle = r ? coll_handle_new(MT_HANDLE_REQUEST, r, NULL) : NULL;
    if (!handle) {
        free(r);
        return NULL;
    }
    r->handle = handle;
    r->jobs = jobs;
    r->job = *job;
    if (job->tensors) {
        memcpy(r + 1, job->tensors, bytes);
        r->job.tensors = (const manta_coll_tensor *)(const void *)(r + 1);
    }
    pthread_mutex_lock(&jobs->lock);
    bool is_full = jobs->count >= MT_COLL_QUEUE_MAX;
    if (!is_full) {
        r->previous = jobs->last;
        *(jobs->last ? &jobs->last->next : &jobs->first) = r;
        jobs->last = r;
        jobs->count++;
        pthread_cond_signal(&jobs->work);
    }
    pthread_mutex_unlock(&jobs->lock);
    if (is_full)
        request_free(r);
    return is_full ? NULL : handle;
}

void coll_jobs_drain(struct coll_jobs *jobs)
{
    pthread_mutex_lock(&jobs->lock);
    while (jobs->count > 0)
        pthread_cond_wait(&jobs->done, &jobs->lock);
    pthread_mutex_unlock(&jobs->lock);
}

void coll_jobs_free(struct coll_jobs *jobs)
{
    if (!jobs)
        return;
    pthread_mutex_lock(&jobs->lock);
    if (jobs->count > 0)
        coll_link_abort(jobs->link);
    jobs->is_ending = true;
    pthread_cond_signal(&jobs->work);
    pthread_mutex_unlock(&jobs->lock);
    pthread_join(jobs->thread, NULL);
    while (jobs->first) {
        struct request *r = jobs->first;
        jobs->first = r->next;
        request_free(r);
    }
    pthread_mutex_destroy(&jobs->lock);
    pthread_cond_destroy(&jobs->work);
    pthread_cond_destroy(&jobs->done);
    free(jobs->bucket);
    free(jobs);
}

/* ---- requests ---- */

bool manta_coll_test(manta_coll_request *handle)
{
    struct request *r = coll_handle_look(MT_HANDLE_REQUEST, handle);
    if (!r)
        return true; /* who goes on until it is done comes to manta_coll_wait */
    pthread_mutex_lock(&r->jobs->lock);
    bool is_done = r->state == REQUEST_DONE;
    pthread_mutex_unlock(&r->jobs->lock);
    return is_done;
}

/* Whether it is done before the limit; the lock is held. */
static bool await(struct request *r, int64_t timeout_ms)
{
    struct timespec until = mt_cond_until(timeout_ms < 0 ? 0 : timeout_ms);
    while (r->state != REQUEST_DONE)
        if (timeout_ms < 0)
            pthread_cond_wait(&r->jobs->done, &r->jobs->lock);
        else if (pthread_cond_timedwait(&r->jobs->done, &r->jobs->lock, &until) != 0)
            break;
    return r->state == REQUEST_DONE;
}

manta_status manta_coll_wait(manta_coll_request *handle, int64_t timeout_ms, manta_error *e)
{
    manta_status    code;
    struct request *r = coll_handle_of(MT_HANDLE_REQUEST, handle, "wait", &code, e);
    if (!r)
        return code;
    struct coll_jobs *jobs = r->jobs;
    pthread_mutex_lock(&jobs->lock);
    bool is_done = await(r, timeout_ms);
    if (is_done) {
        *(r->previous ? &r->previous->next : &jobs->first) = r->next;
        *(r->next ? &r->next->previous : &jobs->last) = r->previous;
    }
    pthread_mutex_unlock(&jobs->lock);
    if (!is_done)
        return sgd_fail(e, MANTA_ETIMEDOUT, "the call is not done within %lld ms; it goes on", (long long)timeout_ms);
    code = r->code;
    if (e && code != MANTA_OK)
        *e = r->e;
    request_free(r);
    return code;
}
