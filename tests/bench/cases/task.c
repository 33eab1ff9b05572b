/* SPDX-License-Identifier: Apache-2.0
 *
 * task.c - rates and latencies of tasks.
 *
 * Thread: the main one.
 */
#include "tests/bench/functions.h"

#include "core/base/status.h"

#include <sched.h>
#include <stdio.h>
#include <unistd.h>

struct task_step {
    struct bench_step      step;
    const manta_task_opts *opts;
    int                    count; /* tasks at a time */
    int64_t                pid;   /* of a worker that must be asleep when the clock starts; 0: not known yet */
    manta_actor           *clients[4];
    manta_actor           *actor; /* of a round trip: it is called; NULL: a task */
};

static double step_batch(struct bench_step *step)
{
    struct task_step *t = mt_container_of(step, struct task_step, step);
    return bench_tasks(step->b, t->opts, t->count);
}

static bool run_batch(struct bench *b, struct bench_row *row, int count, double scale, const manta_task_opts *opts)
{
    struct task_step t = {.step = {step_batch, b}, .opts = opts, .count = count};
    return bench_rate(&t.step, row, scale) && bench_check_worker(opts);
}

static bool run_sync(struct bench *b, struct bench_row *row)
{
    return run_batch(b, row, 1, 1, NULL);
}
static bool run_async(struct bench *b, struct bench_row *row)
{
    return run_batch(b, row, BENCH_BATCH, 1, NULL);
}
static bool run_async_deep(struct bench *b, struct bench_row *row)
{
    return run_batch(b, row, BENCH_DEEP, 1, NULL);
}
/* As Ray counts it: batches. */
static bool run_get_batch(struct bench *b, struct bench_row *row)
{
    return run_batch(b, row, BENCH_BATCH, 1.0 / BENCH_BATCH, NULL);
}

/* 1000 tasks, then 1000 times: wait for one of those that are left. */
static double step_wait(struct bench_step *step)
{
    struct bench *b = step->b;
    manta_ref    *left[BENCH_BATCH];
    unsigned char ready[BENCH_BATCH];
    int64_t       first = b->next;
    bool          ok = true;
    b->next += BENCH_BATCH;
    for (int i = 0; i < BENCH_BATCH; i++)
        left[i] = b->refs[i] = bench_task(NULL, first + i);
    for (int count = BENCH_BATCH; ok && count > 0; count--) {
        manta_error e;
        int         found = 0;
        if (manta_wait(left, (size_t)count, 1, BENCH_WAIT_MS, ready, &e) < 1) {
            ok = bench_say(&e, "wait");
            break;
        }
        while (!ready[found])
            found++;
        left[found] = left[count - 1];
    }
    for (int i = 0; i < BENCH_BATCH; i++)
        ok = bench_value(b->refs[i], bench_mix(first + i)) && ok;
    return ok ? 1 : -1;
}

static bool run_wait(struct bench *b, struct bench_row *row)
{
    struct task_step t = {.step = {step_wait, b}};
    return bench_rate(&t.step, row, 1) && bench_check_worker(NULL);
}

/* Four actors submit 10,000 tasks each. */
static double step_clients(struct bench_step *step)
{
    struct task_step *t = mt_container_of(step, struct task_step, step);
    manta_ref        *refs[4];
    bool              ok = true;
    for (int i = 0; i < 4; i++)
        refs[i] = manta_actor_call(t->clients[i], "client", MANTA_ARGS(manta_i64(BENCH_DEEP)));
    for (int i = 0; i < 4; i++)
        ok = bench_value(refs[i], BENCH_DEEP) && ok;
    return ok ? 4 * BENCH_DEEP : -1;
}

static bool run_multi_client(struct bench *b, struct bench_row *row)
{
    struct task_step t = {.step = {step_clients, b}};
    for (int i = 0; i < 4; i++)
        t.clients[i] = manta_actor_new("bench_actor", NULL, MANTA_NO_ARGS);
    bool ok = bench_rate(&t.step, row, 1);
    for (int i = 0; i < 4; i++)
        manta_actor_free(t.clients[i]);
    return ok;
}

/* ---- latency ---- */
static double step_round_trip(struct bench_step *step)
{
    struct task_step *t = mt_container_of(step, struct task_step, step);
    int64_t           x = step->b->next++;
    uint64_t          start = bench_now_ns();
    manta_ref        *ref = t->actor ? manta_actor_call(t->actor, "mix", MANTA_ARGS(manta_i64(x))) : bench_task(t->opts, x);
    int64_t           got;
    manta_error       e;
    manta_status      code = manta_get_i64(ref, BENCH_WAIT_MS, &got, &e);
    double            us = (double)(bench_now_ns() - start) / 1000;
    manta_free(ref);
    if (code != MANTA_OK)
        return bench_say(&e, "round trip") - 1;
    return got == bench_mix(x) ? us : -1;
}

static bool run_rtt_hot(struct bench *b, struct bench_row *row)
{
    struct task_step t = {.step = {step_round_trip, b}};
    row->more = BENCH_AND_P99;
    return bench_latency(&t.step, row, 0.5, BENCH_SAMPLES_MAX) && bench_check_worker(NULL);
}

/* ---- the same, with the worker asleep ---- */
/* As in the floor, driver and worker stay on the first and the last core: two processes on one core wake each other ten
 * times as fast. The driver polls until the worker is in the futex of its park page, and sends at once; the task answers
 * with its pid, so that what counts was run by the very process that was seen asleep. */
static int64_t worker_pid(void)
{
    int64_t     pid = 0;
    manta_error e;
    manta_ref  *ref = bench_task(NULL, BENCH_ASK_PID);
    if (manta_get_i64(ref, BENCH_WAIT_MS, &pid, &e) != MANTA_OK)
        bench_say(&e, "the worker's pid is missing");
    manta_free(ref);
    return pid;
}

static double step_cold(struct bench_step *step)
{
    struct task_step *t = mt_container_of(step, struct task_step, step);
    for (uint64_t limit = bench_now_ns() + BENCH_WAIT_MS * 1000000ull; bench_now_ns() < limit;) {
        if (t->pid > 0 && !bench_process_is_in_futex((int)t->pid) && bench_process_state((int)t->pid))
            continue;
        uint64_t start = bench_now_ns();
        int64_t  pid = worker_pid();
        double   us = (double)(bench_now_ns() - start) / 1000;
        if (pid <= 0)
            return -1;
        if (pid == t->pid)
            return us;
        t->pid = pid; /* another worker has the lease now */
        bench_core_choose((int)pid, true);
    }
    fprintf(stderr, "manta-bench: worker %d does not go to sleep\n", (int)t->pid);
    return -1;
}

static bool run_rtt_cold(struct bench *b, struct bench_row *row)
{
    struct task_step t = {.step = {step_cold, b}};
    cpu_set_t        before;
    if (sched_getaffinity(0, sizeof before, &before) != 0)
        return false;
    row->more = BENCH_AND_P99;
    bench_core_choose(0, false);
    bool ok = bench_latency(&t.step, row, 0.5, BENCH_SAMPLES_MAX);
    sched_setaffinity(0, sizeof before, &before);
    sched_setaffinity((pid_t)t.pid, sizeof before, &before);
    return ok && t.pid != getpid();
}

/* ---- another node ---- */
static uint32_t other_node(void)
{
    manta_node_info nodes[16];
    manta_error     e;
    int             count = manta_nodes(nodes, 16, &e);
    for (int i = 0; i < count && i < 16; i++) {
        if (nodes[i].alive && nodes[i].node != manta_node())
            return nodes[i].node;
    }
    return 0;
}

/* Of two raylets that have just started the second may still be on its way. */
static uint32_t other_node_awaited(const struct bench *b)
{
    uint32_t node = other_node();
    for (int tries = 0; node == 0 && b->options.address == NULL && tries < 1000; tries++) {
        bench_sleep_us(10 * 1000);
        node = other_node();
    }
    return node;
}

bool bench_tasks_remote(struct bench *b, struct bench_row *row)
{
    manta_task_opts opts = {.node = other_node_awaited(b)};
    return opts.node == 0 || run_batch(b, row, BENCH_DEEP, 1, &opts);
}

bool bench_rtt_remote(struct bench *b, struct bench_row *row, bool is_call)
{
    manta_task_opts  opts = {.node = other_node_awaited(b)};
    manta_actor_opts actor = {.node = opts.node};
    struct task_step t = {.step = {step_round_trip, b}, .opts = &opts};
    if (opts.node == 0)
        return true;
    if (is_call && !(t.actor = manta_actor_new("bench_actor", &actor, MANTA_NO_ARGS)))
        return false;
    bool ok = bench_latency(&t.step, row, 0.5, BENCH_SAMPLES_MAX);
    manta_actor_free(t.actor);
    return ok;
}

/* Without a cluster of others, a driver on one of two nodes of its own. */
static bool run_on_two(struct bench *b, struct bench_row *row, const char *what)
{
    struct bench_nodes  nodes;
    struct bench_report report;
    if (!bench_nodes_start(b, &nodes, 1))
        return false;
    bool ok = bench_child_run(b, what, nodes.dirs[0], &report) && report.row.n > 0;
    bench_nodes_stop(&nodes);
    row->value = report.row.value, row->sd = report.row.sd;
    row->p50 = report.row.p50, row->p99 = report.row.p99;
    row->n = report.row.n, row->cores = report.row.cores;
    return ok;
}

static bool run_remote(struct bench *b, struct bench_row *row)
{
    return b->options.address ? bench_tasks_remote(b, row) : run_on_two(b, row, "remote");
}
static bool run_rtt_remote_task(struct bench *b, struct bench_row *row)
{
    row->more = BENCH_AND_P99;
    return b->options.address ? bench_rtt_remote(b, row, false) : run_on_two(b, row, "rtt_task");
}
static bool run_rtt_remote_actor(struct bench *b, struct bench_row *row)
{
    row->more = BENCH_AND_P99;
    return b->options.address ? bench_rtt_remote(b, row, true) : run_on_two(b, row, "rtt_call");
}

const struct bench_case bench_task_cases[] = {
    {"single client tasks sync", "1/s", FLOOR_RING_RATE, true, run_sync},
    {"single client tasks async", "1/s", FLOOR_RING_RATE, true, run_async},
    {"single client tasks and get batch", "1/s", FLOOR_RING_RATE, true, run_get_batch},
    {"single client wait 1k refs", "1/s", FLOOR_NONE, true, run_wait},
    {"multi client tasks async", "1/s", FLOOR_RING_RATE, true, run_multi_client},
    {"tasks_async", "1/s", FLOOR_RING_RATE, true, run_async_deep},
    {"task_rtt_hot", "us", FLOOR_RING_RTT, true, run_rtt_hot},
    {"task_rtt_cold", "us", FLOOR_FUTEX_RTT, true, run_rtt_cold},
    {"tasks_remote", "1/s", FLOOR_GRPC, false, run_remote},
    {"rtt_remote_task", "us", FLOOR_TCP_RTT, false, run_rtt_remote_task},
    {"rtt_remote_actor", "us", FLOOR_TCP_RTT, false, run_rtt_remote_actor},
    {.id = NULL},
};
