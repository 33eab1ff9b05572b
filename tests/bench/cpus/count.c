/* SPDX-License-Identifier: Apache-2.0
 *
 * count.c - how many tasks run at once.
 *
 * Always: a task that waits inside does not count, and one that goes on does not offend: only one that begins may. What begins
 * in place of a waiting task, in its process, is that task's turn.
 */
#include "tests/bench/cpus/cpus.h"

#include <stdatomic.h>

static struct bench_board *board;
static uint64_t            number;
static int                 waiting; /* tasks of this process */

bool count_begin(void)
{
    board = bench_board_new(&number);
    return board != NULL;
}

int64_t count_number(void)
{
    return (int64_t)number;
}

void count_task(int64_t at, int cpus, enum count_event what)
{
    if (!board && !(board = bench_board_map((uint64_t)at)))
        return;
    waiting += what == COUNT_WAITS ? 1 : what == COUNT_GOES_ON ? -1 : 0;
    if (what == COUNT_WAITS || what == COUNT_ENDS) {
        atomic_fetch_sub(&board->running, 1);
        return;
    }
    int64_t running = atomic_fetch_add(&board->running, 1) + 1, most = atomic_load(&board->most);
    if (what == COUNT_BEGINS && running > cpus && waiting == 0)
        atomic_fetch_add(&board->over, 1);
    while (running > most && !atomic_compare_exchange_weak(&board->most, &most, running))
        ;
}

int64_t count_over(int64_t *most)
{
    *most = atomic_exchange(&board->most, 0);
    return atomic_exchange(&board->over, 0);
}
