/* SPDX-License-Identifier: Apache-2.0
 *
 * group.c - placement groups: where a set of bundles goes, all of them or none.
 *
 * Owns:    nothing; ranks and ties are kept in the nodes that the caller passes.
 * Always:  a bundle is placed only where its amounts are free; after a no the nodes have what they had.
 *
 * Large bundles are placed before small ones, since those fit more easily into what is left. PACK fills the node that
 * takes the most of what is left, again and again; SPREAD takes the node with the fewest of the group, then the emptiest.
 * STRICT_SPREAD is a matching between bundles and nodes: a greedy choice could give a small bundle the only node of a
 * large one.
 */
#include "scheduler/policy/policy.h"

#include "core/base/status.h"

#include <string.h>

enum { USE_FULL = 1000000, NONE = -1 };

struct order { /* bundles that are to be placed, the largest first */
    uint32_t at[MT_GROUP_BUNDLES_MAX];
    uint32_t count;
};

/* How much of the largest node a bundle is, in millionths of its scarcest resource. */
static int64_t weight_of(struct policy_node *const *nodes, uint32_t node_count, const struct policy_request *request)
{
    int64_t most = 0;
    for (uint32_t i = 0; i < request->amount_count; i++) {
        int64_t largest = 0;
        for (uint32_t n = 0; n < node_count; n++) {
            int64_t total = policy_total(nodes[n], request->amounts[i].kind);
            largest = total > largest ? total : largest;
        }
        int64_t share = largest <= 0 ? USE_FULL : (int64_t)((mt_u128)request->amounts[i].amount * USE_FULL / (mt_u128)largest);
        most = share > most ? share : most;
    }
    return most;
}

static void order_make(struct policy_node *const *nodes, uint32_t node_count, const struct policy_bundle *bundles,
                       uint32_t bundle_count, struct order *out)
{
    int64_t weights[MT_GROUP_BUNDLES_MAX];
    out->count = 0;
    for (uint32_t b = 0; b < bundle_count; b++) {
        if (bundles[b].node)
            continue;
        int64_t  weight = weight_of(nodes, node_count, bundles[b].request);
        uint32_t at = out->count++;
        for (; at > 0 && weights[at - 1] < weight; at--) {
            weights[at] = weights[at - 1];
            out->at[at] = out->at[at - 1];
        }
        weights[at] = weight;
        out->at[at] = b;
    }
}

/* The use of a node's most used resource, in millionths. */
static int64_t use_of(const struct policy_node *node)
{
    int64_t most = 0;
    for (uint32_t i = 0; i < node->resource_count; i++) {
        const struct policy_resource *r = &node->resources[i];
        int64_t                       used = r->free >= r->total ? 0 : r->free <= 0 ? r->total : r->total - r->free;
        int64_t                       use = r->total <= 0 ? 0 : (int64_t)((mt_u128)used * USE_FULL / (mt_u128)r->total);
        most = use > most ? use : most;
    }
    return most;
}

static uint32_t bundles_on(uint32_t node, const struct policy_bundle *bundles, uint32_t bundle_count)
{
    uint32_t count = 0;
    for (uint32_t b = 0; b < bundle_count; b++)
        count += bundles[b].node == node;
    return count;
}

static bool may_take(const struct policy_node *node, const struct policy_request *request)
{
    return node->state == POLICY_ALIVE && policy_fits_free(node, request);
}

static void put(struct policy_node *node, struct policy_bundle *bundle)
{
    policy_take(node, bundle->request);
    bundle->node = node->id;
}

/* Takes back what this call has placed: bundles in `order`. */
static void undo(struct policy_node *const *nodes, uint32_t node_count, struct policy_bundle *bundles, const struct order *order)
{
    for (uint32_t i = 0; i < order->count; i++) {
        struct policy_bundle *b = &bundles[order->at[i]];
        for (uint32_t n = 0; n < node_count && b->node; n++)
            if (nodes[n]->id == b->node)
                policy_give(nodes[n], b->request);
        b->node = 0;
    }
}

/* Of those left in `order`, how many this node takes; with `keep` they stay there, else the node is as before. */
static uint32_t fill(struct policy_node *node, struct policy_bundle *bundles, const struct order *order, bool keep)
{
    uint32_t taken[MT_GROUP_BUNDLES_MAX], count = 0;
    for (uint32_t i = 0; i < order->count; i++) {
        struct policy_bundle *b = &bundles[order->at[i]];
        if (b->node || !may_take(node, b->request))
            continue;
        put(node, b);
        taken[count++] = order->at[i];
    }
    for (uint32_t i = 0; i < count && !keep; i++) {
        policy_give(node, bundles[taken[i]].request);
        bundles[taken[i]].node = 0;
    }
    return count;
}

/* The node that takes the most of what is left; among equals one that has some of the group already, then the fullest. */
static struct policy_node *best_pack(struct policy_node *const *nodes, uint32_t node_count, struct policy_bundle *bundles,
                                     uint32_t bundle_count, const struct order *order)
{
    struct policy_node *best = NULL;
    uint32_t            best_count = 0;
    for (uint32_t n = 0; n < node_count; n++) {
        struct policy_node *node = nodes[n];
        uint32_t            count = fill(node, bundles, order, false);
        int64_t             has = bundles_on(node->id, bundles, bundle_count) ? 2 * USE_FULL : 0;
        node->rank = has + use_of(node);
        bool is_better = !best || count > best_count ||
                         (count == best_count && (node->rank > best->rank || (node->rank == best->rank && node->tie < best->tie)));
        if (count > 0 && is_better) {
            best = node;
            best_count = count;
        }
    }
    return best;
}

static bool pack(struct policy_node *const *nodes, uint32_t node_count, struct policy_bundle *bundles, uint32_t bundle_count,
                 const struct order *order, bool is_strict)
{
    for (uint32_t left = order->count; left > 0;) {
        struct policy_node *best = best_pack(nodes, node_count, bundles, bundle_count, order);
        uint32_t            count = best ? fill(best, bundles, order, true) : 0;
        left -= count;
        if (count == 0 || (is_strict && left > 0))
            return false;
    }
    return true;
}

/* All that is left goes where the rest of the group stands. */
static bool pack_strictly(struct policy_node *const *nodes, uint32_t node_count, struct policy_bundle *bundles,
                          uint32_t bundle_count, const struct order *order)
{
    uint32_t there = 0;
    for (uint32_t b = 0; b < bundle_count; b++)
        there = bundles[b].node ? bundles[b].node : there;
    for (uint32_t n = 0; n < node_count; n++)
        if (there && nodes[n]->id == there)
            return pack(&nodes[n], 1, bundles, bundle_count, order, true);
    return !there && pack(nodes, node_count, bundles, bundle_count, order, true);
}

static bool spread(struct policy_node *const *nodes, uint32_t node_count, struct policy_bundle *bundles, uint32_t bundle_count,
                   const struct order *order)
{
    for (uint32_t i = 0; i < order->count; i++) {
        struct policy_bundle *b = &bundles[order->at[i]];
        struct policy_node   *best = NULL;
        for (uint32_t n = 0; n < node_count; n++) {
            struct policy_node *node = nodes[n];
            if (!may_take(node, b->request))
                continue;
            node->rank = (int64_t)bundles_on(node->id, bundles, bundle_count) * 2 * USE_FULL + use_of(node);
            if (!best || node->rank < best->rank || (node->rank == best->rank && node->tie < best->tie))
                best = node;
        }
        if (!best)
            return false;
        put(best, b);
    }
    return true;
}

/* ---- each on a node of its own: augmenting paths ---- */

struct match {
    struct policy_node *const  *nodes;
    uint32_t                    node_count;
    const struct policy_bundle *bundles;
    uint32_t                    bundle_count;
    const struct order         *order;
    bool                        by_total; /* as if everything were free */
};

static bool may_match(const struct match *m, const struct policy_node *node, uint32_t which)
{
    const struct policy_request *request = m->bundles[m->order->at[which]].request;
    if (m->by_total)
        return policy_may_come(node->state) && policy_fits_total(node, request);
    return may_take(node, request) && bundles_on(node->id, m->bundles, m->bundle_count) == 0;
}

/* Finds a node for the bundle, moving others to other nodes where that helps. `tie` notes which nodes were looked at for
 * it; `rank` is the bundle that a node has. */
static bool augment(const struct match *m, uint32_t which, uint32_t depth)
{
    for (uint32_t n = 0; n < m->node_count; n++) {
        struct policy_node *node = m->nodes[n];
        if (node->tie == 1 || !may_match(m, node, which))
            continue;
        node->tie = 1;
        if (node->rank == NONE || (depth < MT_GROUP_BUNDLES_MAX && augment(m, (uint32_t)node->rank, depth + 1))) {
            node->rank = which;
            return true;
        }
    }
    return false;
}

/* How many bundles find a node of their own. */
static uint32_t match_all(const struct match *m)
{
    uint32_t matched = 0;
    for (uint32_t n = 0; n < m->node_count; n++)
        m->nodes[n]->rank = NONE;
    for (uint32_t i = 0; i < m->order->count; i++) {
        for (uint32_t n = 0; n < m->node_count; n++)
            m->nodes[n]->tie = 0;
        matched += augment(m, i, 0);
    }
    return matched;
}

static bool spread_strictly(struct policy_node *const *nodes, uint32_t node_count, struct policy_bundle *bundles,
                            uint32_t bundle_count, const struct order *order)
{
    struct match m = {nodes, node_count, bundles, bundle_count, order, false};
    if (match_all(&m) < order->count)
        return false;
    for (uint32_t n = 0; n < node_count; n++)
        if (nodes[n]->rank != NONE)
            put(nodes[n], &bundles[order->at[nodes[n]->rank]]);
    return true;
}

/* ---- all strategies ---- */

bool policy_place_group(struct policy_node *const *nodes, uint32_t node_count, enum policy_strategy strategy,
                        struct policy_bundle *bundles, uint32_t bundle_count, mt_rng *rng)
{
    struct order order;
    bool         is_placed = false;
    MT_ASSERT(bundle_count <= MT_GROUP_BUNDLES_MAX);
    order_make(nodes, node_count, bundles, bundle_count, &order);
    for (uint32_t n = 0; n < node_count; n++)
        nodes[n]->tie = mt_rng_next(rng);
    switch (strategy) {
    case POLICY_GROUP_PACK: is_placed = pack(nodes, node_count, bundles, bundle_count, &order, false); break;
    case POLICY_GROUP_SPREAD: is_placed = spread(nodes, node_count, bundles, bundle_count, &order); break;
    case POLICY_GROUP_STRICT_PACK: is_placed = pack_strictly(nodes, node_count, bundles, bundle_count, &order); break;
    case POLICY_GROUP_STRICT_SPREAD: is_placed = spread_strictly(nodes, node_count, bundles, bundle_count, &order); break;
    }
    if (!is_placed)
        undo(nodes, node_count, bundles, &order);
    return is_placed;
}

/* ---- whether there is a way at all ---- */

static void sum_add(struct policy_request *sum, const struct policy_request *request, bool *is_whole)
{
    for (uint32_t i = 0, at; i < request->amount_count; i++) {
        for (at = 0; at < sum->amount_count && sum->amounts[at].kind != request->amounts[i].kind;)
            at++;
        if (at == POLICY_RESOURCES_MAX) {
            *is_whole = false; /* more kinds than one request can name: not looked at */
            continue;
        }
        if (at == sum->amount_count)
            sum->amounts[sum->amount_count++] = (struct policy_amount){request->amounts[i].kind, 0};
        sum->amounts[at].amount += request->amounts[i].amount;
    }
}

static bool fits_any(struct policy_node *const *nodes, uint32_t node_count, const struct policy_request *request)
{
    for (uint32_t n = 0; n < node_count; n++)
        if (policy_may_come(nodes[n]->state) && policy_fits_total(nodes[n], request))
            return true;
    return false;
}

static bool fits_cluster(struct policy_node *const *nodes, uint32_t node_count, const struct policy_request *sum)
{
    for (uint32_t i = 0; i < sum->amount_count; i++) {
        int64_t all = 0;
        for (uint32_t n = 0; n < node_count; n++)
            all += policy_may_come(nodes[n]->state) ? policy_total(nodes[n], sum->amounts[i].kind) : 0;
        if (all < sum->amounts[i].amount)
            return false;
    }
    return true;
}

enum policy_hopeless policy_group_is_hopeless(struct policy_node *const *nodes, uint32_t node_count, enum policy_strategy strategy,
                                              const struct policy_bundle *bundles, uint32_t bundle_count, uint32_t *out_bundle,
                                              struct policy_request *out_sum)
{
    struct order order = {.count = bundle_count};
    struct match m = {nodes, node_count, bundles, bundle_count, &order, true};
    bool         is_whole = true;
    memset(out_sum, 0, sizeof *out_sum);
    MT_ASSERT(bundle_count <= MT_GROUP_BUNDLES_MAX);
    for (uint32_t b = 0; b < bundle_count; b++) {
        order.at[b] = b;
        sum_add(out_sum, bundles[b].request, &is_whole);
        if (!fits_any(nodes, node_count, bundles[b].request)) {
            *out_bundle = b;
            return POLICY_BUNDLE_FITS_NOWHERE;
        }
    }
    if (strategy == POLICY_GROUP_STRICT_PACK && is_whole && !fits_any(nodes, node_count, out_sum))
        return POLICY_SUM_FITS_NOWHERE;
    if (strategy == POLICY_GROUP_STRICT_SPREAD && (*out_bundle = match_all(&m)) < bundle_count)
        return POLICY_TOO_FEW_NODES;
    return fits_cluster(nodes, node_count, out_sum) ? POLICY_COULD : POLICY_CLUSTER_TOO_SMALL;
}
