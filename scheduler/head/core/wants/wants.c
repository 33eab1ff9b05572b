/* SPDX-License-Identifier: Apache-2.0
 *
 * wants.c - leases that a node cannot grant itself: levels in, places out.
 *
 * Owns:    the wants of each node.
 * Always:  placed <= wanted; each Place is a promise on the nodes that it names, until their reports contain it.
 *
 * A want is a level: each report brings all wants of its node, and replaces what was there. What was placed for a want
 * is remembered as long as its version stays; when the want still stands MT_HEAD_REPLACE_MS later, its leases were refused
 * or lost, and it is answered again. So nothing here needs an acknowledgement.
 *
 * A node knows only its own who wait, so a class that wants a busy node of others would wait until all their work is done:
 * the head tells that node of it (Press), which recalls a lease that has run its slice and keeps the room.
 */

#include "scheduler/head/core/wants/wants.h"
#include "scheduler/head/core/groups/groups.h"
#include "scheduler/head/core/nodes/nodes.h"
#include "scheduler/head/core/nodes/view.h"

#include "core/base/hash.h"

static struct want *find(struct node *n, const Manta__V1__Want *w, size_t hint)
{
    for (size_t i = 0; i < n->wants.count; i++) {
        struct want *old = &n->wants.data[(hint + i) % n->wants.count]; /* the order of reports is mostly the same */
        if (old->owner == w->owner && old->class_id == w->class_id)
            return old;
    }
    return NULL;
}

static void tell_refused(struct head *h, struct node *n, struct want *w, int32_t code, const char *text)
{
    Manta__V1__Unschedulable answer = MANTA__V1__UNSCHEDULABLE__INIT;
    to_node                  message = MANTA__V1__HEAD_TO_NODE__INIT;
    w->is_refused = true;
    h->count.unschedulable++;
    answer.owner = w->owner;
    answer.class_id = w->class_id;
    answer.version = w->version;
    answer.code = code;
    answer.text = (char *)text;
    message.kind_case = MANTA__V1__HEAD_TO_NODE__KIND_UNSCHEDULABLE;
    message.unschedulable = &answer;
    head_out_send(h, head_nodes_stream(h, n), &message, false);
}

void head_wants_tell_again(struct node *n)
{
    for (size_t i = 0; i < n->wants.count; i++)
        n->wants.data[i].is_refused = false;
}

static struct want read_want(struct head *h, struct node *n, const Manta__V1__Want *from, const struct want *old)
{
    struct want w = {.owner = from->owner, .class_id = from->class_id, .version = from->version};
    char        text[HEAD_TEXT_SIZE];
    w.wanted = from->wanted;
    w.held = from->held;
    bool had_some = old && old->held > 0 && w.held == 0;                      /* until now: its wait begins */
    bool asks_anew = old && old->is_refused && old->version != from->version; /* after the answer: and so does this one's */
    w.since_ms = old && !had_some && !asks_anew ? old->since_ms : h->now_ms;
    w.pressed_ms = old ? old->pressed_ms : 0;
    w.request.policy = from->policy <= POLICY_NODE_SOFT ? (enum policy_kind)from->policy : POLICY_HYBRID;
    w.request.node = from->node;
    w.group = (mt_id){from->group_process, from->group_counter};
    w.bundle = from->bundle;
    for (size_t i = 0; i < from->n_avoid && i < MT_RLT_SHUNNED_MAX; i++)
        w.request.avoid[i] = from->avoid[i];
    w.request.prefer = n->place.id;
    snprintf(w.request.labels, sizeof w.request.labels, "%s", from->labels);
    if (old && old->version == from->version) {
        w.placed = old->placed;
        w.placed_ms = old->placed_ms;
        w.is_refused = old->is_refused;
    }
    if (head_resources_to_request(h, from->resources, from->n_resources, &w.request, text, sizeof text).code != 0) {
        if (!w.is_refused)
            tell_refused(h, n, &w, MT_EINVAL, text);
        w.wanted = 0;
    }
    if (w.placed > w.wanted)
        w.placed = w.wanted;
    return w;
}

void head_wants_report(struct head *h, struct node *n, Manta__V1__Want *const *wants, size_t count)
{
    MT_VEC(struct want) next = {0};
    if (count > MT_HEAD_WANTS_MAX)
        count = MT_HEAD_WANTS_MAX; /* the rest is in a later report, when these are served */
    if (count > 0)
        HEAD_TRY(h, mt_vec_reserve(&next, count));
    for (size_t i = 0; i < count && i < next.capacity; i++) {
        struct want w = read_want(h, n, wants[i], find(n, wants[i], i));
        if (w.wanted > 0 || w.is_refused)
            next.data[next.count++] = w;
    }
    mt_vec_fini(&n->wants);
    memcpy(&n->wants, &next, sizeof next);
    if (next.count && !n->is_wanting) {
        HEAD_TRY(h, mt_vec_push(&h->wanting, n->place.id));
        n->is_wanting = true;
    }
}

static struct node_wish *wish_find(struct node_wish *list, size_t count, uint64_t owner, const char *name)
{
    for (size_t i = 0; i < count; i++)
        if (list[i].owner == owner && strcmp(list[i].name, name) == 0)
            return &list[i];
    return NULL;
}

void head_wants_wishes(struct head *h, struct node *n, Manta__V1__Wish *const *wishes, size_t count)
{
    char              text[HEAD_TEXT_SIZE];
    struct node_wish *was = n->wishes.data, *old;
    size_t            was_count = n->wishes.count;
    memset(&n->wishes, 0, sizeof n->wishes);
    for (size_t i = 0; i < count && i < MT_HEAD_WANTS_MAX; i++) {
        struct node_wish w = {.owner = wishes[i]->owner, .count = wishes[i]->count, .worth = wishes[i]->worth_milli};
        snprintf(w.name, sizeof w.name, "%s", wishes[i]->name);
        snprintf(w.request.labels, sizeof w.request.labels, "%s", wishes[i]->labels);
        if ((old = wish_find(was, was_count, w.owner, w.name)))
            w.told = old->told;
        if (head_resources_to_request(h, wishes[i]->resources, wishes[i]->n_resources, &w.request, text, sizeof text).code == 0)
            HEAD_TRY(h, mt_vec_push(&n->wishes, w)); /* its raylet has refused what is none */
    }
    free(was);
}

static void tell_wish(struct head *h, struct node *n, struct node_wish *w, enum scl_wish_state state, const char *why)
{
    Manta__V1__WishNews news = MANTA__V1__WISH_NEWS__INIT;
    to_node             message = MANTA__V1__HEAD_TO_NODE__INIT;
    uint32_t            words[3] = {state, w->count, w->worth};
    uint64_t            told = mt_hash_bytes(mt_hash_bytes(MT_HASH_START, words, sizeof words), why, strlen(why));
    if (w->told == told)
        return;
    w->told = told;
    news.owner = w->owner;
    news.name = w->name;
    news.stands = state;
    news.text = (char *)(uintptr_t)why;
    message.kind_case = MANTA__V1__HEAD_TO_NODE__KIND_WISH;
    message.wish = &news;
    head_out_send(h, head_nodes_stream(h, n), &message, false);
}

static void wish_stands(void *user, uint64_t owner, const char *name, enum scl_wish_state state, const char *why)
{
    struct head *h = user;
    MT_MAP_EACH(&h->nodes, entry) {
        struct node      *n = entry->value.ptr;
        struct node_wish *w = n->stream ? wish_find(n->wishes.data, n->wishes.count, owner, name) : NULL;
        if (w)
            tell_wish(h, n, w, state, why);
    }
}

void head_wants_wishes_tell(struct head *h)
{
    if (h->scale.core)
        scl_wishes_each(h->scale.core, (const char *const *)h->kinds.data, wish_stands, h);
}

static void send_place(struct head *h, struct node *n, const struct want *w, uint32_t *nodes, uint32_t count)
{
    Manta__V1__Place place = MANTA__V1__PLACE__INIT;
    to_node          message = MANTA__V1__HEAD_TO_NODE__INIT;
    place.owner = w->owner;
    place.class_id = w->class_id;
    place.version = w->version;
    place.nodes = nodes;
    place.n_nodes = count;
    message.kind_case = MANTA__V1__HEAD_TO_NODE__KIND_PLACE;
    message.place = &place;
    head_view_tell(h, head_nodes_stream(h, n), nodes, count);
    head_out_send(h, head_nodes_stream(h, n), &message, false);
}

/* One promise for each run of the same node. */
static void promise(struct head *h, const struct policy_request *request, const uint32_t *nodes, uint32_t count)
{
    for (uint32_t i = 0, run; i < count; i += run) {
        for (run = 1; i + run < count && nodes[i + run] == nodes[i];)
            run++;
        head_nodes_promise(h, head_nodes_find(h, nodes[i]), request, run);
    }
}

static void explain(struct head *h, struct node *n, struct want *w, struct policy_node **living, uint32_t count)
{
    char text[HEAD_TEXT_SIZE];
    policy_explain((const struct policy_node *const *)living, count, &w->request, (const char *const *)h->kinds.data, text,
                   sizeof text);
    tell_refused(h, n, w, MT_EUNSCHEDULABLE, text);
}

/* Whether another node could hold it: the one that asks knows its own who wait. */
static bool may_hold(const struct policy_node *node, const struct policy_request *request)
{
    return node->state == POLICY_ALIVE && node->id != request->prefer && policy_fits_total(node, request) &&
           (request->policy != POLICY_NODE || node->id == request->node);
}

/* A class that holds nothing has waited: one of the nodes that could hold it is to make room, each in its turn. */
static void press(struct head *h, struct want *w, struct policy_node **living, uint32_t count)
{
    if (w->held > 0 || h->now_ms - w->since_ms < MT_HEAD_PRESS_MS || h->now_ms - w->pressed_ms < MT_HEAD_PRESS_MS)
        return;
    for (uint32_t i = 0; i < count; i++) {
        const struct policy_node *p = living[(h->round + i) % count];
        if (may_hold(p, &w->request)) {
            w->pressed_ms = h->now_ms;
            h->count.pressed++;
            head_nodes_press(h, head_nodes_find(h, p->id), &w->request, 0);
            return;
        }
    }
}

/* The head's answer, and what it is remembered by. */
static void answer(struct head *h, struct node *n, struct want *w, uint32_t *nodes, uint32_t placed)
{
    w->placed += placed;
    w->placed_ms = w->since_ms = h->now_ms;
    w->is_refused = false;
    h->count.placed += placed;
    send_place(h, n, w, nodes, placed);
}

/* Leases in the pool of a placement group: only where its bundles stand. */
static void serve_grouped(struct head *h, struct node *n, struct want *w, uint32_t wanted)
{
    uint32_t nodes[MT_HEAD_PLACE_MAX], placed;
    char     text[HEAD_TEXT_SIZE] = "";
    int32_t  code = MT_OK;
    placed = head_bundles_place(h, w, wanted < MT_HEAD_PLACE_MAX ? wanted : MT_HEAD_PLACE_MAX, nodes, &code, text, sizeof text);
    if (placed > 0)
        answer(h, n, w, nodes, placed);
    else if (code != MT_OK && !w->is_refused)
        tell_refused(h, n, w, code, text);
}

/* It has waited, and each node that could hold it has had all its processes taken by actors for a while. */
static bool is_stuck(struct head *h, const struct want *w, struct policy_node **living, uint32_t count)
{
    if (w->placed > 0 || w->held > 0 || w->is_refused || h->now_ms - w->since_ms < MT_RLT_FULL_MS)
        return false;
    for (uint32_t i = 0; i < count; i++) {
        bool may = policy_may_come(living[i]->state) && policy_fits_total(living[i], &w->request) &&
                   (w->request.policy != POLICY_NODE || living[i]->id == w->request.node);
        if (may && !head_nodes_find(h, living[i]->id)->is_stuck)
            return false;
    }
    return true;
}

/* Whether no node that comes could hold it either: as long as all nodes leave, nobody knows what the next one will have. */
static bool is_hopeless(struct policy_node **living, uint32_t count, const struct want *w)
{
    return w->request.policy == POLICY_NODE || policy_any_may_come((const struct policy_node *const *)living, count);
}

static void serve(struct head *h, struct node *n, struct want *w, struct policy_node **living, uint32_t count)
{
    uint32_t nodes[MT_HEAD_PLACE_MAX];
    if (w->placed > 0 && h->now_ms - w->placed_ms >= MT_HEAD_REPLACE_MS) {
        w->placed = 0;
        h->count.replaced++;
    }
    uint32_t wanted = w->wanted - w->placed;
    if (wanted == 0 || (w->is_refused && !h->is_capacity_changed))
        return;
    if (w->group.process) {
        serve_grouped(h, n, w, wanted);
        return;
    }
    uint32_t placed = policy_place(living, count, &w->request, wanted < MT_HEAD_PLACE_MAX ? wanted : MT_HEAD_PLACE_MAX, &h->rng,
                                   nodes);
    if (placed > 0) {
        promise(h, &w->request, nodes, placed);
        answer(h, n, w, nodes, placed);
    } else if (policy_is_feasible((const struct policy_node *const *)living, count, &w->request)) {
        if (is_stuck(h, w, living, count))
            tell_refused(h, n, w, MT_EAGAIN,
                         "every node that could run it has as many processes as it may (--max-workers of its "
                         "raylet, its limit of descriptors), and actors hold all of them");
        else if (w->placed == 0)
            press(h, w, living, count);
    } else if (!w->is_refused && !head_in_grace(h) && is_hopeless(living, count, w) && !head_nodes_could_come(h, &w->request)) {
        explain(h, n, w, living, count);
    }
}

struct turn {
    struct node *node;
    struct want *want;
};

/* Who holds nothing comes before who has some already; then who has waited longest. */
static int in_need_first(const void *a, const void *b)
{
    const struct turn *x = a, *y = b;
    bool               x_has = x->want->held > 0, y_has = y->want->held > 0;
    int                by_node = (x->node->place.id > y->node->place.id) - (x->node->place.id < y->node->place.id);
    if (x_has != y_has)
        return x_has ? 1 : -1;
    if (x->want->since_ms != y->want->since_ms)
        return x->want->since_ms < y->want->since_ms ? -1 : 1;
    return by_node ? by_node : (x->want > y->want) - (x->want < y->want);
}

void head_wants_round(struct head *h)
{
    MT_VEC(struct turn) open = {0};
    size_t kept = 0;
    for (size_t at = 0; at < h->wanting.count; at++) {
        struct node *n = head_nodes_find(h, h->wanting.data[at]);
        if (n && (n->is_wanting = n->wants.count > 0))
            h->wanting.data[kept++] = n->place.id;
        for (size_t i = 0; n && n->stream != 0 && i < n->wants.count; i++) {
            struct want *w = &n->wants.data[i];
            if (w->placed < w->wanted || (w->placed > 0 && h->now_ms - w->placed_ms >= MT_HEAD_REPLACE_MS))
                HEAD_TRY(h, mt_vec_push(&open, ((struct turn){n, w})));
        }
    }
    h->wanting.count = kept;
    struct policy_node **living = NULL;
    uint32_t             count = 0;
    if (open.count > 0) {
        HEAD_TRY(h, head_nodes_living(h, &living, &count));
        qsort(open.data, open.count, sizeof *open.data, in_need_first);
    }
    for (size_t i = 0; i < open.count && living; i++)
        serve(h, open.data[i].node, open.data[i].want, living, count);
    h->round++;
    h->is_capacity_changed = false;
    free(living);
    mt_vec_fini(&open);
}
