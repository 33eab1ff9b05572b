/* SPDX-License-Identifier: Apache-2.0
 *
 * tasks_test.c - tasks as a user writes them: values, arguments, errors, retries, waiting.
 *
 * Thread: the driver's main one, but for the case `threads`.
 */
#include "tests/integration/harness.h"
#include "tests/integration/tasks/victim.h"

#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

/* ---- values ---- */
MANTA_TASK(int64_t, add, (int64_t, a), (int64_t, b))
{
    return a + b;
}
MANTA_TASK(double, scale, (double, x), (int64_t, n))
{
    return x * (double)n;
}
MANTA_TASK(uint64_t, invert, (uint64_t, x))
{
    return ~x;
}
MANTA_TASK(bool, negate, (bool, x))
{
    return !x;
}
MANTA_TASK(int64_t, length, (const char *, s), (manta_bytes, y))
{
    return s[strlen(s)] == 0 ? (int64_t)(strlen(s) * 1000 + y.size) : -1;
}
MANTA_TASK(const char *, greet, (const char *, who))
{
    static char text[128];
    snprintf(text, sizeof text, "hello, %s", who);
    return text;
}
MANTA_TASK_VOID(nothing, (int64_t, x))
{
    (void)x;
}
MANTA_TASK(int64_t, answer)
{
    return 42;
}
MANTA_TASK_VOID(tick)
{
}
MANTA_TASK(int64_t, whoami, (int64_t, x))
{
    (void)x;
    return getpid();
}

static void typed(void)
{
    manta_error e;
    manta_view  view;
    double      d;
    uint64_t    u;
    bool        b;
    manta_ref  *r = scale_remote(NULL, 2.5, 4);
    CHECK_CODE(manta_get_f64(r, TEST_WAIT_MS, &d, &e), MANTA_OK, &e);
    CHECK(d == 10.0);
    manta_free(r);
    r = invert_remote(NULL, 5);
    CHECK_CODE(manta_get_u64(r, TEST_WAIT_MS, &u, &e), MANTA_OK, &e);
    CHECK(u == ~(uint64_t)5);
    manta_free(r);
    CHECK_I64(answer_remote(NULL), 42);
    CHECK_I64(manta_call("answer", NULL, MANTA_NO_ARGS), 42);
    r = tick_remote(NULL);
    CHECK_CODE(manta_get(r, TEST_WAIT_MS, &view, &e), MANTA_OK, &e);
    CHECK_EQ(view.type, 'v');
    manta_release(&view);
    manta_free(r);
    r = negate_remote(NULL, false);
    CHECK_CODE(manta_get_bool(r, TEST_WAIT_MS, &b, &e), MANTA_OK, &e);
    CHECK(b);
    manta_free(r);
    CHECK_I64(length_remote(NULL, "four", (manta_bytes){"1234567", 7}), 4007);
    CHECK_I64(length_remote(NULL, "", (manta_bytes){NULL, 0}), 0);
    CHECK_I64(add_remote(NULL, INT64_MIN, -1 - INT64_MIN), -1);
    r = greet_remote(NULL, "world");
    CHECK_CODE(manta_get(r, TEST_WAIT_MS, &view, &e), MANTA_OK, &e);
    CHECK_EQ(view.type, 's');
    CHECK_EQ(view.size, 12);
    CHECK_STR((const char *)view.data, "hello, world");
    manta_release(&view);
    manta_free(r);
    r = nothing_remote(NULL, 1);
    CHECK_CODE(manta_get(r, TEST_WAIT_MS, &view, &e), MANTA_OK, &e);
    CHECK_EQ(view.type, 'v');
    CHECK_EQ(view.size, 0);
    manta_release(&view);
    manta_free(r);
    int64_t pid = test_i64(whoami_remote(NULL, 0), __FILE__, __LINE__);
    CHECK(pid > 1 && pid != getpid());
}

/* ---- raw form ---- */
static manta_status total(manta_ctx *c, int argc, const manta_arg *argv)
{
    int64_t sum = argv[0].l;
    for (int i = 1; i < argc; i++)
        sum += argv[i].type == 'l' ? argv[i].l : argv[i].type == 'd' ? (int64_t)argv[i].d : (int64_t)argv[i].y.size;
    return manta_return_i64(c, sum);
}
MANTA_REGISTER(total, "l*>l");

static manta_status reflect(manta_ctx *c, int argc, const manta_arg *argv)
{
    (void)argc;
    return manta_return_bytes(c, argv[0].y.data, argv[0].y.size);
}
MANTA_REGISTER(reflect, "y>y");

static void raw(void)
{
    CHECK_I64(manta_call("total", NULL, MANTA_ARGS(manta_i64(1))), 1);
    CHECK_I64(manta_call("total", NULL, MANTA_ARGS(manta_i64(1), manta_i64(2), manta_f64(3.0), manta_str("four"))), 10);
    manta_arg args[MANTA_ARGS_MAX];
    for (int i = 0; i < MANTA_ARGS_MAX; i++)
        args[i] = manta_i64(i);
    CHECK_I64(manta_call("total", NULL, MANTA_ARGS_MAX, args), (int64_t)MANTA_ARGS_MAX * (MANTA_ARGS_MAX - 1) / 2);
    /* references among them arrive as their values, small ones and large ones, and so does what is too large for a record */
    static char large[100 * 1000];
    manta_ref  *sum = manta_call("total", NULL, MANTA_ARGS(manta_i64(5))), *put = manta_put(large, sizeof large);
    CHECK_I64(manta_call(
                  "total", NULL,
                  MANTA_ARGS(manta_i64(1), manta_ref_arg(sum), manta_ref_arg(put), manta_data((manta_bytes){large, sizeof large}))),
              6 + 2 * (int64_t)sizeof large);
    manta_free(sum);
    manta_free(put);
}

static void inline_sizes(void)
{
    static const size_t sizes[] = {0, 1, 7, 8, 55, 56, 57, 120, 121, 128, 1000, 4000, 4095, 4096};
    char                data[4096];
    for (size_t i = 0; i < sizeof data; i++)
        data[i] = (char)(i * 7 + 1);
    for (size_t i = 0; i < sizeof sizes / sizeof sizes[0]; i++) {
        manta_error e;
        manta_view  view;
        manta_ref  *r = manta_call("reflect", NULL, MANTA_ARGS(manta_bytes_of(data, sizes[i])));
        CHECK_CODE(manta_get(r, TEST_WAIT_MS, &view, &e), MANTA_OK, &e);
        CHECK_EQ(view.size, sizes[i]);
        CHECK(memcmp(view.data, data, sizes[i]) == 0);
        manta_release(&view);
        manta_free(r);
    }
}

/* ---- refs as arguments ---- */
MANTA_TASK(int64_t, add_later, (int64_t, a), (int64_t, ms))
{
    test_sleep_ms((int)ms);
    return a + 1;
}
static manta_ref *add_refs(manta_ref *a, manta_ref *b)
{
    return manta_call("add", NULL, MANTA_ARGS(manta_ref_arg(a), manta_ref_arg(b)));
}

static void refs_by_value(void)
{
    manta_ref *a = add_later_remote(NULL, 0, 20), *b = add_remote(NULL, 10, 20), *c = add_refs(a, b);
    manta_ref *d = add_refs(c, c), *e = add_refs(d, a);
    manta_free(a), manta_free(b), manta_free(c), manta_free(d); /* what is needed is kept by those who need it */
    CHECK_I64(e, 63);
}

static void chain(void)
{
    manta_ref *r = add_later_remote(NULL, 0, 5);
    for (int i = 0; i < 1000; i++) {
        manta_ref *next = manta_call("add", NULL, MANTA_ARGS(manta_ref_arg(r), manta_i64(1)));
        manta_free(r);
        r = next;
    }
    CHECK_I64(r, 1001);
}

MANTA_TASK(int64_t, follow, (manta_ref *, r))
{
    manta_error e;
    int64_t     x;
    return manta_get_i64(r, TEST_WAIT_MS, &x, &e) == MANTA_OK ? x * 2 : -e.code;
}
static void refs_kept(void)
{
    manta_ref *pending = add_later_remote(NULL, 20, 30), *there = add_remote(NULL, 1, 1);
    CHECK_I64(follow_remote(NULL, pending), 42);
    CHECK_I64(follow_remote(NULL, there), 4);
    manta_ref *put = manta_put("12345678", 8), *many[50];
    for (int i = 0; i < 50; i++)
        many[i] = follow_remote(NULL, pending);
    for (int i = 0; i < 50; i++)
        CHECK_I64(many[i], 42);
    CHECK_I64(follow_remote(NULL, put), -MANTA_ETYPE);
    manta_free(put), manta_free(pending), manta_free(there);
}

/* ---- tasks that call tasks ---- */
/* Raw, because it calls itself by name. */
static manta_status fib(manta_ctx *c, int argc, const manta_arg *argv)
{
    int64_t     n = argv[0].l, a, b;
    manta_error e;
    (void)argc;
    if (n < 2)
        return manta_return_i64(c, n);
    manta_ref *x = manta_call("fib", NULL, MANTA_ARGS(manta_i64(n - 1)));
    manta_ref *y = manta_call("fib", NULL, MANTA_ARGS(manta_i64(n - 2)));
    bool       ok = manta_get_i64(x, TEST_WAIT_MS, &a, &e) == MANTA_OK && manta_get_i64(y, TEST_WAIT_MS, &b, &e) == MANTA_OK;
    manta_free(x), manta_free(y);
    return ok ? manta_return_i64(c, a + b) : manta_fail(c, e.code, "fib(%lld): %s", (long long)n, e.message);
}
MANTA_REGISTER(fib, "l>l");

static void nested(void)
{
    CHECK_I64(manta_call("fib", NULL, MANTA_ARGS(manta_i64(9))), 34);
}

static void nested_deep_one_cpu(void)
{
    CHECK_I64(manta_call("fib", NULL, MANTA_ARGS(manta_i64(6))), 8);
}

/* ---- errors ---- */
static manta_status refuse(manta_ctx *c, int argc, const manta_arg *argv)
{
    (void)argc;
    return manta_fail(c, (int)argv[0].l, "no %s today", "luck");
}
MANTA_REGISTER(refuse, "l>l");

static void user_error(void)
{
    manta_error e;
    CHECK_FAILS(manta_call("refuse", NULL, MANTA_ARGS(manta_i64(42))), MANTA_ETASK, &e);
    CHECK_EQ(e.user_code, 42);
    CHECK_SAYS(e.message, "no luck today");
    CHECK_STR(e.function, "refuse");
    CHECK(e.pid > 1 && e.pid != getpid());
    CHECK(e.node[0] && e.task[0]);
    CHECK_EQ(e.outcome, MANTA_DONE);
    CHECK_EQ(e.attempt, 0);
    CHECK_I64(add_remote(NULL, 1, 2), 3); /* the worker goes on */
}

static void error_of_argument(void)
{
    manta_error e;
    manta_ref  *bad = manta_call("refuse", NULL, MANTA_ARGS(manta_i64(7)));
    manta_ref  *next = manta_call("add", NULL, MANTA_ARGS(manta_ref_arg(bad), manta_i64(1)));
    manta_ref  *last = manta_call("add", NULL, MANTA_ARGS(manta_ref_arg(next), manta_i64(1)));
    manta_free(next);
    CHECK_FAILS(last, MANTA_ETASK, &e);
    CHECK_EQ(e.user_code, 7);
    CHECK_STR(e.function, "refuse");
    CHECK_FAILS(bad, MANTA_ETASK, &e);
}

static manta_status refuse_twice(manta_ctx *c, int argc, const manta_arg *argv)
{
    (void)argc, (void)argv;
    return manta_attempt(c) < 2 ? manta_fail(c, 1, "not yet") : manta_return_i64(c, manta_attempt(c));
}
MANTA_REGISTER(refuse_twice, ">l");

static void retry_on_error(void)
{
    manta_error e;
    CHECK_I64(manta_call("refuse_twice", &(manta_task_opts){.retry_on_error = true}, MANTA_NO_ARGS), 2);
    CHECK_FAILS(manta_call("refuse_twice", NULL, MANTA_NO_ARGS), MANTA_ETASK, &e);
    manta_task_opts once = {.retry_on_error = true, .max_retries = 1};
    CHECK_FAILS(manta_call("refuse_twice", &once, MANTA_NO_ARGS), MANTA_ETASK, &e);
    CHECK_EQ(e.attempt, 1);
}

/* ---- deaths ---- */
/* Dies in its first `deaths` attempts: of a signal, by exit where how is 0, or by a call through NULL. */
enum { CALLS_NULL = 1000 };
static int *volatile nowhere = (int *)64; /* no page is there */
static void (*volatile nobody)(void);
__attribute__((noinline)) static void calls_nothing(void)
{
    nobody();
    __asm__ volatile(""); /* no jump in place of the call */
}
__attribute__((noinline)) static void gives_up(void)
{
    abort(); /* the function ends with the call: where it would return to is another function's */
}
__attribute__((noinline)) static void die_here(int how)
{
    if (how == 0)
        _exit(3);
    if (how == SIGSEGV)
        *nowhere = 1;
    if (how == SIGABRT)
        gives_up();
    if (how == CALLS_NULL)
        calls_nothing();
    kill(getpid(), how);
    pause();
}
static manta_status fragile(manta_ctx *c, int argc, const manta_arg *argv)
{
    (void)argc;
    if (manta_attempt(c) < argv[1].l)
        die_here((int)argv[0].l);
    return manta_return_i64(c, manta_attempt(c));
}
MANTA_REGISTER(fragile, "ll>l");
static manta_ref *fragile_call(const manta_task_opts *opts, int how, int deaths)
{
    return manta_call("fragile", opts, MANTA_ARGS(manta_i64(how), manta_i64(deaths)));
}

static void retry_after_kill(void)
{
    manta_error e;
    CHECK_I64(fragile_call(NULL, SIGKILL, 1), 1);
    CHECK_I64(fragile_call(NULL, SIGSEGV, 3), 3);
    CHECK_FAILS(fragile_call(NULL, SIGKILL, 4), MANTA_EWORKER_DIED, &e);
    CHECK_EQ(e.attempt, 3);
    CHECK_FAILS(fragile_call(&(manta_task_opts){.max_retries = MANTA_NO_RETRY}, SIGKILL, 1), MANTA_EWORKER_DIED, &e);
    CHECK_EQ(e.attempt, 0);
    CHECK_EQ(e.signal_number, SIGKILL);
    CHECK_EQ(e.outcome, MANTA_UNKNOWN);
    CHECK_STR(e.function, "fragile");
    CHECK(e.pid > 1 && test_gone(e.pid));
    CHECK_SAYS(e.message, "SIGKILL");
}

static void crash_report(void)
{
    manta_task_opts once = {.max_retries = MANTA_NO_RETRY};
    manta_error     e;
    CHECK_FAILS(fragile_call(&once, SIGSEGV, 1), MANTA_EWORKER_DIED, &e);
    CHECK_EQ(e.signal_number, SIGSEGV);
    CHECK_STR(e.function, "fragile");
    CHECK_SAYS(e.message, "SIGSEGV");
    CHECK_SAYS(e.message, "fragile");
    CHECK(e.node[0] && e.task[0] && e.pid > 1);
    CHECK_SAYS(e.backtrace, "integration_tasks_tasks(die_here"); /* the innermost, and static */
#ifdef __x86_64__
    CHECK_FAILS(fragile_call(&once, CALLS_NULL, 1), MANTA_EWORKER_DIED, &e);
    CHECK_EQ(e.signal_number, SIGSEGV);
    CHECK_SAYS(e.backtrace, "calls_nothing");
#endif
    CHECK_FAILS(fragile_call(&once, SIGABRT, 1), MANTA_EWORKER_DIED, &e);
    CHECK_EQ(e.signal_number, SIGABRT);
    CHECK_SAYS(e.backtrace, "(gives_up");
    CHECK_FAILS(fragile_call(&once, 0, 1), MANTA_EWORKER_DIED, &e);
    CHECK_EQ(e.signal_number, 0);
    CHECK_SAYS(e.message, "3"); /* the exit status */
    CHECK_I64(add_remote(NULL, 1, 2), 3);
}

/* What ran before the worker was killed has its value, though the worker had not shown it yet: outcomes go back in
 * company. Without retries, so that nothing is made good by a second run. */
MANTA_TASK(int64_t, short_or_last, (int64_t, x))
{
    if (x == 0)
        raise(SIGKILL);
    return x;
}
static void finished_survive(void)
{
    enum { ROUNDS = 50, COUNT = 12 };
    manta_task_opts once = {.max_retries = MANTA_NO_RETRY};
    manta_error     e;
    for (int round = 0; round < ROUNDS; round++) {
        manta_ref *refs[COUNT], *last;
        for (int64_t i = 0; i < COUNT; i++)
            refs[i] = short_or_last_remote(&once, i + 1);
        last = short_or_last_remote(&once, 0);
        for (int64_t i = 0; i < COUNT; i++)
            CHECK_I64(refs[i], i + 1);
        CHECK_FAILS(last, MANTA_EWORKER_DIED, &e);
        CHECK_EQ(e.outcome, MANTA_UNKNOWN);
    }
}

/* Tasks that stood behind the one that was running have not begun: they run elsewhere and it costs no retry. */
static void unstarted_survive(void)
{
    enum { COUNT = 200 };
    manta_task_opts    once = {.max_retries = MANTA_NO_RETRY};
    manta_ref         *good[COUNT];
    manta_error        e;
    struct test_board *board;
    manta_ref         *bad = victim_call(&board);
    for (int i = 0; i < COUNT; i++)
        good[i] = fragile_call(&once, 0, 0);
    CHECK(test_board_wait(&board->words[0], 2));
    manta_progress();
    CHECK_EQ(kill((pid_t)board->words[0], SIGKILL), 0);
    CHECK_FAILS(bad, MANTA_EWORKER_DIED, &e);
    CHECK_EQ(e.pid, board->words[0]);
    for (int i = 0; i < COUNT; i++)
        CHECK_I64(good[i], 0);
}

/* ---- waiting ---- */
/* Waits on word `index` of the board for 1, then gives index. */
static manta_status hold(manta_ctx *c, int argc, const manta_arg *argv)
{
    (void)argc;
    struct test_board *board = test_board_map(argv[0].u);
    return test_board_wait(&board->words[argv[1].l], 1) ? manta_return_i64(c, argv[1].l) : manta_fail(c, 1, "nobody came");
}
MANTA_REGISTER(hold, "ul>l");

static void wait_for_some(void)
{
    enum { COUNT = 4 };
    uint64_t           number;
    struct test_board *board = test_board_new(&number);
    manta_ref         *refs[COUNT];
    unsigned char      ready[COUNT];
    manta_error        e;
    for (int i = 0; i < COUNT; i++)
        refs[i] = manta_call("hold", NULL, MANTA_ARGS(manta_u64(number), manta_i64(i)));
    CHECK_EQ(manta_wait(refs, COUNT, 1, 0, ready, &e), 0);
    CHECK_EQ(manta_wait(refs, COUNT, 1, 30, ready, &e), 0);
    CHECK_EQ(ready[0] + ready[1] + ready[2] + ready[3], 0);
    board->words[2] = 1;
    CHECK_EQ(manta_wait(refs, COUNT, 1, TEST_WAIT_MS, ready, &e), 1);
    CHECK(!ready[0] && !ready[1] && ready[2] && !ready[3]);
    board->words[0] = board->words[1] = board->words[3] = 1;
    CHECK_EQ(manta_wait(refs, COUNT, COUNT, TEST_WAIT_MS, ready, &e), COUNT);
    CHECK_EQ(ready[0] + ready[1] + ready[2] + ready[3], COUNT);
    for (int i = 0; i < COUNT; i++)
        CHECK_I64(refs[i], i);
}

static void wait_counts_failures(void)
{
    manta_error   e;
    unsigned char ready[2];
    manta_ref    *refs[2] = {manta_call("refuse", NULL, MANTA_ARGS(manta_i64(1))), manta_call("nosuch", NULL, MANTA_NO_ARGS)};
    CHECK_EQ(manta_wait(refs, 2, 2, TEST_WAIT_MS, ready, &e), 2);
    manta_free(refs[0]), manta_free(refs[1]);
}

static void get_timeout(void)
{
    uint64_t           number;
    struct test_board *board = test_board_new(&number);
    manta_error        e;
    int64_t            x;
    manta_ref         *r = manta_call("hold", NULL, MANTA_ARGS(manta_u64(number), manta_i64(1)));
    CHECK_CODE(manta_get_i64(r, 0, &x, &e), MANTA_ETIMEDOUT, &e);
    int64_t start = test_now_ms();
    CHECK_CODE(manta_get_i64(r, 50, &x, &e), MANTA_ETIMEDOUT, &e);
    CHECK(test_now_ms() - start >= 50);
    CHECK_SAYS(e.message, "50");
    board->words[1] = 1;
    CHECK_I64(r, 1);
}

static void progress(void)
{
    manta_error   e;
    unsigned char ready = 0;
    manta_ref    *r = add_later_remote(NULL, 4, 20);
    int64_t       limit = test_now_ms() + TEST_WAIT_MS;
    while (manta_wait(&r, 1, 1, 0, &ready, &e) == 0 && test_now_ms() < limit)
        manta_progress();
    CHECK(ready);
    CHECK_I64(r, 5);
}

/* ---- many ---- */
static void async_10k(void)
{
    enum { COUNT = 10000 };
    static manta_ref *refs[COUNT];
    for (int round = 0; round < 3; round++) {
        for (int i = 0; i < COUNT; i++)
            refs[i] = add_remote(NULL, i, round);
        for (int i = 0; i < COUNT; i++)
            CHECK_I64(refs[i], i + round);
    }
}

static void dropped_refs(void)
{
    for (int i = 0; i < 10000; i++)
        manta_free(add_remote(NULL, i, i));
    manta_free(NULL);
    manta_ref *r = add_remote(NULL, 2, 2), *same = manta_dup(r);
    manta_free(r);
    CHECK_I64(same, 4);
}

static void *thread_run(void *arg)
{
    int64_t    base = (int64_t)(intptr_t)arg * 1000000;
    manta_ref *refs[100];
    for (int round = 0; round < 20; round++) {
        for (int i = 0; i < 100; i++)
            refs[i] = add_remote(NULL, base, i);
        for (int i = 0; i < 100; i++)
            CHECK_I64(refs[i], base + i);
    }
    return NULL;
}
static void threads(void)
{
    pthread_t all[4];
    for (intptr_t i = 0; i < 4; i++)
        CHECK_EQ(pthread_create(&all[i], NULL, thread_run, (void *)i), 0);
    for (int i = 0; i < 4; i++)
        CHECK_EQ(pthread_join(all[i], NULL), 0);
}

static void resources(void)
{
    manta_task_opts half = {.num_cpus = 0.5}, none = {.no_cpu = true}, two = {.num_cpus = 2};
    CHECK_I64(manta_call("add", &half, MANTA_ARGS(manta_i64(1), manta_i64(1))), 2);
    CHECK_I64(manta_call("add", &none, MANTA_ARGS(manta_i64(1), manta_i64(2))), 3);
    CHECK_I64(manta_call("add", &two, MANTA_ARGS(manta_i64(1), manta_i64(3))), 4);
    CHECK_I64(manta_call("add", &half, MANTA_ARGS(manta_i64(1), manta_i64(4))), 5);
}

/* ---- who runs when ---- */
/* Counts itself in word 0, then waits until `count` have. */
static manta_status meet(manta_ctx *c, int argc, const manta_arg *argv)
{
    (void)argc;
    struct test_board *board = test_board_map(argv[0].u);
    atomic_fetch_add(&board->words[0], 1);
    return test_board_wait(&board->words[0], argv[1].l) ? manta_return_i64(c, getpid()) : manta_fail(c, 1, "alone");
}
MANTA_REGISTER(meet, "ul>l");

static void in_parallel(void)
{
    uint64_t   number;
    manta_ref *refs[4];
    int64_t    pids[4];
    test_board_new(&number);
    for (int i = 0; i < 4; i++)
        refs[i] = manta_call("meet", NULL, MANTA_ARGS(manta_u64(number), manta_i64(4)));
    for (int i = 0; i < 4; i++)
        pids[i] = test_i64(refs[i], __FILE__, __LINE__);
    for (int i = 0; i < 4; i++) {
        for (int k = 0; k < i; k++)
            CHECK(pids[i] != pids[k]);
    }
}

/* No more than there are CPUs run at a time: with 2 CPUs a third does not start. */
static void not_too_many(void)
{
    uint64_t           number;
    struct test_board *board = test_board_new(&number);
    manta_ref         *refs[3];
    for (int i = 0; i < 3; i++)
        refs[i] = manta_call("meet", NULL, MANTA_ARGS(manta_u64(number), manta_i64(100)));
    CHECK(test_board_wait(&board->words[0], 2));
    test_sleep_ms(200);
    CHECK_EQ(board->words[0], 2);
    board->words[0] = 100;
    for (int i = 0; i < 3; i++)
        test_i64(refs[i], __FILE__, __LINE__);
}

/* A short task does not wait behind a long one while another CPU is free. */
static void short_beside_long(void)
{
    uint64_t           number;
    struct test_board *board = test_board_new(&number);
    manta_ref         *slow = manta_call("hold", NULL, MANTA_ARGS(manta_u64(number), manta_i64(0)));
    for (int i = 0; i < 100; i++)
        CHECK_I64(add_remote(NULL, i, 1), i + 1);
    /* the same function, so the same lease could carry them */
    manta_ref *held[2];
    board->words[1] = 1;
    for (int i = 0; i < 2; i++)
        held[i] = manta_call("hold", NULL, MANTA_ARGS(manta_u64(number), manta_i64(1)));
    for (int i = 0; i < 2; i++)
        CHECK_I64(held[i], 1);
    board->words[0] = 1;
    CHECK_I64(slow, 0);
}

/* Nor does one of another class: of two leases the busy one is the younger, so it is the one that is asked back first. */
static void other_class_beside_long(void)
{
    uint64_t           number;
    struct test_board *board = test_board_new(&number);
    manta_task_opts    other = {.memory = 1 << 20};
    for (int i = 0; i < 5; i++) {
        manta_ref *first = manta_call("hold", NULL, MANTA_ARGS(manta_u64(number), manta_i64(1)));
        manta_ref *slow = manta_call("hold", NULL, MANTA_ARGS(manta_u64(number), manta_i64(0)));
        test_sleep_ms(20);
        board->words[1] = 1;
        CHECK_I64(first, 1);
        test_sleep_ms(20);
        CHECK_I64(add_remote(&other, i, 1), i + 1);
        board->words[0] = 1;
        CHECK_I64(slow, 0);
        board->words[0] = board->words[1] = 0;
    }
}

/* What a task can say of itself. */
static manta_status myself(manta_ctx *c, int argc, const manta_arg *argv)
{
    manta_runtime me;
    char          text[200];
    (void)argc, (void)argv;
    manta_runtime_of(c, &me);
    snprintf(text, sizeof text, "%s/%s/%u/%d/%d/%g/%zu", me.function, me.actor, me.node, me.pid == getpid(), me.attempt,
             me.num_cpus, strlen(me.task));
    return manta_return_str(c, text);
}
MANTA_REGISTER(myself, ">s");

static void runtime_context(void)
{
    manta_task_opts opts = {.num_cpus = 2};
    manta_ref      *r = manta_call("myself", &opts, MANTA_NO_ARGS);
    manta_view      view;
    manta_error     e;
    CHECK_CODE(manta_get(r, TEST_WAIT_MS, &view, &e), MANTA_OK, &e);
    CHECK(strncmp(view.data, "myself//1/1/0/2/", 16) == 0 && ((const char *)view.data)[16] != '0');
    manta_release(&view);
    manta_free(r);
}

/* The name that ps and top show for the process. */
static manta_status comm(manta_ctx *c, int argc, const manta_arg *argv)
{
    char  text[32] = "";
    FILE *file = fopen("/proc/self/comm", "r");
    (void)argc, (void)argv;
    if (!file || !fgets(text, sizeof text, file))
        return manta_fail(c, 1, "/proc/self/comm");
    fclose(file);
    text[strcspn(text, "\n")] = 0;
    return manta_return_str(c, text);
}
static manta_status comm_of_another_one(manta_ctx *c, int argc, const manta_arg *argv)
{
    return comm(c, argc, argv);
}
MANTA_REGISTER(comm, ">s");
MANTA_REGISTER(comm_of_another_one, ">s");
static manta_status named_new(manta_ctx *c, void **self, int argc, const manta_arg *argv)
{
    (void)c, (void)argc, (void)argv;
    *self = NULL;
    return MANTA_OK;
}
static manta_status named_comm(manta_ctx *c, void *self, int argc, const manta_arg *argv)
{
    (void)self;
    return comm(c, argc, argv);
}
MANTA_ACTOR(named, "", named_new, NULL, {"comm", ">s", named_comm});

static void shows(manta_ref *take, const char *wanted)
{
    manta_view  view;
    manta_error e;
    CHECK_CODE(manta_get(take, TEST_WAIT_MS, &view, &e), MANTA_OK, &e);
    CHECK_STR((const char *)view.data, wanted);
    manta_release(&view);
    manta_free(take);
}
static void process_names(void)
{
    manta_actor *a = manta_actor_new("named", NULL, MANTA_NO_ARGS);
    shows(manta_call("comm", NULL, MANTA_NO_ARGS), "w:comm");
    test_sleep_ms(20);
    shows(manta_call("comm_of_another_one", NULL, MANTA_NO_ARGS), "w:comm_of_anoth");
    for (int i = 0; i < 2; i++)
        shows(manta_actor_call(a, "comm", MANTA_NO_ARGS), "w:named");
    manta_actor_free(a);
}

/* Unfinished work is dropped at shutdown. */
static void shutdown_with_work(void)
{
    uint64_t number;
    test_board_new(&number);
    for (int i = 0; i < 100; i++)
        manta_free(manta_call("hold", NULL, MANTA_ARGS(manta_u64(number), manta_i64(1))));
    CHECK_I64(add_remote(&(manta_task_opts){.no_cpu = true}, 1, 1), 2);
}

static const struct test_case cases[] = {
    {"typed", typed, {.num_cpus = 2}, false, 0},
    {"raw", raw, {.num_cpus = 2}, false, 0},
    {"inline_sizes", inline_sizes, {.num_cpus = 2}, false, 0},
    {"refs_by_value", refs_by_value, {.num_cpus = 2}, false, 0},
    {"chain", chain, {.num_cpus = 2}, false, 0},
    {"refs_kept", refs_kept, {.num_cpus = 2}, false, 0},
    {"nested", nested, {.num_cpus = 2}, false, 0},
    {"nested_deep_one_cpu", nested_deep_one_cpu, {.num_cpus = 1}, false, 0},
    {"user_error", user_error, {.num_cpus = 2}, false, 0},
    {"error_of_argument", error_of_argument, {.num_cpus = 2}, false, 0},
    {"retry_on_error", retry_on_error, {.num_cpus = 2}, false, 0},
    {"retry_after_kill", retry_after_kill, {.num_cpus = 2}, false, 0},
    {"crash_report", crash_report, {.num_cpus = 2}, false, 0},
    {"finished_survive", finished_survive, {.num_cpus = 1}, false, 0},
    {"unstarted_survive", unstarted_survive, {.num_cpus = 1}, false, 0},
    {"wait_for_some", wait_for_some, {.num_cpus = 4}, false, 0},
    {"wait_counts_failures", wait_counts_failures, {.num_cpus = 2}, false, 0},
    {"get_timeout", get_timeout, {.num_cpus = 2}, false, 0},
    {"progress", progress, {.num_cpus = 2}, false, 0},
    {"async_10k", async_10k, {.num_cpus = 2}, false, 0},
    {"dropped_refs", dropped_refs, {.num_cpus = 2}, false, 0},
    {"threads", threads, {.num_cpus = 2}, false, 0},
    {"resources", resources, {.num_cpus = 2}, false, 0},
    {"in_parallel", in_parallel, {.num_cpus = 4}, false, 0},
    {"not_too_many", not_too_many, {.num_cpus = 2}, false, 0},
    {"short_beside_long", short_beside_long, {.num_cpus = 2}, false, 0},
    {"other_class_beside_long", other_class_beside_long, {.num_cpus = 2}, false, 0},
    {"runtime_context", runtime_context, {.num_cpus = 2}, false, 0},
    {"process_names", process_names, {.num_cpus = 1}, false, 0},
    {"shutdown_with_work", shutdown_with_work, {.num_cpus = 2}, false, 0},
    {NULL, NULL, {0}, false, 0},
};

int main(int argc, char **argv)
{
    return test_main(argc, argv, cases);
}
