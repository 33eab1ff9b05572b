/* SPDX-License-Identifier: Apache-2.0
 *
 * functions.c - the remote functions and actors of the cases, and how their results are checked.
 *
 * Thread: in the driver the main one; remote functions run in workers.
 */
#include "tests/bench/functions.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

int64_t bench_mix(int64_t x)
{
    uint64_t z = (uint64_t)x * 0x9e3779b97f4a7c15u;
    return (int64_t)(z ^ z >> 29);
}

/* ---- no-op tasks ---- */
MANTA_TASK(int64_t, bench_noop, (int64_t, x))
{
    return x == BENCH_ASK_PID ? getpid() : bench_mix(x);
}

manta_ref *bench_task(const manta_task_opts *opts, int64_t x)
{
    return bench_noop_remote(opts, x);
}

static manta_status bench_hold(manta_ctx *c, int argc, const manta_arg *argv)
{
    (void)argc, (void)argv;
    while (!manta_is_cancelled(c))
        bench_sleep_us(200);
    return MANTA_OK;
}
MANTA_REGISTER(bench_hold, ">");

manta_ref *bench_hold_task(void)
{
    return manta_call("bench_hold", NULL, MANTA_NO_ARGS);
}

bool bench_say(const manta_error *e, const char *what)
{
    fprintf(stderr, "manta-bench: %s: error %d: %s\n", what, e->code, e->message);
    return false;
}

bool bench_value(manta_ref *take_ref, int64_t wanted)
{
    manta_error  e;
    int64_t      got;
    manta_status code = manta_get_i64(take_ref, BENCH_WAIT_MS, &got, &e);
    manta_free(take_ref);
    if (code != MANTA_OK)
        return bench_say(&e, "a result is missing");
    if (got != wanted)
        fprintf(stderr, "manta-bench: a result is %lld instead of %lld\n", (long long)got, (long long)wanted);
    return got == wanted;
}

bool bench_check_worker(const manta_task_opts *opts)
{
    manta_error  e;
    int64_t      pid;
    manta_ref   *ref = bench_task(opts, BENCH_ASK_PID);
    manta_status code = manta_get_i64(ref, BENCH_WAIT_MS, &pid, &e);
    manta_free(ref);
    if (code != MANTA_OK)
        return bench_say(&e, "the worker's pid is missing");
    if (pid == getpid())
        fprintf(stderr, "manta-bench: a task ran in the driver's own process\n");
    return pid != getpid();
}

double bench_tasks(struct bench *b, const manta_task_opts *opts, int count)
{
    int64_t first = b->next;
    bool    ok = true;
    b->next += count;
    for (int i = 0; i < count; i++)
        b->refs[i] = bench_task(opts, first + i);
    for (int i = 0; i < count; i++) {
        if (ok)
            ok = bench_value(b->refs[i], bench_mix(first + i));
        else
            manta_free(b->refs[i]);
    }
    return ok ? count : -1;
}

/* ---- clients: tasks and actors that submit by themselves ---- */
/* Submits `count` calls, 1000 at a time, and returns how many came back right. target NULL: tasks. */
static int64_t client_run(manta_actor *const *targets, int target_count, int64_t count)
{
    manta_ref *refs[BENCH_BATCH];
    int64_t    good = 0;
    for (int64_t done = 0; done < count;) {
        int64_t batch = count - done < BENCH_BATCH ? count - done : BENCH_BATCH;
        for (int64_t i = 0; i < batch; i++) {
            int64_t x = done + i;
            refs[i] = target_count ? manta_actor_call(targets[x % target_count], "mix", MANTA_ARGS(manta_i64(x)))
                                   : bench_task(NULL, x);
        }
        for (int64_t i = 0; i < batch; i++) {
            good += bench_value(refs[i], bench_mix(done + i));
        }
        done += batch;
    }
    return good;
}

static int targets_of(manta_actor **targets, int argc, const manta_arg *argv, int first)
{
    int count = 0;
    for (int i = first; i < argc; i++)
        targets[count++] = argv[i].A;
    return count;
}

/* count, then actors */
static manta_status bench_client_task(manta_ctx *c, int argc, const manta_arg *argv)
{
    manta_actor *targets[MANTA_ARGS_MAX];
    int          count = targets_of(targets, argc, argv, 1);
    return manta_return_i64(c, client_run(targets, count, argv[0].l));
}
MANTA_REGISTER(bench_client_task, "l*>l");

/* ---- puts in a task ---- */
MANTA_TASK(int64_t, bench_puts, (int64_t, count), (int64_t, size))
{
    char   *data = calloc(1, (size_t)size);
    int64_t good = 0;
    for (int64_t i = 0; data && i < count; i++) {
        manta_error e;
        manta_view  view;
        memcpy(data, &i, sizeof i);
        manta_ref *ref = manta_put(data, (size_t)size);
        if (manta_get(ref, BENCH_WAIT_MS, &view, &e) == MANTA_OK) {
            good += view.size == (size_t)size && memcmp(view.data, &i, sizeof i) == 0;
            manta_release(&view);
        }
        manta_free(ref);
    }
    free(data);
    return good;
}
manta_ref *bench_puts_task(int64_t count, int64_t size)
{
    return bench_puts_remote(NULL, count, size);
}

/* ---- objects ---- */
/* A value of `size` bytes that begins and ends with x. */
static manta_status bench_block(manta_ctx *c, int argc, const manta_arg *argv)
{
    size_t size = (size_t)argv[1].l;
    char  *data = calloc(1, size);
    (void)argc;
    if (!data)
        return manta_fail(c, 1, "no memory for %zu bytes", size);
    memcpy(data, &argv[0].l, sizeof argv[0].l);
    memcpy(data + size - sizeof argv[0].l, &argv[0].l, sizeof argv[0].l);
    manta_status code = manta_return_bytes(c, data, size);
    free(data);
    return code;
}
MANTA_REGISTER(bench_block, "ll>y");

bool bench_block_is(const manta_view *view, int64_t x, size_t size)
{
    return view->size == size && memcmp(view->data, &x, sizeof x) == 0 &&
           memcmp((const char *)view->data + size - sizeof x, &x, sizeof x) == 0;
}

/* Gets a large value and checks its ends and pages; the nanoseconds that the get took, < 0 where it is wrong. */
MANTA_TASK(int64_t, bench_fetch, (manta_ref *, ref), (int64_t, x), (int64_t, size))
{
    manta_error e;
    manta_view  view;
    uint64_t    start = bench_now_ns();
    if (manta_get(ref, BENCH_WAIT_MS, &view, &e) != MANTA_OK)
        return -e.code - 1;
    int64_t ns = (int64_t)(bench_now_ns() - start);
    bool    ok = bench_block_is(&view, x, (size_t)size);
    manta_release(&view);
    return ok ? ns : -1;
}
manta_ref *bench_fetch_task(manta_ref *ref, int64_t x, int64_t size)
{
    return bench_fetch_remote(NULL, ref, x, size);
}

/* ---- a task that has to be killed ---- */
/* The first attempt tells its pid and waits for the end; the second tells when it started. */
static manta_status bench_victim(manta_ctx *c, int argc, const manta_arg *argv)
{
    int64_t             now = (int64_t)bench_now_ns();
    struct bench_board *board = bench_board_map(argv[0].u);
    (void)argc;
    if (!board)
        return manta_fail(c, 1, "no board");
    if (manta_attempt(c) == 0) {
        board->pid = getpid();
        for (int i = 0; i < BENCH_WAIT_MS / 10; i++)
            bench_sleep_us(10 * 1000);
        return manta_fail(c, 2, "nobody killed this worker");
    }
    board->started_ns = now;
    bench_board_free(board);
    return manta_return_i64(c, getpid());
}
MANTA_REGISTER(bench_victim, "u>l");

/* ---- a task that fails when it is told to ---- */
static manta_status bench_fail(manta_ctx *c, int argc, const manta_arg *argv)
{
    struct bench_board *board = bench_board_map(argv[0].u);
    (void)argc;
    for (int i = 0; board && !board->may_fail && i < BENCH_WAIT_MS; i++)
        bench_sleep_us(1000);
    bench_board_free(board);
    return manta_fail(c, BENCH_FAIL_CODE, "it was to fail");
}
MANTA_REGISTER(bench_fail, "u>l");

/* ---- the actor ---- */
struct bench_actor {
    int64_t calls;
};

static manta_status actor_create(manta_ctx *c, void **self, int argc, const manta_arg *argv)
{
    (void)argc, (void)argv;
    *self = calloc(1, sizeof(struct bench_actor));
    return *self ? MANTA_OK : manta_fail(c, 1, "no memory");
}
static manta_status actor_mix(manta_ctx *c, void *self, int argc, const manta_arg *argv)
{
    struct bench_actor *actor = self;
    (void)argc;
    actor->calls++;
    return manta_return_i64(c, bench_mix(argv[0].l));
}
static manta_status actor_pid(manta_ctx *c, void *self, int argc, const manta_arg *argv)
{
    (void)self, (void)argc, (void)argv;
    return manta_return_i64(c, getpid());
}
static manta_status actor_calls(manta_ctx *c, void *self, int argc, const manta_arg *argv)
{
    (void)argc, (void)argv;
    return manta_return_i64(c, ((struct bench_actor *)self)->calls);
}
/* count, then actors to call; without any: tasks */
static manta_status actor_client(manta_ctx *c, void *self, int argc, const manta_arg *argv)
{
    (void)self;
    return bench_client_task(c, argc, argv);
}
/* The length of a value that is given as argument. */
static manta_status actor_size(manta_ctx *c, void *self, int argc, const manta_arg *argv)
{
    (void)self, (void)argc;
    return manta_return_i64(c, (int64_t)argv[0].y.size);
}
MANTA_ACTOR(bench_actor, "", actor_create, free, {"mix", "l>l", actor_mix}, {"pid", ">l", actor_pid}, {"calls", ">l", actor_calls},
            {"client", "l*>l", actor_client}, {"size", "y>l", actor_size});
