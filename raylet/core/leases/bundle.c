/* SPDX-License-Identifier: Apache-2.0
 *
 * bundle.c - bundles of placement groups that this node has reserved: each is a pool of its own, out of which leases that name
 * the group are granted.
 *
 * Owns: every struct rlt_bundle. Thread: the logic loop only.
 * Always: what a bundle reserves is taken out of the node's ledger as long as the bundle is here; its pool holds exactly that;
 * the leases of a pool take from it alone, and a pool that was given back has none that goes on.
 *
 *   --PREPARE--> PREPARED --COMMIT--> COMMITTED --RETURN--> RETURNED --its last lease has ended--> gone
 *                   '-----RETURN------------------------------------------------------------------->'
 */
#include "raylet/core/leases/leases.h"
#include "raylet/core/leases/bundles.h"
#include "raylet/core/leases/parts.h"
#include "raylet/core/pool/pool.h"
#include "raylet/core/usage/usage.h"

#include "core/base/machine.h"
#include "core/base/plant.h"

#include <stdlib.h>

static const char *const bundle_names[] = {
    [BUNDLE_PREPARED] = "PREPARED", [BUNDLE_COMMITTED] = "COMMITTED", [BUNDLE_RETURNED] = "RETURNED"};
static const uint32_t bundle_next[] = {
    [BUNDLE_PREPARED] = MT_STATE(BUNDLE_COMMITTED),
    [BUNDLE_COMMITTED] = MT_STATE(BUNDLE_RETURNED),
    [BUNDLE_RETURNED] = 0,
};
static const struct mt_machine bundle_machine = MT_MACHINE("bundle", bundle_names, bundle_next);

void rlt_bundle_set_state(struct rlt_bundle *b, enum rlt_bundle_state next)
{
    MT_TRANSITION(&bundle_machine, b->state, next);
    b->state = next;
}

struct rlt_bundle *rlt_bundle_find(struct rlt *r, mt_id group, uint32_t index)
{
    RLT_LIST_EACH(&r->bundles, link) {
        struct rlt_bundle *b = rlt_bundle_of(link);
        if (mt_id_equal(b->group, group) && b->index == index && b->state != BUNDLE_RETURNED)
            return b;
    }
    return NULL;
}

static void bundle_give(struct rlt *r, struct rlt_bundle *b)
{
    rlt_usage_change(r, b->job, &b->hold, RLT_USAGE_GIVES);
    rlt_usage_over(r, b->job);
    rlt_ledger_give(&r->ledger, &b->hold);
}

void rlt_bundle_free(struct rlt *r, struct rlt_bundle *b)
{
    MT_ASSERT(b->lease_count == 0);
    if (!MT_PLANT(MT_PLANT_BUNDLE_LEAKS) || b->state != BUNDLE_PREPARED)
        bundle_give(r, b);
    rlt_list_out(&b->in_all);
    r->bundle_count--;
    r->bundle_changes++;
    r->is_dirty = true;
    free(b);
}

/* ---- leases ---- */

bool rlt_bundle_is_for(const struct rlt_bundle *b, const struct ctl_class *def)
{
    bool is_open = b->state == BUNDLE_COMMITTED || (MT_PLANT(MT_PLANT_POOL_OF_NOBODY) && b->state == BUNDLE_RETURNED);
    return is_open && mt_id_equal(b->group, def->group) && (def->bundle == 0 || def->bundle == b->index + 1);
}

struct rlt_ledger *rlt_lease_ledger(struct rlt *r, const struct rlt_lease *l)
{
    return l->bundle ? &l->bundle->pool : &r->ledger;
}

/* The job that pays for what it holds; 0: nobody does, or who has reserved the bundle. */
static uint64_t payer_of(const struct rlt_lease *l)
{
    return l->job ? rlt_job_base(l->job)->job : 0;
}

void rlt_lease_lend_cpu(struct rlt *r, struct rlt_lease *l, bool is_lent)
{
    if (!l->bundle)
        rlt_usage_change(r, payer_of(l), &l->hold, RLT_USAGE_GIVES);
    if (is_lent)
        rlt_ledger_lend_cpu(rlt_lease_ledger(r, l), &l->hold);
    else
        rlt_ledger_retake_cpu(rlt_lease_ledger(r, l), &l->hold);
    if (!l->bundle)
        rlt_usage_change(r, payer_of(l), &l->hold, RLT_USAGE_TAKES);
}

bool rlt_class_could_now(const struct rlt *r, const struct ctl_class *def)
{
    if (rlt_pool_places(r) <= 0)
        return false;
    if (!ctl_class_is_grouped(def))
        return rlt_ledger_could_now(&r->ledger, def->resources, def->resource_count, NULL);
    for (struct rlt_list *link = r->bundles.next; link != &r->bundles; link = link->next) {
        const struct rlt_bundle *b = rlt_bundle_of(link);
        if (rlt_bundle_is_for(b, def) && rlt_ledger_could_now(&b->pool, def->resources, def->resource_count, NULL))
            return true;
    }
    return false;
}

bool rlt_lease_take(struct rlt *r, const struct ctl_class *def, struct rlt_lease *l)
{
    l->captures = def->flags & CTL_CLASS_CAPTURE;
    if (!ctl_class_is_grouped(def)) {
        if (!rlt_ledger_take(&r->ledger, def->resources, def->resource_count, &l->hold))
            return false;
        rlt_usage_change(r, payer_of(l), &l->hold, RLT_USAGE_TAKES);
        return true;
    }
    for (struct rlt_list *link = r->bundles.next; link != &r->bundles; link = link->next) {
        struct rlt_bundle *b = rlt_bundle_of(link);
        if (!rlt_bundle_is_for(b, def) || !rlt_ledger_take(&b->pool, def->resources, def->resource_count, &l->hold))
            continue;
        l->bundle = b;
        b->lease_count++;
        r->bundle_changes++;
        return true;
    }
    return false;
}

void rlt_lease_give(struct rlt *r, struct rlt_lease *l)
{
    struct rlt_bundle *b = l->bundle;
    if (!b)
        rlt_usage_change(r, payer_of(l), &l->hold, RLT_USAGE_GIVES);
    rlt_ledger_give(rlt_lease_ledger(r, l), &l->hold);
    if (!b)
        return;
    l->bundle = NULL;
    b->lease_count--;
    r->bundle_changes++;
    if (b->state == BUNDLE_RETURNED && b->lease_count == 0)
        rlt_bundle_free(r, b);
}

/* ---- what the head hears ---- */

void rlt_bundles_report(struct rlt *r, Manta__V1__Report *report)
{
    static const Manta__V1__BundleHeld empty = MANTA__V1__BUNDLE_HELD__INIT;
    report->bundles = rlt_keep(r->out, NULL, (r->bundle_count + 1) * sizeof *report->bundles);
    for (struct rlt_list *link = r->bundles.next; link != &r->bundles; link = link->next) {
        const struct rlt_bundle *b = rlt_bundle_of(link);
        struct ctl_resource      left[MT_RLT_RESOURCES_MAX];
        uint32_t                 count = 0;
        if (b->state == BUNDLE_RETURNED)
            continue;
        for (uint32_t i = 0; i < b->pool.count; i++) {
            if (b->pool.total[i].milli == 0)
                continue;
            left[count] = b->pool.total[i];
            left[count++].milli = b->pool.free[i];
        }
        Manta__V1__BundleHeld *held = rlt_keep(r->out, &empty, sizeof empty);
        held->group_process = b->group.process;
        held->group_counter = b->group.counter_index;
        held->index = b->index;
        held->version = b->version;
        held->committed = b->state == BUNDLE_COMMITTED;
        held->n_free = count;
        held->free = rlt_resources_make(r, left, count);
        report->bundles[report->n_bundles++] = held;
    }
}

/* ---- the end, and what must hold ---- */

void rlt_bundles_fini(struct rlt *r)
{
    RLT_LIST_EACH(&r->bundles, link)
        free(rlt_bundle_of(link));
}

static const char *check_one(const struct rlt *r, const struct rlt_bundle *b)
{
    int64_t  leased[MT_RLT_RESOURCES_MAX] = {0};
    uint32_t count = 0;
    int      cpu = rlt_ledger_find(&r->ledger, "CPU");
    for (struct rlt_list *link = r->all_leases.next; link != &r->all_leases; link = link->next) {
        const struct rlt_lease *l = mt_container_of(link, struct rlt_lease, in_all);
        if (l->bundle != b)
            continue;
        count++;
        if (b->state == BUNDLE_RETURNED && l->state <= LEASE_ACTIVE)
            return "no lease goes on in a pool that was given back";
        for (uint32_t i = 0; i < b->pool.count; i++)
            if (!l->hold.is_cpu_out || (int)i != cpu)
                leased[i] += l->hold.amount[i];
    }
    for (uint32_t i = 0; i < b->pool.count; i++) {
        if (b->pool.total[i].milli != b->hold.amount[i] || b->pool.free[i] + b->pool.leased[i] != b->pool.total[i].milli)
            return "a pool is what its bundle reserves";
        if (leased[i] != b->pool.leased[i])
            return "what the leases of a bundle hold is what its pool has leased";
    }
    return count == b->lease_count ? NULL : "a bundle counts its leases";
}

const char *rlt_bundles_check(const struct rlt *r, int64_t *reserved)
{
    const char *breach = NULL;
    for (struct rlt_list *link = r->bundles.next; link != &r->bundles && !breach; link = link->next) {
        const struct rlt_bundle *b = rlt_bundle_of(link);
        breach = check_one(r, b);
        for (uint32_t i = 0; i < r->ledger.count; i++)
            reserved[i] += b->hold.amount[i];
    }
    return breach;
}
