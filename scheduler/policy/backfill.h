/* SPDX-License-Identifier: Apache-2.0
 *
 * backfill.h - EASY backfill (Lifka 1995): the first in the queue that finds no room is promised a time and a place, and others may
 * start before it only where that does not come later for it. Pure, as policy.h.
 */
#ifndef POLICY_BACKFILL_H
#define POLICY_BACKFILL_H

#include "scheduler/policy/policy.h"

#define POLICY_UNKNOWN_MS UINT64_MAX /* nobody knows when: it may be any moment, or never */

struct policy_release { /* something that runs, and will give its amounts back */
    uint32_t                     node;
    uint64_t                     ends_ms; /* at the latest */
    const struct policy_request *request;
};

struct policy_reservation {
    uint64_t at_ms;     /* at the latest; POLICY_UNKNOWN_MS: when something has ended of which nobody knows when */
    uint32_t waits_for; /* so many of the releases, in their order; the last of them decides */
};

/* When the bundles that stand nowhere can be had by what runs now, in the order of `releases` (those first that end first): all of
 * them, by `strategy`. `nodes`, in the order of their ids, is what is free now, `shadow` room for as many: what will be free then,
 * less the bundles. False: not by what ends; then nothing is promised. At most MT_GROUP_BUNDLES_MAX bundles, of which nothing is
 * changed. */
bool policy_reserve(const struct policy_node *const *nodes, struct policy_node *const *shadow, uint32_t node_count,
                    const struct policy_release *releases, uint32_t release_count, enum policy_strategy strategy,
                    const struct policy_bundle *bundles, uint32_t bundle_count, mt_rng *rng, struct policy_reservation *out);

/* Whether what ends at `ends_ms` has gone when the promise is due. */
static inline bool policy_ends_before(const struct policy_reservation *r, uint64_t ends_ms)
{
    return r->at_ms != POLICY_UNKNOWN_MS && ends_ms <= r->at_ms;
}

/* Writes to `out` what something may take now that is still there when the promise is due: what is free both now and then. */
void policy_spare(const struct policy_node *const *nodes, const struct policy_node *const *shadow, struct policy_node *const *out,
                  uint32_t node_count);

#endif
