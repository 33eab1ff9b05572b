/* SPDX-License-Identifier: Apache-2.0
 *
 * concurrency_test.c - actors with threads: calls at a time, concurrency groups, order, bounds.
 *
 * Thread: the driver's main one; methods run on the threads of their actor.
 */
#include "tests/integration/harness.h"

#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

enum { CALLS = 2000, PACERS = 3, PACES = 300, AHEAD = 3 };

/* ---- an actor whose calls meet each other ---- */
struct meeting {
    pthread_mutex_t    lock;
    pthread_cond_t     change;
    struct test_board *board;
    int                inside, most;
    int64_t            last; /* of the calls that are numbered */
    int64_t            unordered;
    int64_t            clocks[PACERS];
};

static manta_status meeting_new(manta_ctx *c, void **self, int argc, const manta_arg *argv)
{
    struct meeting *m = calloc(1, sizeof *m);
    (void)c, (void)argc;
    pthread_mutex_init(&m->lock, NULL);
    pthread_cond_init(&m->change, NULL);
    m->board = test_board_map(argv[0].u);
    *self = m;
    return MANTA_OK;
}
static void meeting_free(void *self)
{
    atomic_fetch_add(&((struct meeting *)self)->board->words[8], 1);
    free(self);
}
static void enter(struct meeting *m)
{
    pthread_mutex_lock(&m->lock);
    m->most = ++m->inside > m->most ? m->inside : m->most;
    pthread_cond_broadcast(&m->change);
}
static void leave(struct meeting *m)
{
    m->inside--;
    pthread_mutex_unlock(&m->lock);
}
/* Waits until `n` calls are inside at a time; gives up never. */
static manta_status meeting_wait_for(manta_ctx *c, void *self, int argc, const manta_arg *argv)
{
    struct meeting *m = self;
    (void)argc;
    enter(m);
    while (m->most < argv[0].l)
        pthread_cond_wait(&m->change, &m->lock);
    leave(m);
    return manta_return_i64(c, argv[0].l);
}
/* Stays until word 1 of the board is set; word 2 counts those that stay. */
static manta_status meeting_stay(manta_ctx *c, void *self, int argc, const manta_arg *argv)
{
    struct meeting *m = self;
    (void)argc;
    atomic_fetch_add(&m->board->words[2], 1);
    bool ok = test_board_wait(&m->board->words[1], 1);
    return manta_return_i64(c, ok ? argv[0].l : -1);
}
static manta_status meeting_number(manta_ctx *c, void *self, int argc, const manta_arg *argv)
{
    struct meeting *m = self;
    (void)argc;
    m->unordered += argv[0].l != m->last + 1;
    m->last = argv[0].l;
    return manta_return_i64(c, m->unordered);
}
static manta_status meeting_twice(manta_ctx *c, void *self, int argc, const manta_arg *argv)
{
    (void)self, (void)argc;
    return manta_return_i64(c, 2 * argv[0].l);
}
static manta_status meeting_most(manta_ctx *c, void *self, int argc, const manta_arg *argv)
{
    (void)argc, (void)argv;
    return manta_return_i64(c, ((struct meeting *)self)->most);
}
MANTA_TASK(int64_t, slow_double, (int64_t, x), (int64_t, ms))
{
    test_sleep_ms((int)ms);
    return 2 * x;
}
/* Waits for a task inside the method. */
static manta_status meeting_nested(manta_ctx *c, void *self, int argc, const manta_arg *argv)
{
    manta_ref  *ref = slow_double_remote(NULL, argv[0].l, argv[1].l);
    manta_error e;
    int64_t     got = 0;
    (void)self, (void)argc;
    manta_status code = manta_get_i64(ref, TEST_WAIT_MS, &got, &e);
    manta_free(ref);
    return code ? manta_fail(c, code, "%s", e.message) : manta_return_i64(c, got);
}
static manta_status meeting_refuse(manta_ctx *c, void *self, int argc, const manta_arg *argv)
{
    (void)self, (void)argc;
    return manta_fail(c, (int)argv[0].l, "not at this meeting");
}
static manta_status meeting_die(manta_ctx *c, void *self, int argc, const manta_arg *argv)
{
    (void)c, (void)self, (void)argc, (void)argv;
    kill(getpid(), SIGKILL);
    pause();
    return MANTA_OK;
}
/* (caller, clock): waits while the caller is too far ahead of the others, which is quick now and then. */
static manta_status meeting_pace(manta_ctx *c, void *self, int argc, const manta_arg *argv)
{
    struct meeting *m = self;
    (void)argc;
    enter(m);
    m->clocks[argv[0].l] = argv[1].l;
    for (int i = 0; i < PACERS;)
        if (m->clocks[i] + AHEAD < argv[1].l)
            pthread_cond_wait(&m->change, &m->lock), i = 0;
        else
            i++;
    leave(m);
    return manta_return_i64(c, argv[1].l);
}
MANTA_ACTOR(meeting, "u", meeting_new, meeting_free, {"wait_for", "l>l", meeting_wait_for}, {"stay", "l>l", meeting_stay},
            {"number", "l>l", meeting_number}, {"twice", "l>l", meeting_twice}, {"most", ">l", meeting_most},
            {"nested", "ll>l", meeting_nested}, {"refuse", "l>v", meeting_refuse}, {"die", ">v", meeting_die},
            {"pace", "ll>l", meeting_pace});

/* The same with groups: two may read at a time, one writes. */
MANTA_ACTOR_TYPE(library, .signature = "u", .create = meeting_new, .destroy = meeting_free,
                 .methods = {{"read", "l>*@read", meeting_stay}, /* a star stands last, before the group */
                             {"write", "l>l@write", meeting_number},
                             {"twice", "l>l", meeting_twice},
                             {"stay", "l>l", meeting_stay}},
                 .groups = {{"read", 2}, {"write", 1}});
MANTA_ACTOR_TYPE(no_such_group, .signature = "u", .create = meeting_new, .methods = {{"read", "l>l@raed", meeting_stay}},
                 .groups = {{"read", 2}});
MANTA_ACTOR_TYPE(no_limit, .signature = "u", .create = meeting_new, .methods = {{"twice", "l>l", meeting_twice}},
                 .groups = {{"read", 0}});

static struct test_board *board;
static uint64_t           board_number;

static manta_actor *meet(const char *type, const manta_actor_opts *opts)
{
    if (!board)
        board = test_board_new(&board_number);
    return manta_actor_new(type, opts, MANTA_ARGS(manta_u64(board_number)));
}
static manta_ref *call(manta_actor *a, const char *method, int64_t x)
{
    return manta_actor_call(a, method, MANTA_ARGS(manta_i64(x)));
}

/* ---- cases ---- */

/* Eight calls wait for each other: they must run at the same time, and no ninth beside them. */
static void case_threads(void)
{
    manta_actor_opts o = {.max_concurrency = 8};
    manta_actor     *a = meet("meeting", &o);
    manta_ref       *refs[16];
    for (int i = 0; i < 8; i++)
        refs[i] = call(a, "wait_for", 8);
    for (int i = 0; i < 8; i++)
        CHECK_I64(refs[i], 8);
    for (int i = 0; i < 16; i++)
        refs[i] = call(a, "stay", i);
    CHECK(test_board_wait(&board->words[2], 8));
    test_sleep_ms(50);
    CHECK_EQ(atomic_load(&board->words[2]), 8);
    atomic_store(&board->words[1], 1);
    for (int i = 0; i < 16; i++)
        CHECK_I64(refs[i], i);
    CHECK_I64(manta_actor_call(a, "most", MANTA_NO_ARGS), 8);
    manta_actor_free(a);
    CHECK(test_board_wait(&board->words[8], 1)); /* its destroy hook ran */
}

/* A method that was always quick waits all at once: others go on. */
static void case_quick_then_slow(void)
{
    manta_actor_opts o = {.max_concurrency = 4};
    manta_actor     *a = meet("meeting", &o);
    manta_ref       *refs[CALLS], *slow;
    atomic_store(&board->words[1], 1);
    for (int round = 0; round < 3; round++) {
        for (int i = 0; i < CALLS; i++)
            refs[i] = call(a, i % 3 ? "twice" : "stay", i);
        for (int i = 0; i < CALLS; i++)
            CHECK_I64(refs[i], i % 3 ? 2 * i : i);
    }
    atomic_store(&board->words[1], 0);
    slow = call(a, "stay", 5);
    for (int i = 0; i < 100; i++)
        CHECK_I64(call(a, "twice", i), 2 * i);
    atomic_store(&board->words[1], 1);
    CHECK_I64(slow, 5);
    manta_actor_free(a);
}

/* Every call waits for a task, and there is one CPU, which the actor holds. */
static void case_nested(void)
{
    manta_actor_opts o = {.max_concurrency = 8, .num_cpus = 1};
    manta_actor     *a = meet("meeting", &o);
    manta_ref       *refs[16];
    for (int i = 0; i < 16; i++)
        refs[i] = manta_actor_call(a, "nested", MANTA_ARGS(manta_i64(i), manta_i64(2)));
    for (int i = 0; i < 16; i++)
        CHECK_I64(refs[i], 2 * i);
    manta_actor_free(a);
}

static void case_groups(void)
{
    manta_actor          *a = meet("library", NULL);
    manta_actor_call_opts in_write = {.group = "write"};
    manta_ref            *refs[4], *many[CALLS];
    for (int i = 0; i < 4; i++)
        refs[i] = call(a, "read", i); /* two stay, two queue: the other groups go on */
    CHECK(test_board_wait(&board->words[2], 2));
    for (int i = 0; i < CALLS; i++)
        many[i] = call(a, "write", i + 1);
    for (int i = 0; i < CALLS; i++)
        CHECK_I64(many[i], 0); /* one at a time, in order */
    CHECK_I64(call(a, "twice", 21), 42);
    CHECK_I64(manta_actor_call_with(a, "twice", &in_write, MANTA_ARGS(manta_i64(4))), 8);
    CHECK_EQ(atomic_load(&board->words[2]), 2);
    atomic_store(&board->words[1], 1);
    for (int i = 0; i < 4; i++)
        CHECK_I64(refs[i], i);
    manta_actor_free(a);
}

/* An argument that is late holds up its own group, and with allow_out_of_order nothing at all. */
static void case_order(void)
{
    manta_actor_opts any = {.allow_out_of_order = true};
    manta_actor     *in_order = meet("meeting", NULL), *any_order = meet("meeting", &any);
    manta_actor     *groups = meet("library", NULL);
    manta_ref       *late = slow_double_remote(NULL, 1, 300), *refs[6];
    unsigned char    ready[6];
    refs[0] = manta_actor_call(any_order, "twice", MANTA_ARGS(manta_ref_arg(late)));
    refs[1] = call(any_order, "twice", 5);
    refs[2] = manta_actor_call(groups, "write", MANTA_ARGS(manta_ref_arg(late)));
    refs[3] = call(groups, "twice", 5);
    refs[4] = manta_actor_call(in_order, "twice", MANTA_ARGS(manta_ref_arg(late)));
    refs[5] = call(in_order, "twice", 5);
    CHECK_EQ(manta_wait((manta_ref *[]){refs[1], refs[3]}, 2, 2, TEST_WAIT_MS, ready, NULL), 2);
    bool is_second = manta_wait(&refs[5], 1, 1, 0, ready, NULL); /* looked at first: both may become ready between the two looks */
    CHECK(!is_second || manta_wait(&refs[4], 1, 1, 0, ready, NULL) == 1);
    CHECK_I64(refs[5], 10);
    CHECK_EQ(manta_wait(&refs[4], 1, 1, 0, ready, NULL), 1); /* it came first */
    CHECK_I64(refs[0], 4);
    CHECK_I64(refs[1], 10);
    CHECK_I64(refs[2], 1); /* number 2 is not 1 */
    CHECK_I64(refs[3], 10);
    CHECK_I64(refs[4], 4);
    manta_free(late);
    manta_actor_free(in_order);
    manta_actor_free(any_order);
    manta_actor_free(groups);
}

static void case_pending_limit(void)
{
    manta_actor_opts o = {.max_pending_calls = 3};
    manta_actor     *a = meet("meeting", &o);
    manta_ref       *refs[3];
    manta_error      e;
    for (int i = 0; i < 3; i++)
        refs[i] = call(a, "stay", i);
    CHECK_FAILS(call(a, "twice", 1), MANTA_EAGAIN, &e);
    CHECK_SAYS(e.message, "max_pending_calls");
    CHECK_EQ(e.outcome, MANTA_NOT_DONE);
    atomic_store(&board->words[1], 1);
    for (int i = 0; i < 3; i++)
        CHECK_I64(refs[i], i);
    CHECK_I64(call(a, "twice", 1), 2);
    manta_actor_free(a);
}

/* It dies with calls that run and calls that only wait: every one gets its answer, those with a retry their value. */
static void case_death(void)
{
    manta_actor_opts o = {.max_concurrency = 4, .max_restarts = 1, .max_task_retries = 1};
    manta_actor     *a = meet("meeting", &o);
    manta_ref       *refs[100], *die;
    manta_error      e;
    for (int i = 0; i < 3; i++)
        refs[i] = call(a, "stay", i);
    CHECK(test_board_wait(&board->words[2], 3));
    die = manta_actor_call(a, "die", MANTA_NO_ARGS);
    for (int i = 3; i < 100; i++)
        refs[i] = call(a, "twice", i);
    atomic_store(&board->words[1], 1);
    CHECK_FAILS(die, MANTA_EACTOR_DIED, &e); /* the retry dies as well, and with it the actor */
    for (int i = 0; i < 100; i++) {
        int64_t      got = -1;
        manta_status code = manta_get_i64(refs[i], TEST_WAIT_MS, &got, &e);
        CHECK(code == MANTA_EACTOR_DIED || (code == MANTA_OK && got == (i < 3 ? i : 2 * i)));
        manta_free(refs[i]);
    }
    manta_actor_free(a);
}

static void case_errors(void)
{
    manta_actor_opts      o = {.max_concurrency = 2};
    manta_actor_call_opts wrong = {.group = "wirte"};
    manta_actor          *a = meet("meeting", &o), *b = meet("library", NULL), *bad;
    manta_error           e;
    CHECK_FAILS(call(a, "refuse", 6), MANTA_ETASK, &e);
    CHECK_EQ(e.user_code, 6);
    CHECK_FAILS(call(a, "tvice", 6), MANTA_ENOFUNC, &e);
    CHECK_FAILS(manta_actor_call(a, "twice", MANTA_NO_ARGS), MANTA_ETYPE, &e);
    CHECK_FAILS(manta_actor_call_with(b, "twice", &wrong, MANTA_ARGS(manta_i64(1))), MANTA_EINVAL, &e);
    CHECK_SAYS(e.message, "wirte");
    o.max_concurrency = 100000;
    bad = meet("meeting", &o);
    CHECK_FAILS(call(bad, "twice", 1), MANTA_EINVAL, &e);
    CHECK_SAYS(e.message, "max_concurrency");
    manta_actor_free(bad);
    bad = manta_actor_new("no_such_group", NULL, MANTA_ARGS(manta_u64(0)));
    CHECK_FAILS(call(bad, "read", 1), MANTA_EINVAL, &e);
    CHECK_SAYS(e.message, "raed");
    manta_actor_free(bad);
    bad = manta_actor_new("no_limit", NULL, MANTA_ARGS(manta_u64(0)));
    CHECK_FAILS(call(bad, "twice", 1), MANTA_EINVAL, &e);
    manta_actor_free(bad);
    CHECK_I64(call(a, "twice", 4), 8);
    manta_actor_free(a);
    manta_actor_free(b);
}

/* Two callers: a method of one actor waits, while the calls of another caller stand in its ring. */
static manta_status peer_new(manta_ctx *c, void **self, int argc, const manta_arg *argv)
{
    (void)c, (void)self, (void)argc, (void)argv;
    return MANTA_OK;
}
static manta_status peer_calls(manta_ctx *c, void *self, int argc, const manta_arg *argv)
{
    manta_error e;
    int64_t     sum = 0, got = 0;
    (void)self, (void)argc;
    for (int64_t i = 0; i < argv[1].l; i++) {
        manta_ref   *ref = call(argv[0].A, "twice", i);
        manta_status code = manta_get_i64(ref, TEST_WAIT_MS, &got, &e);
        manta_free(ref);
        if (code)
            return manta_fail(c, code, "%s", e.message);
        sum += got;
    }
    return manta_return_i64(c, sum);
}
MANTA_ACTOR(peer, "", peer_new, NULL, {"calls", "Al>l", peer_calls});

static void callers(const manta_actor_opts *opts)
{
    manta_actor *a = meet("meeting", opts), *peers[4];
    manta_ref   *refs[4], *nested[20];
    for (int i = 0; i < 4; i++) {
        peers[i] = manta_actor_new("peer", NULL, MANTA_NO_ARGS);
        refs[i] = manta_actor_call(peers[i], "calls", MANTA_ARGS(manta_actor_arg(a), manta_i64(500)));
    }
    for (int i = 0; i < 20; i++)
        nested[i] = manta_actor_call(a, "nested", MANTA_ARGS(manta_i64(i), manta_i64(1)));
    for (int i = 0; i < 20; i++)
        CHECK_I64(nested[i], 2 * i);
    for (int i = 0; i < 4; i++) {
        CHECK_I64(refs[i], 500 * 499);
        manta_actor_free(peers[i]);
    }
    manta_actor_free(a);
}
/* (actor, number) > its last clock. */
static manta_status pacer(manta_ctx *c, int argc, const manta_arg *argv)
{
    manta_error e;
    int64_t     now = 0;
    (void)argc;
    for (int64_t clock = 1; clock <= PACES; clock++) {
        manta_ref   *ref = manta_actor_call(argv[0].A, "pace", MANTA_ARGS(manta_i64(argv[1].l), manta_i64(clock)));
        manta_status code = manta_get_i64(ref, TEST_WAIT_MS, &now, &e);
        manta_free(ref);
        if (code)
            return manta_fail(c, code, "%s", e.message);
    }
    return manta_return_i64(c, now);
}
MANTA_REGISTER(pacer, "Al>l");
/* Calls that were quick the last time wait for each other, two of them at the same moment: a third one still comes in. */
static void case_paced(void)
{
    manta_actor_opts o = {.max_concurrency = 2 * PACERS};
    manta_task_opts  part = {.num_cpus = 0.1};
    for (int round = 0; round < 5; round++) {
        manta_actor *a = meet("meeting", &o);
        manta_ref   *refs[PACERS];
        for (int i = 0; i < PACERS; i++)
            refs[i] = manta_call("pacer", &part, MANTA_ARGS(manta_actor_arg(a), manta_i64(i)));
        for (int i = 0; i < PACERS; i++)
            CHECK_I64(refs[i], PACES);
        manta_actor_free(a);
    }
}
static void case_callers(void)
{
    manta_actor_opts o = {.max_concurrency = 3};
    callers(NULL);
    callers(&o);
}

int main(int argc, char **argv)
{
    static const struct test_case cases[] = {
        {.name = "threads", .run = case_threads, .opts = {.num_cpus = 2}},
        {.name = "quick_then_slow", .run = case_quick_then_slow, .opts = {.num_cpus = 2}},
        {.name = "paced", .run = case_paced, .opts = {.num_cpus = 2}},
        {.name = "nested_calls", .run = case_nested, .opts = {.num_cpus = 1}},
        {.name = "groups", .run = case_groups, .opts = {.num_cpus = 2}},
        {.name = "out_of_order", .run = case_order, .opts = {.num_cpus = 2}},
        {.name = "pending_limit", .run = case_pending_limit, .opts = {.num_cpus = 2}},
        {.name = "concurrent_death", .run = case_death, .opts = {.num_cpus = 2}},
        {.name = "concurrent_errors", .run = case_errors, .opts = {.num_cpus = 2}},
        {.name = "two_callers", .run = case_callers, .opts = {.num_cpus = 2}},
        {.name = NULL},
    };
    return test_main(argc, argv, cases);
}
