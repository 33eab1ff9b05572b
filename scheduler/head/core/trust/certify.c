/* SPDX-License-Identifier: Apache-2.0
 *
 * certify.c - a certificate is asked for: with a ticket, or with the one that ends soon. Who asks is known by his connection alone.
 *
 * Always:  when a certificate ends is in the store before it is handed out, so a revocation lasts as long.
 */
#include "scheduler/head/core/trust/trust.h"

#include "core/base/limits/net.h"
#include "scheduler/head/core/nodes/nodes.h"

#include <inttypes.h>

/* Notes the new end at the node that has this number. */
static void note_end(struct head *h, uint64_t member, uint64_t ends_ms)
{
    MT_MAP_EACH(&h->nodes, entry) {
        struct node *n = entry->value.ptr;
        if (n->member != member || n->certificate_ms >= ends_ms)
            continue;
        n->certificate_ms = ends_ms;
        head_nodes_store(h, n);
    }
}

/* MT_OK: `*out_member` gets one. */
static int32_t judge(struct head *h, const struct head_peer *peer, uint64_t asks, const char *name, uint64_t *out_member,
                     char *text, size_t size)
{
    *out_member = peer->kind == HEAD_PEER_TICKET ? asks : peer->id;
    if (peer->kind == HEAD_PEER_NOBODY || peer->id == 0 || asks == 0) {
        snprintf(text, size, "this connection shows no certificate that the cluster's own authority has made for one node");
        return MT_EUNSUPPORTED;
    }
    if (head_revoked_has(h, *out_member)) {
        snprintf(text, size, "this node was revoked; it joins with a new ticket only: manta token create at the head");
        return MT_EAUTH;
    }
    if (!head_has_room(h, 64 * 1024)) {
        snprintf(text, size, "%s", head_room_refusal(h).what);
        return head_room_refusal(h).code;
    }
    return peer->kind == HEAD_PEER_TICKET ? head_tickets_use(h, peer->id, asks, name, text, size) : MT_OK;
}

void head_certify(struct head *h, uint64_t call, const struct head_peer *peer, uint64_t asks,
                  const Manta__V1__CertifyRequest *request)
{
    Manta__V1__CertifyReply reply = MANTA__V1__CERTIFY_REPLY__INIT;
    char                    text[HEAD_TEXT_SIZE] = "";
    uint64_t                member;
    reply.code = judge(h, peer, asks, request->name, &member, text, sizeof text);
    reply.text = text;
    if (reply.code == MT_OK) {
        *(peer->kind == HEAD_PEER_TICKET ? &h->count.certified : &h->count.renewed) += 1;
        reply.id = member;
        reply.ends_ms = h->wall_ms + INT64_C(1000) * MT_TLS_VALID_S;
        reply.certificate = request->request; /* the shell signs */
        note_end(h, member, reply.ends_ms);
    } else {
        h->count.ticket_refused++;
        mt_log(MT_LOG_INFO, "certificate_refused", "by=%016" PRIx64 " name=\"%.60s\" why=\"%s\"", peer->id, request->name, text);
    }
    head_out_reply(h, call, HEAD_CERTIFY, &reply.base);
}
