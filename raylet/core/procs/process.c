/* SPDX-License-Identifier: Apache-2.0
 *
 * process.c - the life of one process of this node: greeting, welcome, end.
 *
 * Owns: every struct rlt_proc. Thread: the logic loop only.
 * Always: a process is found by its number only while it is ALIVE.
 *
 * Between ALIVE and gone what it left in its rings still counts: a lease that it drained, a ref that it gave up. Only
 * then do the others hear of its death, with the wait status and the backtrace that it wrote.
 */
#include "raylet/core/head/head.h"
#include "raylet/core/jobs/jobs.h"
#include "raylet/core/leases/leases.h"
#include "raylet/core/links/links.h"
#include "raylet/core/pool/pool.h"
#include "raylet/core/procs/procs.h"

#include <stdio.h>
#include <stdlib.h>

void rlt_proc_accepted(struct rlt *r, uint64_t conn, int32_t pid, const int32_t line[RLT_LINE_MAX])
{
    if (r->conns.count >= MT_RLT_PROCS_MAX || r->is_stopping) {
        rlt_act(r->out, RLT_A_CLOSE)->close.conn = conn;
        return;
    }
    struct rlt_proc *p = rlt_proc_new(r, conn);
    p->pid = pid;
    for (int i = 0; i < RLT_LINE_MAX && line[i] && !p->leader; i++)
        p->leader = rlt_submit_of(r, line[i])[0] ? line[i] : 0;
    p->is_keeper = r->config.is_private && !r->had_keeper; /* the first is the one whose socket the raylet was started with */
    r->had_keeper = true;
}

static void end_as_worker(struct rlt *r, struct rlt_proc *p, const char *text)
{
    RLT_LIST_EACH(&p->served, link) {
        struct rlt_lease *l = mt_container_of(link, struct rlt_lease, in_worker);
        struct ctl_ended  end = {.lease = l->id,
                                 .code = p->stopped ? p->stopped_code : MT_EWORKER_DIED,
                                 .status = p->status,
                                 .pid = p->pid,
                                 .node = r->node};
        if (l->state == LEASE_DRAINED)
            end.code = l->is_preempted ? MT_EPREEMPTED : MT_OK; /* it had finished with this one */
        snprintf(end.text, sizeof end.text, "%s", text);
        rlt_lease_end(r, l, &end);
    }
}

static void end_as_owner(struct rlt *r, struct rlt_proc *p)
{
    RLT_LIST_EACH(&p->classes, link)
        rlt_class_drop(r, mt_container_of(link, struct rlt_class, in_owner));
    RLT_LIST_EACH(&p->owned, link) {
        struct rlt_lease *l = mt_container_of(link, struct rlt_lease, in_owner);
        l->is_owner_dead = true;
        rlt_lease_owner_gone(r, l);
    }
    RLT_LIST_EACH(&p->monitors, link)
        rlt_monitor_free(r, mt_container_of(link, struct rlt_monitor, in_watcher));
    rlt_regions_leave(r, p);
}

static void proc_end(struct rlt *r, struct rlt_proc *p)
{
    struct rlt_job  *job = p->job;
    struct ctl_death death = {.process = p->process, .node = r->node, .code = MT_EWORKER_DIED, .status = p->status, .pid = p->pid};

    rlt_timer_clear(r, &p->timer);
    mt_map_remove(&r->conns, mt_map_key(p->conn));
    rlt_proc_describe(r, p, death.text, sizeof death.text);
    end_as_worker(r, p, death.text);
    end_as_owner(r, p);
    if (p->process) {
        rlt_monitors_fire(r, &death);
        rlt_object_owner_gone(r, p);
        rlt_names_process_gone(r, p->process);
        if (p->has_names)
            rlt_head_process_gone(r, p->process);
    }
    if (p->role == CTL_WORKER && !p->is_leaving)
        r->stats.worker_deaths++;
    rlt_act(r->out, RLT_A_CLOSE)->close.conn = p->conn;
    if (job && job->driver == p) {
        job->driver = NULL;
        rlt_head_job_gone(r, job->job);
        rlt_job_end(r, job);
    } else if (job) {
        rlt_pool_lost(r, p);
        rlt_leases_end_needy(r);
        rlt_job_free_if_empty(r, job);
    }
    rlt_program_files_close(r, p->files.data, p->files.count);
    mt_vec_fini(&p->files);
    r->head.wish_changes += p->wishes.count > 0;
    mt_vec_fini(&p->wishes);
    free(p->crash);
    free(p->stopped);
    free(p);
    r->is_dirty = true;
}

/* Whether its end has still to be told: of a zygote by the system, of a worker by its zygote. */
static bool status_comes(const struct rlt_proc *p)
{
    return p->is_child && !p->has_status && (!p->forked_by || rlt_pool_has_zygote(p));
}

/* It forks nothing any more, however long its own status takes, and tells no more of how its workers ended. */
static void zygote_gone(struct rlt *r, const struct rlt_proc *zygote)
{
    zygote->job->is_zygote_ready = false;
    MT_MAP_EACH(&r->conns, entry) {
        struct rlt_proc *p = entry->value.ptr;
        if (p->forked_by == zygote->conn && p->state == PROC_DYING && p->is_child && !p->has_status)
            rlt_timer_set(r, &p->timer, r->now);
    }
}

void rlt_proc_gone(struct rlt *r, struct rlt_proc *p)
{
    bool was_alive = p->state == PROC_ALIVE;
    if (p->state == PROC_DYING)
        return;
    rlt_proc_set_state(p, PROC_DYING);
    if (p->is_keeper)
        rlt_shut_down(r, "the driver has left");
    if (p->process)
        mt_map_remove(&r->processes, mt_map_key(p->process));
    rlt_pool_remove(p);
    if (p->is_child)
        rlt_pool_kill(r, p); /* it may live on without its socket: it must not */
    if (p->job && p == p->job->zygote)
        zygote_gone(r, p);
    rlt_timer_set(r, &p->timer, r->now + (status_comes(p) ? MT_RLT_STATUS_MS * RLT_MS : 0));
    if (was_alive && p->role != CTL_ZYGOTE)
        rlt_act(r->out, RLT_A_SW_PROC_DRAIN)->sw_proc_drain.conn = p->conn;
    else
        p->is_drained = true; /* it never had rings */
    if (p->is_drained && (!p->is_child || p->has_status))
        proc_end(r, p);
}

void rlt_proc_status(struct rlt *r, struct rlt_proc *p, int32_t status)
{
    p->has_status = true;
    p->status = status;
    if (p->state != PROC_DYING)
        rlt_proc_gone(r, p);
    else if (p->is_drained)
        proc_end(r, p);
}

void rlt_proc_drained(struct rlt *r, struct rlt_proc *p, const char *crash)
{
    if (p->state != PROC_DYING || p->is_drained)
        return;
    p->is_drained = true;
    if (crash && crash[0] && !p->crash)
        p->crash = strdup(crash);
    if (!p->is_child || p->has_status)
        proc_end(r, p);
}

/* A further try would take as long. */
static void start_took_too_long(struct rlt_proc *p)
{
    char why[80];
    snprintf(why, sizeof why, "it has not called manta_init %d s after its start", MT_RLT_START_MS / 1000);
    p->stopped = strdup(why);
    p->job->start_failures = MT_RLT_START_FAILURES_MAX - 1;
}

/* Its zygote stands still, or gets no CPU. */
static void ask_status(struct rlt *r, struct rlt_proc *p)
{
    p->is_asked = true;
    rlt_act(r->out, RLT_A_STATUS)->status.conn = p->conn;
    rlt_timer_set(r, &p->timer, r->now + MT_RLT_STATUS_ASKED_MS * RLT_MS);
}

void rlt_proc_timer(struct rlt *r, struct rlt_proc *p)
{
    if (p->state == PROC_DYING && p->forked_by && status_comes(p) && !p->is_asked) {
        ask_status(r, p);
        return;
    }
    if (p->state == PROC_DYING) {
        p->is_child = false; /* its status is late: go on without */
        if (p->is_drained)
            proc_end(r, p);
        return;
    }
    if (p->state == PROC_GREETING && p->job && p == p->job->zygote)
        start_took_too_long(p);
    rlt_proc_gone(r, p); /* has not greeted, or has not left when asked */
}
