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
 *
 * Orders name bundles by (group, index, version) and this node's epoch; one that comes twice changes nothing.
 */
#include "raylet/core/state.h"

#include "core/base/plant.h"

#include <stdio.h>
#include <stdlib.h>

enum verb { BUNDLE_PREPARE = 1, BUNDLE_COMMIT = 2, BUNDLE_RETURN = 3 }; /* BundleOrder.verb */

static struct rlt_bundle *bundle_of(struct rlt_list *link)
{
    return mt_container_of(link, struct rlt_bundle, in_all);
}

static struct rlt_bundle *find(struct rlt *r, mt_id group, uint32_t index)
{
    RLT_LIST_EACH(&r->bundles, link) {
        struct rlt_bundle *b = bundle_of(link);
        if (mt_id_equal(b->group, group) && b->index == index && b->state != BUNDLE_RETURNED)
            return b;
    }
    return NULL;
}

static void bundle_free(struct rlt *r, struct rlt_bundle *b)
{
    MT_ASSERT(b->lease_count == 0);
    if (!MT_PLANT(MT_PLANT_BUNDLE_LEAKS) || b->state != BUNDLE_PREPARED)
        rlt_ledger_give(&r->ledger, &b->hold);
    rlt_list_out(&b->in_all);
    r->bundle_count--;
    r->bundle_changes++;
    r->is_dirty = true;
    free(b);
}

/* ---- leases ---- */

static bool is_for(const struct rlt_bundle *b, const struct ctl_class *def)
{
    bool is_open = b->state == BUNDLE_COMMITTED || (MT_PLANT(MT_PLANT_POOL_OF_NOBODY) && b->state == BUNDLE_RETURNED);
    return is_open && mt_id_equal(b->group, def->group) && (def->bundle == 0 || def->bundle == b->index + 1);
}

struct rlt_ledger *rlt_lease_ledger(struct rlt *r, const struct rlt_lease *l)
{
    return l->bundle ? &l->bundle->pool : &r->ledger;
}

bool rlt_class_could_now(const struct rlt *r, const struct ctl_class *def)
{
    if (rlt_pool_places(r) <= 0)
        return false;
    if (!ctl_class_is_grouped(def))
        return rlt_ledger_could_now(&r->ledger, def->resources, def->resource_count, NULL);
    for (struct rlt_list *link = r->bundles.next; link != &r->bundles; link = link->next) {
        const struct rlt_bundle *b = bundle_of(link);
        if (is_for(b, def) && rlt_ledger_could_now(&b->pool, def->resources, def->resource_count, NULL))
            return true;
    }
    return false;
}

bool rlt_lease_take(struct rlt *r, const struct ctl_class *def, struct rlt_lease *l)
{
    l->captures = def->flags & CTL_CLASS_CAPTURE;
    if (!ctl_class_is_grouped(def))
        return rlt_ledger_take(&r->ledger, def->resources, def->resource_count, &l->hold);
    for (struct rlt_list *link = r->bundles.next; link != &r->bundles; link = link->next) {
        struct rlt_bundle *b = bundle_of(link);
        if (!is_for(b, def) || !rlt_ledger_take(&b->pool, def->resources, def->resource_count, &l->hold))
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
    rlt_ledger_give(rlt_lease_ledger(r, l), &l->hold);
    if (!b)
        return;
    l->bundle = NULL;
    b->lease_count--;
    r->bundle_changes++;
    if (b->state == BUNDLE_RETURNED && b->lease_count == 0)
        bundle_free(r, b);
}

/* A class of the group has waited a slice for what another one has: of those that ran theirs, one is recalled. Returns when
 * there is something to look at again. */
uint64_t rlt_bundle_recall(struct rlt *r, const struct rlt_class *c)
{
    uint64_t next = UINT64_MAX, slice = MT_RLT_SLICE_MS * RLT_MS;
    for (struct rlt_list *link = r->all_leases.next; link != &r->all_leases; link = link->next) {
        struct rlt_lease *l = mt_container_of(link, struct rlt_lease, in_all);
        if (!l->bundle || !is_for(l->bundle, &c->def) || l->kind != LEASE_TASK || l->class == c)
            continue;
        bool     is_coming = l->state >= LEASE_RECALLED;
        uint64_t end = (is_coming ? l->recalled_at : l->granted_at) + slice;
        if (l->state == LEASE_STARTING || (is_coming && end <= r->now))
            continue; /* no worker yet; or it runs something long, and another may have nothing to do */
        if (!is_coming && c->held && !(l->class && l->class->held > c->held + 1))
            continue;
        if (!is_coming && end <= r->now) {
            rlt_lease_recall(r, l, 0);
            return r->now + slice;
        }
        next = end < next ? end : next;
    }
    return next;
}

/* ---- orders of the head ---- */

static void answer(struct rlt *r, const Manta__V1__BundleOrder *order, int32_t code, const char *text)
{
    static const Manta__V1__NodeToHead   empty = MANTA__V1__NODE_TO_HEAD__INIT;
    static const Manta__V1__BundleAnswer none = MANTA__V1__BUNDLE_ANSWER__INIT;
    static const Manta__V1__Bundle       no_bundle = MANTA__V1__BUNDLE__INIT;
    Manta__V1__NodeToHead               *m = rlt_keep(r->out, &empty, sizeof empty);
    Manta__V1__BundleAnswer             *a = rlt_keep(r->out, &none, sizeof none);
    a->group_process = order->group_process;
    a->group_counter = order->group_counter;
    a->verb = order->verb;
    a->epoch = order->epoch;
    a->code = code;
    a->text = rlt_keep(r->out, text, strlen(text) + 1);
    a->bundles = rlt_keep(r->out, NULL, (order->n_bundles + 1) * sizeof *a->bundles);
    for (size_t i = 0; i < order->n_bundles; i++) {
        Manta__V1__Bundle *b = rlt_keep(r->out, &no_bundle, sizeof no_bundle);
        b->index = order->bundles[i]->index;
        b->version = order->bundles[i]->version;
        a->bundles[a->n_bundles++] = b;
    }
    m->kind_case = MANTA__V1__NODE_TO_HEAD__KIND_BUNDLE;
    m->bundle = a;
    rlt_head_send(r, m);
}

/* Those who use it end; what it reserves goes back when they have. */
static void give_back(struct rlt *r, struct rlt_bundle *b, int32_t code, const char *why)
{
    if (b->state == BUNDLE_PREPARED || b->lease_count == 0) {
        bundle_free(r, b);
        return;
    }
    b->state = BUNDLE_RETURNED;
    b->lease_count++; /* stays while we look */
    RLT_LIST_EACH(&r->all_leases, link) {
        struct rlt_lease *l = mt_container_of(link, struct rlt_lease, in_all);
        if (l->bundle != b)
            continue;
        struct rlt_proc *worker = l->worker;
        rlt_lease_recall(r, l, 0); /* one that has no worker yet is gone now */
        if (!worker)
            continue;
        if (!worker->stopped && (worker->stopped = strdup(why)))
            worker->stopped_code = code;
        rlt_act(r->out, RLT_A_KILL)->conn = worker->conn;
    }
    if (--b->lease_count == 0)
        bundle_free(r, b);
}

/* False: no room, or what it asks for makes no sense; `text` says which. */
static bool prepare_one(struct rlt *r, mt_id group, const Manta__V1__Bundle *from, char *text, size_t size)
{
    struct ctl_resource want[CTL_RESOURCES];
    struct rlt_bundle  *b = find(r, group, from->index);
    struct rlt_hold     hold;
    uint32_t            count = 0;
    if (b && b->version == from->version)
        return true; /* said twice */
    if (b)
        give_back(r, b, MT_EWORKER_DIED, "its bundle was placed anew");
    memset(want, 0, sizeof want);
    for (; count < from->n_resources && count < CTL_RESOURCES; count++) {
        snprintf(want[count].name, sizeof want[count].name, "%s", from->resources[count]->name);
        want[count].milli = from->resources[count]->milli;
    }
    if (from->n_resources > CTL_RESOURCES || rlt_request_check(want, count, text, size).code)
        return false;
    snprintf(text, size, "no room on node %u", r->node);
    if (r->is_stopping || r->bundle_count >= MT_RLT_BUNDLES_MAX || !rlt_ledger_take(&r->ledger, want, count, &hold))
        return false;
    b = rlt_calloc(sizeof *b);
    b->group = group;
    b->index = from->index;
    b->version = from->version;
    b->state = BUNDLE_PREPARED;
    b->hold = hold;
    rlt_ledger_pool(&b->pool, &r->ledger, &b->hold);
    rlt_list_init(&b->in_all);
    rlt_list_append(&r->bundles, &b->in_all);
    r->bundle_count++;
    r->bundle_changes++;
    return true;
}

static void prepare(struct rlt *r, mt_id group, const Manta__V1__BundleOrder *order)
{
    char text[CTL_TEXT_SIZE] = "";
    rlt_timer_clear(r, &r->guest_over); /* the room may have been made for this */
    for (size_t i = 0; i < order->n_bundles; i++) {
        if (prepare_one(r, group, order->bundles[i], text, sizeof text))
            continue;
        for (size_t k = 0; k < i; k++) { /* all or none */
            struct rlt_bundle *b = find(r, group, order->bundles[k]->index);
            if (b && b->version == order->bundles[k]->version && b->state == BUNDLE_PREPARED)
                bundle_free(r, b);
        }
        answer(r, order, MT_EAGAIN, text);
        return;
    }
    answer(r, order, MT_OK, "");
}

static void commit(struct rlt *r, mt_id group, const Manta__V1__BundleOrder *order)
{
    bool has_all = true;
    for (size_t i = 0; i < order->n_bundles; i++) {
        struct rlt_bundle *b = find(r, group, order->bundles[i]->index);
        has_all &= b && b->version == order->bundles[i]->version;
        if (!b || b->version != order->bundles[i]->version || b->state == BUNDLE_COMMITTED)
            continue;
        b->state = BUNDLE_COMMITTED;
        r->bundle_changes++;
        r->is_dirty = true; /* classes may wait for it */
    }
    answer(r, order, has_all ? MT_OK : MT_ENOENT, has_all ? "" : "a bundle is not here");
}

void rlt_bundle_order(struct rlt *r, const Manta__V1__BundleOrder *order)
{
    mt_id group = {order->group_process, order->group_counter};
    if (order->epoch != r->epoch)
        return; /* for one who was this node before */
    if (order->verb == BUNDLE_PREPARE)
        prepare(r, group, order);
    else if (order->verb == BUNDLE_COMMIT)
        commit(r, group, order);
    for (size_t i = 0; i < order->n_bundles && order->verb == BUNDLE_RETURN; i++) {
        struct rlt_bundle *b = find(r, group, order->bundles[i]->index);
        if (b && b->version == order->bundles[i]->version)
            give_back(r, b, order->removed ? MT_EPG_REMOVED : MT_EWORKER_DIED,
                      order->removed ? order->reason : "its bundle was given back");
    }
}

void rlt_bundles_drop_all(struct rlt *r, const char *why)
{
    RLT_LIST_EACH(&r->bundles, link) {
        if (bundle_of(link)->state != BUNDLE_RETURNED)
            give_back(r, bundle_of(link), MT_EWORKER_DIED, why);
    }
}

/* ---- what the head hears ---- */

void rlt_bundles_report(struct rlt *r, Manta__V1__Report *report)
{
    static const Manta__V1__BundleHeld empty = MANTA__V1__BUNDLE_HELD__INIT;
    report->bundles = rlt_keep(r->out, NULL, (r->bundle_count + 1) * sizeof *report->bundles);
    for (struct rlt_list *link = r->bundles.next; link != &r->bundles; link = link->next) {
        const struct rlt_bundle *b = bundle_of(link);
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

uint32_t rlt_bundles_each(const struct rlt *r, struct rlt_bundle_view *out, uint32_t room)
{
    uint32_t count = 0;
    for (struct rlt_list *link = r->bundles.next; link != &r->bundles; link = link->next) {
        const struct rlt_bundle *b = bundle_of(link);
        if (count < room)
            out[count] = (struct rlt_bundle_view){b->group, b->index, b->version, b->state == BUNDLE_COMMITTED, b->lease_count};
        count++;
    }
    return count;
}

/* ---- the end, and what must hold ---- */

void rlt_bundles_fini(struct rlt *r)
{
    RLT_LIST_EACH(&r->bundles, link)
        free(bundle_of(link));
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
        const struct rlt_bundle *b = bundle_of(link);
        breach = check_one(r, b);
        for (uint32_t i = 0; i < r->ledger.count; i++)
            reserved[i] += b->hold.amount[i];
    }
    return breach;
}
