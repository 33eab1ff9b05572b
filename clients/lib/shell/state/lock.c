/* SPDX-License-Identifier: Apache-2.0
 *
 * lock.c - the owner lock where somebody else holds it, and its sleepers.
 *
 *   0 --try--> thread --unlock--> 0                     nobody else came
 *   thread --another comes--> thread|1 --unlock--> 0, one of those asleep is woken: --> its own|1, as others may sleep still
 *
 * Owns:   the lock. Thread: any.
 */
#include "clients/lib/shell/state/lock.h"

#include "core/base/status.h"

#include <limits.h>
#include <linux/futex.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

LIB_THREAD_LOCAL struct lib_thread lib_thread;
struct lib_door                    lib_door;

static void futex_wait(void *word, uint32_t seen, const struct timespec *limit)
{
    syscall(SYS_futex, word, FUTEX_WAIT_PRIVATE, seen, limit, NULL, 0);
}

static void futex_wake(void *word, int count)
{
    syscall(SYS_futex, word, FUTEX_WAKE_PRIVATE, count, NULL, NULL, 0);
}

/* The kernel compares 32 bits: the half of the word that has LIB_HAS_SLEEPERS. */
static void *lock_futex(void)
{
    static_assert(__BYTE_ORDER__ == __ORDER_LITTLE_ENDIAN__, "the lower half is the first one");
    return &lib_door.holder;
}

void lib_lock_slowly(void)
{
    const uint64_t self = (uintptr_t)&lib_thread;
    for (;;) {
        uint64_t seen = shm_load64(&lib_door.holder);
        if (!seen) {
            if (atomic_compare_exchange_strong_explicit(&lib_door.holder.v, &seen, self | LIB_HAS_SLEEPERS, memory_order_acquire,
                                                        memory_order_relaxed))
                return;
            continue;
        }
        if (!(seen & LIB_HAS_SLEEPERS) && !shm_cas64(&lib_door.holder, seen, seen | LIB_HAS_SLEEPERS))
            continue;
        futex_wait(lock_futex(), (uint32_t)seen | LIB_HAS_SLEEPERS, NULL);
    }
}

void lib_unlock_slowly(uint64_t held)
{
    MT_ASSERT((held & ~(uint64_t)LIB_HAS_SLEEPERS) == (uintptr_t)&lib_thread || !lib_door_is_open()); /* a child's word is wiped */
    if (held & LIB_HAS_SLEEPERS)
        futex_wake(lock_futex(), 1);
}

/* ---- sleepers ---- */

void lib_sleep(struct lib_sleepers *sleepers, int64_t until_ns)
{
    uint32_t        seen = shm_load32(&sleepers->calls);
    int64_t         left = until_ns == INT64_MAX ? INT64_MAX : until_ns - (int64_t)lib_now_ns();
    struct timespec limit = {left / 1000000000, left % 1000000000};
    lib_unlock();
    if (left > 0)
        futex_wait(&sleepers->calls, seen, until_ns == INT64_MAX ? NULL : &limit);
    lib_lock();
}

static void wake(struct lib_sleepers *sleepers, int count)
{
    shm_store32(&sleepers->calls, shm_load32(&sleepers->calls) + 1);
    futex_wake(&sleepers->calls, count);
}

void lib_wake_one(struct lib_sleepers *sleepers)
{
    wake(sleepers, 1);
}

void lib_wake_all(struct lib_sleepers *sleepers)
{
    wake(sleepers, INT_MAX);
}

void lib_nap(int64_t ns)
{
    struct timespec ts = {ns / 1000000000, ns % 1000000000};
    lib_unlock();
    nanosleep(&ts, NULL);
    lib_lock();
}

/* ---- forks ---- */

void lib_door_watch_forks(void)
{
    (void)madvise(&lib_door, sizeof lib_door, MADV_WIPEONFORK); /* where it can't, pthread_atfork has to do: enter.c */
}

void lib_door_forked(void)
{
    memset(&lib_door, 0, sizeof lib_door);
    lib_thread.is_waiting = false;
}
