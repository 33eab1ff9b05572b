/* SPDX-License-Identifier: Apache-2.0
 *
 * parameter_server.c - asynchronous SGD: the parameters stand in shards, each an actor; workers pull, compute and push at their
 * own pace, at most STALENESS steps ahead of the slowest.
 *
 *   parameter_server [--workers N] [--steps N] [--kill]      --kill: the first worker kills itself in the middle, once
 *
 * A worker is a task: when its process dies it is run again, asks the shards how far it had come, and goes on there. A push that
 * comes twice counts once, since each carries its worker's clock. The model is a linear regression whose weights are known.
 */
#include <manta.h>

#include <math.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { SHARDS = 2, SLICE = 16, WIDTH = SHARDS * SLICE, WORKERS_MAX = 8, STALENESS = 3, BATCH = 32 };
enum { LIMIT_MS = 30000, AHEAD_US = 500 };
static const float RATE = 0.1f;

/* ---- a shard ---- */

typedef struct {
    float   values[SLICE];
    int64_t clocks[WORKERS_MAX]; /* pushes of each worker so far */
    int     workers;
} shard;

static manta_status shard_new(manta_ctx *c, void **self, int argc, const manta_arg *argv)
{
    shard *s = *self = calloc(1, sizeof *s);
    (void)argc;
    if (!s || argv[0].l < 1 || argv[0].l > WORKERS_MAX) {
        free(s);
        return manta_fail(c, 1, "a shard serves 1 to %d workers", WORKERS_MAX);
    }
    s->workers = (int)argv[0].l;
    return MANTA_OK;
}

static int64_t slowest(const shard *s)
{
    int64_t least = s->clocks[0];
    for (int w = 1; w < s->workers; w++)
        least = s->clocks[w] < least ? s->clocks[w] : least;
    return least;
}

/* (clock) > values; nothing while the caller is too far ahead: it asks again. */
static manta_status shard_pull(manta_ctx *c, void *self, int argc, const manta_arg *argv)
{
    shard *s = self;
    bool   is_ahead = argv[0].l > slowest(s) + STALENESS;
    (void)argc;
    return manta_return_bytes(c, s->values, is_ahead ? 0 : sizeof s->values);
}

/* (worker, clock, gradient) > the worker's clock now. */
static manta_status shard_push(manta_ctx *c, void *self, int argc, const manta_arg *argv)
{
    shard  *s = self;
    int64_t w = argv[0].l;
    float   gradient[SLICE];
    (void)argc;
    if (w < 0 || w >= s->workers || argv[2].y.size != sizeof gradient)
        return manta_fail(c, 1, "push of worker %lld with %zu bytes", (long long)w, argv[2].y.size);
    memcpy(gradient, argv[2].y.data, sizeof gradient);
    if (argv[1].l == s->clocks[w]) { /* else it was here before */
        for (int i = 0; i < SLICE; i++)
            s->values[i] -= RATE * gradient[i];
        s->clocks[w]++;
    }
    return manta_return_i64(c, s->clocks[w]);
}

/* (worker) > its clock. */
static manta_status shard_clock(manta_ctx *c, void *self, int argc, const manta_arg *argv)
{
    shard *s = self;
    (void)argc;
    return manta_return_i64(c, argv[0].l >= 0 && argv[0].l < s->workers ? s->clocks[argv[0].l] : -1);
}
MANTA_ACTOR(shard, "l", shard_new, free, {"pull", "l>y", shard_pull}, {"push", "lly>l", shard_push},
            {"clock", "l>l", shard_clock});

/* ---- a worker ---- */

static float truth(int i)
{
    return (float)(i % 7) - 3;
}

static float draw(uint32_t *state)
{
    *state = *state * 1664525u + 1013904223u;
    return (float)(*state >> 16) / 32768 - 1;
}

/* The gradient of the mean squared error over records that follow from (worker, clock). */
static void gradient_of(int64_t worker, int64_t clock, const float *values, float *gradient)
{
    uint32_t state = (uint32_t)(worker * 7919 + clock * 104729 + 1);
    memset(gradient, 0, WIDTH * sizeof *gradient);
    for (int r = 0; r < BATCH; r++) {
        float record[WIDTH], error = 0;
        for (int i = 0; i < WIDTH; i++) {
            record[i] = draw(&state);
            error += (values[i] - truth(i)) * record[i];
        }
        for (int i = 0; i < WIDTH; i++)
            gradient[i] += 2 * error * record[i] / BATCH;
    }
}

/* A shard's values; false in *out_here: not yet. */
static manta_status pull(const manta_arg *from, int64_t clock, float *values, bool *out_here, manta_error *e)
{
    manta_view   view;
    manta_ref   *ref = manta_actor_call(from->A, "pull", MANTA_ARGS(manta_i64(clock)));
    manta_status code = manta_get(ref, LIMIT_MS, &view, e);
    manta_free(ref);
    if (code != MANTA_OK)
        return code;
    *out_here = view.size == SLICE * sizeof *values;
    if (*out_here)
        memcpy(values, view.data, view.size);
    manta_release(&view);
    return MANTA_OK;
}

static manta_status pull_all(const manta_arg *shards, int64_t clock, float *values, manta_error *e)
{
    for (int s = 0; s < SHARDS; s++) {
        bool is_here = false;
        while (!is_here) {
            manta_status code = pull(&shards[s], clock, values + s * SLICE, &is_here, e);
            if (code != MANTA_OK)
                return code;
            if (!is_here)
                usleep(AHEAD_US); /* the slowest worker is on its way, or being made again */
        }
    }
    return MANTA_OK;
}

static manta_status push_all(const manta_arg *shards, int64_t worker, int64_t clock, const float *gradient, manta_error *e)
{
    manta_ref   *refs[SHARDS];
    manta_status code = MANTA_OK;
    int64_t      now;
    for (int s = 0; s < SHARDS; s++)
        refs[s] = manta_actor_call(shards[s].A, "push", MANTA_ARGS(manta_i64(worker), manta_i64(clock),
                                                                   manta_bytes_of(gradient + s * SLICE, SLICE * sizeof *gradient)));
    for (int s = 0; s < SHARDS; s++) {
        if (code == MANTA_OK)
            code = manta_get_i64(refs[s], LIMIT_MS, &now, e);
        manta_free(refs[s]);
    }
    return code;
}

/* Where this worker had come to: the shard that has heard least of it says. */
static manta_status clock_of(const manta_arg *shards, int64_t worker, int64_t *out, manta_error *e)
{
    manta_status code = MANTA_OK;
    *out = INT64_MAX;
    for (int s = 0; s < SHARDS && code == MANTA_OK; s++) {
        int64_t    clock = 0;
        manta_ref *ref = manta_actor_call(shards[s].A, "clock", MANTA_ARGS(manta_i64(worker)));
        code = manta_get_i64(ref, LIMIT_MS, &clock, e);
        *out = clock < *out ? clock : *out;
        manta_free(ref);
    }
    return code;
}

/* (worker, steps, kills itself, shards...) > steps done by this attempt. */
static manta_status work(manta_ctx *c, int argc, const manta_arg *argv)
{
    const manta_arg *shards = argv + 3;
    int64_t          worker = argv[0].l, steps = argv[1].l, first, clock;
    float            values[WIDTH], gradient[WIDTH];
    manta_error      e;
    (void)argc;
    if (clock_of(shards, worker, &first, &e))
        return manta_fail(c, e.code, "%s", e.message);
    for (clock = first; clock < steps; clock++) {
        if (pull_all(shards, clock, values, &e))
            return manta_fail(c, e.code, "%s", e.message);
        gradient_of(worker, clock, values, gradient);
        if (push_all(shards, worker, clock, gradient, &e))
            return manta_fail(c, e.code, "%s", e.message);
        if (argv[2].b && first == 0 && clock == steps / 2)
            raise(SIGKILL);
    }
    return manta_return_i64(c, clock - first);
}
MANTA_REGISTER(work, "llbAA>l");

/* ---- the run ---- */

static int run(int workers, int64_t steps, bool kills)
{
    manta_arg   shards[SHARDS];
    manta_ref  *refs[WORKERS_MAX];
    manta_error e;
    float       values[WIDTH], far = 0;
    for (int s = 0; s < SHARDS; s++)
        shards[s] = manta_actor_arg(manta_actor_new("shard", NULL, MANTA_ARGS(manta_i64(workers))));
    for (int w = 0; w < workers; w++)
        refs[w] = manta_call("work", &(manta_task_opts){.num_cpus = 0.1}, /* they wait more than they compute */
                             MANTA_ARGS(manta_i64(w), manta_i64(steps), manta_bool(kills && w == 0), shards[0], shards[1]));
    for (int w = 0; w < workers; w++) {
        int64_t done;
        if (manta_get_i64(refs[w], MANTA_FOREVER, &done, &e))
            return manta_perror(&e);
        printf("worker %d: the last attempt did %lld steps\n", w, (long long)done);
        manta_free(refs[w]);
    }
    if (pull_all(shards, 0, values, &e))
        return manta_perror(&e);
    for (int i = 0; i < WIDTH; i++)
        far = fmaxf(far, fabsf(values[i] - truth(i)));
    printf("%d workers, %lld steps each: the farthest weight is off by %g\n", workers, (long long)steps, (double)far);
    for (int s = 0; s < SHARDS; s++)
        manta_actor_free(shards[s].A);
    return far < 0.1f ? 0 : 1;
}

int main(int argc, char **argv)
{
    manta_error e;
    int         workers = 3;
    int64_t     steps = 100;
    bool        kills = false;
    if (manta_init(&argc, &argv, NULL, &e))
        return manta_perror(&e);
    for (int i = 1; i < argc; i++) {
        bool has_value = i + 1 < argc;
        if (strcmp(argv[i], "--kill") == 0)
            kills = true;
        else if (has_value && strcmp(argv[i], "--workers") == 0)
            workers = (int)strtol(argv[++i], NULL, 10);
        else if (has_value && strcmp(argv[i], "--steps") == 0)
            steps = strtol(argv[++i], NULL, 10);
        else
            return fprintf(stderr, "usage: %s [--workers N] [--steps N] [--kill]\n", argv[0]), 2;
    }
    if (workers < 1 || workers > WORKERS_MAX || steps < 1)
        return fprintf(stderr, "%s: 1 to %d workers, at least 1 step\n", argv[0], WORKERS_MAX), 2;
    int status = run(workers, steps, kills);
    return manta_shutdown() || status;
}
