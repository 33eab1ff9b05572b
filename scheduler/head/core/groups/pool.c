/* SPDX-License-Identifier: Apache-2.0
 *
 * pool.c - leases in the pool of a group: only where its bundles stand.
 */

#include "scheduler/head/core/groups/internal.h"
#include "scheduler/head/core/nodes/nodes.h"

static bool could_hold(const struct bundle *b, const struct policy_request *request, const int64_t *free_now)
{
    for (uint32_t i = 0; i < request->amount_count; i++) {
        int64_t has = 0;
        for (uint32_t k = 0; k < b->request.amount_count; k++)
            if (b->request.amounts[k].kind == request->amounts[i].kind)
                has = free_now ? free_now[k] : b->request.amounts[k].amount;
        if (has < request->amounts[i].amount)
            return false;
    }
    return true;
}

static void take_from(struct head *h, struct bundle *b, const struct policy_request *request)
{
    for (uint32_t i = 0; i < request->amount_count; i++)
        for (uint32_t k = 0; k < b->request.amount_count; k++)
            if (b->request.amounts[k].kind == request->amounts[i].kind)
                b->free[k] -= request->amounts[i].amount;
    b->placed_ms = h->now_ms;
}

/* Why no bundle that the want names can ever hold one of its leases; MT_OK: some can. */
static int32_t refusal(const struct group *g, const struct want *w, char *text, size_t text_size)
{
    bool could = false;
    char name[HEAD_TEXT_SIZE];
    head_groups_name(g, name, sizeof name);
    if (w->bundle > g->bundle_count) {
        snprintf(text, text_size, "placement group %.150s has %u bundles, there is no bundle %u", name, g->bundle_count, w->bundle);
        return MT_EINVAL;
    }
    for (uint32_t i = 0; i < g->bundle_count; i++)
        could |= (w->bundle == 0 || w->bundle == i + 1) && could_hold(&g->bundles[i], &w->request, NULL);
    if (!could && w->bundle)
        snprintf(text, text_size, "it wants more than bundle %u of placement group %.150s has", w->bundle, name);
    else if (!could)
        snprintf(text, text_size, "it wants more than any bundle of placement group %.150s has", name);
    if (!could)
        return MT_EINVAL;
    if (head_bundles_are_placed(g) || !g->why[0])
        return MT_OK;
    snprintf(text, text_size, "placement group %.100s can't be placed: %.360s", name, g->why);
    return MT_EUNSCHEDULABLE;
}

uint32_t head_bundles_place(struct head *h, const struct want *w, uint32_t wanted, uint32_t *out_nodes, int32_t *out_code,
                            char *text, size_t text_size)
{
    struct group *g = head_groups_find(h, w->group);
    uint32_t      placed = 0;
    if (!g) {
        *out_code = MT_EPG_REMOVED;
        snprintf(text, text_size, "the placement group was removed, or its job has ended");
        return 0;
    }
    *out_code = refusal(g, w, text, text_size);
    if (*out_code != MT_OK)
        return 0;
    for (int pass = 0; pass < 2; pass++) { /* those of the node that asks come first */
        for (uint32_t i = 0; i < g->bundle_count; i++) {
            struct bundle *b = &g->bundles[i];
            if (b->state != BUNDLE_COMMITTED || (w->bundle && w->bundle != i + 1) || (b->node == w->request.prefer) != (pass == 0))
                continue;
            const struct node *n = head_nodes_find(h, b->node);
            if (n && n->drain.is_on)
                continue; /* it moves, as soon as nothing runs in it any more */
            while (placed < wanted && could_hold(b, &w->request, b->free)) {
                take_from(h, b, &w->request);
                out_nodes[placed++] = b->node;
            }
        }
    }
    return placed;
}

void head_bundles_reserved(const struct head *h, const struct node *n, int64_t out[POLICY_RESOURCES_MAX])
{
    memset(out, 0, POLICY_RESOURCES_MAX * sizeof *out);
    for (const struct head_index_node *at = h->groups.first; at; at = at->next) {
        const struct group *g = mt_container_of(at, struct group, at);
        for (uint32_t i = 0; i < g->bundle_count; i++) {
            const struct bundle *b = &g->bundles[i];
            if (b->node != n->place.id || b->state != BUNDLE_COMMITTED)
                continue;
            for (uint32_t k = 0; k < b->request.amount_count; k++)
                for (uint32_t r = 0; r < n->place.resource_count; r++)
                    if (n->place.resources[r].kind == b->request.amounts[k].kind)
                        out[r] += b->request.amounts[k].amount;
        }
    }
}
