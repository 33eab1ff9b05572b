/* SPDX-License-Identifier: Apache-2.0
 *
 * labels_test.c - tasks and actors that ask for nodes by their labels.
 *
 * Thread: the driver's main one.
 */
#include "tests/integration/cluster/nodes.h"

static manta_status where(manta_ctx *c, int argc, const manta_arg *argv)
{
    (void)argc, (void)argv;
    return manta_return_i64(c, manta_node());
}
MANTA_REGISTER(where, ">l");

/* Says that it runs (word 1 counts), and ends when word 0 says so. */
static manta_status held(manta_ctx *c, int argc, const manta_arg *argv)
{
    struct test_board *board = test_board_map(argv[0].u);
    (void)argc;
    atomic_fetch_add(&board->words[1], 1);
    return manta_return_i64(c, test_board_wait(&board->words[0], 1) ? manta_node() : 0);
}
MANTA_REGISTER(held, "u>l");

static manta_status place_new(manta_ctx *c, void **self, int argc, const manta_arg *argv)
{
    (void)c, (void)argc, (void)argv;
    *self = NULL;
    return MANTA_OK;
}
static manta_status place_where(manta_ctx *c, void *self, int argc, const manta_arg *argv)
{
    (void)self;
    return where(c, argc, argv);
}
MANTA_ACTOR(place, "", place_new, NULL, {"where", ">l", place_where});

static manta_ref *call(const char *labels)
{
    return manta_call("where", &(manta_task_opts){.labels = labels}, MANTA_NO_ARGS);
}

static void labels(void)
{
    struct nodes    n;
    manta_error     e;
    manta_node_info info[4];
    nodes_start(&n, 3, "1");
    CHECK_EQ(manta_nodes(info, 4, &e), 3);
    CHECK_STR(info[1].labels, "zone=z1,odd=yes");
    for (int i = 0; i < 3; i++) {
        CHECK_I64(call("odd"), n.ids[1]);
        CHECK_I64(call("zone=z2"), n.ids[2]);
        CHECK_I64(call("zone in (z0, z1), !odd"), n.ids[0]);
        CHECK_I64(call("zone !in (z0, z1)"), n.ids[2]);
        CHECK_I64(call("zone!=z0, even=yes"), n.ids[2]);
        CHECK_I64(call("zone=z7; zone=z2"), n.ids[2]);
    }
    manta_actor_opts at_odd = {.labels = "odd", .num_cpus = 1};
    manta_actor     *actor = manta_actor_new("place", &at_odd, MANTA_NO_ARGS);
    CHECK_I64(manta_actor_call(actor, "where", MANTA_NO_ARGS), n.ids[1]);
    manta_actor_free(actor);
    CHECK_FAILS(call("gpu"), MANTA_EUNSCHEDULABLE, &e);
    CHECK_SAYS(e.message, "wants a node with the labels \"gpu\"; node");
    CHECK_SAYS(e.message, "has \"zone=z");
    CHECK_FAILS(call("zone in z0"), MANTA_EINVAL, &e);
    CHECK_SAYS(e.message, "label selector \"zone in z0\": can't be read from \"in z0\" on");
    nodes_stop(&n);
}

/* An earlier alternative is taken as long as it has room, then the next one. */
static void labels_alternatives(void)
{
    struct nodes    n;
    uint64_t        number;
    manta_ref      *held_there[2];
    manta_error     e;
    manta_task_opts opts = {.labels = "zone=z2; zone=z1"};
    nodes_start(&n, 3, "1");
    struct test_board *board = test_board_new(&number);
    int64_t            seen[2];
    for (int i = 0; i < 2; i++)
        held_there[i] = manta_call("held", &opts, MANTA_ARGS(manta_u64(number)));
    CHECK(test_board_wait(&board->words[1], 2)); /* at a time: each node has one CPU */
    atomic_store(&board->words[0], 1);
    for (int i = 0; i < 2; i++) {
        CHECK_CODE(manta_get_i64(held_there[i], TEST_WAIT_MS, &seen[i], &e), MANTA_OK, &e);
        manta_free(held_there[i]);
    }
    CHECK((seen[0] == n.ids[2] && seen[1] == n.ids[1]) || (seen[0] == n.ids[1] && seen[1] == n.ids[2]));
    nodes_stop(&n);
}

static void labels_private(void)
{
    manta_error e;
    CHECK_I64(call("disk=ssd, !gpu"), manta_node());
    CHECK_FAILS(call("disk=hdd"), MANTA_EUNSCHEDULABLE, &e);
    CHECK_SAYS(e.message, "\"disk=hdd\"; node 1 has \"disk=ssd\"");
    CHECK_I64(call("disk=hdd;"), manta_node());
    CHECK_I64(call("  "), manta_node());
}

static void labels_bad_option(void)
{
    manta_error     e;
    manta_init_opts opts = {.labels = "disk"};
    CHECK_CODE(manta_init(&test_argc, &test_argv, &opts, &e), MANTA_EINVAL, &e);
    CHECK_SAYS(e.message, "labels \"disk\": can't be read");
}

static const struct test_case cases[] = {
    {"labels", labels, {0}, true, 0},
    {"labels_alternatives", labels_alternatives, {0}, true, 0},
    {"labels_private", labels_private, {.num_cpus = 1, .labels = "disk=ssd"}, false, 0},
    {"labels_bad_option", labels_bad_option, {0}, true, 0},
    {NULL, NULL, {0}, false, 0},
};

int main(int argc, char **argv)
{
    return test_main(argc, argv, cases);
}
