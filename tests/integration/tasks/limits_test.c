/* SPDX-License-Identifier: Apache-2.0
 *
 * limits_test.c - how a task is run: its timeout, priority, retries of its own errors, and the life of its worker.
 *
 * Thread: the driver's main one.
 */
#include "tests/integration/cancel/functions.h"
#include "tests/integration/harness.h"

#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

static manta_status note(manta_ctx *c, int argc, const manta_arg *argv)
{
    struct test_board *board = test_board_map(argv[0].u);
    (void)argc;
    board->words[ORDER + board->words[RAN]++] = argv[1].l;
    return manta_return_i64(c, argv[1].l);
}
MANTA_REGISTER(note, "ul>l");

MANTA_TASK(int64_t, echo, (int64_t, x))
{
    return x;
}

static manta_ref *note_call(uint64_t board, int priority, int64_t x)
{
    manta_task_opts opts = {.priority = priority};
    return manta_call("note", &opts, MANTA_ARGS(manta_u64(board), manta_i64(x)));
}

/* ---- timeout ---- */
static manta_status polite(manta_ctx *c, int argc, const manta_arg *argv)
{
    (void)argc, (void)argv;
    for (int i = 0; i < 10000 && !manta_is_cancelled(c); i++)
        test_sleep_ms(1);
    return manta_return_i64(c, 1);
}
MANTA_REGISTER(polite, ">l");

static manta_status waits(manta_ctx *c, int argc, const manta_arg *argv)
{
    struct test_board *board = test_board_map(argv[0].u);
    manta_ref         *ref = manta_call("open_gate", NULL, MANTA_ARGS(manta_u64(argv[0].u)));
    manta_error        e;
    manta_view         view;
    (void)c, (void)argc;
    board->words[CODE] = manta_get(ref, MANTA_FOREVER, &view, &e);
    board->words[GATE] = 1;
    manta_free(ref);
    return MANTA_OK;
}
MANTA_REGISTER(waits, "u>");

static void timeout_seen(void)
{
    static const manta_task_opts short_time = {.timeout_ms = 50}, long_time = {.timeout_ms = 60000};
    manta_error                  e;
    CHECK_FAILS(manta_call("polite", &short_time, MANTA_NO_ARGS), MANTA_ETIMEDOUT, &e);
    CHECK_STR(e.function, "polite");
    CHECK_SAYS(e.message, "polite");
    CHECK_SAYS(e.message, "50 ms");
    CHECK(e.pid > 1 && e.pid != getpid());
    for (int i = 0; i < 100; i++) /* what is in time is not touched */
        CHECK_I64(echo_remote(&long_time, i), i);
}

/* The function does not look: its worker ends, and those behind it run, at no cost. */
static void timeout_killed(void)
{
    static const manta_task_opts limited = {.timeout_ms = 100}, once = {.max_retries = MANTA_NO_RETRY};
    uint64_t                     number;
    struct test_board           *board = test_board_new(&number);
    manta_ref                   *ref = manta_call("deaf", &limited, MANTA_ARGS(manta_u64(number)));
    manta_ref                   *behind = manta_call("note", &once, MANTA_ARGS(manta_u64(number), manta_i64(3)));
    manta_error                  e;
    CHECK_FAILS(ref, MANTA_ETIMEDOUT, &e);
    CHECK_SAYS(e.message, "deaf");
    CHECK_EQ(e.outcome, MANTA_UNKNOWN);
    CHECK_I64(behind, 3);
    CHECK(board->words[STARTED] <= 1); /* not tried again; a slow worker has ended before it could say that it had started */
}

/* False: its worker was ended before it could say what it had heard. */
static bool is_told_inside_get(void)
{
    static const manta_task_opts limited = {.timeout_ms = 100};
    uint64_t                     number;
    struct test_board           *board = test_board_new(&number);
    manta_error                  e;
    CHECK_FAILS(manta_call("waits", &limited, MANTA_ARGS(manta_u64(number))), MANTA_ETIMEDOUT, &e);
    if (board->words[CODE])
        CHECK_EQ(board->words[CODE], MANTA_ETIMEDOUT);
    return board->words[CODE] != 0;
}

static void timeout_inside_get(void)
{
    CHECK_SOON(is_told_inside_get());
}

static void timeout_retried(void)
{
    static const manta_task_opts limited = {.timeout_ms = 30, .retry_on_error = true, .max_retries = 2};
    manta_error                  e;
    CHECK_FAILS(manta_call("polite", &limited, MANTA_NO_ARGS), MANTA_ETIMEDOUT, &e);
    CHECK_EQ(e.attempt, 2);
}

/* False: the machine let it stand for its whole time. */
static bool is_timed_from_start(void)
{
    static const manta_task_opts limited = {.timeout_ms = 200};
    uint64_t                     number;
    struct test_board           *board = test_board_new(&number);
    manta_ref                   *first = manta_call("open_gate", NULL, MANTA_ARGS(manta_u64(number)));
    manta_ref                   *later = echo_remote(NULL, 4);
    manta_ref                   *ref = manta_call("note", &limited, MANTA_ARGS(manta_u64(number), manta_ref_arg(later)));
    manta_error                  e;
    int64_t                      x = 4;
    CHECK(test_board_wait(&board->words[STARTED], 1));
    test_sleep_ms(400);
    int64_t from = test_now_ms();
    board->words[GATE] = 1;
    manta_status code = manta_get_i64(ref, TEST_WAIT_MS, &x, &e);
    if (code)
        CHECK_CODE(code, test_now_ms() - from >= limited.timeout_ms ? MANTA_ETIMEDOUT : MANTA_OK, &e);
    CHECK_EQ(x, 4);
    manta_free(ref);
    manta_free(later);
    manta_free(first);
    return code == MANTA_OK;
}

/* The clock starts with the run, not in the queue. */
static void timeout_from_start(void)
{
    CHECK_SOON(is_timed_from_start());
}

/* ---- priority ---- */
static void priority_order(void)
{
    static const int   priorities[12] = {0, 5, -3, 0, 100, 5, -100, 0, 5, -3, 100, 0};
    static const int   order[12] = {4, 10, 1, 5, 8, 0, 3, 7, 11, 2, 9, 6};
    uint64_t           number;
    struct test_board *board = test_board_new(&number);
    manta_ref         *first = manta_call("open_gate", NULL, MANTA_ARGS(manta_u64(number))), *refs[12];
    CHECK(test_board_wait(&board->words[STARTED], 1));
    for (int i = 0; i < 12; i++)
        refs[i] = note_call(number, priorities[i], i);
    test_sleep_ms(20); /* some stand at the worker by now: that does not change their turn */
    board->words[GATE] = 1;
    for (int i = 0; i < 12; i++)
        CHECK_I64(refs[i], i);
    for (int i = 0; i < 12; i++)
        CHECK_EQ(board->words[ORDER + i], order[i]);
    manta_free(first);
}

/* One that comes late passes a long queue of lesser ones; equal ones keep their order; a cancelled one is left out. */
static void priority_late(void)
{
    enum { COUNT = 40 };
    uint64_t           number;
    struct test_board *board = test_board_new(&number);
    manta_ref         *first = manta_call("open_gate", NULL, MANTA_ARGS(manta_u64(number))), *refs[COUNT], *late, *gone;
    manta_error        e;
    CHECK(test_board_wait(&board->words[STARTED], 1));
    for (int i = 0; i < COUNT; i++)
        refs[i] = note_call(number, 0, i);
    test_sleep_ms(20);
    gone = note_call(number, 2, 1000);
    late = note_call(number, 1, 1001);
    CHECK_CODE(manta_cancel(gone, NULL, &e), MANTA_OK, &e);
    board->words[GATE] = 1;
    CHECK_I64(late, 1001);
    CHECK_FAILS(gone, MANTA_ECANCELLED, &e);
    for (int i = 0; i < COUNT; i++)
        CHECK_I64(refs[i], i);
    CHECK_EQ(board->words[ORDER], 1001);
    for (int i = 0; i < COUNT; i++)
        CHECK_EQ(board->words[ORDER + 1 + i], i);
    manta_free(first);
}

static void priority_many(void)
{
    enum { COUNT = 3000 };
    static manta_ref *refs[COUNT];
    manta_error       e;
    int64_t           x;
    for (int i = 0; i < COUNT; i++) {
        manta_task_opts opts = {.priority = i % 7 - 3};
        refs[i] = echo_remote(&opts, i);
    }
    for (int i = 0; i < COUNT; i++) {
        CHECK_CODE(manta_get_i64(refs[i], TEST_WAIT_MS, &x, &e), MANTA_OK, &e);
        CHECK_EQ(x, i);
        manta_free(refs[i]);
    }
}
/* ---- retries of its own errors ---- */
static manta_status fails(manta_ctx *c, int argc, const manta_arg *argv)
{
    (void)argc;
    test_board_map(argv[0].u)->words[RAN]++;
    if (manta_attempt(c) < argv[1].l)
        return manta_fail(c, 7, "attempt %d is too early", manta_attempt(c));
    return manta_return_i64(c, manta_attempt(c));
}
MANTA_REGISTER(fails, "ul>l");

static void retries_counted(void)
{
    manta_task_opts    opts = {.retry_on_error = true, .max_retries = 4};
    uint64_t           number;
    struct test_board *board = test_board_new(&number);
    manta_error        e;
    CHECK_I64(manta_call("fails", &opts, MANTA_ARGS(manta_u64(number), manta_i64(4))), 4);
    CHECK_EQ(board->words[RAN], 5);
    CHECK_FAILS(manta_call("fails", &opts, MANTA_ARGS(manta_u64(number), manta_i64(5))), MANTA_ETASK, &e);
    CHECK_EQ(board->words[RAN], 10);
    CHECK_EQ(e.attempt, 4);
    CHECK_EQ(e.user_code, 7);
    opts.max_retries = 0; /* the default is three */
    CHECK_FAILS(manta_call("fails", &opts, MANTA_ARGS(manta_u64(number), manta_i64(9))), MANTA_ETASK, &e);
    CHECK_EQ(board->words[RAN], 14);
    opts.max_retries = MANTA_NO_RETRY;
    CHECK_FAILS(manta_call("fails", &opts, MANTA_ARGS(manta_u64(number), manta_i64(9))), MANTA_ETASK, &e);
    CHECK_EQ(board->words[RAN], 15);
    CHECK_FAILS(manta_call("fails", NULL, MANTA_ARGS(manta_u64(number), manta_i64(9))), MANTA_ETASK, &e);
    CHECK_EQ(board->words[RAN], 16); /* errors of the user's own are not tried again unless asked */
}

/* ---- max_calls ---- */
static manta_status pid_of(manta_ctx *c, int argc, const manta_arg *argv)
{
    (void)argc, (void)argv;
    return manta_return_i64(c, getpid());
}
MANTA_REGISTER(pid_of, ">l");

static void max_calls(void)
{
    enum { COUNT = 12, EACH = 3 };
    static const manta_task_opts opts = {.max_calls = EACH, .max_retries = MANTA_NO_RETRY};
    manta_ref                   *refs[COUNT];
    int64_t                      pids[COUNT];
    for (int i = 0; i < COUNT; i++)
        refs[i] = manta_call("pid_of", &opts, MANTA_NO_ARGS);
    for (int i = 0; i < COUNT; i++) {
        int count = 0;
        pids[i] = test_i64(refs[i], __FILE__, __LINE__);
        for (int j = 0; j <= i; j++)
            count += pids[j] == pids[i];
        CHECK(count <= EACH);
    }
    for (int i = 0; i < COUNT; i++)
        CHECK(pids[i] == pids[COUNT - 1] || test_gone((int)pids[i]));
    int64_t pid = 0, row = 0, limit = test_now_ms() + TEST_WAIT_MS;
    while (row < 10) { /* others keep their worker; where the driver is slow, another one may have the next call */
        int64_t by = test_i64(manta_call("pid_of", NULL, MANTA_NO_ARGS), __FILE__, __LINE__);
        row = by == pid ? row + 1 : 1;
        pid = by;
        CHECK(test_now_ms() < limit);
    }
}

/* A worker that is to go waits for what its task has started. */
static manta_status leaves_work(manta_ctx *c, int argc, const manta_arg *argv)
{
    manta_ref *ref = manta_call("slow_note", NULL, MANTA_ARGS(manta_u64(argv[0].u)));
    (void)c, (void)argc;
    manta_free(ref);
    return MANTA_OK;
}
MANTA_REGISTER(leaves_work, "u>");
static manta_status slow_note(manta_ctx *c, int argc, const manta_arg *argv)
{
    (void)c, (void)argc;
    test_sleep_ms(100);
    test_board_map(argv[0].u)->words[RAN]++;
    return MANTA_OK;
}
MANTA_REGISTER(slow_note, "u>");

static void max_calls_waits(void)
{
    static const manta_task_opts opts = {.max_calls = 1, .max_retries = MANTA_NO_RETRY};
    uint64_t                     number;
    struct test_board           *board = test_board_new(&number);
    manta_error                  e;
    manta_view                   view;
    for (int i = 0; i < 4; i++) {
        manta_ref *ref = manta_call("leaves_work", &opts, MANTA_ARGS(manta_u64(number)));
        CHECK_CODE(manta_get(ref, TEST_WAIT_MS, &view, &e), MANTA_OK, &e);
        manta_release(&view);
        manta_free(ref);
    }
    CHECK(test_board_wait(&board->words[RAN], 4));
}

/* ---- devices ---- */
/* (board, how many) -> its devices; so many of them run at a time. */
static manta_status devices(manta_ctx *c, int argc, const manta_arg *argv)
{
    struct test_board *board = test_board_map(argv[0].u);
    const char        *text = getenv("CUDA_VISIBLE_DEVICES");
    (void)argc;
    board->words[STARTED]++;
    if (!test_board_wait(&board->words[STARTED], argv[1].l))
        return manta_fail(c, 1, "it runs alone");
    return manta_return_str(c, text ? text : "none");
}
MANTA_REGISTER(devices, "ul>s");

static void devices_are(const manta_task_opts *opts, int count, const char *one, const char *other)
{
    uint64_t    number;
    manta_ref  *refs[2];
    manta_error e;
    manta_view  view;
    int         ones = 0;
    (void)test_board_new(&number);
    for (int i = 0; i < count; i++)
        refs[i] = manta_call("devices", opts, MANTA_ARGS(manta_u64(number), manta_i64(count)));
    for (int i = 0; i < count; i++) {
        CHECK_CODE(manta_get(refs[i], TEST_WAIT_MS, &view, &e), MANTA_OK, &e);
        if (strcmp(view.data, one) != 0)
            CHECK_STR((const char *)view.data, other);
        ones += strcmp(view.data, one) == 0;
        manta_release(&view);
        manta_free(refs[i]);
    }
    CHECK(ones >= 1);
}

static void visible_devices(void)
{
    static const manta_task_opts one = {.num_gpus = 1}, both = {.num_gpus = 2}, none = {.num_gpus = 0};
    devices_are(&one, 2, "0", "1");
    devices_are(&both, 1, "0,1", "0,1");
    devices_are(&none, 1, "none", "none"); /* not one that a lease with devices has used */
}

/* Of what was restricted before, that part. */
static void visible_subset(void)
{
    static const manta_task_opts both = {.num_gpus = 2};
    manta_init_opts              opts = {.num_cpus = 2, .num_gpus = 2};
    manta_error                  e;
    setenv("CUDA_VISIBLE_DEVICES", "5,GPU-abc", 1);
    CHECK_CODE(manta_init(&test_argc, &test_argv, &opts, &e), MANTA_OK, &e);
    devices_are(&both, 1, "5,GPU-abc", "5,GPU-abc");
    manta_shutdown();
}

/* ---- bad input ---- */
/* Fails of its own, or dies, until it was run `argv[1]` times. */
static manta_status runs_late(manta_ctx *c, int argc, const manta_arg *argv)
{
    static struct test_board *board; /* mapped once: it runs very often */
    board = board ? board : test_board_map(argv[0].u);
    int64_t ran = ++board->words[RAN];
    (void)argc;
    if (ran >= argv[1].l)
        return manta_return_i64(c, ran);
    if (argv[2].l)
        raise(SIGKILL);
    return manta_fail(c, 7, "run %lld is too early", (long long)ran);
}
MANTA_REGISTER(runs_late, "ull>l");

/* More often than an attempt has numbers; and where the worker dies each time. */
static void retries_without_limit(void)
{
    enum { MANY = 66000, DEATHS = 12 };
    manta_task_opts    opts = {.retry_on_error = true, .max_retries = MANTA_WITHOUT_LIMIT};
    uint64_t           number;
    struct test_board *board = test_board_new(&number);
    CHECK_I64(manta_call("runs_late", &opts, MANTA_ARGS(manta_u64(number), manta_i64(MANY), manta_i64(0))), MANY);
    board->words[RAN] = 0;
    opts.retry_on_error = false;
    CHECK_I64(manta_call("runs_late", &opts, MANTA_ARGS(manta_u64(number), manta_i64(DEATHS), manta_i64(1))), DEATHS);
}

/* Only a cancel ends what would be tried for ever. */
static void retries_cancelled(void)
{
    manta_task_opts    opts = {.retry_on_error = true, .max_retries = MANTA_WITHOUT_LIMIT};
    uint64_t           number;
    struct test_board *board = test_board_new(&number);
    manta_error        e;
    manta_ref         *ref = manta_call("runs_late", &opts, MANTA_ARGS(manta_u64(number), manta_i64(INT64_MAX), manta_i64(0)));
    CHECK(test_board_wait(&board->words[RAN], 100));
    CHECK_CODE(manta_cancel(ref, NULL, &e), MANTA_OK, &e);
    CHECK_FAILS(ref, MANTA_ECANCELLED, &e);
}

static void bad_limits(void)
{
    static const struct {
        manta_task_opts opts;
        const char     *says;
    } bad[] = {
        {{.priority = 101}, "priority 101"},      {{.priority = -101}, "-100 and 100"},      {{.priority = 1 << 30}, "priority"},
        {{.timeout_ms = -1}, "timeout_ms of -1"}, {{.timeout_ms = INT64_MAX}, "timeout_ms"}, {{.max_calls = -2}, "max_calls -2"},
        {{.max_retries = -3}, "max_retries -3"},
    };
    for (size_t i = 0; i < sizeof bad / sizeof bad[0]; i++) {
        manta_error e;
        CHECK_FAILS(manta_call("pid_of", &bad[i].opts, MANTA_NO_ARGS), MANTA_EINVAL, &e);
        CHECK_SAYS(e.message, bad[i].says);
        CHECK_SAYS(e.message, "pid_of");
    }
}

int main(int argc, char **argv)
{
    static const struct test_case cases[] = {
        {"timeout_seen", timeout_seen, {.num_cpus = 1}, false, 0},
        {"timeout_killed", timeout_killed, {.num_cpus = 1}, false, 0},
        {"timeout_inside_get", timeout_inside_get, {.num_cpus = 2}, false, 0},
        {"timeout_retried", timeout_retried, {.num_cpus = 1}, false, 0},
        {"timeout_from_start", timeout_from_start, {.num_cpus = 1}, false, 0},
        {"priority_order", priority_order, {.num_cpus = 1}, false, 0},
        {"priority_late", priority_late, {.num_cpus = 1}, false, 0},
        {"priority_many", priority_many, {.num_cpus = 2}, false, 0},
        {"retries_counted", retries_counted, {.num_cpus = 1}, false, 0},
        {"retries_without_limit", retries_without_limit, {.num_cpus = 1}, false, 0},
        {"retries_cancelled", retries_cancelled, {.num_cpus = 1}, false, 0},
        {"max_calls", max_calls, {.num_cpus = 1}, false, 0},
        {"max_calls_waits", max_calls_waits, {.num_cpus = 2}, false, 0},
        {"visible_devices", visible_devices, {.num_cpus = 2, .num_gpus = 2}, false, 0},
        {"visible_subset", visible_subset, {0}, true, 0},
        {"bad_limits", bad_limits, {.num_cpus = 1}, false, 0},
        {NULL, NULL, {0}, false, 0},
    };
    return test_main(argc, argv, cases);
}
