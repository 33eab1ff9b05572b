/* SPDX-License-Identifier: Apache-2.0
 *
 * actors_test.c - actors as a user writes them: order, errors, deaths, restarts, names, watches.
 *
 * Thread: the driver's main one; on_death runs on libmanta's helper.
 */
#include "tests/integration/harness.h"

#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

/* ---- the actor: a counter that can be made to die ---- */
struct counter {
    int64_t            value;
    int                incarnation;
    struct test_board *board; /* NULL: none */
};

/* start; board, 0 for none */
static manta_status counter_new(manta_ctx *c, void **self, int argc, const manta_arg *argv)
{
    struct counter *counter = calloc(1, sizeof *counter);
    (void)argc;
    if (argv[0].l < 0)
        return free(counter), manta_fail(c, 77, "a counter can't begin below zero");
    counter->value = argv[0].l;
    counter->incarnation = manta_attempt(c);
    counter->board = argv[1].u ? test_board_map(argv[1].u) : NULL;
    *self = counter;
    return MANTA_OK;
}
static void counter_free(void *self)
{
    struct counter *counter = self;
    if (counter->board)
        atomic_store(&counter->board->words[9], 1);
    free(counter);
}
static manta_status counter_add(manta_ctx *c, void *self, int argc, const manta_arg *argv)
{
    (void)argc;
    return manta_return_i64(c, ((struct counter *)self)->value += argv[0].l);
}
static manta_status counter_pid(manta_ctx *c, void *self, int argc, const manta_arg *argv)
{
    (void)self, (void)argc, (void)argv;
    return manta_return_i64(c, getpid());
}
static manta_status counter_refuse(manta_ctx *c, void *self, int argc, const manta_arg *argv)
{
    (void)self, (void)argc;
    return manta_fail(c, (int)argv[0].l, "the counter refuses");
}
static int *volatile nowhere = (int *)64; /* no page is there */
/* Dies of the signal; 0: exits with status 5. From incarnation `until` on it lives. */
static manta_status counter_die(manta_ctx *c, void *self, int argc, const manta_arg *argv)
{
    int64_t incarnation = ((struct counter *)self)->incarnation;
    (void)argc;
    if (incarnation >= argv[1].l)
        return manta_return_i64(c, incarnation);
    if (argv[0].l == SIGSEGV)
        *nowhere = 1;
    if (argv[0].l == 0)
        _exit(5);
    kill(getpid(), (int)argv[0].l);
    pause();
    return MANTA_OK;
}
static manta_status counter_incarnation(manta_ctx *c, void *self, int argc, const manta_arg *argv)
{
    (void)argc, (void)argv;
    return manta_return_i64(c, ((struct counter *)self)->incarnation);
}
/* Says in word 1 that it has begun, then waits for word 2. */
static manta_status counter_hold(manta_ctx *c, void *self, int argc, const manta_arg *argv)
{
    struct counter *counter = self;
    (void)argc, (void)argv;
    atomic_store(&counter->board->words[1], 1);
    return test_board_wait(&counter->board->words[2], 1) ? manta_return_i64(c, counter->value) : manta_fail(c, 1, "nobody came");
}
/* Fails until it has been called so often in this incarnation. */
static manta_status counter_reluctant(manta_ctx *c, void *self, int argc, const manta_arg *argv)
{
    static int64_t calls; /* of this process */
    (void)self, (void)argc;
    return ++calls < argv[0].l ? manta_fail(c, 9, "call %lld", (long long)calls) : manta_return_i64(c, calls);
}
static manta_status counter_length(manta_ctx *c, void *self, int argc, const manta_arg *argv)
{
    (void)self, (void)argc;
    return manta_return_i64(c, (int64_t)argv[0].y.size);
}
MANTA_ACTOR(counter, "lu", counter_new, counter_free, {"add", "l>l", counter_add}, {"pid", ">l", counter_pid},
            {"refuse", "l>l", counter_refuse}, {"die", "ll>l", counter_die}, {"incarnation", ">l", counter_incarnation},
            {"hold", ">l", counter_hold}, {"length", "y>l", counter_length}, {"reluctant", "l>l", counter_reluctant});

static manta_actor *counter_start(int64_t start, uint64_t board, const manta_actor_opts *opts)
{
    return manta_actor_new("counter", opts, MANTA_ARGS(manta_i64(start), manta_u64(board)));
}
static manta_ref *add(manta_actor *a, int64_t x)
{
    return manta_actor_call(a, "add", MANTA_ARGS(manta_i64(x)));
}
static manta_ref *die(manta_actor *a, int how, int until)
{
    return manta_actor_call(a, "die", MANTA_ARGS(manta_i64(how), manta_i64(until)));
}
static int pid_of(manta_actor *a)
{
    return (int)test_i64(manta_actor_call(a, "pid", MANTA_NO_ARGS), __FILE__, __LINE__);
}

/* ---- calls ---- */
static void state_and_order(void)
{
    enum { COUNT = 5000 };
    static manta_ref *refs[COUNT];
    manta_actor      *a = counter_start(100, 0, NULL), *b = counter_start(0, 0, NULL);
    for (int i = 0; i < COUNT; i++)
        refs[i] = add(a, 1);
    CHECK_I64(add(b, 7), 7);
    for (int i = 0; i < COUNT; i++)
        CHECK_I64(refs[i], 101 + i);
    CHECK(pid_of(a) != pid_of(b));
    CHECK(pid_of(a) != getpid());
    manta_actor_free(a);
    manta_actor_free(b);
}

static void argument_refs(void)
{
    manta_actor *a = counter_start(0, 0, NULL), *b = counter_start(1000, 0, NULL);
    manta_ref   *x = add(a, 5), *y, *put = manta_put("0123456789", 10);
    y = manta_actor_call(b, "add", MANTA_ARGS(manta_ref_arg(x))); /* the value of another actor's result */
    CHECK_I64(y, 1005);
    CHECK_I64(manta_actor_call(a, "length", MANTA_ARGS(manta_ref_arg(put))), 10);
    manta_free(x), manta_free(put);
    manta_actor_free(a), manta_actor_free(b);
}

/* An answer does not wait until the long call behind it is done. */
static void quick_before_long(void)
{
    uint64_t           number;
    struct test_board *board = test_board_new(&number);
    manta_actor       *a = counter_start(5, number, NULL);
    manta_ref         *quick = add(a, 1), *held = manta_actor_call(a, "hold", MANTA_NO_ARGS);
    CHECK_I64(quick, 6);
    CHECK_EQ(atomic_load(&board->words[2]), 0);
    atomic_store(&board->words[2], 1);
    CHECK_I64(held, 6);
    manta_actor_free(a);
}

static void many(void)
{
    enum { COUNT = 20 };
    manta_actor *a[COUNT];
    manta_ref   *refs[COUNT];
    for (int i = 0; i < COUNT; i++)
        a[i] = counter_start(i, 0, NULL);
    for (int i = 0; i < COUNT; i++)
        refs[i] = add(a[i], 1000);
    for (int i = 0; i < COUNT; i++)
        CHECK_I64(refs[i], 1000 + i);
    for (int i = 0; i < COUNT; i++)
        manta_actor_free(a[i]);
}

/* ---- errors ---- */
static void method_error(void)
{
    manta_error  e;
    manta_actor *a = counter_start(0, 0, NULL);
    CHECK_FAILS(manta_actor_call(a, "refuse", MANTA_ARGS(manta_i64(12))), MANTA_ETASK, &e);
    CHECK_EQ(e.user_code, 12);
    CHECK_SAYS(e.message, "the counter refuses");
    CHECK_SAYS(e.function, "refuse");
    CHECK_I64(add(a, 1), 1);
    manta_actor_free(a);
}

static void create_error(void)
{
    manta_error  e;
    manta_actor *a = counter_start(-1, 0, NULL);
    CHECK_FAILS(add(a, 1), MANTA_ETASK, &e); /* its creator's own error */
    CHECK_EQ(e.user_code, 77);
    CHECK_SAYS(e.message, "can't begin below zero");
    CHECK_FAILS(add(a, 1), MANTA_ETASK, &e);
    manta_actor_free(a);
}

static void wrong_calls(void)
{
    manta_error  e;
    manta_actor *a = counter_start(0, 0, NULL), *none;
    CHECK_FAILS(manta_actor_call(a, "ad", MANTA_ARGS(manta_i64(1))), MANTA_ENOFUNC, &e);
    CHECK_SAYS(e.message, "add"); /* the near name */
    CHECK_FAILS(manta_actor_call(a, "add", MANTA_NO_ARGS), MANTA_ETYPE, &e);
    CHECK_FAILS(manta_actor_call(a, "add", MANTA_ARGS(manta_f64(1))), MANTA_ETYPE, &e);
    CHECK_FAILS(manta_actor_call(NULL, "add", MANTA_ARGS(manta_i64(1))), MANTA_EINVAL, &e);
    CHECK_FAILS(manta_actor_call(a, NULL, MANTA_NO_ARGS), MANTA_EINVAL, &e);
    CHECK_I64(add(a, 1), 1);
    none = manta_actor_new("conter", NULL, MANTA_NO_ARGS);
    CHECK(none);
    CHECK_FAILS(add(none, 1), MANTA_ENOFUNC, &e);
    CHECK_SAYS(e.message, "counter");
    manta_actor_free(none);
    none = manta_actor_new("counter", NULL, MANTA_ARGS(manta_i64(1)));
    CHECK_FAILS(add(none, 1), MANTA_ETYPE, &e);
    manta_actor_free(none);
    none = manta_actor_new(NULL, NULL, MANTA_NO_ARGS);
    CHECK_FAILS(add(none, 1), MANTA_ENOFUNC, &e);
    manta_actor_free(none);
    manta_actor_free(a);
    manta_actor_free(NULL);
}

/* ---- deaths ---- */
static void crash(void)
{
    manta_error  e;
    manta_actor *a = counter_start(0, 0, NULL);
    int          pid = pid_of(a);
    manta_ref   *after;
    CHECK_FAILS(die(a, SIGSEGV, 100), MANTA_EACTOR_DIED, &e);
    CHECK_EQ(e.signal_number, SIGSEGV);
    CHECK_EQ(e.pid, pid);
    CHECK_EQ(e.outcome, MANTA_UNKNOWN);
    CHECK_SAYS(e.message, "SIGSEGV");
    CHECK_SAYS(e.function, "die");
    CHECK_SAYS(e.backtrace, "(counter_die");
    CHECK(e.node[0]);
    after = add(a, 1);
    CHECK_FAILS(after, MANTA_EACTOR_DIED, &e);
    CHECK_EQ(e.outcome, MANTA_NOT_DONE);
    manta_actor_free(a);
    a = counter_start(0, 0, NULL);
    CHECK_FAILS(die(a, 0, 100), MANTA_EACTOR_DIED, &e);
    CHECK_SAYS(e.message, "5"); /* the exit status */
    manta_actor_free(a);
}

static void kill_for_good(void)
{
    uint64_t           number;
    struct test_board *board = test_board_new(&number);
    manta_error        e;
    manta_actor       *a = counter_start(0, number, &(manta_actor_opts){.max_restarts = 3});
    int                pid = pid_of(a);
    manta_ref         *held = manta_actor_call(a, "hold", MANTA_NO_ARGS), *behind = add(a, 1);
    CHECK(test_board_wait(&board->words[1], 1));
    manta_actor_kill(a, false);
    CHECK_FAILS(held, MANTA_EACTOR_DIED, &e);
    CHECK_FAILS(behind, MANTA_EACTOR_DIED, &e);
    CHECK(test_gone(pid));
    CHECK_FAILS(add(a, 1), MANTA_EACTOR_DIED, &e);
    manta_actor_kill(a, false); /* twice is nothing */
    manta_actor_free(a);
}

static void restart(void)
{
    manta_error  e;
    manta_actor *a = counter_start(50, 0, &(manta_actor_opts){.max_restarts = 2});
    CHECK_I64(add(a, 1), 51);
    int first = pid_of(a);
    manta_actor_kill(a, true);
    CHECK(test_gone(first));
    CHECK_I64(add(a, 1), 51); /* a new life begins where create begins */
    CHECK_I64(manta_actor_call(a, "incarnation", MANTA_NO_ARGS), 1);
    CHECK(pid_of(a) != first);
    CHECK_FAILS(die(a, SIGKILL, 100), MANTA_EACTOR_DIED, &e);
    CHECK_I64(manta_actor_call(a, "incarnation", MANTA_NO_ARGS), 2);
    CHECK_FAILS(die(a, SIGKILL, 100), MANTA_EACTOR_DIED, &e);
    CHECK_FAILS(add(a, 1), MANTA_EACTOR_DIED, &e); /* its two restarts are used up */
    manta_actor_free(a);
}

static void restart_without_limit(void)
{
    manta_error  e;
    manta_actor *a = counter_start(0, 0, &(manta_actor_opts){.max_restarts = -1});
    for (int i = 0; i < 6; i++)
        CHECK_FAILS(die(a, SIGKILL, 100), MANTA_EACTOR_DIED, &e);
    CHECK_I64(manta_actor_call(a, "incarnation", MANTA_NO_ARGS), 6);
    manta_actor_free(a);
}

/* Calls in flight go to the next incarnation, in their order. */
static void call_retries(void)
{
    enum { COUNT = 50 };
    manta_actor *a = counter_start(0, 0, &(manta_actor_opts){.max_restarts = 2, .max_task_retries = 2});
    manta_ref   *refs[COUNT], *dying = die(a, SIGKILL, 1);
    for (int i = 0; i < COUNT; i++)
        refs[i] = add(a, 1);
    CHECK_I64(dying, 1);
    for (int i = 0; i < COUNT; i++)
        CHECK_I64(refs[i], i + 1);
    manta_actor_free(a);
}

static void call_retries_without_limit(void)
{
    manta_actor_opts opts = {.max_restarts = MANTA_WITHOUT_LIMIT, .max_task_retries = MANTA_WITHOUT_LIMIT};
    manta_actor     *a = counter_start(0, 0, &opts);
    CHECK_I64(die(a, SIGKILL, 12), 12);
    manta_actor_free(a);
}

/* Of one call: when the actor dies, and when the method itself reports an error. */
static void retries_of_a_call(void)
{
    manta_actor_call_opts twice = {.max_retries = 2}, never = {.max_retries = MANTA_NO_RETRY}, bad = {.max_retries = -3};
    manta_actor_call_opts stubborn = {.max_retries = MANTA_WITHOUT_LIMIT, .retry_on_error = true};
    manta_error           e;
    manta_actor          *a = counter_start(0, 0, &(manta_actor_opts){.max_restarts = -1, .max_task_retries = 1});
    CHECK_FAILS(die(a, SIGKILL, 3), MANTA_EACTOR_DIED, &e);
    CHECK_I64(manta_actor_call_with(a, "die", &twice, MANTA_ARGS(manta_i64(SIGKILL), manta_i64(4))), 4);
    CHECK_FAILS(manta_actor_call_with(a, "die", &never, MANTA_ARGS(manta_i64(SIGKILL), manta_i64(5))), MANTA_EACTOR_DIED, &e);
    CHECK_I64(manta_actor_call(a, "reluctant", MANTA_ARGS(manta_i64(1))), 1); /* the first time of this incarnation */
    CHECK_FAILS(manta_actor_call(a, "reluctant", MANTA_ARGS(manta_i64(50))), MANTA_ETASK, &e);
    CHECK_I64(manta_actor_call_with(a, "reluctant", &stubborn, MANTA_ARGS(manta_i64(50))), 50);
    CHECK_FAILS(manta_actor_call_with(a, "reluctant", &bad, MANTA_ARGS(manta_i64(1))), MANTA_EINVAL, &e);
    CHECK_SAYS(e.message, "max_retries -3");
    manta_actor_free(a);
}

static void bad_retries(void)
{
    static const manta_actor_opts bad[] = {{.max_restarts = -3}, {.max_task_retries = -3}, {.max_task_retries = 0xffffff}};
    manta_error                   e;
    for (size_t i = 0; i < sizeof bad / sizeof bad[0]; i++) {
        manta_actor *a = counter_start(0, 0, &bad[i]);
        CHECK_FAILS(add(a, 1), MANTA_EINVAL, &e);
        CHECK_SAYS(e.message, bad[i].max_restarts ? "max_restarts -3" : "max_task_retries");
        manta_actor_free(a);
    }
}

static void freed(void)
{
    uint64_t           number;
    struct test_board *board = test_board_new(&number);
    manta_actor       *a = counter_start(0, number, NULL);
    int                pid = pid_of(a);
    manta_ref         *last = add(a, 3);
    manta_actor_free(a);
    CHECK_I64(last, 3); /* what was called before is still done */
    CHECK(test_gone(pid));
    CHECK_EQ(board->words[9], 1); /* its destroy ran */
    a = counter_start(0, 0, NULL);
    manta_actor *same = manta_actor_dup(a);
    manta_actor_free(a);
    CHECK_I64(add(same, 4), 4);
    manta_actor_free(same);
}

/* ---- watches ---- */
struct news {
    _Atomic int count;
    manta_death last;
};
static void on_death(void *user, const manta_death *death)
{
    struct news *news = user;
    news->last = *death;
    atomic_fetch_add(&news->count, 1);
}
static bool news_wait(struct news *news, int count)
{
    int64_t limit = test_now_ms() + TEST_WAIT_MS;
    while (atomic_load(&news->count) < count && test_now_ms() < limit)
        test_sleep_ms(1);
    return atomic_load(&news->count) >= count;
}

static void watch(void)
{
    static struct news news, late, never;
    manta_error        e;
    uint64_t           first, second, third;
    manta_actor       *a = counter_start(0, 0, &(manta_actor_opts){.max_restarts = 1});
    int                pid = pid_of(a);
    CHECK_CODE(manta_actor_watch(a, on_death, &news, &first, &e), MANTA_OK, &e);
    CHECK_CODE(manta_actor_watch(a, on_death, &never, &second, &e), MANTA_OK, &e);
    manta_unwatch(second);
    CHECK_EQ(kill(pid, SIGKILL), 0);
    CHECK(news_wait(&news, 1));
    CHECK_EQ(news.last.code, MANTA_EACTOR_DIED);
    CHECK_EQ(news.last.pid, pid);
    CHECK_EQ(news.last.signal_number, SIGKILL);
    CHECK_EQ(news.last.node, manta_node());
    CHECK_EQ(news.last.incarnation, 0);
    CHECK(news.last.restarting);
    CHECK_SAYS(news.last.message, "SIGKILL");
    int again = pid_of(a);
    CHECK(again != pid);
    CHECK_EQ(kill(again, SIGTERM), 0);
    CHECK(news_wait(&news, 2)); /* the second life is watched as well */
    CHECK_EQ(news.last.pid, again);
    CHECK_EQ(news.last.signal_number, SIGTERM);
    CHECK_EQ(news.last.incarnation, 1);
    CHECK(!news.last.restarting);
    CHECK_CODE(manta_actor_watch(a, on_death, &late, &third, &e), MANTA_OK, &e);
    CHECK(news_wait(&late, 1)); /* dead already: told at once, and the same */
    CHECK_EQ(late.last.code, MANTA_EACTOR_DIED);
    CHECK_EQ(late.last.pid, again);
    CHECK_EQ(late.last.node, manta_node());
    CHECK_EQ(late.last.signal_number, SIGTERM);
    CHECK_EQ(late.last.incarnation, 1);
    CHECK_SAYS(late.last.message, "SIGTERM");
    CHECK_EQ(never.count, 0);
    manta_unwatch(first), manta_unwatch(third);
    manta_actor_free(a);
}

/* The news comes while the driver's only thread waits for something else. */
static void on_death_let_go(void *user, const manta_death *death)
{
    (void)death;
    atomic_store(&((struct test_board *)user)->words[2], 1);
}
static void watch_while_waiting(void)
{
    uint64_t           number, watch_number;
    struct test_board *board = test_board_new(&number);
    manta_error        e;
    manta_actor       *a = counter_start(0, 0, NULL), *b = counter_start(3, number, NULL);
    CHECK_CODE(manta_actor_watch(a, on_death_let_go, board, &watch_number, &e), MANTA_OK, &e);
    manta_ref *dying = die(a, SIGKILL, 1);
    CHECK_I64(manta_actor_call(b, "hold", MANTA_NO_ARGS), 3);
    CHECK_FAILS(dying, MANTA_EACTOR_DIED, &e);
    manta_unwatch(watch_number);
    manta_actor_free(a), manta_actor_free(b);
}

/* Any process may watch: this one waits in a task until the actor that it was given is dead. */
static manta_status watcher(manta_ctx *c, int argc, const manta_arg *argv)
{
    static struct news news;
    struct test_board *board = test_board_map(argv[1].u);
    manta_error        e;
    uint64_t           number;
    (void)argc;
    if (manta_actor_watch(argv[0].A, on_death, &news, &number, &e) != MANTA_OK)
        return manta_fail(c, e.code, "%s", e.message);
    atomic_store(&board->words[0], 1);
    if (!news_wait(&news, 1))
        return manta_fail(c, 1, "no news");
    return news.last.pid ? manta_return_i64(c, news.last.pid)
                         : manta_fail(c, 2, "incomplete news: code %d, signal %d, restarting %d: %s", news.last.code,
                                      news.last.signal_number, news.last.restarting, news.last.message);
}
MANTA_REGISTER(watcher, "Au>l");

static void watch_elsewhere(void)
{
    uint64_t           number;
    struct test_board *board = test_board_new(&number);
    manta_actor       *a = counter_start(0, 0, NULL);
    int                pid = pid_of(a);
    manta_ref         *told = manta_call("watcher", NULL, MANTA_ARGS(manta_actor_arg(a), manta_u64(number)));
    CHECK(test_board_wait(&board->words[0], 1));
    CHECK_EQ(kill(pid, SIGKILL), 0);
    CHECK_I64(told, pid);
    manta_actor_free(a);
}

/* ---- handles ---- */
/* Adds 1 `count` times and checks that its own calls come back in order. */
static manta_status caller(manta_ctx *c, int argc, const manta_arg *argv)
{
    enum { MOST = 1000 };
    static manta_ref *refs[MOST];
    int64_t           before = 0, good = 0, count = argv[1].l;
    (void)argc;
    for (int64_t i = 0; i < count; i++)
        refs[i] = add(argv[0].A, 1);
    for (int64_t i = 0; i < count; i++) {
        manta_error e;
        int64_t     x;
        if (manta_get_i64(refs[i], TEST_WAIT_MS, &x, &e) != MANTA_OK)
            return manta_fail(c, e.code, "call %lld: %s", (long long)i, e.message);
        good += x > before;
        before = x;
        manta_free(refs[i]);
    }
    return manta_return_i64(c, good);
}
MANTA_REGISTER(caller, "Al>l");

static void concurrent_callers(void)
{
    enum { CALLERS = 4, CALLS = 1000 };
    manta_actor *a = counter_start(0, 0, NULL);
    manta_ref   *refs[CALLERS];
    for (int i = 0; i < CALLERS; i++)
        refs[i] = manta_call("caller", NULL, MANTA_ARGS(manta_actor_arg(a), manta_i64(CALLS)));
    for (int i = 0; i < 100; i++)
        test_i64(add(a, 1), __FILE__, __LINE__);
    for (int i = 0; i < CALLERS; i++)
        CHECK_I64(refs[i], CALLS);
    CHECK_I64(add(a, 0), CALLERS * CALLS + 100);
    manta_actor_free(a);
}

static void calls_to_the_dead(void)
{
    manta_error  e;
    manta_actor *a = counter_start(0, 0, NULL);
    CHECK_FAILS(die(a, SIGKILL, 100), MANTA_EACTOR_DIED, &e);
    CHECK_FAILS(manta_call("caller", NULL, MANTA_ARGS(manta_actor_arg(a), manta_i64(5))), MANTA_ETASK, &e);
    CHECK_EQ(e.user_code, MANTA_EACTOR_DIED);
    manta_actor_free(a);
}

static void named(void)
{
    manta_error  e;
    manta_actor *a = counter_start(5, 0, &(manta_actor_opts){.name = "bank"}), *found, *second;
    CHECK_I64(add(a, 1), 6);
    found = manta_actor_find("bank", TEST_WAIT_MS, &e);
    CHECK(found);
    CHECK_I64(add(found, 1), 7);
    CHECK(pid_of(found) == pid_of(a));
    manta_actor_free(found);
    CHECK(!manta_actor_find("bink", TEST_WAIT_MS, &e));
    CHECK_EQ(e.code, MANTA_ENOENT);
    CHECK_SAYS(e.message, "bink");
    second = counter_start(0, 0, &(manta_actor_opts){.name = "bank"});
    CHECK_FAILS(add(second, 1), MANTA_EEXIST, &e);
    manta_actor_free(second);
    CHECK_I64(add(a, 1), 8);
    manta_actor_free(a);
}

MANTA_TASK(int64_t, use_bank, (int64_t, x))
{
    manta_error  e;
    manta_actor *a = manta_actor_find("bank", TEST_WAIT_MS, &e);
    int64_t      result = -e.code;
    if (a) {
        manta_ref *r = add(a, x);
        if (manta_get_i64(r, TEST_WAIT_MS, &result, &e) != MANTA_OK)
            result = -e.code;
        manta_free(r);
    }
    manta_actor_free(a);
    return result;
}
static void named_elsewhere(void)
{
    manta_actor *a = counter_start(5, 0, &(manta_actor_opts){.name = "bank"});
    CHECK_I64(add(a, 1), 6);
    CHECK_I64(use_bank_remote(NULL, 10), 16);
    manta_actor_free(a);
}

/* The name is free again once its actor is dead. */
static void name_again(void)
{
    manta_actor *a = counter_start(5, 0, &(manta_actor_opts){.name = "bank"}), *b;
    int          pid = pid_of(a);
    manta_actor_free(a);
    CHECK(test_gone(pid));
    int64_t limit = test_now_ms() + TEST_WAIT_MS, x = 0;
    for (manta_status code = MANTA_EEXIST; code == MANTA_EEXIST && test_now_ms() < limit;) {
        manta_error e;
        b = counter_start(9, 0, &(manta_actor_opts){.name = "bank"});
        manta_ref *r = add(b, 1);
        code = manta_get_i64(r, TEST_WAIT_MS, &x, &e);
        manta_free(r);
        manta_actor_free(b);
    }
    CHECK_EQ(x, 10);
}

/* An actor that a task makes belongs to the task's process. */
MANTA_TASK(int64_t, maker, (int64_t, x))
{
    manta_actor *a = counter_start(x, 0, NULL);
    int64_t      y = test_i64(add(a, 1), __FILE__, __LINE__);
    manta_actor_free(a);
    return y;
}
static void made_in_a_task(void)
{
    CHECK_I64(maker_remote(NULL, 10), 11);
    CHECK_I64(maker_remote(NULL, 20), 21);
}

#define TWO_CPUS {.num_cpus = 2}, false, 0
static const struct test_case cases[] = {
    {"state_and_order", state_and_order, TWO_CPUS},
    {"argument_refs", argument_refs, TWO_CPUS},
    {"quick_before_long", quick_before_long, TWO_CPUS},
    {"many", many, TWO_CPUS},
    {"method_error", method_error, TWO_CPUS},
    {"create_error", create_error, TWO_CPUS},
    {"wrong_calls", wrong_calls, TWO_CPUS},
    {"crash", crash, TWO_CPUS},
    {"kill_for_good", kill_for_good, TWO_CPUS},
    {"restart", restart, TWO_CPUS},
    {"restart_without_limit", restart_without_limit, TWO_CPUS},
    {"call_retries", call_retries, TWO_CPUS},
    {"call_retries_without_limit", call_retries_without_limit, TWO_CPUS},
    {"retries_of_a_call", retries_of_a_call, TWO_CPUS},
    {"bad_retries", bad_retries, TWO_CPUS},
    {"freed", freed, TWO_CPUS},
    {"watch", watch, TWO_CPUS},
    {"watch_while_waiting", watch_while_waiting, TWO_CPUS},
    {"watch_elsewhere", watch_elsewhere, TWO_CPUS},
    {"concurrent_callers", concurrent_callers, TWO_CPUS},
    {"calls_to_the_dead", calls_to_the_dead, TWO_CPUS},
    {"named", named, TWO_CPUS},
    {"named_elsewhere", named_elsewhere, TWO_CPUS},
    {"name_again", name_again, TWO_CPUS},
    {"made_in_a_task", made_in_a_task, TWO_CPUS},
    {NULL, NULL, {0}, false, 0},
};

int main(int argc, char **argv)
{
    return test_main(argc, argv, cases);
}
