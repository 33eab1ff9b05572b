/* SPDX-License-Identifier: Apache-2.0
 *
 * job.c - jobs from submit to end: a client that asks again until it is answered, drivers on nodes, logs at the head.
 *
 * I1  what was accepted ends, once              I5  the log of a job with one attempt is what that attempt wrote
 * I3  no attempt of a job is started twice, nor another where the same head was told that its program can't be run
 * I8  what was accepted is known to every later head; an end stays an end
 *
 * Owns: every struct job and run. Thread: one.
 */
#include "tests/sim/load/job.h"

#include "core/proto/manta.pb-c.h"
#include "raylet/core/state/state.h"
#include "scheduler/head/core/core.h"
#include "tests/sim/twins/net.h"

#include <signal.h>
#include <stdlib.h>

enum {
    JOB_EVERY_MS = 700,
    SHORT_EVERY_MS = 60,
    SHORT_RUN_MS = 120,
    JOB_ASK_AGAIN_MS = 1500, /* no answer for so long: the call is made again */
    JOB_POLL_MS = 400,
    JOB_LOG_MAX = 40000,
    NOTICE_SLACK_MS = 40, /* signals take a while */
    UNFIT_MAX = 16,       /* nodes that a job is found unfit for, counted */
};

/* A node that can't run a job's program, and which head was told so. */
struct unfit {
    uint64_t node; /* serial of the incarnation */
    uint32_t epoch;
    uint64_t head;
};

/* A job as its client sees it. */
struct job {
    char     id[HEAD_JOB_ID_SIZE];
    uint32_t number, retries;
    int32_t  priority;
    uint32_t notice_ms; /* 0: it wants none of its own */
    bool     is_accepted, is_ended, wants_stop, has_stopped, wants_delete, is_deleted;
    uint32_t delete_calls, unknown; /* how often it was asked to be deleted, and told to be unknown */
    char     state[16];
    uint64_t call; /* under way; 0: none */
    uint64_t turn; /* number of the client's turn that is due: an earlier one does nothing */
    int      method;
    uint32_t runs;
    uint64_t seen_attempts[16]; /* bits */
    uint8_t *log;               /* at the head */
    size_t   log_size, log_synced, log_capacity;
    bool     has_log;

    struct unfit unfit[UNFIT_MAX];
    uint32_t     unfit_count;
};

/* One attempt on a node. */
struct run {
    uint64_t    serial;
    struct job *job;
    uint32_t    attempt;
    uint64_t    node;  /* serial of the incarnation */
    uint32_t    epoch; /* of that node, at its start */
    int32_t     pid;
    bool        has_gone, is_started, is_over, ignores_term, cannot_load;
    size_t      written, total; /* bytes of output */
    int32_t     status;
    uint64_t    ends_at;
    uint64_t    noticed_at; /* it had its notice; 0: not yet */
};

struct sim_jobs {
    MT_VEC(struct job *) jobs;
    mt_map   runs; /* serial -> run */
    uint64_t next_call;
    bool     is_last_made;
};

static void client_turn(struct sim *s, struct sim_event *e);

/* What attempt `attempt` writes at `offset`. */
static uint8_t output_byte(const struct job *j, uint32_t attempt, size_t offset)
{
    return (uint8_t)('a' + (j->number * 7 + attempt * 3 + offset) % 26);
}

static struct job *job_of(struct sim *s, const char *id)
{
    for (size_t i = 0; i < s->jobs->jobs.count; i++)
        if (strcmp(s->jobs->jobs.data[i]->id, id) == 0)
            return s->jobs->jobs.data[i];
    return NULL;
}

static struct run *run_of(struct sim *s, uint64_t serial)
{
    return mt_map_ptr(&s->jobs->runs, mt_map_key(serial));
}

static struct run *run_of_name(struct sim *s, const struct sim_node *n, const char *id)
{
    MT_MAP_EACH(&s->jobs->runs, entry) {
        struct run *r = entry->value.ptr;
        if (r->node == n->serial && strcmp(r->job->id, id) == 0)
            return r;
    }
    return NULL;
}

/* ---- the client --------------------------------------------------------------------------------------------------------- */

static void call(struct sim *s, struct job *j, int method, const ProtobufCMessage *request)
{
    size_t   size = protobuf_c_message_get_packed_size(request);
    uint8_t *bytes = sim_alloc(size + 8);
    protobuf_c_message_pack(request, bytes);
    j->call = ++s->jobs->next_call;
    j->method = method;
    if (!sim_head_call(s, j->call, method, bytes, size))
        j->call = 0;
    free(bytes);
}

static void submit(struct sim *s, struct job *j)
{
    Manta__V1__SubmitRequest request = MANTA__V1__SUBMIT_REQUEST__INIT;
    Manta__V1__JobSpec       spec = MANTA__V1__JOB_SPEC__INIT;
    Manta__V1__Resource      cpu = MANTA__V1__RESOURCE__INIT, *resources[1] = {&cpu};
    char                    *argv[2] = {"driver", "--go"};
    cpu.name = "CPU";
    cpu.milli = s->config.many_jobs ? 1000 : 100;
    spec.id = j->id;
    spec.name = j->id;
    spec.argv = argv;
    spec.n_argv = 2;
    spec.retries = j->retries;
    spec.priority = j->priority;
    spec.signal = j->notice_ms ? SIGUSR1 : 0;
    spec.notice_ms = j->notice_ms;
    spec.resources = resources;
    spec.n_resources = 1;
    request.spec = &spec;
    call(s, j, HEAD_SUBMIT, &request.base);
}

static void ask(struct sim *s, struct job *j, int method)
{
    Manta__V1__JobRequest request = MANTA__V1__JOB_REQUEST__INIT;
    request.id = j->id;
    call(s, j, method, &request.base);
}

static void client_again(struct sim *s, struct job *j, uint64_t delay)
{
    sim_after(s, delay, "job client", client_turn, j->number)->arg = ++j->turn;
}

static bool is_end(const char *state)
{
    return !strcmp(state, "SUCCEEDED") || !strcmp(state, "FAILED") || !strcmp(state, "STOPPED");
}

static void client_turn(struct sim *s, struct sim_event *e)
{
    struct job *j = s->jobs->jobs.data[e->target];
    if (e->arg != j->turn || j->is_ended)
        return;
    client_again(s, j, JOB_ASK_AGAIN_MS * SIM_MS); /* unless the answer comes first */
    if (!j->is_accepted)
        submit(s, j);
    else if (j->wants_delete && is_end(j->state) && !j->is_deleted && ++j->delete_calls)
        ask(s, j, HEAD_DELETE_JOB);
    else if (j->wants_stop && !j->has_stopped && sim_chance(s, 300000))
        ask(s, j, HEAD_STOP_JOB);
    else
        ask(s, j, HEAD_GET_JOB);
}

static void check_log(struct sim *s, const struct job *j, uint32_t attempt)
{
    if (j->runs != 1 || strcmp(j->state, "SUCCEEDED") != 0)
        return;
    for (size_t i = 0; i < j->log_size; i++)
        SIM_REQUIRE(s, j->log[i] == output_byte(j, attempt, i), "I5: the log of %s differs at byte %zu", j->id, i);
}

static void take_state(struct sim *s, struct job *j, const Manta__V1__JobInfo *info)
{
    if (is_end(j->state)) {
        SIM_REQUIRE(s, !strcmp(j->state, info->state), "I2: job %s was %s and is %s", j->id, j->state, info->state);
        j->is_ended = !j->wants_delete; /* asked once more after its end */
        return;
    }
    snprintf(j->state, sizeof j->state, "%s", info->state);
    if (!is_end(j->state))
        return;
    sim_note(s, "job ends", j->number, (uint64_t)info->attempt);
    s->counters.job_succeeded += !strcmp(j->state, "SUCCEEDED");
    s->counters.job_failed += !strcmp(j->state, "FAILED");
    s->counters.job_stopped += !strcmp(j->state, "STOPPED");
    SIM_REQUIRE(s, strcmp(j->state, "SUCCEEDED") != 0 || j->runs > 0, "I3: job %s succeeded and never ran", j->id);
    SIM_REQUIRE(s, strcmp(j->state, "STOPPED") != 0 || j->wants_stop, "I1: job %s was stopped by nobody", j->id);
    check_log(s, j, info->attempt);
}

/* It is not known any more: asked for twice after that, so that a later head may be asked too. */
static void deleted(struct sim *s, struct job *j)
{
    SIM_REQUIRE(s, j->is_deleted || j->delete_calls > 1, "I8: job %s was accepted and is not known", j->id);
    s->counters.job_deleted += !j->is_deleted;
    j->is_deleted = true;
    j->call = 0;
    j->is_ended = ++j->unknown > 2;
    if (!j->is_ended)
        client_again(s, j, sim_between(s, JOB_POLL_MS, 10 * JOB_POLL_MS) * SIM_MS);
}

/* NULL: it has asked again since. */
static struct job *job_of_call(struct sim *s, uint64_t call)
{
    struct job *j = NULL;
    for (size_t i = 0; i < s->jobs->jobs.count; i++)
        if (s->jobs->jobs.data[i]->call == call)
            j = s->jobs->jobs.data[i];
    return j;
}

void sim_job_refused(struct sim *s, uint64_t call)
{
    struct job *j = job_of_call(s, call);
    if (!j)
        return;
    sim_note(s, "job refused", j->number, 0);
    SIM_REQUIRE(s, j->method != HEAD_SUBMIT || !sim_head_knows_job(s, j->id), "I8: job %s is refused, and taken in", j->id);
    j->call = 0;
    client_again(s, j, sim_between(s, JOB_POLL_MS / 4, JOB_POLL_MS) * SIM_MS);
}

void sim_job_reply(struct sim *s, const struct head_action *a)
{
    struct job *j = job_of_call(s, a->reply.call);
    if (!j)
        return;
    Manta__V1__JobReply *reply = manta__v1__job_reply__unpack(NULL, a->reply.bytes->size, a->reply.bytes->data);
    SIM_REQUIRE(s, reply, "the head's reply cannot be read");
    sim_note(s, "job reply", j->number, (uint64_t)reply->code);
    if (reply->code == MT_ENOENT && j->delete_calls) {
        deleted(s, j);
        manta__v1__job_reply__free_unpacked(reply, NULL);
        return;
    }
    SIM_REQUIRE(s, !j->is_accepted || reply->code != MT_ENOENT, "I8: job %s was accepted and is not known", j->id);
    SIM_REQUIRE(s, !j->is_deleted || j->method == HEAD_DELETE_JOB, "I8: job %s was deleted and is known again", j->id);
    SIM_REQUIRE(s, reply->code == MT_OK || reply->code == MT_EAGAIN || j->method == HEAD_STOP_JOB, "job %s is refused: %s %s",
                j->id, mt_code_name(reply->code), reply->text);
    if (reply->code == MT_OK && j->method == HEAD_DELETE_JOB) {
        s->counters.job_deleted += !j->is_deleted;
        j->is_deleted = true;
    }
    s->counters.job_accepted += reply->code == MT_OK && !j->is_accepted;
    j->is_accepted |= reply->code == MT_OK;
    j->has_stopped |= reply->code == MT_OK && j->method == HEAD_STOP_JOB;
    j->call = 0;
    if (reply->code == MT_OK && reply->job)
        take_state(s, j, reply->job);
    manta__v1__job_reply__free_unpacked(reply, NULL);
    if (!j->is_ended)
        client_again(s, j, sim_between(s, JOB_POLL_MS / 4, JOB_POLL_MS) * SIM_MS);
}

static void new_job(struct sim *s, struct sim_event *e)
{
    struct sim_jobs *js = s->jobs;
    struct job      *j;
    (void)e;
    if (js->is_last_made)
        return;
    j = sim_alloc(sizeof *j);
    j->number = (uint32_t)js->jobs.count;
    j->retries = (uint32_t)sim_random(s, 4);
    j->wants_stop = sim_chance(s, 200000);
    j->wants_delete = sim_chance(s, 300000);
    if (s->config.many_jobs) { /* who is below 0 makes room */
        j->priority = -(int32_t)sim_random(s, 3);
        j->notice_ms = sim_chance(s, 500000) ? 1000 : 0;
    }
    snprintf(j->id, sizeof j->id, "job-%u", j->number);
    if (mt_vec_push(&js->jobs, j).code)
        abort();
    client_again(s, j, 0);
    js->is_last_made = s->now >= s->config.faults_until; /* that one finds everything in order */
    sim_after(s, sim_between(s, 1, s->config.many_jobs ? SHORT_EVERY_MS : 2 * JOB_EVERY_MS) * SIM_MS, "new job", new_job, 0);
}

/* ---- the driver's process on a node -------------------------------------------------------------------------------------- */

static void tell(struct sim *s, struct run *r, struct rlt_event e)
{
    struct sim_node *n = sim_node_of(s, r->node);
    if (n)
        sim_node_step(s, n, &e);
}

static void run_ends(struct sim *s, struct run *r, int32_t status)
{
    r->is_over = true;
    r->status = status;
    tell(s, r,
         (struct rlt_event){.kind = RLT_EV_JOB_EXITED,
                            .job_exited = {.id = r->job->id,
                                           .status = status,
                                           .log_size = r->written,
                                           .loader = r->cannot_load ? "error while loading shared libraries" : NULL}});
}

/* Some jobs want a library that every other node lacks. */
static bool lacks_library(const struct sim *s, const struct sim_node *n, const struct job *j)
{
    return s->config.many_jobs && j->number % 4 == 3 && sim_node_index(n) % 2 == 0;
}

/* Its raylet tells the head, unless the attempt was to end anyway, or the raylet has died of it. */
static void unfit_told(struct sim *s, uint64_t serial)
{
    const struct run      *r = run_of(s, serial);
    const struct sim_node *n = r ? sim_node_of(s, r->node) : NULL;
    if (!n || r->job->unfit_count == UNFIT_MAX)
        return;
    MT_MAP_EACH(&n->core->submitted, entry) {
        const struct rlt_submitted *there = entry->value.ptr;
        if (strcmp(there->id, r->job->id) != 0 || there->attempt != r->attempt || !there->is_unfit)
            continue;
        r->job->unfit[r->job->unfit_count++] = (struct unfit){n->serial, n->core->epoch, sim_head_serial(s)};
        s->unfits++;
        return;
    }
}

static void check_unfit(struct sim *s, const struct sim_node *n, const struct job *j)
{
    for (uint32_t i = 0; i < j->unfit_count; i++)
        SIM_REQUIRE(s,
                    j->unfit[i].node != n->serial || j->unfit[i].epoch != n->core->epoch || j->unfit[i].head != sim_head_serial(s),
                    "I3: %s is tried again on node %d, which can't run it", j->id, sim_node_index(n));
}

static void run_goes_on(struct sim *s, struct sim_event *e)
{
    struct run *r = run_of(s, e->target);
    if (!r || r->is_over)
        return;
    if (s->now >= r->ends_at) {
        run_ends(s, r, r->status);
        return;
    }
    size_t more = sim_random(s, r->total - r->written + 1);
    r->written += more;
    if (more)
        tell(s, r, (struct rlt_event){.kind = RLT_EV_JOB_LOG, .job_log = {.id = r->job->id, .size = r->written}});
    sim_after(s, sim_between(s, SIM_MS, 200 * SIM_MS), "job runs", run_goes_on, e->target);
}

static void run_begins(struct sim *s, struct sim_event *e)
{
    struct run *r = run_of(s, e->target);
    if (!r || r->is_over)
        return;
    if (!s->is_healed && sim_chance(s, 50000)) {
        r->is_over = true;
        tell(s, r,
             (struct rlt_event){.kind = RLT_EV_JOB_FAILED,
                                .job_failed = {.id = r->job->id, .why = "a file of it could not be fetched"}});
        return;
    }
    r->is_started = true;
    r->job->runs++;
    tell(s, r, (struct rlt_event){.kind = RLT_EV_JOB_STARTED, .job_started = {.id = r->job->id, .pid = r->pid}});
    struct sim_node *n = (r = run_of(s, e->target)) ? sim_node_of(s, r->node) : NULL; /* it may die of what it hears */
    if (n && lacks_library(s, n, r->job)) {
        r->cannot_load = true;
        run_ends(s, r, 127 << 8);
        unfit_told(s, e->target);
        return;
    }
    sim_after(s, sim_between(s, SIM_MS, 50 * SIM_MS), "job runs", run_goes_on, e->target);
}

static void act_go(struct sim *s, struct run *r)
{
    r->has_gone = true;
    r->job->seen_attempts[r->attempt / 64] |= UINT64_C(1) << r->attempt % 64;
    r->ends_at = s->now + sim_between(s, 5 * SIM_MS, s->config.many_jobs ? SHORT_RUN_MS * SIM_MS : 2 * SIM_S);
    s->counters.job_attempt++;
    sim_after(s, sim_between(s, SIM_MS, 80 * SIM_MS), "job begins", run_begins, r->serial);
}

static void act_start(struct sim *s, struct sim_node *n, const struct rlt_a_job_start *a)
{
    struct job *j = job_of(s, a->id);
    struct run *r = sim_alloc(sizeof *r);
    uint64_t    attempt = a->attempt;
    SIM_REQUIRE(s, j && attempt < 1024, "I3: a job is started that nobody submitted");
    SIM_REQUIRE(s, !(j->seen_attempts[attempt / 64] >> attempt % 64 & 1), "I3: attempt %llu of %s is started twice",
                (unsigned long long)attempt, j->id);
    check_unfit(s, n, j);
    r->serial = sim_serial(s);
    r->job = j;
    r->attempt = (uint32_t)attempt;
    r->node = n->serial;
    r->epoch = n->core->epoch;
    r->pid = ++s->next_pid;
    r->ignores_term = sim_chance(s, 200000);
    r->total = sim_random(s, JOB_LOG_MAX);
    r->status = sim_chance(s, 300000) ? 1 << 8 : 0;
    if (mt_map_put_ptr(&s->jobs->runs, mt_map_key(r->serial), r).code)
        abort();
    if (a->waits)
        s->jobs_waited++;
    else
        act_go(s, r);
}

/* Who wants a notice is not killed before its time, but by who asked for its end, or with its node. */
static void check_notice(struct sim *s, const struct run *r, int signal)
{
    const struct sim_node *n = sim_node_of(s, r->node);
    if (signal != SIGKILL || !r->is_started || !r->job->notice_ms || r->job->wants_stop || !n || n->core->drain.is_on ||
        n->core->is_stopping || n->core->epoch != r->epoch)
        return;
    SIM_REQUIRE(s, r->noticed_at && s->now - r->noticed_at + NOTICE_SLACK_MS * SIM_MS >= r->job->notice_ms * SIM_MS,
                "I15: %s was killed before its notice was over", r->job->id);
}

static void killed(struct sim *s, struct sim_event *e)
{
    struct run *r = run_of(s, e->target);
    int         signal = (int)e->arg;
    if (!r || r->is_over || (signal == SIGTERM && r->ignores_term))
        return;
    check_notice(s, r, signal);
    if (signal == SIGUSR1) {
        SIM_REQUIRE(s, r->is_started && r->job->notice_ms && !r->noticed_at, "I15: %s has a notice that it did not want, or twice",
                    r->job->id);
        r->noticed_at = s->now;
        s->notices++;
        return;
    }
    if (r->is_started) {
        run_ends(s, r, signal);
        return;
    }
    r->is_over = true;
    tell(s, r, (struct rlt_event){.kind = RLT_EV_JOB_FAILED, .job_failed = {.id = r->job->id, .why = "killed before it began"}});
}

static void read_back(struct sim *s, struct sim_event *e)
{
    struct run *r = run_of(s, e->target);
    size_t      size = e->size, at = e->arg;
    if (!r)
        return;
    if (at > r->written)
        size = 0;
    else if (size > r->written - at)
        size = r->written - at;
    uint8_t *bytes = sim_alloc(size + 1);
    for (size_t i = 0; i < size; i++)
        bytes[i] = output_byte(r->job, r->attempt, at + i);
    tell(s, r,
         (struct rlt_event){.kind = RLT_EV_JOB_TEXT, .job_text = {.id = r->job->id, .offset = at, .bytes = bytes, .size = size}});
    free(bytes);
}

static void act_kill(struct sim *s, const struct run *r, int signal)
{
    sim_after(s, sim_between(s, SIM_US, 20 * SIM_MS), "job killed", killed, r->serial)->arg = (uint64_t)signal;
}

static void act_log_read(struct sim *s, const struct run *r, const struct rlt_a_job_log_read *a)
{
    struct sim_event *e = sim_after(s, sim_between(s, SIM_US, 3 * SIM_MS), "job log", read_back, r->serial);
    e->arg = a->offset;
    e->size = a->size;
}

static void act_forget(struct sim *s, struct run *r)
{
    SIM_REQUIRE(s, r->is_over || !r->has_gone, "I6: a job is forgotten while it runs");
    mt_map_remove(&s->jobs->runs, mt_map_key(r->serial));
    free(r);
}

/* The run of an action that is about one. */
static struct run *run_named(struct sim *s, struct sim_node *n, const char *id)
{
    struct run *r = run_of_name(s, n, id);
    SIM_REQUIRE(s, r, "node %d names a job that does not run there", sim_node_index(n));
    return r;
}

void sim_job_act(struct sim *s, struct sim_node *n, const struct rlt_action *a)
{
    if (a->kind == RLT_A_JOB_START)
        act_start(s, n, &a->job_start);
    else if (a->kind == RLT_A_JOB_GO)
        act_go(s, run_named(s, n, a->job_go.id));
    else if (a->kind == RLT_A_JOB_KILL)
        act_kill(s, run_named(s, n, a->job_kill.id), a->job_kill.signal);
    else if (a->kind == RLT_A_JOB_LOG_READ)
        act_log_read(s, run_named(s, n, a->job_log_read.id), &a->job_log_read);
    else
        act_forget(s, run_named(s, n, a->job_forget.id));
}

void sim_jobs_of_node_die(struct sim *s, uint64_t node)
{
    MT_MAP_EACH(&s->jobs->runs, entry) {
        struct run *r = entry->value.ptr;
        if (r->node == node) {
            mt_map_remove(&s->jobs->runs, entry->key);
            free(r);
        }
    }
}

/* ---- logs at the head ---------------------------------------------------------------------------------------------------- */

static void log_synced(struct sim *s, struct sim_event *e)
{
    struct job *j = s->jobs->jobs.data[e->arg];
    if (!sim_head_is_up(s) || sim_head_serial(s) != e->target)
        return;
    if (j->log_synced < e->size)
        j->log_synced = e->size;
    sim_head_log_written(s, j->id, e->size);
}

void sim_job_log_append(struct sim *s, const struct head_action *a)
{
    struct job       *j = job_of(s, a->log_append.job);
    size_t            size = a->log_append.bytes->size;
    struct sim_event *e;
    SIM_REQUIRE(s, j, "I8: a log of a job that nobody submitted");
    SIM_REQUIRE(s, a->log_append.offset == j->log_size, "I8: the log of %s has %zu bytes, and is written at %llu", j->id,
                j->log_size, (unsigned long long)a->log_append.offset);
    if (j->log_size + size > j->log_capacity) {
        j->log_capacity = (j->log_size + size) * 2;
        j->log = realloc(j->log, j->log_capacity);
        if (!j->log)
            abort();
    }
    memcpy(j->log + j->log_size, a->log_append.bytes->data, size);
    j->log_size += size;
    j->has_log = true;
    e = sim_after(s, sim_between(s, 50 * SIM_US, 3 * SIM_MS), "log", log_synced, sim_head_serial(s));
    e->arg = j->number;
    e->size = j->log_size;
}

void sim_job_log_drop(struct sim *s, const char *id)
{
    struct job *j = job_of(s, id);
    if (!j)
        return;
    j->log_size = j->log_synced = 0;
    j->has_log = false;
}

void sim_job_logs_crash(struct sim *s)
{
    for (size_t i = 0; i < s->jobs->jobs.count; i++) {
        struct job *j = s->jobs->jobs.data[i];
        j->log_size = j->log_synced + sim_random(s, j->log_size - j->log_synced + 1);
        j->log_synced = j->log_size;
    }
}

void sim_job_logs_each(struct sim *s, void (*each)(struct sim *s, const char *id, uint64_t size))
{
    for (size_t i = 0; s->jobs && i < s->jobs->jobs.count; i++)
        if (s->jobs->jobs.data[i]->has_log)
            each(s, s->jobs->jobs.data[i]->id, s->jobs->jobs.data[i]->log_size);
}

/* ---- life ------------------------------------------------------------------------------------------------------------------ */

void sim_jobs_new(struct sim *s)
{
    s->jobs = sim_alloc(sizeof *s->jobs);
    sim_after(s, 50 * SIM_MS, "new job", new_job, 0);
}

bool sim_jobs_are_over(struct sim *s)
{
    for (size_t i = 0; i < s->jobs->jobs.count; i++)
        if (!s->jobs->jobs.data[i]->is_ended)
            return false;
    return s->jobs->is_last_made;
}

void sim_jobs_finish(struct sim *s)
{
    for (size_t i = 0; i < s->jobs->jobs.count; i++)
        SIM_REQUIRE(s, s->jobs->jobs.data[i]->is_ended, "I1: job %s has not ended: %s", s->jobs->jobs.data[i]->id,
                    s->jobs->jobs.data[i]->state);
    SIM_REQUIRE(s, s->jobs->runs.count == 0, "I6: %u submitted drivers are left on nodes", s->jobs->runs.count);
}

void sim_jobs_free(struct sim *s)
{
    if (!s->jobs)
        return;
    for (size_t i = 0; i < s->jobs->jobs.count; i++) {
        free(s->jobs->jobs.data[i]->log);
        free(s->jobs->jobs.data[i]);
    }
    MT_MAP_EACH(&s->jobs->runs, entry)
        free(entry->value.ptr);
    mt_vec_fini(&s->jobs->jobs);
    mt_map_fini(&s->jobs->runs);
    free(s->jobs);
    s->jobs = NULL;
}
