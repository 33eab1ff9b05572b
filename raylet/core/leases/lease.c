/* SPDX-License-Identifier: Apache-2.0
 *
 * lease.c - what owners want (classes and levels), and the life of each lease.
 *
 * Owns: every struct rlt_class and rlt_lease. Thread: the logic loop only.
 * Always: resources are held from STARTING until the end; class->held counts its STARTING and ACTIVE leases; a lease is
 * in the lists of exactly the ends that it has.
 *
 *   STARTING --worker--> ACTIVE --level falls, slice over, owner dead--> RECALLED --CTL_DRAINED--> ended (task)
 *      |                   |                                                |   '--CTL_DRAINED--> DRAINED --> ended
 *      '--level falls------'-------------- worker dies ---------------------'-- (actor, GPU: with its process)
 */
#include "raylet/core/state.h"

#include "core/text/labels.h"
#include "core/base/log.h"
#include "core/base/plant.h"

#include <stdio.h>
#include <stdlib.h>

enum { CLASSES_SWEEP = 64 };

static void lease_set_state(struct rlt_lease *l, enum rlt_lease_state next)
{
    bool did_count = l->state <= LEASE_ACTIVE, does_count = next <= LEASE_ACTIVE;
    MT_ASSERT(next >= l->state);
    if (l->class && did_count && !does_count)
        l->class->held--;
    l->state = next;
}

/* ---- classes and levels ---------------------------------------------------------------------------------------- */

struct rlt_class *rlt_class_find(const struct rlt_proc *owner, uint32_t class_id)
{
    for (struct rlt_list *link = owner->classes.next; link != &owner->classes; link = link->next) {
        struct rlt_class *c = mt_container_of(link, struct rlt_class, in_owner);
        if (c->def.class_id == class_id)
            return c;
    }
    return NULL;
}

void rlt_class_unschedulable(struct rlt *r, struct rlt_class *c, int32_t code, const char *text)
{
    struct ctl_unschedulable u = {.class_id = c->def.class_id, .code = code};
    c->is_refused = true;
    rlt_list_out(&c->in_waiting);
    snprintf(u.text, sizeof u.text, "%s", text);
    rlt_down(r->out, c->owner->conn, CTL_UNSCHEDULABLE, (mt_id){0, 0}, &u, sizeof u);
}

bool rlt_class_shuns(const struct rlt_class *c, uint32_t node)
{
    for (size_t i = 0; c->job && i < c->job->shunned.count; i++)
        if (c->job->shunned.data[i] == node)
            return true;
    return false;
}

bool rlt_class_has_node_left(const struct rlt *r, const struct rlt_class *c)
{
    if (ctl_class_is_grouped(&c->def))
        return true; /* where its bundles are; the head knows */
    if (c->def.policy == CTL_NODE)
        return !rlt_class_shuns(c, c->def.node);
    if (!rlt_class_shuns(c, r->node) && mt_selector_match(c->def.labels, r->config.labels) &&
        rlt_ledger_could_ever(&r->ledger, c->def.resources, c->def.resource_count, NULL))
        return true;
    if (c->job->shunned.count >= MT_RLT_SHUNNED_MAX)
        return false;
    MT_MAP_EACH(&r->nodes, entry) {
        const struct rlt_node *n = entry->value.ptr;
        if (n->node != r->node && n->state == 1 && rlt_node_could_ever(n, c))
            return true;
    }
    return false;
}

static void shun(struct rlt *r, struct rlt_job *job, uint32_t node, int32_t code, const char *text)
{
    if (mt_vec_push(&job->shunned, node).code)
        rlt_out_of_memory();
    job->shun_code = code;
    snprintf(job->shun_text, sizeof job->shun_text, "%s", text);
    mt_log(MT_LOG_WARN, "node_shunned", "node=%u job=%s why=\"%.300s\"", node, job->name, text);
    r->is_dirty = true; /* the head is to look elsewhere */
}

void rlt_class_shun(struct rlt *r, struct rlt_class *c, uint32_t node, int32_t code, const char *text)
{
    if (!rlt_class_shuns(c, node) && c->job->shunned.count < MT_RLT_SHUNNED_MAX)
        shun(r, c->job, node, code, text);
    if (ctl_class_is_grouped(&c->def) || !rlt_class_has_node_left(r, c))
        rlt_class_unschedulable(r, c, code, text);
}

void rlt_shunned_node_lost(struct rlt *r, uint32_t node)
{
    MT_MAP_EACH(&r->jobs, entry) {
        struct rlt_job *job = entry->value.ptr;
        for (size_t i = job->shunned.count; i-- > 0;)
            if (job->shunned.data[i] == node)
                mt_vec_remove_swap(&job->shunned, i);
    }
}

/* An actor has a class of its own, and an owner may make any number of actors, one after the other; so with placement groups. */
static void classes_sweep(struct rlt *r, struct rlt_proc *owner)
{
    if (owner->class_count < owner->class_sweep_at)
        return;
    for (struct rlt_list *link = owner->classes.next, *next; link != &owner->classes; link = next) {
        struct rlt_class *c = mt_container_of(link, struct rlt_class, in_owner);
        next = link->next;
        bool is_over = c->version == CTL_DEMAND_LAST || (c->version && c->def.flags & CTL_CLASS_ACTOR);
        if (is_over && c->wanted == 0 && rlt_list_is_empty(&c->leases))
            rlt_class_drop(r, c);
    }
    owner->class_sweep_at = 2 * owner->class_count + CLASSES_SWEEP;
}

void rlt_class_define(struct rlt *r, struct rlt_proc *owner, const struct lane_record *record, const uint8_t *payload)
{
    struct ctl_class def;
    char             text[CTL_TEXT_SIZE];
    (void)record;
    memcpy(&def, payload, sizeof def);
    def.name[sizeof def.name - 1] = 0;
    def.labels[sizeof def.labels - 1] = 0;
    classes_sweep(r, owner);
    if (def.resource_count > CTL_RESOURCES || owner->class_count >= MT_RLT_CLASSES_MAX) {
        rlt_proc_gone(r, owner);
        return;
    }
    if (rlt_class_find(owner, def.class_id))
        return; /* said twice */
    struct rlt_class *c = rlt_calloc(sizeof *c);
    c->owner = owner;
    c->job = def.env ? rlt_env_workers(r, rlt_job_base(owner->job), def.env, 0) : owner->job;
    c->def = def;
    rlt_list_init(&c->in_owner);
    rlt_list_init(&c->in_waiting);
    rlt_list_init(&c->leases);
    rlt_list_append(&owner->classes, &c->in_owner);
    owner->class_count++;
    if (mt_selector_check(c->def.labels, text, sizeof text).code ||
        rlt_request_check(c->def.resources, c->def.resource_count, text, sizeof text).code)
        rlt_class_unschedulable(r, c, MT_EINVAL, text);
}

void rlt_class_wait(struct rlt *r, struct rlt_class *c)
{
    if (c->is_refused || c->held >= c->wanted) {
        rlt_list_out(&c->in_waiting);
        return;
    }
    if (rlt_list_is_empty(&c->in_waiting)) {
        c->waiting_since = r->now;
        rlt_list_append(&r->waiting, &c->in_waiting);
    }
    r->is_dirty = true;
}

/* Leases beyond the level go: first those that have no worker yet, then the youngest. */
static void class_shrink(struct rlt *r, struct rlt_class *c)
{
    for (int pass = LEASE_STARTING; pass <= LEASE_ACTIVE && c->held > c->wanted; pass++)
        for (struct rlt_list *link = c->leases.prev, *prev; link != &c->leases && c->held > c->wanted; link = prev) {
            struct rlt_lease *l = mt_container_of(link, struct rlt_lease, in_class);
            prev = link->prev;
            if ((int)l->state == pass)
                rlt_lease_recall(r, l, l->kind == LEASE_ACTOR ? MT_RLT_ACTOR_GRACE_MS : 0);
        }
}

void rlt_demand(struct rlt *r, struct rlt_proc *owner, const struct ctl_demand *demand)
{
    struct rlt_class *c = rlt_class_find(owner, demand->class_id);
    char              text[CTL_TEXT_SIZE];
    if (!c || demand->version <= c->version)
        return;
    c->version = demand->version;
    c->placed_here = 0;
    c->wanted = demand->wanted < MT_RLT_WANTED_MAX ? demand->wanted : MT_RLT_WANTED_MAX;
    if (mt_selector_check(c->def.labels, text, sizeof text).code ||
        rlt_request_check(c->def.resources, c->def.resource_count, text, sizeof text).code) {
        if (c->wanted)
            rlt_class_unschedulable(r, c, MT_EINVAL, text);
        return;
    }
    c->is_refused = false; /* a new level is a new question */
    class_shrink(r, c);
    rlt_class_wait(r, c);
}

void rlt_class_drop(struct rlt *r, struct rlt_class *c)
{
    (void)r;
    RLT_LIST_EACH(&c->leases, link) {
        mt_container_of(link, struct rlt_lease, in_class)->class = NULL;
        rlt_list_out(link);
    }
    rlt_list_out(&c->in_waiting);
    rlt_list_out(&c->in_owner);
    c->owner->class_count--;
    free(c);
}

/* ---- one lease --------------------------------------------------------------------------------------------------- */

static void lease_timer_fire(struct rlt *r, struct rlt_timer *t)
{
    struct rlt_lease *l = mt_container_of(t, struct rlt_lease, timer);
    if (l->worker && l->kind != LEASE_CALLER)
        rlt_act(r->out, RLT_A_KILL)->conn = l->worker->conn;
}

struct rlt_lease *rlt_lease_find(const struct rlt *r, uint64_t id)
{
    return mt_map_ptr(&r->leases, mt_map_key(id));
}

struct rlt_lease *rlt_lease_new(struct rlt *r, enum rlt_lease_kind kind, struct rlt_job *job, uint64_t id)
{
    struct rlt_lease *l = rlt_calloc(sizeof *l);
    /* Unique in the cluster, also after a restart of this node: node, epoch, count. */
    if (!id)
        id = (uint64_t)(r->node & 0xffff) << 48 | (uint64_t)(r->epoch & 0xffff) << 32 | (++r->next_lease & 0xffffffff);
    l->id = id;
    l->kind = kind;
    l->job = job;
    if (job)
        job->lease_count++;
    l->owner_node = l->worker_node = r->node;
    l->timer.fire = lease_timer_fire;
    rlt_list_init(&l->in_class);
    rlt_list_init(&l->in_owner);
    rlt_list_init(&l->in_worker);
    rlt_list_init(&l->in_needy);
    rlt_list_init(&l->in_all);
    rlt_list_append(&r->all_leases, &l->in_all);
    rlt_map_put(&r->leases, mt_map_key(l->id), l);
    return l;
}

void rlt_lease_set_worker(struct rlt *r, struct rlt_lease *l, struct rlt_proc *worker)
{
    (void)r;
    l->worker = worker;
    l->worker_process = worker->process;
    rlt_list_append(&worker->served, &l->in_worker);
    if (l->kind != LEASE_CALLER) {
        MT_ASSERT(!worker->lease);
        worker->lease = l;
        worker->is_blocked = false;
        if (l->kind == LEASE_ACTOR || l->hold.gpu_count)
            worker->was_dirty = true;
    }
}

void rlt_grant_fill(const struct rlt *r, const struct rlt_lease *l, struct ctl_grant *g)
{
    int cpu = rlt_ledger_find(&r->ledger, "CPU");
    g->lease = l->id;
    g->flags = (l->kind == LEASE_ACTOR ? CTL_CLASS_ACTOR : 0) | (l->is_strict ? CTL_CLASS_STRICT : 0);
    g->incarnation = l->incarnation;
    if (l->bundle)
        g->group = l->bundle->group;
    g->flags |= l->bundle && l->captures ? CTL_CLASS_CAPTURE : 0;
    g->gpu_count = l->hold.gpu_count;
    memcpy(g->gpus, l->hold.gpus, sizeof g->gpus);
    memcpy(g->cpus, l->hold.cpus, sizeof g->cpus);
    g->cpu_milli = cpu < 0 ? 0 : l->hold.amount[cpu];
}

static void grant_send(struct rlt *r, uint64_t to, enum ctl_kind kind, mt_id id, const struct ctl_grant *grant,
                       struct rlt_fd peer_park)
{
    struct rlt_action *a = rlt_act_ctl(r->out, RLT_A_SOCKET, to, kind, id, grant, sizeof *grant);
    a->fds[0].kind = RLT_FD_LANE;
    a->fds[0].number = grant->lease;
    a->fds[1] = peer_park;
    a->fd_count = 2;
}

void rlt_lease_activate(struct rlt *r, struct rlt_lease *l, struct rlt_proc *worker)
{
    struct ctl_grant to_owner = {0}, to_worker = {0};
    mt_id            none = {0, 0};

    rlt_lease_set_worker(r, l, worker);
    lease_set_state(l, LEASE_ACTIVE);
    l->granted_at = r->now;
    l->has_lane = true;
    r->stats.grants++;
    if (l->is_strict)
        rlt_strict_begin(r, l);
    if (l->owner_node != r->node) {
        rlt_remote_activate(r, l);
        return;
    }
    rlt_act(r->out, RLT_A_LANE_NEW)->lane = l->id;
    rlt_grant_fill(r, l, &to_owner);
    to_worker = to_owner;
    to_owner.class_id = l->class ? l->class->def.class_id : 0;
    to_owner.peer = worker->process;
    to_owner.peer_node = r->node;
    to_owner.peer_pid = worker->pid;
    to_worker.peer = l->owner_process;
    to_worker.peer_node = l->owner_node;
    to_worker.peer_pid = l->owner ? l->owner->pid : 0;
    grant_send(r, worker->conn, CTL_LANE, none, &to_worker, (struct rlt_fd){RLT_FD_PARK, l->owner->conn});
    grant_send(r, l->owner->conn, CTL_GRANT, l->request, &to_owner, (struct rlt_fd){RLT_FD_PARK, worker->conn});
}

static void recall_tell(struct rlt *r, const struct rlt_lease *l)
{
    struct ctl_lease   lease = {l->id};
    struct rlt_action *a = rlt_act(r->out, RLT_A_LANE_RECALL);
    a->lane = l->id;
    a->conn = l->owner ? l->owner->conn : 0;
    a->peer = l->worker ? l->worker->conn : 0;
    if (l->owner && l->owner->state == PROC_ALIVE)
        rlt_down(r->out, l->owner->conn, CTL_RECALL, (mt_id){0, 0}, &lease, sizeof lease);
    if (l->worker && l->worker->state == PROC_ALIVE)
        rlt_down(r->out, l->worker->conn, CTL_RECALL, (mt_id){0, 0}, &lease, sizeof lease);
}

/* The other node, if there is one, hears of it as well. */
static void recall_pass_on(struct rlt *r, const struct rlt_lease *l, uint64_t grace_ms)
{
    struct peer_recall m = {.lease = l->id, .grace_ms = grace_ms};
    uint32_t           node = l->owner_node != r->node ? l->owner_node : l->worker_node;
    if (node && node != r->node)
        rlt_peer_send(r, node, PEER_RECALL, (mt_id){0, 0}, &m, sizeof m);
}

void rlt_lease_recalled(struct rlt *r, struct rlt_lease *l)
{
    lease_set_state(l, LEASE_RECALLED);
    l->recalled_at = r->now;
    r->stats.recalls++;
    recall_tell(r, l);
    if (l->class)
        rlt_class_wait(r, l->class);
}

void rlt_lease_recall(struct rlt *r, struct rlt_lease *l, uint64_t grace_ms)
{
    if (l->state == LEASE_STARTING) {
        struct ctl_ended end = {.lease = l->id, .node = r->node};
        struct ctl_lease lease = {l->id};
        if (l->worker_node != r->node)
            rlt_peer_send(r, l->worker_node, PEER_DROP, (mt_id){0, 0}, &lease, sizeof lease);
        rlt_lease_end(r, l, &end);
        return;
    }
    if (l->state == LEASE_ACTIVE) {
        lease_set_state(l, LEASE_RECALLED);
        l->recalled_at = r->now;
        r->stats.recalls++;
        recall_tell(r, l);
        recall_pass_on(r, l, grace_ms);
    }
    if (grace_ms && l->worker && !mt_heap_holds(&l->timer.node))
        rlt_timer_set(r, &l->timer, r->now + grace_ms * RLT_MS);
}

void rlt_lease_drained(struct rlt *r, struct rlt_proc *worker, uint64_t id)
{
    struct rlt_lease *l = mt_map_ptr(&r->leases, mt_map_key(id));
    struct ctl_ended  end = {.lease = id, .code = MT_OK, .pid = worker->pid, .node = r->node};
    if (!l || l->worker != worker || l->state == LEASE_DRAINED)
        return;
    worker->job->lack_count = 0;
    if (l->kind == LEASE_CALLER || !worker->was_dirty) {
        rlt_lease_end(r, l, &end);
        return;
    }
    lease_set_state(l, LEASE_DRAINED); /* what it holds is free when its process is gone, not before */
    rlt_proc_leave(r, worker, "its lease has ended");
}

void rlt_lease_kill(struct rlt *r, struct rlt_proc *owner, uint64_t id)
{
    struct rlt_lease *l = mt_map_ptr(&r->leases, mt_map_key(id));
    struct ctl_lease  lease = {id};
    if (!l || l->owner != owner || l->kind == LEASE_CALLER)
        return;
    if (l->worker)
        rlt_act(r->out, RLT_A_KILL)->conn = l->worker->conn;
    else if (l->worker_node != r->node && l->state != LEASE_STARTING)
        rlt_peer_send(r, l->worker_node, PEER_KILL, (mt_id){0, 0}, &lease, sizeof lease);
}

static void lease_unlink(struct rlt *r, struct rlt_lease *l)
{
    if (l->job && !rlt_list_is_empty(&l->in_needy))
        l->job->needy_count--;
    rlt_list_out(&l->in_needy);
    rlt_list_out(&l->in_class);
    rlt_list_out(&l->in_owner);
    rlt_list_out(&l->in_worker);
    rlt_list_out(&l->in_all);
    rlt_timer_clear(r, &l->timer);
    mt_map_remove(&r->leases, mt_map_key(l->id));
}

void rlt_lease_forget(struct rlt *r, struct rlt_lease *l)
{
    struct rlt_job *job = l->job;
    bool            is_switched = l->owner_node != r->node || l->worker_node != r->node;
    if (!MT_PLANT(MT_PLANT_LEASE_KEEPS))
        rlt_lease_give(r, l);
    if (MT_PLANT(MT_PLANT_LEASE_LEAKS))
        l->has_lane = false;
    if (l->has_lane && is_switched)
        rlt_act(r->out, RLT_A_SW_LANE_CLOSE)->lane = l->id; /* its memory goes when the switch has forgotten it */
    else if (l->has_lane)
        rlt_act(r->out, RLT_A_LANE_FREE)->lane = l->id;
    lease_unlink(r, l);
    free(l->end);
    free(l);
    if (job && --job->lease_count == 0)
        rlt_job_free_if_empty(r, job);
    r->is_dirty = true;
}

/* Says to its owner, of this node, that it has ended: behind the last records of a lane that comes from elsewhere. */
static void ended_tell(struct rlt *r, const struct rlt_lease *l, const struct ctl_ended *end)
{
    struct rlt_action *a;
    if (!l->owner || l->owner->state != PROC_ALIVE)
        return;
    a = rlt_down(r->out, l->owner->conn, CTL_ENDED, (mt_id){0, 0}, end, sizeof *end);
    if (l->worker_node != r->node) {
        a->lane = l->id;
        a->taken = l->taken;
    }
}

/* To its owner's node, of a lease that never got a lane. Where it has been told of the grant, it must hear of an end. */
static void refused_tell(struct rlt *r, const struct rlt_lease *l, bool was_said, const struct ctl_ended *end)
{
    struct peer_lease_no no = {.lease = l->id, .code = end->code ? end->code : MT_EAGAIN};
    struct peer_ended    ended = {.ended = *end, .taken = 0};
    if (!l->owner_node)
        return;
    if (was_said) {
        rlt_peer_send(r, l->owner_node, PEER_ENDED, (mt_id){0, 0}, &ended, sizeof ended);
        return;
    }
    snprintf(no.text, sizeof no.text, "%.*s", (int)sizeof no.text - 1, end->text);
    rlt_peer_send(r, l->owner_node, PEER_LEASE_NO, (mt_id){0, 0}, &no, sizeof no);
}

void rlt_lease_end(struct rlt *r, struct rlt_lease *l, const struct ctl_ended *end)
{
    struct rlt_class *c = l->class;
    struct rlt_proc  *worker = l->worker;
    bool              was_said = l->state != LEASE_STARTING, was_granted = was_said && l->has_lane;
    bool              is_owner_here = l->owner_node == r->node;
    uint32_t          worker_node = l->worker_node;

    if (l->end)
        return; /* the switch is emptying its lane */
    lease_set_state(l, LEASE_DRAINED);
    r->stats.ended += was_granted;
    if (!MT_PLANT(MT_PLANT_LEASE_KEEPS) || end->code != MT_EWORKER_DIED)
        rlt_lease_give(r, l);
    rlt_timer_clear(r, &l->timer);
    rlt_list_out(&l->in_worker);
    if (l->is_strict && worker)
        rlt_strict_end(r, l);
    l->worker = NULL;
    if (was_granted && is_owner_here)
        ended_tell(r, l, end);
    else if (!is_owner_here && !was_granted)
        refused_tell(r, l, was_said, end);
    if (worker)
        rlt_object_lease_over(r, l);
    if (was_granted && !is_owner_here)
        rlt_remote_lease_over(r, l, end); /* forgotten when its lane is empty */
    else
        rlt_lease_forget(r, l);
    if (worker && worker->lease == l) {
        worker->lease = NULL;
        rlt_pool_offer(r, worker);
    }
    if (c) {
        c->ended_elsewhere += worker_node != r->node;
        rlt_class_wait(r, c);
    }
    r->is_dirty = true;
}

/* Its owner is dead, or has given it up before it was granted. */
void rlt_lease_owner_gone(struct rlt *r, struct rlt_lease *l)
{
    struct ctl_lease lease = {l->id};
    struct ctl_ended end = {.lease = l->id, .node = r->node};
    rlt_list_out(&l->in_owner);
    l->owner = NULL;
    if (l->worker_node != r->node) {
        rlt_peer_send(r, l->worker_node, PEER_DROP, (mt_id){0, 0}, &lease, sizeof lease);
        rlt_lease_end(r, l, &end);
    } else if (l->kind == LEASE_ACTOR && l->worker) {
        rlt_act(r->out, RLT_A_KILL)->conn = l->worker->conn;
    } else {
        rlt_lease_recall(r, l, l->kind == LEASE_TASK ? MT_RLT_ORPHAN_GRACE_MS : 0);
    }
}

void rlt_worker_blocked(struct rlt *r, struct rlt_proc *worker, bool is_blocked)
{
    if (!worker->lease || worker->is_blocked == is_blocked)
        return;
    worker->is_blocked = is_blocked;
    if (is_blocked)
        rlt_ledger_lend_cpu(rlt_lease_ledger(r, worker->lease), &worker->lease->hold);
    else
        rlt_ledger_retake_cpu(rlt_lease_ledger(r, worker->lease), &worker->lease->hold);
    r->is_dirty = true;
}
