/* SPDX-License-Identifier: Apache-2.0
 *
 * submit.c - drivers of submitted jobs that the head has placed on this node.
 *
 * Owns: every struct rlt_submitted; the process, its folder and its log are the shell's. Thread: the logic loop only.
 * Always: one attempt of a job at a time; a start order for an attempt that is known is answered with its state; an end
 * is said, after all of the log, again and again until the head acknowledges it.
 *
 *   WAITING --room--> STARTING --JOB_STARTED--> RUNNING --JOB_EXITED--> ENDED --acknowledged--> forgotten
 *      |   '------------------JOB_FAILED, also of one that waits----------^
 *      '--time is up, or this node leaves--> PENDING is said, forgotten
 *
 * Who waits was sent ahead by the head, since jobs like it run here and end soon: the next begins in the step in which one ends,
 * and no word of the head is waited for. It holds nothing before.
 */
#include "raylet/core/head/head.h"
#include "raylet/core/head/private.h"
#include "raylet/core/usage/usage.h"

#include "core/base/machine.h"
#include "core/base/plant.h"

#include "core/base/hash.h"
#include "core/base/limits/head.h"

#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/wait.h>

static const char *const submitted_names[] = {
    [JOB_WAITING] = "WAITING", [JOB_STARTING] = "STARTING", [JOB_RUNNING] = "RUNNING", [JOB_ENDED] = "ENDED"};
static const uint32_t submitted_next[] = {
    [JOB_WAITING] = MT_STATE(JOB_STARTING) | MT_STATE(JOB_ENDED),
    [JOB_STARTING] = MT_STATE(JOB_RUNNING) | MT_STATE(JOB_ENDED),
    [JOB_RUNNING] = MT_STATE(JOB_ENDED),
    [JOB_ENDED] = 0,
};
static const struct mt_machine submitted_machine = MT_MACHINE("submitted job", submitted_names, submitted_next);

static void submitted_set_state(struct rlt_submitted *job, enum rlt_submitted_state next)
{
    MT_TRANSITION(&submitted_machine, job->state, next);
    job->state = next;
}

static mt_id id_key(const char *id)
{
    uint64_t a = mt_hash_text(MT_HASH_START, id), b = 0x9ae16a3b2f90404fu;
    for (; *id; id++)
        b = (b ^ (uint8_t)*id) * 0x9e3779b97f4a7c15u;
    return (mt_id){a | 1, b};
}

static struct rlt_submitted *submitted_find(const struct rlt *r, const char *id)
{
    struct rlt_submitted *job = mt_map_ptr(&r->submitted, id_key(id));
    return job && strcmp(job->id, id) == 0 ? job : NULL;
}

static void state_send_with(struct rlt *r, const char *id, uint32_t attempt, const char *word, int32_t code, int32_t pid,
                            const char *reason, bool is_unfit)
{
    static const Manta__V1__NodeToHead empty = MANTA__V1__NODE_TO_HEAD__INIT;
    static const Manta__V1__JobState   empty_state = MANTA__V1__JOB_STATE__INIT;
    Manta__V1__NodeToHead             *m = rlt_keep(r->out, &empty, sizeof empty);
    Manta__V1__JobState               *s = rlt_keep(r->out, &empty_state, sizeof empty_state);
    s->id = rlt_keep(r->out, id, strlen(id) + 1);
    s->attempt = attempt;
    s->state = rlt_keep(r->out, word, strlen(word) + 1);
    s->exit_code = code;
    s->pid = pid;
    s->reason = rlt_keep(r->out, reason, strlen(reason) + 1);
    s->unfit = is_unfit;
    m->kind_case = MANTA__V1__NODE_TO_HEAD__KIND_JOB;
    m->job = s;
    if (r->head.is_registered)
        rlt_head_send(r, m);
}

static void state_send(struct rlt *r, const char *id, uint32_t attempt, const char *word, int32_t code, int32_t pid,
                       const char *reason)
{
    state_send_with(r, id, attempt, word, code, pid, reason, false);
}

/* ---- the log, then the state --------------------------------------------------------------------------------------- */

static void job_pump(struct rlt *r, struct rlt_submitted *job)
{
    if (!r->head.is_registered || job->state == JOB_WAITING || job->state == JOB_STARTING)
        return;
    if (job->is_beginning) {
        state_send(r, job->id, job->attempt, "RUNNING", 0, job->pid, "");
        job->is_beginning = false;
    }
    if (job->log_sent < job->log_size) {
        if (job->is_reading || job->log_sent - job->log_acked >= MT_RLT_LOG_WINDOW)
            return;
        struct rlt_a_job_log_read *a = &rlt_act(r->out, RLT_A_JOB_LOG_READ)->job_log_read;
        a->id = rlt_keep(r->out, job->id, sizeof job->id);
        a->offset = job->log_sent;
        a->size = MT_RLT_LOG_CHUNK;
        job->is_reading = true;
    } else if (job->state == JOB_ENDED) {
        state_send_with(r, job->id, job->attempt, job->word, job->exit_code, job->pid, job->reason, job->is_unfit);
        rlt_timer_set(r, &job->timer, r->now + MT_RLT_JOB_AGAIN_MS * RLT_MS);
    }
}

static void text_send(struct rlt *r, struct rlt_submitted *job, const struct rlt_ev_job_text *e)
{
    static const Manta__V1__NodeToHead empty = MANTA__V1__NODE_TO_HEAD__INIT;
    static const Manta__V1__LogChunk   empty_chunk = MANTA__V1__LOG_CHUNK__INIT;
    Manta__V1__NodeToHead             *m = rlt_keep(r->out, &empty, sizeof empty);
    Manta__V1__LogChunk               *chunk = rlt_keep(r->out, &empty_chunk, sizeof empty_chunk);
    job->is_reading = false;
    if (e->offset != job->log_sent || !r->head.is_registered)
        return; /* asked for before the head said where to go on */
    if (e->size == 0) {
        job->log_sent = job->log_size; /* the file cannot be read any more: nothing is gained by waiting for it */
        return;
    }
    chunk->id = rlt_keep(r->out, job->id, sizeof job->id);
    chunk->offset = e->offset;
    chunk->text.data = rlt_keep(r->out, e->bytes, e->size);
    chunk->text.len = e->size;
    chunk->attempt = job->attempt;
    m->kind_case = MANTA__V1__NODE_TO_HEAD__KIND_LOG;
    m->log = chunk;
    rlt_head_send(r, m);
    job->log_sent += e->size;
}

/* ---- words on many jobs travel together --- */

void rlt_submit_words(struct rlt *r)
{
    bool has_end = false;
    rlt_timer_clear(r, &r->head.words);
    MT_MAP_EACH(&r->submitted, entry) {
        const struct rlt_submitted *job = entry->value.ptr;
        has_end |= job->has_news && job->state == JOB_ENDED;
    }
    if (has_end)
        rlt_usage_timer(r); /* before the words of ends: then what they have cost is known with those */
    MT_MAP_EACH(&r->submitted, entry) {
        struct rlt_submitted *job = entry->value.ptr;
        if (job->has_news)
            job_pump(r, job);
        job->has_news = false;
    }
}

/* Each message costs the head a step, and a commit. Where this node has enough to do without it, words wait for others. */
static void job_news(struct rlt *r, struct rlt_submitted *job)
{
    uint32_t waiting = 0;
    MT_MAP_EACH(&r->submitted, entry)
        waiting += ((const struct rlt_submitted *)entry->value.ptr)->state == JOB_WAITING;
    job->has_news = true;
    if (waiting < MT_RLT_WORDS_LATE)
        rlt_submit_words(r);
    else if (!mt_heap_holds(&r->head.words.node))
        rlt_timer_set(r, &r->head.words, r->now + MT_RLT_WORDS_MS * RLT_MS);
}

/* ---- start and end --------------------------------------------------------------------------------------------------- */

static void job_kill(struct rlt *r, const struct rlt_submitted *job, int signal)
{
    struct rlt_a_job_kill *a = &rlt_act(r->out, RLT_A_JOB_KILL)->job_kill;
    a->id = rlt_keep(r->out, job->id, sizeof job->id);
    a->signal = signal;
}

/* ---- its notice, its time ---- */

/* So long before its time is up, or its node goes. UINT64_MAX: none is due. */
static uint64_t notice_at(const struct rlt *r, const struct rlt_submitted *job)
{
    uint64_t end = job->limit_at ? job->limit_at : UINT64_MAX, before = job->notice_ms * RLT_MS;
    if (r->drain.is_on && r->drain.ends < end)
        end = r->drain.ends;
    if (!job->signal || job->is_noticed || job->state != JOB_RUNNING || end == UINT64_MAX)
        return UINT64_MAX;
    return end > before ? end - before : 0;
}

/* Of one that runs, or is about to. */
static void time_look(struct rlt *r, struct rlt_submitted *job)
{
    uint64_t at = notice_at(r, job);
    if (r->now >= at) {
        job->is_noticed = true;
        job_kill(r, job, job->signal);
        at = UINT64_MAX;
    }
    if (job->limit_at && job->limit_at < at)
        at = job->limit_at;
    rlt_timer_clear(r, &job->timer);
    if (at != UINT64_MAX)
        rlt_timer_set(r, &job->timer, at);
}

void rlt_submit_leaving(struct rlt *r)
{
    MT_MAP_EACH(&r->submitted, entry) {
        struct rlt_submitted *job = entry->value.ptr;
        if (job->state == JOB_RUNNING && !job->is_stopping)
            time_look(r, job);
    }
}

/* SIGTERM, or its own notice where it is to begin again; SIGKILL after `kill_ms`. */
static void job_stop_in(struct rlt *r, struct rlt_submitted *job, const char *why, uint64_t kill_ms)
{
    if (job->state == JOB_ENDED || job->is_stopping)
        return;
    job->is_stopping = true;
    snprintf(job->reason, sizeof job->reason, "%s", why);
    if (MT_PLANT(MT_PLANT_NOTICE_NONE) && job->is_preempted)
        job_kill(r, job, SIGKILL);
    bool is_own = job->is_preempted && job->signal && job->state == JOB_RUNNING;
    job_kill(r, job, is_own ? job->signal : SIGTERM);
    rlt_timer_set(r, &job->timer, r->now + kill_ms * RLT_MS);
}

static void job_stop(struct rlt *r, struct rlt_submitted *job, const char *why)
{
    job_stop_in(r, job, why, MT_RLT_JOB_STOP_MS);
}

static void job_return(struct rlt *r, struct rlt_submitted *job);

void rlt_submit_timer(struct rlt *r, struct rlt_submitted *job)
{
    if (job->state == JOB_WAITING && !job->is_stopping) {
        job_return(r, job);
    } else if (job->state == JOB_ENDED) {
        job_pump(r, job);
    } else if (job->is_stopping) {
        job_kill(r, job, SIGKILL);
    } else if (!job->limit_at || r->now < job->limit_at) {
        time_look(r, job);
    } else {
        char why[96];
        snprintf(why, sizeof why, "its time limit of %llu ms has passed", (unsigned long long)job->time_ms);
        job->is_timed_out = true;
        job_stop(r, job, why);
    }
}

static void submitted_free(struct rlt *r, struct rlt_submitted *job)
{
    rlt_timer_clear(r, &job->timer);
    mt_map_remove(&r->submitted, id_key(job->id));
    free(job);
}

static void job_forget(struct rlt *r, struct rlt_submitted *job)
{
    rlt_act(r->out, RLT_A_JOB_FORGET)->job_forget.id = rlt_keep(r->out, job->id, sizeof job->id);
    submitted_free(r, job);
}

/* ---- those that wait here ---- */

/* It may be started by this node or another. */
static void job_return(struct rlt *r, struct rlt_submitted *job)
{
    state_send(r, job->id, job->attempt, "PENDING", 0, 0, "no room");
    job_forget(r, job);
}

static struct rlt_submitted *next_waiting(const struct rlt *r)
{
    struct rlt_submitted *next = NULL;
    MT_MAP_EACH(&r->submitted, entry) {
        struct rlt_submitted *job = entry->value.ptr;
        if (job->state == JOB_WAITING && !job->is_stopping && !job->is_preempted && (!next || job->turn < next->turn))
            next = job;
    }
    return next;
}

/* It has what it needs. */
static void job_holds(struct rlt *r, struct rlt_submitted *job)
{
    rlt_usage_known(r, rlt_usage_number(job->id), job->id);
    rlt_usage_change(r, rlt_usage_number(job->id), &job->hold, RLT_USAGE_TAKES);
    job->limit_at = job->time_ms ? r->now + job->time_ms * RLT_MS : 0;
    time_look(r, job);
}

static void waiting_go(struct rlt *r)
{
    for (struct rlt_submitted *job; (job = next_waiting(r));) {
        if (r->is_stopping || r->drain.is_on) {
            job_return(r, job);
            continue;
        }
        if (!rlt_ledger_take(&r->ledger, job->request, job->request_count, &job->hold))
            return;
        submitted_set_state(job, JOB_STARTING);
        job_holds(r, job);
        rlt_act(r->out, RLT_A_JOB_GO)->job_go.id = rlt_keep(r->out, job->id, sizeof job->id);
    }
}

static void job_gives(struct rlt *r, struct rlt_submitted *job)
{
    rlt_usage_change(r, rlt_usage_number(job->id), &job->hold, RLT_USAGE_GIVES);
    rlt_usage_over(r, rlt_usage_number(job->id));
    rlt_ledger_give(&r->ledger, &job->hold);
}

/* Should this raylet be killed before the head has it, the next one says it. */
static void end_keep(struct rlt *r, const struct rlt_submitted *job)
{
    struct rlt_a_job_keep *a = &rlt_act(r->out, RLT_A_JOB_KEEP)->job_keep;
    a->id = rlt_keep(r->out, job->id, sizeof job->id);
    a->word = job->word;
    a->reason = rlt_keep_text(r, job->reason);
    a->attempt = job->attempt;
    a->exit_code = job->exit_code;
}

static void job_end(struct rlt *r, struct rlt_submitted *job, const char *word, int32_t code)
{
    bool has_waited = job->state == JOB_WAITING;
    submitted_set_state(job, JOB_ENDED);
    job->word = job->is_preempted && !code               ? "SUCCEEDED" /* it has used the time to come to its end */
                : job->is_preempted                      ? "PREEMPTED"
                : job->is_stopping && !job->is_timed_out ? "STOPPED"
                : job->is_timed_out                      ? "FAILED"
                                                         : word;
    job->exit_code = code;
    if (!has_waited) {
        job_gives(r, job);
        end_keep(r, job);
    }
    r->is_dirty = true;
    rlt_timer_clear(r, &job->timer);
    waiting_go(r);
    job_news(r, job);
}

/* As the head reads them: none of something is nothing to ask for. */
static uint32_t resources_of(const Manta__V1__JobSpec *spec, struct ctl_resource *out)
{
    uint32_t n = 0;
    for (size_t i = 0; i < spec->n_resources && n < CTL_RESOURCES; i++) {
        if (!spec->resources[i]->milli)
            continue;
        memset(&out[n], 0, sizeof out[n]);
        snprintf(out[n].name, sizeof out[n].name, "%s", spec->resources[i]->name);
        out[n++].milli = spec->resources[i]->milli;
    }
    return n;
}

/* As the head counts them. */
static uint64_t drivers_max(const struct rlt *r)
{
    int cpu = rlt_ledger_find(&r->ledger, "CPU");
    return MT_RLT_SUBMITTED_MAX + (cpu < 0 ? 0 : (uint64_t)r->ledger.total[cpu].milli / 1000);
}

static void job_start(struct rlt *r, const Manta__V1__StartJob *start)
{
    const Manta__V1__JobSpec *spec = start->spec;
    struct rlt_submitted     *job = spec ? submitted_find(r, spec->id) : NULL;
    struct ctl_resource       request[CTL_RESOURCES];
    struct rlt_hold           hold = {.is_cpu_out = false};
    char                      text[CTL_TEXT_SIZE];

    if (!spec || !spec->id[0] || strlen(spec->id) >= sizeof job->id)
        return;
    if (job && job->attempt == start->attempt) {
        if (job->state == JOB_RUNNING)
            state_send(r, job->id, job->attempt, "RUNNING", 0, job->pid, "");
        else
            job_pump(r, job);
        return;
    }
    if (job && job->state != JOB_ENDED)
        job_stop(r, job, "a later attempt was ordered");
    uint32_t count = resources_of(spec, request);
    bool     may_start = !job && r->submitted.count < drivers_max(r) && !r->is_stopping && !r->drain.is_on &&
                     !rlt_request_check(request, count, text, sizeof text).code;
    bool is_in_turn = may_start && (!start->wait_ms || !next_waiting(r));
    bool has_room = is_in_turn && rlt_ledger_take(&r->ledger, request, count, &hold);
    if (!may_start || (!has_room && !start->wait_ms)) {
        state_send(r, spec->id, start->attempt, "PENDING", 0, 0, job ? "its former attempt is still ending" : "no room");
        if (job && job->state == JOB_ENDED)
            job_pump(r, job);
        return;
    }
    job = rlt_calloc(sizeof *job);
    snprintf(job->id, sizeof job->id, "%s", spec->id);
    job->attempt = start->attempt;
    job->time_ms = spec->time_ms;
    job->signal = spec->signal < 32 ? (int)spec->signal : 0;
    job->notice_ms = spec->notice_ms;
    job->is_warden = spec->actor && spec->retries;
    job->hold = hold;
    job->word = "RUNNING";
    job->timer.kind = RLT_TIMER_SUBMITTED;
    job->state = has_room ? JOB_STARTING : JOB_WAITING;
    job->turn = r->next_turn++;
    memcpy(job->request, request, sizeof request);
    job->request_count = count;
    rlt_map_put(&r->submitted, id_key(job->id), job);
    if (has_room)
        job_holds(r, job);
    else
        rlt_timer_set(r, &job->timer, r->now + start->wait_ms * RLT_MS);
    struct rlt_a_job_start *a = &rlt_act(r->out, RLT_A_JOB_START)->job_start;
    a->id = rlt_keep(r->out, job->id, sizeof job->id);
    a->attempt = job->attempt;
    a->failures = start->failures;
    a->waits = !has_room;
    a->spec = spec;
}

static void job_acked(struct rlt *r, const Manta__V1__JobStateAck *ack)
{
    struct rlt_submitted *job = submitted_find(r, ack->id);
    if (job && job->attempt == ack->attempt && job->state == JOB_ENDED && strcmp(job->word, ack->state) == 0)
        job_forget(r, job);
}

static void job_stop_ordered(struct rlt *r, const Manta__V1__StopJobOrder *stop)
{
    struct rlt_submitted *job = submitted_find(r, stop->id);
    if (job && job->attempt == stop->attempt && stop->preempt_ms) {
        job->is_preempted |= !job->is_stopping; /* who was told to stop before, stops */
        job_stop_in(r, job, stop->reason, stop->preempt_ms);
    } else if (job && job->attempt == stop->attempt) {
        if (job->is_preempted && job->is_stopping && job->state != JOB_ENDED) { /* no more waiting for it */
            job->is_preempted = false;
            rlt_timer_set(r, &job->timer, r->now + MT_RLT_JOB_STOP_MS * RLT_MS);
        }
        job_stop(r, job, stop->reason[0] ? stop->reason : "stopped on request");
    } else {
        state_send(r, stop->id, stop->attempt, "STOPPED", 1, 0, "it does not run here");
    }
}

static void job_signal_ordered(struct rlt *r, const Manta__V1__SignalJobOrder *order)
{
    struct rlt_submitted *job = submitted_find(r, order->id);
    if (job && job->attempt == order->attempt && job->state == JOB_RUNNING && order->signal >= 1 &&
        order->signal <= MT_HEAD_JOB_SIGNAL_MAX)
        job_kill(r, job, order->signal);
}

static void log_acked(struct rlt *r, const Manta__V1__LogAck *ack)
{
    struct rlt_submitted *job = submitted_find(r, ack->id);
    if (!job || job->attempt != ack->attempt || ack->offset > job->log_size)
        return;
    job->log_acked = ack->offset;
    if (job->log_sent < ack->offset)
        job->log_sent = ack->offset;
    job_pump(r, job);
}

void rlt_submit_order(struct rlt *r, const Manta__V1__HeadToNode *m)
{
    switch (m->kind_case) {
    case MANTA__V1__HEAD_TO_NODE__KIND_START_JOB: job_start(r, m->start_job); break;
    case MANTA__V1__HEAD_TO_NODE__KIND_STOP_JOB: job_stop_ordered(r, m->stop_job); break;
    case MANTA__V1__HEAD_TO_NODE__KIND_SIGNAL_JOB: job_signal_ordered(r, m->signal_job); break;
    case MANTA__V1__HEAD_TO_NODE__KIND_JOB_ACK: job_acked(r, m->job_ack); break;
    default: log_acked(r, m->log_ack);
    }
}

static void job_started(struct rlt *r, const char *id, int32_t pid)
{
    struct rlt_submitted *job = submitted_find(r, id);
    if (!job)
        return;
    submitted_set_state(job, JOB_RUNNING);
    job->pid = pid;
    if (!job->is_stopping)
        time_look(r, job);
    job->is_beginning = true;
    job_news(r, job);
}

const char *rlt_submit_of(const struct rlt *r, int32_t pid)
{
    MT_MAP_EACH(&r->submitted, entry) {
        const struct rlt_submitted *job = entry->value.ptr;
        if (job->state == JOB_RUNNING && job->pid == pid)
            return job->id;
    }
    return "";
}

/* `why`: NULL where it is not known. */
static void job_failed(struct rlt *r, const char *id, const char *why, bool is_unfit)
{
    struct rlt_submitted *job = submitted_find(r, id);
    if (!job)
        return;
    if (!job->is_stopping && !job->is_preempted)
        snprintf(job->reason, sizeof job->reason, "cannot be started: %s", why ? why : "?");
    job->is_unfit = is_unfit;
    job_end(r, job, "FAILED", 127);
}

static void job_log(struct rlt *r, const char *id, uint64_t size)
{
    struct rlt_submitted *job = submitted_find(r, id);
    if (!job)
        return;
    job->log_size = size;
    job_pump(r, job);
}

static void job_text(struct rlt *r, const struct rlt_ev_job_text *e)
{
    struct rlt_submitted *job = submitted_find(r, e->id);
    if (!job)
        return;
    text_send(r, job, e);
    job_pump(r, job);
}

static void job_exited(struct rlt *r, const struct rlt_ev_job_exited *e)
{
    struct rlt_submitted *job = submitted_find(r, e->id);
    int32_t               code = WIFEXITED(e->status) ? WEXITSTATUS(e->status) : 128 + WTERMSIG(e->status);
    if (!job)
        return;
    job->log_size = e->log_size;
    if (!job->is_stopping && !job->is_preempted && WIFSIGNALED(e->status)) {
        const char *name = sigabbrev_np(WTERMSIG(e->status));
        snprintf(job->reason, sizeof job->reason, "killed by signal %d (SIG%s)", WTERMSIG(e->status), name ? name : "?");
    } else if (!job->is_stopping && !job->is_preempted && code) {
        snprintf(job->reason, sizeof job->reason, "exited with status %d%s%s", code, e->loader ? ": " : "",
                 e->loader ? e->loader : "");
        job->is_unfit = e->loader != NULL;
    }
    job_end(r, job, code ? "FAILED" : "SUCCEEDED", code);
}

void rlt_submit_event(struct rlt *r, const struct rlt_event *e)
{
    switch (e->kind) {
    case RLT_EV_JOB_STARTED: job_started(r, e->job_started.id, e->job_started.pid); break;
    case RLT_EV_JOB_FAILED: job_failed(r, e->job_failed.id, e->job_failed.why, e->job_failed.is_unfit); break;
    case RLT_EV_JOB_LOG: job_log(r, e->job_log.id, e->job_log.size); break;
    case RLT_EV_JOB_TEXT: job_text(r, &e->job_text); break;
    default: job_exited(r, &e->job_exited);
    }
}

void rlt_submit_registered(struct rlt *r)
{
    MT_MAP_EACH(&r->submitted, entry) {
        struct rlt_submitted *job = entry->value.ptr;
        job->log_sent = job->log_acked;
        job->is_beginning |= job->state == JOB_RUNNING;
        job_pump(r, job);
    }
}

void rlt_submit_preempt(struct rlt *r, bool wardens, const char *why)
{
    MT_MAP_EACH(&r->submitted, entry) {
        struct rlt_submitted *job = entry->value.ptr;
        if (job->state == JOB_ENDED || job->is_preempted || (wardens && !job->is_warden))
            continue;
        job->is_preempted = !job->is_stopping; /* who was told to stop before, stops */
        snprintf(job->reason, sizeof job->reason, "%s", why);
        job_kill(r, job, SIGKILL);
    }
}

void rlt_submit_kill_all(struct rlt *r)
{
    MT_MAP_EACH(&r->submitted, entry) {
        struct rlt_submitted *job = entry->value.ptr;
        if (job->state != JOB_ENDED)
            job_kill(r, job, SIGKILL);
    }
}

void rlt_submit_fini(struct rlt *r)
{
    MT_MAP_EACH(&r->submitted, entry)
        free(entry->value.ptr);
    mt_map_fini(&r->submitted);
}
