/* SPDX-License-Identifier: Apache-2.0
 *
 * backfill.c - see backfill.h.
 */
#include "scheduler/policy/backfill.h"

#include <string.h>

struct question {
    const struct policy_node *const *nodes;
    struct policy_node *const       *shadow;
    uint32_t                         node_count;
    const struct policy_release     *releases;
    enum policy_strategy             strategy;
    const struct policy_bundle      *bundles;
    uint32_t                         bundle_count;
    mt_rng                          *rng;
};

/* By halves: they stand in the order of their ids. NULL: it is not there any more. */
static struct policy_node *shadow_of(const struct question *q, uint32_t id)
{
    uint32_t least = 0, most = q->node_count;
    while (least < most) {
        uint32_t half = least + (most - least) / 2;
        if (q->shadow[half]->id < id)
            least = half + 1;
        else
            most = half;
    }
    return least < q->node_count && q->shadow[least]->id == id ? q->shadow[least] : NULL;
}

/* Whether all have room when so many have ended; the shadow is what is left then. */
static bool fits_after(const struct question *q, uint32_t ended)
{
    struct policy_bundle bundles[MT_GROUP_BUNDLES_MAX];
    memcpy(bundles, q->bundles, q->bundle_count * sizeof *bundles);
    for (uint32_t n = 0; n < q->node_count; n++) {
        *q->shadow[n] = *q->nodes[n];
        q->shadow[n]->counts_places = false;
        for (uint32_t i = 0; i < q->shadow[n]->resource_count; i++) /* below 0: promised to what is in the report already */
            if (q->shadow[n]->resources[i].free < 0)
                q->shadow[n]->resources[i].free = 0;
    }
    for (uint32_t i = 0; i < ended; i++) {
        struct policy_node *n = shadow_of(q, q->releases[i].node);
        if (n)
            policy_give(n, q->releases[i].request);
    }
    return policy_place_group(q->shadow, q->node_count, q->strategy, bundles, q->bundle_count, q->rng);
}

/* The more have ended, the more room there is: the fewest that are enough are found by halves. */
bool policy_reserve(const struct policy_node *const *nodes, struct policy_node *const *shadow, uint32_t node_count,
                    const struct policy_release *releases, uint32_t release_count, enum policy_strategy strategy,
                    const struct policy_bundle *bundles, uint32_t bundle_count, mt_rng *rng, struct policy_reservation *out)
{
    const struct question q = {nodes, shadow, node_count, releases, strategy, bundles, bundle_count, rng};
    uint32_t              least = 1, most = release_count;
    MT_ASSERT(bundle_count <= MT_GROUP_BUNDLES_MAX);
    if (release_count == 0 || !fits_after(&q, release_count))
        return false;
    while (least < most) {
        uint32_t half = least + (most - least) / 2;
        if (fits_after(&q, half))
            most = half;
        else
            least = half + 1;
    }
    *out = (struct policy_reservation){.at_ms = releases[most - 1].ends_ms, .waits_for = most};
    return fits_after(&q, most);
}

void policy_spare(const struct policy_node *const *nodes, const struct policy_node *const *shadow, struct policy_node *const *out,
                  uint32_t node_count)
{
    for (uint32_t n = 0; n < node_count; n++) {
        *out[n] = *nodes[n];
        if (shadow[n]->drivers < out[n]->drivers)
            out[n]->drivers = shadow[n]->drivers;
        for (uint32_t i = 0; i < out[n]->resource_count; i++)
            if (shadow[n]->resources[i].free < out[n]->resources[i].free)
                out[n]->resources[i].free = shadow[n]->resources[i].free;
    }
}
