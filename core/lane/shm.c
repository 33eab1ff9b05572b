/* SPDX-License-Identifier: Apache-2.0
 *
 * shm.c - sleeping and waking on a shared word. Thread: any; owns nothing.
 */
#include "core/lane/shm.h"

#include <limits.h>
#include <linux/futex.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#ifndef LANE_CHECK
void shm_futex_wait(shm_u32 *w, uint32_t expected, int64_t timeout_ns)
{
    struct timespec ts = {timeout_ns / 1000000000, timeout_ns % 1000000000};
    syscall(SYS_futex, &w->v, FUTEX_WAIT, expected, &ts, NULL, 0);
}

void shm_futex_wake(shm_u32 *w, int count)
{
    syscall(SYS_futex, &w->v, FUTEX_WAKE, count, NULL, NULL, 0);
}
#endif
