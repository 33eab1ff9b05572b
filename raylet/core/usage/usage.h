/* SPDX-License-Identifier: Apache-2.0
 *
 * usage.h - what each job holds of this node, over time, and how the head hears of it. The door of this room. Private to
 * raylet/core/.
 */
#ifndef RLT_USAGE_H
#define RLT_USAGE_H

#include "raylet/core/state/state.h"

/* ---- who holds what. A job is the number that its driver has drawn; 0: nobody's, which is not counted ---- */

enum rlt_usage_way { RLT_USAGE_GIVES = -1, RLT_USAGE_TAKES = 1 };

/* After it was taken, before it is given back. CPUs that are lent to others are not the job's. */
void rlt_usage_change(struct rlt *r, uint64_t job, const struct rlt_hold *hold, enum rlt_usage_way way);
/* A driver is here, so this node knows whose job it is: "" of one that was started by hand. */
void rlt_usage_known(struct rlt *r, uint64_t job, const char *id);
/* It does nothing more here: the head is told soon. */
void rlt_usage_over(struct rlt *r, uint64_t job);
/* The number that stands for what the driver of a submitted job holds. */
uint64_t rlt_usage_number(const char *id);

/* ---- what the head hears ---- */

void rlt_usage_timer(struct rlt *r);
void rlt_usage_registered(struct rlt *r);
void rlt_usage_acked(struct rlt *r, const Manta__V1__UsageAck *ack);
/* The head has taken this node for dead, and has counted what it held until then: what was not said is not charged. */
void rlt_usage_given_up(struct rlt *r);
void rlt_usage_fini(struct rlt *r);
/* What it counts as held, by index of the ledger; tests hold the ledger against it. */
void rlt_usage_held(const struct rlt *r, int64_t held[MT_RLT_RESOURCES_MAX]);

#endif
