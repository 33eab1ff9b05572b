/* SPDX-License-Identifier: Apache-2.0
 *
 * functions.c - see functions.h. Thread: a worker's.
 */
#include "tests/integration/cancel/functions.h"

#include "tests/integration/harness.h"

#include <unistd.h>

static manta_status open_gate(manta_ctx *c, int argc, const manta_arg *argv)
{
    (void)c, (void)argc;
    struct test_board *board = test_board_map(argv[0].u);
    board->words[STARTED]++;
    return test_board_wait(&board->words[GATE], 1) ? MANTA_OK : manta_fail(c, 1, "the gate stays shut");
}
MANTA_REGISTER(open_gate, "u>");

static manta_status count(manta_ctx *c, int argc, const manta_arg *argv)
{
    (void)argc;
    test_board_map(argv[0].u)->words[RAN]++;
    return manta_return_i64(c, argv[1].l);
}
MANTA_REGISTER(count, "ul>l");

static manta_status whose(manta_ctx *c, int argc, const manta_arg *argv)
{
    (void)argc, (void)argv;
    return manta_return_i64(c, getpid());
}
MANTA_REGISTER(whose, ">l");

/* Runs until it is asked to stop; returns a value all the same. */
static manta_status until_cancelled(manta_ctx *c, int argc, const manta_arg *argv)
{
    struct test_board *board = test_board_map(argv[0].u);
    (void)argc;
    board->words[STARTED]++;
    while (!manta_is_cancelled(c))
        test_sleep_ms(1);
    board->words[STOPPED]++;
    return manta_return_i64(c, 7);
}
MANTA_REGISTER(until_cancelled, "u>l");

static manta_status deaf(manta_ctx *c, int argc, const manta_arg *argv)
{
    (void)c, (void)argc;
    test_board_map(argv[0].u)->words[STARTED]++;
    for (int i = 0; i < 600; i++)
        test_sleep_ms(1000);
    return MANTA_OK;
}
MANTA_REGISTER(deaf, "u>");
