/* SPDX-License-Identifier: Apache-2.0
 *
 * nodes.h - door: nodes and their streams, what is free on them, and the cluster as they see it.
 *
 *   (unknown) --register--> ALIVE --stream closed, or silent 2 s--> SUSPECT --silent 10 s, or new boot--> DEAD
 *                             ^----same boot registers, or is heard----'                                   |
 *                             '------------------registers again: a new epoch-----------------------------'
 *   ALIVE, SUSPECT --drain--> DRAINING --it says that it is empty--> DEAD (has_left)
 *                             ^  '--as ALIVE--> SUSPECT, DEAD
 *                             '--same boot registers, or is heard, and the drain still stands
 */
#ifndef HEAD_NODES_H
#define HEAD_NODES_H

#include "scheduler/head/core/kit/kit.h"

/* ---- nodes.c: the table, states, streams -------------------------------------------------------------------------- */

struct node   *head_nodes_find(const struct head *h, uint32_t number);
struct stream *head_nodes_stream(const struct head *h, const struct node *n); /* NULL: none */
struct stream *head_nodes_stream_find(const struct head *h, uint64_t number);
/* Every node that is not dead, in order of numbers given. The caller frees the list; the nodes are borrowed. */
MT_MUST_USE mt_status head_nodes_living(struct head *h, struct policy_node ***out_nodes, uint32_t *out_count);
void                  head_nodes_free(struct node *n);
/* Whether a node that could be started could hold it: then it waits for one. */
bool head_nodes_could_come(const struct head *h, const struct policy_request *request);

void head_nodes_set_state(struct head *h, struct node *n, enum policy_state state, const char *why);
/* It is heard: ALIVE, or DRAINING where that was asked for. */
void head_nodes_set_there(struct head *h, struct node *n);
void head_nodes_suspect(struct head *h, struct node *n, const char *why);
void head_nodes_heard(struct head *h, struct node *n);
/* Something about a node is due then: its silence, or the end of a promise. */
void head_nodes_look_at(struct head *h, uint64_t due_ms);
/* The newest dead ones are kept, for people; the oldest goes. */
void head_nodes_remember_dead(struct head *h, uint32_t number);
void head_nodes_forget_dead(struct head *h, uint32_t number);
/* The head itself stood still: nobody's silence. */
void head_nodes_paused(struct head *h, uint64_t gap_ms);
/* For how long nothing was heard of it though somebody listened. */
uint64_t head_nodes_silent_ms(const struct head *h, const struct node *n);

void head_nodes_opened(struct head *h, uint64_t number, const struct head_peer *peer, const struct head_beat_terms *beats);
void head_nodes_closed(struct head *h, uint64_t number);
/* What its node says lies unread for now, or is read again. */
void head_nodes_unread(struct head *h, uint64_t number, bool is_unread);
/* Ends a stream that breaks the protocol or is replaced. */
void head_nodes_drop_stream(struct head *h, struct stream *s, const char *why);
/* The node has no stream any more. */
void head_nodes_detach(struct head *h, struct node *n, const char *why);

void                  head_nodes_store(struct head *h, const struct node *n);
MT_MUST_USE mt_status head_nodes_load(struct head *h, const Manta__Store__NodeRecord *record);

/* One more driver of a submitted job there, or one fewer. */
void head_nodes_drivers(struct head *h, struct node *n, int32_t change);

/* ---- promises.c: what is free -------------------------------------------------------------------------------------- */

void head_nodes_refresh_free(struct node *n);
void head_nodes_expire_promises(struct head *h, struct node *n, uint64_t age_ms);
void head_nodes_promise(struct head *h, struct node *n, const struct policy_request *request, uint32_t count);
/* For the driver of a job, whose end is told: what it had is free at once, and not with the next report. */
void head_nodes_promise_job(struct head *h, struct node *n, const struct policy_request *request, uint64_t order);
void head_nodes_job_ended(struct head *h, struct node *n, const struct policy_request *request, uint64_t order);
/* The node has said that it took what was promised: its next report contains it, and the promise is over. */
void head_nodes_taken(struct head *h, struct node *n, const struct policy_request *request);
/* The node is to make room for that. */
void head_nodes_press(struct head *h, struct node *n, const struct policy_request *request, uint32_t refusals);

#endif
