/* SPDX-License-Identifier: Apache-2.0
 *
 * drain.h - nodes that are to leave, and what must hold of them (I15).
 */
#ifndef SIM_DRAIN_H
#define SIM_DRAIN_H

#include "tests/sim/sim.h"

struct head_action;

void sim_drains_start(struct sim *s);
void sim_drains_free(struct sim *s);
/* Replies and refusals of the head: false, if the call is none of ours. */
bool sim_drain_reply(struct sim *s, const struct head_action *a);
bool sim_drain_refused(struct sim *s, uint64_t call);
/* The head says in a View how it counts a node. */
void sim_drain_seen(struct sim *s, uint32_t node, uint32_t epoch, bool is_alive);
/* Whether a node is on its way out. */
bool sim_drain_leaves(const struct sim *s);
/* A raylet ends of its own will. */
void sim_drain_exits(struct sim *s, struct sim_node *n, const char *why);

#endif
