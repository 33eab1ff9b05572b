/* SPDX-License-Identifier: Apache-2.0
 *
 * wants.h - door: leases that a node cannot grant itself.
 */
#ifndef HEAD_WANTS_H
#define HEAD_WANTS_H

#include "scheduler/head/core/kit/kit.h"

/* The node's stream is a new one: a refusal that went with the old one may never have come. */
void head_wants_tell_again(struct node *n);
/* All wants of the node; they replace what was there. */
void head_wants_report(struct head *h, struct node *n, Manta__V1__Want *const *wants, size_t count);
/* ... and all that its processes would use beyond what they have. */
void head_wants_wishes(struct head *h, struct node *n, Manta__V1__Wish *const *wishes, size_t count);
/* What the scaler says of them now goes to the nodes, where it is not what it said before. */
void head_wants_wishes_tell(struct head *h);
/* Answers what can be answered now. */
void head_wants_round(struct head *h);

#endif
