/* SPDX-License-Identifier: Apache-2.0
 *
 * core.c - the raylet's state machine: which event goes to which part, timers, and the look inside.
 *
 * Owns: struct rlt and, through its tables, everything of state.h. Thread: the logic loop only.
 * Always: within a step, parts record and enqueue; rlt_schedule runs once at its end and decides who gets what.
 */
#include "raylet/core/state.h"

#include "core/base/log.h"

#include <stdio.h>
#include <stdlib.h>

void *rlt_calloc(size_t size)
{
    void *p = calloc(1, size);
    if (!p)
        rlt_out_of_memory();
    return p;
}

void rlt_map_put(mt_map *map, mt_id key, void *ptr)
{
    if (mt_map_put_ptr(map, key, ptr).code)
        rlt_out_of_memory();
}

void rlt_timer_set(struct rlt *r, struct rlt_timer *t, uint64_t at)
{
    mt_heap_remove(&r->timers, &t->node);
    if (mt_heap_push(&r->timers, &t->node, at).code)
        rlt_out_of_memory();
}

void rlt_timer_clear(struct rlt *r, struct rlt_timer *t)
{
    mt_heap_remove(&r->timers, &t->node);
}

static void slice_fire(struct rlt *r, struct rlt_timer *t)
{
    (void)t;
    r->is_dirty = true;
}

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
    r->slice.fire = slice_fire;
    r->guest_over.fire = slice_fire;
    r->full_over.fire = slice_fire;
    r->short_over.fire = slice_fire;
    rlt_head_init(r);
    rlt_alone_init(r);
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

static void fire_timers(struct rlt *r)
{
    mt_heap_node *node;
    while ((node = mt_heap_first(&r->timers)) && node->key <= r->now) {
        struct rlt_timer *t = mt_container_of(mt_heap_pop(&r->timers), struct rlt_timer, node);
        t->fire(r, t);
    }
}

/* ---- control records ----------------------------------------------------------------------------------------- */

/* A copy of the payload where it is at least `size` bytes long: what the sender left out stays zero. A shorter one
 * breaks the protocol, and the sender is dropped. */
static bool payload_copy(struct rlt *r, struct rlt_proc *p, const struct rlt_event *e, void *to, size_t size)
{
    if (e->record.length < LANE_RECORD_SIZE + size) {
        rlt_proc_gone(r, p);
        return false;
    }
    memcpy(to, e->payload, size);
    return true;
}

static void up_lease(struct rlt *r, struct rlt_proc *p, const struct rlt_event *e)
{
    struct ctl_lease lease;
    if (!payload_copy(r, p, e, &lease, sizeof lease))
        return;
    if (e->record.kind == CTL_DRAINED)
        rlt_lease_drained(r, p, lease.lease);
    else if (e->record.kind == CTL_KILL)
        rlt_lease_kill(r, p, lease.lease);
    else
        rlt_caller_drop(r, p, lease.lease);
}

static void up_demand(struct rlt *r, struct rlt_proc *p, const struct rlt_event *e)
{
    struct ctl_demand demand;
    if (payload_copy(r, p, e, &demand, sizeof demand))
        rlt_demand(r, p, &demand);
}

static void up_lane_want(struct rlt *r, struct rlt_proc *p, const struct rlt_event *e)
{
    struct ctl_lane_want want;
    if (payload_copy(r, p, e, &want, sizeof want))
        rlt_caller_want(r, p, e->record.id, &want);
}

static void up_monitor(struct rlt *r, struct rlt_proc *p, const struct rlt_event *e)
{
    struct ctl_monitor monitor;
    if (payload_copy(r, p, e, &monitor, sizeof monitor))
        rlt_monitor_add(r, p, e->record.id, &monitor);
}

static void up_region(struct rlt *r, struct rlt_proc *p, const struct rlt_event *e)
{
    struct ctl_segment region;
    if (!payload_copy(r, p, e, &region, sizeof region))
        return;
    if (e->record.kind == CTL_REGION_WANT)
        rlt_region_want(r, p, e->record.id, &region);
    else
        rlt_region_drop(r, p, region.segment);
}

static void up_sized(struct rlt *r, struct rlt_proc *p, const struct rlt_event *e, size_t least,
                     void (*take)(struct rlt *, struct rlt_proc *, const struct lane_record *, const uint8_t *))
{
    if (e->record.length < LANE_RECORD_SIZE + least)
        rlt_proc_gone(r, p);
    else
        take(r, p, &e->record, e->payload);
}

static void up_record(struct rlt *r, const struct rlt_event *e)
{
    struct rlt_proc *p = rlt_proc_of_conn(r, e->conn);
    if (!p || p->state == PROC_GREETING)
        return;
    switch (e->record.kind) {
    case CTL_CLASS: up_sized(r, p, e, sizeof(struct ctl_class), rlt_class_define); break;
    case CTL_DEMAND: up_demand(r, p, e); break;
    case CTL_DRAINED:
    case CTL_KILL:
    case CTL_LANE_DROP: up_lease(r, p, e); break;
    case CTL_BLOCKED:
    case CTL_UNBLOCKED: rlt_worker_blocked(r, p, e->record.kind == CTL_BLOCKED); break;
    case CTL_LANE_WANT: up_lane_want(r, p, e); break;
    case CTL_MESSAGE: up_sized(r, p, e, sizeof(struct ctl_message), rlt_message); break;
    case CTL_MONITOR: up_monitor(r, p, e); break;
    case CTL_DEMONITOR: rlt_monitor_drop(r, p, e->record.id); break;
    case CTL_OBJECT_DEAD: up_sized(r, p, e, sizeof(struct lane_ref), rlt_object_dead); break;
    case CTL_REQUEST: up_sized(r, p, e, sizeof(struct ctl_request), rlt_request); break;
    case CTL_REGION_WANT:
    case CTL_REGION_DROP: up_region(r, p, e); break;
    case CTL_SHUTDOWN:
        p->is_leaving = true; /* its end follows: nothing of it is to be missed */
        break;
    default: rlt_proc_gone(r, p);
    }
}

/* ---- the step -------------------------------------------------------------------------------------------------- */

void rlt_shut_down(struct rlt *r, const char *why)
{
    if (r->is_stopping)
        return;
    r->is_stopping = true;
    rlt_act(r->out, RLT_A_EXIT)->text = rlt_keep(r->out, why ? why : "asked to", strlen(why ? why : "asked to") + 1);
}

static void proc_event(struct rlt *r, const struct rlt_event *e)
{
    struct rlt_proc *p = rlt_proc_of_conn(r, e->conn);
    if (!p)
        return;
    switch (e->kind) {
    case RLT_EV_SOCKET: rlt_proc_socket(r, e); break;
    case RLT_EV_CLOSED:
        p->is_closed = true;
        rlt_pool_lacks(p, e->text);
        rlt_proc_gone(r, p);
        break;
    case RLT_EV_EXITED:
        if (e->text && !p->process && !p->crash)
            p->crash = strdup(e->text);
        if (e->has_status && p->state == PROC_DYING) {
            rlt_proc_status(r, p, e->status); /* its end was known; p may be gone now */
            break;
        }
        if (e->has_status)
            rlt_proc_status(r, p, e->status);
        else
            rlt_proc_gone(r, p);
        break;
    case RLT_EV_SPAWNED: rlt_pool_spawned(r, p, e->pid); break;
    case RLT_EV_UP_BROKEN:
        mt_log(MT_LOG_WARN, "process_dropped", "pid=%d why=\"its ring is broken, or it reads nothing\"", p->pid);
        rlt_proc_gone(r, p);
        break;
    case RLT_EV_PROC_DRAINED: rlt_proc_drained(r, p, e->text); break;
    default: break;
    }
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

static void handle(struct rlt *r, const struct rlt_event *e);

static void file_event(struct rlt *r, const struct rlt_event *e)
{
    if (e->kind == RLT_EV_PROGRAM_SENT)
        rlt_detach_uploaded(r, e);
    else if (e->kind == RLT_EV_FILE_BYTES)
        rlt_fetch_bytes(r, e);
    else if (e->kind == RLT_EV_ENV_MADE)
        rlt_env_made(r, e);
    else
        rlt_program_event(r, e);
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
    rlt_schedule(r);
    rlt_pool_tell_crowd(r);
    rlt_head_changed(r);
    r->out = NULL;
}

static void handle(struct rlt *r, const struct rlt_event *e)
{
    switch (e->kind) {
    case RLT_EV_TICK: break;
    case RLT_EV_MEMORY: rlt_memory_short(r, e); break;
    case RLT_EV_ACCEPTED: rlt_proc_accepted(r, e->conn, e->pid); break;
    case RLT_EV_UP: up_record(r, e); break;
    case RLT_EV_UNDELIVERED: rlt_message_undelivered(r, e); break;
    case RLT_EV_LANE_FAILED: lane_failed(r, e->lane, e->text); break;
    case RLT_EV_REGION_FAILED: rlt_region_failed(r, (uint32_t)e->number); break;
    case RLT_EV_LANE_DRAINED: rlt_remote_lane_drained(r, e->lane, e->number); break;
    case RLT_EV_LANE_CLOSED: rlt_act(r->out, RLT_A_LANE_FREE)->lane = e->lane; break;
    case RLT_EV_LANE_BROKEN: rlt_remote_lane_broken(r, e->lane); break;
    case RLT_EV_OUT: rlt_peer_out(r, e); break;
    case RLT_EV_PEER_OPEN:
    case RLT_EV_PEER_CLOSED:
    case RLT_EV_PEER_FRAME:
    case RLT_EV_PEER_DOUBT: rlt_peer_event(r, e); break;
    case RLT_EV_PROGRAM_SENT:
    case RLT_EV_FILE_BYTES:
    case RLT_EV_FILE_READY:
    case RLT_EV_PROGRAM_LISTED:
    case RLT_EV_PROGRAM_OPENED:
    case RLT_EV_ENV_MADE: file_event(r, e); break;
    case RLT_EV_HEAD_UP:
    case RLT_EV_HEAD_DOWN:
    case RLT_EV_HEAD: rlt_head_event(r, e); break;
    case RLT_EV_JOB_STARTED:
    case RLT_EV_JOB_FAILED:
    case RLT_EV_JOB_LOG:
    case RLT_EV_JOB_TEXT:
    case RLT_EV_JOB_EXITED: rlt_submit_event(r, e); break;
    case RLT_EV_SHUTDOWN: rlt_shut_down(r, e->text); break;
    default: proc_event(r, e);
    }
}

void rlt_self(const struct rlt *r, uint32_t *out_node, uint32_t *out_epoch)
{
    *out_node = r->node;
    *out_epoch = r->epoch;
}

/* ---- looking in -------------------------------------------------------------------------------------------------- */

void rlt_stats(const struct rlt *r, struct rlt_stats *out)
{
    *out = r->stats;
    out->node = r->node;
    out->epoch = r->epoch;
    out->processes = r->processes.count;
    out->workers = r->worker_count;
    out->jobs = r->jobs.count;
    MT_MAP_EACH(&r->peers, entry)
        out->peers += ((const struct rlt_peer *)entry->value.ptr)->has_link;
    out->monitors = r->monitors.count;
    out->regions = r->regions.count;
    MT_MAP_EACH(&r->jobs, entry) {
        const struct rlt_job *job = entry->value.ptr;
        out->idle_workers += job->idle_count;
        out->starting_workers += job->starting_count;
    }
    for (struct rlt_list *link = r->all_leases.next; link != &r->all_leases; link = link->next) {
        const struct rlt_lease *l = mt_container_of(link, struct rlt_lease, in_all);
        out->leases += l->kind != LEASE_CALLER;
        out->lanes += l->has_lane;
    }
    out->resource_count = r->ledger.count;
    for (uint32_t i = 0; i < r->ledger.count; i++) {
        out->total[i] = r->ledger.total[i].milli;
        out->free[i] = r->ledger.free[i];
        out->leased[i] = r->ledger.leased[i];
    }
}

static const char *check_resources(const struct rlt *r)
{
    int64_t     leased[MT_RLT_RESOURCES_MAX] = {0};
    int         cpu = rlt_ledger_find(&r->ledger, "CPU");
    const char *breach = rlt_bundles_check(r, leased);
    if (breach)
        return breach;
    for (struct rlt_list *link = r->all_leases.next; link != &r->all_leases; link = link->next) {
        const struct rlt_lease *l = mt_container_of(link, struct rlt_lease, in_all);
        for (uint32_t i = 0; i < r->ledger.count && !l->bundle; i++)
            if (!l->hold.is_cpu_out || (int)i != cpu)
                leased[i] += l->hold.amount[i];
    }
    MT_MAP_EACH(&r->submitted, entry) {
        const struct rlt_submitted *job = entry->value.ptr;
        for (uint32_t i = 0; i < r->ledger.count; i++)
            leased[i] += job->hold.amount[i];
    }
    for (uint32_t i = 0; i < r->ledger.count; i++) {
        if (r->ledger.free[i] + r->ledger.leased[i] != r->ledger.total[i].milli)
            return "free + leased = total";
        if (leased[i] != r->ledger.leased[i])
            return "what the leases hold is what the ledger has leased";
    }
    return NULL;
}

const char *rlt_check(const struct rlt *r)
{
    for (struct rlt_list *link = r->all_leases.next; link != &r->all_leases; link = link->next) {
        const struct rlt_lease *l = mt_container_of(link, struct rlt_lease, in_all);
        if (l->class && (!l->owner || l->class->owner != l->owner))
            return "a lease's class belongs to its owner";
        if (l->kind != LEASE_CALLER && l->worker && l->worker->lease != l)
            return "a worker serves the lease that names it";
        if (l->state == LEASE_STARTING && l->has_lane && !l->worker && l->worker_node == r->node)
            return "no lane before there is a worker";
        if (l->kind == LEASE_CALLER && !l->owner && l->owner_node == r->node && l->state == LEASE_ACTIVE)
            return "a caller's lane has a caller, or is recalled";
    }
    MT_MAP_EACH(&r->conns, entry) {
        const struct rlt_proc *p = entry->value.ptr;
        if (p->lease && p->lease->worker != p)
            return "a lease names the worker that serves it";
        if (p->lease && !rlt_list_is_empty(&p->in_idle))
            return "a warm worker has no lease";
    }
    return check_resources(r);
}
