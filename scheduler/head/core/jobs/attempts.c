/* SPDX-License-Identifier: Apache-2.0
 *
 * attempts.c - what runs where: starts drivers of jobs on nodes, and follows what their raylets say.
 *
 * Always:  an attempt's number is stored before any raylet hears of it; a raylet's word on an older attempt, or from
 *          another node than the job's, changes nothing, and a driver that still runs for it is stopped.
 *
 * What a raylet promises: StartJob for an attempt that it knows is answered by its state, not by a second driver; a
 * state is repeated, after each registration too, until it is acknowledged; a stop order for an attempt that it does
 * not know is answered by STOPPED; "PENDING" as a state means that it has no room for the driver now.
 */

#include "scheduler/head/core/jobs/jobs.h"
#include "scheduler/head/core/jobs/queue.h"
#include "scheduler/head/core/jobs/private.h"
#include "scheduler/head/core/names/names.h"
#include "scheduler/head/core/nodes/nodes.h"
#include "core/base/limits/net.h"

/* ---- messages to the raylet ---- */

static void send_start(struct head *h, const struct node *n, const struct job *job)
{
    Manta__V1__StartJob start = MANTA__V1__START_JOB__INIT;
    to_node             message = MANTA__V1__HEAD_TO_NODE__INIT;
    start.spec = job->spec;
    start.attempt = job->attempt;
    start.failures = job->failures;
    message.kind_case = MANTA__V1__HEAD_TO_NODE__KIND_START_JOB;
    message.start_job = &start;
    head_out_send(h, head_nodes_stream(h, n), &message, true);
}

static void send_stop(struct head *h, struct stream *s, const char *id, uint32_t attempt, const char *why)
{
    Manta__V1__StopJobOrder stop = MANTA__V1__STOP_JOB_ORDER__INIT;
    to_node                 message = MANTA__V1__HEAD_TO_NODE__INIT;
    stop.id = (char *)id;
    stop.attempt = attempt;
    stop.reason = (char *)why;
    message.kind_case = MANTA__V1__HEAD_TO_NODE__KIND_STOP_JOB;
    message.stop_job = &stop;
    head_out_send(h, s, &message, true);
}

static void send_ack(struct head *h, struct stream *s, const Manta__V1__JobState *state)
{
    Manta__V1__JobStateAck ack = MANTA__V1__JOB_STATE_ACK__INIT;
    to_node                message = MANTA__V1__HEAD_TO_NODE__INIT;
    ack.id = state->id;
    ack.attempt = state->attempt;
    ack.state = state->state;
    message.kind_case = MANTA__V1__HEAD_TO_NODE__KIND_JOB_ACK;
    message.job_ack = &ack;
    head_out_send(h, s, &message, true);
}

/* ---- starting ---- */

static void start_on(struct head *h, struct job *job, uint32_t number)
{
    struct node *n = head_nodes_find(h, number);
    job->attempt++;
    job->node = number;
    job->pid = 0;
    job->log_base = (int64_t)job->log_size;
    snprintf(job->reason, sizeof job->reason, "starting on node %u (%.100s)", number, n->name);
    head_jobs_set_state(h, job, JOB_STARTING);
    mt_log(MT_LOG_INFO, "job_starting", "job=%s attempt=%u node=%u", job->spec->id, job->attempt, number);
    h->count.job_started++;
    head_nodes_promise(h, n, &job->request, 1);
    head_jobs_store(h, job);
    send_start(h, n, job);
}

/* Why it is not started now. A job that never started and that no node can ever hold ends here. */
static void cannot_start(struct head *h, struct job *job, struct policy_node **living, uint32_t count)
{
    const struct policy_node *const *nodes = (const struct policy_node *const *)living;
    char                             text[HEAD_TEXT_SIZE - 64];
    if (job->spec->node && head_jobs_node_check(h, job->spec, text, sizeof text) != MT_OK) {
        head_jobs_end(h, job, JOB_FAILED, 1, text);
        return;
    }
    if (count > 0 && policy_is_feasible(nodes, count, &job->request)) {
        policy_lacks(nodes, count, &job->request, (const char *const *)h->kinds.data, text, sizeof text);
        snprintf(job->reason, sizeof job->reason, "%s", text);
        return;
    }
    if (head_nodes_could_come(h, &job->request)) {
        snprintf(job->reason, sizeof job->reason, "waits for a node that is to be started (manta scale explain)");
        return;
    }
    policy_explain(nodes, count, &job->request, (const char *const *)h->kinds.data, text, sizeof text);
    snprintf(job->reason, sizeof job->reason, "%s", text);
    if (policy_any_may_come(nodes, count) && job->attempt == 0 && !head_in_grace(h))
        head_jobs_end(h, job, JOB_FAILED, 1, text);
}

/* The sooner one's turn is, the sooner it is looked at; one that finds no room keeps nobody behind it from starting. */
void head_attempts_round(struct head *h)
{
    struct policy_node **living = NULL;
    const struct job    *full = NULL; /* the last that found no room: the same again finds none either */
    uint32_t             living_count = 0, number;
    size_t               count;
    struct job *const   *queue = head_queue(h, &count);
    for (size_t i = 0; i < count; i++) { /* the list stays as it is until the next round asks for it */
        struct job *job = queue[i];
        if (job->state != JOB_PENDING || h->now_ms < job->retry_ms || !head_queue_may_start(h, job))
            continue;
        if (!living)
            HEAD_TRY(h, head_nodes_living(h, &living, &living_count));
        if (!living)
            return;
        bool is_full = full && memcmp(&full->request, &job->request, sizeof job->request) == 0;
        if (is_full && full->state == JOB_PENDING)
            memcpy(job->reason, full->reason, sizeof job->reason);
        else if (!is_full && policy_place(living, living_count, &job->request, 1, &h->rng, &number) == 1)
            start_on(h, job, number);
        else
            cannot_start(h, job, living, living_count);
        if (!is_full && job->state != JOB_STARTING)
            full = job;
    }
    free(living);
}

/* ---- ends of attempts ---- */

/* A strict actor's next warden begins when what the last one had started has certainly ended. */
static uint64_t retry_after_ms(const struct job *job)
{
    return job->spec->actor && job->spec->actor->strict ? MT_STRICT_WAIT_MS : MT_HEAD_JOB_RETRY_MS;
}

static void back_to_pending(struct head *h, struct job *job)
{
    job->node = 0;
    job->pid = 0;
    job->retry_ms = h->now_ms + retry_after_ms(job);
    head_jobs_set_state(h, job, JOB_PENDING);
    head_jobs_store(h, job);
}

static void attempt_failed(struct head *h, struct job *job, int32_t exit_code, const char *why)
{
    char reason[HEAD_TEXT_SIZE];
    if (job->stop_requested) {
        head_jobs_end(h, job, JOB_STOPPED, exit_code, "stopped on request");
        return;
    }
    if (job->failures >= job->spec->retries) {
        head_jobs_end(h, job, JOB_FAILED, exit_code ? exit_code : 1, why);
        return;
    }
    job->failures++;
    h->count.job_retried++;
    snprintf(reason, sizeof reason, "attempt %u failed: %.300s; starting again (retry %u of %u)", job->attempt, why, job->failures,
             job->spec->retries);
    memcpy(job->reason, reason, sizeof reason);
    job->exit_code = exit_code;
    mt_log(MT_LOG_WARN, "job_retry", "job=%s attempt=%u why=\"%.300s\"", job->spec->id, job->attempt, why);
    back_to_pending(h, job);
}

/* Its node was drained: it begins again elsewhere, and no retry is counted. But of a warden: the number of its failures is that of
 * the actor's incarnation, which must go up. */
static void attempt_preempted(struct head *h, struct job *job, const char *why)
{
    if (job->stop_requested || job->spec->actor) {
        attempt_failed(h, job, 1, why);
        return;
    }
    snprintf(job->reason, sizeof job->reason, "attempt %u was preempted: %.300s; starting again", job->attempt, why);
    h->count.job_preempted++;
    mt_log(MT_LOG_INFO, "job_preempted", "job=%s attempt=%u why=\"%.300s\"", job->spec->id, job->attempt, why);
    back_to_pending(h, job);
}

void head_attempts_node_lost(struct head *h, uint32_t node, bool was_planned, const char *why)
{
    char text[256];
    for (struct head_index_node *at = h->jobs.first; at; at = at->next) {
        struct job *job = mt_container_of(at, struct job, at);
        if (job->node != node || (job->state != JOB_STARTING && job->state != JOB_RUNNING))
            continue;
        snprintf(text, sizeof text, "node %u %s (%.160s)", node, was_planned ? "has left" : "was lost", why);
        if (was_planned)
            attempt_preempted(h, job, text);
        else
            attempt_failed(h, job, 0, text);
    }
}

/* After a restart: a job whose node is not in the store is not waited for. */
void head_attempts_loaded(struct head *h)
{
    for (struct head_index_node *at = h->jobs.first; at; at = at->next) {
        struct job        *job = mt_container_of(at, struct job, at);
        const struct node *n = head_nodes_find(h, job->node);
        if ((job->state == JOB_STARTING || job->state == JOB_RUNNING) && (!n || n->place.state == POLICY_DEAD))
            attempt_failed(h, job, 0, "its node is not known any more");
        else if (job->state == JOB_PENDING && job->attempt > 0)
            job->retry_ms = h->now_ms + retry_after_ms(job);
    }
}

/* The same raylet is back: what it may have missed is said again. */
void head_attempts_node_registered(struct head *h, struct node *n)
{
    struct stream *s = head_nodes_stream(h, n);
    for (struct head_index_node *at = h->jobs.first; at; at = at->next) {
        struct job *job = mt_container_of(at, struct job, at);
        if (job->node != n->place.id || (job->state != JOB_STARTING && job->state != JOB_RUNNING))
            continue;
        h->count.job_resent++;
        if (job->stop_requested)
            send_stop(h, s, job->spec->id, job->attempt, "stopped on request");
        else if (job->state == JOB_STARTING)
            send_start(h, n, job);
        head_attempts_log_ack(h, job, job->log_size);
    }
}

void head_attempts_stop(struct head *h, struct job *job, const char *why)
{
    if (head_jobs_has_ended(job) || job->stop_requested)
        return;
    job->stop_requested = true;
    if (job->spec->actor)
        head_names_drop_detached(h, job->spec->actor); /* from now on it can't be found */
    if (job->state == JOB_PENDING) {
        head_jobs_end(h, job, JOB_STOPPED, 1, why);
        return;
    }
    snprintf(job->reason, sizeof job->reason, "%s%.300s", job->spec->actor ? "" : "stopping: ", why);
    head_jobs_store(h, job);
    struct node *n = head_nodes_find(h, job->node);
    if (n)
        send_stop(h, head_nodes_stream(h, n), job->spec->id, job->attempt, why);
}

bool head_attempts_signal(struct head *h, const struct job *job, int32_t signal)
{
    Manta__V1__SignalJobOrder order = MANTA__V1__SIGNAL_JOB_ORDER__INIT;
    to_node                   message = MANTA__V1__HEAD_TO_NODE__INIT;
    const struct node        *n = head_nodes_find(h, job->node);
    if (job->state != JOB_RUNNING || !n)
        return false;
    order.id = job->spec->id;
    order.attempt = job->attempt;
    order.signal = signal;
    message.kind_case = MANTA__V1__HEAD_TO_NODE__KIND_SIGNAL_JOB;
    message.signal_job = &order;
    head_out_send(h, head_nodes_stream(h, n), &message, true);
    return true;
}

/* ---- what raylets say ---- */

static bool says(const Manta__V1__JobState *state, const char *word)
{
    return strcmp(state->state, word) == 0;
}

static void take_running(struct head *h, struct stream *s, struct job *job, const Manta__V1__JobState *state)
{
    if (job->state == JOB_STARTING) {
        head_jobs_set_state(h, job, JOB_RUNNING);
        job->pid = state->pid;
        job->started_ms = h->wall_ms;
        if (!job->stop_requested)
            job->reason[0] = '\0';
        head_jobs_store(h, job);
    }
    if (job->stop_requested)
        send_stop(h, s, job->spec->id, job->attempt, "stopped on request");
}

static void take_current(struct head *h, struct stream *s, struct job *job, const Manta__V1__JobState *state)
{
    if (says(state, "RUNNING"))
        take_running(h, s, job, state);
    else if (says(state, "SUCCEEDED"))
        head_jobs_end(h, job, JOB_SUCCEEDED, state->exit_code, state->reason[0] ? state->reason : "exited with status 0");
    else if (says(state, "FAILED"))
        attempt_failed(h, job, state->exit_code, state->reason);
    else if (says(state, "PREEMPTED"))
        attempt_preempted(h, job, state->reason);
    else if (says(state, "STOPPED"))
        head_jobs_end(h, job, JOB_STOPPED, state->exit_code ? state->exit_code : 1, state->reason);
    else if (says(state, "PENDING") && job->stop_requested)
        head_jobs_end(h, job, JOB_STOPPED, 1, "stopped on request");
    else if (says(state, "PENDING") && job->state == JOB_STARTING) {
        snprintf(job->reason, sizeof job->reason, "node %u had no room: %.300s", job->node, state->reason);
        back_to_pending(h, job);
    }
}

void head_attempts_state(struct head *h, struct stream *s, const Manta__V1__JobState *state)
{
    struct job *job = head_jobs_find(h, state->id);
    bool        is_placed = job && (job->state == JOB_STARTING || job->state == JOB_RUNNING);
    if (is_placed && job->attempt == state->attempt && job->node == s->node) {
        take_current(h, s, job, state);
    } else {
        h->count.job_fenced++;
        if (says(state, "RUNNING"))
            send_stop(h, s, state->id, state->attempt, "this attempt was given up");
    }
    send_ack(h, s, state);
}
