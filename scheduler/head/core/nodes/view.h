/* SPDX-License-Identifier: Apache-2.0
 *
 * view.h - door: the cluster as its nodes see it, and what has changed of it (changes.c, view.c).
 */
#ifndef HEAD_VIEW_H
#define HEAD_VIEW_H

#include "scheduler/head/core/nodes/nodes.h"

/* ---- changes.c ---- */

/* Of its number, epoch, state, name, addresses, totals, labels. */
void head_view_changed(struct head *h, struct node *n);
/* It has registered: of that the others hear a little later in a large cluster, and at once when they are told to use it. */
void head_view_joined(struct head *h, struct node *n);
/* It is suspect, or is heard again. Where that happens to many at once it is told later, some in each round, and who is heard
 * before his turn was never away: a hiccup of the network is not news for all about all. */
void head_view_state_changed(struct head *h, struct node *n);
/* A round of telling begins: some of those who had to wait are told of in it. */
void head_view_states_round(struct head *h);
/* That number is in the table no more. */
void head_view_forgot(struct head *h, uint32_t number);
/* Something else that all are told of: the version that it has. */
uint64_t head_view_news(struct head *h);
void     head_view_free_changed(struct head *h, struct node *n);
void     head_view_pages_drop(struct head *h); /* what is packed is packed anew */
void     head_view_fini(struct head *h);
/* Whether nothing later is known of that node; NULL: it was forgotten. */
bool head_changes_is_last(const struct head *h, const struct view_change *c, struct node **out_node);
/* So many the log has at most. */
size_t head_changes_most(const struct head *h);

/* ---- view.c ---- */

void     head_view_tick(struct head *h);
uint64_t head_view_due_ms(const struct head *h);
uint64_t head_view_version(const struct head *h);
/* Who is about to be told to use one of these nodes knows it by then. */
void head_view_tell(struct head *h, struct stream *s, const uint32_t *nodes, uint32_t count);
/* Fills `out` (zeroed arrays are allocated; head_view_node_free gives them back). */
void head_view_node(struct head *h, const struct node *n, Manta__V1__Node *out);
void head_view_node_free(Manta__V1__Node *node);

#endif
