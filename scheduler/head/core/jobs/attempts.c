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

#include "scheduler/head/core/jobs/ahead.h"
#include "scheduler/head/core/jobs/attempts.h"
#include "scheduler/head/core/jobs/jobs.h"
#include "scheduler/head/core/jobs/pace.h"
#include "scheduler/head/core/jobs/queue.h"
#include "scheduler/head/core/jobs/private.h"
#include "scheduler/head/core/names/names.h"
#include "scheduler/head/core/nodes/nodes.h"
#include "core/base/limits/net.h"
#include "core/base/plant.h"
#include "core/text/labels.h"
#include "scheduler/policy/preempt.h"

/* ---- messages to the raylet ---- */

static void send_start(struct head *h, const struct node *n, const struct job *job)
{
    Manta__V1__StartJob   start = MANTA__V1__START_JOB__INIT;
    to_node               message = MANTA__V1__HEAD_TO_NODE__INIT;
    struct head_array_env told;
    head_array_env(h, job->spec, &told);
    start.spec = &told.spec;
    start.attempt = job->attempt;
    start.failures = job->failures;
    start.wait_ms = job->is_ahead ? MT_HEAD_AHEAD_WAIT_MS : 0;
    message.kind_case = MANTA__V1__HEAD_TO_NODE__KIND_START_JOB;
    message.start_job = &start;
    head_out_send(h, head_nodes_stream(h, n), &message, true);
    free(told.env);
}

/* `preempt_ms`: so long from SIGTERM to SIGKILL, and it begins again; 0: it stops for good. */
static void send_stop(struct head *h, struct stream *s, const char *id, uint32_t attempt, const char *why, uint32_t preempt_ms)
{
    Manta__V1__StopJobOrder stop = MANTA__V1__STOP_JOB_ORDER__INIT;
    to_node                 message = MANTA__V1__HEAD_TO_NODE__INIT;
    stop.id = (char *)id;
    stop.attempt = attempt;
    stop.reason = (char *)why;
    stop.preempt_ms = preempt_ms;
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

/* `is_ahead`: it waits there until it has room. */
static void start_on(struct head *h, struct job *job, uint32_t number, bool is_ahead)
{
    struct node *n = head_nodes_find(h, number);
    job->attempt++;
    job->node = number;
    job->pid = 0;
    job->preempt_ms = 0;
    job->log_base = (int64_t)job->log_size;
    head_ahead_set(h, job, is_ahead);
    head_jobs_say(h, job, is_ahead ? "waits on node %u (%.100s) for the end of another like it" : "starting on node %u (%.100s)",
                  number, n->name);
    head_jobs_set_state(h, job, JOB_STARTING);
    mt_log(MT_LOG_INFO, "job_starting", "job=%s attempt=%u node=%u", job->spec->id, job->attempt, number);
    h->count.job_started++;
    if (!is_ahead)
        head_nodes_promise_job(h, n, &job->bucket->request, job->order);
    head_jobs_store(h, job);
    send_start(h, n, job);
}

/* Jobs that no node can ever hold end here, if they never started, or whatever they did. False: none that is ready is left, nor
 * maybe the bucket. */
static bool end_hopeless(struct head *h, struct bucket *b, const char *why, bool is_all)
{
    size_t left = b->ready.count;
    for (struct job *job = head_turns_first(&b->ready), *next; job; job = next) {
        next = head_turns_after(&b->ready, job);
        if (job->attempt > 0 && !is_all)
            continue;
        left--;
        head_jobs_end(h, job, JOB_FAILED, 1, why); /* the last one takes the bucket with it */
    }
    return left > 0;
}

/* Why the first of them is not started now. False: it has ended, and all others with it. */
static bool cannot_start(struct head *h, struct bucket *b, struct policy_node **living, uint32_t count)
{
    const struct policy_node *const *nodes = (const struct policy_node *const *)living;
    char                             text[HEAD_TEXT_SIZE];
    const job_spec                  *first = head_turns_first(&b->ready)->spec;
    if (first->node && head_jobs_node_check(h, first, text, sizeof text) != MT_OK)
        return end_hopeless(h, b, text, true);
    if (count > 0 && policy_is_feasible(nodes, count, &b->request)) {
        policy_lacks(nodes, count, &b->request, (const char *const *)h->kinds.data, b->why, sizeof b->why);
        return true;
    }
    if (head_nodes_could_come(h, &b->request)) {
        snprintf(b->why, sizeof b->why, "%s",
                 b->paced_why[0] ? b->paced_why : "waits for a node that is to be started (manta scale explain)");
        return true;
    }
    policy_explain(nodes, count, &b->request, (const char *const *)h->kinds.data, text, sizeof text);
    memcpy(b->why, text, sizeof b->why);
    return !policy_any_may_come(nodes, count) || head_in_grace(h) || end_hopeless(h, b, text, false);
}

/* ---- making room ---- */

/* So long it has from its notice on. */
static uint32_t grace_ms(const struct job *job)
{
    return job->spec->signal ? (uint32_t)job->spec->notice_ms : MT_HEAD_PREEMPT_MS;
}

static bool may_be_sent_away(const struct job *job, int32_t for_priority)
{
    return job->spec->priority < for_priority && (job->spec->is_preemptible || job->spec->priority < 0) && !job->preempt_ms &&
           !job->stop_requested && !job->spec->actor && !job->is_ahead;
}

static void send_away(struct head *h, struct job *job, const struct job *for_whom)
{
    const struct node *n = head_nodes_find(h, job->node);
    char               why[HEAD_TEXT_SIZE];
    snprintf(why, sizeof why, "it makes room for job %.64s of priority %d", for_whom->spec->id, for_whom->spec->priority);
    head_jobs_say(h, job, "is being preempted: %s; it has %u s for its end", why, grace_ms(job) / 1000);
    job->preempt_ms = h->now_ms + grace_ms(job);
    mt_log(MT_LOG_INFO, "job_preempt", "job=%s attempt=%u for=%s", job->spec->id, job->attempt, for_whom->spec->id);
    if (n)
        send_stop(h, head_nodes_stream(h, n), job->spec->id, job->attempt, why, grace_ms(job));
}

struct victims {
    struct policy_victim *items;
    struct job          **jobs;
    uint32_t              count;
    bool                  is_any_leaving;
};

static void victims_collect(struct head *h, int32_t for_priority, struct victims *v)
{
    v->items = calloc(h->placed.count + 1, sizeof *v->items);
    v->jobs = calloc(h->placed.count + 1, sizeof(struct job *));
    if (!v->items || !v->jobs) {
        head_broken(h, mt_error(MT_ENOMEM, 0, "preempt jobs"));
        return;
    }
    for (struct job *at = head_turns_first(&h->placed); at; at = head_turns_after(&h->placed, at)) {
        v->is_any_leaving |= at->preempt_ms != 0;
        if (!may_be_sent_away(at, for_priority))
            continue;
        v->items[v->count] = (struct policy_victim){.node = at->node,
                                                    .priority = at->spec->priority,
                                                    .began_ms = at->state == JOB_RUNNING ? at->started_ms : h->wall_ms,
                                                    .request = &at->bucket->request};
        v->jobs[v->count++] = at;
    }
}

/* The first that finds no room, and has a higher priority than some that run, makes them leave where that helps. Nobody else is
 * asked until they have gone: room is reserved by their ends then. */
static bool preempt(struct head *h, struct head_reserve *r, struct bucket *b)
{
    const struct job *job = head_turns_first(&b->ready);
    struct victims    v = {0};
    victims_collect(h, job->spec->priority, &v);
    bool is_done = v.count && !v.is_any_leaving && policy_preempt(r->nodes, r->count, &b->request, v.items, v.count);
    for (uint32_t i = 0; is_done && i < v.count; i++)
        if (v.items[i].is_chosen)
            send_away(h, v.jobs[i], job);
    free(v.items);
    free(v.jobs);
    return is_done;
}

/* Whether what others were asked for is on its way to it, or it will have its room as soon without. */
static bool is_served_soon(const struct head *h, const struct head_reserve *r)
{
    return r->is_on && r->at.at_ms != POLICY_UNKNOWN_MS && r->at.at_ms <= h->now_ms + MT_HEAD_PREEMPT_MS;
}

/* ---- one after the other ---- */

/* Whether the first of the bucket has been started. */
static bool try_start(struct head *h, struct head_reserve *r, struct bucket *b)
{
    uint32_t number;
    b->promised = 0;
    if (!head_turns_may_start(b)) /* one of the same user has been started just now */
        return false;
    if (!b->is_full && head_reserve_place(h, r, b, &number)) {
        start_on(h, head_turns_first(&b->ready), number, false);
        return true;
    }
    if (head_ahead_place(h, r, b, &number)) {
        start_on(h, head_turns_first(&b->ready), number, true);
        return true;
    }
    if (!b->is_full && !head_reserve_keeps_back(r, b) && !cannot_start(h, b, r->nodes, r->count))
        return false;
    b->is_full = !head_in_grace(h); /* until then it is looked at again */
    bool is_first = !r->is_on;
    if (head_reserve_job(h, r, b) && is_served_soon(h, r))
        return false;
    if (is_first && !head_in_grace(h) && preempt(h, r, b)) {
        r->is_on = false; /* with those who leave it is sooner */
        head_reserve_job(h, r, b);
    }
    return false;
}

/* The sooner one's turn is, the sooner it is looked at. One that finds no room keeps nobody behind it from starting but those of
 * its bucket, which would find none either, and those who would delay it where room is reserved for it. */
void head_attempts_round(struct head *h)
{
    struct head_reserve r = {0};
    size_t              count;
    struct bucket     **open = head_turns_open(h, &count);
    if (count)
        HEAD_TRY(h, head_nodes_living(h, &r.nodes, &r.count));
    if (r.nodes)
        head_reserve_group(h, &r);
    for (size_t i = 0; i < count && r.nodes;) {
        if (try_start(h, &r, open[i]))
            i += head_turns_again(open + i, count - i);
        else
            i++;
    }
    free(r.nodes);
    head_reserve_fini(&r);
}

/* ---- ends of attempts ---- */

/* A strict actor's next warden begins when what the last one had started has certainly ended. */
static uint64_t retry_after_ms(const struct job *job)
{
    return job->spec->actor && job->spec->actor->strict ? MT_STRICT_WAIT_MS : MT_HEAD_JOB_RETRY_MS;
}

static void pause(struct head *h, struct job *job)
{
    job->retry_ms = h->now_ms + retry_after_ms(job);
    head_turns_move(h, job);
}

static void back_to_pending(struct head *h, struct job *job)
{
    head_pace_keep(h, job);
    head_ahead_set(h, job, false);
    job->node = 0;
    job->pid = 0;
    job->preempt_ms = 0;
    job->retry_ms = h->now_ms + retry_after_ms(job);
    head_jobs_set_state(h, job, JOB_PENDING);
    head_jobs_store(h, job);
}

static void attempt_failed(struct head *h, struct job *job, int32_t exit_code, const char *why)
{
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
    head_jobs_say(h, job, "attempt %u failed: %.300s; starting again (retry %u of %u)", job->attempt, why, job->failures,
                  job->spec->retries);
    job->exit_code = exit_code;
    mt_log(MT_LOG_WARN, "job_retry", "job=%s attempt=%u why=\"%.300s\"", job->spec->id, job->attempt, why);
    back_to_pending(h, job);
}

/* From now on it isn't placed on the node that it is on: it has the bucket of those who avoid the same ones. False: it avoids as
 * many as a job may. */
static bool node_avoid(struct head *h, struct job *job)
{
    uint32_t i = 0;
    while (i < MT_RLT_SHUNNED_MAX && job->unfit[i])
        i++;
    MT_ASSERT(i < MT_RLT_SHUNNED_MAX);
    head_turns_leave(h, job);
    job->unfit[i] = MT_PLANT(MT_PLANT_UNFIT_AGAIN) ? UINT32_MAX - i : job->node;
    head_turns_enter(h, job);
    return i + 1 < MT_RLT_SHUNNED_MAX;
}

/* Whether there is, or may be, a node that was not found unfit for it. */
static bool may_run_elsewhere(struct head *h, const struct job *job)
{
    struct policy_node **nodes = NULL;
    uint32_t             count = 0;
    HEAD_TRY(h, head_nodes_living(h, &nodes, &count));
    bool may = policy_is_feasible((const struct policy_node *const *)nodes, count, &job->bucket->request) ||
               head_nodes_could_come(h, &job->bucket->request);
    free(nodes);
    return may;
}

/* Its program can't be run on that node, for want of a library or of itself. To try it there again is of no use, to try it
 * elsewhere may be: until four nodes have failed, when it is the program's fault, or there is no other. */
static void attempt_unfit(struct head *h, struct job *job, int32_t exit_code, const char *why)
{
    bool may_retry = !job->stop_requested && job->failures < job->spec->retries;
    if (may_retry && !(node_avoid(h, job) && may_run_elsewhere(h, job)))
        head_jobs_end(h, job, JOB_FAILED, exit_code, why);
    else
        attempt_failed(h, job, exit_code, why);
}

/* Its node was drained, or it made room for another: it begins again elsewhere, and no retry is counted. But of a warden: the
 * number of its failures is that of the actor's incarnation, which must go up. */
static void attempt_preempted(struct head *h, struct job *job, const char *why)
{
    if (job->stop_requested || job->spec->actor || MT_PLANT(MT_PLANT_PREEMPT_COUNTED)) {
        attempt_failed(h, job, 1, why);
        return;
    }
    head_jobs_say(h, job, "attempt %u was preempted: %.300s; starting again", job->attempt, why);
    h->count.job_preempted++;
    mt_log(MT_LOG_INFO, "job_preempted", "job=%s attempt=%u why=\"%.300s\"", job->spec->id, job->attempt, why);
    back_to_pending(h, job);
}

void head_attempts_node_lost(struct head *h, uint32_t node, bool was_planned, const char *why)
{
    char               text[256];
    const struct node *n = head_nodes_find(h, node);
    bool               is_spot = n && mt_selector_match("manta.spot", n->place.labels);
    for (struct job *job = head_turns_first(&h->placed), *next; job; job = next) {
        next = head_turns_after(&h->placed, job);
        if (job->node != node)
            continue;
        snprintf(text, sizeof text, "node %u %s (%.160s)", node, was_planned ? "has left" : "was lost", why);
        if (was_planned || (is_spot && job->spec->deadline_ms)) /* it was put there though that would come */
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
        head_turns_move(h, job); /* others of its array have been loaded after it */
        if ((job->state == JOB_STARTING || job->state == JOB_RUNNING) && (!n || n->place.state == POLICY_DEAD))
            attempt_failed(h, job, 0, "its node is not known any more");
        else if (job->state == JOB_PENDING && job->attempt > 0)
            pause(h, job);
    }
}

/* The same raylet is back: what it may have missed is said again. */
void head_attempts_node_registered(struct head *h, struct node *n)
{
    struct stream *s = head_nodes_stream(h, n);
    for (struct job *job = head_turns_first(&h->placed); job; job = head_turns_after(&h->placed, job)) {
        if (job->node != n->place.id)
            continue;
        h->count.job_resent++;
        if (job->stop_requested)
            send_stop(h, s, job->spec->id, job->attempt, "stopped on request", 0);
        else if (job->preempt_ms)
            send_stop(h, s, job->spec->id, job->attempt, "it makes room for another", grace_ms(job));
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
    head_jobs_say(h, job, "%s%.300s", job->spec->actor ? "" : "stopping: ", why);
    head_jobs_store(h, job);
    struct node *n = head_nodes_find(h, job->node);
    if (n)
        send_stop(h, head_nodes_stream(h, n), job->spec->id, job->attempt, why, 0);
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
        head_ahead_began(h, job);
        head_jobs_set_state(h, job, JOB_RUNNING);
        job->pid = state->pid;
        job->started_ms = h->wall_ms;
        if (!job->stop_requested && !job->preempt_ms)
            head_jobs_say(h, job, "%s", "");
        head_jobs_store(h, job);
    }
    if (job->stop_requested)
        send_stop(h, s, job->spec->id, job->attempt, "stopped on request", 0);
}

static void take_current(struct head *h, struct stream *s, struct job *job, const Manta__V1__JobState *state)
{
    struct node *n = head_nodes_find(h, job->node);
    if (n && !says(state, "RUNNING") && !says(state, "PENDING") && !job->is_ahead) {
        head_nodes_job_ended(h, n, &job->bucket->request, job->order);
        head_ahead_ended(h, job);
    }
    if (says(state, "RUNNING"))
        take_running(h, s, job, state);
    else if (says(state, "SUCCEEDED"))
        head_jobs_end(h, job, JOB_SUCCEEDED, state->exit_code, state->reason[0] ? state->reason : "exited with status 0");
    else if (says(state, "FAILED") && state->unfit)
        attempt_unfit(h, job, state->exit_code, state->reason);
    else if (says(state, "FAILED"))
        attempt_failed(h, job, state->exit_code, state->reason);
    else if (says(state, "PREEMPTED"))
        attempt_preempted(h, job, state->reason);
    else if (says(state, "STOPPED") && job->preempt_ms && !job->stop_requested) /* by a raylet of an older release */
        attempt_preempted(h, job, state->reason);
    else if (says(state, "STOPPED"))
        head_jobs_end(h, job, JOB_STOPPED, state->exit_code ? state->exit_code : 1, state->reason);
    else if (says(state, "PENDING") && job->stop_requested)
        head_jobs_end(h, job, JOB_STOPPED, 1, "stopped on request");
    else if (says(state, "PENDING") && job->state == JOB_STARTING) {
        head_jobs_say(h, job, "node %u had no room: %.300s", job->node, state->reason);
        back_to_pending(h, job);
    }
}

static struct job *placed_there(const struct head *h, const struct node *n, const char *id, uint32_t attempt)
{
    struct job *job = head_jobs_find(h, id);
    bool        is_placed = job && (job->state == JOB_STARTING || job->state == JOB_RUNNING);
    return is_placed && job->attempt == attempt && job->node == n->place.id ? job : NULL;
}

void head_attempts_forerunner(struct head *h, struct stream *s, const struct node *was, const Manta__V1__Forerunner *told)
{
    struct job *job;
    if (MT_PLANT(MT_PLANT_FORERUNNER_DEAF))
        return;
    for (size_t i = 0; i < told->n_logs; i++)
        head_jobs_log(h, s, was->place.id, told->logs[i]);
    for (size_t i = 0; i < told->n_ends; i++) {
        const Manta__V1__JobState *state = told->ends[i];
        if (!(job = placed_there(h, was, state->id, state->attempt)) || says(state, "RUNNING") || says(state, "PENDING"))
            continue;
        mt_log(MT_LOG_INFO, "job_end_kept", "job=%s attempt=%u state=%s", state->id, state->attempt, state->state);
        take_current(h, s, job, state);
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
            send_stop(h, s, state->id, state->attempt, "this attempt was given up", 0);
    }
    send_ack(h, s, state);
}
