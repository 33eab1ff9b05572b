/* SPDX-License-Identifier: Apache-2.0
 *
 * worker.c - the life of a worker: take what is claimed, run it, report.
 *
 * Owns:   nothing. Thread: main.
 */
#include "clients/lib/shell/context/context.h"
#include "clients/lib/shell/here/here.h"
#include "clients/lib/shell/link/link.h"
#include "clients/lib/shell/run/run.h"
#include "clients/lib/shell/serve/serve.h"
#include "clients/lib/shell/state/state.h"
#include "clients/lib/shell/wait/wait.h"

#include <sched.h>
#include <unistd.h>

static bool may_leave(void)
{
    return lib.wrk.is_over || (lib.is_retiring && !lib.wrk.lanes.count && !lib.own.outstanding);
}

static bool has_work(void *arg)
{
    (void)arg;
    return wrk_has_work(&lib.wrk) || may_leave();
}

/* An actor that was made with room for more than one call at a time goes over to threads. */
static void become_concurrent(manta_ctx *c)
{
    uint32_t                       limits[1 + MT_ACTOR_GROUPS_MAX] = {lib_actor_concurrency()}, count = 1;
    const manta_concurrency_group *g = lib_actor_here.type->groups;
    for (; count <= MT_ACTOR_GROUPS_MAX && g[count - 1].name; count++)
        limits[count] = g[count - 1].limit > 0 ? (uint32_t)g[count - 1].limit : 1;
    if (limits[0] > 1 || count > 1)
        lib_pool_serve(c, limits, count);
}

static bool waits_ahead(void)
{
    return !wrk_has_work(&lib.wrk) && wrk_waits_ahead(&lib.wrk);
}

/* The next task waits for a value of another worker, which is about to come: a look at its cell costs less than telling the owner
 * that we wait. True: it has come, or something else has; also where it came between the look of wrk_next and the first one here,
 * as most do whose makers run beside us. */
static bool comes_soon(uint64_t *now)
{
    uint64_t since = *now = lib_now_ns();
    if (waits_ahead())
        lib_note_cpu();
    while (waits_ahead() && *now - since < (wrk_where_fed(&lib.wrk, lib.cpu) ? MT_LIB_EDGE_NS : MT_LIB_SPIN_NS)) {
        if (*now - since < MT_LIB_EDGE_PAUSE_NS)
            for (int i = 0; i < 8; i++)
                shm_pause();
        else
            sched_yield(); /* the one that makes it may stand on this very cpu */
        *now = lib_now_ns();
    }
    return !lib.wrk.asks_board && wrk_has_work(&lib.wrk);
}

static void worker_loop(void)
{
    static manta_ctx c;
    struct wrk_run   run;
    uint64_t         now = lib_now_ns();
    uint32_t         since_pump = 0;
    bool             has_come = false; /* and wrk_next has not been asked since */
    lib_lock();
    for (;;) {
        if (wrk_next(&lib.wrk, &run)) {
            has_come = false;
            if (lib.wrk.out.wake_count)
                lib_act();
            lib_run(&c, &run, NULL, &now);
            if (MT_UNLIKELY(c.wants_exit))
                lib_actor_exit();
            if (run.record.kind == LANE_CREATE && lib_actor_here.is_made)
                become_concurrent(&c);
            if (lib.own.class_list.count)
                own_release_idle(&lib.own);
            own_flush(&lib.own); /* what it has called must not wait for the end of the next run */
            if (lib.wrk.out.wake_count || lib.wrk.out.up.size || lib.own.out.wake_count)
                lib_act();
            if (++since_pump < 64)
                continue;
            lib_part(now);
        } else if (wrk_save_begin(&lib.wrk)) {
            lib_actor_save_leaving();
            continue;
        } else if (!has_come && comes_soon(&now)) {
            has_come = true; /* once: what wrk_next can't take needs the rest of this round */
            continue;
        }
        has_come = false;
        since_pump = 0;
        wrk_flush(&lib.wrk); /* first: who waits for it need not wait for the rest as well */
        lib_pump();
        if (may_leave()) {
            lib_unlock();
            lib_leave();
        }
        if (MT_UNLIKELY(lib.wrk.asks_board || lib.wrk.boards_gone.count))
            lib_board_serve();
        if (!wrk_has_work(&lib.wrk)) {
            lib_wait(has_work, NULL, INT64_MAX);
            now = lib_now_ns();
        }
    }
}

MT_NORETURN void lib_worker_serve(int fd, int argc, char **argv)
{
    uint64_t  process;
    char      text[256];
    mt_status st;
    if (mt_random_bytes(&process, sizeof process).code)
        _exit(1);
    st = lib_hello(fd, CTL_WORKER, process, 0, argc, argv, "");
    if (st.code == 0 && (st = lib_welcome(fd, process, MT_LIB_CONNECT_MS, text)).code)
        lib_unable(fd, st.code, st.what);
    if (st.code)
        _exit(1);
    lib_open(LIB_WORKER);
    lib_name_process(&(struct wrk_run){.record = {.kind = LANE_TASK}}, 0); /* it has run nothing */
    lib_here_stack();
    worker_loop();
    _exit(0);
}
