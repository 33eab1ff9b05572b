/* SPDX-License-Identifier: Apache-2.0
 *
 * victim.c - see victim.h. Owns nothing. Thread: the driver's main one; a worker's.
 */
#include "tests/integration/tasks/victim.h"

#include <unistd.h>

static manta_status victim(manta_ctx *c, int argc, const manta_arg *argv)
{
    (void)argc;
    struct test_board *board = test_board_map(argv[0].u);
    atomic_store(&board->words[2], getppid());
    atomic_store(&board->words[0], getpid());
    return test_board_wait(&board->words[1], 1) ? manta_return_i64(c, 0) : manta_fail(c, 1, "nobody came");
}
MANTA_REGISTER(victim, "u>l");

manta_ref *victim_call(struct test_board **out_board)
{
    manta_task_opts once = {.max_retries = MANTA_NO_RETRY};
    uint64_t        number;
    *out_board = test_board_new(&number);
    return manta_call("victim", &once, MANTA_ARGS(manta_u64(number)));
}
