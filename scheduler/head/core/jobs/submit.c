/* SPDX-License-Identifier: Apache-2.0
 *
 * submit.c - takes a job in, or says why not.
 */

#include "scheduler/head/core/account/account.h"
#include "scheduler/head/core/jobs/jobs.h"
#include "scheduler/head/core/jobs/pace.h"
#include "scheduler/head/core/jobs/queue.h"
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

/* What raylets give of devices (raylet/core/kit/ledger.c): a part of one, or whole ones. No node would ever take another amount,
 * and its job would wait for ever. */
static bool are_gpus_had(const job_spec *spec, char *text, size_t text_size)
{
    for (size_t i = 0; i < spec->n_resources; i++) {
        const resource *r = spec->resources[i];
        if (strcmp(r->name, "GPU") != 0 || r->milli <= 1000 || r->milli % 1000 == 0)
            continue;
        snprintf(text, text_size, "wants %g GPU: above one device, only whole ones", (double)r->milli / 1000);
        return false;
    }
    return true;
}

/* The reason for a refusal, and its code; 0: the job may come in. */
static int32_t submit_check(struct head *h, const job_spec *spec, const char *user, uint32_t count, char *text, size_t text_size)
{
    struct policy_request     request = {0};
    const Manta__V1__JobFile *missing;
    if (head_spec_check(spec, text, text_size).code != 0 || head_spec_request(h, spec, &request, text, text_size).code != 0 ||
        !are_gpus_had(spec, text, text_size))
        return MT_EINVAL;
    int32_t code = spec->node ? head_jobs_node_check(h, spec, text, text_size) : MT_OK;
    if (code == MT_OK)
        code = head_pace_may(h, spec, text, text_size);
    if (code == MT_OK)
        code = head_users_may_submit(h, user, spec, count, text, text_size);
    if (code != MT_OK)
        return code;
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
    return MT_OK;
}

/* What `after` asks of others, and room for as many jobs as it is. */
static int32_t check_many(struct head *h, const job_spec *spec, uint32_t count, uint64_t *out_met, char *text, size_t text_size)
{
    int32_t code = head_queue_after(h, spec, out_met, text, text_size);
    if (code)
        return code;
    if (h->jobs_active + count > h->config.jobs_max) {
        snprintf(text, text_size, "the cluster has %u jobs that have not ended, and takes %u: %s", h->jobs_active,
                 h->config.jobs_max, count > 1 ? "a smaller array, or try again later" : "try again later");
        return MT_EAGAIN;
    }
    if (!head_has_room(h, count * (protobuf_c_message_get_packed_size(&spec->base) + 256))) {
        snprintf(text, text_size, "%s", head_room_refusal(h).what);
        return head_room_refusal(h).code;
    }
    return MT_OK;
}

/* That name may be another job's. */
static int32_t check_names(struct head *h, const job_spec *spec, const uint32_t *indices, char *text, size_t text_size)
{
    char id[HEAD_JOB_ID_SIZE + 16];
    for (uint32_t i = 0; i < spec->array_count; i++) {
        snprintf(id, sizeof id, "%.64s.%u", spec->id, indices ? indices[i] : i);
        if (!head_jobs_find(h, id))
            continue;
        snprintf(text, text_size, "another job has the id %.80s, as one of the array would: draw a new id for the array", id);
        return MT_EEXIST;
    }
    return MT_OK;
}

static struct job *take(struct head *h, job_spec *take_spec, const char *user, uint64_t after_met)
{
    struct job *job = NULL;
    mt_status   st = head_jobs_add(h, take_spec, JOB_PENDING, &job);
    if (st.code) {
        head_broken(h, st);
        return NULL;
    }
    head_users_enter(h, job, user);
    job->is_held = job->spec->is_held;
    job->after_met = after_met;
    job->submitted_ms = h->wall_ms;
    job->order = h->next_order++;
    head_jobs_enter(h, job);
    h->jobs_active++;
    h->count.job_submitted++;
    head_blobs_need(h, job->spec, 1);
    head_jobs_store(h, job);
    return job;
}

int32_t head_jobs_submit(struct head *h, const job_spec *spec, const uint32_t *indices, const char *user, struct job **out_job,
                         char *text, size_t text_size)
{
    uint32_t count = spec->array_count ? spec->array_count : 1;
    uint64_t after_met = 0;
    int32_t  code = submit_check(h, spec, user, count, text, text_size);
    if (code == MT_OK)
        code = check_many(h, spec, count, &after_met, text, text_size);
    if (code == MT_OK)
        code = check_names(h, spec, indices, text, text_size);
    if (code != MT_OK)
        return code;
    *out_job = NULL;
    for (uint32_t i = 0; i < count; i++) { /* one batch: all of them, or none */
        job_spec   *copy = NULL;
        mt_status   st = spec->array_count ? head_array_spec(spec, indices ? indices[i] : i, &copy) : head_spec_copy(spec, &copy);
        struct job *job = st.code ? NULL : take(h, copy, user, after_met);
        if (st.code)
            head_broken(h, st);
        if (!job)
            return MT_ENOMEM;
        if (i == 0)
            *out_job = job;
    }
    return MT_OK;
}
