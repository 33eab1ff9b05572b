/* SPDX-License-Identifier: Apache-2.0
 *
 * far_test.c - taking back what was sent to another node.
 *
 * Thread: the driver's main one.
 */
#include "tests/integration/cancel/functions.h"
#include "tests/integration/cluster/nodes.h"

/* Its child runs on the driver's node. */
static manta_status parent(manta_ctx *c, int argc, const manta_arg *argv)
{
    manta_task_opts home = {AT(0)};
    manta_ref      *ref = manta_call("until_cancelled", &home, MANTA_ARGS(manta_u64(argv[0].u)));
    manta_error     e;
    manta_view      view;
    (void)c, (void)argc;
    manta_get(ref, MANTA_FOREVER, &view, &e);
    manta_free(ref);
    return MANTA_OK;
}
MANTA_REGISTER(parent, "u>");

static manta_ref *far_call(const char *name, uint64_t board)
{
    manta_task_opts there = {AT(1)};
    return manta_call(name, &there, MANTA_ARGS(manta_u64(board)));
}

static void is_cancelled(manta_ref *take_ref, int outcome)
{
    manta_error e;
    CHECK_FAILS(take_ref, MANTA_ECANCELLED, &e);
    CHECK_EQ(e.outcome, outcome);
}

static void far_queued(void)
{
    enum { COUNT = 100 };
    struct nodes n;
    uint64_t     number;
    manta_ref   *refs[COUNT];
    manta_error  e;
    nodes_start(&n, 2, "1");
    manta_task_opts    there = {AT(1)};
    struct test_board *board = test_board_new(&number);
    manta_ref         *gate = far_call("until_cancelled", number);
    CHECK(test_board_wait(&board->words[STARTED], 1));
    for (int i = 0; i < COUNT; i++)
        refs[i] = manta_call("count", &there, MANTA_ARGS(manta_u64(number), manta_i64(i)));
    test_sleep_ms(50); /* they stand at the worker by now */
    for (int i = 0; i < COUNT; i += 2)
        CHECK_CODE(manta_cancel(refs[i], NULL, &e), MANTA_OK, &e);
    for (int i = 0; i < COUNT; i += 2)
        is_cancelled(refs[i], MANTA_NOT_DONE); /* while the worker is busy */
    CHECK_CODE(manta_cancel(gate, NULL, &e), MANTA_OK, &e);
    is_cancelled(gate, MANTA_UNKNOWN);
    for (int i = 1; i < COUNT; i += 2)
        CHECK_I64(refs[i], i);
    CHECK_EQ(board->words[RAN], COUNT / 2);
    CHECK_EQ(board->words[STOPPED], 1);
    nodes_stop(&n);
}

static void far_running(void)
{
    struct nodes n;
    uint64_t     number;
    manta_error  e;
    nodes_start(&n, 2, "1");
    struct test_board *board = test_board_new(&number);
    for (int i = 1; i <= 3; i++) { /* the mark does not stay for the next task */
        manta_ref *ref = far_call("until_cancelled", number);
        CHECK(test_board_wait(&board->words[STARTED], i));
        test_sleep_ms(20);
        CHECK_EQ(board->words[STOPPED], i - 1);
        CHECK_CODE(manta_cancel(ref, NULL, &e), MANTA_OK, &e);
        is_cancelled(ref, MANTA_UNKNOWN);
        CHECK_EQ(board->words[STOPPED], i);
    }
    nodes_stop(&n);
}

static void far_forced(void)
{
    struct nodes n;
    uint64_t     number;
    manta_error  e;
    nodes_start(&n, 2, "1");
    manta_task_opts    there = {AT(1)};
    struct test_board *board = test_board_new(&number);
    manta_ref         *ref = far_call("deaf", number);
    manta_ref         *behind = manta_call("count", &there, MANTA_ARGS(manta_u64(number), manta_i64(4)));
    CHECK(test_board_wait(&board->words[STARTED], 1));
    CHECK_CODE(manta_cancel(ref, &(manta_cancel_opts){.force = true}, &e), MANTA_OK, &e);
    is_cancelled(ref, MANTA_UNKNOWN);
    CHECK_I64(behind, 4);
    CHECK_EQ(board->words[STARTED], 1);
    nodes_stop(&n);
}

/* As here (cancel_test.c): its worker and its lane are the next ones'. */
static void far_forced_ends_by_itself(void)
{
    struct nodes n;
    uint64_t     number;
    manta_error  e;
    nodes_start(&n, 2, "1");
    manta_task_opts    there = {AT(1)};
    struct test_board *board = test_board_new(&number);
    int64_t            limit = test_now_ms() + TEST_WAIT_MS, pid = 0;
    for (int in_time = 0, i = 1; in_time < 3; i++) {
        manta_ref *ref = far_call("until_cancelled", number);
        CHECK(test_board_wait(&board->words[STARTED], i));
        int64_t from = test_now_ms(), before = pid;
        CHECK_CODE(manta_cancel(ref, &(manta_cancel_opts){.force = true}, &e), MANTA_OK, &e);
        is_cancelled(ref, MANTA_UNKNOWN);
        bool is_in_time = test_now_ms() - from < MOMENT_MS;
        ref = manta_call("whose", &there, MANTA_NO_ARGS);
        CHECK_CODE(manta_get_i64(ref, TEST_WAIT_MS, &pid, &e), MANTA_OK, &e);
        manta_free(ref);
        CHECK(!is_in_time || !before || pid == before);
        CHECK(is_in_time || test_now_ms() < limit);
        in_time += is_in_time;
    }
    nodes_stop(&n);
}

static void far_children(void)
{
    struct nodes n;
    uint64_t     number;
    manta_error  e;
    nodes_start(&n, 2, "1");
    struct test_board *board = test_board_new(&number);
    manta_ref         *ref = far_call("parent", number);
    CHECK(test_board_wait(&board->words[STARTED], 1));
    CHECK_CODE(manta_cancel(ref, &(manta_cancel_opts){.recursive = true}, &e), MANTA_OK, &e);
    is_cancelled(ref, MANTA_UNKNOWN);
    CHECK(test_board_wait(&board->words[STOPPED], 1));
    nodes_stop(&n);
}

int main(int argc, char **argv)
{
    static const struct test_case cases[] = {
        {"far_queued", far_queued, {0}, true, 0},     {"far_running", far_running, {0}, true, 0},
        {"far_forced", far_forced, {0}, true, 0},     {"far_forced_ends_by_itself", far_forced_ends_by_itself, {0}, true, 0},
        {"far_children", far_children, {0}, true, 0}, {NULL, NULL, {0}, false, 0},
    };
    return test_main(argc, argv, cases);
}
