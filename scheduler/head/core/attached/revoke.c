/* SPDX-License-Identifier: Apache-2.0
 *
 * revoke.c - a node may not belong to the cluster any more: its certificate is refused everywhere, and it is dead.
 *
 * The order to end reaches a raylet that still obeys; any other finds every door shut, since all nodes that the head reaches are
 * told, and the shell closes its connections to the head itself.
 */
#include "scheduler/head/core/attached/attached.h"
#include "scheduler/head/core/calls/calls.h"
#include "scheduler/head/core/nodes/nodes.h"
#include "scheduler/head/core/trust/trust.h"

#include <inttypes.h>

/* Why not; MT_OK: nothing is against it. */
static int32_t refusal(const struct head *h, const struct node *n, const Manta__V1__RevokeNodeRequest *r, char *text, size_t size)
{
    if (!n) {
        snprintf(text, size, "there is no node %u in this cluster: manta list nodes shows them", r->node);
        return MT_ENOENT;
    }
    if (n->member == 0) {
        snprintf(text, size, "node %u has no certificate of its own: %s", n->place.id,
                 h->config.own_member ? "it was signed by another authority"
                                      : "this cluster speaks in clear, or with certificates of yours");
        return MT_EUNSUPPORTED;
    }
    if (n->member == h->config.own_member) {
        snprintf(text, size, "node %u is the head's own: who has its files has the authority's key too; end it by manta stop",
                 n->place.id);
        return MT_EINVAL;
    }
    return MT_OK;
}

static void end_node(struct head *h, struct node *n, const char *why)
{
    Manta__V1__HeadShutdown order = MANTA__V1__HEAD_SHUTDOWN__INIT;
    to_node                 message = MANTA__V1__HEAD_TO_NODE__INIT;
    struct stream          *s = head_nodes_stream(h, n);
    order.reason = (char *)(uintptr_t)why;
    message.kind_case = MANTA__V1__HEAD_TO_NODE__KIND_SHUTDOWN;
    message.shutdown = &order;
    if (s)
        head_out_send(h, s, &message, true);
    if (n->place.state != POLICY_DEAD)
        head_attached_die(h, n, why);
}

/* Again after each: one may be forgotten by another's death. */
static struct node *find_living(const struct head *h, uint64_t member)
{
    MT_MAP_EACH(&h->nodes, entry) {
        struct node *n = entry->value.ptr;
        if (n->member == member && n->place.state != POLICY_DEAD)
            return n;
    }
    return NULL;
}

void head_attached_shut_out(struct head *h, uint64_t member, const char *reason)
{
    char why[160];
    snprintf(why, sizeof why, "its certificate was revoked%s%.100s", reason[0] ? ": " : "", reason);
    for (struct node *other = find_living(h, member); other; other = find_living(h, member))
        end_node(h, other, why);
}

static void revoke_call(struct head *h, uint64_t call, const Manta__V1__RevokeNodeRequest *request)
{
    Manta__V1__RevokeReply reply = MANTA__V1__REVOKE_REPLY__INIT;
    char                   text[HEAD_TEXT_SIZE] = "";
    struct node           *n = head_nodes_find(h, request->node);
    reply.code = refusal(h, n, request, text, sizeof text);
    if (!reply.code && !head_revoked_add(h, n->member, n->place.id, n->certificate_ms, request->reason)) {
        snprintf(text, sizeof text, "too many are revoked already: a new cluster has a new authority");
        reply.code = MT_EAGAIN;
    }
    reply.text = text;
    if (!reply.code)
        head_attached_shut_out(h, n->member, request->reason);
    head_out_reply(h, call, HEAD_REVOKE_NODE, &reply.base);
}

void head_attached_call(struct head *h, const struct head_event *event)
{
    ProtobufCMessage *request = head_calls_open(h, event);
    if (!request)
        return;
    revoke_call(h, event->call.number, (const Manta__V1__RevokeNodeRequest *)request);
    protobuf_c_message_free_unpacked(request, NULL);
}
