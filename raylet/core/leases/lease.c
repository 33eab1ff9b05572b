/* SPDX-License-Identifier: Apache-2.0
 *
 * lease.c - the life of each lease.
 *
 * Owns: every struct rlt_lease. Thread: the logic loop only.
 * Always: resources are held from STARTING until the end; class->held counts its STARTING and ACTIVE leases; a lease is
 * in the lists of exactly the ends that it has.
 *
 *   STARTING --worker--> ACTIVE --level falls, slice over, owner dead--> RECALLED --CTL_DRAINED--> ended (task)
 *      |                   |                                                |   '--CTL_DRAINED--> DRAINED --> ended
 *      '--level falls------'-------------- worker dies ---------------------'-- (actor, GPU: with its process)
 */
#include "raylet/core/jobs/jobs.h"
#include "raylet/core/leases/leases.h"
#include "raylet/core/leases/parts.h"
#include "raylet/core/leases/patience.h"
#include "raylet/core/links/links.h"
#include "raylet/core/pool/pool.h"

#include "core/base/machine.h"
#include "core/lane/lane.h"
#include "core/base/plant.h"

#include <stdio.h>
#include <stdlib.h>

static const char *const lease_names[] = {
    [LEASE_STARTING] = "STARTING", [LEASE_ACTIVE] = "ACTIVE", [LEASE_RECALLED] = "RECALLED", [LEASE_DRAINED] = "DRAINED"};
static const uint32_t lease_next[] = {
    [LEASE_STARTING] = MT_STATE(LEASE_ACTIVE) | MT_STATE(LEASE_DRAINED),
    [LEASE_ACTIVE] = MT_STATE(LEASE_RECALLED) | MT_STATE(LEASE_DRAINED),
    [LEASE_RECALLED] = MT_STATE(LEASE_DRAINED),
    [LEASE_DRAINED] = MT_STATE(LEASE_DRAINED), /* its worker left first, now it ends */
};
static const struct mt_machine lease_machine = MT_MACHINE("lease", lease_names, lease_next);

void rlt_lease_set_state(struct rlt_lease *l, enum rlt_lease_state next)
{
    bool did_count = l->state <= LEASE_ACTIVE, does_count = next <= LEASE_ACTIVE;
    MT_TRANSITION(&lease_machine, l->state, next);
    if (l->class && did_count && !does_count)
        l->class->held--;
    l->state = next;
}

/* ---- one lease --------------------------------------------------------------------------------------------------- */

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
    l->timer.kind = RLT_TIMER_LEASE;
    rlt_list_init(&l->in_class);
    rlt_list_init(&l->in_owner);
    rlt_list_init(&l->in_worker);
    rlt_list_init(&l->in_needy);
    rlt_list_init(&l->in_all);
    rlt_list_append(&r->all_leases, &l->in_all);
    rlt_map_put(&r->leases, mt_map_key(l->id), l);
    return l;
}

static void lease_set_worker(struct rlt_lease *l, struct rlt_proc *worker)
{
    l->worker = worker;
    rlt_list_append(&worker->served, &l->in_worker);
    if (l->kind != LEASE_CALLER) {
        MT_ASSERT(!worker->lease);
        worker->lease = l;
        worker->is_blocked = false;
        if (l->kind == LEASE_ACTOR || l->hold.gpu_count)
            worker->was_dirty = true;
    }
}

void rlt_lease_activate(struct rlt *r, struct rlt_lease *l, struct rlt_proc *worker)
{
    lease_set_worker(l, worker);
    rlt_lease_set_state(l, LEASE_ACTIVE);
    l->granted_at = r->now;
    l->has_lane = true;
    r->stats.grants++;
    r->is_dirty = true; /* as many may run already as there are CPUs */
    if (l->is_strict)
        rlt_strict_begin(r, l);
    if (l->owner_node == r->node)
        rlt_lane_grant(r, l);
    else
        rlt_lane_grant_remote(r, l);
}

void rlt_lease_timer(struct rlt *r, struct rlt_lease *l)
{
    if (l->worker && l->kind != LEASE_CALLER)
        rlt_pool_kill(r, l->worker);
}

/* A worker has no lease (any more): it gets the next, or stays warm. One that was killed may have given its lease back before, or
 * have come to it. */
void rlt_lease_offer(struct rlt *r, struct rlt_proc *worker)
{
    struct rlt_job   *job = worker->job;
    struct rlt_lease *needy = rlt_list_first(&job->needy, struct rlt_lease, in_needy);
    if (worker->state != PROC_ALIVE || worker->is_leaving || (worker->killed_at && !MT_PLANT(MT_PLANT_KILLED_SERVES)))
        return;
    if (job->is_ending) {
        rlt_pool_kill(r, worker);
    } else if (worker->was_dirty) {
        rlt_proc_leave(r, worker, MT_RLT_LEAVE_MS, "its lease has ended");
    } else if (needy) {
        rlt_list_out(&needy->in_needy);
        job->needy_count--;
        rlt_lease_activate(r, needy, worker);
    } else {
        rlt_pool_keep(r, worker);
    }
}

static void recall_tell(struct rlt *r, const struct rlt_lease *l)
{
    struct ctl_lease          lease = {l->id};
    struct rlt_a_lane_recall *a = &rlt_act(r->out, RLT_A_LANE_RECALL)->lane_recall;
    a->lane = l->id;
    a->word = l->kind == LEASE_ACTOR && l->is_preempted ? LANE_RECALL_SAVE : LANE_RECALL;
    a->owner = l->owner ? l->owner->conn : 0;
    a->worker = l->worker ? l->worker->conn : 0;
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
    rlt_lease_set_state(l, LEASE_RECALLED);
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
        rlt_lease_set_state(l, LEASE_RECALLED);
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
    rlt_classes_learn(r, l);
    rlt_lease_set_state(l, LEASE_DRAINED); /* what it holds is free when its process is gone, not before */
    l->recalled_at = r->now;
    rlt_proc_leave(r, worker, l->kind == LEASE_ACTOR ? MT_RLT_ACTOR_END_MS : MT_RLT_LEAVE_MS, "its lease has ended");
}

void rlt_lease_kill(struct rlt *r, struct rlt_proc *owner, uint64_t id)
{
    struct rlt_lease *l = mt_map_ptr(&r->leases, mt_map_key(id));
    struct ctl_lease  lease = {id};
    if (!l || l->owner != owner || l->kind == LEASE_CALLER)
        return;
    if (l->worker)
        rlt_pool_kill(r, l->worker);
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
        rlt_act(r->out, RLT_A_SW_LANE_CLOSE)->sw_lane_close.lane = l->id; /* its memory goes when the switch has forgotten it */
    else if (l->has_lane)
        rlt_act(r->out, RLT_A_LANE_FREE)->lane_free.lane = l->id;
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
    struct rlt_a_sw_down *a;
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
    rlt_classes_learn(r, l);
    rlt_lease_set_state(l, LEASE_DRAINED);
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
        rlt_lane_drain(r, l, end); /* forgotten when its lane is empty */
    else
        rlt_lease_forget(r, l);
    if (worker && worker->lease == l) {
        worker->lease = NULL;
        rlt_lease_offer(r, worker);
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
        rlt_pool_kill(r, l->worker);
    } else {
        rlt_lease_recall(r, l, l->kind == LEASE_TASK ? MT_RLT_ORPHAN_GRACE_MS : 0);
    }
}

void rlt_worker_blocked(struct rlt *r, struct rlt_proc *worker, bool is_blocked)
{
    if (!worker->lease || worker->is_blocked == is_blocked)
        return;
    worker->is_blocked = is_blocked;
    rlt_lease_lend_cpu(r, worker->lease, is_blocked);
    r->is_dirty = true;
}
