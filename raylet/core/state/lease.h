/* SPDX-License-Identifier: Apache-2.0
 *
 * lease.h - what owners want, what they have, and what placement groups have reserved.
 */
#ifndef RLT_STATE_LEASE_H
#define RLT_STATE_LEASE_H

#include "raylet/core/kit/ledger.h"
#include "raylet/core/state/job.h"

struct rlt_class {
    struct rlt_list  in_owner;
    struct rlt_list  in_waiting; /* r->waiting while held < wanted */
    struct rlt_proc *owner;
    struct rlt_job  *job; /* whose workers serve it; NULL: its environment is not known here */
    struct ctl_class def;
    uint64_t         version;
    uint32_t         wanted;
    uint32_t         held;            /* STARTING (asked of another node, too) and ACTIVE */
    uint32_t         ended_elsewhere; /* leases on other nodes that are over: the head is told what is wanted anew */
    uint32_t         asked_alone;     /* the node that was asked last while the head was away */
    uint32_t         refused_alone;   /* how often it was refused while it held nothing, since its last lease from another node */
    uint32_t         placed_here;     /* leases that the head has answered with this node */
    uint64_t         waiting_since;
    uint64_t         patience;   /* what it has learned in this wait: a lease that was asked back may take so long; 0: nothing */
    bool             is_refused; /* answered with CTL_UNSCHEDULABLE at this level */
    struct rlt_list  leases;     /* rlt_lease.in_class, oldest first */
};

enum rlt_lease_kind { LEASE_TASK, LEASE_ACTOR, LEASE_CALLER };
enum rlt_lease_state {
    LEASE_STARTING, /* resources are held (or asked for), no worker yet */
    LEASE_ACTIVE,
    LEASE_RECALLED, /* its worker returns what it has not begun */
    LEASE_DRAINED,  /* the worker has forgotten it; it leaves, or the switch empties the lane */
};

struct rlt_lease {
    uint64_t             id; /* also the number of its lane on this node */
    enum rlt_lease_kind  kind;
    enum rlt_lease_state state;
    struct rlt_class *class;   /* NULL: owner dead or elsewhere, or a caller's lane */
    struct rlt_proc   *owner;  /* NULL: dead or elsewhere */
    struct rlt_proc   *worker; /* NULL: none yet, or elsewhere */
    struct rlt_job    *job;
    uint64_t           owner_process;
    uint32_t           owner_node, worker_node;
    uint32_t           incarnation;
    mt_id              request; /* of CTL_LANE_WANT */
    struct rlt_hold    hold;
    struct rlt_bundle *bundle;   /* out of whose pool that is; NULL: of the node itself */
    bool               captures; /* what its tasks submit belongs to the placement group of `bundle` */
    bool               has_lane;
    bool               is_strict;      /* its worker, of this node, runs as long as the head extends it */
    bool               is_restartable; /* of an actor: it may begin again elsewhere */
    bool               is_preempted;   /* recalled since the node is to leave: that costs its owner no restart */
    bool               is_owner_dead;  /* and what its worker has written for it is to die as well */
    struct ctl_ended  *end;            /* owner elsewhere: what is to be said when the switch has emptied the lane */
    uint64_t           granted_at;
    uint64_t           recalled_at; /* or when its worker, for whose end its resources wait, was told to leave */
    struct rlt_timer   timer;       /* RECALLED or DRAINED: until the worker is killed */
    struct rlt_list    in_class, in_owner, in_worker, in_needy, in_all;
    uint32_t           route, peer_route; /* of a lane to another node: ours, and theirs */
    uint64_t           taken;             /* worker elsewhere, at its end: the last task that reached it */
};

enum rlt_bundle_state { BUNDLE_PREPARED, BUNDLE_COMMITTED, BUNDLE_RETURNED /* its leases are ending */ };
struct rlt_bundle {
    struct rlt_list       in_all;
    mt_id                 group;
    uint32_t              index;
    uint64_t              version; /* of its placement, by the head */
    enum rlt_bundle_state state;
    uint64_t              job;  /* whose group it is; 0: not said */
    struct rlt_hold       hold; /* taken from the node ... */
    struct rlt_ledger     pool; /* ... for these leases alone */
    uint32_t              lease_count;
};

static inline uint32_t rlt_class_lacks(const struct rlt_class *c)
{
    return c->wanted > c->held ? c->wanted - c->held : 0;
}

#endif
