/* SPDX-License-Identifier: Apache-2.0
 *
 * jobs.c - the table of jobs, their records, and their states.
 *
 * Owns:    every struct job.
 * Always:  STARTING and RUNNING jobs have a node and an attempt >= 1; ended ones have neither waiters nor blobs.
 *
 *   PENDING --placed--> STARTING --raylet: RUNNING--> RUNNING --> SUCCEEDED, FAILED or STOPPED
 *      ^  '--stop, or no node can ever hold it--.        |           ^
 *      '-----failed, refused, or node lost: another attempt          |
 *                                               '--------------------'
 */
#include "scheduler/head/core/account/account.h"
#include "scheduler/head/core/jobs/jobs.h"
#include "scheduler/head/core/jobs/queue.h"
#include "scheduler/head/core/jobs/private.h"
#include "scheduler/head/core/nodes/nodes.h"

#include "core/base/machine.h"

#include <stdarg.h>

#define ENDED (MT_STATE(JOB_STOPPED) | MT_STATE(JOB_SUCCEEDED) | MT_STATE(JOB_FAILED))
static const char *const job_names[] = {
#define X(name, text) #name,
    JOB_STATES(X)
#undef X
};
static const uint32_t job_next[] = {
    [JOB_PENDING] = MT_STATE(JOB_STARTING) | MT_STATE(JOB_STOPPED) | MT_STATE(JOB_FAILED),
    [JOB_STARTING] = MT_STATE(JOB_PENDING) | MT_STATE(JOB_RUNNING) | ENDED,
    [JOB_RUNNING] = MT_STATE(JOB_PENDING) | ENDED,
    [JOB_STOPPED] = 0,
    [JOB_SUCCEEDED] = 0,
    [JOB_FAILED] = 0,
};
static const struct mt_machine job_machine = MT_MACHINE("job", job_names, job_next);

const char *head_jobs_state_text(enum job_state state)
{
    static const char *const texts[] = {
#define X(name, text) text,
        JOB_STATES(X)
#undef X
    };
    return texts[state];
}

struct job *head_jobs_find(const struct head *h, const char *id)
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

void head_jobs_set_state(struct head *h, struct job *job, enum job_state next)
{
    MT_TRANSITION(&job_machine, job->state, next);
    if (job->array) {
        job->array->in[job->state]--;
        job->array->in[next]++;
    }
    enum job_state was = job->state;
    job->state = next;
    head_users_moved(job, was);
    job_check(job);
    if (head_jobs_has_ended(job))
        head_after_leave(h, job);
    head_turns_move(h, job);
    if (job->array && head_jobs_has_ended(job) && !head_array_active(job->array))
        head_turns_array_ended(h, job->array);
}

void head_jobs_free(struct head *h, struct job *job)
{
    head_after_leave(h, job);
    head_array_leave(h, job);
    head_turns_leave(h, job);
    head_users_leave(job);
    head_index_remove(&h->jobs, &job->at);
    manta__v1__job_spec__free_unpacked(job->spec, NULL);
    free(job->reason);
    free(job);
}

mt_status head_jobs_add(struct head *h, job_spec *take_spec, enum job_state born, struct job **out_job)
{
    struct job *job = calloc(1, sizeof *job);
    mt_status   st = job ? mt_ok() : mt_error(MT_ENOMEM, 0, "add a job");
    if (st.code == 0) {
        *job = (struct job){.state = born};
        st = head_index_add(&h->jobs, &job->at, take_spec->id);
    }
    if (st.code != 0) {
        manta__v1__job_spec__free_unpacked(take_spec, NULL);
        free(job);
        return st;
    }
    job->spec = take_spec;
    *out_job = job;
    return mt_ok();
}

void head_jobs_enter(struct head *h, struct job *job)
{
    head_array_enter(h, job);
    head_after_enter(h, job);
    head_turns_enter(h, job);
}

void head_jobs_say(struct head *h, struct job *job, const char *format, ...)
{
    char    text[HEAD_TEXT_SIZE];
    va_list args;
    va_start(args, format);
    vsnprintf(text, sizeof text, format, args);
    va_end(args);
    free(job->reason);
    job->reason = text[0] ? head_strdup(h, text) : NULL;
}

int32_t head_jobs_node_check(const struct head *h, const job_spec *spec, char *text, size_t text_size)
{
    const struct node *n = head_nodes_find(h, spec->node);
    if (!n || n->place.state == POLICY_DEAD) {
        snprintf(text, text_size, n ? "node %u has gone (manta list nodes)" : "there is no node %u (manta list nodes)", spec->node);
        return MT_ENOENT;
    }
    if (n->place.state == POLICY_DRAINING) {
        snprintf(text, text_size, "node %u (%.100s) is being drained: nothing new begins there", spec->node, n->name);
        return MT_EINVAL;
    }
    return MT_OK;
}

/* ---- the store ---- */

void head_jobs_store(struct head *h, const struct job *job)
{
    Manta__Store__JobRecord record = MANTA__STORE__JOB_RECORD__INIT;
    record.spec = job->spec;
    record.state = job->state;
    record.reason = job->reason ? job->reason : (char *)protobuf_c_empty_string;
    record.exit_code = job->exit_code;
    record.attempt = job->attempt;
    record.node = job->node;
    record.failures = job->failures;
    record.stop_requested = job->stop_requested;
    record.submitted_ms = job->submitted_ms;
    record.started_ms = job->started_ms;
    record.ended_ms = job->ended_ms;
    record.pid = job->pid;
    record.order = job->order;
    record.log_base = job->log_base;
    record.user = (char *)job->user;
    record.is_held = job->is_held;
    record.after_met = job->after_met;
    record.worked_ms = job->worked_ms;
    head_record_change(h, HEAD_TABLE_JOBS, job->spec->id, strlen(job->spec->id), &record.base);
}

mt_status head_jobs_load(struct head *h, const Manta__Store__JobRecord *r)
{
    char        text[HEAD_TEXT_SIZE];
    job_spec   *spec;
    struct job *job;
    if (!r->spec || head_spec_check(r->spec, text, sizeof text).code != 0 || head_jobs_find(h, r->spec->id) ||
        r->state >= JOB_STATE_COUNT)
        return mt_error(MT_ECORRUPT, 0, "the store holds a job that can't be");
    MT_TRY(head_spec_copy(r->spec, &spec));
    MT_TRY(head_jobs_add(h, spec, (enum job_state)r->state, &job));
    head_jobs_say(h, job, "%s", r->reason);
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
    head_users_enter(h, job, r->user);
    job->is_held = r->is_held;
    job->after_met = r->after_met;
    job->worked_ms = r->worked_ms;
    if (head_jobs_has_ended(job))
        h->jobs_ended++;
    else
        h->jobs_active++;
    head_jobs_enter(h, job);
    if (r->order >= h->next_order)
        h->next_order = r->order + 1;
    return h->broken;
}
