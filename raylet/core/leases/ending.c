/* SPDX-License-Identifier: Apache-2.0
 *
 * ending.c - leases that wait for a worker of a job that fails or ends, and the end of a job.
 *
 * Owns: nothing of its own. Thread: the logic loop only.
 * Always: the first word counts: what has failed is told as it failed, also where the job ends right after.
 */
#include "raylet/core/jobs/jobs.h"
#include "raylet/core/leases/leases.h"
#include "raylet/core/pool/pool.h"

#include <stdio.h>

static void end_needy(struct rlt *r, struct rlt_job *job)
{
    struct ctl_ended end = {.code = job->needy_code, .node = r->node};
    if (end.code != MT_EOWNER_DIED)
        snprintf(end.text, sizeof end.text, "%s", job->failure);
    rlt_list_out(&job->in_failing);
    RLT_LIST_EACH(&job->needy, link) {
        struct rlt_lease *l = mt_container_of(link, struct rlt_lease, in_needy);
        end.lease = l->id;
        rlt_lease_end(r, l, &end);
    }
}

void rlt_leases_end_needy(struct rlt *r)
{
    struct rlt_job *job;
    while ((job = rlt_list_first(&r->failing, struct rlt_job, in_failing)))
        end_needy(r, job);
}

static void close_part(struct rlt *r, struct rlt_job *job)
{
    rlt_job_note_needy(r, job, MT_EOWNER_DIED);
    rlt_leases_end_needy(r);
    rlt_job_close(r, job);
}

void rlt_job_end(struct rlt *r, struct rlt_job *job)
{
    rlt_job_note_needy(r, job, MT_EOWNER_DIED);
    rlt_leases_end_needy(r);
    MT_MAP_EACH(&r->envs, entry) { /* before the job says that it ends: the last part to be empty frees all */
        struct rlt_env *env = entry->value.ptr;
        if (env->base == job && env->workers && !env->workers->is_ending)
            close_part(r, env->workers);
    }
    rlt_job_close(r, job);
    rlt_job_free_if_empty(r, job);
}

void rlt_jobs_node_lost(struct rlt *r, uint32_t node)
{
    MT_MAP_EACH(&r->jobs, entry) {
        struct rlt_job *job = entry->value.ptr;
        if (job->node == node && !job->driver && !job->is_ending)
            rlt_job_end(r, job);
    }
}
