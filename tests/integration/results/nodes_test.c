/* SPDX-License-Identifier: Apache-2.0
 *
 * nodes_test.c - generators, several results and declared refs between two nodes.
 *
 * Thread: the driver's main one.
 */
#include "tests/integration/cluster/nodes.h"

#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#define THERE \
    &(manta_task_opts) \
    { \
        AT(1) \
    }

/* Items: their number, every hundredth in 20,000 bytes. */
static manta_status numbers(manta_ctx *c, int argc, const manta_arg *argv)
{
    static char  data[20000];
    manta_status st = MANTA_OK;
    (void)argc;
    for (int64_t i = 0; i < argv[0].l && st == MANTA_OK; i++) {
        memcpy(data, &i, sizeof i);
        st = manta_yield(c, manta_bytes_of(data, i % 100 ? sizeof i : sizeof data));
    }
    return st;
}
MANTA_REGISTER(numbers, "l>y");

/* Items until it is stopped; the board says how many, its pid, and how it ended. */
static manta_status endless(manta_ctx *c, int argc, const manta_arg *argv)
{
    struct test_board *board = test_board_map(argv[0].u);
    manta_status       st;
    (void)argc;
    while ((st = manta_yield(c, manta_i64(manta_node()))) == MANTA_OK)
        atomic_fetch_add(&board->words[0], 1);
    atomic_store(&board->words[2], st);
    return MANTA_OK;
}
MANTA_REGISTER(endless, "u>l");

static manta_status pair(manta_ctx *c, int argc, const manta_arg *argv)
{
    char *large = calloc(1, 50000);
    (void)argc;
    memcpy(large, &argv[0].l, 8);
    manta_return_at(c, 0, manta_i64(manta_node()));
    manta_return_at(c, 1, manta_bytes_of(large, 50000));
    free(large);
    return MANTA_OK;
}
MANTA_REGISTER(pair, "l>ly");

static manta_status make_refs(manta_ctx *c, int argc, const manta_arg *argv)
{
    manta_ref   *refs[300];
    manta_status st;
    (void)argc;
    for (int64_t i = 0; i < 300; i++)
        refs[i] = manta_put(&i, sizeof i);
    st = manta_return_refs(c, &argv[0].l, 8, refs, 300);
    for (int i = 0; i < 300; i++)
        manta_free(refs[i]);
    return st;
}
MANTA_REGISTER(make_refs, "l>y");

/* Adds up what the refs in a value hold. */
static manta_status add_up(manta_ctx *c, int argc, const manta_arg *argv)
{
    manta_error e;
    manta_view  view;
    manta_ref  *refs[300];
    int64_t     sum = 0, count = -1;
    (void)argc;
    if (manta_get(argv[0].r, TEST_WAIT_MS, &view, &e) == MANTA_OK) {
        count = manta_view_refs(&view, refs, 300, &e);
        manta_release(&view);
    }
    for (int64_t i = 0; i < count; i++) {
        if (manta_get(refs[i], TEST_WAIT_MS, &view, &e))
            return manta_fail(c, 1, "%s", e.message);
        sum += *(const int64_t *)view.data;
        manta_release(&view);
        manta_free(refs[i]);
    }
    return count < 0 ? manta_fail(c, 2, "%s", e.message) : manta_return_i64(c, sum);
}
MANTA_REGISTER(add_up, "r>l");

static void streams_cross(void)
{
    struct nodes     n;
    manta_error      e;
    manta_view       view;
    manta_generator *g;
    nodes_start(&n, 2, "2");
    g = manta_call_stream("numbers", THERE, MANTA_ARGS(manta_i64(20000)));
    for (int64_t i = 0; i < 20000; i++) {
        CHECK_CODE(manta_next(g, TEST_WAIT_MS, &view, &e), MANTA_OK, &e);
        CHECK_EQ(view.size, i % 100 ? 8 : 20000);
        CHECK(memcmp(view.data, &i, sizeof i) == 0);
        manta_release(&view);
    }
    CHECK_CODE(manta_next(g, TEST_WAIT_MS, &view, &e), MANTA_EEND, &e);
    manta_generator_free(g);
    nodes_stop(&n);
}

static void stream_held_back_there(void)
{
    struct nodes       n;
    uint64_t           number;
    manta_error        e;
    manta_view         view;
    manta_task_opts    opts = {.backpressure = 8};
    struct test_board *board;
    manta_generator   *g;
    nodes_start(&n, 2, "2");
    board = test_board_new(&number);
    opts.resources = nodes_at(1);
    opts.resource_count = 1;
    g = manta_call_stream("endless", &opts, MANTA_ARGS(manta_u64(number)));
    CHECK(test_board_wait(&board->words[0], 8));
    test_sleep_ms(50);
    CHECK_EQ(atomic_load(&board->words[0]), 8);
    for (int i = 0; i < 200; i++) {
        CHECK_CODE(manta_next(g, TEST_WAIT_MS, &view, &e), MANTA_OK, &e);
        CHECK_EQ(*(const int64_t *)view.data, n.ids[1]);
        manta_release(&view);
    }
    CHECK(atomic_load(&board->words[0]) <= 208);
    manta_generator_free(g);
    CHECK(test_board_wait(&board->words[2], MANTA_ECANCELLED));
    nodes_stop(&n);
}

/* What had arrived stays; then the error. */
static void stream_node_dies(void)
{
    struct nodes       n;
    uint64_t           number;
    manta_error        e;
    manta_view         view;
    manta_status       st;
    manta_task_opts    opts = {.backpressure = 8, .max_retries = MANTA_NO_RETRY};
    struct test_board *board;
    manta_generator   *g;
    int                count = 0;
    nodes_start(&n, 2, "2");
    board = test_board_new(&number);
    opts.resources = nodes_at(1);
    opts.resource_count = 1;
    g = manta_call_stream("endless", &opts, MANTA_ARGS(manta_u64(number)));
    CHECK(test_board_wait(&board->words[0], 8));
    nodes_kill(&n.raylets[1]);
    while ((st = manta_next(g, TEST_WAIT_MS, &view, &e)) == MANTA_OK)
        count++;
    CHECK_CODE(st, MANTA_ENODE_DIED, &e);
    CHECK(count <= 8);
    manta_generator_free(g);
    nodes_stop(&n);
}

static void several_cross(void)
{
    struct nodes n;
    manta_error  e;
    manta_view   view;
    manta_ref   *r[2];
    nodes_start(&n, 2, "2");
    for (int64_t i = 0; i < 50; i++) {
        CHECK_EQ(manta_call_n("pair", THERE, MANTA_ARGS(manta_i64(i)), r, 2), MANTA_OK);
        CHECK_I64(r[0], n.ids[1]);
        CHECK_CODE(manta_get(r[1], TEST_WAIT_MS, &view, &e), MANTA_OK, &e);
        CHECK(view.size == 50000 && memcmp(view.data, &i, sizeof i) == 0);
        manta_release(&view);
        manta_free(r[1]);
    }
    nodes_stop(&n);
}

/* Made here and read there, made there and read here and there. */
static void declared_cross(void)
{
    struct nodes n;
    manta_error  e;
    manta_view   view;
    manta_ref   *refs[300], *outer;
    int64_t      seven = 7;
    nodes_start(&n, 2, "2");
    for (int64_t i = 0; i < 300; i++)
        refs[i] = manta_put(&i, sizeof i);
    outer = manta_put_refs("x", 1, refs, 300);
    for (int i = 0; i < 300; i++)
        manta_free(refs[i]);
    CHECK_I64(manta_call("add_up", THERE, MANTA_ARGS(manta_ref_arg(outer))), 300 * 299 / 2);
    manta_free(outer);
    outer = manta_call("make_refs", THERE, MANTA_ARGS(manta_i64(7)));
    CHECK_CODE(manta_get(outer, TEST_WAIT_MS, &view, &e), MANTA_OK, &e);
    CHECK(view.size == 8 && memcmp(view.data, &seven, 8) == 0);
    CHECK_EQ(manta_view_refs(&view, refs, 300, &e), 300);
    manta_release(&view);
    CHECK_I64(manta_call("add_up", THERE, MANTA_ARGS(manta_ref_arg(outer))), 300 * 299 / 2);
    CHECK_I64(manta_call("add_up", &(manta_task_opts){AT(0)}, MANTA_ARGS(manta_ref_arg(outer))), 300 * 299 / 2);
    manta_free(outer);
    for (int64_t i = 0; i < 300; i++) {
        CHECK_CODE(manta_get(refs[i], TEST_WAIT_MS, &view, &e), MANTA_OK, &e);
        CHECK(memcmp(view.data, &i, sizeof i) == 0);
        manta_release(&view);
        manta_free(refs[i]);
    }
    nodes_stop(&n);
}

#define OWN_INIT {0}, true, 0
int main(int argc, char **argv)
{
    static const struct test_case cases[] = {
        {"streams_cross", streams_cross, OWN_INIT},       {"stream_held_back_there", stream_held_back_there, OWN_INIT},
        {"stream_node_dies", stream_node_dies, OWN_INIT}, {"several_cross", several_cross, OWN_INIT},
        {"declared_cross", declared_cross, OWN_INIT},     {NULL, NULL, {0}, false, 0},
    };
    return test_main(argc, argv, cases);
}
