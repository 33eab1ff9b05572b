/* SPDX-License-Identifier: Apache-2.0
 *
 * worker.c - one thread for what blocks, mostly fsync. (libuv's own pool runs four at a time, in any order; a
 * store needs its writes in order.)
 *
 * Owns:    the thread and the queue; a job belongs to it from submit until done.
 * Thread:  submit, free and done on the loop's; work on the worker's.
 */
#include "core/io/io.h"

#include <pthread.h>
#include <signal.h>
#include <stdlib.h>

struct io_worker {
    struct io_loop *loop;
    pthread_t       thread;
    uint32_t        jobs, jobs_max; /* submitted and not done; loop thread only */
    pthread_mutex_t lock;           /* of the rest */
    pthread_cond_t  more;
    struct io_job  *first, **end;
    bool            is_closing; /* written by the loop's thread only, which may so read it without the lock */
};

static void *worker_main(void *arg);
static void  job_done(struct io_msg *msg);

mt_status io_worker_new(struct io_loop *loop, uint32_t jobs_max, struct io_worker **out_worker)
{
    if (jobs_max == 0 || jobs_max > MT_JOBS_QUEUED_MAX)
        return mt_error(MT_EINVAL, 0, "worker: jobs_max out of range");
    struct io_worker *worker = calloc(1, sizeof *worker);
    if (!worker)
        return mt_error(MT_ENOMEM, 0, "io worker");
    worker->loop = loop;
    worker->jobs_max = jobs_max;
    worker->end = &worker->first;
    pthread_mutex_init(&worker->lock, NULL);
    pthread_cond_init(&worker->more, NULL);

    /* Signals are the loop thread's business. */
    sigset_t all, old;
    sigfillset(&all);
    pthread_sigmask(SIG_SETMASK, &all, &old);
    int err = pthread_create(&worker->thread, NULL, worker_main, worker);
    pthread_sigmask(SIG_SETMASK, &old, NULL);
    if (err) {
        free(worker);
        return mt_error(MT_ESYS, err, "pthread_create for a worker");
    }
    *out_worker = worker;
    return mt_ok();
}

void io_worker_free(struct io_worker *worker)
{
    IO_ON_LOOP(worker->loop);
    pthread_mutex_lock(&worker->lock);
    worker->is_closing = true;
    pthread_cond_signal(&worker->more);
    pthread_mutex_unlock(&worker->lock);
    pthread_join(worker->thread, NULL);
    io_loop_drain(worker->loop);
    MT_ASSERT(worker->jobs == 0);
    pthread_cond_destroy(&worker->more);
    pthread_mutex_destroy(&worker->lock);
    free(worker);
}

mt_status io_worker_submit(struct io_worker *worker, struct io_job *job)
{
    IO_ON_LOOP(worker->loop);
    if (worker->is_closing)
        return mt_error(MT_ECANCELLED, 0, "the worker ends");
    if (worker->jobs >= worker->jobs_max)
        return mt_error(MT_EAGAIN, 0, "the worker's queue is full");
    worker->jobs++;
    job->worker = worker;
    job->next = NULL;
    job->msg.run = job_done;
    pthread_mutex_lock(&worker->lock);
    *worker->end = job;
    worker->end = &job->next;
    pthread_cond_signal(&worker->more);
    pthread_mutex_unlock(&worker->lock);
    return mt_ok();
}

static void *worker_main(void *arg)
{
    struct io_worker *worker = arg;
    pthread_mutex_lock(&worker->lock);
    for (;;) {
        while (!worker->first && !worker->is_closing)
            pthread_cond_wait(&worker->more, &worker->lock);
        struct io_job *job = worker->first;
        if (!job)
            break;
        worker->first = job->next;
        if (!worker->first)
            worker->end = &worker->first;
        pthread_mutex_unlock(&worker->lock);
        job->work(job);
        io_loop_post(worker->loop, &job->msg);
        pthread_mutex_lock(&worker->lock);
    }
    pthread_mutex_unlock(&worker->lock);
    return NULL;
}

static void job_done(struct io_msg *msg)
{
    struct io_job *job = mt_container_of(msg, struct io_job, msg);
    job->worker->jobs--;
    job->done(job);
}
