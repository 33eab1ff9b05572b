/* SPDX-License-Identifier: Apache-2.0
 *
 * quiet_test.c - manta_group_quiet with members on two nodes: what is under way between the nodes counts.
 *
 * Thread: the driver's main one. The board counts what the actors have done.
 */
#include "tests/integration/actors/talker.h"
#include "tests/integration/cluster/nodes.h"

MANTA_ACTOR(far_talker, "u", talker_new, talker_free, {"know", "A", talker_know}, {"pass", "ll", talker_pass});

static struct test_board *board;

/* A ring whose members are on the two nodes in turn. */
static manta_group *ring(int restarts)
{
    manta_actor *members[TALKERS];
    manta_error  e;
    uint64_t     number;
    board = test_board_new(&number);
    for (int i = 0; i < TALKERS; i++)
        members[i] = manta_actor_new("far_talker", &(manta_actor_opts){.max_restarts = restarts, AT(i % 2)},
                                     MANTA_ARGS(manta_u64(number)));
    manta_group *g = manta_group_of(members, TALKERS, &e);
    CHECK(g);
    talkers_join(g);
    for (int i = 0; i < TALKERS; i++)
        manta_actor_free(members[i]);
    return g;
}
static void quiet_far(void)
{
    struct nodes n;
    nodes_start(&n, 2, "2");
    manta_group *g = ring(0);
    talkers_talk(g, board, 1000);
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
    talkers_send(g, 0, INT64_MAX, 97);
    CHECK_CODE(manta_group_quiet(g, 100, &e), MANTA_ETIMEDOUT, &e);
    int pids[64], count = test_find(n.raylets[1], NULL, pids, 64);
    nodes_kill(&n.raylets[1]);
    for (int i = 0; i < count; i++)
        CHECK(test_gone(pids[i])); /* they may outlive it for a moment, and pass on what they had */
    CHECK_CODE(manta_group_quiet(g, TEST_WAIT_MS, &e), MANTA_EACTOR_DIED, &e);

    manta_actor *left[2] = {manta_group_actor(g, 0), manta_group_actor(g, 2)}; /* those of this node are at rest */
    manta_group *rest = manta_group_of(left, 2, &e);
    CHECK(rest);
    CHECK_CODE(manta_group_quiet(rest, TEST_WAIT_MS, &e), MANTA_OK, &e);
    uint64_t done = atomic_load(&board->words[TALKER_HOPS]);
    test_sleep_ms(50);
    CHECK_EQ(atomic_load(&board->words[TALKER_HOPS]), done);
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
