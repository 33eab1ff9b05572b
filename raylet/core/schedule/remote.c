/* SPDX-License-Identifier: Apache-2.0
 *
 * remote.c - leases and callers' lanes whose owner and worker are on two nodes.
 *
 * Owns: nothing of its own; a lease stands in the tables of both nodes under one number. Thread: the logic loop only.
 *
 *   A, the owner's node                                B, the worker's node (the authority: it may refuse)
 *   STARTING --LEASE_REQ-->                            resources taken, a worker found or forked: STARTING
 *   ACTIVE, CTL_GRANT (remote)   <--LEASE_OK--         ACTIVE, CTL_LANE
 *   RECALLED --RECALL-->  or  <--RECALL--              RECALLED
 *                                                      worker drained or dead: the switch empties the lane
 *   ended, CTL_ENDED behind the lane's last records  <--ENDED--  ended
 *
 * The lane of A ends in A's switch, which takes the claims; the lane of B begins in B's switch, which sets them. `taken`
 * in ENDED tells A which tasks had left but never reached the worker: they have not run.
 */
#include "raylet/core/jobs/jobs.h"
#include "raylet/core/leases/leases.h"
#include "raylet/core/leases/bundles.h"
#include "raylet/core/links/links.h"
#include "raylet/core/pool/pool.h"
#include "raylet/core/schedule/schedule.h"

#include "core/base/plant.h"
#include "core/text/labels.h"

#include <stdio.h>
#include <stdlib.h>

/* ---- A: asking --------------------------------------------------------------------------------------------------- */

static struct rlt_lease *asked_lease(struct rlt *r, enum rlt_lease_kind kind, struct rlt_proc *owner, struct rlt_job *job,
                                     uint32_t node)
{
    struct rlt_lease *l = rlt_lease_new(r, kind, job, 0);
    l->owner = owner;
    l->owner_process = owner->process;
    l->worker_node = node;
    l->route = r->next_route++;
    rlt_list_append(&owner->owned, &l->in_owner);
    return l;
}

void rlt_remote_request(struct rlt *r, struct rlt_class *c, uint32_t node)
{
    if (!c->job)
        return; /* its environment is not known: the next round says so */
    struct peer_lease_req req = {.owner = c->owner->process, .job = c->owner->job->job, .job_node = c->owner->job->node};
    struct rlt_lease     *l = asked_lease(r, c->def.flags & CTL_CLASS_ACTOR ? LEASE_ACTOR : LEASE_TASK, c->owner, c->job, node);
    req.lease = l->id;
    req.route = l->route;
    req.presses = rlt_is_away(r) && c->held == 0 ? c->refused_alone : 0;
    req.def = c->def;
    req.def.env = c->job->env ? c->job->env->key : 0; /* an owner's own environment is nothing that the other node knows */
    memcpy(req.job_name, c->owner->job->name, sizeof req.job_name);
    l->class = c;
    rlt_list_append(&c->leases, &l->in_class);
    c->held++;
    if (!rlt_peer_send(r, node, PEER_LEASE_REQ, (mt_id){0, 0}, &req, sizeof req)) {
        struct ctl_ended end = {.lease = l->id};
        rlt_lease_end(r, l, &end);
    }
    rlt_class_wait(r, c);
}

bool rlt_remote_lane_want(struct rlt *r, struct rlt_proc *caller, mt_id request, const struct ctl_lane_want *want)
{
    struct rlt_lease    *l = asked_lease(r, LEASE_CALLER, caller, NULL, want->node);
    struct peer_lane_req req = {
        .lease = l->id, .caller = caller->process, .worker = want->process, .incarnation = want->incarnation, .route = l->route};
    l->request = request;
    l->incarnation = want->incarnation;
    if (rlt_peer_send(r, want->node, PEER_LANE_REQ, (mt_id){0, 0}, &req, sizeof req))
        return true;
    rlt_lease_forget(r, l);
    return false;
}

static void lease_ok(struct rlt *r, struct rlt_peer *p, const struct peer_lease_ok *ok)
{
    struct rlt_lease *l = rlt_lease_find(r, ok->lease);
    struct ctl_grant  grant = {0};
    struct ctl_lease  lease = {ok->lease};
    if (!l || l->worker_node != p->node || l->state != LEASE_STARTING) {
        rlt_peer_send(r, p->node, PEER_DROP, (mt_id){0, 0}, &lease, sizeof lease); /* not wanted any more */
        return;
    }
    l->peer_route = ok->route;
    rlt_lease_set_state(l, LEASE_ACTIVE);
    l->owner->has_remote = true;
    l->granted_at = r->now;
    l->has_lane = true;
    r->stats.grants++;
    r->stats.granted_alone += l->class && rlt_is_away(r);
    if (l->class)
        l->class->refused_alone = 0;
    rlt_lane_open(r, l, RLT_SIDE_WORKER);
    rlt_grant_fill(r, l, &grant);
    grant.flags |= CTL_GRANT_REMOTE;
    grant.class_id = l->class ? l->class->def.class_id : 0;
    grant.peer = ok->worker;
    grant.peer_node = p->node;
    grant.peer_pid = ok->pid;
    grant.gpu_count = ok->gpu_count <= 16 ? ok->gpu_count : 16;
    memcpy(grant.gpus, ok->gpus, sizeof grant.gpus);
    rlt_lane_give(r, l, l->owner->conn, CTL_GRANT, &grant);
}

static void lease_no(struct rlt *r, struct rlt_peer *p, struct peer_lease_no *no)
{
    struct rlt_lease *l = rlt_lease_find(r, no->lease);
    struct ctl_ended  end = {.lease = no->lease};
    if (!l || l->worker_node != p->node || l->state != LEASE_STARTING)
        return;
    no->text[sizeof no->text - 1] = 0;
    r->stats.refused_grants++;
    if (l->kind == LEASE_CALLER) {
        rlt_down_reply(r->out, l->owner->conn, l->request, no->code, no->text);
    } else if (l->class && (no->code == MT_EWORKER_DIED || no->code == MT_EENV)) {
        rlt_class_shun(r, l->class, p->node, no->code, no->text);          /* its program cannot run there */
    } else if (l->class && no->code == MT_EAGAIN && l->class->held == 1) { /* this one */
        l->class->refused_alone++;
    }
    rlt_lease_end(r, l, &end);
}

static void ended(struct rlt *r, struct rlt_peer *p, struct peer_ended *e)
{
    struct rlt_lease *l = rlt_lease_find(r, e->ended.lease);
    if (!l || l->worker_node != p->node || l->state == LEASE_STARTING)
        return;
    e->ended.text[sizeof e->ended.text - 1] = 0;
    l->taken = e->taken;
    rlt_lease_end(r, l, &e->ended);
}

/* ---- B: answering ---------------------------------------------------------------------------------------------------- */

static void refuse(struct rlt *r, uint32_t node, uint64_t lease, int32_t code, const char *text)
{
    struct peer_lease_no no = {.lease = lease, .code = code};
    snprintf(no.text, sizeof no.text, "%s", text);
    r->stats.refused_grants++;
    rlt_peer_send(r, node, PEER_LEASE_NO, (mt_id){0, 0}, &no, sizeof no);
}

static struct rlt_job *job_of(struct rlt *r, const struct rlt_peer *p, struct peer_lease_req *req)
{
    struct rlt_job *job = mt_map_ptr(&r->jobs, mt_map_key(req->job));
    if (!job && req->job) {
        req->job_name[sizeof req->job_name - 1] = 0;
        job = rlt_job_new(r, req->job, req->job, req->job_node, req->job_name);
        if (!rlt_program_want(r, job))
            rlt_job_end(r, job);
        job = mt_map_ptr(&r->jobs, mt_map_key(req->job));
    }
    return job && req->def.env && !job->is_ending ? rlt_env_workers(r, job, req->def.env, p->node) : job;
}

/* B grants it: from the node, or from the pool that it names. False: no room. */
static bool lease_grant(struct rlt *r, struct rlt_peer *p, const struct peer_lease_req *req, struct rlt_job *job)
{
    struct rlt_lease *l;
    struct rlt_proc  *worker;
    if (!rlt_class_could_now(r, &req->def) || !rlt_others_may_have(r, &req->def, req->presses))
        return false;
    l = rlt_lease_new(r, req->def.flags & CTL_CLASS_ACTOR ? LEASE_ACTOR : LEASE_TASK, job, req->lease);
    bool took = rlt_lease_take(r, &req->def, l);
    MT_ASSERT(took);
    r->stats.turns += !l->bundle;
    worker = rlt_pool_take(r, job);
    l->is_strict = req->def.flags & CTL_CLASS_STRICT;
    l->is_restartable = req->def.flags & CTL_CLASS_RESTARTS;
    if (req->def.flags & CTL_CLASS_PIN)
        rlt_ledger_pin(rlt_lease_ledger(r, l), &l->hold);
    if (!l->bundle)
        rlt_guest_goes(r); /* if it was somebody else who had waited, the head says so again */
    l->owner_node = p->node;
    l->owner_process = req->owner;
    l->peer_route = req->route;
    l->route = r->next_route++;
    if (worker) {
        rlt_lease_activate(r, l, worker);
    } else {
        rlt_list_append(&job->needy, &l->in_needy);
        job->needy_count++;
        rlt_pool_balance(r, job);
    }
    return true;
}

static void lease_req(struct rlt *r, struct rlt_peer *p, struct peer_lease_req *req)
{
    char            text[CTL_TEXT_SIZE];
    struct rlt_job *job;

    if (rlt_lease_find(r, req->lease) || req->def.resource_count > CTL_RESOURCES)
        return;
    req->def.name[sizeof req->def.name - 1] = 0;
    req->def.labels[sizeof req->def.labels - 1] = 0;
    if (rlt_request_check(req->def.resources, req->def.resource_count, text, sizeof text).code) {
        refuse(r, p->node, req->lease, MT_EINVAL, text);
        return;
    }
    if (!mt_selector_match(req->def.labels, r->config.labels)) {
        refuse(r, p->node, req->lease, MT_EAGAIN, "this node has not those labels");
        return;
    }
    if (r->drain.is_on && !MT_PLANT(MT_PLANT_DRAIN_GRANTS)) {
        refuse(r, p->node, req->lease, MT_EAGAIN, "this node is to leave");
        return;
    }
    job = r->is_stopping ? NULL : job_of(r, p, req);
    if (!job || job->is_ending)
        refuse(r, p->node, req->lease, MT_EAGAIN, "the job is not known here");
    else if (rlt_job_is_broken(r, job))
        refuse(r, p->node, req->lease, job->failure_code, job->failure);
    else if (!lease_grant(r, p, req, job)) {
        if (req->presses)
            rlt_guest_comes(r, &req->def, req->presses, MT_RLT_PRESS_MS);
        refuse(r, p->node, req->lease, MT_EAGAIN, "no room");
    }
}

static void lane_req(struct rlt *r, struct rlt_peer *p, const struct peer_lane_req *req)
{
    struct rlt_proc *worker = rlt_proc_of_process(r, req->worker);
    if (rlt_lease_find(r, req->lease))
        return;
    if (!worker || !worker->lease || worker->lease->kind != LEASE_ACTOR || worker->lease->state != LEASE_ACTIVE) {
        char text[CTL_TEXT_SIZE];
        snprintf(text, sizeof text, "the actor's process is not on node %u any more", r->node);
        refuse(r, p->node, req->lease, MT_EACTOR_DIED, text);
        return;
    }
    struct rlt_lease *l = rlt_lease_new(r, LEASE_CALLER, NULL, req->lease);
    l->owner_node = p->node;
    l->owner_process = req->caller;
    l->incarnation = req->incarnation;
    l->peer_route = req->route;
    l->route = r->next_route++;
    rlt_lease_activate(r, l, worker);
}

void rlt_remote_lane_drained(struct rlt *r, uint64_t lane, uint64_t taken)
{
    struct rlt_lease *l = rlt_lease_find(r, lane);
    struct peer_ended e = {.taken = taken};
    if (!l || !l->end)
        return;
    e.ended = *l->end;
    if (l->owner_node)
        rlt_peer_send(r, l->owner_node, PEER_ENDED, (mt_id){0, 0}, &e, sizeof e);
    rlt_lease_forget(r, l);
}

struct rlt_proc *rlt_remote_lane_broken(struct rlt *r, uint64_t lane)
{
    struct rlt_lease *l = rlt_lease_find(r, lane);
    if (!l || !l->worker)
        return l ? l->owner : NULL;
    rlt_pool_kill(r, l->worker);
    return NULL;
}

/* ---- both -------------------------------------------------------------------------------------------------------------- */

static void dropped(struct rlt *r, const struct rlt_peer *p, uint64_t id)
{
    struct rlt_lease *l = rlt_lease_find(r, id);
    if (l && l->owner_node == p->node && l->state < LEASE_DRAINED)
        rlt_lease_owner_gone(r, l);
}

static void recall(struct rlt *r, const struct rlt_peer *p, const struct peer_recall *m)
{
    struct rlt_lease *l = rlt_lease_find(r, m->lease);
    if (!l || l->state > LEASE_RECALLED)
        return;
    if (l->owner_node == p->node)
        rlt_lease_recall(r, l, m->grace_ms);
    else if (l->worker_node == p->node && l->state == LEASE_ACTIVE)
        rlt_lease_recalled(r, l);
}

static void killed(struct rlt *r, const struct rlt_peer *p, uint64_t id)
{
    struct rlt_lease *l = rlt_lease_find(r, id);
    if (l && l->owner_node == p->node && l->worker && l->kind != LEASE_CALLER)
        rlt_pool_kill(r, l->worker);
}

union body {
    struct peer_lease_req lease_req;
    struct peer_lane_req  lane_req;
    struct peer_lease_ok  lease_ok;
    struct peer_lease_no  lease_no;
    struct peer_recall    recall;
    struct peer_ended     ended;
    struct ctl_lease      lease;
};

static size_t body_size(uint16_t kind)
{
    switch (kind) {
    case PEER_LEASE_REQ: return sizeof(struct peer_lease_req);
    case PEER_LANE_REQ: return sizeof(struct peer_lane_req);
    case PEER_LEASE_OK: return sizeof(struct peer_lease_ok);
    case PEER_LEASE_NO: return sizeof(struct peer_lease_no);
    case PEER_RECALL: return sizeof(struct peer_recall);
    case PEER_ENDED: return sizeof(struct peer_ended);
    case PEER_KILL:
    case PEER_DROP: return sizeof(struct ctl_lease);
    default: return SIZE_MAX / 2;
    }
}

void rlt_remote_record(struct rlt *r, struct rlt_peer *p, const struct lane_record *record, const uint8_t *payload)
{
    union body body;
    size_t     size = body_size(record->kind);
    if (record->length < LANE_RECORD_SIZE + size)
        return; /* of a later version: not for us */
    memcpy(&body, payload, size);
    switch (record->kind) {
    case PEER_LEASE_REQ: lease_req(r, p, &body.lease_req); break;
    case PEER_LANE_REQ: lane_req(r, p, &body.lane_req); break;
    case PEER_LEASE_OK: lease_ok(r, p, &body.lease_ok); break;
    case PEER_LEASE_NO: lease_no(r, p, &body.lease_no); break;
    case PEER_RECALL: recall(r, p, &body.recall); break;
    case PEER_ENDED: ended(r, p, &body.ended); break;
    case PEER_KILL: killed(r, p, body.lease.lease); break;
    default: dropped(r, p, body.lease.lease);
    }
}

void rlt_remote_node_lost(struct rlt *r, uint32_t node, const char *why)
{
    RLT_LIST_EACH(&r->all_leases, link) {
        struct rlt_lease *l = mt_container_of(link, struct rlt_lease, in_all);
        struct ctl_ended  end = {.lease = l->id, .code = MT_ENODE_DIED, .node = node};
        snprintf(end.text, sizeof end.text, "node %u is dead: %s", node, why);
        if (l->worker_node == node) {
            l->taken = UINT64_MAX; /* nobody can say what had reached it */
            if (l->kind == LEASE_CALLER && l->state == LEASE_STARTING && l->owner)
                rlt_down_reply(r->out, l->owner->conn, l->request, MT_ENODE_DIED, end.text);
            rlt_lease_end(r, l, &end);
        } else if (l->owner_node == node) {
            l->owner_node = 0; /* nowhere: nobody is to be told */
            l->is_owner_dead = true;
            if (l->state < LEASE_DRAINED)
                rlt_lease_owner_gone(r, l);
        }
    }
}
