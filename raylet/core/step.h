/* SPDX-License-Identifier: Apache-2.0
 *
 * step.h - the parts of a step, between the files of this folder. Private to raylet/core/.
 */
#ifndef RLT_STEP_H
#define RLT_STEP_H

#include "raylet/core/state/state.h"

/* up.c: a control record from a process's up ring. */
void rlt_up_record(struct rlt *r, const struct rlt_ev_record *e);

/* hear.c */
void rlt_hear_closed(struct rlt *r, const struct rlt_ev_peer_closed *e);
void rlt_hear_frame(struct rlt *r, const struct rlt_ev_peer_frame *e);
void rlt_hear_view(struct rlt *r, const Manta__V1__View *view);  /* the head's word on the nodes */
void rlt_hear_free(struct rlt *r, const Manta__V1__Free *hints); /* ... and on what is free there */
void rlt_hear_nothing(struct rlt *r, struct rlt_peer *p);        /* RLT_TIMER_PEER: dialled again, or given up */
void rlt_rejoin(struct rlt *r, const char *why);                 /* this node was declared dead: all that runs here ends */

#endif
