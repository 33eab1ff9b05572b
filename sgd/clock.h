/* SPDX-License-Identifier: Apache-2.0
 *
 * clock.h - the clock by which sgd waits and measures.
 */
#ifndef SGD_CLOCK_H
#define SGD_CLOCK_H

#include <stdint.h>
#include <time.h>

/* CLOCK_MONOTONIC, the same clock in all processes of a node. */
static inline int64_t sgd_now_ns(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (int64_t)t.tv_sec * 1000000000 + t.tv_nsec;
}

#endif
