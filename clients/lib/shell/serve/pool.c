/* SPDX-License-Identifier: Apache-2.0
 *
 * pool.c - the threads of a concurrent actor.
 *
 * Owns:   the threads, and which of them serves. Thread: any of them, under the owner lock; user code runs without it.
 * Always: at most one thread serves, that is, waits for calls; whoever has a slot left and no call takes that over.
 *
 * A thread that hands each call to another would pay a wake-up a call. So the serving thread runs a call itself when its
 * method was quick the last time, and another thread watches it, once a millisecond, while such calls come: if the call
 * takes longer after all, the watcher serves, and the method is slow from then on. It takes no calls meanwhile: they are quick,
 * and two threads that take turns at the lock are slower than one. Before a slow call the serving thread wakes another, or makes
 * one.
 */
#include "clients/lib/shell/context/context.h"
#include "clients/lib/shell/helper/helper.h"
#include "clients/lib/shell/link/link.h"
#include "clients/lib/shell/run/run.h"
#include "clients/lib/shell/serve/serve.h"
#include "clients/lib/shell/state/state.h"
#include "clients/lib/shell/wait/wait.h"

#include <stdlib.h>

enum { QUICK_METHODS = 32 };

static struct {
    struct lib_sleepers idle; /* threads without a call sleep here */
    uint32_t            threads, threads_max, sleeping;
    const manta_ctx    *server; /* of the thread that serves; NULL: none */
    bool                is_watched;
    bool                is_waiting;           /* the server waits for calls */
    bool                is_in_quick;          /* the server runs a call that should be quick */
    uint64_t            quick_count;          /* such calls so far */
    uint64_t            quick_ns;             /* when the last one began */
    uint64_t            running;              /* its method */
    uint64_t            quick[QUICK_METHODS]; /* methods that took little the last time, by their hash */
} pool;

static bool is_quick(uint64_t method)
{
    return pool.quick[method % QUICK_METHODS] == method;
}

static void note_time(uint64_t method, uint64_t took)
{
    uint64_t *entry = &pool.quick[method % QUICK_METHODS];
    if (took < MT_LIB_QUICK_NS)
        *entry = method;
    else if (*entry == method)
        *entry = 0;
}

static void *thread_main(void *arg);

/* One more thread that has nothing to do, if there may be one. */
static void rouse(void)
{
    pthread_attr_t attr;
    pthread_t      thread;
    if (pool.sleeping) {
        lib_wake_one(&pool.idle);
        return;
    }
    if (pool.threads == pool.threads_max)
        return;
    pthread_attr_init(&attr);
    pthread_attr_setdetachstate(&attr, PTHREAD_CREATE_DETACHED);
    if (pthread_create(&thread, &attr, thread_main, NULL) == 0)
        pool.threads++; /* without one, calls wait for the threads that there are */
    pthread_attr_destroy(&attr);
}

/* ---- running ---- */

static void run_call(manta_ctx *c, struct wrk_call *call, uint64_t *now)
{
    uint64_t method = call->run.record.aux;
    if (!pool.server)
        pool.server = c;
    if (pool.server == c && is_quick(method)) {
        if (!pool.is_watched)
            rouse();
        pool.is_in_quick = true;
        pool.quick_count++;
        pool.quick_ns = *now;
        pool.running = method;
    } else {
        if (pool.server == c) {
            pool.server = NULL;
            rouse();
        } else if (pool.is_waiting && wrk_call_waits(&lib.wrk)) {
            /* We took more than one out of the ring, which is where the server looks. */
            shm_add32(&lib.park->bell, 1);
            shm_futex_wake(&lib.park->bell, INT32_MAX);
        }
        wrk_flush(&lib.wrk);
    }
    wrk_unblock(&lib.wrk);
    if (lib.wrk.out.wake_count || lib.wrk.out.up.size)
        lib_act();
    note_time(method, lib_run(c, &call->run, call, now));
    if (pool.server == c)
        pool.is_in_quick = false;
    if (c->wants_exit)
        lib.wrk.is_exiting = true;
    if (lib.calls_waiting && lib.calls_waiting == lib.wrk.calls_running)
        wrk_block(&lib.wrk);
}

/* ---- without a call ---- */

static bool has_work(void *arg)
{
    (void)arg;
    return ((wrk_has_work(&lib.wrk) || wrk_call_waits(&lib.wrk)) && !lib.wrk.is_exiting) ||
           (lib.wrk.is_over && !lib.wrk.calls_running);
}

static void serve(const manta_ctx *c, uint64_t *now)
{
    MT_ASSERT(pool.server == c && !pool.is_waiting);
    lib_pump();
    lib_act();
    pool.is_waiting = true;
    if (!wrk_has_work(&lib.wrk) || lib.wrk.is_exiting)
        lib_wait(has_work, NULL, INT64_MAX);
    pool.is_waiting = false;
    MT_ASSERT(pool.server == c); /* nobody takes over from one that waits */
    *now = lib_now_ns();
}

/* The quick call that ran a millisecond ago runs still: serve in its stead. */
static void watch(manta_ctx *c)
{
    uint64_t seen = pool.quick_count;
    pool.is_watched = true;
    lib_sleep(&pool.idle, (int64_t)lib_now_ns() + MT_LIB_WATCH_NS);
    pool.is_watched = false;
    if (!pool.is_in_quick || pool.quick_count != seen)
        return;
    pool.is_in_quick = false;
    pool.server = c;
    note_time(pool.running, UINT64_MAX);
}

static void rest(manta_ctx *c)
{
    pool.sleeping++;
    /* On a crowded core a thread that was roused to watch may come so late that calls seem to come no more. */
    if (!pool.is_watched && (pool.is_in_quick || lib_now_ns() - pool.quick_ns < MT_LIB_POOL_ACTIVE_NS))
        watch(c);
    else
        lib_sleep(&pool.idle, INT64_MAX);
    pool.sleeping--;
}

MT_NORETURN static void thread_serve(manta_ctx *c)
{
    uint64_t now = lib_now_ns();
    uint32_t since_pump = 0;
    for (;;) {
        while (pool.is_in_quick && !pool.is_watched) {
            rest(c);
            now = lib_now_ns();
        }
        struct wrk_call *call = wrk_call_next(&lib.wrk);
        if (lib.wrk.is_exiting && !lib.wrk.calls_running)
            lib_actor_exit();
        if (call) {
            run_call(c, call, &now);
            if (lib.wrk.out.wake_count || lib.wrk.out.up.size)
                lib_act();
            if (pool.server == c && ++since_pump >= 64) {
                since_pump = 0;
                lib_pump();
            }
            continue;
        }
        if (wrk_save_begin(&lib.wrk)) {
            lib_actor_save_leaving();
            continue;
        }
        wrk_flush(&lib.wrk);
        lib_act();
        if (lib.wrk.is_over && !lib.wrk.calls_running) {
            lib_unlock();
            lib_leave();
        }
        if (!pool.server)
            pool.server = c;
        if (pool.server == c)
            serve(c, &now);
        else
            rest(c);
        now = lib_now_ns();
    }
}

static void *thread_main(void *arg)
{
    manta_ctx *c = malloc(sizeof *c);
    (void)arg;
    lib_lock();
    if (c)
        thread_serve(c);
    pool.threads--;
    lib_unlock();
    return NULL;
}

MT_NORETURN void lib_pool_serve(manta_ctx *c, const uint32_t *limits, uint32_t count)
{
    lib_helper_start();
    pool.threads = 1;
    pool.threads_max = 1;
    for (uint32_t i = 0; i < count; i++)
        pool.threads_max += limits[i];
    wrk_calls_start(&lib.wrk, limits, count);
    thread_serve(c);
}
