/* SPDX-License-Identifier: Apache-2.0
 *
 * alone.c - leases on other nodes while the head is away: the nodes that this one reaches are asked in turn.
 *
 * Owns: nothing of its own. Thread: the logic loop only.
 * Always: nobody is asked while the head is there and answers, and each class asks one node at a time: a node may refuse (it is the
 * authority for itself), and then the next one is asked.
 */
#include "raylet/core/leases/leases.h"
#include "raylet/core/links/links.h"
#include "raylet/core/schedule/schedule.h"

void rlt_alone_reported(struct rlt *r, uint64_t version)
{
    if (!r->head.unanswered)
        r->head.unanswered_at = r->now;
    r->head.unanswered = version; /* 0: nobody wants anything any more */
    rlt_alone_arm(r);             /* nothing else may happen here until the head counts as away */
}

void rlt_alone_answered(struct rlt *r, uint64_t version)
{
    struct rlt_head *h = &r->head;
    uint64_t         took = h->unanswered ? r->now - h->unanswered_at : 0, lately = h->answer_ns - h->answer_ns / 8;
    if (h->unanswered)
        h->answer_ns = took > lately ? took : lately;
    if (version >= h->unanswered)
        h->unanswered = 0;
    r->head.unanswered_at = r->now; /* it is there, and will come to the rest */
}

static bool is_reached(const struct rlt *r, uint32_t node)
{
    const struct rlt_peer *p = mt_map_ptr(&r->peers, mt_map_key(node));
    return p && p->stream && !p->is_given_up;
}

static bool may_serve(const struct rlt *r, const struct rlt_node *n, const struct rlt_class *c)
{
    if (ctl_class_is_grouped(&c->def)) /* only the head knows where its bundles are */
        return false;
    if (c->def.flags & CTL_CLASS_STRICT) /* may not run without the head's word */
        return false;
    if (n->node == r->node || !rlt_node_is_there(r, n) || !rlt_node_could_ever(n, c))
        return false;
    if (n->node == c->def.node || c->def.policy == CTL_HYBRID || c->def.policy == CTL_SPREAD)
        return true;
    return c->def.policy == CTL_NODE_SOFT && !rlt_node_is_there(r, rlt_node_find(r, c->def.node));
}

/* The next node by number after the one that was asked last; 0: there is none. One that could serve and that this node has never
 * spoken with is met: it can be asked as soon as it has answered that. */
static uint32_t next_node(struct rlt *r, const struct rlt_class *c)
{
    uint32_t after = 0, first = 0;
    MT_MAP_EACH(&r->nodes, entry) {
        const struct rlt_node *n = entry->value.ptr;
        if (!may_serve(r, n, c))
            continue;
        if (!is_reached(r, n->node)) {
            rlt_peer_meet(r, n->node);
            continue;
        }
        first = first == 0 || n->node < first ? n->node : first;
        if (n->node > c->asked_alone && (after == 0 || n->node < after))
            after = n->node;
    }
    return after ? after : first;
}

/* A class that holds nothing presses the nodes that it asks, as the head would: each is asked twice, and may have made room
 * by the second time. */
static bool is_asked_again(const struct rlt *r, const struct rlt_class *c)
{
    const struct rlt_node *n = mt_map_ptr(&r->nodes, mt_map_key(c->asked_alone));
    return c->held == 0 && c->refused_alone > 0 && c->refused_alone % 2 == 0 && rlt_class_lacks(c) && n && is_reached(r, n->node) &&
           may_serve(r, n, c);
}

void rlt_alone_timer(struct rlt *r)
{
    if (!rlt_is_away(r)) {
        rlt_alone_arm(r);
        return;
    }
    r->asked_alone_at = r->now;
    RLT_LIST_EACH(&r->waiting, link) {
        struct rlt_class *c = mt_container_of(link, struct rlt_class, in_waiting);
        uint32_t          node = rlt_class_lacks(c) ? next_node(r, c) : 0;
        if (is_asked_again(r, c))
            node = c->asked_alone;
        if (node == 0)
            continue;
        c->asked_alone = node;
        rlt_remote_request(r, c, node);
    }
    r->is_dirty = true; /* what the head would say of this node it says itself */
    rlt_alone_arm(r);
}
