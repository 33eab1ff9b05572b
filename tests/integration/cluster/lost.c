/* SPDX-License-Identifier: Apache-2.0
 *
 * lost.c - a cluster whose node 1 dies, and the values that it had.
 *
 * Owns: the board. Thread: the driver's main one; lost_give and lost_seen any.
 */
#include "tests/integration/cluster/lost.h"

struct test_board *lost_board;
uint64_t           lost_board_number;

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

void lost_begin(struct nodes *n, int count)
{
    nodes_start(n, count, "8"); /* room for all on the node that they prefer */
    lost_board = test_board_new(&lost_board_number);
}

const char *lost_victim(const struct nodes *n)
{
    return n->count == 2 ? "zone=z1;zone=z0" : "zone=z1;zone=z2";
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
