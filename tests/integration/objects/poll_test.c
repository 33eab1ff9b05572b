/* SPDX-License-Identifier: Apache-2.0
 *
 * poll_test.c - a program that asks for values with a limit of 0, without a pause.
 *
 * Thread: the driver's main one.
 */
#include "tests/integration/cluster/nodes.h"

#include <signal.h>
#include <stdlib.h>

enum { SIZE = 100000, POLLS = 200000 /* a message for each would be more than a raylet keeps for one process */, BETWEEN_MS = 50 };

static manta_status make(manta_ctx *c, int argc, const manta_arg *argv)
{
    static char data[SIZE];
    (void)argc;
    nodes_fill(data, SIZE, argv[0].l);
    return manta_return_bytes(c, data, SIZE);
}
MANTA_REGISTER(make, "l>y");

/* Ready, and on the other node. */
static manta_ref *made(int64_t i, int32_t max_retries)
{
    manta_error e;
    manta_ref  *ref = manta_call("make", &(manta_task_opts){AT(1), .max_retries = max_retries}, MANTA_ARGS(manta_i64(i)));
    CHECK_EQ(manta_wait(&ref, 1, 1, TEST_WAIT_MS, NULL, &e), 1);
    return ref;
}
/* Until it is there, or it is known why it is not. */
static manta_status polled(manta_ref *ref, manta_view *view, manta_error *e)
{
    manta_status code;
    do
        code = manta_get(ref, 0, view, e);
    while (code == MANTA_ETIMEDOUT);
    return code;
}
static void check_polled(manta_ref *ref, int64_t i)
{
    manta_error e;
    manta_view  view;
    CHECK_CODE(polled(ref, &view, &e), MANTA_OK, &e);
    CHECK_EQ(view.size, SIZE);
    CHECK(nodes_is_filled(view.data, SIZE, i));
    manta_release(&view);
    manta_free(ref);
}

static void poll_silent(void)
{
    struct nodes n;
    manta_view   view;
    manta_error  e;
    nodes_start(&n, 2, "2");
    manta_ref *ref = made(1, MANTA_NO_RETRY);
    kill(n.raylets[1], SIGSTOP);
    for (int i = 0; i < POLLS; i++)
        CHECK_CODE(manta_get(ref, 0, &view, &e), MANTA_ETIMEDOUT, &e);
    kill(n.raylets[1], SIGCONT);
    check_polled(ref, 1);
    check_polled(made(2, MANTA_NO_RETRY), 2);
    nodes_stop(&n);
}

/* Who only polls hears of what will never come, too, and has made again what can be. */
static void poll_lost(void)
{
    struct nodes n;
    manta_view   view;
    manta_error  e;
    nodes_start(&n, 2, "2");
    manta_ref *lost = made(1, MANTA_NO_RETRY), *again = made(2, 3);
    nodes_kill(&n.raylets[1]);
    manta_status code = polled(lost, &view, &e);
    CHECK(code == MANTA_EOBJ_LOST || code == MANTA_ENODE_DIED);
    manta_free(lost);
    CHECK((n.raylets[1] = nodes_add(&n, 1, "2", NULL)));
    check_polled(again, 2);
    nodes_stop(&n);
}

/* Until word 0 says so. */
static manta_status stay(manta_ctx *c, int argc, const manta_arg *argv)
{
    (void)argc;
    return manta_return_i64(c, test_board_wait(&test_board_map(argv[0].u)->words[0], 1));
}
MANTA_REGISTER(stay, "u>l");

/* Does other things between two polls, and takes in then what has come: `pending` comes later. */
static manta_status polled_between(manta_ref *ref, manta_ref *pending, manta_view *view, manta_error *e)
{
    manta_status code;
    while ((code = manta_get(ref, 0, view, e)) == MANTA_ETIMEDOUT)
        CHECK_EQ(manta_wait(&pending, 1, 1, BETWEEN_MS, NULL, NULL), 0);
    return code;
}

/* (ref, pending, seed): what polls of another's value come to; 0: it is all there. */
static manta_status borrowed(manta_ctx *c, int argc, const manta_arg *argv)
{
    manta_view   view = {0};
    manta_error  e;
    manta_status code = polled_between(argv[0].r, argv[1].r, &view, &e);
    bool         is_it = code == MANTA_OK && view.size == SIZE && nodes_is_filled(view.data, SIZE, argv[2].l);
    (void)argc;
    manta_release(&view);
    return manta_return_i64(c, code ? code : !is_it);
}
MANTA_REGISTER(borrowed, "rrl>l");

static int64_t borrow(manta_ref *ref, manta_ref *pending, int64_t i)
{
    return test_i64(
        manta_call("borrowed", &(manta_task_opts){AT(0)}, MANTA_ARGS(manta_ref_arg(ref), manta_ref_arg(pending), manta_i64(i))),
        __FILE__, __LINE__);
}

/* The answer, where the value is or why it is nowhere, comes between two polls: the next one tells it. Of the program's own values,
 * and of another process's. */
static void poll_between(void)
{
    struct nodes n;
    manta_view   view;
    manta_error  e;
    uint64_t     number;
    nodes_start(&n, 2, "2");
    struct test_board *board = test_board_new(&number);
    manta_ref         *lost = made(1, MANTA_NO_RETRY), *again = made(2, 3);
    nodes_kill(&n.raylets[1]);
    manta_ref   *pending = manta_call("stay", &(manta_task_opts){AT(0)}, MANTA_ARGS(manta_u64(number)));
    manta_status code = polled_between(lost, pending, &view, &e);
    CHECK(code == MANTA_EOBJ_LOST || code == MANTA_ENODE_DIED);
    int64_t others = borrow(lost, pending, 1);
    CHECK(others == MANTA_EOBJ_LOST || others == MANTA_ENODE_DIED);
    CHECK((n.raylets[1] = nodes_add(&n, 1, "2", NULL)));
    CHECK_EQ(borrow(again, pending, 2), 0);
    atomic_store(&board->words[0], 1);
    CHECK_I64(pending, 1);
    manta_free(lost), manta_free(again);
    nodes_stop(&n);
}

int main(int argc, char **argv)
{
    static const struct test_case cases[] = {{"poll_silent", poll_silent, {0}, true, 0},
                                             {"poll_lost", poll_lost, {0}, true, 0},
                                             {"poll_between", poll_between, {0}, true, 0},
                                             {NULL, NULL, {0}, false, 0}};
    return test_main(argc, argv, cases);
}
