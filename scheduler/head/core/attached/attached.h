/* SPDX-License-Identifier: Apache-2.0
 *
 * attached.h - door: what attached raylets say, and what their silence means.
 */
#ifndef HEAD_ATTACHED_H
#define HEAD_ATTACHED_H

#include "scheduler/head/core/kit/kit.h"

/* A message came on the stream; one that can't be read ends it. */
void head_attached_message(struct head *h, uint64_t number, const uint8_t *bytes, size_t size);
/* Datagrams came; those that are to be answered are marked. */
void head_attached_beats(struct head *h, struct head_beat *items, size_t count);
/* A node's last report still stands: what follows from its being said again. */
void head_attached_stands(struct head *h, struct node *n);
/* Time has passed: who is silent is suspect, then dead. */
void head_attached_tick(struct head *h);

/* These heads there are, this one first: the nodes are told. */
void head_attached_heads(struct head *h, const char *const *addresses, uint32_t count);
/* Where there are several, each node hears the leader each second, since one that is silent is left for another. */
void head_attached_heads_tick(struct head *h);
/* It speaks on its stream again and not by datagrams, whose answers would have told it that the leader is there. */
void head_attached_heads_spoken(struct head *h, struct stream *s);

/* All nodes that have shown the certificates of this number, which were just revoked, are told to end, and are dead. */
void head_attached_shut_out(struct head *h, uint64_t member, const char *reason);
/* A client wants a node to be revoked. */
void head_attached_call(struct head *h, const struct head_event *event);

/* Between the files of this room. */
void head_attached_register(struct head *h, struct stream *s, const Manta__V1__Register *r);
/* All that the node's processes were doing is over: its jobs are started elsewhere, its names are free. */
void head_attached_lose_work(struct head *h, struct node *n, const char *why);

/* It is dead, and what it did is lost. */
void head_attached_die(struct head *h, struct node *n, const char *why);

/* A raylet asks for it itself (SIGTERM), or says that nothing is left of it. */
void head_attached_drain(struct head *h, struct stream *s, struct node *n, const Manta__V1__DrainRequest *request);

#endif
