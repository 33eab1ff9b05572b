/* SPDX-License-Identifier: Apache-2.0
 *
 * parameter_server.c - asynchronous SGD: the parameters stand in shards, each an actor; workers pull, compute and push at their
 * own pace, at most STALENESS steps ahead of the slowest.
 *
 *   parameter_server [--workers N] [--steps N] [--staleness N] [--slow] [--kill]
 *
 *   --slow: the first worker waits in the middle until all others have run as far ahead as they may
 *   --kill: it kills itself in the middle, once, when one of the shards has its push and the other not
 *
 * A worker is a task: when its process dies it is run again, asks the shards how far it had come, and goes on there. A push that
 * comes twice counts once, since each carries its worker's clock. The model is a linear regression whose weights are known.
 *
 * The bound: values that worker w has for its step c hold each worker's first c - STALENESS pushes at least. Shards see to it
 * when they are asked for values, and count at each push how old those were that it was computed on.
 */
#include <manta.h>

#include <math.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { SHARDS = 2, SLICE = 16, WIDTH = SHARDS * SLICE, WORKERS_MAX = 8, STALENESS = 3, STALENESS_MAX = 1000, BATCH = 32 };
enum { LIMIT_MS = 30000, AHEAD_US = 500 };
static const float RATE = 0.1f;

/* ---- a shard ---- */

typedef struct {
    float   values[SLICE];
    int64_t clocks[WORKERS_MAX]; /* pushes of each worker so far */
    int64_t based[WORKERS_MAX];  /* of the slowest worker, when this one was given values */
    int64_t oldest;              /* by how many steps a push's values were behind, at worst */
    int64_t staleness;
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
    s->staleness = argv[1].l;
    return MANTA_OK;
}

static int64_t slowest(const shard *s)
{
    int64_t least = s->clocks[0];
    for (int w = 1; w < s->workers; w++)
        least = s->clocks[w] < least ? s->clocks[w] : least;
    return least;
}

/* (worker, clock) > values; nothing while the caller is too far ahead: it asks again. */
static manta_status shard_pull(manta_ctx *c, void *self, int argc, const manta_arg *argv)
{
    shard  *s = self;
    int64_t w = argv[0].l, least = slowest(s);
    bool    is_ahead = argv[1].l > least + s->staleness;
    (void)argc;
    if (w < 0 || w >= s->workers)
        return manta_fail(c, 1, "pull of worker %lld", (long long)w);
    if (!is_ahead)
        s->based[w] = least;
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
        if (argv[1].l - s->based[w] > s->oldest)
            s->oldest = argv[1].l - s->based[w];
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
static manta_status shard_oldest(manta_ctx *c, void *self, int argc, const manta_arg *argv)
{
    (void)argc, (void)argv;
    return manta_return_i64(c, ((shard *)self)->oldest);
}
MANTA_ACTOR(shard, "ll", shard_new, free, {"pull", "ll>y", shard_pull}, {"push", "lly>l", shard_push},
            {"clock", "l>l", shard_clock}, {"oldest", ">l", shard_oldest});

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
static manta_status pull(const manta_arg *from, int64_t worker, int64_t clock, float *values, bool *out_here, manta_error *e)
{
    manta_view   view;
    manta_ref   *ref = manta_actor_call(from->A, "pull", MANTA_ARGS(manta_i64(worker), manta_i64(clock)));
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

static manta_status pull_all(const manta_arg *shards, int64_t worker, int64_t clock, float *values, manta_error *e)
{
    for (int s = 0; s < SHARDS; s++) {
        bool is_here = false;
        while (!is_here) {
            manta_status code = pull(&shards[s], worker, clock, values + s * SLICE, &is_here, e);
            if (code != MANTA_OK)
                return code;
            if (!is_here)
                usleep(AHEAD_US); /* the slowest worker is on its way, or being made again */
        }
    }
    return MANTA_OK;
}

static manta_status push_to(const manta_arg *shards, int count, int64_t worker, int64_t clock, const float *gradient,
                            manta_error *e)
{
    manta_ref   *refs[SHARDS];
    manta_status code = MANTA_OK;
    int64_t      now;
    for (int s = 0; s < count; s++)
        refs[s] = manta_actor_call(
            shards[s].A, "push",
            MANTA_ARGS(manta_i64(worker), manta_i64(clock), manta_bytes_of(gradient + s * SLICE, SLICE * sizeof *gradient)));
    for (int s = 0; s < count; s++) {
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

/* Until all others are as far ahead of this worker as they may be, or through. */
static manta_status others_await(const manta_arg *shards, int64_t workers, int64_t clock, manta_error *e)
{
    for (int64_t w = 1, now = 0; w < workers; w += now >= clock) {
        manta_status code = clock_of(shards, w, &now, e);
        if (code != MANTA_OK)
            return code;
        if (now < clock)
            usleep(AHEAD_US);
    }
    return MANTA_OK;
}

/* (worker, workers, steps, staleness, whether it is slow and whether it kills itself, shards...) > steps done by this attempt. */
static manta_status work(manta_ctx *c, int argc, const manta_arg *argv)
{
    const manta_arg *shards = argv + 6;
    int64_t          worker = argv[0].l, steps = argv[2].l, ahead = argv[3].l + 1, first, clock;
    float            values[WIDTH], gradient[WIDTH];
    manta_error      e;
    (void)argc;
    if (clock_of(shards, worker, &first, &e))
        return manta_fail(c, e.code, "%s", e.message);
    for (clock = first; clock < steps; clock++) {
        bool is_middle = clock == steps / 2, dies = argv[5].b && is_middle && first == 0;
        if (pull_all(shards, worker, clock, values, &e))
            return manta_fail(c, e.code, "%s", e.message);
        gradient_of(worker, clock, values, gradient);
        if (argv[4].b && is_middle && others_await(shards, argv[1].l, clock + ahead < steps ? clock + ahead : steps, &e))
            return manta_fail(c, e.code, "%s", e.message);
        if (push_to(shards, dies ? 1 : SHARDS, worker, clock, gradient, &e))
            return manta_fail(c, e.code, "%s", e.message);
        if (dies)
            raise(SIGKILL);
    }
    return manta_return_i64(c, clock - first);
}
MANTA_REGISTER(work, "llllbbAA>l");

/* ---- the run ---- */

struct words {
    int64_t workers, steps, staleness;
    bool    is_slow, kills;
};

/* 0: the weights are right, and no step was computed on values that were too old. */
static int judge(const manta_arg *shards, const struct words *words)
{
    float       values[WIDTH], far = 0;
    int64_t     oldest = 0;
    manta_error e;
    if (pull_all(shards, 0, 0, values, &e))
        return manta_perror(&e);
    for (int i = 0; i < WIDTH; i++)
        far = fmaxf(far, fabsf(values[i] - truth(i)));
    for (int s = 0; s < SHARDS; s++) {
        int64_t    of_shard = 0;
        manta_ref *ref = manta_actor_call(shards[s].A, "oldest", MANTA_NO_ARGS);
        if (manta_get_i64(ref, LIMIT_MS, &of_shard, &e))
            return manta_perror(&e);
        manta_free(ref);
        oldest = of_shard > oldest ? of_shard : oldest;
    }
    printf("%lld workers, %lld steps each: the farthest weight is off by %g\n", (long long)words->workers, (long long)words->steps,
           (double)far);
    printf("the oldest values that a step was computed on: %lld steps behind, %lld allowed\n", (long long)oldest,
           (long long)words->staleness);
    return far < 0.1f && oldest <= words->staleness ? 0 : 1;
}

static int run(const struct words *words)
{
    manta_arg   shards[SHARDS];
    manta_ref  *refs[WORKERS_MAX];
    manta_error e;
    for (int s = 0; s < SHARDS; s++)
        shards[s] = manta_actor_arg(
            manta_actor_new("shard", NULL, MANTA_ARGS(manta_i64(words->workers), manta_i64(words->staleness))));
    for (int64_t w = 0; w < words->workers; w++)
        refs[w] = manta_call("work", &(manta_task_opts){.num_cpus = 0.1}, /* they wait more than they compute */
                             MANTA_ARGS(manta_i64(w), manta_i64(words->workers), manta_i64(words->steps),
                                        manta_i64(words->staleness), manta_bool(words->is_slow && w == 0),
                                        manta_bool(words->kills && w == 0), shards[0], shards[1]));
    for (int64_t w = 0; w < words->workers; w++) {
        int64_t done;
        if (manta_get_i64(refs[w], MANTA_FOREVER, &done, &e))
            return manta_perror(&e);
        printf("worker %lld: the last attempt did %lld steps\n", (long long)w, (long long)done);
        manta_free(refs[w]);
    }
    int status = judge(shards, words);
    for (int s = 0; s < SHARDS; s++)
        manta_actor_free(shards[s].A);
    return status;
}

static bool words_read(struct words *words, int argc, char **argv)
{
    for (int i = 1; i < argc; i++) {
        bool has_value = i + 1 < argc;
        if (strcmp(argv[i], "--kill") == 0)
            words->kills = true;
        else if (strcmp(argv[i], "--slow") == 0)
            words->is_slow = true;
        else if (has_value && strcmp(argv[i], "--workers") == 0)
            words->workers = strtol(argv[++i], NULL, 10);
        else if (has_value && strcmp(argv[i], "--steps") == 0)
            words->steps = strtol(argv[++i], NULL, 10);
        else if (has_value && strcmp(argv[i], "--staleness") == 0)
            words->staleness = strtol(argv[++i], NULL, 10);
        else
            return false;
    }
    return words->workers >= 1 && words->workers <= WORKERS_MAX && words->steps >= 1 && words->staleness >= 0 &&
           words->staleness <= STALENESS_MAX;
}

int main(int argc, char **argv)
{
    manta_error  e;
    struct words words = {.workers = 3, .steps = 100, .staleness = STALENESS};
    if (manta_init(&argc, &argv, NULL, &e))
        return manta_perror(&e);
    if (!words_read(&words, argc, argv)) {
        fprintf(stderr,
                "usage: %s [--workers N] [--steps N] [--staleness N] [--slow] [--kill]\n"
                "1 to %d workers, at least 1 step, a staleness of 0 to %d\n",
                argv[0], WORKERS_MAX, STALENESS_MAX);
        return 2;
    }
    int status = run(&words);
    return manta_shutdown() || status;
}
