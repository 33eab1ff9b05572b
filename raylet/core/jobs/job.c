/* SPDX-License-Identifier: Apache-2.0
 *
 * job.c - a job begins and ends, and with it its runtime environments.
 *
 * Owns: nothing of its own. Thread: the logic loop only.
 * Always: a job is freed when it is ending and neither its driver, a process nor a lease of it or of its environments is left.
 */
#include "raylet/core/jobs/jobs.h"
#include "raylet/core/jobs/private.h"
#include "raylet/core/pool/pool.h"
#include "raylet/core/usage/usage.h"

void rlt_job_begin(struct rlt *r, struct rlt_job *job)
{
    rlt_pool_begin(r, job);
    if (!job->env)
        rlt_env_go_all(r, job);
}

void rlt_job_free_if_empty(struct rlt *r, struct rlt_job *job)
{
    job = rlt_job_base(job);
    if (!job->is_ending || job->driver || job->zygote || job->worker_count || job->lease_count || !rlt_env_job_is_empty(r, job))
        return;
    rlt_program_job_free(r, job);
    rlt_env_job_free(r, job);
    rlt_act(r->out, RLT_A_JOB_OVER)->job_over.job = job->number;
    rlt_usage_over(r, job->job);
    rlt_job_free(r, job);
}

void rlt_job_close(struct rlt *r, struct rlt_job *job)
{
    job->is_ending = true;
    rlt_program_job_end(r, job);
    MT_MAP_EACH(&r->conns, entry) {
        struct rlt_proc *p = entry->value.ptr;
        if (p->job == job && p->state != PROC_DYING && p != job->driver)
            rlt_pool_kill(r, p); /* RLT_EV_EXITED or _CLOSED does the rest */
        if (p->job == job && p->state == PROC_GREETING)
            rlt_timer_set(r, &p->timer, r->now);
    }
}
