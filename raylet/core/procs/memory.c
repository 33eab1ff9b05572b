/* SPDX-License-Identifier: Apache-2.0
 *
 * memory.c - the node is short of memory: who is stopped, before the kernel chooses.
 *
 * Owns: nothing. Thread: the core's.
 *
 * In this order, one step for each time that the shell says so: workers that do nothing; then the worker with the newest task
 * lease whose task will be tried again; where there is none, the one with the newest task lease. Actors and drivers are
 * never stopped: what they hold can't be made again. While it lasts, and a little longer, no lease is granted, so that a
 * task that is tried again does not meet the same end at once.
 */
#include "raylet/core/pool/pool.h"
#include "raylet/core/procs/procs.h"
#include "core/base/limits/object.h"

#include <string.h>

static bool stop_idle(struct rlt *r)
{
    bool any = false;
    MT_MAP_EACH(&r->jobs, entry) {
        struct rlt_job *job = entry->value.ptr;
        RLT_LIST_EACH(&job->idle, link) {
            struct rlt_proc *p = mt_container_of(link, struct rlt_proc, in_idle);
            rlt_pool_remove(p);
            rlt_proc_leave(r, p, MT_RLT_LEAVE_MS, "the node is short of memory");
            any = true;
        }
    }
    return any;
}

/* Whether its owner has given up trying this worker's task again: the worker says so in its park page. */
static bool runs_once(const struct rlt_ev_memory *e, const struct rlt_proc *worker)
{
    for (size_t i = 0; i < e->once_count; i++)
        if (e->once[i] == worker->conn)
            return true;
    return false;
}

void rlt_memory_short(struct rlt *r, const struct rlt_ev_memory *e)
{
    struct rlt_lease *best = NULL;
    bool              was_short = mt_heap_holds(&r->short_over.node), is_best_once = false;
    rlt_timer_set(r, &r->short_over, r->now + MT_MEMORY_PAUSE_MS * RLT_MS);
    if (stop_idle(r) && !was_short)
        return; /* the second time that does not count: new ones are forked ahead */
    RLT_LIST_EACH(&r->all_leases, link) {
        struct rlt_lease *l = mt_container_of(link, struct rlt_lease, in_all);
        if (l->kind != LEASE_TASK || !l->worker || l->worker->state != PROC_ALIVE)
            continue;
        if (l->worker->stopped)
            return; /* its memory is about to come back */
        bool is_once = runs_once(e, l->worker);
        if (!best || (is_best_once && !is_once) || (is_best_once == is_once && l->granted_at > best->granted_at)) {
            best = l;
            is_best_once = is_once;
        }
    }
    if (!best || !(best->worker->stopped = strdup(e->why)))
        return;
    best->worker->stopped_code = MT_EOOM;
    r->stats.memory_stops++;
    rlt_pool_kill(r, best->worker);
}
