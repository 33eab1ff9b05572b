/* SPDX-License-Identifier: Apache-2.0
 *
 * preempt.h - whom somebody of higher priority sends away who finds no room. Pure, as policy.h.
 */
#ifndef POLICY_PREEMPT_H
#define POLICY_PREEMPT_H

#include "scheduler/policy/policy.h"

struct policy_victim { /* runs, and may be sent away by who asks */
    uint32_t                     node;
    int32_t                      priority;
    uint64_t                     began_ms;
    const struct policy_request *request;
    bool                         is_chosen; /* out */
};

/* Chooses those on one node without whom the request has room there: of the nodes that one where the highest priority among them
 * is lowest, then the one with the fewest. On a node the lowest priority goes first, then who has begun last, as he loses least;
 * none goes without whom there is room already. False: nobody's going would be enough; then none is chosen. `nodes` is changed
 * and set back. */
bool policy_preempt(struct policy_node *const *nodes, uint32_t node_count, const struct policy_request *request,
                    struct policy_victim *victims, uint32_t victim_count);

#endif
