/* SPDX-License-Identifier: Apache-2.0
 *
 * futex.h - sleep on a word of shared memory, and wake who sleeps there, in whatever process.
 */
#ifndef SGD_FUTEX_H
#define SGD_FUTEX_H

#include <limits.h>
#include <linux/futex.h>
#include <stdatomic.h>
#include <stdint.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

/* Sleeps while *word is `expected`: until a wake, a signal, or the limit. Callers look again in any case. */
static inline void sgd_futex_wait(_Atomic uint32_t *word, uint32_t expected, uint32_t limit_ms)
{
    struct timespec limit = {limit_ms / 1000, (long)(limit_ms % 1000) * 1000000};
    syscall(SYS_futex, word, FUTEX_WAIT, expected, &limit, NULL, 0);
}

static inline void sgd_futex_wake_all(_Atomic uint32_t *word)
{
    syscall(SYS_futex, word, FUTEX_WAKE, INT_MAX, NULL, NULL, 0);
}

#endif
