/* SPDX-License-Identifier: Apache-2.0
 *
 * calls.h - door: what clients ask of the head, and through it of one node.
 */
#ifndef HEAD_CALLS_H
#define HEAD_CALLS_H

#include "scheduler/head/core/kit/kit.h"

/* ---- calls.c ------------------------------------------------------------------------------------------------------- */

void head_calls_take(struct head *h, const struct head_event *event);
/* The request, which the caller frees; NULL: it was refused. */
ProtobufCMessage *head_calls_open(struct head *h, const struct head_event *event);
/* Whether the caller's token is good for that; false: he was refused. */
bool head_calls_may(struct head *h, const struct head_event *event, enum mt_right right);
void head_calls_gone(struct head *h, uint64_t call);

/* ---- lists.c ------------------------------------------------------------------------------------------------------- */

void head_calls_list_nodes(struct head *h, uint64_t call);
/* The newest first, as many as fit into one message. */
void head_calls_list_jobs(struct head *h, uint64_t call, const Manta__V1__ListJobsRequest *request);

/* ---- queries.c: what clients ask of nodes -------------------------------------------------------------------------- */

void head_queries_take(struct head *h, uint64_t call, const Manta__V1__QueryRequest *request);
void head_queries_answer(struct head *h, const struct node *n, Manta__V1__QueryAnswer *answer);
void head_queries_call_gone(struct head *h, uint64_t call);
/* Answers those whose node is gone or silent. */
void        head_queries_tick(struct head *h);
void        head_queries_fini(struct head *h);
const char *head_queries_check(const struct head *h); /* for head_check */

/* ---- drain.c: a node is to leave ---- */

void head_drain_call(struct head *h, uint64_t call, const Manta__V1__DrainRequest *request);
/* The node is ALIVE, SUSPECT or, said again, DRAINING already. */
void head_drain_begin(struct head *h, struct node *n, uint64_t limit_ms, const char *reason);
void head_drain_order(struct head *h, struct node *n); /* tells its raylet, if that is attached */

#endif
