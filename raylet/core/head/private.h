/* SPDX-License-Identifier: Apache-2.0
 *
 * private.h - what the files of this room share: requests on their way to the head, and what its messages bring.
 */
#ifndef RLT_HEAD_PRIVATE_H
#define RLT_HEAD_PRIVATE_H

#include "raylet/core/head/head.h"

/* ---- asked.c ---- */

/* It waits from now on; NULL: it was there already, or there are too many. `is_held`: rlt_head_ask_go sends it. */
struct rlt_asked *rlt_head_asked(struct rlt *r, struct rlt_proc *p, mt_id id, uint32_t op, bool is_held);
void              rlt_head_ask_go(struct rlt *r, struct rlt_asked *asked);
void              rlt_head_asked_over(struct rlt *r, struct rlt_asked *asked); /* it was answered */
void              rlt_head_ask_failed(struct rlt *r, struct rlt_asked *asked, int32_t code, const char *text);
void              rlt_asked_send(struct rlt *r, const struct rlt_asked *asked); /* nothing, while it is held */
void              rlt_gone_send(struct rlt *r, uint64_t process, uint64_t job);

/* ---- beat.c ---- */

void rlt_beats_registered(struct rlt *r, bool is_taken); /* by that head: it takes datagrams, or not */
void rlt_beats_down(struct rlt *r);
/* A report leaves; where the head is not known to hear datagrams, one goes beside it. */
void rlt_beat_beside(struct rlt *r);
/* Of a node that has nothing new to say: sends the datagram that is due, and gives the time of the next look. A report is due where
 * that is not later than now. */
uint64_t rlt_beat_due(struct rlt *r);

/* ---- names.c ---- */

/* Where jobs are apart: the name space in which a name of p's job stands. EINVAL: no process may ask for that one. */
MT_MUST_USE mt_status rlt_name_place(const struct rlt *r, struct rlt_proc *p, bool for_all, struct ctl_name *n);
void                  rlt_name_request(struct rlt *r, struct rlt_proc *p, mt_id id, uint32_t op, struct ctl_name *n);
void                  rlt_name_answered(struct rlt *r, const Manta__V1__NameReply *reply);

/* ---- group.c ---- */

void rlt_group_ask(struct rlt *r, struct rlt_proc *p, const struct lane_record *record, const uint8_t *payload);
void rlt_group_answered(struct rlt *r, const Manta__V1__GroupReply *reply);

/* ---- wish.c ---- */

void rlt_wish(struct rlt *r, struct rlt_proc *p, const struct lane_record *record, const uint8_t *payload);
void rlt_wish_look(struct rlt *r, const struct rlt_proc *p, const struct lane_record *record, const uint8_t *payload);
void rlt_wish_news(struct rlt *r, const Manta__V1__WishNews *said);
void rlt_wishes_report(struct rlt *r, Manta__V1__Report *report);

/* ---- detach.c ---- */

void rlt_detach_go(struct rlt *r, struct rlt_asked *asked); /* there is a head: its program may be sent there */

/* ---- submit.c ---- */

void rlt_submit_order(struct rlt *r, const Manta__V1__HeadToNode *m);
void rlt_submit_registered(struct rlt *r);
/* The node leaves: what runs is ended, and begins again elsewhere. `wardens`: only those of detached actors. */
void rlt_submit_preempt(struct rlt *r, bool wardens, const char *why);

/* The node leaves, or does so sooner: who wants a notice of its own gets it in time. */
void rlt_submit_leaving(struct rlt *r);

/* ---- drain.c ---- */

void rlt_drain_order(struct rlt *r, const Manta__V1__DrainOrder *order);
void rlt_drain_registered(struct rlt *r);
/* What is still here: for people, and a number that changes with it. */
void     rlt_drain_waits(const struct rlt *r, char *out_text, size_t size);
uint64_t rlt_drain_hash(const struct rlt *r);
/* How many leases, actors, jobs, drivers and bundles would be missed; leases of tasks among them. */
uint32_t rlt_drain_here(const struct rlt *r, uint32_t *out_tasks);

#endif
