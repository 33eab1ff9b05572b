/* SPDX-License-Identifier: Apache-2.0
 *
 * shm.h - the only operations that the shared-memory protocols may use.
 *
 * Every word that two processes share is a shm_u32 or shm_u64 and is touched through these functions; bytes that a
 * release store publishes are copied by shm_write and shm_read. With LANE_CHECK defined (the interleaving checker)
 * each of them becomes a scheduling point with store buffers; tests/unit/lane/check.h supplies them then.
 */
#ifndef LANE_SHM_H
#define LANE_SHM_H

#include "core/base/status.h"

#include <stdatomic.h>
#include <stdbool.h>
#include <string.h>

typedef struct shm_u32 {
    _Atomic(uint32_t) v;
} shm_u32;
typedef struct shm_u64 {
    _Atomic(uint64_t) v;
} shm_u64;
static_assert(sizeof(shm_u32) == 4 && sizeof(shm_u64) == 8, "lock-free words, the same in every process");

#ifdef LANE_CHECK
#include "tests/unit/lane/check.h"
#else

static inline uint32_t shm_load32(shm_u32 *w) /* relaxed: a hint, or our own word */
{
    return atomic_load_explicit(&w->v, memory_order_relaxed);
}
static inline uint32_t shm_load32_acquire(shm_u32 *w)
{
    return atomic_load_explicit(&w->v, memory_order_acquire);
}
static inline void shm_store32(shm_u32 *w, uint32_t x)
{
    atomic_store_explicit(&w->v, x, memory_order_relaxed);
}
static inline void shm_store32_release(shm_u32 *w, uint32_t x)
{
    atomic_store_explicit(&w->v, x, memory_order_release);
}
static inline uint32_t shm_exchange32(shm_u32 *w, uint32_t x)
{
    return atomic_exchange_explicit(&w->v, x, memory_order_seq_cst);
}
static inline uint32_t shm_add32(shm_u32 *w, uint32_t x)
{
    return atomic_fetch_add_explicit(&w->v, x, memory_order_seq_cst);
}
/* True, and the word becomes `to`, iff it was `from`. Full fence either way. */
static inline bool shm_cas32(shm_u32 *w, uint32_t from, uint32_t to)
{
    return atomic_compare_exchange_strong_explicit(&w->v, &from, to, memory_order_seq_cst, memory_order_seq_cst);
}
static inline uint64_t shm_load64(shm_u64 *w)
{
    return atomic_load_explicit(&w->v, memory_order_relaxed);
}
static inline uint64_t shm_load64_acquire(shm_u64 *w)
{
    return atomic_load_explicit(&w->v, memory_order_acquire);
}
static inline void shm_store64(shm_u64 *w, uint64_t x)
{
    atomic_store_explicit(&w->v, x, memory_order_relaxed);
}
static inline void shm_store64_release(shm_u64 *w, uint64_t x)
{
    atomic_store_explicit(&w->v, x, memory_order_release);
}
/* True, and the word becomes `to`, iff it was `from`. Full fence either way. */
static inline bool shm_cas64(shm_u64 *w, uint64_t from, uint64_t to)
{
    return atomic_compare_exchange_strong_explicit(&w->v, &from, to, memory_order_seq_cst, memory_order_seq_cst);
}
/* Orders every earlier store before every later load, which acquire and release alone do not. */
static inline void shm_fence(void)
{
    atomic_thread_fence(memory_order_seq_cst);
}
static inline void shm_write(void *to, const void *from, size_t size)
{
    memcpy(to, from, size);
}
static inline void shm_read(void *to, const void *from, size_t size)
{
    memcpy(to, from, size);
}
static inline void shm_pause(void)
{
#if defined(__x86_64__)
    __builtin_ia32_pause();
#endif
}
#endif

/* Sleeps while *w == expected, at most timeout_ns. Returns on a wake, a changed word, a signal or the limit: the
 * caller looks again. Works between processes that map the same page. */
void shm_futex_wait(shm_u32 *w, uint32_t expected, int64_t timeout_ns);
/* Wakes at most `count` sleepers. */
void shm_futex_wake(shm_u32 *w, int count);

#endif
