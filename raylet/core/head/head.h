/* SPDX-License-Identifier: Apache-2.0
 *
 * head.h - what this node and the head say to each other. The door of this room. Private to raylet/core/.
 */
#ifndef RLT_HEAD_H
#define RLT_HEAD_H

#include "raylet/core/state/state.h"

/* ---- head.c ---- */

void rlt_head_up(struct rlt *r);
void rlt_head_down(struct rlt *r);
void rlt_head_message(struct rlt *r, const Manta__V1__HeadToNode *m); /* all but its View, which hear.c takes */
/* Whether it says that this node is to begin again under another epoch: all that runs here must end first. */
bool rlt_head_gave_up(const struct rlt *r, const Manta__V1__HeadToNode *m);

/* ---- report.c ---- */

void rlt_head_changed(struct rlt *r); /* a report may be due */

/* ---- request.c ---- */

void rlt_request(struct rlt *r, struct rlt_proc *p, const struct lane_record *record, const uint8_t *payload);

/* ---- asked.c: requests that wait for an answer ---- */

/* It waits from now on; NULL: it was there already, or there are too many. `is_held`: rlt_head_ask_go sends it. */
struct rlt_asked *rlt_head_asked(struct rlt *r, struct rlt_proc *p, mt_id id, uint32_t op, bool is_held);
void              rlt_head_ask_go(struct rlt *r, struct rlt_asked *asked);
void              rlt_head_asked_over(struct rlt *r, struct rlt_asked *asked); /* it was answered */
void              rlt_head_ask_failed(struct rlt *r, struct rlt_asked *asked, int32_t code, const char *text);
void              rlt_asked_send(struct rlt *r, const struct rlt_asked *asked); /* nothing, while it is held */
void              rlt_head_patience(struct rlt *r);                             /* RLT_TIMER_PATIENCE */
void              rlt_head_process_gone(struct rlt *r, uint64_t process);
void              rlt_head_job_gone(struct rlt *r, uint64_t job); /* its driver, of this node, has ended */
void              rlt_gone_send(struct rlt *r, uint64_t process, uint64_t job);
void              rlt_head_fini(struct rlt *r);

/* ---- names.c ---- */

/* Where jobs are apart: the name space in which a name of p's job stands. EINVAL: no process may ask for that one. */
MT_MUST_USE mt_status rlt_name_place(const struct rlt *r, struct rlt_proc *p, bool for_all, struct ctl_name *n);
void                  rlt_name_request(struct rlt *r, struct rlt_proc *p, mt_id id, uint32_t op, struct ctl_name *n);
void                  rlt_name_answered(struct rlt *r, const Manta__V1__NameReply *reply);
void                  rlt_names_process_gone(struct rlt *r, uint64_t process);
void                  rlt_names_fini(struct rlt *r);

/* ---- group.c: placement groups ---- */

void rlt_group_ask(struct rlt *r, struct rlt_proc *p, const struct lane_record *record, const uint8_t *payload);
void rlt_group_answered(struct rlt *r, const Manta__V1__GroupReply *reply);

/* ---- detach.c: detached actors ---- */

void rlt_detach(struct rlt *r, struct rlt_proc *p, const struct lane_record *record, const uint8_t *payload, int take_fd);
void rlt_detach_go(struct rlt *r, struct rlt_asked *asked);       /* there is a head: its program may be sent there */
void rlt_detach_listed(struct rlt *r, const struct rlt_job *job); /* job->list is there; NULL: it can't be had */
void rlt_detach_uploaded(struct rlt *r, const struct rlt_ev_program_sent *e);

/* ---- submit.c: drivers of submitted jobs ---- */

void rlt_submit_order(struct rlt *r, const Manta__V1__HeadToNode *m);
void rlt_submit_event(struct rlt *r, const struct rlt_event *e); /* RLT_EV_JOB_ */
void rlt_submit_registered(struct rlt *r);
void rlt_submit_timer(struct rlt *r, struct rlt_submitted *job);
void rlt_submit_kill_all(struct rlt *r);
void rlt_submit_fini(struct rlt *r);
/* The node leaves: what runs is ended, and begins again elsewhere. `wardens`: only those of detached actors. */
void rlt_submit_preempt(struct rlt *r, bool wardens, const char *why);

/* ---- drain.c: this node is to leave ---- */

void rlt_drain_event(struct rlt *r, const struct rlt_event *e); /* RLT_EV_SHUTDOWN, RLT_EV_NOTICE */
void rlt_drain_order(struct rlt *r, const Manta__V1__DrainOrder *order);
void rlt_drain_registered(struct rlt *r);
void rlt_drain_round(struct rlt *r); /* at the end of each step */
/* What is still here: for people, and a number that changes with it. */
void     rlt_drain_waits(const struct rlt *r, char *out_text, size_t size);
uint64_t rlt_drain_hash(const struct rlt *r);

#endif
