/* SPDX-License-Identifier: Apache-2.0
 *
 * core.c - the raylet's state machine: which event and which timer go to which room.
 *
 * Owns: struct rlt and, through its tables, everything of state/. Thread: the logic loop only.
 * Always: what a room notes for those above it is drained before the next event or timer. rlt_schedule runs once, at the end of a
 * step, and decides who gets what.
 */
#include "raylet/core/core.h"
#include "raylet/core/fetch/fetch.h"
#include "raylet/core/head/head.h"
#include "raylet/core/jobs/jobs.h"
#include "raylet/core/leases/leases.h"
#include "raylet/core/leases/bundles.h"
#include "raylet/core/links/links.h"
#include "raylet/core/links/streams.h"
#include "raylet/core/pool/pool.h"
#include "raylet/core/procs/procs.h"
#include "raylet/core/schedule/schedule.h"
#include "raylet/core/step.h"
#include "raylet/core/usage/usage.h"

#include "core/base/log.h"

#include <stdio.h>
#include <stdlib.h>

struct rlt *rlt_new(const struct rlt_config *config)
{
    struct rlt *r = calloc(1, sizeof *r);
    if (!r)
        return NULL;
    r->config = *config;
    if (!r->config.workers_max)
        r->config.workers_max = MT_RLT_WORKERS_MAX;
    if (!r->config.blocked_max)
        r->config.blocked_max = MT_RLT_BLOCKED_MAX;
    if (rlt_ledger_init(&r->ledger, config->total, config->resource_count).code) {
        free(r);
        return NULL;
    }
    r->pins = config->cpus;
    r->ledger.pins = &r->pins;
    int cpu = rlt_ledger_find(&r->ledger, "CPU");
    if (!r->config.idle_workers_max)
        r->config.idle_workers_max = (uint32_t)(cpu < 0 ? 0 : r->ledger.total[cpu].milli / 1000) + 2;
    r->node = config->node;
    r->epoch = config->epoch;
    r->rng.state = config->boot;
    r->next_conn = RLT_CONN_OURS;
    r->next_stream = RLT_CONN_OURS;
    r->next_route = 1;
    r->next_region = 1;
    rlt_list_init(&r->all_leases);
    rlt_list_init(&r->all_monitors);
    rlt_list_init(&r->waiting);
    rlt_list_init(&r->bundles);
    rlt_list_init(&r->failing);
    rlt_list_init(&r->head.all_asked);
    r->head.report.kind = RLT_TIMER_REPORT;
    r->head.patience.kind = RLT_TIMER_PATIENCE;
    r->head.words.kind = RLT_TIMER_WORDS;
    r->drain.timer.kind = RLT_TIMER_DRAIN;
    r->orphan.kind = RLT_TIMER_ORPHAN;
    r->usage.timer.kind = RLT_TIMER_USAGE;
    r->alone.kind = RLT_TIMER_ALONE; /* the others are of kind RLT_TIMER_LOOK */
    return r;
}

static void free_monitor_list(struct rlt *r)
{
    RLT_LIST_EACH(&r->all_monitors, link)
        rlt_monitor_free(r, mt_container_of(link, struct rlt_monitor, in_all));
}

static void free_proc(struct rlt_proc *p)
{
    RLT_LIST_EACH(&p->classes, link)
        free(mt_container_of(link, struct rlt_class, in_owner));
    mt_vec_fini(&p->files);
    mt_vec_fini(&p->wishes);
    free(p->crash);
    free(p->stopped);
    free(p);
}

void rlt_free(struct rlt *r)
{
    if (!r)
        return;
    mt_heap_fini(&r->timers); /* first: its nodes stand in what is freed below */
    free_monitor_list(r);
    RLT_LIST_EACH(&r->all_leases, link) {
        struct rlt_lease *l = mt_container_of(link, struct rlt_lease, in_all);
        free(l->end);
        free(l);
    }
    MT_MAP_EACH(&r->conns, entry)
        free_proc(entry->value.ptr);
    MT_MAP_EACH(&r->jobs, entry) {
        struct rlt_job *job = entry->value.ptr;
        rlt_program_fini(job);
        free(job->hello);
        free(job);
    }
    rlt_bundles_fini(r);
    rlt_envs_fini(r);
    rlt_regions_fini(r);
    rlt_names_fini(r);
    rlt_head_fini(r);
    rlt_submit_fini(r);
    rlt_usage_fini(r);
    rlt_peers_fini(r);
    rlt_nodes_fini(r);
    mt_map_fini(&r->conns);
    mt_map_fini(&r->processes);
    mt_map_fini(&r->jobs);
    mt_map_fini(&r->leases);
    mt_map_fini(&r->routes);
    mt_map_fini(&r->monitors);
    free(r);
}

uint64_t rlt_deadline(const struct rlt *r)
{
    const mt_heap_node *first = mt_heap_first(&r->timers);
    return first ? first->key : UINT64_MAX;
}

static void fire(struct rlt *r, struct rlt_timer *t)
{
    switch (t->kind) {
    case RLT_TIMER_LOOK: r->is_dirty = true; break;
    case RLT_TIMER_PROC: rlt_proc_timer(r, mt_container_of(t, struct rlt_proc, timer)); break;
    case RLT_TIMER_JOB: rlt_pool_timer(r, mt_container_of(t, struct rlt_job, timer)); break;
    case RLT_TIMER_LEASE: rlt_lease_timer(r, mt_container_of(t, struct rlt_lease, timer)); break;
    case RLT_TIMER_PEER: rlt_hear_nothing(r, mt_container_of(t, struct rlt_peer, timer)); break;
    case RLT_TIMER_STREAM: rlt_stream_drop(r, mt_container_of(t, struct rlt_stream, timer)); break; /* has not said who it is */
    case RLT_TIMER_REPORT: break; /* rlt_head_changed, at the end of the step, does it */
    case RLT_TIMER_PATIENCE: rlt_head_patience(r); break;
    case RLT_TIMER_DRAIN: break;  /* rlt_drain_round, at the end of the step, does it */
    case RLT_TIMER_ORPHAN: break; /* likewise rlt_orphan_round */
    case RLT_TIMER_ALONE: rlt_alone_timer(r); break;
    case RLT_TIMER_USAGE: rlt_usage_timer(r); break;
    case RLT_TIMER_WORDS: rlt_submit_words(r); break;
    case RLT_TIMER_SUBMITTED: rlt_submit_timer(r, mt_container_of(t, struct rlt_submitted, timer)); break;
    }
}

/* What rooms have noted for those above them. */
static void drain(struct rlt *r)
{
    rlt_leases_end_needy(r);
}

static void fire_timers(struct rlt *r)
{
    mt_heap_node *node;
    while ((node = mt_heap_first(&r->timers)) && node->key <= r->now) {
        fire(r, mt_container_of(mt_heap_pop(&r->timers), struct rlt_timer, node));
        drain(r);
    }
}

/* ---- the step -------------------------------------------------------------------------------------------------- */

static void proc_closed(struct rlt *r, struct rlt_proc *p, const char *lacked)
{
    rlt_pool_lacks(p, lacked);
    rlt_proc_gone(r, p);
}

static void proc_exited(struct rlt *r, struct rlt_proc *p, const struct rlt_ev_exited *e)
{
    if (e->last_line && !p->process && !p->crash)
        p->crash = strdup(e->last_line);
    if (e->has_status)
        rlt_proc_status(r, p, e->status); /* where its end was known, p is gone now */
    else
        rlt_proc_gone(r, p);
}

static void proc_broke(struct rlt *r, struct rlt_proc *p)
{
    mt_log(MT_LOG_WARN, "process_dropped", "pid=%d why=\"its ring is broken, or it reads nothing\"", p->pid);
    rlt_proc_gone(r, p);
}

static void lane_failed(struct rlt *r, uint64_t lane, const char *why)
{
    struct rlt_lease *l = mt_map_ptr(&r->leases, mt_map_key(lane));
    struct ctl_ended  end = {.lease = lane, .code = MT_ENOMEM, .node = r->node};
    if (!l)
        return;
    why = why ? why : "no memory";
    snprintf(end.text, sizeof end.text, "no lane for a lease on node %u: %.300s", r->node, why);
    l->has_lane = false; /* nobody was told of it, so nobody is told of its end */
    if (l->kind == LEASE_CALLER && l->owner)
        rlt_down_reply(r->out, l->owner->conn, l->request, MT_ENOMEM, end.text);
    if (l->worker && l->kind != LEASE_CALLER) {
        rlt_pool_lacks(l->worker, why);
        rlt_proc_gone(r, l->worker); /* it waits for a lane that will not come */
        return;
    }
    if (l->worker_node != r->node) {
        struct ctl_lease drop = {lane};
        rlt_peer_send(r, l->worker_node, PEER_DROP, (mt_id){0, 0}, &drop, sizeof drop);
    }
    rlt_lease_end(r, l, &end);
}

static void program_listed(struct rlt *r, const struct rlt_ev_program_listed *e)
{
    const struct rlt_job *listed = rlt_program_listed(r, e);
    if (listed)
        rlt_detach_listed(r, listed, e->why);
}

static void lane_broken(struct rlt *r, uint64_t lane)
{
    struct rlt_proc *owner = rlt_remote_lane_broken(r, lane);
    if (owner)
        rlt_proc_gone(r, owner);
}

static void head_said(struct rlt *r, const Manta__V1__HeadToNode *m)
{
    if (rlt_head_gave_up(r, m))
        rlt_rejoin(r, "the head has given this node's work up");
    r->head.heard_at = r->now;
    if (m->kind_case == MANTA__V1__HEAD_TO_NODE__KIND_VIEW && r->head.is_registered)
        rlt_hear_view(r, m->view);
    else if (m->kind_case == MANTA__V1__HEAD_TO_NODE__KIND_FREE && r->head.is_registered)
        rlt_hear_free(r, m->free);
    else
        rlt_head_message(r, m);
}

/* What is about one process. */
static void proc_event(struct rlt *r, const struct rlt_event *e, uint64_t conn)
{
    struct rlt_proc *p = rlt_proc_of_conn(r, conn);
    if (!p)
        return;
    if (e->kind == RLT_EV_SOCKET)
        rlt_proc_socket(r, p, &e->socket);
    else if (e->kind == RLT_EV_CLOSED)
        proc_closed(r, p, e->closed.lacked);
    else if (e->kind == RLT_EV_EXITED)
        proc_exited(r, p, &e->exited);
    else if (e->kind == RLT_EV_SPAWNED)
        rlt_zygote_spawned(r, p, e->spawned.pid);
    else if (e->kind == RLT_EV_UP_BROKEN)
        proc_broke(r, p);
    else
        rlt_proc_drained(r, p, e->proc_drained.crash);
}

/* No default: the compiler finds a kind that is missing. */
static void handle(struct rlt *r, const struct rlt_event *e)
{
    switch (e->kind) {
    case RLT_EV_TICK: break;
    case RLT_EV_ACCEPTED: rlt_proc_accepted(r, e->accepted.conn, e->accepted.pid, e->accepted.line); break;
    case RLT_EV_SOCKET: proc_event(r, e, e->socket.conn); break;
    case RLT_EV_CLOSED: proc_event(r, e, e->closed.conn); break;
    case RLT_EV_EXITED: proc_event(r, e, e->exited.conn); break;
    case RLT_EV_SPAWNED: proc_event(r, e, e->spawned.conn); break;
    case RLT_EV_LANE_FAILED: lane_failed(r, e->lane_failed.lane, e->lane_failed.why); break;
    case RLT_EV_REGION_FAILED: rlt_region_failed(r, (uint32_t)e->region_failed.region); break;
    case RLT_EV_UP: rlt_up_record(r, &e->up); break;
    case RLT_EV_UP_BROKEN: proc_event(r, e, e->up_broken.conn); break;
    case RLT_EV_PROC_DRAINED: proc_event(r, e, e->proc_drained.conn); break;
    case RLT_EV_UNDELIVERED: rlt_message_undelivered(r, &e->undelivered); break;
    case RLT_EV_LANE_DRAINED: rlt_remote_lane_drained(r, e->lane_drained.lane, e->lane_drained.reached); break;
    case RLT_EV_LANE_CLOSED: rlt_act(r->out, RLT_A_LANE_FREE)->lane_free.lane = e->lane_closed.lane; break;
    case RLT_EV_LANE_BROKEN: lane_broken(r, e->lane_broken.lane); break;
    case RLT_EV_OUT: rlt_peer_out(r, &e->out); break;
    case RLT_EV_HEAD_UP: rlt_head_up(r); break;
    case RLT_EV_HEAD_DOWN: rlt_head_down(r); break;
    case RLT_EV_HEAD: head_said(r, e->head.message); break;
    case RLT_EV_BEAT: rlt_beat_answered(r, e->beat.counter, e->beat.echo, e->beat.is_heard); break;
    case RLT_EV_PEER_OPEN: rlt_stream_opened(r, e->peer_open.stream); break;
    case RLT_EV_PEER_CLOSED: rlt_hear_closed(r, &e->peer_closed); break;
    case RLT_EV_PEER_FRAME: rlt_hear_frame(r, &e->peer_frame); break;
    case RLT_EV_PEER_DOUBT: rlt_peer_meet(r, e->peer_doubt.node); break;
    case RLT_EV_MOVED: rlt_moved_say(r, &e->moved); break;
    case RLT_EV_LEFT: rlt_drain_left(r, &e->left); break;
    case RLT_EV_FILE_BYTES: rlt_fetch_bytes(r, &e->file_bytes); break;
    case RLT_EV_FILE_READY: (e->file_ready.file.env ? rlt_env_file_ready : rlt_program_file_ready)(r, &e->file_ready); break;
    case RLT_EV_PROGRAM_LISTED: program_listed(r, &e->program_listed); break;
    case RLT_EV_PROGRAM_OPENED: rlt_program_opened(r, &e->program_opened); break;
    case RLT_EV_PROGRAM_SENT: rlt_detach_uploaded(r, &e->program_sent); break;
    case RLT_EV_ENV_MADE: rlt_env_made(r, &e->env_made); break;
    case RLT_EV_JOB_STARTED:
    case RLT_EV_JOB_FAILED:
    case RLT_EV_JOB_LOG:
    case RLT_EV_JOB_TEXT:
    case RLT_EV_JOB_EXITED: rlt_submit_event(r, e); break;
    case RLT_EV_MEMORY: rlt_memory_short(r, &e->memory); break;
    case RLT_EV_NOTICE:
    case RLT_EV_SHUTDOWN: rlt_drain_event(r, e); break;
    }
}

void rlt_step(struct rlt *r, const struct rlt_event *e, struct rlt_actions *out)
{
    r->out = out;
    if (!r->started_at)
        r->started_at = e->now;
    MT_ASSERT(e->now >= r->now);
    r->now = e->now;
    r->rng.state ^= e->random;
    if (!r->head.is_ready && r->node) {
        r->head.is_ready = true;
        rlt_act(out, RLT_A_READY);
    }
    fire_timers(r);
    handle(r, e);
    drain(r);
    rlt_schedule(r);
    rlt_orphan_round(r);
    rlt_drain_round(r);
    rlt_pool_tell_crowd(r);
    rlt_news_round(r);
    rlt_head_changed(r);
    r->out = NULL;
}

void rlt_out(struct rlt *r, uint64_t now, const struct rlt_ev_out *records, struct rlt_actions *out)
{
    MT_ASSERT(now >= r->now);
    r->now = now;
    r->out = out;
    rlt_peer_out(r, records);
    r->out = NULL;
}

void rlt_self(const struct rlt *r, uint32_t *out_node, uint32_t *out_epoch)
{
    *out_node = r->node;
    *out_epoch = r->epoch;
}
