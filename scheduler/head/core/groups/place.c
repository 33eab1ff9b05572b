/* SPDX-License-Identifier: Apache-2.0
 *
 * place.c - rounds over the groups that are not finished: places what they lack, all of it at a time, and says why not.
 */

#include "scheduler/head/core/groups/internal.h"
#include "scheduler/head/core/nodes/nodes.h"

static void describe_hopeless(struct head *h, struct group *g, struct policy_node **living, uint32_t count)
{
    const char *const    *names = (const char *const *)h->kinds.data;
    struct policy_bundle  bundles[MT_GROUP_BUNDLES_MAX];
    struct policy_request sum;
    uint32_t              which = 0;
    char                  text[HEAD_TEXT_SIZE];
    g->why[0] = '\0';
    if (head_in_grace(h) || !policy_any_may_come((const struct policy_node *const *)living, count))
        return;             /* while all nodes leave nobody knows what the next one will have */
    bool could_come = true; /* all of its bundles, on nodes that could be started */
    for (uint32_t i = 0; i < g->bundle_count; i++) {
        bundles[i] = (struct policy_bundle){&g->bundles[i].request, 0};
        could_come = could_come && head_nodes_could_come(h, &g->bundles[i].request);
    }
    if (could_come)
        return;
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
        head_groups_answer_waits(h, g, MT_EUNSCHEDULABLE, g->why);
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
        head_nodes_press(h, head_nodes_find(h, p->id), request, g->refusals);
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
        struct node   *n = b->state == BUNDLE_NONE ? head_nodes_find(h, bundles[i].node) : NULL;
        if (!n)
            continue;
        b->node = n->place.id;
        b->epoch = n->epoch;
        b->version = g->version;
        head_bundles_set_state(b, BUNDLE_PREPARING);
        head_nodes_promise(h, n, &b->request, 1);
    }
    head_groups_store(h, g);
    head_bundles_order_all(h, g, BUNDLE_PREPARING, BUNDLE_PREPARE, NULL);
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

void head_bundles_round(struct head *h)
{
    struct policy_node **living = NULL;
    uint32_t             count = 0;
    size_t               kept = 0;
    uint64_t             due = h->now_ms + MT_HEAD_TICK_MS;
    if (h->open_groups.count == 0 || (h->now_ms < h->groups_due_ms && !h->is_capacity_changed))
        return;
    HEAD_TRY(h, head_nodes_living(h, &living, &count));
    for (size_t i = 0; i < h->open_groups.count && living; i++) {
        struct group *g = h->open_groups.data[i];
        if (head_bundles_have(g, BUNDLE_NONE) && may_try(h, g))
            place(h, g, living, count);
        head_bundles_say_again(h, g, MT_HEAD_GROUP_RESEND_MS);
        uint64_t waits = head_groups_tick_waits(h, g);
        due = waits < due ? waits : due;
        if (head_bundles_have(g, BUNDLE_NONE) && g->again_ms < due)
            due = g->again_ms;
        g->is_open = !is_finished(g);
        if (g->is_open)
            h->open_groups.data[kept++] = g;
    }
    h->open_groups.count = living ? kept : h->open_groups.count;
    h->groups_due_ms = due > h->now_ms ? due : h->now_ms + 1;
    free(living);
}
