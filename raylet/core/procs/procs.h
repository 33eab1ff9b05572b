/* SPDX-License-Identifier: Apache-2.0
 *
 * procs.h - the life of this node's processes: greeting, what they are given, death and who hears of it. The door of this
 * room. Private to raylet/core/.
 */
#ifndef RLT_PROCS_H
#define RLT_PROCS_H

#include "raylet/core/state/state.h"

/* ---- greet.c ---- */

void rlt_proc_socket(struct rlt *r, struct rlt_proc *p, const struct rlt_ev_socket *e);

/* ---- process.c ---- */

void rlt_proc_accepted(struct rlt *r, uint64_t conn, int32_t pid, const int32_t line[RLT_LINE_MAX]);
void rlt_proc_gone(struct rlt *r, struct rlt_proc *p);                   /* its end is known, or it must go */
void rlt_proc_status(struct rlt *r, struct rlt_proc *p, int32_t status); /* it has been reaped; p may be gone after */
void rlt_proc_drained(struct rlt *r, struct rlt_proc *p, const char *crash);
void rlt_proc_timer(struct rlt *r, struct rlt_proc *p);

/* ---- zygote.c ---- */

void rlt_zygote_spawned(struct rlt *r, struct rlt_proc *zygote, int32_t pid);
void rlt_zygote_forked(struct rlt *r, struct rlt_proc *zygote, const struct rlt_ev_socket *e);
void rlt_zygote_child_exit(struct rlt *r, struct rlt_proc *zygote, const struct ctl_child_exit *exit);
void rlt_worker_ready(struct rlt *r, struct rlt_proc *worker); /* greeting and pid come in either order */

/* ---- memory.c ---- */

void rlt_memory_short(struct rlt *r, const struct rlt_ev_memory *e);

/* ---- monitor.c ---- */

void rlt_monitor_add(struct rlt *r, struct rlt_proc *watcher, mt_id id, const struct ctl_monitor *m);
void rlt_monitor_drop(struct rlt *r, struct rlt_proc *watcher, mt_id id);
void rlt_monitor_free(struct rlt *r, struct rlt_monitor *m);
void rlt_monitors_fire(struct rlt *r, const struct ctl_death *death); /* of a process of this node */
void rlt_monitor_record(struct rlt *r, struct rlt_peer *p, const struct lane_record *record, const uint8_t *payload);
void rlt_monitors_node_lost(struct rlt *r, uint32_t node, const char *why);

/* ---- region.c ---- */

void rlt_region_want(struct rlt *r, struct rlt_proc *p, mt_id id, const struct ctl_region_want *want);
void rlt_region_drop(struct rlt *r, struct rlt_proc *p, uint32_t number);
void rlt_regions_leave(struct rlt *r, struct rlt_proc *p);
void rlt_region_failed(struct rlt *r, uint32_t number);
void rlt_regions_fini(struct rlt *r);

#endif
