/* SPDX-License-Identifier: Apache-2.0
 *
 * copies_test.c - values whose node is killed, and that other nodes have copies of: a copy becomes the value, no task runs again.
 *
 * Word 0 of the board counts the runs of what made a value.
 *
 * Thread: the driver's main one.
 */
#include "tests/integration/cluster/lost.h"

#include <signal.h>

enum { MANY = 40 };

/* (seed, board) */
static manta_status made(manta_ctx *c, int argc, const manta_arg *argv)
{
    (void)argc;
    atomic_fetch_add(&test_board_map(argv[1].u)->words[0], 1);
    return lost_give(c, argv[0].l);
}
MANTA_REGISTER(made, "lu>y");
static manta_status seen(manta_ctx *c, int argc, const manta_arg *argv)
{
    (void)argc;
    return manta_return_i64(c, lost_seen(argv[0].y.data, argv[0].y.size, argv[1].l));
}
MANTA_REGISTER(seen, "yl>l");
/* (bytes): so many are in this node's store for a moment, so that copies had to make room. */
static manta_status fill(manta_ctx *c, int argc, const manta_arg *argv)
{
    manta_ref *refs[64];
    int        count = (int)(argv[0].u >> 20);
    (void)argc;
    char *data = calloc(1, 1 << 20);
    for (int i = 0; i < count; i++) {
        refs[i] = data && i < 64 ? manta_put(data, 1 << 20) : NULL;
        if (!refs[i])
            return manta_fail(c, 1, "no room");
    }
    for (int i = 0; i < count; i++)
        manta_free(refs[i]);
    free(data);
    return manta_return_i64(c, count);
}
MANTA_REGISTER(fill, "u>l");

static manta_status maker_new(manta_ctx *c, void **self, int argc, const manta_arg *argv)
{
    (void)c, (void)self, (void)argc, (void)argv;
    return MANTA_OK;
}
static manta_status maker_make(manta_ctx *c, void *self, int argc, const manta_arg *argv)
{
    (void)self;
    return made(c, argc, argv);
}
MANTA_ACTOR(maker, "", maker_new, NULL, {"make", "lu>y", maker_make});

static struct nodes nodes;

static manta_ref *make(int64_t seed, int retries)
{
    return manta_call("made", &(manta_task_opts){AT(1), .max_retries = retries},
                      MANTA_ARGS(manta_i64(seed), manta_u64(lost_board_number)));
}

/* Node i reads it, and has a copy then. */
static void read_on(int i, manta_ref *ref, int64_t seed)
{
    CHECK_I64(manta_call("seen", &(manta_task_opts){AT(i)}, MANTA_ARGS(manta_ref_arg(ref), manta_i64(seed))), seed);
}

static void begin(void)
{
    lost_begin(&nodes, 3);
    nodes_wait_alive(3);
}

static void end(int runs)
{
    CHECK_EQ(lost_board->words[0], runs);
    nodes_stop(&nodes);
}

/* What no task may make again, of tasks and of an actor that dies with the node: read on node 2 alone, got here, and by who knows
 * the old place. */
static void copies_without_retry(void)
{
    manta_ref *refs[MANY];
    begin();
    manta_actor *actor = manta_actor_new("maker", &(manta_actor_opts){AT(1)}, MANTA_NO_ARGS);
    for (int i = 0; i < MANY; i++) {
        refs[i] = i % 2 ? make(i, MANTA_NO_RETRY)
                        : manta_actor_call(actor, "make", MANTA_ARGS(manta_i64(i), manta_u64(lost_board_number)));
        read_on(2, refs[i], i);
    }
    manta_ref *borrower = lost_borrow(0, refs[1], 1, SIZE);
    lost_kill(&nodes);
    lost_board->words[11] = 1;
    CHECK_I64(borrower, 1);
    for (int i = 0; i < MANY; i++)
        lost_check_value(refs[i], i);
    read_on(2, refs[0], 0);
    for (int i = 0; i < MANY; i++)
        manta_free(refs[i]);
    manta_free(borrower), manta_actor_free(actor);
    end(MANY);
}

/* The driver has read it, so its own node has the copy, which others get then; it outlives what makes room here for others. */
static void copies_of_driver(void)
{
    begin();
    manta_ref *ref = make(7, MANTA_NO_RETRY);
    lost_check_value(ref, 7);
    lost_kill(&nodes);
    read_on(2, ref, 7);
    CHECK_I64(manta_call("fill", &(manta_task_opts){AT(0)}, MANTA_ARGS(manta_u64(32 << 20))), 32);
    lost_check_value(ref, 7);
    manta_free(ref);
    end(1);
}

/* A task could make it again, and need not: also as an argument. */
static void copies_before_lineage(void)
{
    begin();
    manta_ref *ref = make(9, 3);
    read_on(2, ref, 9);
    lost_kill(&nodes);
    read_on(0, ref, 9);
    lost_check_value(ref, 9);
    manta_free(ref);
    end(1);
}

/* Two nodes die, one after the other: the second one had what the first one had. */
static void copies_twice(void)
{
    begin();
    manta_ref *ref = make(11, MANTA_NO_RETRY);
    read_on(2, ref, 11);
    lost_kill(&nodes);
    read_on(2, ref, 11);
    lost_check_value(ref, 11); /* ... and a copy here */
    nodes_kill(&nodes.raylets[2]);
    nodes_wait_alive(1);
    lost_check_value(ref, 11);
    read_on(0, ref, 11);
    manta_free(ref);
    end(1);
}

/* It is silent, as after a power cut, and so is dead only after a while, in which nobody reads the copy. */
static void copies_of_silent(void)
{
    begin();
    manta_ref *ref = make(12, MANTA_NO_RETRY);
    read_on(2, ref, 12);
    test_sleep_ms(2000); /* its node was well for a while after that */
    CHECK_EQ(kill(nodes.raylets[1], SIGSTOP), 0);
    nodes_wait_alive(2);
    lost_check_value(ref, 12);
    nodes_kill(&nodes.raylets[1]);
    manta_free(ref);
    end(1);
}

/* The node with the copy goes first: with a task the value is made again, else it is lost. */
static void copies_gone(void)
{
    begin();
    const manta_task_opts opts = {.labels = lost_victim(), .max_retries = 3};
    manta_ref            *ref = manta_call("made", &opts, MANTA_ARGS(manta_i64(13), manta_u64(lost_board_number))),
              *once = make(14, MANTA_NO_RETRY);
    read_on(2, ref, 13), read_on(2, once, 14);
    lost_heir(&nodes);
    nodes_kill(&nodes.raylets[2]);
    nodes_kill(&nodes.raylets[1]);
    nodes_wait_alive(2);
    lost_check_value(ref, 13);
    lost_check_gone(once, "can't be made again");
    lost_check_gone(once, "can't be made again");
    manta_free(ref), manta_free(once);
    end(3);
}

int main(int argc, char **argv)
{
    static const struct test_case cases[] = {
        {.name = "copies_without_retry", .run = copies_without_retry, .no_init = true},
        {.name = "copies_of_driver", .run = copies_of_driver, .no_init = true},
        {.name = "copies_before_lineage", .run = copies_before_lineage, .no_init = true},
        {.name = "copies_twice", .run = copies_twice, .no_init = true},
        {.name = "copies_of_silent", .run = copies_of_silent, .no_init = true},
        {.name = "copies_gone", .run = copies_gone, .no_init = true},
        {0},
    };
    return test_main(argc, argv, cases);
}
