/* SPDX-License-Identifier: Apache-2.0
 *
 * orders.c - what nodes are told about bundles: reserve, keep, give back. An order that is lost is given again.
 */

#include "scheduler/head/core/groups/internal.h"
#include "scheduler/head/core/nodes/nodes.h"

static void order_send(struct head *h, const struct node *n, const Manta__V1__BundleOrder *order)
{
    to_node message = MANTA__V1__HEAD_TO_NODE__INIT;
    message.kind_case = MANTA__V1__HEAD_TO_NODE__KIND_BUNDLE;
    message.bundle = (Manta__V1__BundleOrder *)(uintptr_t)order;
    head_out_send(h, head_nodes_stream(h, n), &message, true);
}

static void order_begin(const struct node *n, mt_id group, enum bundle_verb verb, Manta__V1__BundleOrder *out)
{
    *out = (Manta__V1__BundleOrder)MANTA__V1__BUNDLE_ORDER__INIT;
    out->group_process = group.process;
    out->group_counter = group.counter_index;
    out->verb = verb;
    out->epoch = n->epoch;
}

/* About all bundles of the group on that node that are in this state. */
void head_bundles_order(struct head *h, struct group *g, uint32_t number, enum bundle_state state, enum bundle_verb verb,
                        const char *removed)
{
    struct node           *n = head_nodes_find(h, number);
    Manta__V1__BundleOrder o;
    Manta__V1__Bundle      bundles[MT_GROUP_BUNDLES_MAX], *named[MT_GROUP_BUNDLES_MAX];
    resource               items[MT_GROUP_RESOURCES_MAX], *pointers[MT_GROUP_RESOURCES_MAX];
    if (!n || n->stream == 0)
        return; /* its next registration or report brings it up again */
    order_begin(n, g->id, verb, &o);
    head_groups_fill_bundles(h, g, bundles, items, pointers);
    o.bundles = named;
    for (uint32_t i = 0; i < g->bundle_count; i++) {
        struct bundle *b = &g->bundles[i];
        if (b->node != number || b->epoch != n->epoch || b->state != state)
            continue;
        b->sent_ms = h->now_ms;
        bundles[i].n_resources = verb == BUNDLE_PREPARE ? bundles[i].n_resources : 0;
        named[o.n_bundles++] = &bundles[i];
    }
    o.job = g->job;
    o.removed = removed != NULL;
    o.reason = removed ? (char *)(uintptr_t)removed : o.reason;
    if (o.n_bundles > 0)
        order_send(h, n, &o);
}

/* A commit is for those that do not know of it. */
static bool is_meant(const struct bundle *b, enum bundle_state state, enum bundle_verb verb)
{
    return b->state == state && (verb != BUNDLE_COMMIT || !b->is_told);
}

/* The same on every node, each once. */
void head_bundles_order_all(struct head *h, struct group *g, enum bundle_state state, enum bundle_verb verb, const char *removed)
{
    for (uint32_t i = 0; i < g->bundle_count; i++) {
        bool is_first = is_meant(&g->bundles[i], state, verb);
        for (uint32_t k = 0; k < i && is_first; k++)
            is_first = !is_meant(&g->bundles[k], state, verb) || g->bundles[k].node != g->bundles[i].node;
        if (is_first)
            head_bundles_order(h, g, g->bundles[i].node, state, verb, removed);
    }
}

void head_bundles_return_stale(struct head *h, const struct node *n, const Manta__V1__BundleHeld *held, bool is_removed)
{
    Manta__V1__BundleOrder o;
    Manta__V1__Bundle      bundle = MANTA__V1__BUNDLE__INIT, *one = &bundle;
    order_begin(n, (mt_id){held->group_process, held->group_counter}, BUNDLE_RETURN, &o);
    bundle.index = held->index;
    bundle.version = held->version;
    o.bundles = &one;
    o.n_bundles = 1;
    o.removed = is_removed;
    o.reason = is_removed ? (char *)"it was removed" : o.reason;
    h->count.bundle_stale++;
    order_send(h, n, &o);
}

/* Of one that has committed and not said so, or was asked and has not answered. */
void head_bundles_say_again(struct head *h, struct group *g, uint64_t age_ms)
{
    for (uint32_t i = 0; i < g->bundle_count; i++) {
        const struct bundle *b = &g->bundles[i];
        if (h->now_ms - b->sent_ms < age_ms)
            continue;
        if (b->state == BUNDLE_PREPARING)
            head_bundles_order(h, g, b->node, BUNDLE_PREPARING, BUNDLE_PREPARE, NULL);
        else if (b->state == BUNDLE_COMMITTED && !b->is_told)
            head_bundles_order(h, g, b->node, BUNDLE_COMMITTED, BUNDLE_COMMIT, NULL);
    }
}
