/* SPDX-License-Identifier: Apache-2.0
 *
 * adopt_test.c - values that only a node has which leaves: others adopt them, and who knew the old place is sent on.
 *
 * No function here may run twice (MANTA_NO_RETRY, no max_task_retries), so nothing that is lost could be made again. Word 0 of the
 * board counts runs.
 *
 * Thread: the driver's main one.
 */
#include "tests/integration/cluster/leaving.h"
#include "tests/integration/cluster/lost.h"

#include <signal.h>
#include <stdio.h>

enum { MANY = 200, MANY_BYTES = 8 * 1024, LARGE_BYTES = 20 << 20 };

/* (seed, bytes, board) */
static manta_status sized(manta_ctx *c, int argc, const manta_arg *argv)
{
    size_t size = argv[1].u;
    char  *data = malloc(size);
    (void)argc;
    if (!data)
        return manta_fail(c, 1, "no memory");
    atomic_fetch_add(&test_board_map(argv[2].u)->words[0], 1);
    nodes_fill(data, size, argv[0].l);
    manta_status code = manta_return_bytes(c, data, size);
    free(data);
    return code;
}
MANTA_REGISTER(sized, "luu>y");

/* (bytes): a ref to a value that the worker owns. */
static manta_status owned(manta_ctx *c, int argc, const manta_arg *argv)
{
    char *data = calloc(1, argv[0].u);
    (void)argc;
    manta_ref   *ref = data ? manta_put(data, argv[0].u) : NULL;
    manta_status code = ref ? manta_return_refs(c, "x", 1, &ref, 1) : manta_fail(c, 1, "no memory");
    free(data);
    manta_free(ref);
    return code;
}
MANTA_REGISTER(owned, "u>y");

static manta_status maker_new(manta_ctx *c, void **self, int argc, const manta_arg *argv)
{
    (void)c, (void)argc, (void)argv;
    *self = NULL;
    return MANTA_OK;
}
static manta_status maker_make(manta_ctx *c, void *self, int argc, const manta_arg *argv)
{
    (void)self;
    return sized(c, argc, argv);
}
MANTA_ACTOR(maker, "", maker_new, NULL, {"make", "luu>y", maker_make});

static struct nodes nodes;

/* Asks it to leave, and waits until it has, by itself. */
static void ask_to_leave(int i, int64_t limit_ms)
{
    manta_error   e;
    manta_client *c = leaving_client(&nodes);
    CHECK_CODE(manta_node_drain(c, nodes.ids[i], limit_ms, "a test", &e), MANTA_OK, &e);
    manta_client_close(c);
}

static void leave(int i, int64_t limit_ms)
{
    ask_to_leave(i, limit_ms);
    leaving_wait(&nodes, i);
}

static manta_ref *make(int i, int64_t seed, uint64_t size)
{
    manta_task_opts there = {AT(i), .max_retries = MANTA_NO_RETRY};
    return manta_call("sized", &there, MANTA_ARGS(manta_i64(seed), manta_u64(size), manta_u64(lost_board_number)));
}

static void check_value(manta_ref *ref, int64_t seed, size_t size)
{
    manta_error e;
    manta_view  view;
    CHECK_CODE(manta_get(ref, TEST_WAIT_MS, &view, &e), MANTA_OK, &e);
    CHECK_EQ(view.size, size);
    CHECK(nodes_is_filled(view.data, view.size, seed));
    manta_release(&view);
}

/* Many small ones, a large one, an actor's; one that nobody reads; and a borrower that knows the old place alone. */
static void adopt_results(void)
{
    manta_ref *many[MANY];
    lost_begin(&nodes, 3);
    nodes_wait_alive(3);
    for (int i = 0; i < MANY; i++)
        many[i] = make(1, i, MANY_BYTES);
    manta_ref   *large = make(1, 1000, LARGE_BYTES), *unread = make(1, 1001, MANY_BYTES);
    manta_actor *actor = manta_actor_new("maker", &(manta_actor_opts){AT(1)}, MANTA_NO_ARGS);
    manta_ref   *made = manta_actor_call(actor, "make", MANTA_ARGS(manta_i64(1002), manta_u64(SIZE), manta_u64(lost_board_number)));
    for (int i = 0; i < MANY; i++)
        lost_wait_made(many[i]);
    lost_wait_made(large), lost_wait_made(unread), lost_wait_made(made);
    manta_ref *borrower = lost_borrow(2, large, 1000, LARGE_BYTES);
    manta_actor_free(actor);
    leave(1, 60000);
    lost_board->words[11] = 1;
    CHECK_I64(borrower, 1000);
    for (int i = 0; i < MANY; i++)
        check_value(many[i], i, MANY_BYTES);
    check_value(large, 1000, LARGE_BYTES);
    check_value(made, 1002, SIZE);
    CHECK_EQ(lost_board->words[0], MANY + 3);
    for (int i = 0; i < MANY; i++)
        manta_free(many[i]);
    manta_free(large), manta_free(unread), manta_free(made);
    nodes_stop(&nodes);
}

/* More values than either node has memory for are made on the one that leaves; all of them are there afterwards. */
static void spilled(int count, uint64_t bytes, void (*leaves)(void))
{
    enum { VALUES_MAX = 12 };
    manta_ref *refs[VALUES_MAX];
    nodes_start_spilling(&nodes, 2, "8", 24);
    lost_board = test_board_new(&lost_board_number);
    for (int i = 0; i < count; i++) {
        refs[i] = make(1, i, bytes);
        lost_wait_made(refs[i]);
    }
    leaves();
    for (int i = 0; i < count; i++) {
        check_value(refs[i], i, bytes);
        manta_free(refs[i]);
    }
    CHECK_EQ(lost_board->words[0], count);
    nodes_stop(&nodes);
}

static void leaves_at_once(void)
{
    leave(1, 60000);
}

static void leaves_standing_still(void)
{
    enum { STOPS = 8, STOP_MS = 700, GO_MS = 10 };
    ask_to_leave(1, 120000);
    for (int i = 0; i < STOPS; i++) {
        test_sleep_ms(GO_MS);
        CHECK_EQ(kill(nodes.raylets[1], SIGSTOP), 0);
        test_sleep_ms(STOP_MS);
        CHECK_EQ(kill(nodes.raylets[1], SIGCONT), 0);
    }
    leaving_wait(&nodes, 1);
}

/* What stands on disk there moves as well. */
static void adopt_spilled(void)
{
    spilled(12, 4 << 20, leaves_at_once);
}

/* The node that leaves stands still again and again, while what it has sent fills the other one's memory: that one waits until a
 * value is whole, which can go to disk then. */
static void adopt_slowly(void)
{
    spilled(10, 8 << 20, leaves_standing_still);
}

/* No other node has room, so it is not waited for: the node leaves, and the value is lost with it. */
static void adopt_no_room(void)
{
    enum { BYTES = 12 << 20 };
    nodes_start_store(&nodes, 2, "8", 16);
    lost_board = test_board_new(&lost_board_number);
    manta_ref *ref = make(1, 1, BYTES), *small = make(1, 2, SIZE);
    lost_wait_made(ref), lost_wait_made(small);
    char *mine = malloc(BYTES);
    CHECK(mine);
    nodes_fill(mine, BYTES, 3);
    manta_ref *full = manta_put(mine, BYTES);
    CHECK(full);
    free(mine);
    leave(1, 120000);
    lost_check_gone(ref, "can't be made again");
    check_value(small, 2, SIZE);
    manta_free(ref), manta_free(small), manta_free(full);
    nodes_stop(&nodes);
}

/* How many values of this size are in the memory of node i. */
static size_t values_of(int i, size_t size)
{
    char          filter[32];
    manta_error   e;
    manta_rows   *rows;
    manta_client *c = leaving_client(&nodes);
    snprintf(filter, sizeof filter, "size=%zu", size);
    const manta_look look = {.kind = "objects", .filters = (const char *[]){filter, NULL}, .node = nodes.ids[i]};
    CHECK_CODE(manta_state_list(c, &look, &rows, &e), MANTA_OK, &e);
    size_t count = rows->count;
    manta_rows_free(rows);
    manta_client_close(c);
    return count;
}

/* From node to node: to a third one where the owner's has no room, and home when there is some. */
static void adopt_twice(void)
{
    enum { BYTES = 12 << 20 };
    nodes_start_store(&nodes, 3, "8", 16);
    nodes_wait_alive(3);
    lost_board = test_board_new(&lost_board_number);
    char *mine = malloc(BYTES);
    CHECK(mine);
    nodes_fill(mine, BYTES, 3);
    manta_ref *full = manta_put(mine, BYTES);
    CHECK(full);
    free(mine);
    manta_ref *ref = make(1, 1, BYTES);
    lost_wait_made(ref);
    leave(1, 120000);
    CHECK_SOON(values_of(0, BYTES) == 1);
    manta_free(full);
    CHECK_SOON(values_of(0, BYTES) == 0);
    leave(2, 120000);
    check_value(ref, 1, BYTES);
    CHECK_EQ(lost_board->words[0], 1);
    manta_free(ref);
    nodes_stop(&nodes);
}

/* Who owns a value does not move: it goes with the node of its owner, and whoever asks for it hears why. */
static void adopt_not_owners(void)
{
    manta_error e;
    manta_view  view;
    manta_ref  *inner[1];
    lost_begin(&nodes, 3);
    nodes_wait_alive(3);
    manta_ref *outer = manta_call("owned", &(manta_task_opts){AT(1), .max_retries = MANTA_NO_RETRY},
                                  MANTA_ARGS(manta_u64(MANY_BYTES)));
    CHECK_CODE(manta_get(outer, TEST_WAIT_MS, &view, &e), MANTA_OK, &e);
    CHECK_EQ(manta_view_refs(&view, inner, 1, &e), 1);
    manta_release(&view);
    leave(1, 60000);
    CHECK_CODE(manta_get(inner[0], TEST_WAIT_MS, &view, &e), MANTA_ENODE_DIED, &e);
    CHECK_SAYS(e.message, "the process that owned this value is gone");
    CHECK_SAYS(e.message, "was drained, and is gone");
    manta_free(inner[0]), manta_free(outer);
    nodes_stop(&nodes);
}

int main(int argc, char **argv)
{
    static const struct test_case cases[] = {
        {.name = "adopt_results", .run = adopt_results, .no_init = true},
        {.name = "adopt_spilled", .run = adopt_spilled, .no_init = true},
        {.name = "adopt_slowly", .run = adopt_slowly, .no_init = true},
        {.name = "adopt_no_room", .run = adopt_no_room, .no_init = true},
        {.name = "adopt_twice", .run = adopt_twice, .no_init = true},
        {.name = "adopt_not_owners", .run = adopt_not_owners, .no_init = true},
        {0},
    };
    return test_main(argc, argv, cases);
}
