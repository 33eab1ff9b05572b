/* SPDX-License-Identifier: Apache-2.0
 *
 * check.c - what must always hold for placement groups, and their part of the hash: for the simulation and tests.
 */

#include "core/base/hash.h"
#include "scheduler/head/core/groups/internal.h"
#include "scheduler/head/core/nodes/nodes.h"

uint64_t head_groups_hash(const struct head *h, uint64_t hash)
{
    for (const struct head_index_node *at = h->groups.first; at; at = at->next) {
        const struct group *g = mt_container_of(at, struct group, at);
        hash = mt_hash_mix(hash, g->id.counter_index ^ g->version);
        for (uint32_t i = 0; i < g->bundle_count; i++)
            hash = mt_hash_mix(hash, (uint64_t)g->bundles[i].state << 32 | g->bundles[i].node);
    }
    return hash;
}

static const char *check_bundle(const struct head *h, const struct group *g, const struct bundle *b)
{
    const struct node *n = head_nodes_find(h, b->node);
    if ((b->state == BUNDLE_NONE) != (b->node == 0))
        return "a bundle stands nowhere and has a node, or the other way round";
    if (b->state != BUNDLE_NONE && (!n || n->place.state == POLICY_DEAD || n->epoch != b->epoch))
        return "a bundle stands on a dead node";
    if (b->state != BUNDLE_NONE && b->version > g->version)
        return "a bundle is of a placement that was not made yet";
    return NULL;
}

static bool is_listed(const struct head *h, const struct group *g)
{
    for (size_t i = 0; i < h->open_groups.count; i++)
        if (h->open_groups.data[i] == g)
            return true;
    return false;
}

const char *head_groups_check(const struct head *h)
{
    uint32_t waits = 0;
    for (const struct head_index_node *at = h->groups.first; at; at = at->next) {
        const struct group *g = mt_container_of(at, struct group, at);
        const char         *breach = NULL;
        bool                has_none = false, is_asking = false;
        waits += (uint32_t)g->waits.count;
        for (uint32_t i = 0; i < g->bundle_count && !breach; i++) {
            breach = check_bundle(h, g, &g->bundles[i]);
            has_none |= g->bundles[i].state == BUNDLE_NONE;
            is_asking |= g->bundles[i].state == BUNDLE_PREPARING || g->bundles[i].state == BUNDLE_PREPARED;
        }
        if (!breach && has_none && is_asking)
            breach = "part of a placement was given up, and part not";
        if (!breach && g->is_open != is_listed(h, g))
            breach = "a placement group is open and not listed, or the other way round";
        if (!breach && (has_none || is_asking) && !g->is_open)
            breach = "a placement group waits, and nobody looks at it";
        if (breach)
            return breach;
    }
    return waits == h->group_waits ? NULL : "the count of those who wait for groups is wrong";
}
