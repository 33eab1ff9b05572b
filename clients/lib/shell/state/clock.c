/* SPDX-License-Identifier: Apache-2.0
 *
 * clock.c - the time, and a nap under the lock.
 *
 * Owns:   nothing. Thread: any.
 */
#include "clients/lib/shell/state/lock.h"

#include <time.h>

uint64_t lib_now_ns(void)
{
    struct timespec ts;
    clock_gettime(CLOCK_MONOTONIC, &ts);
    return (uint64_t)ts.tv_sec * 1000000000u + (uint64_t)ts.tv_nsec;
}

uint64_t lib_wall_ns(void)
{
    struct timespec wall;
    uint64_t        now = lib_now_ns();
    clock_gettime(CLOCK_REALTIME, &wall);
    return (uint64_t)wall.tv_sec * 1000000000u + (uint64_t)wall.tv_nsec - now;
}

int64_t lib_deadline(int64_t timeout_ms)
{
    if (timeout_ms < 0 || timeout_ms > INT64_MAX / 2000000)
        return INT64_MAX;
    return (int64_t)lib_now_ns() + timeout_ms * 1000000;
}

int64_t lib_left_ms(int64_t deadline_ns)
{
    int64_t left = deadline_ns - (int64_t)lib_now_ns();
    return deadline_ns == INT64_MAX ? INT64_MAX : left > 0 ? (left + 999999) / 1000000 : 0;
}
