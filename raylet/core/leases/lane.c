/* SPDX-License-Identifier: Apache-2.0
 *
 * lane.c - the lane of a lease: who gets its descriptor, and who opens it at the switch where its ends are on two nodes.
 *
 * Owns: nothing of its own. Thread: the logic loop only.
 */
#include "raylet/core/leases/leases.h"
#include "raylet/core/leases/parts.h"
#include "raylet/core/links/links.h"

#include <stdlib.h>

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
    struct rlt_a_socket *a = rlt_socket(r->out, to, kind, id, grant, sizeof *grant);
    a->fds[0].kind = RLT_FD_LANE;
    a->fds[0].number = grant->lease;
    a->fds[1] = peer_park;
    a->fd_count = 2;
}

/* Owner and worker are of this node. */
void rlt_lane_grant(struct rlt *r, const struct rlt_lease *l)
{
    struct ctl_grant       to_owner = {0}, to_worker;
    const struct rlt_proc *worker = l->worker;
    mt_id                  none = {0, 0};
    rlt_act(r->out, RLT_A_LANE_NEW)->lane_new.lane = l->id;
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

void rlt_lane_open(struct rlt *r, const struct rlt_lease *l, enum rlt_side side)
{
    bool                       is_owner_here = side == RLT_SIDE_WORKER;
    struct rlt_a_sw_lane_open *a;
    rlt_act(r->out, RLT_A_LANE_NEW)->lane_new.lane = l->id;
    a = &rlt_act(r->out, RLT_A_SW_LANE_OPEN)->sw_lane_open;
    a->lane = l->id;
    a->conn = is_owner_here ? l->owner->conn : l->worker->conn;
    a->node = is_owner_here ? l->worker_node : l->owner_node;
    a->route = l->route;
    a->peer_route = l->peer_route;
    a->side = side;
}

void rlt_lane_give(struct rlt *r, const struct rlt_lease *l, uint64_t conn, enum ctl_kind kind, const struct ctl_grant *grant)
{
    struct rlt_a_socket *a = rlt_socket(r->out, conn, kind, l->request, grant, sizeof *grant);
    a->fds[0] = (struct rlt_fd){RLT_FD_LANE, l->id};
    a->fds[1] = (struct rlt_fd){RLT_FD_SWITCH_PARK, 0};
    a->fd_count = 2;
}

void rlt_lane_grant_remote(struct rlt *r, const struct rlt_lease *l)
{
    struct ctl_grant     grant = {0};
    struct peer_lease_ok ok = {
        .lease = l->id, .worker = l->worker->process, .route = l->route, .pid = l->worker->pid, .gpu_count = l->hold.gpu_count};
    memcpy(ok.gpus, l->hold.gpus, sizeof ok.gpus);
    rlt_lane_open(r, l, RLT_SIDE_OWNER);
    rlt_grant_fill(r, l, &grant);
    grant.peer = l->owner_process;
    grant.peer_node = l->owner_node;
    rlt_lane_give(r, l, l->worker->conn, CTL_LANE, &grant);
    rlt_peer_send(r, l->owner_node, PEER_LEASE_OK, (mt_id){0, 0}, &ok, sizeof ok);
}

void rlt_lane_drain(struct rlt *r, struct rlt_lease *l, const struct ctl_ended *end)
{
    l->end = rlt_calloc(sizeof *l->end);
    *l->end = *end;
    rlt_act(r->out, RLT_A_SW_LANE_DRAIN)->sw_lane_drain.lane = l->id;
}
