/* SPDX-License-Identifier: Apache-2.0
 *
 * quiet_test.c - manta_group_quiet with members on two nodes: what is under way between the nodes counts.
 *
 * Thread: the driver's main one. The board counts what the actors have done.
 */
#include "tests/integration/cluster/nodes.h"

#include <stdlib.h>

enum { MEMBERS = 4, TOKENS = 3, DONE = 0 };

struct far_talker {
    struct test_board *board;
    manta_actor       *next;
};

static manta_status talker_new(manta_ctx *c, void **self, int argc, const manta_arg *argv)
{
    struct far_talker *t = calloc(1, sizeof *t);
    (void)argc;
    if (!t)
        return manta_fail(c, 1, "no memory");
    t->board = test_board_map(argv[0].u);
    *self = t;
    return MANTA_OK;
}
static void talker_free(void *self)
{
    manta_actor_free(((struct far_talker *)self)->next);
    free(self);
}
static manta_status talker_know(manta_ctx *c, void *self, int argc, const manta_arg *argv)
{
    struct far_talker *t = self;
    (void)c, (void)argc;
    manta_actor_free(t->next);
    t->next = manta_actor_dup(argv[0].A);
    return MANTA_OK;
}
/* So many more hops, each to the other node; every so many it takes its time. Nobody waits for any of these calls. */
static manta_status talker_pass(manta_ctx *c, void *self, int argc, const manta_arg *argv)
{
    struct far_talker *t = self;
    (void)c, (void)argc;
    if (argv[1].l && argv[0].l % argv[1].l == 0)
        test_sleep_ms(2);
    atomic_fetch_add(&t->board->words[DONE], 1);
    if (argv[0].l > 0 && t->next)
        manta_free(manta_actor_call(t->next, "pass", MANTA_ARGS(manta_i64(argv[0].l - 1), argv[1])));
    return MANTA_OK;
}
MANTA_ACTOR(far_talker, "u", talker_new, talker_free, {"know", "A", talker_know}, {"pass", "ll", talker_pass});

static struct test_board *board;

/* A ring whose members are on the two nodes in turn. */
static manta_group *ring(int restarts)
{
    manta_actor *members[MEMBERS];
    manta_error  e;
    uint64_t     number;
    board = test_board_new(&number);
    for (int i = 0; i < MEMBERS; i++)
        members[i] = manta_actor_new("far_talker", &(manta_actor_opts){.max_restarts = restarts, AT(i % 2)},
                                     MANTA_ARGS(manta_u64(number)));
    manta_group *g = manta_group_of(members, MEMBERS, &e);
    CHECK(g);
    for (int i = 0; i < MEMBERS; i++)
        manta_free(manta_actor_call(members[i], "know", MANTA_ARGS(manta_actor_arg(members[(i + 1) % MEMBERS]))));
    for (int i = 0; i < MEMBERS; i++)
        manta_actor_free(members[i]);
    return g;
}
static void send(manta_group *g, int to, int64_t hops, int64_t rest)
{
    manta_free(manta_actor_call(manta_group_actor(g, to), "pass", MANTA_ARGS(manta_i64(hops), manta_i64(rest))));
}

static void quiet_far(void)
{
    static const int64_t hops[] = {0, 1, 2, 10, 100, 1000}, rests[] = {0, 5, 97};
    struct nodes         n;
    manta_error          e;
    uint64_t             wanted = 0;
    nodes_start(&n, 2, "2");
    manta_group *g = ring(0);
    for (size_t i = 0; i < sizeof hops / sizeof hops[0]; i++) {
        for (size_t j = 0; j < sizeof rests / sizeof rests[0]; j++) {
            if (rests[j] && hops[i] / rests[j] > 100)
                continue;
            for (int k = 0; k < TOKENS; k++)
                send(g, k, hops[i], rests[j]);
            wanted += TOKENS * (uint64_t)(hops[i] + 1);
            CHECK_CODE(manta_group_quiet(g, TEST_WAIT_MS, &e), MANTA_OK, &e);
            CHECK_EQ(atomic_load(&board->words[DONE]), wanted);
        }
    }
    manta_group_free(g);
    nodes_stop(&n);
}

/* The other node dies while they talk. What its members had is over; who asks is told which member has died. */
static void quiet_far_dies(void)
{
    struct nodes n;
    manta_error  e;
    nodes_start(&n, 2, "2");
    manta_group *g = ring(0);
    CHECK_CODE(manta_group_quiet(g, TEST_WAIT_MS, &e), MANTA_OK, &e); /* they are made */
    send(g, 0, INT64_MAX, 97);
    CHECK_CODE(manta_group_quiet(g, 100, &e), MANTA_ETIMEDOUT, &e);
    nodes_kill(&n.raylets[1]);
    CHECK_CODE(manta_group_quiet(g, TEST_WAIT_MS, &e), MANTA_EACTOR_DIED, &e);

    manta_actor *left[2] = {manta_group_actor(g, 0), manta_group_actor(g, 2)}; /* those of this node are at rest */
    manta_group *rest = manta_group_of(left, 2, &e);
    CHECK(rest);
    CHECK_CODE(manta_group_quiet(rest, TEST_WAIT_MS, &e), MANTA_OK, &e);
    uint64_t done = atomic_load(&board->words[DONE]);
    test_sleep_ms(50);
    CHECK_EQ(atomic_load(&board->words[DONE]), done);
    manta_group_free(rest);
    manta_group_free(g);
    nodes_stop(&n);
}

static const struct test_case cases[] = {
    {"quiet_far", quiet_far, {0}, true, 0},
    {"quiet_far_dies", quiet_far_dies, {0}, true, 0},
    {NULL, NULL, {0}, false, 0},
};

int main(int argc, char **argv)
{
    return test_main(argc, argv, cases);
}
