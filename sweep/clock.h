/* SPDX-License-Identifier: Apache-2.0
 *
 * clock.h - the clock by which a sweep's driver waits and measures; the state machine gets it with its events.
 */
#ifndef SWP_CLOCK_H
#define SWP_CLOCK_H

#include <stdint.h>
#include <time.h>

static inline int64_t swp_now_ns(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (int64_t)t.tv_sec * 1000000000 + t.tv_nsec;
}

static inline void swp_sleep_ms(int ms)
{
    struct timespec t = {ms / 1000, ms % 1000 * 1000000l};
    nanosleep(&t, NULL);
}

#endif
