/* SPDX-License-Identifier: Apache-2.0
 *
 * nodes.c - the cluster as the head's Views show it: for the list of nodes, for addresses, and for who is dead.
 *
 * Owns: every struct rlt_node. Thread: the logic loop only.
 * Always: the head's last word on a node stands; without a head the table is empty and this node is the cluster.
 */
#include "raylet/core/links/links.h"

#include "core/base/plant.h"

#include <stdio.h>
#include <stdlib.h>

bool rlt_node_is_there(const struct rlt *r, const struct rlt_node *n)
{
    return n && n->state == NODE_ALIVE && !rlt_peer_is_given_up(r, n->node);
}

bool rlt_node_is_drained(const struct rlt *r, uint32_t node)
{
    const struct rlt_node *n = rlt_node_find(r, node);
    return n && n->is_drained;
}

static uint32_t take_resources(struct ctl_resource *out, Manta__V1__Resource **from, size_t count)
{
    uint32_t n = 0;
    for (size_t i = 0; i < count && n < CTL_RESOURCES; i++, n++) {
        snprintf(out[n].name, sizeof out[n].name, "%s", from[i]->name);
        out[n].milli = from[i]->milli;
    }
    return n;
}

/* The head's word: any state may follow any, a node that was dead comes back under another epoch. */
static void node_set_state(struct rlt_node *n, uint32_t said)
{
    if (!MT_PLANT(MT_PLANT_VIEW_MISSES) || said != NODE_SUSPECT)
        n->state = (enum rlt_node_state)said;
    n->is_drained = n->state == NODE_DRAINING || (n->state == NODE_DEAD && n->is_drained);
}

/* But for what is free. */
static bool is_as_before(const struct rlt_node *n, const struct rlt_node *was)
{
    return n->epoch == was->epoch && (n->state == was->state || MT_PLANT(MT_PLANT_NEWS_UNTOLD)) &&
           strcmp(n->name, was->name) == 0 && strcmp(n->address, was->address) == 0 && strcmp(n->labels, was->labels) == 0 &&
           n->total_count == was->total_count && memcmp(n->total, was->total, n->total_count * sizeof n->total[0]) == 0;
}

static bool is_as_free(const struct rlt_node *n, const struct rlt_node *was)
{
    return n->free_count == was->free_count && memcmp(n->free, was->free, n->free_count * sizeof n->free[0]) == 0;
}

/* Of this node itself the list says what this node knows. */
static void news_since(struct rlt *r, const struct rlt_node *n, const struct rlt_node *was)
{
    if (n->node != r->node && !is_as_before(n, was))
        rlt_news(r, CTL_NEWS_NODES);
    if (n->node != r->node && !is_as_free(n, was))
        rlt_news(r, CTL_NEWS_FREE);
}

struct rlt_node *rlt_node_take(struct rlt *r, const Manta__V1__Node *v)
{
    struct rlt_node *n = rlt_node_find(r, v->node), was = {0};
    if (!v->node)
        return NULL;
    if (!n) {
        n = rlt_calloc(sizeof *n);
        n->node = v->node;
        rlt_map_put(&r->nodes, mt_map_key(v->node), n);
        mt_map_remove(&r->forgotten, mt_map_key(v->node));
    }
    was = *n;
    n->is_told = true;
    n->epoch = v->epoch;
    node_set_state(n, v->state);
    snprintf(n->name, sizeof n->name, "%s", v->name);
    snprintf(n->address, sizeof n->address, "%s", v->address);
    snprintf(n->data_address, sizeof n->data_address, "%s", v->data_address);
    snprintf(n->labels, sizeof n->labels, "%s", v->labels);
    n->total_count = take_resources(n->total, v->total, v->n_total);
    n->free_count = v->n_free ? take_resources(n->free, v->free, v->n_free) : take_resources(n->free, v->total, v->n_total);
    news_since(r, n, &was);
    return n;
}

void rlt_node_hint(struct rlt *r, const Manta__V1__NodeFree *v)
{
    struct rlt_node *n = rlt_node_find(r, v->node), was;
    if (!n)
        return;
    was = *n;
    n->free_count = take_resources(n->free, v->free, v->n_free);
    news_since(r, n, &was);
}

void rlt_node_forget(struct rlt *r, uint32_t node)
{
    struct rlt_node *n = rlt_node_find(r, node);
    if (!n)
        return;
    rlt_map_put(&r->forgotten, mt_map_key(node), NULL);
    mt_map_remove(&r->nodes, mt_map_key(node));
    free(n);
    rlt_news(r, CTL_NEWS_NODES);
}

static void describe_self(const struct rlt *r, struct ctl_node *out)
{
    *out = (struct ctl_node){.node = r->node, .epoch = r->epoch, .state = r->drain.is_on ? NODE_DRAINING : NODE_ALIVE};
    memcpy(out->name, r->config.node_name, sizeof out->name);
    memcpy(out->address, r->config.address, sizeof out->address);
    memcpy(out->labels, r->config.labels, sizeof out->labels);
    for (uint32_t i = 0; i < r->ledger.count && i < CTL_RESOURCES; i++) {
        out->total[i] = out->free[i] = r->ledger.total[i];
        out->free[i].milli = r->ledger.free[i];
        out->resource_count++;
    }
}

static void describe(const struct rlt_node *n, struct ctl_node *out)
{
    *out = (struct ctl_node){.node = n->node, .epoch = n->epoch, .state = n->state, .resource_count = n->total_count};
    memcpy(out->name, n->name, sizeof out->name);
    memcpy(out->address, n->address, sizeof out->address);
    memcpy(out->labels, n->labels, sizeof out->labels);
    memcpy(out->total, n->total, sizeof out->total);
    memcpy(out->free, n->free, sizeof out->free);
}

/* The other nodes with the least numbers above `after`, ascending, at most `max`; returns how many. One look at each node:
 * a cluster of 10,000 is asked for in hundreds of pieces. */
static uint32_t nodes_after(const struct rlt *r, uint32_t after, const struct rlt_node **out, uint32_t max)
{
    uint32_t count = 0;
    MT_MAP_EACH(&r->nodes, entry) {
        const struct rlt_node *n = entry->value.ptr;
        if (n->node == r->node || n->node <= after || (count == max && n->node > out[max - 1]->node))
            continue;
        uint32_t at = count < max ? count++ : max - 1;
        for (; at && out[at - 1]->node > n->node; at--)
            out[at] = out[at - 1];
        out[at] = n;
    }
    return count;
}

void rlt_nodes_reply(struct rlt *r, struct rlt_proc *p, mt_id id, uint32_t after)
{
    const struct rlt_node *others[MT_RLT_NODES_REPLY_MAX];
    struct ctl_node       *nodes = rlt_keep(r->out, NULL, MT_RLT_NODES_REPLY_MAX * sizeof *nodes);
    uint32_t               count = 0;
    if (after == 0)
        describe_self(r, &nodes[count++]); /* what this node knows of itself is newer than what the head does */
    uint32_t found = nodes_after(r, after, others, MT_RLT_NODES_REPLY_MAX - count);
    for (uint32_t i = 0; i < found; i++)
        describe(others[i], &nodes[count++]);
    rlt_reply_bytes(r, p->conn, id, nodes, count * sizeof *nodes);
}

void rlt_nodes_fini(struct rlt *r)
{
    MT_MAP_EACH(&r->nodes, entry)
        free(entry->value.ptr);
    mt_map_fini(&r->nodes);
    mt_map_fini(&r->forgotten);
}
