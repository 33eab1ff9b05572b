/* SPDX-License-Identifier: Apache-2.0
 *
 * end.c - the ends of a job: it ends, it is forgotten.
 *
 * Always:  an ended job has neither waiters nor blobs.
 */

#include "scheduler/head/core/account/account.h"
#include "scheduler/head/core/jobs/ahead.h"
#include "scheduler/head/core/jobs/jobs.h"
#include "scheduler/head/core/jobs/pace.h"
#include "scheduler/head/core/jobs/queue.h"
#include "scheduler/head/core/jobs/private.h"
#include "scheduler/head/core/jobs/blobs.h"
#include "scheduler/head/core/names/names.h"

#include "core/base/plant.h"

void head_jobs_end(struct head *h, struct job *job, enum job_state how, int32_t exit_code, const char *reason)
{
    char text[HEAD_TEXT_SIZE]; /* `reason` may be the job's own */
    snprintf(text, sizeof text, "%s", job->spec->actor && job->stop_requested && job->reason ? job->reason : reason);
    head_pace_late(h, job, text, sizeof text);
    if (job->spec->actor)
        head_names_drop_detached(h, job->spec->actor);
    head_jobs_say(h, job, "%s", text);
    head_ahead_set(h, job, false);
    job->exit_code = exit_code;
    job->ended_ms = h->wall_ms;
    job->pid = 0;
    head_jobs_set_state(h, job, how);
    mt_log(MT_LOG_INFO, "job_ended", "job=%s state=%s attempt=%u reason=\"%s\"", job->spec->id, head_jobs_state_text(how),
           job->attempt, text);
    h->count.job_ended++;
    h->jobs_active--;
    h->jobs_ended++;
    head_blobs_need(h, job->spec, -1);
    head_jobs_store(h, job);
    head_jobs_answer_waits(h, job);
    head_out_job(h, HEAD_ACT_JOB_ENDED, job->spec->id);
    HEAD_TRY(h, mt_vec_push(&h->settles, job)); /* head_queue_settle, in this step */
}

static void unstore(struct head *h, const char *id)
{
    head_record_change(h, HEAD_TABLE_JOBS, id, strlen(id), NULL);
}

void head_jobs_forget(struct head *h, struct job *job)
{
    MT_ASSERT(head_jobs_has_ended(job) && job->waits == 0);
    if (!MT_PLANT(MT_PLANT_DELETE_UNSTORED))
        unstore(h, job->spec->id);
    head_account_forget(h, job->spec->id);
    head_out_job(h, HEAD_ACT_LOG_DROP, job->spec->id);
    h->jobs_ended--;
    head_jobs_free(h, job);
}

/* Ended jobs are listed for a while, the newest ones. */
void head_jobs_prune(struct head *h)
{
    while (h->ended.count > MT_HEAD_JOBS_ENDED_MAX)
        head_jobs_forget(h, head_turns_first(&h->ended));
    while (h->kept.count > MT_HEAD_JOBS_KEPT_MAX)
        head_jobs_forget(h, head_turns_first(&h->kept));
}
