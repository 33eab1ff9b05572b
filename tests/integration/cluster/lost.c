/* SPDX-License-Identifier: Apache-2.0
 *
 * lost.c - a cluster whose node 1 dies, and the values that it had.
 *
 * Owns: the board. Thread: the driver's main one; lost_give and lost_seen any.
 */
#include "tests/integration/cluster/lost.h"

#include <stdio.h>

struct test_board *lost_board;
uint64_t           lost_board_number;
static char        victim[32];

manta_status lost_give(manta_ctx *c, int64_t seed)
{
    char *data = malloc(SIZE);
    if (!data)
        return manta_fail(c, 1, "no memory");
    nodes_fill(data, SIZE, seed);
    manta_status code = manta_return_bytes(c, data, SIZE);
    free(data);
    return code;
}

int64_t lost_seen(const char *data, size_t size, int64_t seed)
{
    return size == SIZE && nodes_is_filled(data, size, seed) ? seed : -1;
}

/* (ref, seed, size, board): says in word 10 that it has begun; when word 11 says so, reads the value. */
static manta_status lost_borrowed(manta_ctx *c, int argc, const manta_arg *argv)
{
    struct test_board *board = test_board_map(argv[3].u);
    manta_error        e;
    manta_view         view;
    (void)argc;
    atomic_fetch_add(&board->words[10], 1);
    if (!test_board_wait(&board->words[11], 1))
        return manta_fail(c, 1, "nobody came");
    if (manta_get(argv[0].r, TEST_WAIT_MS, &view, &e) != MANTA_OK)
        return manta_fail(c, e.code, "%s", e.message);
    int64_t got = view.size == argv[2].u && nodes_is_filled(view.data, view.size, argv[1].l) ? argv[1].l : -1;
    manta_release(&view);
    return manta_return_i64(c, got);
}
MANTA_REGISTER(lost_borrowed, "rluu>l");
static manta_status lost_here(manta_ctx *c, int argc, const manta_arg *argv)
{
    (void)argc, (void)argv;
    return manta_return_i64(c, manta_node());
}
MANTA_REGISTER(lost_here, ">l");

manta_ref *lost_borrow(int i, manta_ref *ref, int64_t seed, uint64_t size)
{
    manta_ref *borrower = manta_call(
        "lost_borrowed", &(manta_task_opts){AT(i)},
        MANTA_ARGS(manta_ref_arg(ref), manta_i64(seed), manta_u64(size), manta_u64(lost_board_number)));
    CHECK(test_board_wait(&lost_board->words[10], 1));
    return borrower;
}

void lost_begin(struct nodes *n, int count)
{
    nodes_start(n, count, "8"); /* room for all on the node that they prefer */
    snprintf(victim, sizeof victim, "zone=z1;zone=z%d", count);
    lost_board = test_board_new(&lost_board_number);
}

const char *lost_victim(void)
{
    return victim;
}

void lost_heir(struct nodes *n)
{
    int i = n->count++;
    n->raylets[i] = nodes_add(n, i, "8", NULL);
    CHECK(n->raylets[i]);
    nodes_wait_alive(n->count);
    CHECK(test_i64(manta_call("lost_here", &(manta_task_opts){AT(i)}, MANTA_NO_ARGS), __FILE__, __LINE__) > 0);
}

void lost_wait_made(manta_ref *ref)
{
    manta_error   e;
    unsigned char ready;
    CHECK_EQ(manta_wait(&ref, 1, 1, TEST_WAIT_MS, &ready, &e), 1);
}

void lost_check_value(manta_ref *ref, int64_t seed)
{
    manta_error e;
    manta_view  view;
    CHECK_CODE(manta_get(ref, TEST_WAIT_MS, &view, &e), MANTA_OK, &e);
    CHECK_EQ(lost_seen(view.data, view.size, seed), seed);
    manta_release(&view);
}

void lost_check_gone(manta_ref *ref, const char *says)
{
    manta_error e;
    manta_view  view;
    CHECK_CODE(manta_get(ref, TEST_WAIT_MS, &view, &e), MANTA_EOBJ_LOST, &e);
    CHECK_SAYS(e.message, says);
}

void lost_kill(struct nodes *n)
{
    nodes_kill(&n->raylets[1]);
    nodes_wait_alive(n->count - 1);
}

void lost_bring_back(struct nodes *n)
{
    n->raylets[1] = nodes_add(n, 1, "8", NULL);
    CHECK(n->raylets[1]);
    nodes_wait_alive(n->count);
}
