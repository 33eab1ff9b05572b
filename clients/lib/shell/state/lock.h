/* SPDX-License-Identifier: Apache-2.0
 *
 * lock.h - the owner lock, whose word names the thread that holds it, and sleeping under it.
 *
 * So a call that would wait for its own thread is told: a signal handler has interrupted another call. And one word tells every
 * call whether it may be made at all: lib_door.is_open is false before manta_init, after manta_shutdown, and in a forked child,
 * where the kernel clears it.
 *
 * Thread: any.
 */
#ifndef LIB_LOCK_H
#define LIB_LOCK_H

#include "core/lane/shm.h"

#include <sys/single_threaded.h>

enum { LIB_DOOR_BYTES = 4096, LIB_HAS_SLEEPERS = 1 };

/* Found without a call: as if the library had been there when the program began, which glibc keeps some room for. */
#define LIB_THREAD_LOCAL __thread __attribute__((tls_model("initial-exec")))

/* One a thread; its address is the thread's name in the lock: no two that live have the same, and it is never 0 nor odd. */
struct lib_thread {
    _Alignas(8) bool is_waiting; /* inside a call, which has given the lock back meanwhile */
    bool in_callback;            /* of a watch: it runs on the thread that serves everyone, which may not wait */
};
extern LIB_THREAD_LOCAL struct lib_thread lib_thread;

struct lib_door {                            /* a page of its own: lib_door_watch_forks */
    _Alignas(LIB_DOOR_BYTES) shm_u64 holder; /* 0: nobody; else a lib_thread, and LIB_HAS_SLEEPERS */
    shm_u32 is_open;                         /* manta_init is done, manta_shutdown is not. Changed under the lock */
    uint8_t spare[LIB_DOOR_BYTES - 12];
};
static_assert(sizeof(struct lib_door) == LIB_DOOR_BYTES, "a page");
extern struct lib_door lib_door;

static inline bool lib_door_is_open(void)
{
    return shm_load32_acquire(&lib_door.is_open) != 0;
}

void lib_lock_slowly(void);
void lib_unlock_slowly(uint64_t held); /* what the word was: this thread and sleepers, or it did not hold the lock */

/* A process with one thread, as most workers are, needs nothing atomic; a handler of its own gives the lock back before the
 * thread goes on. */
static inline bool lib_lock_try(void)
{
    uint64_t free = 0;
    if (__libc_single_threaded) {
        free = shm_load64(&lib_door.holder);
        if (MT_LIKELY(!free))
            shm_store64(&lib_door.holder, (uintptr_t)&lib_thread);
        return !free;
    }
    return atomic_compare_exchange_strong_explicit(&lib_door.holder.v, &free, (uintptr_t)&lib_thread, memory_order_acquire,
                                                   memory_order_relaxed);
}
/* This thread holds the lock, or waits inside a call: it was interrupted there. */
static inline bool lib_is_inside(void)
{
    return lib_thread.is_waiting || (shm_load64(&lib_door.holder) & ~(uint64_t)LIB_HAS_SLEEPERS) == (uintptr_t)&lib_thread;
}
static inline void lib_lock(void)
{
    if (MT_UNLIKELY(!lib_lock_try()))
        lib_lock_slowly();
}
static inline void lib_unlock(void)
{
    uint64_t held;
    if (__libc_single_threaded) {
        held = shm_load64(&lib_door.holder);
        shm_store64(&lib_door.holder, 0);
    } else {
        held = atomic_exchange_explicit(&lib_door.holder.v, 0, memory_order_release);
    }
    if (MT_UNLIKELY(held != (uintptr_t)&lib_thread))
        lib_unlock_slowly(held);
}

/* ---- who sleeps until another thread has done something ---- */
struct lib_sleepers {
    shm_u32 calls;
};
/* Under the lock, which is released meanwhile. Until a call that comes after this began, or until_ns (lib_now_ns; INT64_MAX:
 * none), or for no reason. */
void lib_sleep(struct lib_sleepers *sleepers, int64_t until_ns);
/* Under the lock. */
void lib_wake_one(struct lib_sleepers *sleepers);
void lib_wake_all(struct lib_sleepers *sleepers);

/* ---- time ---- */
uint64_t lib_now_ns(void);
uint64_t lib_wall_ns(void); /* what makes wall clock of lib_now_ns */
int64_t  lib_deadline(int64_t timeout_ms);
/* The timeout_ms of a call that is to end by then; 0: that is over. */
int64_t lib_left_ms(int64_t deadline_ns);
/* Under the lock, which is released meanwhile. */
void lib_nap(int64_t ns);

/* ---- forks ---- */
/* From now on a child of this process finds the door closed and the lock free, whatever system call made it. */
void lib_door_watch_forks(void);
/* The same, in a child. */
void lib_door_forked(void);

#endif
