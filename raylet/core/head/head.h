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

/* ---- beat.c: signs of life that cost the head little ---- */

void rlt_beat_answered(struct rlt *r, uint64_t counter, uint64_t echo, bool is_heard); /* RLT_EV_BEAT */

/* ---- request.c ---- */

void rlt_request(struct rlt *r, struct rlt_proc *p, const struct lane_record *record, const uint8_t *payload);

/* ---- asked.c: requests that wait for an answer ---- */

void rlt_head_patience(struct rlt *r); /* RLT_TIMER_PATIENCE */
void rlt_head_process_gone(struct rlt *r, uint64_t process);
void rlt_head_job_gone(struct rlt *r, uint64_t job); /* its driver, of this node, has ended */
void rlt_head_fini(struct rlt *r);

/* ---- names.c ---- */

void rlt_names_process_gone(struct rlt *r, uint64_t process);
void rlt_names_fini(struct rlt *r);

/* ---- detach.c: detached actors ---- */

void rlt_detach(struct rlt *r, struct rlt_proc *p, const struct lane_record *record, const uint8_t *payload, int take_fd);
/* job->list is there; NULL: it can't be had, and why (NULL: nobody knows). */
void rlt_detach_listed(struct rlt *r, const struct rlt_job *job, const char *why);
void rlt_detach_uploaded(struct rlt *r, const struct rlt_ev_program_sent *e);

/* ---- submit.c: drivers of submitted jobs ---- */

void rlt_submit_event(struct rlt *r, const struct rlt_event *e); /* RLT_EV_JOB_ */
void rlt_submit_words(struct rlt *r);                            /* RLT_TIMER_WORDS */
void rlt_submit_timer(struct rlt *r, struct rlt_submitted *job);
void rlt_submit_kill_all(struct rlt *r);
void rlt_submit_fini(struct rlt *r);
/* The job whose first process that is; "": none. Lives as long as it. */
const char *rlt_submit_of(const struct rlt *r, int32_t pid);

/* ---- drain.c: this node is to leave ---- */

void rlt_drain_event(struct rlt *r, const struct rlt_event *e);  /* RLT_EV_SHUTDOWN, RLT_EV_NOTICE */
void rlt_drain_left(struct rlt *r, const struct rlt_ev_left *e); /* what became of this node's values */
void rlt_drain_round(struct rlt *r);                             /* at the end of each step */

/* ---- orphan.c: no head is there any more ---- */

void rlt_orphan_round(struct rlt *r); /* at the end of each step, before the drain's */

#endif
