/* SPDX-License-Identifier: Apache-2.0
 *
 * pool.c - jobs and the processes that run their code: one zygote a job, workers forked from it, some kept warm.
 *
 * Owns: every struct rlt_job. Thread: the logic loop only.
 * Always: a worker is idle (in job->idle), greeting, or has a lease; needy leases never outnumber the workers under way
 * unless the node's bound is reached or the zygote is not ready.
 *
 * A job whose zygote or workers die MT_RLT_START_FAILURES_MAX times in a row before they greet, or leave so often because
 * they can't take over what they were given, is broken: its demands are
 * answered with what was seen, and nothing more is started for it. What the node lacks may be there later: after
 * MT_RLT_LACKS_MAX such starts in a row those who wait are told, and MT_RLT_LACK_AGAIN_MS later others may try again.
 */
#include "raylet/core/pool/pool.h"

#include "core/lane/park.h"

#include <stdio.h>
#include <stdlib.h>

static uint32_t warm_target(const struct rlt *r)
{
    int     cpu = rlt_ledger_find(&r->ledger, "CPU");
    int64_t cpus = cpu < 0 ? 1 : r->ledger.total[cpu].milli / 1000;
    return cpus < 1 ? 1 : cpus < 2 ? (uint32_t)cpus : 2;
}

struct rlt_job *rlt_job_new(struct rlt *r, uint64_t number, uint64_t key, uint32_t node, const char *name)
{
    struct rlt_job *job = rlt_calloc(sizeof *job);
    job->job = number;
    job->key = key;
    job->number = (uint32_t)(number ^ number >> 32);
    job->number += !job->number;
    job->node = node;
    const struct rlt_peer *peer = node == r->node ? NULL : mt_map_ptr(&r->peers, mt_map_key(node));
    job->node_epoch = peer ? peer->epoch : 0;
    job->program = -1;
    snprintf(job->name, sizeof job->name, "%s", name);
    rlt_list_init(&job->idle);
    rlt_list_init(&job->needy);
    job->timer.kind = RLT_TIMER_JOB;
    rlt_list_init(&job->in_failing);
    rlt_map_put(&r->jobs, mt_map_key(key), job);
    return job;
}

static int job_program(const struct rlt_job *job)
{
    if (job->env)
        return job->hello ? job->env->base->program : -1;
    return job->program;
}

/* ---- the zygote ------------------------------------------------------------------------------------------------ */

static void zygote_start(struct rlt *r, struct rlt_job *job)
{
    const struct rlt_proc *driver = job->env ? job->env->base->driver : job->driver;
    if (job->zygote || job->is_ending || job_program(job) < 0)
        return;
    struct rlt_proc *p = rlt_proc_new(r, r->next_conn++);
    p->job = job;
    p->role = 0;
    p->is_child = true;
    job->zygote = p;
    job->is_zygote_ready = false;
    struct rlt_a_spawn_zygote *a = &rlt_act(r->out, RLT_A_SPAWN_ZYGOTE)->spawn_zygote;
    a->conn = p->conn;
    a->job = job->job;
    a->program = job_program(job);
    a->driver_pid = driver ? driver->pid : 0;
    a->hello = rlt_keep(r->out, job->hello, job->hello_size);
    a->hello_size = job->hello_size;
}

void rlt_pool_begin(struct rlt *r, struct rlt_job *job)
{
    job->forks_wanted = job->env ? 0 : warm_target(r); /* an environment's are forked for leases only */
    zygote_start(r, job);
}

/* Leases that wait for a worker of this job end before this step is over, by the room of the leases: this one knows nothing of
 * them. Noted twice, the first word counts. */
void rlt_job_note_needy(struct rlt *r, struct rlt_job *job, int32_t code)
{
    if (rlt_list_is_empty(&job->needy) || !rlt_list_is_empty(&job->in_failing))
        return;
    job->needy_code = code;
    rlt_list_append(&r->failing, &job->in_failing);
}

/* Nothing can be started for this job: whoever waits for a worker of it is told why. */
static void job_break(struct rlt *r, struct rlt_job *job)
{
    rlt_job_note_needy(r, job, job->failure_code);
    r->is_dirty = true; /* the round at the end of the step answers the waiting classes */
}

void rlt_job_fail(struct rlt *r, struct rlt_job *job, int32_t code, const char *text)
{
    snprintf(job->failure, sizeof job->failure, "%s", text);
    job->failure_code = code;
    job->start_failures = MT_RLT_START_FAILURES_MAX;
    job_break(r, job);
}

void rlt_pool_start_failed(struct rlt *r, struct rlt_job *job, const char *what)
{
    job->failure_code = MT_EWORKER_DIED;
    snprintf(job->failure, sizeof job->failure, "no worker of job \"%s\" can be started on node %u: %.300s%s%s%s", job->name,
             r->node, what, job->remark[0] ? " (" : "", job->remark, job->remark[0] ? ")" : "");
    if (++job->start_failures >= MT_RLT_START_FAILURES_MAX)
        job_break(r, job);
}

/* The node had no memory, descriptors or processes for it, so often in a row that those who wait are told. */
static void start_lacked(struct rlt *r, struct rlt_job *job, const char *what)
{
    char text[CTL_TEXT_SIZE];
    if (++job->lack_count < MT_RLT_LACKS_MAX || job->start_failures >= MT_RLT_START_FAILURES_MAX)
        return;
    job->is_passing = true;
    job->failed_at = r->now;
    snprintf(text, sizeof text, "no worker of job \"%s\" can be started on node %u (%s), %d times in a row: %.300s", job->name,
             r->node, r->config.node_name, MT_RLT_LACKS_MAX, what);
    rlt_job_fail(r, job, MT_ENOMEM, text);
}

void rlt_pool_lacks(struct rlt_proc *p, const char *what)
{
    if (!what || !p->job || p->role == CTL_DRIVER || p->crash)
        return;
    p->is_lacking = true;
    p->crash = strdup(what);
}

bool rlt_job_is_broken(const struct rlt *r, struct rlt_job *job)
{
    if (job->start_failures < MT_RLT_START_FAILURES_MAX)
        return false;
    if (!job->is_passing || r->now - job->failed_at < MT_RLT_LACK_AGAIN_MS * RLT_MS)
        return true;
    job->is_passing = false;
    job->start_failures = job->lack_count = 0;
    return false;
}

void rlt_pool_zygote_ready(struct rlt *r, struct rlt_proc *zygote)
{
    zygote->job->is_zygote_ready = true;
    rlt_pool_balance(r, zygote->job);
}

/* ---- forking --------------------------------------------------------------------------------------------------- */

static void fork_worker(struct rlt *r, struct rlt_job *job)
{
    struct rlt_proc *p = rlt_proc_new(r, r->next_conn++);
    struct ctl_fork  fork = {.token = p->conn};
    p->job = job;
    p->forked_by = job->zygote->conn;
    p->is_child = true;
    job->worker_count++;
    job->starting_count++;
    r->worker_count++;
    struct rlt_a_fork *a = &rlt_act(r->out, RLT_A_FORK)->fork;
    a->zygote = job->zygote->conn;
    a->worker = p->conn;
    a->record = rlt_record(r->out, CTL_FORK, (mt_id){0, 0}, &fork, sizeof fork, &a->payload);
}

/* The node is full of processes: the longest idle worker of another job makes room. */
static void evict_one(struct rlt *r, const struct rlt_job *needy)
{
    struct rlt_proc *oldest = NULL;
    MT_MAP_EACH(&r->jobs, entry) {
        struct rlt_job  *job = entry->value.ptr;
        struct rlt_proc *p = rlt_list_first(&job->idle, struct rlt_proc, in_idle);
        if (job != needy && p && (!oldest || p->idle_since < oldest->idle_since))
            oldest = p;
    }
    if (oldest) {
        rlt_pool_remove(oldest);
        rlt_proc_leave(r, oldest, MT_RLT_LEAVE_MS, "its place is needed");
    }
}

void rlt_pool_balance(struct rlt *r, struct rlt_job *job)
{
    uint32_t want = job->needy_count > job->forks_wanted ? job->needy_count : job->forks_wanted;
    if (job->is_ending || rlt_job_is_broken(r, job))
        return;
    if (!job->zygote) {
        zygote_start(r, job);
        return;
    }
    if (!job->is_zygote_ready)
        return;
    job->forks_wanted = 0;
    if (want > MT_RLT_STARTING_MAX)
        want = MT_RLT_STARTING_MAX; /* the next one that is ready goes on from here */
    while (job->starting_count < want) {
        if (r->worker_count >= r->config.workers_max) {
            if (job->needy_count > job->starting_count)
                evict_one(r, job);
            return; /* the next worker that ends, or is given back, goes on from here */
        }
        fork_worker(r, job);
    }
}

/* ---- warm workers ------------------------------------------------------------------------------------------------ */

/* How many stay warm without a lease: of an environment none, there may be many. */
static uint32_t idle_max(const struct rlt *r, const struct rlt_job *job)
{
    return job->env ? 0 : r->config.idle_workers_max;
}

static void arm_timer(struct rlt *r, struct rlt_job *job)
{
    if (mt_heap_holds(&job->timer.node) || job->is_ending)
        return;
    if (job->idle_count == 0 && !job->env)
        rlt_timer_set(r, &job->timer, r->now + MT_RLT_SPARE_MS * RLT_MS);
    else if (job->idle_count > idle_max(r, job))
        rlt_timer_set(r, &job->timer, r->now + MT_RLT_IDLE_MS * RLT_MS);
}

void rlt_pool_timer(struct rlt *r, struct rlt_job *job)
{
    if (job->idle_count == 0 && job->starting_count == 0 && r->worker_count < r->config.workers_max && !job->env) {
        job->forks_wanted = 1;
        rlt_pool_balance(r, job);
    }
    while (job->idle_count > idle_max(r, job)) {
        struct rlt_proc *p = rlt_list_first(&job->idle, struct rlt_proc, in_idle);
        if (r->now - p->idle_since < MT_RLT_IDLE_MS * RLT_MS)
            break;
        rlt_pool_remove(p);
        rlt_proc_leave(r, p, MT_RLT_LEAVE_MS, "not needed any more");
    }
    if (job->idle_count)
        arm_timer(r, job);
}

struct rlt_proc *rlt_pool_take(struct rlt *r, struct rlt_job *job)
{
    struct rlt_list *last = job->idle.prev; /* the one that ran last: its caches are warm */
    if (last == &job->idle)
        return NULL;
    rlt_list_out(last);
    job->idle_count--;
    arm_timer(r, job);
    return mt_container_of(last, struct rlt_proc, in_idle);
}

void rlt_pool_remove(struct rlt_proc *p)
{
    if (!rlt_list_is_empty(&p->in_idle)) {
        rlt_list_out(&p->in_idle);
        p->job->idle_count--;
    }
}

void rlt_pool_kill(struct rlt *r, struct rlt_proc *p)
{
    p->killed_at = r->now;
    rlt_pool_remove(p);
    rlt_act(r->out, RLT_A_KILL)->kill.conn = p->conn;
}

/* A worker without a lease, for which none waits: stays warm for a while. */
void rlt_pool_keep(struct rlt *r, struct rlt_proc *worker)
{
    struct rlt_job *job = worker->job;
    worker->idle_since = r->now;
    rlt_list_append(&job->idle, &worker->in_idle);
    job->idle_count++;
    arm_timer(r, job);
}

static void balance_all(struct rlt *r)
{
    MT_MAP_EACH(&r->jobs, entry) {
        struct rlt_job *job = entry->value.ptr;
        if (job->needy_count > job->starting_count)
            rlt_pool_balance(r, job);
    }
}

static bool has_needy(const struct rlt *r)
{
    MT_MAP_EACH(&r->jobs, entry) {
        const struct rlt_job *job = entry->value.ptr;
        if (job->needy_count > job->starting_count)
            return true;
    }
    return false;
}

int64_t rlt_pool_places(const struct rlt *r)
{
    int64_t taken = 0;
    MT_MAP_EACH(&r->jobs, entry) {
        const struct rlt_job *job = entry->value.ptr;
        taken += (int64_t)job->worker_count - job->starting_count - job->idle_count + job->needy_count;
    }
    return (int64_t)r->config.workers_max - taken;
}

void rlt_pool_tell_crowd(struct rlt *r)
{
    int      cpu = rlt_ledger_find(&r->ledger, "CPU");
    uint32_t crowd = r->ledger.lent_count >= r->config.blocked_max ? LANE_CROWD_BLOCKED
                     : cpu >= 0 && r->ledger.free[cpu] <= 0        ? LANE_CROWD_BUSY
                                                                   : LANE_CROWD_NONE;
    if (r->ledger.lent_count && rlt_pool_places(r) <= 0 && (has_needy(r) || !rlt_list_is_empty(&r->waiting)))
        crowd = LANE_CROWD_FULL;
    if (crowd == r->crowd)
        return;
    r->crowd = crowd;
    rlt_act(r->out, RLT_A_CROWD)->crowd.is = crowd;
}

/* Whether its end says something about the job's program. What goes with its zygote does not: a kill would break a job that
 * had asked for some workers just then. */
static bool is_bad_start(const struct rlt_job *job, const struct rlt_proc *p)
{
    if (job->is_ending || job->start_failures >= MT_RLT_START_FAILURES_MAX || p->is_lacking)
        return false;
    return p == job->zygote ? p->process == 0 : !p->is_ready && rlt_pool_has_zygote(p);
}

void rlt_pool_lost(struct rlt *r, struct rlt_proc *p)
{
    struct rlt_job *job = p->job;
    bool            is_bad = is_bad_start(job, p);
    char            text[CTL_TEXT_SIZE];

    if (p == job->zygote) {
        job->zygote = NULL;
        job->is_zygote_ready = false;
    } else {
        job->worker_count--;
        job->starting_count -= !p->is_ready;
        r->worker_count--;
    }
    if (p->is_ready && !p->is_unable)
        job->unable_count = 0;
    if (p->is_unable && ++job->unable_count >= MT_RLT_START_FAILURES_MAX) {
        is_bad = true; /* each had greeted, so the job's count of failures began anew with each */
        job->start_failures = MT_RLT_START_FAILURES_MAX - 1;
    }
    if (p->is_lacking && !job->is_ending)
        start_lacked(r, job, p->crash ? p->crash : "no memory");
    if (is_bad) {
        rlt_proc_describe(r, p, text, sizeof text);
        rlt_pool_start_failed(r, job, text);
    }
    balance_all(r);
    arm_timer(r, job);
    r->is_dirty = true; /* its place is free */
}
