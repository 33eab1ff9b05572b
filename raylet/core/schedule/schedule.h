/* SPDX-License-Identifier: Apache-2.0
 *
 * schedule.h - who gets what next: of this node, and from other nodes. The door of this room. Private to raylet/core/.
 */
#ifndef RLT_SCHEDULE_H
#define RLT_SCHEDULE_H

#include "raylet/core/state/state.h"

/* ---- schedule.c ---- */

void rlt_schedule(struct rlt *r);       /* once, at the end of a step */
bool rlt_is_stuck(const struct rlt *r); /* every process has been an actor's for MT_RLT_FULL_MS */
/* For tests: whether somebody waits here for what is free, since it is kept for another, who counts on more to come for so long. */
bool rlt_keeps_room(const struct rlt *r, uint64_t *out_ns);
/* Room is made and kept for such a class of another node, so long. `presses`: of several the one that was refused most
 * often; 0: the head says who. */
void rlt_guest_comes(struct rlt *r, const struct ctl_class *def, uint32_t presses, uint32_t keep_ms);
void rlt_guest_goes(struct rlt *r);
/* Whether a request of another node leaves what those who wait here keep, and the guest its room (or was refused as often). */
bool rlt_others_may_have(const struct rlt *r, const struct ctl_class *def, uint32_t presses);
/* What the head may give away of a resource, in thousandths; below 0: as much is to come back first. */
int64_t rlt_free_for_others(const struct rlt *r, uint32_t resource);

/* While the head is away and classes wait: other nodes are asked soon (alone.c). */
void rlt_alone_arm(struct rlt *r);

/* ---- demand.c ---- */

void rlt_demand(struct rlt *r, struct rlt_proc *owner, const struct ctl_demand *demand);

/* ---- caller.c: lanes to actors of others ---- */

void rlt_caller_want(struct rlt *r, struct rlt_proc *caller, mt_id request, const struct ctl_lane_want *want);
void rlt_caller_drop(struct rlt *r, struct rlt_proc *caller, uint64_t id);

/* ---- remote.c: leases between nodes ---- */

void             rlt_remote_request(struct rlt *r, struct rlt_class *c, uint32_t node);
bool             rlt_remote_lane_want(struct rlt *r, struct rlt_proc *caller, mt_id request, const struct ctl_lane_want *want);
void             rlt_remote_record(struct rlt *r, struct rlt_peer *p, const struct lane_record *record, const uint8_t *payload);
void             rlt_remote_lane_drained(struct rlt *r, uint64_t lane, uint64_t taken);
struct rlt_proc *rlt_remote_lane_broken(struct rlt *r, uint64_t lane); /* the owner that is to be dropped; NULL: nobody */
void             rlt_remote_node_lost(struct rlt *r, uint32_t node, const char *why);

/* ---- alone.c: while the head is away ---- */

void rlt_alone_reported(struct rlt *r, uint64_t version); /* has left with wants; 0: without any */
void rlt_alone_answered(struct rlt *r, uint64_t version);
void rlt_alone_timer(struct rlt *r);

/* ---- orders.c: the head's, about bundles ---- */

void     rlt_bundle_order(struct rlt *r, const Manta__V1__BundleOrder *order);
uint64_t rlt_bundle_recall(struct rlt *r, const struct rlt_class *c);
void     rlt_bundles_drop_all(struct rlt *r, const char *why);

#endif
