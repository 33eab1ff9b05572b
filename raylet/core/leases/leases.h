/* SPDX-License-Identifier: Apache-2.0
 *
 * leases.h - who may use which worker: classes, the life of each lease, and what it takes. The door of this room. Private to
 * raylet/core/. Who gets what next is decided above, in schedule/.
 */
#ifndef RLT_LEASES_H
#define RLT_LEASES_H

#include "raylet/core/state/state.h"

/* ---- class.c: what owners want ---- */

bool rlt_class_define(struct rlt *r, struct rlt_proc *owner, const uint8_t *payload); /* false: it breaks the rules */
void rlt_class_drop(struct rlt *r, struct rlt_class *c);
void rlt_class_wait(struct rlt *r, struct rlt_class *c); /* puts it among the waiting, if it still wants */
void rlt_class_unschedulable(struct rlt *r, struct rlt_class *c, int32_t code, const char *text);
bool rlt_node_could_ever(const struct rlt_node *n, const struct rlt_class *c);
/* No worker of its job can be started on that node: it goes elsewhere, and where nothing is left its owner is told why. */
void rlt_class_shun(struct rlt *r, struct rlt_class *c, uint32_t node, int32_t code, const char *text);
bool rlt_class_has_node_left(const struct rlt *r, const struct rlt_class *c); /* that could ever serve it */
void rlt_shunned_node_lost(struct rlt *r, uint32_t node);                     /* who returns under that number may be better */

/* ---- lease.c: one lease ---- */

struct rlt_lease *rlt_lease_new(struct rlt *r, enum rlt_lease_kind kind, struct rlt_job *job, uint64_t id); /* 0: draw */
void              rlt_lease_set_state(struct rlt_lease *l, enum rlt_lease_state next);
void              rlt_lease_activate(struct rlt *r, struct rlt_lease *l, struct rlt_proc *worker);
void              rlt_lease_offer(struct rlt *r, struct rlt_proc *worker); /* it has no lease: gets one, or waits warm */
void              rlt_lease_recall(struct rlt *r, struct rlt_lease *l, uint64_t grace_ms); /* 0: no limit */
void              rlt_lease_recalled(struct rlt *r, struct rlt_lease *l);                  /* the worker's node recalls it */
void              rlt_lease_drained(struct rlt *r, struct rlt_proc *worker, uint64_t id);
void              rlt_lease_kill(struct rlt *r, struct rlt_proc *owner, uint64_t id);
void              rlt_lease_end(struct rlt *r, struct rlt_lease *l, const struct ctl_ended *end);
void              rlt_lease_forget(struct rlt *r, struct rlt_lease *l); /* everybody who must know does */
void              rlt_lease_owner_gone(struct rlt *r, struct rlt_lease *l);
void              rlt_lease_timer(struct rlt *r, struct rlt_lease *l);
void              rlt_worker_blocked(struct rlt *r, struct rlt_proc *worker, bool is_blocked);

/* ---- ending.c ---- */

void rlt_leases_end_needy(struct rlt *r);              /* those that rlt_job_note_needy has noted */
void rlt_job_end(struct rlt *r, struct rlt_job *job);  /* its driver is gone; the job may be gone after */
void rlt_jobs_node_lost(struct rlt *r, uint32_t node); /* jobs whose drivers were there */

/* ---- lane.c: its lane, where an end is on another node ---- */

void rlt_grant_fill(const struct rlt *r, const struct rlt_lease *l, struct ctl_grant *g);
void rlt_lane_open(struct rlt *r, const struct rlt_lease *l, enum rlt_side side);
void rlt_lane_give(struct rlt *r, const struct rlt_lease *l, uint64_t conn, enum ctl_kind kind, const struct ctl_grant *grant);

/* ---- strict.c: leases of strict actors ---- */

uint64_t rlt_strict_hash(const struct rlt *r); /* changes when those here do */
void     rlt_strict_report(struct rlt *r, Manta__V1__Report *report);
void     rlt_strict_extend(struct rlt *r, const Manta__V1__Extend *extend);

#endif
