/* SPDX-License-Identifier: Apache-2.0
 *
 * view.c - the cluster as the nodes see it: one message for all, rate-limited.
 *
 * Always:  versions grow, also across restarts of the head: its epoch is in the upper bits.
 *
 * A change of membership goes out after MT_HEAD_VIEW_MS at most. A change of free resources alone waits longer, the longer
 * the more nodes there are, since a View costs nodes times nodes.
 */

#include "scheduler/head/core/nodes/nodes.h"

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

static struct head_bytes *pack(struct head *h)
{
    to_node            message = MANTA__V1__HEAD_TO_NODE__INIT;
    Manta__V1__View    view = MANTA__V1__VIEW__INIT;
    size_t             count = 0, room = h->nodes.count + 1;
    Manta__V1__Node   *items = calloc(room, sizeof *items);
    Manta__V1__Node  **nodes = calloc(room, sizeof(Manta__V1__Node *));
    struct head_bytes *bytes = NULL;
    if (items && nodes) {
        MT_MAP_EACH(&h->nodes, entry) {
            head_view_node(h, entry->value.ptr, &items[count]);
            nodes[count] = &items[count];
            count++;
        }
        view.version = h->epoch << EPOCH_SHIFT | ++h->view_version;
        view.nodes = nodes;
        view.n_nodes = count;
        message.kind_case = MANTA__V1__HEAD_TO_NODE__KIND_VIEW;
        message.view = &view;
        bytes = head_bytes_pack(&message.base);
    }
    for (size_t i = 0; i < count; i++)
        head_view_node_free(&items[i]);
    free(items);
    free(nodes);
    if (!bytes)
        head_broken(h, mt_error(MT_ENOMEM, 0, "pack a view"));
    return bytes;
}

uint64_t head_view_due_ms(const struct head *h)
{
    if (h->is_members_changed)
        return h->view_ms + MT_HEAD_VIEW_MS;
    if (h->is_free_changed)
        return h->view_ms + MT_HEAD_VIEW_FREE_MS * (uint64_t)(1 + h->nodes_living / NODES_PER_STEP);
    return UINT64_MAX;
}

void head_view_tick(struct head *h)
{
    if (h->now_ms < head_view_due_ms(h))
        return;
    h->is_members_changed = h->is_free_changed = false;
    h->view_ms = h->now_ms;
    struct head_bytes *bytes = pack(h);
    if (!bytes)
        return;
    MT_MAP_EACH(&h->nodes, entry) {
        struct stream *s = head_nodes_stream(h, entry->value.ptr);
        if (s)
            head_out_send_bytes(h, s, bytes);
    }
    head_bytes_unref(bytes);
}
