/* SPDX-License-Identifier: Apache-2.0
 *
 * check.h - the interleaving checker: shm.h's operations as scheduling points of two or three simulated processes.
 *
 * shm.h includes this file when LANE_CHECK is defined. The code under test is compiled a second time with it; its
 * bodies run as coroutines on one thread. The memory is x86-TSO: a store enters its process's FIFO and reaches memory
 * later, a load sees its own process's stores first, a fence or a read-modify-write empties the FIFO. At each load,
 * fence, read-modify-write and futex call the checker may run another process, let late stores out, or kill a process
 * (the stores still in its FIFO reach memory up to any point, the rest is lost). Stores alone are no scheduling point:
 * nobody else can see them before they leave the FIFO, and when they leave is a choice of its own.
 *
 * check_run walks all executions with at most `preemptions` unforced switches, then seeded random ones without a bound.
 * Outside check_run the operations act on memory directly.
 */
#ifndef LANE_CHECK_H
#define LANE_CHECK_H

#include "core/lane/shm.h" /* the types, when this file is included by itself */

enum { CHECK_PROCESSES_MAX = 3 };

struct check_case {
    int      processes;
    uint32_t kill_mask;                              /* bit n: process n may be killed, anywhere; one kill an execution */
    void (*reset)(struct check_case *c);             /* before each execution: shared memory and the model as at start */
    void (*body)(struct check_case *c, int process); /* what each process does */
    void (*finish)(struct check_case *c);            /* after each execution: every process has returned, is dead or stuck */

    bool killed[CHECK_PROCESSES_MAX]; /* for body (death is news at once) and finish */
    bool stuck[CHECK_PROCESSES_MAX];  /* for finish: asleep, or polling, with nobody left to change anything */
};

struct check_plan {
    int      preemptions;    /* of the exhaustive walk; late stores let out while another runs count too */
    uint64_t executions_max; /* give up there; the result says so */
    uint64_t walks;          /* random executions after it */
    uint64_t seed;
};

struct check_result {
    uint64_t executions;
    uint64_t diverged; /* abandoned at CHECK_STEPS_MAX */
    bool     complete; /* every execution within the bound was walked */
    bool     failed;
    char     text[160]; /* the first requirement that did not hold */
};

/* Explores until a requirement fails, or all is walked. `trace` prints the failing execution, step by step. */
struct check_result check_run(struct check_case *c, const struct check_plan *plan, bool trace);

/* In a body or in finish: what must hold in every execution. A failure ends the exploration. */
void check_require(bool fact, const char *text);

/* In a body: one of 0..count-1, each of them in some execution (a limit that passes or not, a branch to take). */
int check_choose(int count);

/* The operations. */
uint64_t check_load(void *at, size_t size);
void     check_store(void *at, uint64_t x, size_t size);
uint64_t check_exchange(void *at, uint64_t x, size_t size);
uint64_t check_add(void *at, uint64_t x, size_t size);
bool     check_cas(void *at, uint64_t from, uint64_t to, size_t size);
void     check_fence(void);
void     check_write(void *to, const void *from, size_t size);
void     check_read(void *to, const void *from, size_t size);
void     check_yield(void);

static inline uint32_t shm_load32(shm_u32 *w)
{
    return (uint32_t)check_load(&w->v, 4);
}
static inline uint32_t shm_load32_acquire(shm_u32 *w)
{
    return (uint32_t)check_load(&w->v, 4);
}
static inline void shm_store32(shm_u32 *w, uint32_t x)
{
    check_store(&w->v, x, 4);
}
static inline void shm_store32_release(shm_u32 *w, uint32_t x)
{
    check_store(&w->v, x, 4);
}
static inline uint32_t shm_exchange32(shm_u32 *w, uint32_t x)
{
    return (uint32_t)check_exchange(&w->v, x, 4);
}
static inline uint32_t shm_add32(shm_u32 *w, uint32_t x)
{
    return (uint32_t)check_add(&w->v, x, 4);
}
static inline bool shm_cas32(shm_u32 *w, uint32_t from, uint32_t to)
{
    return check_cas(&w->v, from, to, 4);
}
static inline uint64_t shm_load64(shm_u64 *w)
{
    return check_load(&w->v, 8);
}
static inline uint64_t shm_load64_acquire(shm_u64 *w)
{
    return check_load(&w->v, 8);
}
static inline void shm_store64(shm_u64 *w, uint64_t x)
{
    check_store(&w->v, x, 8);
}
static inline void shm_store64_release(shm_u64 *w, uint64_t x)
{
    check_store(&w->v, x, 8);
}
static inline bool shm_cas64(shm_u64 *w, uint64_t from, uint64_t to)
{
    return check_cas(&w->v, from, to, 8);
}
static inline void shm_fence(void)
{
    check_fence();
}
static inline void shm_write(void *to, const void *from, size_t size)
{
    check_write(to, from, size);
}
static inline void shm_read(void *to, const void *from, size_t size)
{
    check_read(to, from, size);
}
static inline void shm_pause(void)
{
    check_yield();
}

#endif
