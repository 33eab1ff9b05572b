/* SPDX-License-Identifier: Apache-2.0
 *
 * queue.c - jobs that wait for others, or for somebody to release them.
 *
 * Owns:    h->settles.
 * Always:  what the end of a job means for those that wait for it is in the same batch as that end: so whoever is asked after a
 *          restart need not know how a job has ended that is forgotten by now. One that can't start any more ends in that step.
 */
#include "scheduler/head/core/account/account.h"
#include "scheduler/head/core/jobs/jobs.h"
#include "scheduler/head/core/jobs/queue.h"
#include "scheduler/head/core/jobs/private.h"

#include "scheduler/policy/queue.h"

/* ---- for whom it waits ---- */

struct tally { /* of a job, or of those of an array that are there */
    size_t count, active, not_ok;
};

static struct tally tally_of(const struct head *h, const char *id)
{
    const struct job   *job = head_jobs_find(h, id);
    const struct array *a = job ? NULL : head_array_find(h, id);
    if (job)
        return (struct tally){1, !head_jobs_has_ended(job), head_jobs_has_ended(job) && job->state != JOB_SUCCEEDED};
    if (!a)
        return (struct tally){0};
    return (struct tally){a->jobs.count, head_array_active(a), a->in[JOB_STOPPED] + a->in[JOB_FAILED]};
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
                     "it is to wait for \"%.64s\", and there is no such job: it is submitted before, and an ended one is kept "
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

/* What follows from the end of `ended` for those that wait in this way for it, or for its array. Who has heard it waits for it no
 * more; an end that changes nothing for them is not told to each. */
static void tell_end(struct head *h, const struct job *ended, const char *id, enum policy_after kind)
{
    char               why[HEAD_TEXT_SIZE];
    size_t             which;
    bool               has_succeeded = ended->state == JOB_SUCCEEDED;
    enum policy_answer answer = policy_after_judge(kind, has_succeeded, tally_of(h, id).active == 0);
    if (answer == POLICY_NOT_YET)
        return;
    snprintf(why, sizeof why, "it was to start when %.64s %s: job %.64s %s", id, policy_after_text(kind), ended->spec->id,
             has_succeeded ? "has succeeded" : "has not succeeded");
    for (struct job *job; (job = head_after_take(h, kind, id, &which));) {
        if (answer == POLICY_NEVER) {
            head_jobs_end(h, job, JOB_FAILED, 1, why);
            continue;
        }
        job->after_met |= UINT64_C(1) << which;
        head_turns_move(h, job);
        head_jobs_store(h, job);
    }
}

static void tell_all(struct head *h, const struct job *ended, const char *id)
{
    for (enum policy_after kind = POLICY_AFTER_OK; id[0] && kind <= POLICY_AFTER_NOT_OK; kind++)
        tell_end(h, ended, id, kind);
}

/* No recursion: who ends by it is one more in the list. That one of an array has succeeded is told of the array after all that have
 * not in this step: it may be the last one, and then says that none is among them. */
void head_queue_settle(struct head *h)
{
    size_t at = 0;
    for (size_t late = 0; late < h->settles.count; late++) {
        for (; at < h->settles.count; at++) {
            const struct job *ended = h->settles.data[at];
            tell_all(h, ended, ended->spec->id);
            if (ended->state != JOB_SUCCEEDED)
                tell_all(h, ended, ended->spec->array_id);
        }
        if (h->settles.data[late]->state == JOB_SUCCEEDED)
            tell_all(h, h->settles.data[late], h->settles.data[late]->spec->array_id);
    }
    h->settles.count = 0;
}

void head_queue_hold(struct head *h, struct job *job, bool is_held)
{
    if (job->is_held == is_held)
        return;
    job->is_held = is_held;
    head_turns_move(h, job);
    head_jobs_store(h, job);
}
