/* SPDX-License-Identifier: Apache-2.0
 *
 * private.h - what the files of this room call of one another: scale.c < orders.c < round.c, calls.c.
 */
#ifndef HEAD_SCALE_PRIVATE_H
#define HEAD_SCALE_PRIVATE_H

#include "scheduler/head/core/scale/scale.h"

/* EINVAL: what is wrong with it is in `text`. Else it counts from now on; stored where `stores`. */
MT_MUST_USE mt_status head_scale_configure(struct head *h, const Manta__V1__ScaleConfig *config, bool stores, char *text,
                                           size_t size);
Manta__V1__ScaleWant *head_scale_want_find(const struct head *h, const char *name);
void                  head_scale_want_put(struct head *h, const Manta__V1__ScaleWant *want); /* count 0: it goes */
/* Those of a node of a type. False: they are longer than `size`. */
bool head_scale_labels(const Manta__V1__ScaleType *type, const char *zone, char *out, size_t size);
/* All has gone down: nothing is left of the configuration. */
void head_scale_forget(struct head *h);
/* One event into the scaler, and what follows from it. */
void head_scale_step(struct head *h, struct scl_event *event);
/* Nobody joins any more as an instance that was ended since, and who has is refused everywhere. Nodes may die and be forgotten, so
 * not while they are walked. */
void head_scale_shut_out(struct head *h);
/* The provider is to be this one, with these settings. */
void head_scale_open(struct head *h);
/* The value of one label; false: there is none. */
bool head_scale_label(const char *labels, const char *key, char *out, size_t size);

/* ---- learn.c: what nodes of a type have, as they tell ---- */

/* A node of ours that is there: the first of its type tells what those have where nobody has said it, and one that has less than
 * was said tells that. Stored. */
void head_scale_learn(struct head *h, const struct node *n);
/* What was learnt before of the types of a new configuration, where these are the same machines; its own word of that does not
 * count. */
void head_scale_keep_learnt(struct head *h, Manta__V1__ScaleConfig *to);

/* The instance that a node's labels name, and its handle (room for MT_SCL_NAME_SIZE); 0: none of this cluster. */
uint64_t head_scale_instance_of(const struct head *h, const char *labels, char *out_handle);

#endif
