/* SPDX-License-Identifier: Apache-2.0
 *
 * memory.c - the node is short of memory: who is stopped, before the kernel chooses.
 *
 * Owns: nothing. Thread: the core's.
 *
 * In this order, one step for each time that the shell says so: workers that do nothing; then the worker whose task lease
 * is the newest. Whether its task will be tried again is its owner's knowledge. Actors and drivers are never
 * stopped: what they hold can't be made again. While it lasts, and a little longer, no lease is granted, so that a task
 * that is tried again does not meet the same end at once.
 */
#include "raylet/state.h"

#include <string.h>

static bool stop_idle(struct rlt *r)
{
    bool any = false;
    MT_MAP_EACH(&r->jobs, entry) {
        struct rlt_job *job = entry->value.ptr;
        RLT_LIST_EACH(&job->idle, link) {
            struct rlt_proc *p = mt_container_of(link, struct rlt_proc, in_idle);
            rlt_pool_remove(p);
            rlt_proc_leave(r, p, "the node is short of memory");
            any = true;
        }
    }
    return any;
}

void rlt_memory_short(struct rlt *r, const char *text)
{
    struct rlt_lease *best = NULL;
    bool              was_short = mt_heap_holds(&r->short_over.node);
    rlt_timer_set(r, &r->short_over, r->now + MT_MEMORY_PAUSE_MS * RLT_MS);
    if (stop_idle(r) && !was_short)
        return; /* the second time that does not count: new ones are forked ahead */
    RLT_LIST_EACH(&r->all_leases, link) {
        struct rlt_lease *l = mt_container_of(link, struct rlt_lease, in_all);
        if (l->kind != LEASE_TASK || !l->worker || l->worker->state != PROC_ALIVE)
            continue;
        if (l->worker->stopped)
            return; /* its memory is about to come back */
        if (!best || l->granted_at > best->granted_at)
            best = l;
    }
    if (!best || !(best->worker->stopped = strdup(text)))
        return;
    r->stats.memory_stops++;
    rlt_act(r->out, RLT_A_KILL)->conn = best->worker->conn;
}
