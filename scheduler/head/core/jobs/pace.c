/* SPDX-License-Identifier: Apache-2.0
 *
 * pace.c - jobs with a deadline: what is left of their work, and on which nodes they may begin. What follows from it is the
 *          scaler's to say (scheduler/scaler/pace.c).
 *
 * Always: a job with a deadline is alone in its bucket.
 */
#include "scheduler/head/core/jobs/jobs.h"
#include "scheduler/head/core/jobs/pace.h"
#include "scheduler/head/core/jobs/queue.h"
#include "scheduler/head/core/jobs/private.h"
#include "scheduler/head/core/nodes/nodes.h"

#include <inttypes.h>

enum { TOO_LONG_PART = 10, LEAST_MS = 1000 };
static const uint64_t PACE_MS_MAX = UINT64_C(1000) * MT_HEAD_PACE_S_MAX;

/* All of it, as the user says: with a time limit alone that is it. */
static uint64_t work_of(const job_spec *spec)
{
    return spec->work_ms ? spec->work_ms : spec->time_ms;
}

/* ---- may it have one ---- */

const char *head_pace_check(const job_spec *spec)
{
    uint64_t work = work_of(spec);
    if (!spec->deadline_ms)
        return spec->work_ms || spec->resume_ms ? "work and resume: belong to a deadline, and it has none" : NULL;
    if (spec->array_count || spec->array_id[0])
        return "deadline: an array has none; submit its jobs one by one";
    if (spec->node)
        return "deadline: where the job is follows from it, so it can't name its node";
    if (!work)
        return "deadline: say how long the job runs (work), or its time limit";
    if (work > PACE_MS_MAX || spec->resume_ms > PACE_MS_MAX)
        return "work and resume: are 10 years at most";
    if (spec->time_ms && !spec->resume_ms && work > spec->time_ms)
        return "work: is more than its time limit, so it could never end";
    return NULL;
}

int32_t head_pace_may(const struct head *h, const job_spec *spec, char *text, size_t size)
{
    uint64_t work = work_of(spec);
    if (!spec->deadline_ms)
        return MT_OK;
    if (spec->deadline_ms <= h->wall_ms) {
        snprintf(text, size, "deadline: was %" PRIu64 " s ago by the head's clock", (h->wall_ms - spec->deadline_ms) / 1000);
        return MT_EINVAL;
    }
    uint64_t time = spec->deadline_ms - h->wall_ms;
    if (time > PACE_MS_MAX) {
        snprintf(text, size, "deadline: is more than 10 years from now");
        return MT_EINVAL;
    }
    if (time < work) {
        snprintf(text, size, "deadline: is in %" PRIu64 " s, and the job's work takes %" PRIu64 " s", time / 1000, work / 1000);
        return MT_EINVAL;
    }
    if (h->paced_count >= MT_HEAD_PACED_MAX) {
        snprintf(text, size, "deadline: %u jobs that have not ended have one, and no more can: try again later", h->paced_count);
        return MT_EAGAIN;
    }
    return MT_OK;
}

/* ---- its work ---- */

/* What this attempt has done of it. */
static uint64_t worked_now(const struct head *h, const struct job *job)
{
    uint64_t ran = h->wall_ms > job->started_ms ? h->wall_ms - job->started_ms : 0;
    uint64_t begins = job->attempt > 1 ? job->spec->resume_ms : 0; /* so long it took to be where it was */
    return job->state == JOB_RUNNING && ran > begins ? ran - begins : 0;
}

void head_pace_keep(const struct head *h, struct job *job)
{
    if (job->spec->deadline_ms && job->spec->resume_ms)
        job->worked_ms += worked_now(h, job);
}

/* One that runs longer than was said has a tenth left, as far as anybody knows. */
static uint64_t left_of(const struct head *h, const struct job *job)
{
    uint64_t work = work_of(job->spec);
    uint64_t done = job->worked_ms + worked_now(h, job), least = work / TOO_LONG_PART + LEAST_MS;
    return done + least < work ? work - done : least < work ? least : work;
}

static uint64_t time_of(const struct head *h, const struct job *job)
{
    return job->spec->deadline_ms > h->wall_ms ? job->spec->deadline_ms - h->wall_ms : 0;
}

void head_pace_of(const struct head *h, const struct job *job, struct scl_pace *out)
{
    const struct node *n = head_nodes_find(h, job->node);
    uint64_t           work = work_of(job->spec);
    *out = (struct scl_pace){.deadline_ms = h->now_ms + time_of(h, job),
                             .left_ms = left_of(h, job),
                             .change_ms = job->spec->resume_ms,
                             .risk_ms = job->spec->resume_ms ? 0 : work,
                             .node = job->node};
    /* On a node that others use too nothing is saved when it leaves, and they would have to. */
    out->stays = !job->spec->resume_ms || !n || n->here > 1 || n->wants.count > 0;
}

/* ---- where it may begin ---- */

void head_pace_look(struct head *h, struct bucket *b)
{
    struct policy_request plain = b->request;
    struct scl_pace       pace;
    char                  labels[MT_SCL_NAME_SIZE] = "", why[MT_SCL_WHY_SIZE] = "";
    plain.labels[0] = '\0';
    head_pace_of(h, b->paced, &pace);
    if (h->scale.core && h->scale.config && !h->scale.config->is_down)
        scl_pace_ask(h->scale.core, &pace, &plain, h->now_ms, labels, why, sizeof why);
    snprintf(b->paced_why, sizeof b->paced_why, "%s", why);
    if (strcmp(b->request.labels, labels) == 0)
        return;
    snprintf(b->request.labels, sizeof b->request.labels, "%s", labels);
    b->is_full = false;
}

const char *head_pace_text(const struct head *h, const struct job *job, char *text, size_t size)
{
    snprintf(text, size, "has about %" PRIu64 " s of work left, and %" PRIu64 " s until its deadline", left_of(h, job) / 1000,
             time_of(h, job) / 1000);
    return text;
}

void head_pace_late(const struct head *h, const struct job *job, char *text, size_t size)
{
    size_t used = strlen(text);
    if (job->spec->deadline_ms && h->wall_ms > job->spec->deadline_ms && used < size)
        snprintf(text + used, size - used, "; that was %" PRIu64 " s after its deadline",
                 (h->wall_ms - job->spec->deadline_ms) / 1000);
}
