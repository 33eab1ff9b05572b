/* SPDX-License-Identifier: Apache-2.0
 *
 * zygote.c - what becomes of what a zygote is asked for: its own start, a fork, the end of a child.
 *
 * Owns: nothing of its own. Thread: the logic loop only.
 */
#include "raylet/core/jobs/jobs.h"
#include "raylet/core/leases/leases.h"
#include "raylet/core/pool/pool.h"
#include "raylet/core/procs/procs.h"

#include "core/sys/child.h"

#include <errno.h>
#include <stdio.h>

void rlt_zygote_spawned(struct rlt *r, struct rlt_proc *zygote, int32_t pid)
{
    zygote->pid = pid;
    if (pid > 0 && (zygote->state == PROC_DYING || (zygote->job && zygote->job->is_ending)))
        rlt_pool_kill(r, zygote); /* it was to be killed before it could be */
    if (pid > 0)
        return;
    zygote->is_child = false;
    if (zygote->job) {
        char what[128];
        snprintf(what, sizeof what, "cannot start the program: %s", strerrordesc_np(-pid));
        if (pid == -ESTALE) {
            rlt_pool_start_failed(r, zygote->job, "a file of the program was changed on this node: it is fetched again");
            rlt_leases_end_needy(r);
            rlt_program_again(r, rlt_job_base(zygote->job));
        } else if (mt_child_may_pass(-pid)) {
            rlt_pool_lacks(zygote, what);
        } else {
            zygote->job->start_failures = MT_RLT_START_FAILURES_MAX; /* it will not be otherwise the next time */
            rlt_pool_start_failed(r, zygote->job, what);
            rlt_leases_end_needy(r);
        }
    }
    rlt_proc_gone(r, zygote);
}

void rlt_worker_ready(struct rlt *r, struct rlt_proc *worker)
{
    if (worker->is_ready || worker->state != PROC_ALIVE || worker->pid <= 0)
        return;
    worker->is_ready = true;
    rlt_timer_clear(r, &worker->timer);
    worker->job->starting_count--;
    worker->job->start_failures = 0;
    rlt_lease_offer(r, worker);
    if (worker->job->needy_count > worker->job->starting_count)
        rlt_pool_balance(r, worker->job);
}

void rlt_zygote_forked(struct rlt *r, struct rlt_proc *zygote, const struct rlt_ev_socket *e)
{
    struct ctl_forked forked;
    memcpy(&forked, e->payload, sizeof forked);
    struct rlt_proc *p = rlt_proc_of_conn(r, forked.token);
    if (!p || p->job != zygote->job || p == zygote || p->pid > 0) {
        rlt_close_fd(r->out, e->fd);
        return;
    }
    p->pid = forked.pid;
    if (e->fd >= 0) {
        struct rlt_a_watch *a = &rlt_act(r->out, RLT_A_WATCH)->watch;
        a->conn = p->conn;
        a->pidfd = e->fd;
        a->pid = forked.pid;
    }
    if (forked.pid <= 0) {
        char what[128];
        snprintf(what, sizeof what, "fork: %s", strerrordesc_np(-forked.pid));
        rlt_pool_lacks(p, what);
        p->is_child = false; /* there is no process to report a status */
        rlt_proc_gone(r, p);
    } else if (p->state == PROC_DYING || p->killed_at || p->job->is_ending) {
        rlt_pool_kill(r, p); /* it was to be killed before it could be */
    } else {
        rlt_worker_ready(r, p);
    }
}

void rlt_zygote_child_exit(struct rlt *r, struct rlt_proc *zygote, const struct ctl_child_exit *exit)
{
    MT_MAP_EACH(&r->conns, entry) {
        struct rlt_proc *p = entry->value.ptr;
        if (p->pid == exit->pid && p->job == zygote->job && p->conn >= RLT_CONN_OURS && p != zygote) {
            rlt_proc_status(r, p, exit->status);
            return;
        }
    }
}
