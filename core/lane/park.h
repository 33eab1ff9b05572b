/* SPDX-License-Identifier: Apache-2.0
 *
 * park.h - one page per process on which it sleeps, and which everybody who sends to it maps.
 *
 * A process that has nothing to do says so (HUNGRY: it polls; ASLEEP: it is in the futex), and a producer wakes it only
 * then. The order is the whole protocol, and both fences are needed:
 *
 *   sleeper: state = ASLEEP; fence; look at every ring again; futex_wait(bell)
 *   sender:  publish;        fence; state == ASLEEP? -> bell++, futex_wake, state: ASLEEP -> BUSY
 *
 * The sender takes ASLEEP away last: when it dies between two of its steps the state still says ASLEEP, and the next
 * sender (the raylet, with the news of the death) wakes the process. The state word carries the bell's count, so a late
 * sender never takes away the ASLEEP of a later sleep.
 */
#ifndef LANE_PARK_H
#define LANE_PARK_H

#include "core/base/plant.h"
#include "core/lane/shm.h"

enum lane_park_state {
    LANE_BUSY = 0,   /* runs, will look by itself */
    LANE_HUNGRY = 1, /* polls: publish at once, no wake-up needed */
    LANE_ASLEEP = 2, /* in the futex, or about to be */
};
/* How full the node is, for those who are about to wait inside a task. */
enum lane_crowd {
    LANE_CROWD_NONE = 0,
    LANE_CROWD_BUSY = 3, /* no CPU is free: who would wait for a task of its own that has not begun runs it, at its first attempt */
    LANE_CROWD_BLOCKED = 1, /* as many wait as may: the same at any attempt */
    LANE_CROWD_FULL = 2,    /* no process can be had: who waits already does so as well */
};
enum { LANE_PARK_STATE_BITS = 2 }; /* of the state word; above them the bell's count when the sleep was prepared */

enum {
    LANE_CRASH_SIZE = 4096, /* text of a backtrace, written by a dying worker */
};

struct lane_park {
    shm_u32 state; /* enum lane_park_state | count; written by the process, ASLEEP -> BUSY by whoever woke it */
    shm_u32 cpu;   /* where the process last looked for work, + 1; 0: not said. A hint for those who wait for it */
    shm_u32 leave; /* the cpu, + 1, that an owner asks the process to leave: others of its workers are there. A hint */
    uint8_t pad0[52];
    shm_u32 bell; /* the futex word; counts wake-ups */
    uint8_t pad1[60];
    shm_u32 socket_count; /* messages that the raylet has put on the unix socket */
    shm_u32 up_count;     /* raylet's switch: records waiting in our up ring (a hint) */
    shm_u32 crowd;        /* of the switch's page: enum lane_crowd, written by the raylet (a hint) */
    uint8_t pad2[4];
    shm_u64 strict_until; /* raylet: a strict actor may run until then, CLOCK_BOOTTIME in ns */
    uint8_t pad3[40];
    shm_u32 stack_count;  /* how often the process has written `stack` */
    shm_u32 runs_once;    /* worker: the task that it runs, or ran last, has LANE_TASK_ONCE */
    shm_u64 strict_armed; /* the worker: when its timer stops it; 0: it has none */
    uint8_t pad4[48];
    char    stack[4096 - 256];      /* NUL-terminated: where its main thread was when the raylet asked by SIGURG */
    char    crash[LANE_CRASH_SIZE]; /* NUL-terminated unless full; empty while alive */
};
static_assert(sizeof(struct lane_park) == 8192, "two pages: the words, the crash text");

static inline bool lane_park_is_asleep(uint32_t state_word)
{
    return (state_word & ((1u << LANE_PARK_STATE_BITS) - 1)) == LANE_ASLEEP;
}
/* Sender: after publishing. Returns whether a wake-up is due; then call lane_park_wake (a system call: in state
 * machines that is an action, done after step has returned). */
static inline bool lane_park_must_wake(struct lane_park *park)
{
    shm_fence();
    return lane_park_is_asleep(shm_load32(&park->state));
}
static inline void lane_park_wake(struct lane_park *park)
{
    uint32_t word = shm_load32(&park->state);
    if (!lane_park_is_asleep(word))
        return;
    shm_add32(&park->bell, 1);
    shm_futex_wake(&park->bell, 0x7fffffff); /* a waiter and the helper may both sleep here */
    shm_cas32(&park->state, word, LANE_BUSY);
}
static inline bool lane_park_is_hungry(struct lane_park *park)
{
    return shm_load32(&park->state) != LANE_BUSY;
}

/* Sleeper: prepare, then look everywhere again, then sleep (or cancel). */
static inline uint32_t lane_park_prepare(struct lane_park *park)
{
    uint32_t bell = shm_load32_acquire(&park->bell);
    shm_store32(&park->state, bell << LANE_PARK_STATE_BITS | LANE_ASLEEP);
    if (!MT_PLANT(MT_PLANT_PARK_NO_FENCE))
        shm_fence();
    return bell;
}
static inline void lane_park_sleep(struct lane_park *park, uint32_t bell, int64_t timeout_ns)
{
    shm_futex_wait(&park->bell, bell, timeout_ns);
    shm_store32(&park->state, LANE_BUSY);
}
static inline void lane_park_cancel(struct lane_park *park)
{
    shm_store32(&park->state, LANE_BUSY);
}

#endif
