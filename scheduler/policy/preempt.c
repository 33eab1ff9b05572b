/* SPDX-License-Identifier: Apache-2.0
 *
 * preempt.c - see preempt.h.
 */
#include "scheduler/policy/preempt.h"

#include <stdlib.h>

struct cost {
    int32_t  highest;
    uint32_t count; /* 0: there is no way */
};

static bool is_sooner(const struct policy_victim *a, const struct policy_victim *b)
{
    return a->priority != b->priority ? a->priority < b->priority : a->began_ms > b->began_ms;
}

/* Of those on the node that are not chosen yet. */
static struct policy_victim *next_of(uint32_t node, struct policy_victim *victims, uint32_t count)
{
    struct policy_victim *best = NULL;
    for (uint32_t i = 0; i < count; i++)
        if (victims[i].node == node && !victims[i].is_chosen && (!best || is_sooner(&victims[i], best)))
            best = &victims[i];
    return best;
}

/* Who was chosen and need not go, stays: the highest priority first, so those are looked at from the end of the order. */
static void spare_some(struct policy_node *node, const struct policy_request *request, struct policy_victim *victims,
                       uint32_t count)
{
    for (;;) {
        struct policy_victim *best = NULL;
        for (uint32_t i = 0; i < count; i++) {
            if (victims[i].node != node->id || !victims[i].is_chosen)
                continue;
            policy_take(node, victims[i].request);
            if (policy_fits_free(node, request) && (!best || is_sooner(best, &victims[i])))
                best = &victims[i];
            policy_give(node, victims[i].request);
        }
        if (!best)
            return;
        best->is_chosen = false;
        policy_take(node, best->request);
    }
}

/* Chooses those on this node, and says what that costs; the node is as before. */
static struct cost try_node(struct policy_node *node, const struct policy_request *request, struct policy_victim *victims,
                            uint32_t count)
{
    struct cost           cost = {INT32_MIN, 0};
    struct policy_victim *v;
    while (!policy_fits_free(node, request) && (v = next_of(node->id, victims, count))) {
        v->is_chosen = true;
        policy_give(node, v->request);
    }
    bool is_enough = policy_fits_free(node, request);
    if (is_enough)
        spare_some(node, request, victims, count);
    for (uint32_t i = 0; i < count; i++) {
        if (victims[i].node != node->id || !victims[i].is_chosen)
            continue;
        policy_take(node, victims[i].request);
        cost.highest = victims[i].priority > cost.highest ? victims[i].priority : cost.highest;
        cost.count += is_enough;
    }
    return cost;
}

static void choose_none(struct policy_victim *victims, uint32_t count)
{
    for (uint32_t i = 0; i < count; i++)
        victims[i].is_chosen = false;
}

bool policy_preempt(struct policy_node *const *nodes, uint32_t node_count, const struct policy_request *request,
                    struct policy_victim *victims, uint32_t victim_count)
{
    struct policy_node *best = NULL;
    struct cost         least = {0};
    for (uint32_t n = 0; n < node_count; n++) {
        bool may = nodes[n]->state == POLICY_ALIVE && policy_fits_total(nodes[n], request) &&
                   (request->policy != POLICY_NODE || request->node == nodes[n]->id);
        if (!may)
            continue;
        struct cost cost = try_node(nodes[n], request, victims, victim_count);
        choose_none(victims, victim_count);
        if (cost.count && (!best || cost.highest < least.highest || (cost.highest == least.highest && cost.count < least.count))) {
            best = nodes[n];
            least = cost;
        }
    }
    if (best)
        (void)try_node(best, request, victims, victim_count);
    return best;
}
