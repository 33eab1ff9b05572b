/* SPDX-License-Identifier: Apache-2.0
 *
 * jobs.c - submit, look, wait, stop, list. (follow.c: logs.)
 */
#include "clients/control/control.h"
#include "clients/control/indices.h"
#include "clients/control/spent.h"
#include "core/base/reserved.h"
#include "core/base/rng.h"
#include "core/text/amounts.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

enum { IDS_KEPT = 16, RESOURCES = 3 };

const char *manta_job_new_id(void)
{
    static _Thread_local char     ids[IDS_KEPT][24];
    static _Thread_local unsigned next;
    char                         *id = ids[next++ % IDS_KEPT];
    uint64_t                      random = 0;
    if (mt_random_bytes(&random, sizeof random).code != 0)
        random = ctl_now_ms() * 0x9e3779b97f4a7c15u ^ (uint64_t)(uintptr_t)&random; /* a kernel without getrandom */
    snprintf(id, sizeof ids[0], "job-%016" PRIx64, random);
    return id;
}

static void text_copy(char *out, size_t size, const char *text)
{
    snprintf(out, size, "%s", text ? text : "");
}

static void metadata_copy(const Manta__V1__JobInfo *from, manta_job_info *out)
{
    size_t at = 0;
    for (size_t i = 0; i < from->n_metadata && at + strlen(from->metadata[i]) + 1 < sizeof out->metadata; i++)
        at += (size_t)snprintf(out->metadata + at, sizeof out->metadata - at, "%s%s", i ? "\n" : "", from->metadata[i]);
}

static void info_copy(const Manta__V1__JobInfo *from, manta_job_info *out)
{
    memset(out, 0, sizeof *out);
    text_copy(out->id, sizeof out->id, from->id);
    text_copy(out->name, sizeof out->name, from->name);
    text_copy(out->state, sizeof out->state, from->state);
    text_copy(out->user, sizeof out->user, from->user);
    out->priority = from->priority;
    out->array_index = from->array_index;
    out->array_count = from->array_count;
    out->is_held = from->is_held;
    out->place = from->place;
    text_copy(out->array_id, sizeof out->array_id, from->array_id);
    text_copy(out->reason, sizeof out->reason, from->reason);
    out->exit_code = from->exit_code;
    out->attempt = from->attempt;
    out->node = from->node;
    out->pid = from->pid;
    out->submitted_ms = from->submitted_ms;
    out->started_ms = from->started_ms;
    out->ended_ms = from->ended_ms;
    out->log_size = from->log_size;
    out->deadline_ms = from->deadline_ms;
    ctl_spent_copy(from->spent, &out->cpu_s, &out->gpu_s, &out->memory_gib_s, &out->cost);
    metadata_copy(from, out);
    text_copy(out->actor_space, sizeof out->actor_space, from->actor_space);
    text_copy(out->actor_name, sizeof out->actor_name, from->actor_name);
}

/* One call that is answered by a JobReply without an error, which the caller frees (rpc_unpack_free). */
static manta_status reply_get(struct ctl_client *c, const char *method, const ProtobufCMessage *request, uint32_t each_ms,
                              Manta__V1__JobReply **out_reply, manta_error *e)
{
    ProtobufCMessage *message;
    manta_status      st = ctl_call(c, method, request, &manta__v1__job_reply__descriptor, c->timeout_ms, each_ms, &message, e);
    if (st != MANTA_OK)
        return st;
    *out_reply = (Manta__V1__JobReply *)message;
    if ((*out_reply)->code == MT_OK)
        return MANTA_OK;
    st = ctl_fail(e, (*out_reply)->code, MANTA_NOT_DONE, "%s", (*out_reply)->text);
    rpc_unpack_free(message);
    return st;
}

/* ... about a job. out_info may be NULL. */
static manta_status job_call(struct ctl_client *c, const char *method, const ProtobufCMessage *request, uint32_t each_ms,
                             manta_job_info *out_info, manta_error *e)
{
    Manta__V1__JobReply *reply;
    manta_status         st = reply_get(c, method, request, each_ms, &reply, e);
    if (st != MANTA_OK)
        return st;
    if (!reply->job)
        st = ctl_fail(e, MT_EPROTO, MANTA_UNKNOWN, "the answer of the head at %s has no job", c->place.address);
    else if (out_info)
        info_copy(reply->job, out_info);
    rpc_unpack_free(&reply->base);
    return st;
}

/* ---- submit ---- */

static size_t count_of(const char *const *list)
{
    size_t count = 0;
    while (list && list[count])
        count++;
    return count;
}

struct draft { /* a request, and what it points to */
    Manta__V1__SubmitRequest request;
    Manta__V1__JobSpec       spec;
    Manta__V1__Resource      resources[RESOURCES], *resource_list[RESOURCES];
    Manta__V1__JobFile      *files, **file_list;
    Manta__V1__JobAfter     *after, **after_list;
    struct ctl_indices       indices;
};

static void draft_resource(struct draft *d, const char *name, double amount, double unit)
{
    if (amount <= 0)
        return;
    Manta__V1__Resource *r = &d->resources[d->spec.n_resources];
    *r = (Manta__V1__Resource)MANTA__V1__RESOURCE__INIT;
    r->name = (char *)name;
    r->milli = (int64_t)(amount * unit + 0.5);
    d->resource_list[d->spec.n_resources++] = r;
}

static bool draft_files(struct draft *d, const struct ctl_files *files)
{
    size_t count = files->items.count;
    d->files = calloc(count + 1, sizeof *d->files);
    d->file_list = calloc(count + 1, sizeof(Manta__V1__JobFile *));
    if (!d->files || !d->file_list)
        return false;
    for (size_t i = 0; i < count; i++) {
        const struct ctl_file *from = &files->items.data[i];
        Manta__V1__JobFile    *to = d->file_list[i] = &d->files[i];
        *to = (Manta__V1__JobFile)MANTA__V1__JOB_FILE__INIT;
        to->path = from->path;
        to->sha256 = (ProtobufCBinaryData){MT_SHA256_SIZE, (uint8_t *)from->sha256};
        to->mode = from->mode;
        to->size = from->size;
    }
    d->spec.files = d->file_list;
    d->spec.n_files = count;
    return true;
}

/* In the order of their kinds. */
static const char *const after_words[] = {"afterok:", "afterany:", "afternotok:"};

static uint32_t after_kind(const char *text)
{
    for (uint32_t i = 0; i < sizeof after_words / sizeof *after_words; i++)
        if (strncmp(text, after_words[i], strlen(after_words[i])) == 0 && text[strlen(after_words[i])])
            return i + 1;
    return 0;
}

static bool draft_after(struct draft *d, const char *const *after)
{
    size_t count = count_of(after);
    d->after = calloc(count + 1, sizeof *d->after);
    d->after_list = calloc(count + 1, sizeof(Manta__V1__JobAfter *));
    if (!d->after || !d->after_list)
        return false;
    for (size_t i = 0; i < count; i++) {
        Manta__V1__JobAfter *to = d->after_list[i] = &d->after[i];
        *to = (Manta__V1__JobAfter)MANTA__V1__JOB_AFTER__INIT;
        to->kind = after_kind(after[i]);
        to->id = (char *)(uintptr_t)(strchr(after[i], ':') + 1);
    }
    d->spec.after = d->after_list;
    d->spec.n_after = count;
    return true;
}

static bool draft_init(struct draft *d, const manta_job *job, const struct ctl_files *files)
{
    memset(d, 0, sizeof *d);
    if (job->array_indices && ctl_indices_read(job->array_indices, &d->indices))
        return false; /* it was read before: there is no memory */
    d->request = (Manta__V1__SubmitRequest)MANTA__V1__SUBMIT_REQUEST__INIT;
    d->spec = (Manta__V1__JobSpec)MANTA__V1__JOB_SPEC__INIT;
    d->request.spec = &d->spec;
    d->spec.id = (char *)job->id;
    d->spec.name = (char *)(job->name ? job->name : job->id);
    d->spec.argv = (char **)(uintptr_t)job->argv;
    d->spec.n_argv = count_of(job->argv);
    d->spec.env = (char **)(uintptr_t)job->env;
    d->spec.n_env = count_of(job->env);
    d->spec.metadata = (char **)(uintptr_t)job->metadata;
    d->spec.n_metadata = count_of(job->metadata);
    d->spec.time_ms = (uint64_t)job->time_s * 1000;
    d->spec.retries = job->retries;
    d->spec.resources = d->resource_list;
    draft_resource(d, "CPU", job->cpus, 1000);
    draft_resource(d, "GPU", job->gpus, 1000);
    draft_resource(d, "memory", (double)job->memory, 1);
    d->spec.priority = job->priority;
    d->spec.array_count = job->array_indices ? d->indices.count : job->array;
    d->spec.array_most = d->indices.most;
    d->request.indices = d->indices.list;
    d->request.n_indices = d->indices.size;
    d->spec.is_held = job->hold;
    d->spec.node = job->node;
    d->spec.is_preemptible = job->preemptible;
    d->spec.deadline_ms = job->deadline_ms;
    d->spec.work_ms = (uint64_t)job->work_s * 1000;
    d->spec.resume_ms = (uint64_t)job->resume_s * 1000;
    d->spec.signal = (uint32_t)job->signal;
    d->spec.notice_ms = (uint64_t)job->notice_s * 1000;
    return draft_files(d, files) && draft_after(d, job->after);
}

static manta_status check_indices(const manta_job *job, manta_error *e)
{
    struct ctl_indices indices = {.size = 0};
    const char        *wrong = NULL;
    if (job->array_indices && job->array)
        wrong = "it is an array by its number of jobs, or by their indices";
    else if (job->array_indices)
        wrong = ctl_indices_read(job->array_indices, &indices);
    ctl_indices_fini(&indices);
    return wrong ? ctl_fail(e, MT_EINVAL, MANTA_NOT_DONE, "job %.64s: array \"%.80s\": %s", job->id, job->array_indices, wrong)
                 : MANTA_OK;
}

static manta_status check_job(const manta_job *job, manta_error *e)
{
    if (!job)
        return ctl_fail(e, MT_EINVAL, MANTA_NOT_DONE, "manta_job_submit: job is NULL");
    if (!job->id || !job->id[0])
        return ctl_fail(e, MT_EINVAL, MANTA_NOT_DONE, "the job has no id: set .id = manta_job_new_id()");
    if (!job->argv || !job->argv[0])
        return ctl_fail(e, MT_EINVAL, MANTA_NOT_DONE, "job %.64s has no argv: name the program to run", job->id);
    if (MT_RESERVED_IS_USED(job))
        return ctl_fail(e, MT_EINVAL, MANTA_NOT_DONE, MT_RESERVED_TEXT, "manta_job_submit");
    if (job->time_s < 0 || job->work_s < 0 || job->resume_s < 0 || job->cpus < 0 || job->gpus < 0 || job->memory < 0)
        return ctl_fail(e, MT_EINVAL, MANTA_NOT_DONE, "job %.64s: time, work, resume, cpus, gpus and memory can't be negative",
                        job->id);
    const char *wrong = mt_amount_wrong("CPU", job->cpus);
    wrong = wrong ? wrong : mt_amount_wrong("GPU", job->gpus);
    if (wrong)
        return ctl_fail(e, MT_EINVAL, MANTA_NOT_DONE, "job %.64s wants %g CPUs and %g GPUs: %s", job->id, job->cpus, job->gpus,
                        wrong);
    for (size_t i = 0; job->after && job->after[i]; i++)
        if (!after_kind(job->after[i]))
            return ctl_fail(e, MT_EINVAL, MANTA_NOT_DONE,
                            "job %.64s waits for \"%.80s\": afterok:ID, afterany:ID or afternotok:ID is wanted", job->id,
                            job->after[i]);
    return check_indices(job, e);
}

static manta_status job_submit(struct ctl_client *c, const manta_job *job, manta_error *e)
{
    struct ctl_files files;
    struct draft     draft;
    manta_status     st = ctl_files_collect(job->files, &files, e);
    if (st != MANTA_OK)
        return st;
    bool has_memory = draft_init(&draft, job, &files);
    for (int n = 0; n < 2; n++) { /* again where the head has dropped a file between upload and submission */
        st = has_memory ? ctl_upload(c, &files, e) : ctl_fail(e, MT_ENOMEM, MANTA_NOT_DONE, "no memory for a job");
        if (st == MANTA_OK)
            st = job_call(c, "/manta.v1.Head/Submit", &draft.request.base, MT_CALL_MS, NULL, e);
        if (st != MT_ENOENT)
            break;
    }
    free(draft.files);
    free(draft.file_list);
    free(draft.after);
    free(draft.after_list);
    ctl_indices_fini(&draft.indices);
    ctl_files_fini(&files);
    return st;
}

manta_status manta_job_submit(manta_client *client, const manta_job *job, manta_error *e)
{
    struct ctl_client *c;
    manta_status       st = check_job(job, e);
    if (st == MANTA_OK)
        st = ctl_enter(client, "manta_job_submit", &c, e);
    return st != MANTA_OK ? st : ctl_leave(client, job_submit(c, job, e));
}

/* ---- look, wait, stop ---- */

manta_status ctl_job_get(struct ctl_client *c, const char *id, manta_job_info *out_info, manta_error *e)
{
    Manta__V1__JobRequest request = MANTA__V1__JOB_REQUEST__INIT;
    request.id = (char *)id;
    return job_call(c, "/manta.v1.Head/GetJob", &request.base, MT_CALL_MS, out_info, e);
}

manta_status manta_job_get(manta_client *client, const char *id, manta_job_info *out_info, manta_error *e)
{
    struct ctl_client *c;
    manta_status       st = ctl_enter_given(client, "manta_job_get", id, "id", &c, e);
    return st != MANTA_OK ? st : ctl_leave(client, ctl_job_get(c, id, out_info, e));
}

static manta_status job_stop(struct ctl_client *c, const char *id, manta_error *e)
{
    Manta__V1__JobRequest request = MANTA__V1__JOB_REQUEST__INIT;
    request.id = (char *)id;
    return job_call(c, "/manta.v1.Head/StopJob", &request.base, MT_CALL_MS, NULL, e);
}

manta_status manta_job_stop(manta_client *client, const char *id, manta_error *e)
{
    struct ctl_client *c;
    manta_status       st = ctl_enter_given(client, "manta_job_stop", id, "id", &c, e);
    return st != MANTA_OK ? st : ctl_leave(client, job_stop(c, id, e));
}

manta_status manta_job_signal(manta_client *client, const char *id, int signal, manta_error *e)
{
    Manta__V1__SignalJobRequest request = MANTA__V1__SIGNAL_JOB_REQUEST__INIT;
    struct ctl_client          *c;
    manta_status                st = ctl_enter_given(client, "manta_job_signal", id, "id", &c, e);
    request.id = (char *)(uintptr_t)id;
    request.signal = signal;
    return st != MANTA_OK ? st : ctl_leave(client, job_call(c, "/manta.v1.Head/SignalJob", &request.base, MT_CALL_MS, NULL, e));
}

static manta_status job_verb(manta_client *client, const char *id, const char *name, const char *method, manta_error *e)
{
    Manta__V1__JobRequest request = MANTA__V1__JOB_REQUEST__INIT;
    struct ctl_client    *c;
    manta_status          st = ctl_enter_given(client, name, id, "id", &c, e);
    request.id = (char *)(uintptr_t)id;
    return st != MANTA_OK ? st : ctl_leave(client, job_call(c, method, &request.base, MT_CALL_MS, NULL, e));
}

manta_status manta_job_hold(manta_client *client, const char *id, manta_error *e)
{
    return job_verb(client, id, "manta_job_hold", "/manta.v1.Head/HoldJob", e);
}

manta_status manta_job_release(manta_client *client, const char *id, manta_error *e)
{
    return job_verb(client, id, "manta_job_release", "/manta.v1.Head/ReleaseJob", e);
}

static manta_status job_delete(struct ctl_client *c, const char *id, manta_error *e)
{
    Manta__V1__JobRequest request = MANTA__V1__JOB_REQUEST__INIT;
    manta_status          st = ctl_job_get(c, id, NULL, e);
    request.id = (char *)id;
    if (st != MANTA_OK)
        return st;
    st = job_call(c, "/manta.v1.Head/DeleteJob", &request.base, MT_CALL_MS, NULL, e);
    return st == MANTA_ENOENT ? MANTA_OK : st; /* it was there: an earlier try, or somebody else, has deleted it */
}

manta_status manta_job_delete(manta_client *client, const char *id, manta_error *e)
{
    struct ctl_client *c;
    manta_status       st = ctl_enter_given(client, "manta_job_delete", id, "id", &c, e);
    return st != MANTA_OK ? st : ctl_leave(client, job_delete(c, id, e));
}

static bool has_ended(const manta_job_info *info)
{
    return strcmp(info->state, "PENDING") != 0 && strcmp(info->state, "RUNNING") != 0;
}

/* What is left of the caller's time, and how long the head is asked to wait this time. */
static uint64_t wait_left(uint64_t begin_ms, int64_t timeout_ms, Manta__V1__WaitJobRequest *request)
{
    uint64_t passed = ctl_now_ms() - begin_ms;
    uint64_t left = timeout_ms < 0 ? MT_CTL_WAIT_MS : (uint64_t)timeout_ms > passed ? (uint64_t)timeout_ms - passed : 0;
    request->wait_ms = left < MT_CTL_WAIT_MS ? (uint32_t)left : MT_CTL_WAIT_MS;
    return left;
}

static manta_status job_wait(struct ctl_client *c, const char *id, int64_t timeout_ms, manta_job_info *out_info, manta_error *e)
{
    Manta__V1__WaitJobRequest request = MANTA__V1__WAIT_JOB_REQUEST__INIT;
    manta_job_info            info;
    uint64_t                  begin = ctl_now_ms();
    request.id = (char *)id;
    for (;;) {
        uint64_t     left = wait_left(begin, timeout_ms, &request);
        manta_status st = job_call(c, "/manta.v1.Head/WaitJob", &request.base, MT_CTL_WAIT_MS + MT_CALL_MS, &info, e);
        if (st == MANTA_ECONN && (timeout_ms < 0 || left > 0))
            continue; /* the caller's limit counts, not ours */
        if (st != MANTA_OK)
            return st;
        if (out_info)
            *out_info = info;
        if (has_ended(&info))
            return MANTA_OK;
        if (left == 0)
            return ctl_fail(e, MT_ETIMEDOUT, MANTA_NOT_DONE, "job %.64s is still %s after %" PRId64 " ms: %.300s", id, info.state,
                            timeout_ms, info.reason);
    }
}

manta_status manta_job_wait(manta_client *client, const char *id, int64_t timeout_ms, manta_job_info *out_info, manta_error *e)
{
    struct ctl_client *c;
    manta_status       st = ctl_enter_given(client, "manta_job_wait", id, "id", &c, e);
    return st != MANTA_OK ? st : ctl_leave(client, job_wait(c, id, timeout_ms, out_info, e));
}

static manta_status job_list(struct ctl_client *c, manta_job_info **out_jobs, size_t *out_count, manta_error *e)
{
    Manta__V1__ListJobsRequest request = MANTA__V1__LIST_JOBS_REQUEST__INIT;
    ProtobufCMessage          *message;
    manta_status st = ctl_call(c, "/manta.v1.Head/ListJobs", &request.base, &manta__v1__list_jobs_reply__descriptor, c->timeout_ms,
                               MT_CALL_MS, &message, e);
    if (st != MANTA_OK)
        return st;
    const Manta__V1__ListJobsReply *reply = (const Manta__V1__ListJobsReply *)message;
    manta_job_info                 *jobs = calloc(reply->n_jobs + 1, sizeof *jobs);
    if (jobs) {
        for (size_t i = 0; i < reply->n_jobs; i++)
            info_copy(reply->jobs[i], &jobs[i]);
        *out_jobs = jobs;
        *out_count = reply->n_jobs;
    }
    rpc_unpack_free(message);
    return jobs ? MANTA_OK : ctl_fail(e, MT_ENOMEM, MANTA_NOT_DONE, "no memory for the list of jobs");
}

manta_status manta_job_list(manta_client *client, manta_job_info **out_jobs, size_t *out_count, manta_error *e)
{
    struct ctl_client *c;
    manta_status       st = ctl_enter_given(client, "manta_job_list", out_jobs && out_count, "out_jobs and out_count", &c, e);
    return st != MANTA_OK ? st : ctl_leave(client, job_list(c, out_jobs, out_count, e));
}

/* ---- arrays ---- */

static void array_copy(const Manta__V1__ArrayInfo *from, manta_job_array_info *out)
{
    memset(out, 0, sizeof *out);
    text_copy(out->id, sizeof out->id, from->id);
    text_copy(out->name, sizeof out->name, from->name);
    text_copy(out->user, sizeof out->user, from->user);
    out->count = from->count;
    out->pending = from->pending;
    out->running = from->running;
    out->succeeded = from->succeeded;
    out->failed = from->failed;
    out->stopped = from->stopped;
    out->first_failed = from->first_failed;
}

/* ... about an array. out_info may be NULL. */
static manta_status array_call(struct ctl_client *c, const char *method, const ProtobufCMessage *request, uint32_t each_ms,
                               manta_job_array_info *out_info, manta_error *e)
{
    Manta__V1__JobReply *reply;
    manta_status         st = reply_get(c, method, request, each_ms, &reply, e);
    if (st != MANTA_OK)
        return st;
    if (!reply->array)
        st = ctl_fail(e, MT_EUNSUPPORTED, MANTA_NOT_DONE, "the head at %s is of an older release, which can't sum up an array",
                      c->place.address);
    else if (out_info)
        array_copy(reply->array, out_info);
    rpc_unpack_free(&reply->base);
    return st;
}

static manta_status array_get(struct ctl_client *c, const char *id, manta_job_array_info *out_info, manta_error *e)
{
    Manta__V1__JobRequest request = MANTA__V1__JOB_REQUEST__INIT;
    request.id = (char *)(uintptr_t)id;
    request.is_array = true;
    return array_call(c, "/manta.v1.Head/GetJob", &request.base, MT_CALL_MS, out_info, e);
}

manta_status manta_job_array_get(manta_client *client, const char *id, manta_job_array_info *out_info, manta_error *e)
{
    struct ctl_client *c;
    manta_status       st = ctl_enter_given(client, "manta_job_array_get", id, "id", &c, e);
    return st != MANTA_OK ? st : ctl_leave(client, array_get(c, id, out_info, e));
}

static manta_status array_wait(struct ctl_client *c, const char *id, int64_t timeout_ms, manta_job_array_info *out_info,
                               manta_error *e)
{
    Manta__V1__WaitJobRequest request = MANTA__V1__WAIT_JOB_REQUEST__INIT;
    manta_job_array_info      info;
    uint64_t                  begin = ctl_now_ms();
    request.id = (char *)(uintptr_t)id;
    request.is_array = true;
    for (;;) {
        uint64_t     left = wait_left(begin, timeout_ms, &request);
        manta_status st = array_call(c, "/manta.v1.Head/WaitJob", &request.base, MT_CTL_WAIT_MS + MT_CALL_MS, &info, e);
        if (st == MANTA_ECONN && (timeout_ms < 0 || left > 0))
            continue; /* the caller's limit counts, not ours */
        if (st != MANTA_OK)
            return st;
        if (out_info)
            *out_info = info;
        if (info.pending + info.running == 0)
            return MANTA_OK;
        if (left == 0)
            return ctl_fail(e, MT_ETIMEDOUT, MANTA_NOT_DONE, "array %.64s has %u jobs that have not ended after %" PRId64 " ms", id,
                            info.pending + info.running, timeout_ms);
    }
}

manta_status manta_job_array_wait(manta_client *client, const char *id, int64_t timeout_ms, manta_job_array_info *out_info,
                                  manta_error *e)
{
    struct ctl_client *c;
    manta_status       st = ctl_enter_given(client, "manta_job_array_wait", id, "id", &c, e);
    return st != MANTA_OK ? st : ctl_leave(client, array_wait(c, id, timeout_ms, out_info, e));
}

/* ---- the queue: page by page ---- */

struct queue {
    manta_job_info *jobs;
    size_t          count, total;
};

static manta_status queue_page(struct ctl_client *c, size_t skip, size_t limit, struct queue *out, manta_error *e)
{
    Manta__V1__ListJobsRequest request = MANTA__V1__LIST_JOBS_REQUEST__INIT;
    ProtobufCMessage          *message;
    request.queue = true;
    request.skip = skip;
    request.limit = limit < UINT32_MAX ? (uint32_t)limit : UINT32_MAX;
    manta_status st = ctl_call(c, "/manta.v1.Head/ListJobs", &request.base, &manta__v1__list_jobs_reply__descriptor, c->timeout_ms,
                               MT_CALL_MS, &message, e);
    if (st != MANTA_OK)
        return st;
    const Manta__V1__ListJobsReply *reply = (const Manta__V1__ListJobsReply *)message;
    manta_job_info                 *jobs = realloc(out->jobs, (out->count + reply->n_jobs + 1) * sizeof *jobs);
    if (reply->total < reply->n_jobs)
        st = ctl_fail(e, MT_EUNSUPPORTED, MANTA_NOT_DONE, "the head at %s is of an older release, which can't list its queue",
                      c->place.address);
    else if (!jobs)
        st = ctl_fail(e, MT_ENOMEM, MANTA_NOT_DONE, "no memory for the queue");
    for (size_t i = 0; st == MANTA_OK && i < reply->n_jobs; i++)
        info_copy(reply->jobs[i], &jobs[out->count + i]);
    out->jobs = jobs ? jobs : out->jobs;
    out->count += st == MANTA_OK ? reply->n_jobs : 0;
    out->total = reply->total;
    rpc_unpack_free(message);
    return st;
}

static manta_status job_queue(struct ctl_client *c, size_t skip, size_t limit, struct queue *out, manta_error *e)
{
    manta_status st;
    size_t       before;
    do {
        before = out->count;
        st = queue_page(c, skip + out->count, limit - out->count, out, e);
    } while (st == MANTA_OK && out->count > before && out->count < limit && skip + out->count < out->total);
    return st;
}

manta_status manta_job_queue(manta_client *client, size_t skip, size_t limit, manta_job_info **out_jobs, size_t *out_count,
                             size_t *out_total, manta_error *e)
{
    struct ctl_client *c;
    struct queue       found = {0};
    manta_status       st = ctl_enter_given(client, "manta_job_queue", out_jobs && out_count, "out_jobs and out_count", &c, e);
    if (st != MANTA_OK)
        return st;
    st = job_queue(c, skip, limit ? limit : 1, &found, e);
    if (st != MANTA_OK) {
        free(found.jobs);
        return ctl_leave(client, st);
    }
    *out_jobs = found.jobs;
    *out_count = found.count;
    if (out_total)
        *out_total = found.total;
    return ctl_leave(client, st);
}
