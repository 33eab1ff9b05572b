/* SPDX-License-Identifier: Apache-2.0
 *
 * clock.h - the two clocks, and a nap. State machines get time with their events instead.
 */
#ifndef MT_CLOCK_H
#define MT_CLOCK_H

#include <stdint.h>
#include <time.h>

/* CLOCK_MONOTONIC, by which all waits and measures go: the same clock in all processes of a node. */
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

/* CLOCK_REALTIME, which people and other machines go by. Somebody may set it, so nothing waits or measures by it. */
static inline uint64_t mt_wall_ns(void)
{
    struct timespec t;
    clock_gettime(CLOCK_REALTIME, &t);
    return (uint64_t)t.tv_sec * 1000000000 + (uint64_t)t.tv_nsec;
}

static inline uint64_t mt_wall_ms(void)
{
    return mt_wall_ns() / 1000000;
}

/* A signal may end it early. */
static inline void mt_sleep_ms(int ms)
{
    struct timespec t = {ms / 1000, ms % 1000 * 1000000l};
    nanosleep(&t, NULL);
}

#endif
