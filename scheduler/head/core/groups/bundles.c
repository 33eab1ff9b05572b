/* SPDX-License-Identifier: Apache-2.0
 *
 * bundles.c - the two phases: what follows when nodes answer, or are lost.
 *
 * Always:  a bundle that is not NONE has a node, an epoch of it, and a version that no other placement ever had; COMMITTED is
 *          stored before any node hears of it; a group has bundles in PREPARING or PREPARED only while none is NONE.
 *
 * The decision is the batch that holds COMMITTED: a head that is restarted before it asks again, one after it tells again. What
 * a node holds and the head does not have under the same version is never wanted again: its next report is answered
 * with a return. So no answer has to arrive, and nothing stays reserved for nobody.
 */

#include "scheduler/head/core/groups/internal.h"
#include "scheduler/head/core/nodes/nodes.h"

static void to_nowhere(struct bundle *b)
{
    b->node = b->epoch = 0;
    b->is_told = false;
    head_bundles_set_state(b, BUNDLE_NONE);
}

/* What is not decided is given up: those that said yes give the room back. */
static void abandon(struct head *h, struct group *g)
{
    head_bundles_order_all(h, g, BUNDLE_PREPARING, BUNDLE_RETURN, NULL);
    head_bundles_order_all(h, g, BUNDLE_PREPARED, BUNDLE_RETURN, NULL);
    for (uint32_t i = 0; i < g->bundle_count; i++)
        if (g->bundles[i].state == BUNDLE_PREPARING || g->bundles[i].state == BUNDLE_PREPARED)
            to_nowhere(&g->bundles[i]);
    g->again_ms = g->back_ms = h->now_ms + MT_HEAD_GROUP_AGAIN_MS;
    head_groups_store(h, g);
    head_bundles_open(h, g);
}

/* All nodes have said yes: decided. */
static void advance(struct head *h, struct group *g)
{
    if (head_bundles_have(g, BUNDLE_NONE) || head_bundles_have(g, BUNDLE_PREPARING) || !head_bundles_have(g, BUNDLE_PREPARED))
        return;
    for (uint32_t i = 0; i < g->bundle_count; i++) {
        struct bundle *b = &g->bundles[i];
        if (b->state != BUNDLE_PREPARED)
            continue;
        head_bundles_set_state(b, BUNDLE_COMMITTED);
        b->is_told = false;
        b->placed_ms = 0;
        for (uint32_t k = 0; k < b->request.amount_count; k++)
            b->free[k] = b->request.amounts[k].amount;
    }
    h->count.group_placed++;
    g->refusals = 0;
    h->is_capacity_changed = true; /* for those who want leases in it */
    head_groups_store(h, g);
    head_bundles_order_all(h, g, BUNDLE_COMMITTED, BUNDLE_COMMIT, NULL);
    head_groups_answer_waits(h, g, MT_OK, "");
    head_bundles_open(h, g);
}

void head_bundles_lose(struct head *h, struct group *g, uint32_t node)
{
    bool any = false;
    for (uint32_t i = 0; i < g->bundle_count; i++) {
        if (g->bundles[i].node != node || g->bundles[i].state == BUNDLE_NONE)
            continue;
        to_nowhere(&g->bundles[i]);
        any = true;
    }
    if (!any)
        return;
    h->count.group_lost++;
    abandon(h, g); /* stores it, too */
    g->again_ms = g->back_ms = h->now_ms;
}

void head_bundles_drain(struct head *h, uint32_t node)
{
    for (struct head_index_node *at = h->groups.first; at; at = at->next) {
        struct group *g = mt_container_of(at, struct group, at);
        bool          is_under_way = false;
        for (uint32_t i = 0; i < g->bundle_count; i++)
            is_under_way |= g->bundles[i].node == node && g->bundles[i].state != BUNDLE_COMMITTED;
        if (is_under_way)
            abandon(h, g);
    }
}

void head_bundles_return_all(struct head *h, struct group *g, const char *why)
{
    head_bundles_order_all(h, g, BUNDLE_PREPARING, BUNDLE_RETURN, why);
    head_bundles_order_all(h, g, BUNDLE_PREPARED, BUNDLE_RETURN, why);
    head_bundles_order_all(h, g, BUNDLE_COMMITTED, BUNDLE_RETURN, why);
}

/* ---- what the nodes say ---- */

static struct bundle *bundle_of(struct group *g, const struct node *n, uint32_t index, uint64_t version)
{
    struct bundle *b = g && index < g->bundle_count ? &g->bundles[index] : NULL;
    return b && b->state != BUNDLE_NONE && b->version == version && b->node == n->place.id && b->epoch == n->epoch ? b : NULL;
}

void head_bundles_answer(struct head *h, struct node *n, const Manta__V1__BundleAnswer *answer)
{
    struct group *g = head_groups_find(h, (mt_id){answer->group_process, answer->group_counter});
    bool          is_refused = false;
    if (!g || answer->epoch != n->epoch)
        return;
    for (size_t i = 0; i < answer->n_bundles; i++) {
        struct bundle *b = bundle_of(g, n, answer->bundles[i]->index, answer->bundles[i]->version);
        if (!b)
            continue;
        if (answer->verb == BUNDLE_PREPARE && b->state == BUNDLE_PREPARING) {
            is_refused |= answer->code != MT_OK;
            if (answer->code == MT_OK) {
                head_bundles_set_state(b, BUNDLE_PREPARED);
                head_nodes_taken(h, n, &b->request);
            }
        } else if (answer->verb == BUNDLE_COMMIT && b->state == BUNDLE_COMMITTED) {
            b->is_told |= answer->code == MT_OK;
        }
    }
    if (is_refused) {
        h->count.group_refused++;
        g->refusals++;
        abandon(h, g);
    } else {
        advance(h, g);
    }
}

static void take_free(struct head *h, struct bundle *b, const Manta__V1__BundleHeld *held)
{
    if (h->now_ms - b->placed_ms < MT_HEAD_PROMISE_MS)
        return; /* it may not contain what was placed since */
    for (size_t i = 0; i < held->n_free; i++)
        for (uint32_t k = 0; k < b->request.amount_count; k++)
            if (strcmp(h->kinds.data[b->request.amounts[k].kind], held->free[i]->name) == 0)
                b->free[k] = held->free[i]->milli;
}

void head_bundles_report(struct head *h, const struct node *n, const Manta__V1__Report *report)
{
    for (size_t i = 0; i < report->n_bundles; i++) {
        const Manta__V1__BundleHeld *held = report->bundles[i];
        struct group                *g = head_groups_find(h, (mt_id){held->group_process, held->group_counter});
        struct bundle               *b = bundle_of(g, n, held->index, held->version);
        if (!b) {
            head_bundles_return_stale(h, n, held, g == NULL);
        } else if (b->state == BUNDLE_PREPARING) {
            head_bundles_set_state(b, BUNDLE_PREPARED); /* its answer was lost */
            advance(h, g);
        } else if (b->state == BUNDLE_COMMITTED) {
            b->is_told |= held->committed;
            take_free(h, b, held);
        }
    }
}

static bool is_held(const struct group *g, const Manta__V1__Report *report)
{
    for (size_t i = 0; i < report->n_bundles; i++)
        if (report->bundles[i]->group_process == g->id.process && report->bundles[i]->group_counter == g->id.counter_index)
            return true;
    return false;
}

void head_bundles_drained(struct head *h, const struct node *n, const Manta__V1__Report *report)
{
    for (struct head_index_node *at = h->groups.first; at; at = at->next) {
        struct group *g = mt_container_of(at, struct group, at);
        bool          stands_here = false;
        for (uint32_t i = 0; i < g->bundle_count; i++)
            stands_here |= g->bundles[i].node == n->place.id && g->bundles[i].epoch == n->epoch &&
                           g->bundles[i].state == BUNDLE_COMMITTED;
        if (stands_here && !is_held(g, report))
            head_bundles_lose(h, g, n->place.id);
    }
}

void head_bundles_node_registered(struct head *h, const struct node *n)
{
    for (size_t i = 0; i < h->open_groups.count; i++) {
        struct group *g = h->open_groups.data[i];
        head_bundles_order(h, g, n->place.id, BUNDLE_PREPARING, BUNDLE_PREPARE, NULL);
        head_bundles_order(h, g, n->place.id, BUNDLE_COMMITTED, BUNDLE_COMMIT, NULL);
    }
}
