/* SPDX-License-Identifier: Apache-2.0
 *
 * deadlock_test.c - actors and tasks that wait for each other in a circle are told so; who waits in a line is not.
 *
 * Thread: the driver's main one.
 */
#include "tests/integration/harness.h"

#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

/* ---- what runs in the workers ---- */
static manta_status peer_new(manta_ctx *c, void **self, int argc, const manta_arg *argv)
{
    (void)c, (void)argc, (void)argv;
    *self = NULL;
    return MANTA_OK;
}

/* What a wait inside a task gives, for whoever waits for that task. */
static manta_status pass_on(manta_ctx *c, manta_ref *ref)
{
    manta_error e;
    int64_t     x = 0;
    bool        ok = manta_get_i64(ref, -1, &x, &e) == MANTA_OK;
    manta_free(ref);
    return ok ? manta_return_i64(c, x + 1) : manta_fail(c, e.user_code ? e.user_code : e.code, "%s", e.message);
}

/* (hops, next, after): calls `next` and waits for it, which calls `after`, and so on by turns; at last sleeps for a while. */
static manta_status peer_ring(manta_ctx *c, void *self, int argc, const manta_arg *argv)
{
    (void)self, (void)argc;
    if (argv[0].l > 0)
        return pass_on(
            c, manta_actor_call(argv[1].A, "ring",
                                MANTA_ARGS(manta_i64(argv[0].l - 1), manta_actor_arg(argv[2].A), manta_actor_arg(argv[1].A))));
    usleep((useconds_t)-argv[0].l);
    return manta_return_i64(c, 0);
}
static manta_status peer_one(manta_ctx *c, void *self, int argc, const manta_arg *argv)
{
    (void)self, (void)argc;
    usleep((useconds_t)argv[0].l * 1000);
    return manta_return_i64(c, 1);
}
/* Takes items from a generator that asks this actor for something first. */
static manta_status peer_drain(manta_ctx *c, void *self, int argc, const manta_arg *argv)
{
    manta_generator *g = manta_call_stream("asks_back", &(manta_task_opts){.max_retries = MANTA_NO_RETRY}, MANTA_ARGS(argv[0]));
    manta_view       item;
    manta_error      e;
    manta_status     code = manta_next(g, -1, &item, &e);
    (void)self, (void)argc;
    manta_generator_free(g);
    return code == MANTA_OK ? manta_return_i64(c, 0) : manta_return_i64(c, code == MANTA_ETASK ? e.user_code : code);
}
MANTA_ACTOR(peer, "", peer_new, NULL, {"ring", "lAA>l", peer_ring}, {"one", "l>l", peer_one}, {"drain", "A>l", peer_drain});

static manta_status asks_back(manta_ctx *c, int argc, const manta_arg *argv)
{
    manta_ref   *one = manta_actor_call(argv[0].A, "one", MANTA_ARGS(manta_i64(0)));
    manta_error  e;
    int64_t      x = 0;
    manta_status code = manta_get_i64(one, -1, &x, &e);
    (void)argc;
    manta_free(one);
    return code == MANTA_OK ? manta_yield(c, manta_i64(x)) : manta_fail(c, code, "%s", e.message);
}
MANTA_REGISTER(asks_back, "A>l");

MANTA_TASK(int64_t, add_two, (int64_t, a), (int64_t, b))
{
    return a + b;
}

/* Calls an actor which calls us: through a task, and a task that waits for its argument. */
static manta_status by_task(manta_ctx *c, int argc, const manta_arg *argv)
{
    (void)argc;
    manta_ref *ring = manta_actor_call(argv[0].A, "ring",
                                       MANTA_ARGS(manta_i64(1), manta_actor_arg(argv[0].A), manta_actor_arg(argv[0].A)));
    manta_ref *sum = manta_call("add_two", NULL, MANTA_ARGS(manta_ref_arg(ring), manta_i64(1)));
    manta_free(ring);
    return pass_on(c, sum);
}
MANTA_REGISTER(by_task, "A>l");

static manta_actor *peer_start(void)
{
    return manta_actor_new("peer", NULL, MANTA_NO_ARGS);
}
static manta_ref *ring(manta_actor *a, int64_t hops, manta_actor *next, manta_actor *after)
{
    return manta_actor_call(a, "ring", MANTA_ARGS(manta_i64(hops), manta_actor_arg(next), manta_actor_arg(after)));
}

/* ---- circles ---- */
static void check_circle(manta_ref *ref)
{
    manta_error e;
    CHECK_FAILS(ref, MANTA_ETASK, &e);
    CHECK_EQ(e.user_code, MANTA_EDEADLK);
    CHECK_SAYS(e.message, "can never end");
    CHECK_SAYS(e.message, "ring (pid ");
    CHECK_SAYS(e.message, " waits for ");
}

static void of_two(void)
{
    manta_actor *a = peer_start(), *b = peer_start();
    check_circle(ring(a, 5, b, a));
    CHECK_I64(manta_actor_call(a, "one", MANTA_ARGS(manta_i64(0))), 1); /* both go on afterwards */
    CHECK_I64(manta_actor_call(b, "one", MANTA_ARGS(manta_i64(0))), 1);
    manta_actor_free(a);
    manta_actor_free(b);
}

static void of_one(void)
{
    manta_actor *a = peer_start();
    check_circle(ring(a, 1, a, a));
    manta_actor_free(a);
}

static void through_tasks(void)
{
    manta_actor *a = peer_start();
    check_circle(manta_call("by_task", NULL, MANTA_ARGS(manta_actor_arg(a))));
    manta_actor_free(a);
}

/* ---- lines ---- */
static void a_long_wait(void)
{
    manta_actor *a = peer_start(), *b = peer_start();
    manta_ref   *slow = manta_actor_call(b, "one", MANTA_ARGS(manta_i64(2500)));
    manta_ref   *behind = ring(a, 1, b, b); /* b is busy meanwhile, and waits for nobody */
    CHECK_I64(slow, 1);
    CHECK_I64(behind, 1);
    manta_actor_free(a);
    manta_actor_free(b);
}

/* Calls its argument and waits. */
static manta_status from_task(manta_ctx *c, int argc, const manta_arg *argv)
{
    (void)argc;
    return pass_on(c, manta_actor_call(argv[0].A, "one", MANTA_ARGS(manta_i64(0))));
}
MANTA_REGISTER(from_task, "A>l");

/* Calls of others that come while an actor waits inside a method are kept for later. */
static void called_while_it_waits(void)
{
    enum { CALLERS = 3 };
    manta_actor *a = peer_start(), *b = peer_start();
    manta_ref   *refs[CALLERS];
    CHECK_I64(ring(a, 1, b, b), 1);
    for (int round = 0; round < 5; round++) {
        manta_ref *waiting = ring(a, 1, b, b);
        manta_ref *slow = manta_actor_call(b, "one", MANTA_ARGS(manta_i64(50)));
        for (int i = 0; i < CALLERS; i++)
            refs[i] = manta_call("from_task", NULL, MANTA_ARGS(manta_actor_arg(a)));
        manta_ref *again = ring(a, 1, b, b);
        for (int i = 0; i < CALLERS; i++)
            CHECK_I64(refs[i], 2);
        CHECK_I64(waiting, 1);
        CHECK_I64(slow, 1);
        CHECK_I64(again, 1);
    }
    manta_actor_free(a);
    manta_actor_free(b);
}

#define TWO_CPUS {.num_cpus = 2}, false, 0
/* A wait for the next item of a generator is a wait for who makes it. */
static void deadlock_generator(void)
{
    manta_actor *a = peer_start();
    CHECK_I64(manta_actor_call(a, "drain", MANTA_ARGS(manta_actor_arg(a))), MANTA_EDEADLK);
    CHECK_I64(manta_actor_call(a, "one", MANTA_ARGS(manta_i64(0))), 1); /* it goes on */
    manta_actor_free(a);
}

static const struct test_case cases[] = {
    {"deadlock_of_two", of_two, TWO_CPUS},
    {"deadlock_of_one", of_one, TWO_CPUS},
    {"deadlock_through_tasks", through_tasks, TWO_CPUS},
    {"no_deadlock", a_long_wait, TWO_CPUS},
    {"called_while_it_waits", called_while_it_waits, TWO_CPUS},
    {"deadlock_generator", deadlock_generator, {.num_cpus = 2}, false, 0},
    {NULL, NULL, {0}, false, 0},
};

int main(int argc, char **argv)
{
    return test_main(argc, argv, cases);
}
