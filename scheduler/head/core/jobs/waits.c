/* SPDX-License-Identifier: Apache-2.0
 *
 * waits.c - what clients are told of a job, at once or when it ends.
 *
 * Owns:    the parked WaitJob calls.
 * Always:  nobody waits for a job that has ended.
 */

#include "scheduler/head/core/account/account.h"
#include "scheduler/head/core/jobs/jobs.h"
#include "scheduler/head/core/jobs/pace.h"
#include "scheduler/head/core/jobs/queue.h"
#include "scheduler/head/core/jobs/private.h"

void head_jobs_info(const struct head *h, const struct job *job, struct head_job_info *to)
{
    job_info   *out = &to->info;
    const char *why = job->state == JOB_RUNNING && job->spec->deadline_ms && !job->reason
                          ? head_pace_text(h, job, to->reason, sizeof to->reason)
                          : head_turns_why(job, to->reason, sizeof to->reason);
    if (why != to->reason)
        snprintf(to->reason, sizeof to->reason, "%s", why);
    *out = (job_info)MANTA__V1__JOB_INFO__INIT;
    out->spent = head_account_of_job(h, job->spec->id, &to->spent);
    out->id = job->spec->id;
    out->name = job->spec->name;
    out->user = (char *)job->user;
    out->priority = job->spec->priority;
    out->array_id = job->spec->array_id;
    out->array_index = job->spec->array_index;
    out->array_count = job->spec->array_count;
    out->is_held = job->is_held;
    out->place = job->order;
    out->state = (char *)head_jobs_state_text(job->state);
    out->reason = to->reason;
    out->exit_code = job->exit_code;
    out->attempt = job->attempt;
    out->node = job->node;
    out->submitted_ms = job->submitted_ms;
    out->started_ms = job->started_ms;
    out->ended_ms = job->ended_ms;
    out->log_size = job->log_size;
    out->pid = job->pid;
    out->deadline_ms = job->spec->deadline_ms;
    out->n_argv = job->spec->n_argv;
    out->argv = job->spec->argv;
    out->n_metadata = job->spec->n_metadata;
    out->metadata = job->spec->metadata;
    if (job->spec->actor) {
        out->actor_space = job->spec->actor->space;
        out->actor_name = job->spec->actor->name;
    }
}

void head_jobs_info_moved(struct head_job_info *info)
{
    info->info.reason = info->reason;
    info->info.spent = info->info.spent ? &info->spent : NULL;
}

void head_jobs_reply(struct head *h, uint64_t call, enum head_method method, const struct job *job)
{
    job_reply            reply = MANTA__V1__JOB_REPLY__INIT;
    struct head_job_info to;
    head_jobs_info(h, job, &to);
    reply.job = &to.info;
    head_out_reply(h, call, method, &reply.base);
}

void head_jobs_reply_error(struct head *h, uint64_t call, enum head_method method, int32_t code, const char *text)
{
    job_reply reply = MANTA__V1__JOB_REPLY__INIT;
    reply.code = code;
    reply.text = (char *)text;
    head_out_reply(h, call, method, &reply.base);
}

static void array_info(struct array *a, Manta__V1__ArrayInfo *out)
{
    const struct job *first = mt_container_of(mt_sorted_first(&a->jobs), struct job, in_array);
    *out = (Manta__V1__ArrayInfo)MANTA__V1__ARRAY_INFO__INIT;
    out->id = a->id;
    out->name = first->spec->name;
    out->user = (char *)(uintptr_t)first->user;
    out->count = first->spec->array_count;
    out->pending = a->in[JOB_PENDING] + a->in[JOB_STARTING];
    out->running = a->in[JOB_RUNNING];
    out->succeeded = a->in[JOB_SUCCEEDED];
    out->failed = a->in[JOB_FAILED];
    out->stopped = a->in[JOB_STOPPED];
    if (out->failed + out->stopped == 0)
        return;
    for (mt_sorted_node *at = mt_sorted_first(&a->jobs); at; at = mt_sorted_after(&a->jobs, at->key)) {
        const struct job *job = mt_container_of(at, struct job, in_array);
        if (job->state == JOB_FAILED || job->state == JOB_STOPPED) {
            out->first_failed = job->spec->array_index;
            return;
        }
    }
}

static void reply_array(struct head *h, uint64_t call, enum head_method method, struct array *a)
{
    job_reply            reply = MANTA__V1__JOB_REPLY__INIT;
    Manta__V1__ArrayInfo info;
    array_info(a, &info);
    reply.array = &info;
    head_out_reply(h, call, method, &reply.base);
}

/* NULL: there is none, and the call has been told so. */
static struct array *array_or_error(struct head *h, uint64_t call, enum head_method method, const char *id)
{
    char          text[HEAD_TEXT_SIZE];
    struct array *a = (struct array *)(uintptr_t)head_array_find(h, id);
    if (!a) {
        snprintf(text, sizeof text, "no array has the id %.64s; ended jobs are listed for a while only", id);
        head_jobs_reply_error(h, call, method, MT_ENOENT, text);
    }
    return a;
}

void head_jobs_get(struct head *h, uint64_t call, const Manta__V1__JobRequest *request)
{
    const struct job *job = request->is_array ? NULL : head_jobs_find_or_error(h, call, HEAD_GET_JOB, request->id);
    struct array     *a = request->is_array ? array_or_error(h, call, HEAD_GET_JOB, request->id) : NULL;
    if (a)
        reply_array(h, call, HEAD_GET_JOB, a);
    else if (job)
        head_jobs_reply(h, call, HEAD_GET_JOB, job);
}

/* Its first jobs that are there: their indices may be the user's own. */
static void array_say(const struct array *a, char *text, size_t size)
{
    enum { SAID = 3 };
    int at = snprintf(text, size, "%.64s is an array: %s", a->id, a->jobs.count == 1 ? "its job is" : "its jobs are");
    const mt_sorted_node *node = mt_sorted_first(&a->jobs);
    for (int i = 0; i < SAID && node && (size_t)at < size; i++, node = mt_sorted_after(&a->jobs, node->key))
        at += snprintf(text + at, size - (size_t)at, "%s%.80s", i ? ", " : " ",
                       mt_container_of(node, struct job, in_array)->spec->id);
    if (node && (size_t)at < size)
        snprintf(text + at, size - (size_t)at, ", ...");
}

struct job *head_jobs_find_or_error(struct head *h, uint64_t call, enum head_method method, const char *id)
{
    char                text[HEAD_TEXT_SIZE];
    struct job         *job = head_jobs_find(h, id);
    const struct array *array = job ? NULL : head_array_find(h, id);
    if (array) {
        array_say(array, text, sizeof text);
        head_jobs_reply_error(h, call, method, MT_ENOENT, text);
    } else if (!job) {
        snprintf(text, sizeof text, "no job has the id %.64s; ended jobs are listed for a while only", id);
        head_jobs_reply_error(h, call, method, MT_ENOENT, text);
    }
    return job;
}

/* ---- waiting ---- */

static void wait_free(struct head *h, struct wait *w)
{
    mt_heap_remove(&h->waits, &w->due);
    mt_map_remove(&h->wait_calls, mt_map_key(w->call));
    if (w->job)
        w->job->waits--;
    else
        w->array->waits--;
    free(w);
}

static void answer_now(struct head *h, uint64_t call, const struct job *job, struct array *array)
{
    if (job)
        head_jobs_reply(h, call, HEAD_WAIT_JOB, job);
    else
        reply_array(h, call, HEAD_WAIT_JOB, array);
}

void head_jobs_wait(struct head *h, uint64_t call, const Manta__V1__WaitJobRequest *request)
{
    struct array *array = request->is_array ? array_or_error(h, call, HEAD_WAIT_JOB, request->id) : NULL;
    struct job   *job = request->is_array ? NULL : head_jobs_find_or_error(h, call, HEAD_WAIT_JOB, request->id);
    if (!job && !array)
        return;
    if ((job ? head_jobs_has_ended(job) : !head_array_active(array)) || request->wait_ms == 0) {
        answer_now(h, call, job, array);
        return;
    }
    if (h->wait_calls.count >= MT_HEAD_WAITS_MAX) {
        head_jobs_reply_error(h, call, HEAD_WAIT_JOB, MT_EAGAIN, "too many clients wait already: ask again later");
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
    w->array = array;
    *(job ? &job->waits : &array->waits) += 1;
    HEAD_TRY(h, mt_heap_push(&h->waits, &w->due, h->now_ms + ms));
}

void head_jobs_call_gone(struct head *h, uint64_t call)
{
    struct wait *w = mt_map_ptr(&h->wait_calls, mt_map_key(call));
    if (w)
        wait_free(h, w);
}

static void wait_answer(struct head *h, struct wait *w)
{
    answer_now(h, w->call, w->job, w->array);
    wait_free(h, w);
}

void head_jobs_answer_waits(struct head *h, struct job *job)
{
    bool has_array_ended = job->array && job->array->waits && !head_array_active(job->array);
    if (job->waits == 0 && !has_array_ended)
        return;
    MT_MAP_EACH(&h->wait_calls, entry) {
        struct wait *w = entry->value.ptr;
        if (w->job == job || (has_array_ended && w->array == job->array))
            wait_answer(h, w);
    }
}

void head_jobs_tick_waits(struct head *h)
{
    for (mt_heap_node *due; (due = mt_heap_first(&h->waits)) && due->key <= h->now_ms;)
        wait_answer(h, mt_container_of(due, struct wait, due));
}
