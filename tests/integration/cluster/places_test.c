/* SPDX-License-Identifier: Apache-2.0
 *
 * places_test.c - a node runs so many processes and no more: who needs one goes to another node, or is told why not.
 *
 * Thread: the driver's main one.
 */
#include "tests/integration/cluster/nodes.h"

#include <stdio.h>
#include <stdlib.h>

enum { PLACES = 4 };

MANTA_TASK(int64_t, where, (int64_t, x))
{
    return x * 1000 + manta_node();
}
static manta_status holder_new(manta_ctx *c, void **self, int argc, const manta_arg *argv)
{
    (void)c, (void)self, (void)argc, (void)argv;
    return MANTA_OK;
}
static manta_status holder_node(manta_ctx *c, void *self, int argc, const manta_arg *argv)
{
    (void)self, (void)argc, (void)argv;
    return manta_return_i64(c, manta_node());
}
MANTA_ACTOR(holder, "", holder_new, NULL, {"node", ">l", holder_node});

static int64_t node_of(manta_actor *a)
{
    return test_i64(manta_actor_call(a, "node", MANTA_NO_ARGS), __FILE__, __LINE__);
}

/* More actors than the driver's own node may run: the others go to the node that has room. */
static void places_elsewhere(void)
{
    enum { ACTORS = 3 * PLACES };
    struct nodes n;
    manta_actor *actors[ACTORS];
    int          here = 0;
    nodes_start_places(&n, 2, "2", PLACES);
    for (int i = 0; i < ACTORS; i++)
        actors[i] = manta_actor_new("holder", NULL, MANTA_NO_ARGS);
    for (int i = 0; i < ACTORS; i++)
        here += node_of(actors[i]) == n.ids[0];
    CHECK(here > 0 && here <= PLACES);
    for (int i = 0; i < ACTORS; i++)
        manta_actor_free(actors[i]);
    nodes_stop(&n);
}

/* There is no other node. Actors do not end by themselves: a task, and one more actor, are told what they lack; with one of the
 * actors gone a task runs. */
static void places_full(void)
{
    struct nodes    n;
    manta_actor    *actors[PLACES];
    manta_error     e;
    manta_node_info info;
    nodes_start_places(&n, 1, "2", PLACES);
    for (int i = 0; i < PLACES; i++)
        actors[i] = manta_actor_new("holder", NULL, MANTA_NO_ARGS);
    for (int i = 0; i < PLACES; i++)
        CHECK_EQ(node_of(actors[i]), n.ids[0]);
    manta_actor *more = manta_actor_new("holder", NULL, MANTA_NO_ARGS);
    manta_ref   *task = manta_call("where", NULL, MANTA_ARGS(manta_i64(1)));
    CHECK_FAILS(task, MANTA_EAGAIN, &e);
    CHECK_SAYS(e.message, "--max-workers");
    CHECK_FAILS(manta_actor_call(more, "node", MANTA_NO_ARGS), MANTA_EAGAIN, &e);
    CHECK_SAYS(e.message, "--max-workers");
    manta_actor_free(more);
    CHECK_EQ(manta_nodes(&info, 1, &e), 1);
    manta_actor_kill(actors[0], false);
    CHECK_I64(manta_call("where", NULL, MANTA_ARGS(manta_i64(2))), 2000 + n.ids[0]);
    for (int i = 0; i < PLACES; i++)
        manta_actor_free(actors[i]);
    nodes_stop(&n);
}

/* Tasks of one class fill the node: those of another get a place when theirs are done, not only when CPUs are short. */
static void places_in_turns(void)
{
    struct nodes n;
    manta_ref   *refs[40];
    nodes_start_places(&n, 1, "64", PLACES);
    for (int i = 0; i < 40; i++) {
        manta_task_opts o = {.no_cpu = true, .num_cpus = 0};
        refs[i] = manta_call("where", i % 2 ? &o : NULL, MANTA_ARGS(manta_i64(i)));
    }
    for (int i = 0; i < 40; i++)
        CHECK_I64(refs[i], i * 1000 + (int64_t)n.ids[0]);
    nodes_stop(&n);
}

/* Parents that wait hold all places: they run their children themselves. */
static manta_status tree(manta_ctx *c, int argc, const manta_arg *argv)
{
    manta_ref  *children[2];
    manta_error e;
    int64_t     sum = 1, one;
    (void)argc;
    for (int i = 0; argv[0].l && i < 2; i++)
        children[i] = manta_call("tree", NULL, MANTA_ARGS(manta_i64(argv[0].l - 1)));
    for (int i = 0; argv[0].l && i < 2; i++) {
        if (manta_get_i64(children[i], MANTA_FOREVER, &one, &e))
            return manta_fail(c, 0, "%s", e.message);
        sum += one;
        manta_free(children[i]);
    }
    return manta_return_i64(c, sum);
}
MANTA_REGISTER(tree, "l>l");

static void places_nested(void)
{
    struct nodes n;
    nodes_start_places(&n, 1, "2", PLACES);
    CHECK_I64(manta_call("tree", NULL, MANTA_ARGS(manta_i64(7))), 255);
    nodes_stop(&n);
}

static const struct test_case cases[] = {
    {"places_elsewhere", places_elsewhere, {0}, true, 0},
    {"places_full", places_full, {0}, true, 0},
    {"places_in_turns", places_in_turns, {0}, true, 0},
    {"places_nested", places_nested, {0}, true, 0},
    {NULL, NULL, {0}, false, 0},
};

int main(int argc, char **argv)
{
    return test_main(argc, argv, cases);
}
