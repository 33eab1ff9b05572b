/* SPDX-License-Identifier: Apache-2.0
 *
 * calls.c - what clients ask: submit, look, wait, stop; and the end of the cluster.
 *
 * Always:  each call gets exactly one reply or refusal, unless its caller has left.
 */

#include "scheduler/head/core/account/account.h"
#include "scheduler/head/core/calls/calls.h"
#include "scheduler/head/core/jobs/blobs.h"
#include "scheduler/head/core/jobs/attempts.h"
#include "scheduler/head/core/jobs/jobs.h"
#include "scheduler/head/core/jobs/queue.h"
#include "scheduler/head/core/trust/trust.h"

#include "core/base/plant.h"

#include <stdlib.h>

/* ---- submit ---- */

static void submit_new(struct head *h, uint64_t call, const struct head_who *who, const job_spec *spec, const uint32_t *indices)
{
    char        text[HEAD_TEXT_SIZE] = "";
    struct job *job;
    int32_t     code = head_jobs_submit(h, spec, indices, who->name, &job, text, sizeof text);
    if (code == MT_OK)
        head_jobs_reply(h, call, HEAD_SUBMIT, job);
    else if (code == MT_EDISK_FULL || (code == MT_EAGAIN && h->room == HEAD_ROOM_AWAY))
        head_out_refuse(h, call, head_room_refusal(h)); /* at once: replies wait for the store */
    else
        head_jobs_reply_error(h, call, HEAD_SUBMIT, code, text);
}

/* Whether it is what was submitted before: of an array one of its jobs is looked at, and the indices of all. */
static bool is_again(const struct job *job, const struct head_who *who, const job_spec *spec, const uint32_t *indices)
{
    job_spec *first = NULL;
    bool      is_same = strcmp(job->user, who->name) == 0;
    if (is_same && spec->array_count)
        is_same = job->array && !head_array_spec(spec, job->spec->array_index, &first).code && head_spec_equal(job->spec, first) &&
                  head_array_has(job->array, indices, spec->array_count);
    else if (is_same)
        is_same = head_spec_equal(job->spec, spec);
    if (first)
        manta__v1__job_spec__free_unpacked(first, NULL);
    return is_same;
}

/* The job, or the first that is there of the array. */
static struct job *find_submitted(struct head *h, const job_spec *spec)
{
    struct job         *job = head_jobs_find(h, spec->id);
    const struct array *a = job ? NULL : head_array_find(h, spec->id);
    return a ? mt_container_of(mt_sorted_first(&a->jobs), struct job, in_array) : job;
}

/* Why a client may not submit such a job, whatever the cluster has; NULL: nothing is against it. */
static const char *client_refusal(const job_spec *spec)
{
    if (spec->actor)
        return "a job for an actor is made by manta_actor_new";
    if (spec->array_id[0] || spec->array_index)
        return "a job of an array is made by submitting the array: array_count";
    if (spec->array_count && strlen(spec->id) > HEAD_JOB_ID_SIZE - 8)
        return "the id of an array has at most 56 bytes: its jobs have an index more";
    return NULL;
}

/* The same id with the same content from the same user is the same job, however often it comes. */
static void submit_known(struct head *h, uint64_t call, const struct head_who *who, const Manta__V1__SubmitRequest *request,
                         const uint32_t *indices)
{
    const job_spec *spec = request->spec;
    struct job     *job = find_submitted(h, spec);
    const char     *why = client_refusal(spec);
    if (why) {
        head_jobs_reply_error(h, call, HEAD_SUBMIT, MT_EINVAL, why);
    } else if (!job && spec->priority > 0 && who->right < MT_MAY_ADMIN) {
        head_jobs_reply_error(h, call, HEAD_SUBMIT, MT_EAUTH, "a priority above 0 is for admin to give: 0 or less is yours");
    } else if (!job && spec->node && who->right < MT_MAY_ADMIN) {
        head_jobs_reply_error(h, call, HEAD_SUBMIT, MT_EAUTH,
                              "a job with a node that it names (manta exec) needs a token that is good for admin");
    } else if (!job) {
        submit_new(h, call, who, spec, indices);
    } else if (is_again(job, who, spec, indices)) {
        h->count.job_repeat++;
        head_jobs_reply(h, call, HEAD_SUBMIT, job);
    } else {
        head_jobs_reply_error(h, call, HEAD_SUBMIT, MT_EEXIST, "another job has this id: draw a new id for a new job");
    }
}

static void submit(struct head *h, uint64_t call, const struct head_who *who, const Manta__V1__SubmitRequest *request)
{
    char      text[HEAD_TEXT_SIZE];
    uint32_t *indices = NULL;
    int32_t   code = MT_EINVAL;
    if (request->spec)
        code = head_array_indices(h, request, &indices, text, sizeof text);
    else
        snprintf(text, sizeof text, "the request has no job");
    if (code)
        head_jobs_reply_error(h, call, HEAD_SUBMIT, code, text);
    else
        submit_known(h, call, who, request, indices);
    free(indices);
}

/* ---- the rest ---- */

/* The job, if there is one, and he may do something with it; NULL: the call was told why not. */
static struct job *find_own(struct head *h, uint64_t call, enum head_method method, const struct head_who *who, const char *id)
{
    char        text[HEAD_TEXT_SIZE];
    struct job *job = head_jobs_find_or_error(h, call, method, id);
    if (!job || who->right >= MT_MAY_ADMIN || strcmp(job->user, who->name) == 0 || MT_PLANT(MT_PLANT_TOKEN_ANYBODY))
        return job;
    snprintf(text, sizeof text,
             "job %.64s is not of \"%s\" but of \"%s\": a token that is good for submit has to do with its own jobs", id, who->name,
             job->user[0] ? job->user : "the cluster");
    h->count.token_refused++;
    head_jobs_reply_error(h, call, method, MT_EAUTH, text);
    return NULL;
}

/* What is asked of a job, or of all jobs of an array. */
struct each {
    const struct head_who *who;
    enum head_method       method;
    struct job            *first; /* that it was done to */
};

static void do_to(struct head *h, struct job *job, void *user)
{
    struct each *each = user;
    if (each->who->right < MT_MAY_ADMIN && strcmp(job->user, each->who->name) != 0)
        return;
    each->first = each->first ? each->first : job;
    if (each->method == HEAD_STOP_JOB)
        head_attempts_stop(h, job, "stopped on request");
    else if (job->state == JOB_PENDING)
        head_queue_hold(h, job, each->method == HEAD_HOLD_JOB);
}

/* True: it was an array, and the call is answered. */
static bool to_array(struct head *h, uint64_t call, enum head_method method, const struct head_who *who, const char *id)
{
    struct each each = {who, method, NULL};
    if (head_jobs_find(h, id) || head_array_each(h, id, do_to, &each) == 0)
        return false;
    if (each.first)
        head_jobs_reply(h, call, method, each.first);
    else
        head_jobs_reply_error(h, call, method, MT_EAUTH,
                              "the array is another user's: a token that is good for submit has to do with "
                              "its own jobs");
    return true;
}

static void hold_job(struct head *h, uint64_t call, enum head_method method, const struct head_who *who, const char *id)
{
    char        text[HEAD_TEXT_SIZE];
    struct job *job = to_array(h, call, method, who, id) ? NULL : find_own(h, call, method, who, id);
    if (!job)
        return;
    if (job->state != JOB_PENDING) {
        snprintf(text, sizeof text, "job %.64s is %s: only one that waits is held or released", id,
                 head_jobs_state_text(job->state));
        head_jobs_reply_error(h, call, method, MT_EINVAL, text);
        return;
    }
    head_queue_hold(h, job, method == HEAD_HOLD_JOB);
    head_jobs_reply(h, call, method, job);
}

static void stop_job(struct head *h, uint64_t call, const struct head_who *who, const Manta__V1__JobRequest *request)
{
    if (to_array(h, call, HEAD_STOP_JOB, who, request->id))
        return;
    struct job *job = find_own(h, call, HEAD_STOP_JOB, who, request->id);
    if (!job)
        return;
    head_attempts_stop(h, job, "stopped on request");
    head_jobs_reply(h, call, HEAD_STOP_JOB, job);
}

static void signal_job(struct head *h, uint64_t call, const struct head_who *who, const Manta__V1__SignalJobRequest *request)
{
    char        text[HEAD_TEXT_SIZE];
    struct job *job = find_own(h, call, HEAD_SIGNAL_JOB, who, request->id);
    if (!job)
        return;
    if (request->signal < 1 || request->signal > MT_HEAD_JOB_SIGNAL_MAX) {
        snprintf(text, sizeof text, "there is no signal %d: 1 to %d are signals", request->signal, MT_HEAD_JOB_SIGNAL_MAX);
        head_jobs_reply_error(h, call, HEAD_SIGNAL_JOB, MT_EINVAL, text);
    } else if (!head_attempts_signal(h, job, request->signal)) {
        snprintf(text, sizeof text, "job %.64s is %s: only one that runs takes a signal", request->id,
                 head_jobs_state_text(job->state));
        head_jobs_reply_error(h, call, HEAD_SIGNAL_JOB, MT_EINVAL, text);
    } else {
        head_jobs_reply(h, call, HEAD_SIGNAL_JOB, job);
    }
}

static void delete_job(struct head *h, uint64_t call, const struct head_who *who, const Manta__V1__JobRequest *request)
{
    char        text[HEAD_TEXT_SIZE];
    struct job *job = find_own(h, call, HEAD_DELETE_JOB, who, request->id);
    if (!job)
        return;
    if (!head_jobs_has_ended(job)) {
        snprintf(text, sizeof text, "job %.64s is %s: only a job that has ended can be deleted; stop it first", request->id,
                 head_jobs_state_text(job->state));
        head_jobs_reply_error(h, call, HEAD_DELETE_JOB, MT_EINVAL, text);
        return;
    }
    head_jobs_reply(h, call, HEAD_DELETE_JOB, job); /* it leaves when the store has the change */
    head_blobs_release(h, job->spec);
    h->count.job_deleted++;
    head_jobs_forget(h, job);
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
        head_out_send(h, entry->value.ptr, &message, true);
    head_out_reply(h, call, HEAD_SHUTDOWN, &reply.base);
    head_out_exit(h, mt_ok(), true);
    h->is_ending = true;
}

static const ProtobufCMessageDescriptor *request_type(enum head_method method)
{
    switch (method) {
    case HEAD_SUBMIT: return &manta__v1__submit_request__descriptor;
    case HEAD_GET_JOB:
    case HEAD_STOP_JOB:
    case HEAD_HOLD_JOB:
    case HEAD_RELEASE_JOB:
    case HEAD_DELETE_JOB: return &manta__v1__job_request__descriptor;
    case HEAD_SIGNAL_JOB: return &manta__v1__signal_job_request__descriptor;
    case HEAD_WAIT_JOB: return &manta__v1__wait_job_request__descriptor;
    case HEAD_LIST_JOBS: return &manta__v1__list_jobs_request__descriptor;
    case HEAD_HAS_BLOBS: return &manta__v1__has_blobs_request__descriptor;
    case HEAD_LIST_NODES: return &manta__v1__list_nodes_request__descriptor;
    case HEAD_SHUTDOWN: return &manta__v1__shutdown_request__descriptor;
    case HEAD_QUERY: return &manta__v1__query_request__descriptor;
    case HEAD_DRAIN_NODE: return &manta__v1__drain_request__descriptor;
    case HEAD_SCALE: break; /* ../scale takes it */
    case HEAD_CERTIFY: return &manta__v1__certify_request__descriptor;
    case HEAD_CREATE_TICKET: return &manta__v1__create_ticket_request__descriptor;
    case HEAD_LIST_TICKETS: return &manta__v1__list_tickets_request__descriptor;
    case HEAD_REVOKE_TICKET: return &manta__v1__revoke_ticket_request__descriptor;
    case HEAD_REVOKE_NODE: return &manta__v1__revoke_node_request__descriptor;
    case HEAD_CREATE_TOKEN: return &manta__v1__create_token_request__descriptor;
    case HEAD_LIST_TOKENS: return &manta__v1__list_tokens_request__descriptor;
    case HEAD_REVOKE_TOKEN: return &manta__v1__revoke_token_request__descriptor;
    case HEAD_SET_USER: return &manta__v1__set_user_request__descriptor;
    case HEAD_LIST_USERS: return &manta__v1__list_users_request__descriptor;
    case HEAD_ACCOUNT: return &manta__v1__account_request__descriptor;
    case HEAD_NO_METHOD: break;
    }
    return NULL;
}

static void dispatch(struct head *h, const struct head_event *event, const ProtobufCMessage *request)
{
    const enum head_method method = event->call.method;
    const uint64_t         call = event->call.number;
    struct head_who        who;
    (void)head_tokens_who(h, event->call.token, &who); /* head_calls_open has asked */
    switch (method) {
    case HEAD_SUBMIT: submit(h, call, &who, (const Manta__V1__SubmitRequest *)request); break;
    case HEAD_GET_JOB: head_jobs_get(h, call, (const Manta__V1__JobRequest *)request); break;
    case HEAD_WAIT_JOB: head_jobs_wait(h, call, (const Manta__V1__WaitJobRequest *)request); break;
    case HEAD_LIST_JOBS: head_calls_list_jobs(h, call, (const Manta__V1__ListJobsRequest *)request); break;
    case HEAD_STOP_JOB: stop_job(h, call, &who, (const Manta__V1__JobRequest *)request); break;
    case HEAD_SIGNAL_JOB: signal_job(h, call, &who, (const Manta__V1__SignalJobRequest *)request); break;
    case HEAD_HOLD_JOB:
    case HEAD_RELEASE_JOB: hold_job(h, call, method, &who, ((const Manta__V1__JobRequest *)request)->id); break;
    case HEAD_DELETE_JOB: delete_job(h, call, &who, (const Manta__V1__JobRequest *)request); break;
    case HEAD_HAS_BLOBS: head_blobs_has(h, call, (const Manta__V1__HasBlobsRequest *)request); break;
    case HEAD_LIST_NODES: head_calls_list_nodes(h, call); break;
    case HEAD_SHUTDOWN: shut_down(h, call, (const Manta__V1__ShutdownRequest *)request); break;
    case HEAD_DRAIN_NODE: head_drain_call(h, call, (const Manta__V1__DrainRequest *)request); break;
    case HEAD_QUERY: head_queries_take(h, call, (const Manta__V1__QueryRequest *)request); break;
    case HEAD_SCALE: break;
    case HEAD_CERTIFY:
        head_certify(h, call, &event->call.peer, event->call.asks, (const Manta__V1__CertifyRequest *)request);
        break;
    case HEAD_CREATE_TICKET: head_tickets_create(h, call, (const Manta__V1__CreateTicketRequest *)request); break;
    case HEAD_LIST_TICKETS: head_tickets_list(h, call); break;
    case HEAD_REVOKE_TICKET: head_tickets_revoke(h, call, (const Manta__V1__RevokeTicketRequest *)request); break;
    case HEAD_CREATE_TOKEN: head_tokens_create(h, call, (const Manta__V1__CreateTokenRequest *)request); break;
    case HEAD_LIST_TOKENS: head_tokens_list(h, call); break;
    case HEAD_REVOKE_TOKEN: head_tokens_revoke(h, call, (const Manta__V1__RevokeTokenRequest *)request); break;
    case HEAD_ACCOUNT: head_account_call(h, call, (const Manta__V1__AccountRequest *)request); break;
    case HEAD_SET_USER: head_users_set(h, call, (const Manta__V1__SetUserRequest *)request); break;
    case HEAD_LIST_USERS: head_users_list(h, call); break;
    case HEAD_REVOKE_NODE: break; /* attached/revoke.c */
    case HEAD_NO_METHOD: break;
    }
}

/* Its reply would wait for the store. A repeated submission does, since it may have been taken in; so does who waits anyway. */
static bool is_refused_for_room(const struct head *h, enum head_method method)
{
    bool is_stuck = h->room == HEAD_ROOM_NONE || (h->room == HEAD_ROOM_AWAY && h->batches.count > 0);
    return is_stuck && method != HEAD_SUBMIT && method != HEAD_WAIT_JOB;
}

static enum mt_right needs(enum head_method method)
{
    static const uint8_t rights[] = {
#define X(name, method, right) [HEAD_##method] = right,
        HEAD_METHODS(X)
#undef X
    };
    return method == HEAD_CERTIFY ? MT_MAY_NOTHING : method < sizeof rights ? (enum mt_right)rights[method] : MT_MAY_ADMIN;
}

bool head_calls_may(struct head *h, const struct head_event *event, enum mt_right right)
{
    struct head_who who;
    bool            is_good = head_tokens_who(h, event->call.token, &who);
    if (is_good && who.right >= right)
        return true;
    h->count.token_refused++;
    head_out_refuse(h, event->call.number,
                    mt_error(MT_EAUTH, 0, is_good ? "the token is not good for that" : "the token was revoked, or has ended"));
    return false;
}

ProtobufCMessage *head_calls_open(struct head *h, const struct head_event *event)
{
    if (!head_calls_may(h, event, needs(event->call.method)))
        return NULL;
    if (is_refused_for_room(h, event->call.method)) {
        h->count.no_room++;
        head_out_refuse(h, event->call.number, head_room_refusal(h));
        return NULL;
    }
    const ProtobufCMessageDescriptor *type = request_type(event->call.method);
    ProtobufCMessage *request = type ? protobuf_c_message_unpack(type, NULL, event->call.size, event->call.bytes) : NULL;
    if (!request) {
        h->count.malformed++;
        head_out_refuse(h, event->call.number, mt_error(MT_EPROTO, 0, "the request can't be read"));
    }
    return request;
}

void head_calls_take(struct head *h, const struct head_event *event)
{
    ProtobufCMessage *request = head_calls_open(h, event);
    if (!request)
        return;
    dispatch(h, event, request);
    protobuf_c_message_free_unpacked(request, NULL);
}

void head_calls_gone(struct head *h, uint64_t call)
{
    head_jobs_call_gone(h, call);
    head_queries_call_gone(h, call);
}
