/* SPDX-License-Identifier: Apache-2.0
 *
 * actor.c - rates of actor calls, and the start of an actor.
 *
 * Thread: the main one.
 */
#include "tests/bench/functions.h"

#include "core/base/status.h"

#include <inttypes.h>
#include <stdio.h>
#include <sys/resource.h>
#include <unistd.h>

enum {
    ACTORS_MAX = 15, /* of one client */
    CLIENT_CALLS = 5000,
    CLIENTS = 4,
    THREADS = 16,       /* as in Ray's case of concurrent calls */
    ASYNC_CALLS = 1000, /* calls at a time of Ray's asynchronous actors; ours have threads */
    CROWD = 1000,       /* actors at a time */
    MANY = 10 * 1000,   /* ... if a node's descriptors allow so many */
    TWO_FDS = 3,        /* that a raylet keeps for two of them (core/base/limits/raylet.h) ... */
    FDS_PERCENT = 80,   /* ... of this share of its limit, but for what it needs itself */
    OWN_FDS = 200,
};

struct actor_step {
    struct bench_step step;
    int               count; /* calls at a time */
    manta_actor_opts  opts;
    manta_actor      *client;
    manta_actor      *clients[CLIENTS];
    manta_actor     **crowd;
    manta_actor      *targets[ACTORS_MAX];
    int               target_count;
};

/* Another process must answer: asks the actor for its pid. */
static bool check_actor(manta_actor *actor)
{
    manta_error  e;
    int64_t      pid;
    manta_ref   *ref = manta_actor_call(actor, "pid", MANTA_NO_ARGS);
    manta_status code = manta_get_i64(ref, BENCH_WAIT_MS, &pid, &e);
    manta_free(ref);
    return code == MANTA_OK ? pid != getpid() : bench_say(&e, "an actor does not start");
}

static bool actors_new(struct actor_step *a, int count)
{
    a->target_count = count < ACTORS_MAX ? count : ACTORS_MAX;
    for (int i = 0; i < a->target_count; i++)
        a->targets[i] = manta_actor_new("bench_actor", &a->opts, MANTA_NO_ARGS);
    for (int i = 0; i < a->target_count; i++) {
        if (!check_actor(a->targets[i]))
            return false;
    }
    return true;
}

static void actors_free(struct actor_step *a)
{
    for (int i = 0; i < a->target_count; i++)
        manta_actor_free(a->targets[i]);
    manta_actor_free(a->client);
    for (int i = 0; i < CLIENTS; i++)
        manta_actor_free(a->clients[i]);
}

static double step_calls(struct bench_step *step)
{
    struct actor_step *a = mt_container_of(step, struct actor_step, step);
    struct bench      *b = step->b;
    int64_t            first = b->next;
    bool               ok = true;
    b->next += a->count;
    for (int i = 0; i < a->count; i++)
        b->refs[i] = manta_actor_call(a->targets[0], "mix", MANTA_ARGS(manta_i64(first + i)));
    for (int i = 0; i < a->count; i++)
        ok = bench_value(b->refs[i], bench_mix(first + i)) && ok;
    return ok ? a->count : -1;
}

static bool run_threads(struct bench *b, struct bench_row *row, int count, int threads)
{
    struct actor_step a = {.step = {step_calls, b}, .count = count, .opts = {.max_concurrency = threads}};
    bool              ok = actors_new(&a, 1) && bench_rate(&a.step, row, 1);
    actors_free(&a);
    return ok;
}

static bool run_calls(struct bench *b, struct bench_row *row, int count)
{
    return run_threads(b, row, count, 1);
}
static bool run_concurrent(struct bench *b, struct bench_row *row)
{
    return run_threads(b, row, BENCH_BATCH, THREADS);
}
static bool run_async_actor_sync(struct bench *b, struct bench_row *row)
{
    return run_threads(b, row, 1, ASYNC_CALLS);
}
static bool run_async_actor(struct bench *b, struct bench_row *row)
{
    return run_threads(b, row, BENCH_BATCH, ASYNC_CALLS);
}
static bool run_sync(struct bench *b, struct bench_row *row)
{
    return run_calls(b, row, 1);
}
static bool run_async(struct bench *b, struct bench_row *row)
{
    return run_calls(b, row, BENCH_BATCH);
}
static bool run_async_deep(struct bench *b, struct bench_row *row)
{
    return run_calls(b, row, BENCH_DEEP);
}

static int client_args(const struct actor_step *a, int64_t count, manta_arg *args)
{
    args[0] = manta_i64(count);
    for (int i = 0; i < a->target_count; i++)
        args[i + 1] = manta_actor_arg(a->targets[i]);
    return a->target_count + 1;
}

/* One client actor calls n actors. */
static double step_one_to_n(struct bench_step *step)
{
    struct actor_step *a = mt_container_of(step, struct actor_step, step);
    manta_arg          args[MANTA_ARGS_MAX];
    int                count = client_args(a, CLIENT_CALLS, args);
    return bench_value(manta_actor_call(a->client, "client", count, args), CLIENT_CALLS) ? CLIENT_CALLS : -1;
}

static int actor_count(const struct bench *b)
{
    return b->cpus > 3 ? b->cpus / 2 : 1;
}

static bool one_to_n(struct bench *b, struct bench_row *row, int threads)
{
    struct actor_step a = {.step = {step_one_to_n, b},
                           .opts = {.max_concurrency = threads},
                           .client = manta_actor_new("bench_actor", NULL, MANTA_NO_ARGS)};
    bool              ok = actors_new(&a, actor_count(b)) && check_actor(a.client) && bench_rate(&a.step, row, 1);
    actors_free(&a);
    return ok;
}

static bool run_one_to_n(struct bench *b, struct bench_row *row)
{
    return one_to_n(b, row, 1);
}
static bool run_async_one_to_n(struct bench *b, struct bench_row *row)
{
    return one_to_n(b, row, ASYNC_CALLS);
}

/* Four tasks call n actors. */
static double step_n_to_n(struct bench_step *step)
{
    struct actor_step *a = mt_container_of(step, struct actor_step, step);
    manta_arg          args[MANTA_ARGS_MAX];
    manta_ref         *refs[CLIENTS];
    bool               ok = true;
    int                count = client_args(a, CLIENT_CALLS, args);
    for (int i = 0; i < CLIENTS; i++)
        refs[i] = manta_call("bench_client_task", NULL, count, args);
    for (int i = 0; i < CLIENTS; i++)
        ok = bench_value(refs[i], CLIENT_CALLS) && ok;
    return ok ? CLIENTS * CLIENT_CALLS : -1;
}

static bool n_to_n(struct bench *b, struct bench_row *row, int threads)
{
    struct actor_step a = {.step = {step_n_to_n, b}, .opts = {.max_concurrency = threads}};
    bool              ok = actors_new(&a, actor_count(b)) && bench_rate(&a.step, row, 1);
    actors_free(&a);
    return ok;
}
static bool run_n_to_n(struct bench *b, struct bench_row *row)
{
    return n_to_n(b, row, 1);
}
static bool run_async_n_to_n(struct bench *b, struct bench_row *row)
{
    return n_to_n(b, row, ASYNC_CALLS);
}

/* Four actors call four others, each all of them in turn. */
static double step_four_to_four(struct bench_step *step)
{
    struct actor_step *a = mt_container_of(step, struct actor_step, step);
    manta_arg          args[MANTA_ARGS_MAX];
    manta_ref         *refs[CLIENTS];
    bool               ok = true;
    int                count = client_args(a, CLIENT_CALLS, args);
    for (int i = 0; i < CLIENTS; i++)
        refs[i] = manta_actor_call(a->clients[i], "client", count, args);
    for (int i = 0; i < CLIENTS; i++)
        ok = bench_value(refs[i], CLIENT_CALLS) && ok;
    return ok ? CLIENTS * CLIENT_CALLS : -1;
}

static bool run_four_to_four(struct bench *b, struct bench_row *row)
{
    struct actor_step a = {.step = {step_four_to_four, b}};
    bool              ok = actors_new(&a, CLIENTS);
    for (int i = 0; i < CLIENTS && ok; i++) {
        a.clients[i] = manta_actor_new("bench_actor", NULL, MANTA_NO_ARGS);
        ok = check_actor(a.clients[i]);
    }
    ok = ok && bench_rate(&a.step, row, 1);
    actors_free(&a);
    return ok;
}

/* ---- a thousand actors ---- */

/* Every actor of the crowd is called once; all replies are collected. */
static bool crowd_call(struct actor_step *a)
{
    struct bench *b = a->step.b;
    int64_t       first = b->next;
    bool          ok = true;
    b->next += CROWD;
    for (int i = 0; i < CROWD; i++)
        b->refs[i] = manta_actor_call(a->crowd[i], "mix", MANTA_ARGS(manta_i64(first + i)));
    for (int i = 0; i < CROWD; i++)
        ok = bench_value(b->refs[i], bench_mix(first + i)) && ok;
    return ok;
}

static void crowd_new(struct actor_step *a)
{
    for (int i = 0; i < CROWD; i++)
        a->crowd[i] = manta_actor_new("bench_actor", NULL, MANTA_NO_ARGS);
}

static void crowd_free(struct actor_step *a)
{
    for (int i = 0; i < CROWD; i++)
        manta_actor_free(a->crowd[i]);
}

/* From the first manta_actor_new until each has answered once. The last thousand have left the node before. */
static double step_crowd_start(struct bench_step *step)
{
    struct actor_step *a = mt_container_of(step, struct actor_step, step);
    uint64_t           start = bench_now_ns();
    bool               ok;
    double             us;
    crowd_new(a);
    ok = crowd_call(a);
    us = (double)(bench_now_ns() - start) / 1000;
    crowd_free(a);
    bench_sleep_us(3000 * 1000);
    return ok ? us / 1e6 : -1;
}

static bool run_crowd_start(struct bench *b, struct bench_row *row)
{
    manta_actor      *crowd[CROWD];
    struct actor_step a = {.step = {step_crowd_start, b}, .crowd = crowd};
    return bench_latency(&a.step, row, 0.5, BENCH_SAMPLES_MIN);
}

/* ---- as many as a node holds ---- */

static int64_t available_kib(void)
{
    char    line[200];
    int64_t kib = 0;
    FILE   *f = fopen("/proc/meminfo", "re");
    while (f && fgets(line, sizeof line, f))
        if (sscanf(line, "MemAvailable: %" SCNd64, &kib) == 1)
            break;
    if (f)
        fclose(f);
    return kib;
}

static int many_possible(void)
{
    struct rlimit limit;
    if (getrlimit(RLIMIT_NOFILE, &limit) != 0)
        return 0;
    int64_t could = ((int64_t)(limit.rlim_max < 1 << 20 ? limit.rlim_max : 1 << 20) * FDS_PERCENT / 100 - OWN_FDS) / TWO_FDS * 2;
    return could < MANY ? (int)could : MANY;
}

/* From the first manta_actor_new until each has answered once; what memory they take is the fall of what was available. */
static bool run_many(struct bench *b, struct bench_row *row)
{
    static manta_actor *actors[MANY];
    static manta_ref   *refs[MANY];
    int                 count = many_possible();
    int64_t             before = available_kib();
    uint64_t            start = bench_now_ns();
    bool                ok = count > 0;
    (void)b;
    for (int i = 0; i < count; i++)
        actors[i] = manta_actor_new("bench_actor", NULL, MANTA_NO_ARGS);
    for (int i = 0; i < count; i++)
        refs[i] = manta_actor_call(actors[i], "mix", MANTA_ARGS(manta_i64(i)));
    for (int i = 0; i < count; i++)
        ok = bench_value(refs[i], bench_mix(i)) && ok;
    row->value = (double)(bench_now_ns() - start) / 1e9;
    row->n = (uint64_t)count;
    fprintf(stderr, "actors_10k: %d actors%s, %" PRId64 " KiB each; descriptors each: %.2f here, %.2f in the raylet\n", count,
            count < MANY ? " (the limit of descriptors allows no more)" : "", (before - available_kib()) / (count ? count : 1),
            (double)bench_fds(NULL) / (count ? count : 1), (double)bench_fds("manta-raylet") / (count ? count : 1));
    for (int i = 0; i < count; i++)
        manta_actor_free(actors[i]);
    bench_sleep_us(10 * 1000 * 1000); /* they leave before the next case */
    return ok;
}

static double step_fan_in(struct bench_step *step)
{
    struct actor_step *a = mt_container_of(step, struct actor_step, step);
    uint64_t           start = bench_now_ns();
    return crowd_call(a) ? (double)(bench_now_ns() - start) / 1e6 : -1;
}

static bool run_fan_in(struct bench *b, struct bench_row *row)
{
    manta_actor      *crowd[CROWD];
    struct actor_step a = {.step = {step_fan_in, b}, .crowd = crowd};
    bool              ok;
    crowd_new(&a);
    ok = crowd_call(&a) && bench_latency(&a.step, row, 0.5, 1000);
    crowd_free(&a);
    bench_sleep_us(3000 * 1000); /* they leave before the next case */
    return ok;
}

/* A put value as argument of each call. */
static double step_put_args(struct bench_step *step)
{
    struct actor_step *a = mt_container_of(step, struct actor_step, step);
    struct bench      *b = step->b;
    char               data[1024] = {0};
    manta_ref         *value = manta_put(data, sizeof data);
    bool               ok = true;
    for (int i = 0; i < BENCH_BATCH; i++)
        b->refs[i] = manta_actor_call(a->targets[i % a->target_count], "size", MANTA_ARGS(manta_ref_arg(value)));
    for (int i = 0; i < BENCH_BATCH; i++)
        ok = bench_value(b->refs[i], sizeof data) && ok;
    manta_free(value);
    return ok ? BENCH_BATCH : -1;
}

static bool run_put_args(struct bench *b, struct bench_row *row)
{
    struct actor_step a = {.step = {step_put_args, b}};
    bool              ok = actors_new(&a, actor_count(b)) && bench_rate(&a.step, row, 1);
    actors_free(&a);
    return ok;
}

/* From manta_actor_new to the first reply; the actor is gone before the next one begins. */
static double step_start(struct bench_step *step)
{
    int64_t      x = step->b->next++, got;
    manta_error  e;
    uint64_t     start = bench_now_ns();
    manta_actor *actor = manta_actor_new("bench_actor", NULL, MANTA_NO_ARGS);
    manta_ref   *ref = manta_actor_call(actor, "mix", MANTA_ARGS(manta_i64(x)));
    manta_status code = manta_get_i64(ref, BENCH_WAIT_MS, &got, &e);
    double       us = (double)(bench_now_ns() - start) / 1000;
    manta_free(ref);
    bool ok = code == MANTA_OK ? got == bench_mix(x) && check_actor(actor) : bench_say(&e, "actor_start");
    manta_actor_free(actor);
    bench_sleep_us(5000); /* a warm worker is forked again meanwhile */
    return ok ? us / 1000 : -1;
}

static bool run_start(struct bench *b, struct bench_row *row)
{
    struct actor_step a = {.step = {step_start, b}};
    row->more = BENCH_AND_P99;
    return bench_latency(&a.step, row, 0.5, 400);
}

const struct bench_case bench_actor_cases[] = {
    {"1:1 actor calls sync", "1/s", FLOOR_RING_RATE, true, run_sync},
    {"1:1 actor calls async", "1/s", FLOOR_RING_RATE, true, run_async},
    {"1:n actor calls async", "1/s", FLOOR_RING_RATE, true, run_one_to_n},
    {"n:n actor calls async", "1/s", FLOOR_RING_RATE, true, run_n_to_n},
    {"n:n actor calls with arg async", "1/s", FLOOR_RING_RATE, true, run_put_args},
    {"actor_sync", "1/s", FLOOR_RING_RATE, true, run_sync},
    {"actor_async", "1/s", FLOOR_RING_RATE, true, run_async_deep},
    {"1:1 actor calls concurrent", "1/s", FLOOR_RING_RATE, true, run_concurrent},
    {"1:1 async-actor calls sync", "1/s", FLOOR_RING_RATE, true, run_async_actor_sync},
    {"1:1 async-actor calls async", "1/s", FLOOR_RING_RATE, true, run_async_actor},
    {"1:1 async-actor calls with args async", "1/s", FLOOR_RING_RATE, true, run_async_actor}, /* each of ours has one */
    {"1:n async-actor calls async", "1/s", FLOOR_RING_RATE, true, run_async_one_to_n},
    {"n:n async-actor calls async", "1/s", FLOOR_RING_RATE, true, run_async_n_to_n},
    {"actors_nn", "1/s", FLOOR_RING_RATE, true, run_four_to_four},
    {"actors_1000", "s", FLOOR_FORK, true, run_crowd_start},
    {"actors_10k", "s", FLOOR_FORK, true, run_many},
    {"fan_in", "ms", FLOOR_FUTEX_RTT, true, run_fan_in},
    {"actor_start", "ms", FLOOR_FORK, true, run_start},
    {.id = NULL},
};
