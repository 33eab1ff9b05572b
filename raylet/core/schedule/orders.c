/* SPDX-License-Identifier: Apache-2.0
 *
 * orders.c - the head's orders about bundles of placement groups: prepare, commit, give back.
 *
 * Owns: nothing of its own. Thread: the logic loop only.
 *
 * Orders name bundles by (group, index, version) and this node's epoch; one that comes twice changes nothing.
 */
#include "raylet/core/leases/leases.h"
#include "raylet/core/leases/bundles.h"
#include "raylet/core/pool/pool.h"
#include "raylet/core/schedule/schedule.h"
#include "raylet/core/usage/usage.h"

#include <stdio.h>
#include <stdlib.h>

enum verb { BUNDLE_PREPARE = 1, BUNDLE_COMMIT = 2, BUNDLE_RETURN = 3 }; /* BundleOrder.verb */

/* A class of the group has waited a slice for what another one has: of those that ran theirs, one is recalled. Returns when
 * there is something to look at again. */
uint64_t rlt_bundle_recall(struct rlt *r, const struct rlt_class *c)
{
    uint64_t next = UINT64_MAX, slice = MT_RLT_SLICE_MS * RLT_MS;
    for (struct rlt_list *link = r->all_leases.next; link != &r->all_leases; link = link->next) {
        struct rlt_lease *l = mt_container_of(link, struct rlt_lease, in_all);
        if (!l->bundle || !rlt_bundle_is_for(l->bundle, &c->def) || l->kind != LEASE_TASK || l->class == c)
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
        rlt_bundle_free(r, b);
        return;
    }
    rlt_bundle_set_state(b, BUNDLE_RETURNED);
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
        rlt_pool_kill(r, worker);
    }
    if (--b->lease_count == 0)
        rlt_bundle_free(r, b);
}

/* False: no room, or what it asks for makes no sense; `text` says which. */
static bool prepare_one(struct rlt *r, mt_id group, uint64_t job, const Manta__V1__Bundle *from, char *text, size_t size)
{
    struct ctl_resource want[CTL_RESOURCES];
    struct rlt_bundle  *b = rlt_bundle_find(r, group, from->index);
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
    if (r->is_stopping || r->drain.is_on || r->bundle_count >= MT_RLT_BUNDLES_MAX ||
        !rlt_ledger_take(&r->ledger, want, count, &hold))
        return false;
    b = rlt_calloc(sizeof *b);
    b->group = group;
    b->index = from->index;
    b->version = from->version;
    b->hold = hold;
    b->job = job;
    rlt_usage_change(r, job, &hold, RLT_USAGE_TAKES);
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
        if (prepare_one(r, group, order->job, order->bundles[i], text, sizeof text))
            continue;
        for (size_t k = 0; k < i; k++) { /* all or none */
            struct rlt_bundle *b = rlt_bundle_find(r, group, order->bundles[k]->index);
            if (b && b->version == order->bundles[k]->version && b->state == BUNDLE_PREPARED)
                rlt_bundle_free(r, b);
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
        struct rlt_bundle *b = rlt_bundle_find(r, group, order->bundles[i]->index);
        has_all &= b && b->version == order->bundles[i]->version;
        if (!b || b->version != order->bundles[i]->version || b->state == BUNDLE_COMMITTED)
            continue;
        rlt_bundle_set_state(b, BUNDLE_COMMITTED);
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
        struct rlt_bundle *b = rlt_bundle_find(r, group, order->bundles[i]->index);
        if (b && b->version == order->bundles[i]->version)
            give_back(r, b, order->removed ? MT_EPG_REMOVED : MT_EWORKER_DIED,
                      order->removed ? order->reason : "its bundle was given back");
    }
}

void rlt_bundles_drop_all(struct rlt *r, const char *why)
{
    RLT_LIST_EACH(&r->bundles, link) {
        if (rlt_bundle_of(link)->state != BUNDLE_RETURNED)
            give_back(r, rlt_bundle_of(link), MT_EWORKER_DIED, why);
    }
}
