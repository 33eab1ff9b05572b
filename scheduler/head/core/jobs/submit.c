/* SPDX-License-Identifier: Apache-2.0
 *
 * submit.c - takes a job in, or says why not.
 */

#include "scheduler/head/core/jobs/jobs.h"
#include "scheduler/head/core/jobs/private.h"
#include "scheduler/head/core/jobs/blobs.h"
#include "scheduler/head/core/nodes/nodes.h"

/* Whether some node could ever hold the driver. Unknown while nodes are still registering, or all that are there leave. */
static bool can_ever_start(struct head *h, const struct policy_request *request, char *text, size_t text_size)
{
    struct policy_node **living = NULL;
    uint32_t             count = 0;
    if (head_in_grace(h) || h->nodes_living == 0)
        return true;
    HEAD_TRY(h, head_nodes_living(h, &living, &count));
    const struct policy_node *const *nodes = (const struct policy_node *const *)living;
    bool can = !living || !policy_any_may_come(nodes, count) || policy_is_feasible(nodes, count, request) ||
               head_nodes_could_come(h, request);
    if (!can)
        policy_explain(nodes, count, request, (const char *const *)h->kinds.data, text, text_size);
    free(living);
    return can;
}

/* The reason for a refusal, and its code; 0: the job may come in. */
static int32_t submit_check(struct head *h, const job_spec *spec, char *text, size_t text_size)
{
    struct policy_request     request = {0};
    const Manta__V1__JobFile *missing;
    if (head_spec_check(spec, text, text_size).code != 0 ||
        head_resources_to_request(h, spec->resources, spec->n_resources, &request, text, text_size).code != 0)
        return MT_EINVAL;
    if (!can_ever_start(h, &request, text, text_size))
        return MT_EUNSCHEDULABLE;
    if (!head_has_room(h, protobuf_c_message_get_packed_size(&spec->base))) {
        snprintf(text, text_size, "%s", head_room_refusal(h).what);
        return head_room_refusal(h).code;
    }
    if ((missing = head_blobs_missing(h, spec))) {
        snprintf(text, text_size, "the content of file %.200s is not here: upload it, then submit again", missing->path);
        return MT_ENOENT;
    }
    if (h->jobs_active >= MT_HEAD_JOBS_ACTIVE_MAX) {
        snprintf(text, text_size, "the cluster has %d jobs that have not ended: try again later", MT_HEAD_JOBS_ACTIVE_MAX);
        return MT_EAGAIN;
    }
    return MT_OK;
}

int32_t head_jobs_submit(struct head *h, const job_spec *spec, const char *user, struct job **out_job, char *text, size_t text_size)
{
    job_spec   *copy = NULL;
    struct job *job = NULL;
    int32_t     code = submit_check(h, spec, text, text_size);
    if (code != MT_OK)
        return code;
    mt_status st = head_spec_copy(spec, &copy);
    if (st.code == 0)
        st = head_jobs_add(h, copy, JOB_PENDING, &job);
    if (st.code != 0) {
        head_broken(h, st);
        return st.code;
    }
    snprintf(job->user, sizeof job->user, "%s", user);
    job->submitted_ms = h->wall_ms;
    job->order = h->next_order++;
    snprintf(job->reason, sizeof job->reason, "submitted");
    h->jobs_active++;
    h->count.job_submitted++;
    head_blobs_need(h, job->spec, 1);
    head_jobs_store(h, job);
    *out_job = job;
    return MT_OK;
}
