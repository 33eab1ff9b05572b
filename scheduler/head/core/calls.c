/* SPDX-License-Identifier: Apache-2.0
 *
 * calls.c - what clients ask: submit, look, wait, stop; and the end of the cluster.
 *
 * Owns:    the parked WaitJob calls.
 * Always:  each call gets exactly one reply or refusal, unless its caller has left.
 */
#include "scheduler/head/core/internal.h"

static void info_fill(const struct job *job, job_info *out)
{
    *out = (job_info)MANTA__V1__JOB_INFO__INIT;
    out->id = job->spec->id;
    out->name = job->spec->name;
    out->state = (char *)jobs_state_text(job->state);
    out->reason = (char *)job->reason;
    out->exit_code = job->exit_code;
    out->attempt = job->attempt;
    out->node = job->node;
    out->submitted_ms = job->submitted_ms;
    out->started_ms = job->started_ms;
    out->ended_ms = job->ended_ms;
    out->log_size = job->log_size;
    out->pid = job->pid;
    out->n_argv = job->spec->n_argv;
    out->argv = job->spec->argv;
    out->n_metadata = job->spec->n_metadata;
    out->metadata = job->spec->metadata;
    if (job->spec->actor) {
        out->actor_space = job->spec->actor->space;
        out->actor_name = job->spec->actor->name;
    }
}

static void reply_job(struct head *h, uint64_t call, enum head_method method, const struct job *job)
{
    job_reply reply = MANTA__V1__JOB_REPLY__INIT;
    job_info  info;
    info_fill(job, &info);
    reply.job = &info;
    out_reply(h, call, method, &reply.base);
}

static void reply_error(struct head *h, uint64_t call, enum head_method method, int32_t code, const char *text)
{
    job_reply reply = MANTA__V1__JOB_REPLY__INIT;
    reply.code = code;
    reply.text = (char *)text;
    out_reply(h, call, method, &reply.base);
}

static struct job *job_or_error(struct head *h, uint64_t call, enum head_method method, const char *id)
{
    char        text[HEAD_TEXT_SIZE];
    struct job *job = jobs_find(h, id);
    if (!job) {
        snprintf(text, sizeof text, "no job has the id %.64s; ended jobs are listed for a while only", id);
        reply_error(h, call, method, MT_ENOENT, text);
    }
    return job;
}

/* ---- submit ---- */

/* Whether some node could ever hold the driver. Unknown while nodes are still registering. */
static bool can_ever_start(struct head *h, const struct policy_request *request, char *text, size_t text_size)
{
    struct policy_node **living = NULL;
    uint32_t             count = 0;
    if (wants_in_grace(h) || h->nodes_living == 0)
        return true;
    HEAD_TRY(h, nodes_living(h, &living, &count));
    const struct policy_node *const *nodes = (const struct policy_node *const *)living;
    bool                             can = !living || policy_is_feasible(nodes, count, request);
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
    if (spec_check(spec, text, text_size).code != 0 ||
        resources_to_request(h, spec->resources, spec->n_resources, &request, text, text_size).code != 0)
        return MT_EINVAL;
    if (!can_ever_start(h, &request, text, text_size))
        return MT_EUNSCHEDULABLE;
    if (!head_has_room(h, protobuf_c_message_get_packed_size(&spec->base))) {
        snprintf(text, text_size, "%s", HEAD_FULL_TEXT);
        return MT_EDISK_FULL;
    }
    if ((missing = blobs_missing(h, spec))) {
        snprintf(text, text_size, "the content of file %.200s is not here: upload it, then submit again", missing->path);
        return MT_ENOENT;
    }
    if (h->jobs_active >= MT_HEAD_JOBS_ACTIVE_MAX) {
        snprintf(text, text_size, "the cluster has %d jobs that have not ended: try again later", MT_HEAD_JOBS_ACTIVE_MAX);
        return MT_EAGAIN;
    }
    return MT_OK;
}

int32_t calls_submit(struct head *h, const job_spec *spec, struct job **out_job, char *text, size_t text_size)
{
    job_spec   *copy = NULL;
    struct job *job = NULL;
    int32_t     code = submit_check(h, spec, text, text_size);
    if (code != MT_OK)
        return code;
    mt_status st = spec_copy(spec, &copy);
    if (st.code == 0)
        st = jobs_add(h, copy, &job);
    if (st.code != 0) {
        head_broken(h, st);
        return st.code;
    }
    job->submitted_ms = h->wall_ms;
    job->order = h->next_order++;
    snprintf(job->reason, sizeof job->reason, "submitted");
    h->jobs_active++;
    h->count.job_submitted++;
    blobs_need(h, job->spec, 1);
    records_put_job(h, job);
    *out_job = job;
    return MT_OK;
}

static void submit_new(struct head *h, uint64_t call, const job_spec *spec)
{
    char        text[HEAD_TEXT_SIZE] = "";
    struct job *job;
    int32_t     code = spec->actor ? MT_EINVAL : calls_submit(h, spec, &job, text, sizeof text);
    if (spec->actor)
        snprintf(text, sizeof text, "a job for an actor is made by manta_actor_new");
    if (code == MT_OK)
        reply_job(h, call, HEAD_SUBMIT, job);
    else if (code == MT_EDISK_FULL)
        out_refuse(h, call, mt_error(code, 0, HEAD_FULL_TEXT)); /* at once: replies wait for the disk */
    else
        reply_error(h, call, HEAD_SUBMIT, code, text);
}

/* The same id with the same content is the same job, however often it comes. */
static void submit(struct head *h, uint64_t call, const Manta__V1__SubmitRequest *request)
{
    if (!request->spec) {
        reply_error(h, call, HEAD_SUBMIT, MT_EINVAL, "the request has no job");
        return;
    }
    struct job *job = jobs_find(h, request->spec->id);
    if (!job) {
        submit_new(h, call, request->spec);
    } else if (spec_equal(job->spec, request->spec)) {
        h->count.job_repeat++;
        reply_job(h, call, HEAD_SUBMIT, job);
    } else {
        reply_error(h, call, HEAD_SUBMIT, MT_EEXIST, "another job has this id: draw a new id for a new job");
    }
}

/* ---- wait ---- */

static void wait_free(struct head *h, struct wait *w)
{
    mt_heap_remove(&h->waits, &w->due);
    mt_map_remove(&h->wait_calls, mt_map_key(w->call));
    w->job->waits--;
    free(w);
}

static void wait_job(struct head *h, uint64_t call, const Manta__V1__WaitJobRequest *request)
{
    struct job *job = job_or_error(h, call, HEAD_WAIT_JOB, request->id);
    if (!job)
        return;
    if (jobs_has_ended(job) || request->wait_ms == 0) {
        reply_job(h, call, HEAD_WAIT_JOB, job);
        return;
    }
    if (h->wait_calls.count >= MT_HEAD_WAITS_MAX) {
        reply_error(h, call, HEAD_WAIT_JOB, MT_EAGAIN, "too many clients wait already: ask again later");
        return;
    }
    struct wait *w = calloc(1, sizeof *w);
    uint64_t     ms = request->wait_ms < MT_HEAD_WAIT_MS_MAX ? request->wait_ms : MT_HEAD_WAIT_MS_MAX;
    if (!w || mt_map_put_ptr(&h->wait_calls, mt_map_key(call), w).code != 0) {
        free(w);
        head_broken(h, mt_error(MT_ENOMEM, 0, "park a call"));
        return;
    }
    w->call = call;
    w->job = job;
    job->waits++;
    HEAD_TRY(h, mt_heap_push(&h->waits, &w->due, h->now_ms + ms));
}

void calls_gone(struct head *h, uint64_t call)
{
    struct wait *w = mt_map_ptr(&h->wait_calls, mt_map_key(call));
    if (w)
        wait_free(h, w);
    queries_call_gone(h, call);
}

static void wait_answer(struct head *h, struct wait *w)
{
    reply_job(h, w->call, HEAD_WAIT_JOB, w->job);
    wait_free(h, w);
}

void calls_job_ended(struct head *h, struct job *job)
{
    if (job->waits == 0)
        return;
    MT_MAP_EACH(&h->wait_calls, entry) {
        struct wait *w = entry->value.ptr;
        if (w->job == job)
            wait_answer(h, w);
    }
}

void calls_tick(struct head *h)
{
    for (mt_heap_node *due; (due = mt_heap_first(&h->waits)) && due->key <= h->now_ms;)
        wait_answer(h, mt_container_of(due, struct wait, due));
}

/* ---- the rest ---- */

/* The newest first, as many as fit into one message. */
static void list_jobs(struct head *h, uint64_t call)
{
    Manta__V1__ListJobsReply reply = MANTA__V1__LIST_JOBS_REPLY__INIT;
    job_info                *items = calloc(h->jobs.count + 1, sizeof *items);
    size_t                   size = 0;
    reply.jobs = calloc(h->jobs.count + 1, sizeof(job_info *));
    if (!items || !reply.jobs)
        head_broken(h, mt_error(MT_ENOMEM, 0, "list the jobs"));
    for (struct head_index_node *at = h->jobs.last; at && h->broken.code == 0; at = at->prev) {
        job_info *info = &items[reply.n_jobs];
        info_fill(mt_container_of(at, struct job, at), info);
        size += manta__v1__job_info__get_packed_size(info) + 8;
        if (size > MT_HEAD_LIST_BYTES_MAX)
            break;
        reply.jobs[reply.n_jobs++] = info;
    }
    if (h->broken.code == 0)
        out_reply(h, call, HEAD_LIST_JOBS, &reply.base);
    free(items);
    free(reply.jobs);
}

static void stop_job(struct head *h, uint64_t call, const Manta__V1__JobRequest *request)
{
    struct job *job = job_or_error(h, call, HEAD_STOP_JOB, request->id);
    if (!job)
        return;
    attempts_stop(h, job, "stopped on request");
    reply_job(h, call, HEAD_STOP_JOB, job);
}

static void delete_job(struct head *h, uint64_t call, const Manta__V1__JobRequest *request)
{
    char        text[HEAD_TEXT_SIZE];
    struct job *job = job_or_error(h, call, HEAD_DELETE_JOB, request->id);
    if (!job)
        return;
    if (!jobs_has_ended(job)) {
        snprintf(text, sizeof text, "job %.64s is %s: only a job that has ended can be deleted; stop it first", request->id,
                 jobs_state_text(job->state));
        reply_error(h, call, HEAD_DELETE_JOB, MT_EINVAL, text);
        return;
    }
    reply_job(h, call, HEAD_DELETE_JOB, job); /* it leaves when the store has the change */
    blobs_release(h, job->spec);
    h->count.job_deleted++;
    jobs_forget(h, job);
}

/* The whole cluster ends: the raylets are told, then the head goes once everything is out. */
static void shut_down(struct head *h, uint64_t call, const Manta__V1__ShutdownRequest *request)
{
    Manta__V1__ShutdownReply reply = MANTA__V1__SHUTDOWN_REPLY__INIT;
    Manta__V1__HeadShutdown  order = MANTA__V1__HEAD_SHUTDOWN__INIT;
    to_node                  message = MANTA__V1__HEAD_TO_NODE__INIT;
    mt_log(MT_LOG_INFO, "shutdown", "reason=\"%.200s\"", request->reason);
    order.reason = request->reason;
    message.kind_case = MANTA__V1__HEAD_TO_NODE__KIND_SHUTDOWN;
    message.shutdown = &order;
    MT_MAP_EACH(&h->streams, entry)
        out_send(h, entry->value.ptr, &message, true);
    out_reply(h, call, HEAD_SHUTDOWN, &reply.base);
    out_exit(h, mt_ok(), true);
    h->is_ending = true;
}

static const ProtobufCMessageDescriptor *request_type(enum head_method method)
{
    switch (method) {
    case HEAD_SUBMIT: return &manta__v1__submit_request__descriptor;
    case HEAD_GET_JOB:
    case HEAD_STOP_JOB:
    case HEAD_DELETE_JOB: return &manta__v1__job_request__descriptor;
    case HEAD_WAIT_JOB: return &manta__v1__wait_job_request__descriptor;
    case HEAD_LIST_JOBS: return &manta__v1__list_jobs_request__descriptor;
    case HEAD_HAS_BLOBS: return &manta__v1__has_blobs_request__descriptor;
    case HEAD_LIST_NODES: return &manta__v1__list_nodes_request__descriptor;
    case HEAD_SHUTDOWN: return &manta__v1__shutdown_request__descriptor;
    case HEAD_QUERY: return &manta__v1__query_request__descriptor;
    }
    return NULL;
}

static void dispatch(struct head *h, uint64_t call, enum head_method method, const ProtobufCMessage *request)
{
    struct job *job;
    switch (method) {
    case HEAD_SUBMIT: submit(h, call, (const Manta__V1__SubmitRequest *)request); break;
    case HEAD_GET_JOB:
        if ((job = job_or_error(h, call, method, ((const Manta__V1__JobRequest *)request)->id)))
            reply_job(h, call, method, job);
        break;
    case HEAD_WAIT_JOB: wait_job(h, call, (const Manta__V1__WaitJobRequest *)request); break;
    case HEAD_LIST_JOBS: list_jobs(h, call); break;
    case HEAD_STOP_JOB: stop_job(h, call, (const Manta__V1__JobRequest *)request); break;
    case HEAD_DELETE_JOB: delete_job(h, call, (const Manta__V1__JobRequest *)request); break;
    case HEAD_HAS_BLOBS: blobs_has(h, call, (const Manta__V1__HasBlobsRequest *)request); break;
    case HEAD_LIST_NODES: nodes_list(h, call); break;
    case HEAD_SHUTDOWN: shut_down(h, call, (const Manta__V1__ShutdownRequest *)request); break;
    case HEAD_QUERY: queries_take(h, call, (const Manta__V1__QueryRequest *)request); break;
    }
}

/* Its reply would wait for the disk. A repeated submission does, since it may have been taken in; so does who waits anyway. */
static bool is_refused_for_room(const struct head *h, enum head_method method)
{
    return h->room == HEAD_ROOM_NONE && method != HEAD_SUBMIT && method != HEAD_WAIT_JOB;
}

void calls_take(struct head *h, const struct head_event *event)
{
    if (is_refused_for_room(h, event->method)) {
        h->count.no_room++;
        out_refuse(h, event->call, mt_error(MT_EDISK_FULL, 0, HEAD_FULL_TEXT));
        return;
    }
    const ProtobufCMessageDescriptor *type = request_type(event->method);
    ProtobufCMessage *request = type ? protobuf_c_message_unpack(type, NULL, event->bytes_size, event->bytes) : NULL;
    if (!request) {
        h->count.malformed++;
        out_refuse(h, event->call, mt_error(MT_EPROTO, 0, "the request can't be read"));
        return;
    }
    dispatch(h, event->call, event->method, request);
    protobuf_c_message_free_unpacked(request, NULL);
}
