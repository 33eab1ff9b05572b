/* SPDX-License-Identifier: Apache-2.0
 *
 * clock.h - the clock by which libraries above libmanta wait and measure. State machines get time with their events instead.
 */
#ifndef MT_CLOCK_H
#define MT_CLOCK_H

#include <stdint.h>
#include <time.h>

/* CLOCK_MONOTONIC, the same clock in all processes of a node. */
static inline int64_t mt_now_ns(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (int64_t)t.tv_sec * 1000000000 + t.tv_nsec;
}

static inline int64_t mt_now_ms(void)
{
    return mt_now_ns() / 1000000;
}

static inline void mt_sleep_ms(int ms)
{
    struct timespec t = {ms / 1000, ms % 1000 * 1000000l};
    nanosleep(&t, NULL);
}

#endif
