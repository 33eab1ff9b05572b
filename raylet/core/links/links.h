/* SPDX-License-Identifier: Apache-2.0
 *
 * links.h - the other nodes: who there is, what is said to them, and the links and streams that carry it. The door of this
 * room. Private to raylet/core/. What they say comes in by hear.c, which also deals with the end of a link.
 */
#ifndef RLT_LINKS_H
#define RLT_LINKS_H

#include "raylet/core/state/state.h"

/* ---- peers.c: saying ---- */

/* Queues a record for another node. False: there is no such node, or it is dead. */
bool     rlt_peer_send(struct rlt *r, uint32_t node, enum peer_kind kind, mt_id id, const void *payload, size_t size);
bool     rlt_peer_send2(struct rlt *r, uint32_t node, enum peer_kind kind, mt_id id, const void *head, size_t head_size,
                        const void *tail, size_t tail_size);
void     rlt_peers_tell(struct rlt *r, enum peer_kind kind, const void *payload, size_t size); /* all there is a link to */
void     rlt_peer_out(struct rlt *r, const struct rlt_ev_out *e);                              /* records of the switch */
void     rlt_peer_meet(struct rlt *r, uint32_t node); /* begins a link where there is none: whether it lives shows by that */
bool     rlt_peer_is_given_up(const struct rlt *r, uint32_t node);
uint32_t rlt_peers_unheard(const struct rlt *r); /* nodes that have not acknowledged all that was said to them */
bool rlt_peer_is_newer(const struct rlt *r, const struct rlt_node *n); /* it spoke under an epoch that the head has not told of */
void rlt_peers_fini(struct rlt *r);

/* ---- nodes.c ---- */

struct rlt_node *rlt_node_take(struct rlt *r, const Manta__V1__Node *v); /* what the head's View says of one; NULL: of none */
void             rlt_node_forget(struct rlt *r, uint32_t node);          /* the head lists it no more; it stays dead */
void             rlt_node_hint(struct rlt *r, const Manta__V1__NodeFree *v);
/* It is DRAINING by the head's last word, or was so when it went. */
bool rlt_node_is_drained(const struct rlt *r, uint32_t node);
/* Alive by the head's last word, and not given up here since; `n` may be NULL. */
bool rlt_node_is_there(const struct rlt *r, const struct rlt_node *n);
void rlt_nodes_reply(struct rlt *r, struct rlt_proc *p, mt_id id, uint32_t after);
void rlt_nodes_fini(struct rlt *r);

/* ---- news.c: that the list of nodes is another ---- */

void rlt_news(struct rlt *r, enum ctl_news what); /* what rlt_nodes_reply would say, from now on */
void rlt_news_ask(struct rlt *r, struct rlt_proc *p, mt_id id, uint32_t what);
void rlt_news_round(struct rlt *r); /* at the end of a step: who asked before it is told */

/* ---- message.c: library to library ---- */

void rlt_message(struct rlt *r, struct rlt_proc *from, const struct lane_record *record, const uint8_t *payload);
void rlt_message_undelivered(struct rlt *r, const struct rlt_ev_record *e);
void rlt_message_record(struct rlt *r, struct rlt_peer *p, const struct lane_record *record, const uint8_t *payload);
void rlt_message_lost(struct rlt *r, const struct lane_record *record, const uint8_t *payload); /* with its link */

/* ---- object.c: of objects whose owner and place are on two nodes ---- */

void rlt_object_dead(struct rlt *r, const struct rlt_proc *p, const uint8_t *payload);
void rlt_object_record(struct rlt *r, struct rlt_peer *p, const struct lane_record *record, const uint8_t *payload);
void rlt_object_owner_gone(struct rlt *r, const struct rlt_proc *owner);
void rlt_object_lease_over(struct rlt *r, const struct rlt_lease *l); /* its worker writes no more for its owner */

/* ---- adopt.c: of values that other nodes adopt from one that leaves ---- */

void rlt_moved_say(struct rlt *r, const struct rlt_moved *m);                           /* from this node's store */
void rlt_moved_up(struct rlt *r, const struct rlt_proc *owner, const uint8_t *payload); /* an owner's answer */
void rlt_moved_record(struct rlt *r, const struct rlt_peer *p, const struct lane_record *record, const uint8_t *payload);

#endif
