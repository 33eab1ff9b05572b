/* SPDX-License-Identifier: Apache-2.0
 *
 * view.c - the cluster as the nodes see it: to each of them what has changed since it was last told.
 *
 * Always:  versions grow, also across restarts of the head: its epoch is in the upper bits; no stream was told of a version that is
 *          to come (head_check). What a node knows at version v is this table as it was at v (simulation, I16).
 *
 * Whoever is new is told of all in the order of their last changes, some hundred a message. What is free is no part of the
 * view: it changes all the time, and who schedules by it is the head. The nodes get hints, some nodes each second.
 */

#include "scheduler/head/core/nodes/nodes.h"
#include "scheduler/head/core/nodes/view.h"

#include "core/base/plant.h"

enum { EPOCH_SHIFT = 40, NODES_PER_STEP = 100 };

void head_view_node(struct head *h, const struct node *n, Manta__V1__Node *out)
{
    uint32_t  count = n->place.resource_count;
    resource *items = calloc(2 * (size_t)count + 1, sizeof *items);
    *out = (Manta__V1__Node)MANTA__V1__NODE__INIT;
    out->total = calloc(2 * (size_t)count + 1, sizeof(resource *));
    out->node = n->place.id;
    out->epoch = n->epoch;
    out->state = n->place.state;
    out->name = n->name;
    out->address = n->address;
    out->data_address = n->data_address;
    out->reason = (char *)n->reason;
    out->has_left = n->has_left;
    out->labels = (char *)(uintptr_t)n->place.labels;
    if (!items || !out->total) {
        free(items);
        head_broken(h, mt_error(MT_ENOMEM, 0, "describe a node"));
        return;
    }
    out->n_total = out->n_free = count;
    out->free = out->total + count;
    for (uint32_t i = 0; i < count; i++) {
        const struct policy_resource *r = &n->place.resources[i];
        head_resource_fill(&items[i], h->kinds.data[r->kind], r->total);
        head_resource_fill(&items[count + i], h->kinds.data[r->kind], r->free < 0 ? 0 : r->free);
        out->total[i] = &items[i];
        out->free[i] = &items[count + i];
    }
}

void head_view_node_free(Manta__V1__Node *node)
{
    if (node->n_reserved > 0)
        free(node->reserved[0]);
    free(node->reserved);
    if (node->n_total > 0)
        free(node->total[0]); /* the one array of all resources */
    free(node->total);
}

/* ---- one message ---- */

/* The nodes of one message. */
struct page {
    uint64_t        since, version; /* of this epoch */
    Manta__V1__Node items[MT_HEAD_VIEW_NODES], *nodes[MT_HEAD_VIEW_NODES];
    uint32_t        gone[MT_HEAD_VIEW_NODES];
    size_t          node_count, gone_count;

    Manta__V1__Revoked *revoked, **refused; /* NULL: nobody is */
    size_t              revoked_count;
};

static bool is_all_free(const Manta__V1__Node *node)
{
    for (size_t i = 0; i < node->n_total; i++)
        if (node->total[i]->milli != node->free[i]->milli)
            return false;
    return true;
}

static void add_node(struct head *h, struct page *page, const struct node *n)
{
    Manta__V1__Node *node = page->nodes[page->node_count] = &page->items[page->node_count];
    head_view_node(h, n, node);
    node->reason = NULL; /* for people, who ask the head */
    node->has_left = false;
    node->state = n->told;
    if (is_all_free(node))
        node->n_free = 0;
    page->node_count++;
}

/* From the first change after page->since, as many as fit. */
static void fill(struct head *h, struct page *page)
{
    size_t       at = h->view.log.count;
    struct node *n;
    while (at > 0 && h->view.log.data[at - 1].version > page->since)
        at--;
    for (; at < h->view.log.count && page->node_count < MT_HEAD_VIEW_NODES && page->gone_count < MT_HEAD_VIEW_NODES; at++) {
        const struct view_change *c = &h->view.log.data[at];
        page->version = c->version;
        if (!head_changes_is_last(h, c, &n))
            continue;
        if (n)
            add_node(h, page, n);
        else if (page->since)
            page->gone[page->gone_count++] = c->node;
    }
    if (at == h->view.log.count)
        page->version = h->view.version;
}

/* Whom to refuse since then; there are few, so the message takes them all. */
static void fill_revoked(struct head *h, struct page *page)
{
    if (h->revoked.count == 0)
        return;
    page->revoked = calloc(h->revoked.count, sizeof *page->revoked);
    page->refused = calloc(h->revoked.count, sizeof(Manta__V1__Revoked *));
    if (!page->revoked || !page->refused) {
        head_broken(h, mt_error(MT_ENOMEM, 0, "pack a view"));
        return;
    }
    for (size_t i = 0; i < h->revoked.count && !MT_PLANT(MT_PLANT_REVOKED_MISSED); i++) {
        const struct revoked *r = &h->revoked.data[i];
        Manta__V1__Revoked   *out = &page->revoked[page->revoked_count];
        if (r->view_version <= page->since || r->view_version > page->version)
            continue;
        *out = (Manta__V1__Revoked)MANTA__V1__REVOKED__INIT;
        out->id = r->id;
        out->until_ms = r->until_ms;
        page->refused[page->revoked_count++] = out;
    }
}

static uint64_t on_the_wire(const struct head *h, uint64_t version)
{
    MT_ASSERT(version >> EPOCH_SHIFT == 0);
    return version ? h->epoch << EPOCH_SHIFT | version : 0;
}

uint64_t head_view_version(const struct head *h)
{
    return on_the_wire(h, h->view.version);
}

static struct head_bytes *pack(struct head *h, uint64_t since, uint64_t *out_version)
{
    to_node            message = MANTA__V1__HEAD_TO_NODE__INIT;
    Manta__V1__View    view = MANTA__V1__VIEW__INIT;
    struct head_bytes *bytes = NULL;
    struct page       *page = calloc(1, sizeof *page);
    if (page) {
        page->since = since;
        fill(h, page);
        fill_revoked(h, page);
        *out_version = page->version;
        view.version = on_the_wire(h, page->version);
        view.since = on_the_wire(h, since);
        view.latest = head_view_version(h);
        view.nodes = page->nodes;
        view.n_nodes = page->node_count;
        view.gone = page->gone;
        view.n_gone = page->gone_count;
        view.revoked = page->refused;
        view.n_revoked = page->revoked_count;
        message.kind_case = MANTA__V1__HEAD_TO_NODE__KIND_VIEW;
        message.view = &view;
        bytes = head_bytes_pack(&message.base);
        for (size_t i = 0; i < page->node_count; i++)
            head_view_node_free(page->nodes[i]);
        free(page->revoked);
        free(page->refused);
        free(page);
    }
    if (!bytes)
        head_broken(h, mt_error(MT_ENOMEM, 0, "pack a view"));
    return bytes;
}

/* ---- telling ---- */

/* Most streams are at the same version, and a page stays true: what changed after it comes behind it. */
static const struct view_page *pack_once(struct head *h, uint64_t since)
{
    struct view_page p = {.since = since};
    for (size_t i = 0; i < h->view.pages.count; i++)
        if (h->view.pages.data[i].since == since)
            return &h->view.pages.data[i];
    p.bytes = pack(h, since, &p.version);
    if (!p.bytes)
        return NULL;
    mt_status st = mt_vec_push(&h->view.pages, p);
    if (st.code) {
        head_bytes_unref(p.bytes);
        head_broken(h, st);
        return NULL;
    }
    return &h->view.pages.data[h->view.pages.count - 1];
}

/* To that version or a later one. Returns the bytes that it was sent, what a message costs by itself included. */
static size_t bring_up(struct head *h, struct stream *s, uint64_t version)
{
    size_t size = 0;
    if (s->view_version < h->view.floor)
        s->view_version = 0;
    while (s->view_version < version) {
        const struct view_page *p = pack_once(h, s->view_version);
        if (!p)
            break;
        head_out_send_bytes(h, s, p->bytes);
        s->view_version = p->version;
        size += p->bytes->size + MT_HEAD_VIEW_MESSAGE_BYTES;
    }
    return size;
}

void head_view_tell(struct head *h, struct stream *s, const uint32_t *nodes, uint32_t count)
{
    for (uint32_t i = 0; s && i < count; i++) {
        struct node *n = head_nodes_find(h, nodes[i]);
        if (n && n->told != n->place.state && !MT_PLANT(MT_PLANT_PLACE_UNTOLD))
            head_view_changed(h, n);
        if (n && n->view_version > s->view_version)
            (void)bring_up(h, s, h->view.version);
    }
    if (!h->view.is_behind)
        head_view_pages_drop(h);
}

static void round_begin(struct head *h)
{
    head_view_states_round(h);
    h->view.is_due = h->view.is_joined = false;
    h->view.round = h->view.version;
}

/* At most MT_HEAD_VIEW_BYTES in one step, and the rest soon after: when thousands join at once all are told of all, and the head
 * goes on hearing them meanwhile. What changes before a round is over is told in the next one. */
static void tell_all(struct head *h)
{
    size_t size = 0;
    if (!h->view.is_behind)
        round_begin(h);
    h->view.is_behind = false;
    h->view.told_ms = h->now_ms;
    MT_MAP_EACH(&h->nodes, entry) {
        struct stream *s = head_nodes_stream(h, entry->value.ptr);
        if (!s || s->view_version >= h->view.round)
            continue;
        h->view.is_behind |= size >= MT_HEAD_VIEW_BYTES;
        if (!h->view.is_behind)
            size += bring_up(h, s, h->view.round);
    }
    if (!h->view.is_behind)
        head_view_pages_drop(h);
}

/* ---- what is free ---- */

static struct head_bytes *pack_free(struct head *h, size_t count)
{
    to_node             message = MANTA__V1__HEAD_TO_NODE__INIT;
    Manta__V1__Free     hints = MANTA__V1__FREE__INIT;
    Manta__V1__NodeFree items[MT_HEAD_FREE_HINTS], *list[MT_HEAD_FREE_HINTS];
    Manta__V1__Node     nodes[MT_HEAD_FREE_HINTS];
    for (size_t i = 0; i < count; i++) {
        struct node *n = head_nodes_find(h, h->view.free.data[i]);
        if (!n)
            continue;
        n->is_free_due = false;
        head_view_node(h, n, &nodes[hints.n_nodes]);
        items[hints.n_nodes] = (Manta__V1__NodeFree)MANTA__V1__NODE_FREE__INIT;
        items[hints.n_nodes].node = n->place.id;
        items[hints.n_nodes].free = nodes[hints.n_nodes].free;
        items[hints.n_nodes].n_free = nodes[hints.n_nodes].n_free;
        list[hints.n_nodes] = &items[hints.n_nodes];
        hints.n_nodes++;
    }
    hints.nodes = list;
    message.kind_case = MANTA__V1__HEAD_TO_NODE__KIND_FREE;
    message.free = &hints;
    struct head_bytes *bytes = head_bytes_pack(&message.base);
    for (size_t i = 0; i < hints.n_nodes; i++)
        head_view_node_free(&nodes[i]);
    return bytes;
}

/* Also where there is nothing to tell: by that the nodes know that the head has heard them and has no news. */
static void hints_begin(struct head *h)
{
    size_t count = h->view.free.count < MT_HEAD_FREE_HINTS ? h->view.free.count : MT_HEAD_FREE_HINTS;
    h->view.hints = pack_free(h, count);
    if (!h->view.hints) {
        head_broken(h, mt_error(MT_ENOMEM, 0, "pack what is free"));
        return;
    }
    h->view.free.count -= count;
    if (h->view.free.count)
        memmove(h->view.free.data, h->view.free.data + count, h->view.free.count * sizeof *h->view.free.data);
    h->view.hinted = 0;
}

/* To so many nodes in a step, in the table's order; a node that goes meanwhile makes another miss this one, which is a hint. */
static void tell_free(struct head *h)
{
    uint32_t at = 0, end;
    if (!h->view.hints)
        hints_begin(h);
    h->view.free_told_ms = h->now_ms;
    end = h->view.hinted + MT_HEAD_HINTS_EACH_STEP;
    MT_MAP_EACH(&h->nodes, entry) {
        struct stream *s = at >= h->view.hinted && at < end ? head_nodes_stream(h, entry->value.ptr) : NULL;
        if (s && s->view_version && h->view.hints)
            head_out_send_bytes(h, s, h->view.hints);
        at++;
    }
    h->view.hinted = end;
    if (end < at)
        return;
    head_bytes_unref(h->view.hints);
    h->view.hints = NULL;
}

/* ---- when ---- */

/* A message for each node: the more of them there are, the longer is collected. */
static uint64_t hundreds(const struct head *h)
{
    return 1 + h->nodes_living / NODES_PER_STEP;
}

static uint64_t change_due_ms(const struct head *h)
{
    uint64_t most = h->view.is_due || h->view.late.count ? MT_HEAD_VIEW_MS_MAX : MT_HEAD_VIEW_JOIN_MS_MAX;
    uint64_t ms = MT_HEAD_VIEW_MS * hundreds(h);
    if (h->view.is_behind)
        return h->view.told_ms + MT_HEAD_VIEW_STEP_MS;
    return h->view.is_due || h->view.late.count || h->view.is_joined ? h->view.told_ms + (ms < most ? ms : most) : UINT64_MAX;
}

static uint64_t free_due_ms(const struct head *h)
{
    if (h->view.hints)
        return h->view.free_told_ms + MT_HEAD_VIEW_STEP_MS;
    return h->nodes_living ? h->view.free_told_ms + MT_HEAD_VIEW_FREE_MS * hundreds(h) : UINT64_MAX;
}

uint64_t head_view_due_ms(const struct head *h)
{
    uint64_t change = change_due_ms(h), free = free_due_ms(h);
    return change < free ? change : free;
}

void head_view_tick(struct head *h)
{
    if (h->now_ms >= change_due_ms(h))
        tell_all(h);
    if (h->now_ms >= free_due_ms(h))
        tell_free(h);
}
