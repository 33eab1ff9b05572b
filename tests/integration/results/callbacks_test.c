/* SPDX-License-Identifier: Apache-2.0
 *
 * callbacks_test.c - callbacks of refs, and the descriptor for a program's own loop.
 *
 * Thread: the driver's main one; callbacks on libmanta's helper, or in manta_progress.
 */
#include "tests/integration/harness.h"

#include <fcntl.h>
#include <poll.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>

static _Atomic int64_t calls, sum, failures;
static manta_error     seen; /* of a callback that has run */

MANTA_TASK(int64_t, plus_one, (int64_t, x))
{
    return x + 1;
}
static manta_status refuse(manta_ctx *c, int argc, const manta_arg *argv)
{
    (void)argc, (void)argv;
    return manta_fail(c, 4, "no");
}
MANTA_REGISTER(refuse, "l>l");
static manta_status hold(manta_ctx *c, int argc, const manta_arg *argv)
{
    struct test_board *board = test_board_map(argv[0].u);
    (void)argc;
    test_board_wait(&board->words[0], 1);
    return manta_return_i64(c, 1);
}
MANTA_REGISTER(hold, "u>l");
static manta_status large(manta_ctx *c, int argc, const manta_arg *argv)
{
    char        *data = malloc((size_t)argv[0].l);
    manta_status st;
    (void)argc;
    memset(data, 'x', (size_t)argv[0].l);
    st = manta_return_bytes(c, data, (size_t)argv[0].l);
    free(data);
    return st;
}
MANTA_REGISTER(large, "l>y");

static void on_ready(void *user, manta_ref *ref)
{
    int64_t value = 0;
    if (manta_get_i64(ref, 0, &value, &seen))
        atomic_fetch_add(&failures, 1);
    atomic_fetch_add(&sum, value * (int64_t)(intptr_t)user);
    atomic_fetch_add(&calls, 1);
}

static void ready(void)
{
    enum { N = 2000 };
    manta_error e;
    for (int i = 0; i < N; i++) {
        manta_ref *r = plus_one_remote(NULL, i);
        CHECK_CODE(manta_on_ready(r, on_ready, (void *)2, &e), MANTA_OK, &e);
        manta_free(r); /* the callback has a hold of its own */
    }
    CHECK(test_board_wait(&calls, N)); /* nobody waits in the library: the helper serves */
    CHECK_EQ(atomic_load(&sum), (int64_t)N * (N + 1));
    CHECK_EQ(atomic_load(&failures), 0);
}

static void ready_failed(void)
{
    manta_error e;
    manta_ref  *r = manta_call("refuse", NULL, MANTA_ARGS(manta_i64(1)));
    CHECK_CODE(manta_on_ready(r, on_ready, NULL, &e), MANTA_OK, &e);
    CHECK(test_board_wait(&calls, 1));
    CHECK_EQ(atomic_load(&failures), 1);
    CHECK_EQ(seen.code, MANTA_ETASK);
    CHECK_EQ(seen.user_code, 4);
    manta_free(r);
}

static void ready_at_once(void)
{
    manta_error e;
    manta_ref  *r = plus_one_remote(NULL, 41);
    int64_t     value;
    CHECK_CODE(manta_get_i64(r, TEST_WAIT_MS, &value, &e), MANTA_OK, &e);
    CHECK_CODE(manta_on_ready(r, on_ready, (void *)1, &e), MANTA_OK, &e);
    CHECK_CODE(manta_on_ready(r, on_ready, (void *)1, &e), MANTA_OK, &e);
    CHECK(test_board_wait(&calls, 2));
    CHECK_EQ(atomic_load(&sum), 84);
    manta_free(r);
}

/* Inside a callback: what is there may be used, new work given, nothing waited for. */
static manta_ref *held;
static void       tries_to_wait(void *user, manta_ref *ref)
{
    int64_t    value;
    manta_ref *more = plus_one_remote(NULL, 1);
    double     in = 1, out;
    (void)ref;
    *(manta_status *)user = manta_get_i64(held, 1000, &value, &seen);
    if (manta_map("plus_one", NULL, &in, 1, 8, 0, &out, 8, NULL) != MANTA_EDEADLK)
        atomic_fetch_add(&failures, 1);
    if (manta_on_ready(more, on_ready, (void *)1, NULL))
        atomic_fetch_add(&failures, 1);
    manta_free(more);
    atomic_fetch_add(&calls, 1);
}
static void no_wait_inside(void)
{
    uint64_t           number;
    struct test_board *board = test_board_new(&number);
    manta_error        e;
    manta_status       got = -1;
    manta_task_opts    opts = {.no_cpu = true};
    manta_ref         *r = plus_one_remote(NULL, 1);
    held = manta_call("hold", &opts, MANTA_ARGS(manta_u64(number)));
    CHECK_CODE(manta_on_ready(r, tries_to_wait, &got, &e), MANTA_OK, &e);
    CHECK(test_board_wait(&calls, 2));
    CHECK_EQ(got, MANTA_EDEADLK);
    CHECK_EQ(atomic_load(&failures), 0);
    CHECK_EQ(atomic_load(&sum), 2);
    atomic_store(&board->words[0], 1);
    CHECK_I64(held, 1);
    manta_free(r);
}

static void reads_large(void *user, manta_ref *ref)
{
    manta_view view;
    if (manta_get(ref, 0, &view, &seen))
        atomic_fetch_add(&failures, 1);
    else
        atomic_fetch_add(&sum, (int64_t)view.size * (((const char *)view.data)[view.size - 1] == 'x'));
    manta_release(&view);
    (void)user;
    atomic_fetch_add(&calls, 1);
}
static void large_inside(void)
{
    manta_error e;
    manta_ref  *r = manta_call("large", NULL, MANTA_ARGS(manta_i64(1 << 20)));
    CHECK_CODE(manta_on_ready(r, reads_large, NULL, &e), MANTA_OK, &e);
    manta_free(r);
    CHECK(test_board_wait(&calls, 1));
    CHECK_EQ(atomic_load(&failures), 0);
    CHECK_EQ(atomic_load(&sum), 1 << 20);
}

/* ---- gone everywhere ---- */

static void on_free(void *user)
{
    atomic_fetch_add(&sum, (int64_t)(intptr_t)user);
    atomic_fetch_add(&calls, 1);
}

static void freed(void)
{
    manta_error e;
    manta_ref  *a = manta_put("a", 1), *b = manta_dup(a), *outer;
    CHECK_CODE(manta_on_free(a, on_free, (void *)1, &e), MANTA_OK, &e);
    CHECK_CODE(manta_on_free(a, on_free, (void *)1, &e), MANTA_OK, &e);
    manta_free(a);
    test_sleep_ms(20);
    CHECK_EQ(atomic_load(&calls), 0);
    outer = manta_put_refs("x", 1, &b, 1);
    manta_free(b);
    test_sleep_ms(20);
    CHECK_EQ(atomic_load(&calls), 0); /* the value that declares it holds it */
    manta_free(outer);
    CHECK(test_board_wait(&calls, 2));
    a = plus_one_remote(NULL, 1); /* let go before it is there */
    CHECK_CODE(manta_on_free(a, on_free, (void *)5, &e), MANTA_OK, &e);
    manta_free(a);
    CHECK(test_board_wait(&calls, 3));
    CHECK_EQ(atomic_load(&sum), 7);
}

/* Another process holds it: an actor, until it is told to let go. */
static manta_ref   *kept;
static manta_status nothing_new(manta_ctx *c, void **self, int argc, const manta_arg *argv)
{
    (void)c, (void)self, (void)argc, (void)argv;
    return MANTA_OK;
}
static manta_status keep(manta_ctx *c, void *self, int argc, const manta_arg *argv)
{
    manta_error e;
    (void)self, (void)argc;
    kept = manta_dup(argv[0].r);
    return manta_return_i64(c, manta_on_free(kept, on_free, NULL, &e));
}
static manta_status let_go(manta_ctx *c, void *self, int argc, const manta_arg *argv)
{
    (void)self, (void)argc, (void)argv;
    manta_free(kept);
    return manta_return_i64(c, 0);
}
static void on_free_told(void *user)
{
    atomic_fetch_add((_Atomic int64_t *)user, 1);
}
/* A value of its own, of whose end it tells on the page. */
static manta_status lend(manta_ctx *c, void *self, int argc, const manta_arg *argv)
{
    manta_error  e;
    manta_ref   *lent = manta_put("lent", 5);
    manta_status code = manta_on_free(lent, on_free_told, &test_board_map(argv[0].u)->words[0], &e);
    (void)self, (void)argc;
    code = code ? code : manta_return_refs(c, "", 1, &lent, 1);
    manta_free(lent);
    return code;
}
MANTA_ACTOR(keeper, "", nothing_new, NULL, {"keep", "r>l", keep}, {"let_go", ">l", let_go}, {"lend", "u>y", lend});

static void freed_elsewhere(void)
{
    manta_error  e;
    manta_actor *keeper = manta_actor_new("keeper", NULL, MANTA_NO_ARGS);
    manta_ref   *r = manta_put("value", 5);
    CHECK_CODE(manta_on_free(r, on_free, (void *)3, &e), MANTA_OK, &e);
    CHECK_I64(manta_actor_call(keeper, "keep", MANTA_ARGS(manta_ref_arg(r))), MANTA_EUNSUPPORTED);
    manta_free(r);
    test_sleep_ms(50);
    CHECK_EQ(atomic_load(&calls), 0);
    CHECK_I64(manta_actor_call(keeper, "let_go", MANTA_NO_ARGS), 0);
    CHECK(test_board_wait(&calls, 1));
    CHECK_EQ(atomic_load(&sum), 3);
    manta_actor_free(keeper);
}

static _Atomic int64_t may_end;
static void            on_ready_stays(void *user, manta_ref *ref)
{
    (void)user, (void)ref;
    atomic_fetch_add(&calls, 1);
    if (!test_board_wait(&may_end, 1))
        atomic_fetch_add(&failures, 1);
}

/* The last hold is a view, in a driver that calls nothing more and has its helper in a callback: the maker hears of its end. */
static void freed_by_a_view(void)
{
    uint64_t           number;
    struct test_board *board = test_board_new(&number);
    manta_actor       *keeper = manta_actor_new("keeper", NULL, MANTA_NO_ARGS);
    manta_ref         *outer = manta_actor_call(keeper, "lend", MANTA_ARGS(manta_u64(number))), *lent;
    manta_error        e;
    manta_view         view;
    CHECK_CODE(manta_get(outer, TEST_WAIT_MS, &view, &e), MANTA_OK, &e);
    CHECK_EQ(manta_view_refs(&view, &lent, 1, &e), 1);
    manta_release(&view);
    manta_free(outer);
    CHECK_CODE(manta_get(lent, TEST_WAIT_MS, &view, &e), MANTA_OK, &e);
    manta_free(lent);
    manta_ref *r = plus_one_remote(NULL, 1);
    CHECK_CODE(manta_on_ready(r, on_ready_stays, NULL, &e), MANTA_OK, &e);
    CHECK(test_board_wait(&calls, 1));
    CHECK_EQ(atomic_load(&board->words[0]), 0);
    CHECK_STR((const char *)view.data, "lent");
    manta_release(&view);
    CHECK(test_board_wait(&board->words[0], 1));
    atomic_store(&may_end, 1);
    manta_free(r);
    manta_actor_free(keeper);
}

/* ---- a loop of the program's own ---- */

static pthread_t loop_thread;
static void      on_ready_in_loop(void *user, manta_ref *ref)
{
    if (!pthread_equal(pthread_self(), loop_thread))
        atomic_fetch_add(&failures, 1);
    on_ready(user, ref);
}

static void event_loop(void)
{
    enum { N = 500 };
    manta_error   e;
    int           fd = close(STDIN_FILENO) == 0 ? manta_event_fd(&e) : -1; /* a program may have none: then it is number 0 */
    int64_t       limit = test_now_ms() + TEST_WAIT_MS;
    manta_ref    *r;
    struct pollfd p = {.fd = fd, .events = POLLIN};
    CHECK_EQ(fd, STDIN_FILENO);
    CHECK_EQ(manta_event_fd(&e), fd);
    loop_thread = pthread_self();
    CHECK_EQ(poll(&p, 1, 0), 0);
    for (int i = 0; i < N; i++) {
        r = plus_one_remote(NULL, i);
        CHECK_CODE(manta_on_ready(r, on_ready_in_loop, (void *)1, &e), MANTA_OK, &e);
        manta_free(r);
    }
    while (atomic_load(&calls) < N && test_now_ms() < limit)
        if (poll(&p, 1, 1000) > 0)
            manta_progress();
    CHECK_EQ(atomic_load(&calls), N);
    CHECK_EQ(atomic_load(&failures), 0);
    r = plus_one_remote(NULL, 1); /* without a callback: a value alone is an event */
    while (manta_wait(&r, 1, 1, 0, NULL, &e) == 0 && test_now_ms() < limit)
        if (poll(&p, 1, 1000) > 0)
            manta_progress();
    CHECK_I64(r, 2);
    manta_progress();
    CHECK_EQ(poll(&p, 1, 0), 0);                         /* all was seen */
    CHECK(open("/dev/null", O_RDONLY | O_CLOEXEC) >= 0); /* in the place of what was closed, which the harness would miss */
}

static void callbacks_wrong(void)
{
    manta_error e;
    manta_ref  *r = manta_put("a", 1);
    CHECK_CODE(manta_on_ready(NULL, on_ready, NULL, &e), MANTA_EINVAL, &e);
    CHECK_CODE(manta_on_ready(r, NULL, NULL, &e), MANTA_EINVAL, &e);
    CHECK_CODE(manta_on_free(NULL, on_free, NULL, &e), MANTA_EINVAL, &e);
    CHECK_CODE(manta_on_free(r, NULL, NULL, NULL), MANTA_EINVAL, &e);
    CHECK_CODE(manta_on_free(r, on_free, NULL, &e), MANTA_OK, &e);
    CHECK_CODE(manta_on_ready(plus_one_remote(NULL, 1), on_ready, NULL, &e), MANTA_OK, &e);
    manta_shutdown(); /* with callbacks that have not run */
    CHECK_CODE(manta_on_ready(r, on_ready, NULL, &e), MANTA_ECONN, &e);
    CHECK_EQ(manta_event_fd(&e), -MANTA_ECONN);
    manta_free(r);
}

int main(int argc, char **argv)
{
    static const struct test_case cases[] = {
        {.name = "ready", .run = ready},
        {.name = "ready_failed", .run = ready_failed},
        {.name = "ready_at_once", .run = ready_at_once},
        {.name = "no_wait_inside", .run = no_wait_inside},
        {.name = "large_inside", .run = large_inside},
        {.name = "freed", .run = freed},
        {.name = "freed_elsewhere", .run = freed_elsewhere},
        {.name = "freed_by_a_view", .run = freed_by_a_view},
        {.name = "event_loop", .run = event_loop},
        {.name = "callbacks_wrong", .run = callbacks_wrong},
        {.name = NULL},
    };
    return test_main(argc, argv, cases);
}
