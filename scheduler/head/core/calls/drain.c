/* SPDX-License-Identifier: Apache-2.0
 *
 * drain.c - a node is to leave politely: asked by a client, or by its own raylet.
 *
 * Always:  it is stored before the node or the client hears of it; from this step on nothing new is placed there. The raylet
 *          counts the time, and says when it is empty (attached/ends.c takes that word).
 */

#include "scheduler/head/core/calls/calls.h"
#include "scheduler/head/core/groups/groups.h"
#include "scheduler/head/core/nodes/nodes.h"
#include "core/base/limits/net.h"

#include <inttypes.h>

void head_drain_order(struct head *h, struct node *n)
{
    Manta__V1__DrainOrder order = MANTA__V1__DRAIN_ORDER__INIT;
    to_node               message = MANTA__V1__HEAD_TO_NODE__INIT;
    struct stream        *s = head_nodes_stream(h, n);
    if (!s)
        return; /* its next registration */
    order.epoch = n->epoch;
    order.limit_ms = n->drain.limit_ms;
    order.reason = n->drain.reason;
    message.kind_case = MANTA__V1__HEAD_TO_NODE__KIND_DRAIN;
    message.drain = &order;
    head_out_send(h, s, &message, true);
}

void head_drain_begin(struct head *h, struct node *n, uint64_t limit_ms, const char *reason)
{
    mt_log(MT_LOG_INFO, "node_drains", "node=%u limit_ms=%" PRIu64 " reason=\"%.120s\"", n->place.id, limit_ms, reason);
    h->count.drained++;
    n->drain.is_on = true;
    n->drain.limit_ms = limit_ms;
    n->drain.ends_ms = h->now_ms + limit_ms;
    n->drain.waits[0] = '\0';
    snprintf(n->drain.reason, sizeof n->drain.reason, "%s", reason[0] ? reason : "asked to");
    if (n->place.state == POLICY_ALIVE)
        head_nodes_set_there(h, n);
    head_nodes_store(h, n);
    head_bundles_drain(h, n->place.id);
    head_drain_order(h, n);
}

/* Why not; MT_OK: nothing is against it. */
static int32_t refusal(const struct head *h, const struct node *n, const Manta__V1__DrainRequest *r, char *text, size_t size)
{
    if (!n) {
        snprintf(text, size, "there is no node %u in this cluster: manta list nodes shows them", r->node);
        return MT_ENOENT;
    }
    if (n->place.state == POLICY_DEAD) {
        snprintf(text, size, "node %u %s (%.100s): nothing is left to drain", n->place.id, n->has_left ? "has left" : "is dead",
                 n->reason);
        return MT_EINVAL;
    }
    if (n->drain.is_on) {
        uint64_t left = n->drain.ends_ms > h->now_ms ? n->drain.ends_ms - h->now_ms : 0;
        snprintf(text, size, "node %u is being drained already (%.100s); %" PRIu64 " s are left", n->place.id, n->drain.reason,
                 left / 1000);
        return MT_EEXIST;
    }
    if (r->limit_ms > MT_DRAIN_MS_MAX) {
        snprintf(text, size, "the limit is %d s at most", MT_DRAIN_MS_MAX / 1000);
        return MT_EINVAL;
    }
    return MT_OK;
}

void head_drain_call(struct head *h, uint64_t call, const Manta__V1__DrainRequest *request)
{
    Manta__V1__DrainReply reply = MANTA__V1__DRAIN_REPLY__INIT;
    char                  text[HEAD_TEXT_SIZE] = "";
    struct node          *n = head_nodes_find(h, request->node);
    reply.code = refusal(h, n, request, text, sizeof text);
    reply.text = text;
    if (reply.code == MT_OK)
        head_drain_begin(h, n, request->limit_ms, request->reason);
    head_out_reply(h, call, HEAD_DRAIN_NODE, &reply.base);
}
