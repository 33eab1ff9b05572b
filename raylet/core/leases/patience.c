/* SPDX-License-Identifier: Apache-2.0
 *
 * patience.c - how long a class that waits counts on a lease that was asked back. Why, and what it learns: docs/design/leases.md,
 * "Room that is kept".
 *
 * Thread: the logic loop only.
 */
#include "raylet/core/leases/patience.h"

#include "core/base/plant.h"

uint64_t rlt_class_patience(const struct rlt_class *c)
{
    uint64_t least = MT_RLT_RESERVE_MS * RLT_MS;
    return c->patience > least ? c->patience : least;
}

static bool wants_of(const struct rlt *r, const struct rlt_class *c, const struct rlt_hold *hold)
{
    bool any = c->def.resource_count == 0;
    for (uint32_t i = 0; i < c->def.resource_count; i++) {
        int at = rlt_ledger_find(&r->ledger, c->def.resources[i].name);
        any |= at >= 0 && hold->amount[at] > 0;
    }
    return any;
}

/* It waited for that longer than it counts on such. Twice as long at least, since the next one may take a little longer. */
static void class_learns(const struct rlt *r, struct rlt_class *c, const struct rlt_lease *l)
{
    uint64_t since = l->recalled_at > c->waiting_since ? l->recalled_at : c->waiting_since;
    uint64_t waited = r->now - since, patience = rlt_class_patience(c);
    if (waited > patience && wants_of(r, c, &l->hold) && !MT_PLANT(MT_PLANT_RESERVE_UNLEARNED))
        c->patience = waited > 2 * patience ? waited : 2 * patience;
}

void rlt_classes_learn(struct rlt *r, const struct rlt_lease *l)
{
    if (l->state < LEASE_RECALLED || !l->recalled_at || l->bundle || l->kind == LEASE_CALLER)
        return;
    RLT_LIST_EACH(&r->waiting, link)
        class_learns(r, mt_container_of(link, struct rlt_class, in_waiting), l);
    class_learns(r, &r->guest, l);
}
