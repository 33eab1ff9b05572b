/* SPDX-License-Identifier: Apache-2.0
 *
 * bundles.c - where the bundles of placement groups go: all that a group lacks at a time, in two phases.
 *
 * Owns:    the state of each bundle.
 * Always:  a bundle that is not NONE has a node, an epoch of it, and a version that no other placement ever had; COMMITTED is
 *          stored before any node hears of it; a group has bundles in PREPARING or PREPARED only while none is NONE.
 *
 *   NONE --policy--> PREPARING --node: yes--> PREPARED --all of the group--> COMMITTED
 *    ^                   |                       |                              |
 *    '--one refuses, or a node is lost: the others are returned-- node is lost -'
 *
 * The decision is the batch that holds COMMITTED: a head that is restarted before it asks again, one after it tells again. What
 * a node holds and the head does not have under the same version is never wanted again: its next report is answered
 * with a return. So no answer has to arrive, and nothing stays reserved for nobody.
 */
#include "scheduler/head/core/internal.h"

enum verb { BUNDLE_PREPARE = 1, BUNDLE_COMMIT = 2, BUNDLE_RETURN = 3 };

bool bundles_are_placed(const struct group *g)
{
    for (uint32_t i = 0; i < g->bundle_count; i++)
        if (g->bundles[i].state != BUNDLE_COMMITTED)
            return false;
    return true;
}

static bool has_state(const struct group *g, enum bundle_state state)
{
    for (uint32_t i = 0; i < g->bundle_count; i++)
        if (g->bundles[i].state == state)
            return true;
    return false;
}

void bundles_open(struct head *h, struct group *g)
{
    h->groups_due_ms = h->now_ms;
    if (g->is_open)
        return;
    g->since_ms = h->now_ms;
    g->is_open = true;
    HEAD_TRY(h, mt_vec_push(&h->open_groups, g));
}

/* ---- orders ---- */

static void order_send(struct head *h, const struct node *n, const Manta__V1__BundleOrder *order)
{
    to_node message = MANTA__V1__HEAD_TO_NODE__INIT;
    message.kind_case = MANTA__V1__HEAD_TO_NODE__KIND_BUNDLE;
    message.bundle = (Manta__V1__BundleOrder *)(uintptr_t)order;
    out_send(h, nodes_stream(h, n), &message, true);
}

static void order_begin(const struct node *n, mt_id group, enum verb verb, Manta__V1__BundleOrder *out)
{
    *out = (Manta__V1__BundleOrder)MANTA__V1__BUNDLE_ORDER__INIT;
    out->group_process = group.process;
    out->group_counter = group.counter_index;
    out->verb = verb;
    out->epoch = n->epoch;
}

/* About all bundles of the group on that node that are in this state. */
static void order(struct head *h, struct group *g, uint32_t number, enum bundle_state state, enum verb verb, const char *removed)
{
    struct node           *n = nodes_find(h, number);
    Manta__V1__BundleOrder o;
    Manta__V1__Bundle      bundles[MT_GROUP_BUNDLES_MAX], *named[MT_GROUP_BUNDLES_MAX];
    resource               items[MT_GROUP_RESOURCES_MAX], *pointers[MT_GROUP_RESOURCES_MAX];
    if (!n || n->stream == 0)
        return; /* its next registration or report brings it up again */
    order_begin(n, g->id, verb, &o);
    records_fill_bundles(h, g, bundles, items, pointers);
    o.bundles = named;
    for (uint32_t i = 0; i < g->bundle_count; i++) {
        struct bundle *b = &g->bundles[i];
        if (b->node != number || b->epoch != n->epoch || b->state != state)
            continue;
        b->sent_ms = h->now_ms;
        bundles[i].n_resources = verb == BUNDLE_PREPARE ? bundles[i].n_resources : 0;
        named[o.n_bundles++] = &bundles[i];
    }
    o.removed = removed != NULL;
    o.reason = removed ? (char *)(uintptr_t)removed : o.reason;
    if (o.n_bundles > 0)
        order_send(h, n, &o);
}

/* A commit is for those that do not know of it. */
static bool is_meant(const struct bundle *b, enum bundle_state state, enum verb verb)
{
    return b->state == state && (verb != BUNDLE_COMMIT || !b->is_told);
}

/* The same on every node, each once. */
static void order_all(struct head *h, struct group *g, enum bundle_state state, enum verb verb, const char *removed)
{
    for (uint32_t i = 0; i < g->bundle_count; i++) {
        bool is_first = is_meant(&g->bundles[i], state, verb);
        for (uint32_t k = 0; k < i && is_first; k++)
            is_first = !is_meant(&g->bundles[k], state, verb) || g->bundles[k].node != g->bundles[i].node;
        if (is_first)
            order(h, g, g->bundles[i].node, state, verb, removed);
    }
}

static void return_stale(struct head *h, const struct node *n, const Manta__V1__BundleHeld *held, bool is_removed)
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

/* ---- the states ---- */

static void to_nowhere(struct bundle *b)
{
    b->state = BUNDLE_NONE;
    b->node = b->epoch = 0;
    b->is_told = false;
}

/* What is not decided is given up: those that said yes give the room back. */
static void abandon(struct head *h, struct group *g)
{
    order_all(h, g, BUNDLE_PREPARING, BUNDLE_RETURN, NULL);
    order_all(h, g, BUNDLE_PREPARED, BUNDLE_RETURN, NULL);
    for (uint32_t i = 0; i < g->bundle_count; i++)
        if (g->bundles[i].state == BUNDLE_PREPARING || g->bundles[i].state == BUNDLE_PREPARED)
            to_nowhere(&g->bundles[i]);
    g->again_ms = g->back_ms = h->now_ms + MT_HEAD_GROUP_AGAIN_MS;
    records_put_group(h, g);
    bundles_open(h, g);
}

/* All nodes have said yes: decided. */
static void advance(struct head *h, struct group *g)
{
    if (has_state(g, BUNDLE_NONE) || has_state(g, BUNDLE_PREPARING) || !has_state(g, BUNDLE_PREPARED))
        return;
    for (uint32_t i = 0; i < g->bundle_count; i++) {
        struct bundle *b = &g->bundles[i];
        if (b->state != BUNDLE_PREPARED)
            continue;
        b->state = BUNDLE_COMMITTED;
        b->is_told = false;
        b->placed_ms = 0;
        for (uint32_t k = 0; k < b->request.amount_count; k++)
            b->free[k] = b->request.amounts[k].amount;
    }
    h->count.group_placed++;
    records_put_group(h, g);
    order_all(h, g, BUNDLE_COMMITTED, BUNDLE_COMMIT, NULL);
    groups_answer_waits(h, g, MT_OK, "");
    bundles_open(h, g);
}

void bundles_lose(struct head *h, struct group *g, uint32_t node)
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

void bundles_return_all(struct head *h, struct group *g, const char *why)
{
    order_all(h, g, BUNDLE_PREPARING, BUNDLE_RETURN, why);
    order_all(h, g, BUNDLE_PREPARED, BUNDLE_RETURN, why);
    order_all(h, g, BUNDLE_COMMITTED, BUNDLE_RETURN, why);
}

/* ---- what the nodes say ---- */

static struct bundle *bundle_of(struct group *g, const struct node *n, uint32_t index, uint64_t version)
{
    struct bundle *b = g && index < g->bundle_count ? &g->bundles[index] : NULL;
    return b && b->state != BUNDLE_NONE && b->version == version && b->node == n->place.id && b->epoch == n->epoch ? b : NULL;
}

void bundles_answer(struct head *h, struct node *n, const Manta__V1__BundleAnswer *answer)
{
    struct group *g = groups_find(h, (mt_id){answer->group_process, answer->group_counter});
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
                b->state = BUNDLE_PREPARED;
                nodes_taken(h, n, &b->request);
            }
        } else if (answer->verb == BUNDLE_COMMIT && b->state == BUNDLE_COMMITTED) {
            b->is_told |= answer->code == MT_OK;
        }
    }
    if (is_refused) {
        h->count.group_refused++;
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

void bundles_report(struct head *h, const struct node *n, const Manta__V1__Report *report)
{
    for (size_t i = 0; i < report->n_bundles; i++) {
        const Manta__V1__BundleHeld *held = report->bundles[i];
        struct group                *g = groups_find(h, (mt_id){held->group_process, held->group_counter});
        struct bundle               *b = bundle_of(g, n, held->index, held->version);
        if (!b) {
            return_stale(h, n, held, g == NULL);
        } else if (b->state == BUNDLE_PREPARING) {
            b->state = BUNDLE_PREPARED; /* its answer was lost */
            advance(h, g);
        } else if (b->state == BUNDLE_COMMITTED) {
            b->is_told |= held->committed;
            take_free(h, b, held);
        }
    }
}

/* Of one that has committed and not said so, or was asked and has not answered. */
static void say_again(struct head *h, struct group *g, uint64_t age_ms)
{
    for (uint32_t i = 0; i < g->bundle_count; i++) {
        const struct bundle *b = &g->bundles[i];
        if (h->now_ms - b->sent_ms < age_ms)
            continue;
        if (b->state == BUNDLE_PREPARING)
            order(h, g, b->node, BUNDLE_PREPARING, BUNDLE_PREPARE, NULL);
        else if (b->state == BUNDLE_COMMITTED && !b->is_told)
            order(h, g, b->node, BUNDLE_COMMITTED, BUNDLE_COMMIT, NULL);
    }
}

void bundles_node_registered(struct head *h, const struct node *n)
{
    for (size_t i = 0; i < h->open_groups.count; i++) {
        struct group *g = h->open_groups.data[i];
        order(h, g, n->place.id, BUNDLE_PREPARING, BUNDLE_PREPARE, NULL);
        order(h, g, n->place.id, BUNDLE_COMMITTED, BUNDLE_COMMIT, NULL);
    }
}

/* ---- placing ---- */

static void describe_hopeless(struct head *h, struct group *g, struct policy_node **living, uint32_t count)
{
    const char *const    *names = (const char *const *)h->kinds.data;
    struct policy_bundle  bundles[MT_GROUP_BUNDLES_MAX];
    struct policy_request sum;
    uint32_t              which = 0;
    char                  text[HEAD_TEXT_SIZE];
    g->why[0] = '\0';
    if (wants_in_grace(h))
        return;
    for (uint32_t i = 0; i < g->bundle_count; i++)
        bundles[i] = (struct policy_bundle){&g->bundles[i].request, 0};
    switch (policy_group_is_hopeless(living, count, g->strategy, bundles, g->bundle_count, &which, &sum)) {
    case POLICY_COULD: break;
    case POLICY_BUNDLE_FITS_NOWHERE:
        policy_explain((const struct policy_node *const *)living, count, bundles[which].request, names, text, sizeof text);
        snprintf(g->why, sizeof g->why, "bundle %u of %u: %.400s", which + 1, g->bundle_count, text);
        break;
    case POLICY_SUM_FITS_NOWHERE:
        policy_explain((const struct policy_node *const *)living, count, &sum, names, text, sizeof text);
        snprintf(g->why, sizeof g->why, "STRICT_PACK puts its %u bundles on one node: %.400s", g->bundle_count, text);
        break;
    case POLICY_TOO_FEW_NODES:
        snprintf(g->why, sizeof g->why,
                 "STRICT_SPREAD puts each of its %u bundles on a node of its own, and nodes can be had for "
                 "%u of them: add nodes, or use SPREAD",
                 g->bundle_count, which);
        break;
    case POLICY_CLUSTER_TOO_SMALL:
        snprintf(g->why, sizeof g->why, "its %u bundles together are more than all nodes have", g->bundle_count);
        break;
    }
    if (g->why[0])
        groups_answer_waits(h, g, MT_EUNSCHEDULABLE, g->why);
}

/* What one node is to make room for: all that is lacking where that could be on one node, else one bundle in its turn. */
static const struct policy_request *lacking(struct group *g, struct policy_node **living, uint32_t count,
                                            struct policy_request *sum)
{
    struct policy_bundle bundles[MT_GROUP_BUNDLES_MAX];
    uint32_t             missing = 0, which;
    for (uint32_t i = 0; i < g->bundle_count; i++)
        if (g->bundles[i].state == BUNDLE_NONE)
            bundles[missing++] = (struct policy_bundle){&g->bundles[i].request, 0};
    if (g->strategy != POLICY_GROUP_STRICT_SPREAD &&
        policy_group_is_hopeless(living, count, POLICY_GROUP_STRICT_PACK, bundles, missing, &which, sum) == POLICY_COULD)
        return sum;
    return bundles[g->presses % missing].request;
}

/* It has waited: nodes that are busy with others are asked in turn to make room, as for a class of leases. */
static void press(struct head *h, struct group *g, struct policy_node **living, uint32_t count)
{
    struct policy_request sum;
    if (g->why[0] || h->now_ms - g->since_ms < MT_HEAD_PRESS_MS || h->now_ms - g->pressed_ms < MT_HEAD_PRESS_MS)
        return;
    const struct policy_request *request = lacking(g, living, count, &sum);
    for (uint32_t i = 0; i < count; i++) {
        const struct policy_node *p = living[(g->presses + i) % count];
        if (p->state != POLICY_ALIVE || !policy_fits_total(p, request) || policy_fits_free(p, request))
            continue;
        g->pressed_ms = h->now_ms;
        g->presses += i + 1;
        h->count.group_pressed++;
        wants_press(h, nodes_find(h, p->id), request);
        return;
    }
}

static void place(struct head *h, struct group *g, struct policy_node **living, uint32_t count)
{
    struct policy_bundle bundles[MT_GROUP_BUNDLES_MAX];
    for (uint32_t i = 0; i < g->bundle_count; i++)
        bundles[i] = (struct policy_bundle){&g->bundles[i].request, g->bundles[i].node};
    if (!policy_place_group(living, count, g->strategy, bundles, g->bundle_count, &h->rng)) {
        g->again_ms = h->now_ms + MT_HEAD_GROUP_AGAIN_MS;
        describe_hopeless(h, g, living, count);
        press(h, g, living, count);
        return;
    }
    g->why[0] = '\0';
    g->version++;
    for (uint32_t i = 0; i < g->bundle_count; i++) {
        struct bundle *b = &g->bundles[i];
        struct node   *n = b->state == BUNDLE_NONE ? nodes_find(h, bundles[i].node) : NULL;
        if (!n)
            continue;
        b->state = BUNDLE_PREPARING;
        b->node = n->place.id;
        b->epoch = n->epoch;
        b->version = g->version;
        nodes_promise(h, n, &b->request, 1);
    }
    records_put_group(h, g);
    order_all(h, g, BUNDLE_PREPARING, BUNDLE_PREPARE, NULL);
}

/* Those whose time is over are told so. Returns when the next one's is. */
static uint64_t waits_tick(struct head *h, struct group *g)
{
    uint64_t next = UINT64_MAX;
    for (size_t i = 0; i < g->waits.count; i++)
        if (g->waits.data[i].due_ms < next)
            next = g->waits.data[i].due_ms;
    if (next <= h->now_ms)
        groups_answer_waits(h, g, MT_ETIMEDOUT, "");
    return next;
}

static bool is_finished(const struct group *g)
{
    for (uint32_t i = 0; i < g->bundle_count; i++)
        if (g->bundles[i].state != BUNDLE_COMMITTED || !g->bundles[i].is_told)
            return false;
    return g->waits.count == 0;
}

/* What comes free is shown to groups before wants see it (core.c): a node that keeps room for a group gives none to others,
 * and a lease that was promised there would keep the group away in turn. Both would stand still. */
static bool may_try(const struct head *h, const struct group *g)
{
    return h->now_ms >= g->back_ms && (h->now_ms >= g->again_ms || h->is_capacity_changed);
}

void bundles_round(struct head *h)
{
    struct policy_node **living = NULL;
    uint32_t             count = 0;
    size_t               kept = 0;
    uint64_t             due = h->now_ms + MT_HEAD_TICK_MS;
    if (h->open_groups.count == 0 || (h->now_ms < h->groups_due_ms && !h->is_capacity_changed))
        return;
    HEAD_TRY(h, nodes_living(h, &living, &count));
    for (size_t i = 0; i < h->open_groups.count && living; i++) {
        struct group *g = h->open_groups.data[i];
        if (has_state(g, BUNDLE_NONE) && may_try(h, g))
            place(h, g, living, count);
        say_again(h, g, MT_HEAD_GROUP_RESEND_MS);
        uint64_t waits = waits_tick(h, g);
        due = waits < due ? waits : due;
        if (has_state(g, BUNDLE_NONE) && g->again_ms < due)
            due = g->again_ms;
        g->is_open = !is_finished(g);
        if (g->is_open)
            h->open_groups.data[kept++] = g;
    }
    h->open_groups.count = living ? kept : h->open_groups.count;
    h->groups_due_ms = due > h->now_ms ? due : h->now_ms + 1;
    free(living);
}

/* ---- leases in the pool of a group ---- */

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
    groups_name(g, name, sizeof name);
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
    if (bundles_are_placed(g) || !g->why[0])
        return MT_OK;
    snprintf(text, text_size, "placement group %.100s can't be placed: %.360s", name, g->why);
    return MT_EUNSCHEDULABLE;
}

uint32_t bundles_place(struct head *h, const struct want *w, uint32_t wanted, uint32_t *out_nodes, int32_t *out_code, char *text,
                       size_t text_size)
{
    struct group *g = groups_find(h, w->group);
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
            while (placed < wanted && could_hold(b, &w->request, b->free)) {
                take_from(h, b, &w->request);
                out_nodes[placed++] = b->node;
            }
        }
    }
    return placed;
}

void bundles_reserved(const struct head *h, const struct node *n, int64_t out[POLICY_RESOURCES_MAX])
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
