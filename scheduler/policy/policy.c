/* SPDX-License-Identifier: Apache-2.0
 *
 * policy.c - pack then spread, spread, and node affinity.
 *
 * Owns:    nothing; ranks are kept in the nodes that the caller passes.
 * Always:  a node is chosen only while all amounts of the request are free on it.
 *
 * Every policy is an order: a rank for each node that fits, the lowest wins. Ranks depend on a node's use only, so after
 * each lease just the chosen node is ranked again.
 */
#include "scheduler/policy/policy.h"

#include "core/text/labels.h"

enum { USE_FULL = 1000000, RANK_NONE = INT64_MAX, RANK_STEP = 1000 /* more than any rank by use */ };

static const struct policy_resource *find(const struct policy_node *node, uint32_t kind);
static int64_t                       rank_of(const struct policy_node *node, const struct policy_request *request);

static const struct policy_resource *find(const struct policy_node *node, uint32_t kind)
{
    for (uint32_t i = 0; i < node->resource_count; i++)
        if (node->resources[i].kind == kind)
            return &node->resources[i];
    return NULL;
}

/* The alternative of the selector that the node satisfies, from 1; 0: none, or the node is to be avoided. */
static unsigned alternative(const struct policy_node *node, const struct policy_request *request)
{
    for (uint32_t i = 0; i < MT_RLT_SHUNNED_MAX; i++)
        if (request->avoid[i] && request->avoid[i] == node->id)
            return 0;
    return request->labels[0] ? mt_selector_match(request->labels, node->labels) : 1;
}

int64_t policy_total(const struct policy_node *node, uint32_t kind)
{
    const struct policy_resource *have = find(node, kind);
    return have ? have->total : 0;
}

bool policy_fits_total(const struct policy_node *node, const struct policy_request *request)
{
    if (!alternative(node, request))
        return false;
    for (uint32_t i = 0; i < request->amount_count; i++) {
        const struct policy_resource *has = find(node, request->amounts[i].kind);
        if (request->amounts[i].amount > (has ? has->total : 0))
            return false;
    }
    return true;
}

bool policy_fits_free(const struct policy_node *node, const struct policy_request *request)
{
    if (request->is_driver && node->drivers <= 0)
        return false;
    for (uint32_t i = 0; i < request->amount_count; i++) {
        const struct policy_resource *has = find(node, request->amounts[i].kind);
        if (request->amounts[i].amount > 0 && request->amounts[i].amount > (has ? has->free : 0))
            return false;
    }
    return true;
}

static void change_free(struct policy_node *node, const struct policy_request *request, int64_t sign)
{
    node->drivers += request->is_driver ? sign : 0;
    for (uint32_t i = 0; i < request->amount_count; i++)
        for (uint32_t j = 0; j < node->resource_count; j++)
            if (node->resources[j].kind == request->amounts[i].kind)
                node->resources[j].free += sign * request->amounts[i].amount;
}

void policy_take(struct policy_node *node, const struct policy_request *request)
{
    change_free(node, request, -1);
}

void policy_give(struct policy_node *node, const struct policy_request *request)
{
    change_free(node, request, 1);
}

/* The use of a node's most used resource, in millionths. */
static int64_t use_of(const struct policy_node *node)
{
    int64_t most = 0;
    for (uint32_t i = 0; i < node->resource_count; i++) {
        const struct policy_resource *r = &node->resources[i];
        if (r->total <= 0)
            continue;
        int64_t used = r->free >= r->total ? 0 : r->free <= 0 ? r->total : r->total - r->free;
        int64_t use = (int64_t)((mt_u128)used * USE_FULL / (mt_u128)r->total);
        most = use > most ? use : most;
    }
    return most;
}

static bool has_place(const struct policy_node *node)
{
    return !node->counts_places || node->places > 0;
}

/* Hybrid: below the threshold the fullest node first (pack), then the emptiest (spread). The use is a percentage here,
 * so that nearly equal nodes count as equal and the asking node, or chance, decides. */
static int64_t rank_of(const struct policy_node *node, const struct policy_request *request)
{
    unsigned which = alternative(node, request);
    if (node->state != POLICY_ALIVE || !which || !has_place(node) || !policy_fits_free(node, request))
        return RANK_NONE;
    int64_t use = use_of(node);
    int64_t rank = use / (USE_FULL / 100);
    if (request->policy != POLICY_SPREAD && use < POLICY_PACK_UNTIL)
        rank = -rank - 1;
    return which * RANK_STEP + rank * 2 + (request->policy != POLICY_SPREAD && node->id == request->prefer ? 0 : 1);
}

static uint32_t place_on(struct policy_node *node, const struct policy_request *request, uint32_t wanted, uint32_t *out_nodes)
{
    uint32_t placed = 0;
    while (placed < wanted && node->state == POLICY_ALIVE && alternative(node, request) && has_place(node) &&
           policy_fits_free(node, request)) {
        policy_take(node, request);
        node->places--;
        out_nodes[placed++] = node->id;
    }
    return placed;
}

static struct policy_node *best_of(struct policy_node *const *nodes, uint32_t node_count)
{
    struct policy_node *best = NULL;
    for (uint32_t i = 0; i < node_count; i++) {
        struct policy_node *n = nodes[i];
        if (n->rank == RANK_NONE)
            continue;
        if (!best || n->rank < best->rank || (n->rank == best->rank && n->tie < best->tie))
            best = n;
    }
    return best;
}

uint32_t policy_place(struct policy_node *const *nodes, uint32_t node_count, const struct policy_request *request, uint32_t wanted,
                      mt_rng *rng, uint32_t *out_nodes)
{
    uint32_t placed = 0;
    if (request->policy == POLICY_NODE || request->policy == POLICY_NODE_SOFT) {
        for (uint32_t i = 0; i < node_count && placed < wanted; i++)
            if (nodes[i]->id == request->node)
                placed += place_on(nodes[i], request, wanted - placed, out_nodes + placed);
        if (request->policy == POLICY_NODE)
            return placed;
    }
    for (uint32_t i = 0; i < node_count && placed < wanted; i++) {
        nodes[i]->rank = rank_of(nodes[i], request);
        nodes[i]->tie = mt_rng_next(rng);
    }
    while (placed < wanted) {
        struct policy_node *best = best_of(nodes, node_count);
        if (!best)
            break;
        policy_take(best, request);
        out_nodes[placed++] = best->id;
        best->rank = rank_of(best, request);
    }
    return placed;
}

bool policy_any_may_come(const struct policy_node *const *nodes, uint32_t node_count)
{
    for (uint32_t i = 0; i < node_count; i++)
        if (policy_may_come(nodes[i]->state))
            return true;
    return false;
}

bool policy_is_feasible(const struct policy_node *const *nodes, uint32_t node_count, const struct policy_request *request)
{
    for (uint32_t i = 0; i < node_count; i++) {
        if (!policy_may_come(nodes[i]->state) || (request->policy == POLICY_NODE && nodes[i]->id != request->node))
            continue;
        if (policy_fits_total(nodes[i], request))
            return true;
    }
    return false;
}
