/* SPDX-License-Identifier: Apache-2.0
 *
 * queue.c - jobs that wait: in which order they are looked at, for whom they wait, and why, in words.
 *
 * Owns:    h->queue, h->settles.
 * Always:  what the end of a job means for those that wait for it is in the same batch as that end: so whoever is asked after a
 *          restart need not know how a job has ended that is forgotten by now. One that can't start any more ends in that step.
 */
#include "scheduler/head/core/jobs/jobs.h"
#include "scheduler/head/core/jobs/queue.h"
#include "scheduler/head/core/jobs/private.h"

#include "scheduler/policy/queue.h"

#include <stdlib.h>

/* ---- the order ---- */

static int by_turn(const void *a, const void *b)
{
    const struct job        *x = *(struct job *const *)a, *y = *(struct job *const *)b;
    const struct policy_turn tx = {x->spec->priority, x->order}, ty = {y->spec->priority, y->order};
    return policy_turn_compare(&tx, &ty);
}

struct job *const *head_queue(struct head *h, size_t *out_count)
{
    if (h->is_queue_old) {
        h->queue.count = 0;
        for (struct head_index_node *at = h->jobs.first; at && h->jobs_active > 0; at = at->next) {
            struct job *job = mt_container_of(at, struct job, at);
            if (job->state == JOB_PENDING)
                HEAD_TRY(h, mt_vec_push(&h->queue, job));
        }
        if (h->queue.count)
            qsort(h->queue.data, h->queue.count, sizeof(struct job *), by_turn);
        h->is_queue_old = false;
    }
    *out_count = h->queue.count;
    return h->queue.data;
}

void head_queue_fini(struct head *h)
{
    mt_vec_fini(&h->queue);
    mt_vec_fini(&h->settles);
}

/* ---- for whom it waits ---- */

static bool is_of(const struct job *job, const char *id)
{
    return strcmp(job->spec->id, id) == 0 || strcmp(job->spec->array_id, id) == 0;
}

struct tally { /* of a job, or of those of an array that are there */
    size_t count, active, not_ok;
};

static void count_job(struct head *h, struct job *job, void *user)
{
    struct tally *t = user;
    (void)h;
    t->count++;
    t->active += !head_jobs_has_ended(job);
    t->not_ok += head_jobs_has_ended(job) && job->state != JOB_SUCCEEDED;
}

static struct tally tally_of(struct head *h, const char *id)
{
    struct tally t = {0};
    struct job  *job = head_jobs_find(h, id);
    if (job)
        count_job(h, job, &t);
    else
        head_array_each(h, id, count_job, &t);
    return t;
}

int32_t head_queue_after(struct head *h, const job_spec *spec, uint64_t *out_met, char *text, size_t size)
{
    *out_met = 0;
    for (size_t i = 0; i < spec->n_after; i++) {
        const char       *id = spec->after[i]->id;
        enum policy_after kind = (enum policy_after)spec->after[i]->kind;
        struct tally      t = tally_of(h, id);
        if (t.count == 0) {
            snprintf(text, size,
                     "it is to wait for %.64s, and there is no such job: it is submitted before, and an ended one is kept "
                     "for a while only",
                     id);
            return MT_ENOENT;
        }
        bool               has_news = t.not_ok || t.active < t.count;
        enum policy_answer answer = has_news ? policy_after_judge(kind, !t.not_ok, !t.active) : POLICY_NOT_YET;
        if (answer == POLICY_NEVER) {
            snprintf(text, size, "it is to wait until %.64s %s, and that has ended otherwise", id, policy_after_text(kind));
            return MT_EINVAL;
        }
        *out_met |= answer == POLICY_MET ? UINT64_C(1) << i : 0;
    }
    return MT_OK;
}

/* What follows for `job` from the end of `ended`. */
static void hear_end(struct head *h, struct job *job, const struct job *ended)
{
    char     why[HEAD_TEXT_SIZE];
    uint64_t met = job->after_met;
    for (size_t i = 0; i < job->spec->n_after; i++) {
        const char       *id = job->spec->after[i]->id;
        enum policy_after kind = (enum policy_after)job->spec->after[i]->kind;
        if (job->after_met & UINT64_C(1) << i || !is_of(ended, id))
            continue;
        enum policy_answer answer = policy_after_judge(kind, ended->state == JOB_SUCCEEDED, tally_of(h, id).active == 0);
        if (answer == POLICY_NEVER) {
            snprintf(why, sizeof why, "it was to start when %.64s %s: job %.64s %s", id, policy_after_text(kind), ended->spec->id,
                     ended->state == JOB_SUCCEEDED ? "has succeeded" : "has not succeeded");
            head_jobs_end(h, job, JOB_FAILED, 1, why);
            return;
        }
        met |= answer == POLICY_MET ? UINT64_C(1) << i : 0;
    }
    if (met != job->after_met) {
        job->after_met = met;
        head_jobs_store(h, job);
    }
}

/* No recursion: who ends by it is one more in the list. */
void head_queue_settle(struct head *h)
{
    for (size_t at = 0; at < h->settles.count; at++) {
        const struct job  *ended = h->settles.data[at];
        size_t             count;
        struct job *const *queue = head_queue(h, &count);
        for (size_t i = 0; i < count; i++) /* a job that ends stays in the list until that is made anew */
            if (queue[i]->state == JOB_PENDING && queue[i]->spec->n_after)
                hear_end(h, queue[i], ended);
    }
    h->settles.count = 0;
}

/* ---- why ---- */

static void say(struct job *job, const char *text)
{
    snprintf(job->reason, sizeof job->reason, "%s", text);
}

bool head_queue_may_start(struct head *h, struct job *job)
{
    char text[HEAD_TEXT_SIZE];
    for (size_t i = 0; i < job->spec->n_after; i++) {
        if (job->after_met & UINT64_C(1) << i)
            continue;
        snprintf(text, sizeof text, "waits until %.64s %s", job->spec->after[i]->id,
                 policy_after_text((enum policy_after)job->spec->after[i]->kind));
        say(job, text);
        return false;
    }
    if (job->is_held) {
        snprintf(text, sizeof text, "is held: manta job release %.64s", job->spec->id);
        say(job, text);
    }
    (void)h;
    return !job->is_held;
}

void head_queue_hold(struct head *h, struct job *job, bool is_held)
{
    if (job->is_held == is_held)
        return;
    job->is_held = is_held;
    say(job, is_held ? "is held" : "was released");
    head_jobs_store(h, job);
}
