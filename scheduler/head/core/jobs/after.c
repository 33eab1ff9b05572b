/* SPDX-License-Identifier: Apache-2.0
 *
 * after.c - who waits for whom.
 *
 * Owns:    h->awaited, and the waiters of jobs.
 * Always:  a PENDING job stands at each end that it waits for and that does not hold yet; no other job stands anywhere.
 */
#include "scheduler/head/core/jobs/jobs.h"
#include "scheduler/head/core/jobs/private.h"

#include <inttypes.h>
#include <stdlib.h>

static void key_write(char *out, size_t size, uint32_t kind, const char *id)
{
    snprintf(out, size, "%" PRIu32 ":%.64s", kind, id);
}

static struct awaited *find(const struct head *h, const char *key)
{
    struct head_index_node *at = head_index_find(&h->awaited, key);
    return at ? mt_container_of(at, struct awaited, at) : NULL;
}

static struct awaited *find_or_make(struct head *h, const Manta__V1__JobAfter *after)
{
    char            key[sizeof((struct awaited *)0)->key];
    struct awaited *a;
    key_write(key, sizeof key, after->kind, after->id);
    if ((a = find(h, key)))
        return a;
    if (!(a = calloc(1, sizeof *a)))
        return NULL;
    memcpy(a->key, key, sizeof key);
    if (head_index_add(&h->awaited, &a->at, a->key).code) {
        free(a);
        return NULL;
    }
    return a;
}

static void take_out(struct head *h, struct waiter *w)
{
    struct awaited *a = w->of;
    w->of = NULL;
    mt_sorted_remove(&a->waiters, &w->node);
    if (a->waiters.count)
        return;
    head_index_remove(&h->awaited, &a->at);
    free(a);
}

void head_after_enter(struct head *h, struct job *job)
{
    const size_t count = job->spec->n_after;
    if (job->state != JOB_PENDING || count == 0 || !(job->waiters = calloc(count, sizeof *job->waiters))) {
        if (job->state == JOB_PENDING && count)
            head_broken(h, mt_error(MT_ENOMEM, 0, "wait for a job"));
        return;
    }
    for (size_t i = 0; i < count; i++) {
        struct waiter *w = &job->waiters[i];
        w->job = job;
        if (job->after_met & UINT64_C(1) << i)
            continue;
        if (!(w->of = find_or_make(h, job->spec->after[i]))) {
            head_broken(h, mt_error(MT_ENOMEM, 0, "wait for a job"));
            return;
        }
        mt_sorted_add(&w->of->waiters, &w->node, job->order * MT_HEAD_JOB_AFTER_MAX + i); /* it may name the same one twice */
    }
}

void head_after_leave(struct head *h, struct job *job)
{
    for (size_t i = 0; job->waiters && i < job->spec->n_after; i++)
        if (job->waiters[i].of)
            take_out(h, &job->waiters[i]);
    free(job->waiters);
    job->waiters = NULL;
}

struct job *head_after_take(struct head *h, uint32_t kind, const char *id, size_t *out_which)
{
    char            key[sizeof((struct awaited *)0)->key];
    struct awaited *a;
    key_write(key, sizeof key, kind, id);
    if (!(a = find(h, key)))
        return NULL;
    struct waiter *w = mt_container_of(mt_sorted_first(&a->waiters), struct waiter, node);
    *out_which = (size_t)(w - w->job->waiters);
    take_out(h, w);
    return w->job;
}
