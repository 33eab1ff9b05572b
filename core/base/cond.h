/* SPDX-License-Identifier: Apache-2.0
 *
 * cond.h - conditions that are waited for with a limit, by the monotonic clock: who sets the machine's time makes no wait longer.
 *
 *   mt_cond_init(&changed);
 *   struct timespec until = mt_cond_until(limit_ms);
 *   while (!is_so && pthread_cond_timedwait(&changed, &lock, &until) == 0)
 *       ;
 */
#ifndef MT_COND_H
#define MT_COND_H

#include <pthread.h>
#include <stdint.h>
#include <time.h>

static inline void mt_cond_init(pthread_cond_t *cond)
{
    pthread_condattr_t attr;
    pthread_condattr_init(&attr);
    pthread_condattr_setclock(&attr, CLOCK_MONOTONIC);
    pthread_cond_init(cond, &attr);
    pthread_condattr_destroy(&attr);
}

/* In so many ms; not below 0. */
static inline struct timespec mt_cond_until(int64_t ms)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    t.tv_sec += ms / 1000;
    t.tv_nsec += ms % 1000 * 1000000;
    t.tv_sec += t.tv_nsec / 1000000000;
    t.tv_nsec %= 1000000000;
    return t;
}

#endif
