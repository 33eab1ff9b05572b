/* SPDX-License-Identifier: Apache-2.0
 *
 * jobs.c - the life of a submitted job, and its log.
 *
 * Owns:    every struct job.
 * Always:  STARTING and RUNNING jobs have a node and an attempt >= 1; ended ones have neither waiters nor blobs.
 *
 *   PENDING --placed--> STARTING --raylet: RUNNING--> RUNNING --> SUCCEEDED, FAILED or STOPPED
 *      ^  '--stop, or no node can ever hold it--.        |           ^
 *      '-----failed, refused, or node lost: another attempt          |
 *                                               '--------------------'
 */
#include "scheduler/head/core/internal.h"

#include "core/base/plant.h"

#include <inttypes.h>

#define AS_BIT(state) (1u << JOB_##state)
#define ENDED         (AS_BIT(STOPPED) | AS_BIT(SUCCEEDED) | AS_BIT(FAILED))
static const uint8_t job_next[JOB_STATE_COUNT] = {
    [JOB_PENDING] = AS_BIT(STARTING) | AS_BIT(STOPPED) | AS_BIT(FAILED),
    [JOB_STARTING] = AS_BIT(PENDING) | AS_BIT(RUNNING) | ENDED,
    [JOB_RUNNING] = AS_BIT(PENDING) | ENDED,
};

const char *jobs_state_text(enum job_state state)
{
    static const char *const texts[] = {
#define X(name, text) text,
        JOB_STATES(X)
#undef X
    };
    return texts[state];
}

bool jobs_has_ended(const struct job *job)
{
    return (1u << job->state) & ENDED;
}

struct job *jobs_find(const struct head *h, const char *id)
{
    struct head_index_node *at = head_index_find(&h->jobs, id);
    return at ? mt_container_of(at, struct job, at) : NULL;
}

static void job_check(const struct job *job)
{
    bool is_placed = job->state == JOB_STARTING || job->state == JOB_RUNNING;
    MT_ASSERT(!is_placed || (job->node != 0 && job->attempt >= 1));
    MT_ASSERT(job->state != JOB_PENDING || job->node == 0);
}

void jobs_set_state(struct head *h, struct job *job, enum job_state next)
{
    (void)h;
    MT_ASSERT(job_next[job->state] & (1u << next));
    job->state = next;
    job_check(job);
}

void jobs_end(struct head *h, struct job *job, enum job_state how, int32_t exit_code, const char *reason)
{
    char text[HEAD_TEXT_SIZE]; /* `reason` may be the job's own */
    snprintf(text, sizeof text, "%s", job->spec->actor && job->stop_requested && job->reason[0] ? job->reason : reason);
    if (job->spec->actor)
        names_drop_detached(h, job->spec->actor);
    memcpy(job->reason, text, sizeof text);
    job->exit_code = exit_code;
    job->ended_ms = h->wall_ms;
    job->pid = 0;
    jobs_set_state(h, job, how);
    mt_log(MT_LOG_INFO, "job_ended", "job=%s state=%s attempt=%u reason=\"%s\"", job->spec->id, jobs_state_text(how), job->attempt,
           text);
    h->count.job_ended++;
    h->jobs_active--;
    h->jobs_ended++;
    blobs_need(h, job->spec, -1);
    records_put_job(h, job);
    calls_job_ended(h, job);
    out_job(h, HEAD_ACT_JOB_ENDED, job->spec->id);
}

void jobs_free(struct head *h, struct job *job)
{
    head_index_remove(&h->jobs, &job->at);
    manta__v1__job_spec__free_unpacked(job->spec, NULL);
    free(job);
}

mt_status jobs_add(struct head *h, job_spec *take_spec, struct job **out_job)
{
    char        text[HEAD_TEXT_SIZE];
    struct job *job = calloc(1, sizeof *job);
    mt_status   st = job ? mt_ok() : mt_error(MT_ENOMEM, 0, "add a job");
    if (st.code == 0)
        st = resources_to_request(h, take_spec->resources, take_spec->n_resources, &job->request, text, sizeof text);
    if (st.code == 0)
        st = head_index_add(&h->jobs, &job->at, take_spec->id);
    if (st.code != 0) {
        manta__v1__job_spec__free_unpacked(take_spec, NULL);
        free(job);
        return st;
    }
    job->spec = take_spec;
    *out_job = job;
    return mt_ok();
}

mt_status jobs_load(struct head *h, const Manta__Store__JobRecord *r)
{
    char        text[HEAD_TEXT_SIZE];
    job_spec   *spec;
    struct job *job;
    if (!r->spec || spec_check(r->spec, text, sizeof text).code != 0 || jobs_find(h, r->spec->id) || r->state >= JOB_STATE_COUNT)
        return mt_error(MT_ECORRUPT, 0, "the store holds a job that can't be");
    MT_TRY(spec_copy(r->spec, &spec));
    MT_TRY(jobs_add(h, spec, &job));
    job->state = (enum job_state)r->state;
    snprintf(job->reason, sizeof job->reason, "%s", r->reason);
    job->exit_code = r->exit_code;
    job->attempt = r->attempt;
    job->node = r->node;
    job->failures = r->failures;
    job->stop_requested = r->stop_requested;
    job->submitted_ms = r->submitted_ms;
    job->started_ms = r->started_ms;
    job->ended_ms = r->ended_ms;
    job->pid = r->pid;
    job->order = r->order;
    job->log_base = r->log_base;
    if (jobs_has_ended(job))
        h->jobs_ended++;
    else
        h->jobs_active++;
    if (r->order >= h->next_order)
        h->next_order = r->order + 1;
    return mt_ok();
}

void jobs_forget(struct head *h, struct job *job)
{
    MT_ASSERT(jobs_has_ended(job) && job->waits == 0);
    if (!MT_PLANT(MT_PLANT_DELETE_UNSTORED))
        records_drop_job(h, job->spec->id);
    out_job(h, HEAD_ACT_LOG_DROP, job->spec->id);
    h->jobs_ended--;
    jobs_free(h, job);
}

/* Ended jobs are listed for a while, the newest ones. */
void jobs_prune(struct head *h)
{
    for (struct head_index_node *at = h->jobs.first, *next; at && h->jobs_ended > MT_HEAD_JOBS_ENDED_MAX; at = next) {
        struct job *job = mt_container_of(at, struct job, at);
        next = at->next;
        if (jobs_has_ended(job))
            jobs_forget(h, job);
    }
}

mt_status head_job_find(const struct head *h, const char *id, struct head_job_view *out)
{
    const struct job *job = jobs_find(h, id);
    if (!job)
        return mt_error(MT_ENOENT, 0, "find a job");
    *out = (struct head_job_view){jobs_has_ended(job), jobs_state_text(job->state), job->attempt, job->node, job->log_size};
    return mt_ok();
}

/* ---- the log ----
 *
 * A raylet numbers the bytes of one attempt from 0; the file holds all attempts, one after the other, and notices of
 * the head. log_base is the difference: file position = log_base + the attempt's own offset. It is stored when it
 * changes, so that a head which was restarted finds, from the size of the file, where the raylet has to go on. */

static uint64_t log_expected(const struct job *job)
{
    return (uint64_t)((int64_t)job->log_size - job->log_base);
}

static void log_notice(struct head *h, struct job *job, const char *text)
{
    out_log_append(h, job, (const uint8_t *)text, strlen(text));
}

/* Bytes that never came: the raylet has lost them. */
static void log_gap(struct head *h, struct job *job, uint64_t offset)
{
    char text[96];
    h->count.log_gap++;
    snprintf(text, sizeof text, "\n[manta: %" PRIu64 " bytes of output were lost]\n", offset - log_expected(job));
    log_notice(h, job, text);
    job->log_base = (int64_t)job->log_size - (int64_t)offset;
    records_put_job(h, job);
}

static void log_full(struct head *h, struct job *job, uint64_t end)
{
    if (!job->log_is_full) {
        h->count.log_limit++;
        job->log_is_full = true;
        log_notice(h, job, "\n[manta: the log is full; what follows is not kept]\n");
    }
    job->log_base = (int64_t)job->log_size - (int64_t)end; /* taken in, and forgotten */
}

void jobs_log(struct head *h, struct stream *s, const Manta__V1__LogChunk *chunk)
{
    struct job *job = jobs_find(h, chunk->id);
    if (!job || job->attempt != chunk->attempt || job->node != s->node || jobs_has_ended(job)) {
        h->count.job_fenced++;
        return;
    }
    uint64_t expected = log_expected(job), end = chunk->offset + chunk->text.len;
    if (end < chunk->offset || end > (uint64_t)INT64_MAX / 2) {
        nodes_drop_stream(h, s, "sent a piece of log at an offset that can't be");
        return;
    }
    if (end <= expected) {
        h->count.log_repeat++;
        attempts_log_ack(h, job, job->log_size);
        return;
    }
    if (job->log_size + chunk->text.len > MT_HEAD_JOB_LOG_BYTES_MAX) {
        log_full(h, job, end);
        attempts_log_ack(h, job, job->log_size);
        return;
    }
    if (chunk->offset > expected)
        log_gap(h, job, chunk->offset);
    size_t skip = chunk->offset < expected ? (size_t)(expected - chunk->offset) : 0;
    h->count.log_repeat += skip > 0;
    out_log_append(h, job, chunk->text.data + skip, chunk->text.len - skip);
}

void jobs_log_written(struct head *h, const char *id, uint64_t size)
{
    struct job *job = jobs_find(h, id);
    if (job && !jobs_has_ended(job))
        attempts_log_ack(h, job, size);
}

mt_status head_load_log(struct head *h, const char *id, uint64_t size, bool *out_keep)
{
    struct job *job = jobs_find(h, id);
    *out_keep = job != NULL;
    if (job) {
        job->log_size = size;
        if ((int64_t)size < job->log_base)
            job->log_base = (int64_t)size; /* the file is shorter than it was: a crash of the machine */
    }
    return mt_ok();
}
