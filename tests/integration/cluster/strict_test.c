/* SPDX-License-Identifier: Apache-2.0
 *
 * strict_test.c - strict actors: two incarnations never run at a time, judged by a page outside that each of them writes
 * while it runs.
 *
 * Thread: the driver's main one.
 */
#include "tests/integration/cluster/nodes.h"

#include "core/base/limits/net.h"

#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>
#include <unistd.h>

/* Words of the page: when each incarnation ran first and last (us), and where. */
enum { STOP = 0, FIRST = 8, LAST = 16, PID = 24, NODE = 32, INCARNATIONS = 8 };

static int64_t now_us(void)
{
    struct timespec ts;
    clock_gettime(CLOCK_MONOTONIC, &ts);
    return ts.tv_sec * 1000000 + ts.tv_nsec / 1000;
}

struct runner {
    struct test_board *board;
    int                incarnation;
};
static manta_status runner_new(manta_ctx *c, void **self, int argc, const manta_arg *argv)
{
    struct runner *r = calloc(1, sizeof *r);
    (void)argc;
    r->board = test_board_map(argv[0].u);
    r->incarnation = manta_attempt(c) % INCARNATIONS;
    r->board->words[PID + r->incarnation] = getpid();
    r->board->words[NODE + r->incarnation] = manta_node();
    r->board->words[LAST + r->incarnation] = now_us();
    r->board->words[FIRST + r->incarnation] = now_us();
    *self = r;
    return MANTA_OK;
}
static manta_status runner_run(manta_ctx *c, void *self, int argc, const manta_arg *argv)
{
    struct runner *r = self;
    (void)argc, (void)argv;
    while (!r->board->words[STOP]) {
        r->board->words[LAST + r->incarnation] = now_us();
        usleep(100);
    }
    return manta_return_i64(c, r->incarnation);
}
MANTA_ACTOR(runner, "u", runner_new, free, {"run", ">l", runner_run});

static struct test_board *board;

static manta_actor *runner_start(const struct nodes *n, const char *name)
{
    uint64_t         number;
    manta_actor_opts opts = {.strict = true,
                             .node = n->ids[1],
                             .node_soft = true,
                             .max_restarts = 3,
                             .max_task_retries = 3,
                             .name = name,
                             .detached = name != NULL};
    board = test_board_new(&number);
    return manta_actor_new("runner", &opts, MANTA_ARGS(manta_u64(number)));
}
static int64_t last(int incarnation)
{
    return board->words[LAST + incarnation];
}
static void runs(int incarnation)
{
    int64_t before = last(incarnation);
    CHECK(test_board_wait(&board->words[LAST + incarnation], before + 1));
}
/* It has written nothing for half a second. */
static bool is_frozen(int incarnation)
{
    int64_t before = last(incarnation);
    test_sleep_ms(500);
    return last(incarnation) == before;
}
static void wait_frozen(int incarnation)
{
    CHECK_SOON(is_frozen(incarnation));
}
static void never_overlapped(int incarnations)
{
    for (int i = 1; i < incarnations; i++) {
        if (board->words[FIRST + i] <= last(i - 1))
            test_fail(__FILE__, __LINE__, "incarnation %d ran until %lld us after %d had begun", i - 1,
                      (long long)(last(i - 1) - board->words[FIRST + i]), i);
    }
}

/* ---- cases ---- */

/* A raylet that is stopped for longer than a lease, but not dead: its actor freezes, and goes on. So with the head. */
static void strict_freezes(void)
{
    struct nodes n;
    nodes_start(&n, 2, "2");
    manta_actor *a = runner_start(&n, NULL);
    manta_ref   *ref = manta_actor_call(a, "run", MANTA_NO_ARGS);
    CHECK(test_board_wait(&board->words[FIRST], 1));
    CHECK_EQ(board->words[NODE], n.ids[1]);
    runs(0);
    test_sleep_ms(5000); /* longer than one lease */
    runs(0);
    for (int round = 0; round < 2; round++) {
        int pid = round == 0 ? n.raylets[1] : n.head;
        CHECK_EQ(kill(pid, SIGSTOP), 0);
        wait_frozen(0);
        CHECK_EQ(kill(pid, SIGCONT), 0);
        runs(0);
        test_sleep_ms(1500);
        runs(0);
    }
    board->words[STOP] = 1;
    CHECK_I64(ref, 0); /* the same incarnation */
    manta_actor_free(a);
    nodes_stop(&n);
}

/* The raylet is stopped until its node is dead: the actor begins again elsewhere, when the old one can't run any more. */
static void strict_silent_node(void)
{
    struct nodes n;
    nodes_start(&n, 2, "2");
    manta_actor *a = runner_start(&n, NULL);
    manta_ref   *ref = manta_actor_call(a, "run", MANTA_NO_ARGS);
    CHECK(test_board_wait(&board->words[FIRST], 1));
    runs(0);
    CHECK_EQ(kill(n.raylets[1], SIGSTOP), 0);
    CHECK(test_board_wait(&board->words[FIRST + 1], 1));
    CHECK_EQ(board->words[NODE + 1], n.ids[0]);
    never_overlapped(2);
    runs(1);
    CHECK_EQ(kill(n.raylets[1], SIGCONT), 0); /* it is back, and what it had ran too long */
    CHECK(test_gone((int)board->words[PID]));
    runs(1);
    board->words[STOP] = 1;
    CHECK_I64(ref, 1);
    never_overlapped(2);
    manta_actor_free(a);
    nodes_stop(&n);
}

/* A process that has certainly died needs no waiting. */
static void strict_restarts_at_once(void)
{
    struct nodes n;
    nodes_start(&n, 2, "2");
    manta_actor *a = runner_start(&n, NULL);
    manta_ref   *ref = manta_actor_call(a, "run", MANTA_NO_ARGS);
    CHECK(test_board_wait(&board->words[FIRST], 1));
    int64_t least = INT64_MAX; /* a machine that stands still may make one of them late */
    for (int i = 0; i < 2; i++) {
        int64_t from = test_now_ms();
        CHECK_EQ(kill((int)board->words[PID + i], SIGKILL), 0);
        CHECK(test_board_wait(&board->words[FIRST + i + 1], 1));
        least = test_now_ms() - from < least ? test_now_ms() - from : least;
    }
    CHECK(least < MT_STRICT_WAIT_MS - 1000);
    never_overlapped(3);
    nodes_kill(&n.raylets[1]); /* its node is lost: now it waits */
    CHECK(test_board_wait(&board->words[FIRST + 3], 1));
    never_overlapped(4);
    board->words[STOP] = 1;
    CHECK_I64(ref, 3);
    manta_actor_free(a);
    nodes_stop(&n);
}

/* A detached one whose warden is killed: the actor dies with it, and the next begins later. */
static void strict_detached(void)
{
    struct nodes n;
    nodes_start(&n, 2, "2");
    manta_actor *a = runner_start(&n, "only");
    manta_ref   *ref = manta_actor_call(a, "run", MANTA_NO_ARGS);
    CHECK(test_board_wait(&board->words[FIRST], 1));
    runs(0);
    nodes_kill(&n.raylets[1]); /* the actor's node, and perhaps its warden's */
    CHECK(test_board_wait(&board->words[FIRST + 1], 1));
    never_overlapped(2);
    manta_free(ref);
    ref = manta_actor_call(a, "run", MANTA_NO_ARGS);
    runs(1);
    board->words[STOP] = 1;
    CHECK_I64(ref, 1);
    manta_actor_kill(a, false);
    manta_actor_free(a);
    nodes_stop(&n);
}

#define OWN_INIT {0}, true, 0
static const struct test_case cases[] = {
    {"strict_freezes", strict_freezes, OWN_INIT},
    {"strict_silent_node", strict_silent_node, OWN_INIT},
    {"strict_restarts_at_once", strict_restarts_at_once, OWN_INIT},
    {"strict_detached", strict_detached, OWN_INIT},
    {NULL, NULL, {0}, false, 0},
};

int main(int argc, char **argv)
{
    return test_main(argc, argv, cases);
}
