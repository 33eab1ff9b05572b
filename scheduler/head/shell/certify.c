/* SPDX-License-Identifier: Apache-2.0
 *
 * certify.c - the core decides who gets a certificate or a ticket; here it is signed, and here the revoked are shut out.
 *
 * Owns:    nothing. Thread: the main loop's.
 */
#include "core/base/log.h"
#include "core/io/private.h"
#include "core/proto/manta.pb-c.h"
#include "core/rpc/codec.h"
#include "core/rpc/peer.h"
#include "scheduler/head/shell/certify.h"
#include "scheduler/head/shell/heads.h"

#include <stdlib.h>
#include <string.h>
#include <time.h>

struct head_peer head_shell_peer(const struct io_tls_who *who)
{
    struct head_peer peer = {.kind = HEAD_PEER_NOBODY};
    if (!who || who->id == 0 || who->role == IO_TLS_HEAD)
        return peer;
    peer.kind = who->role == IO_TLS_TICKET ? HEAD_PEER_TICKET : HEAD_PEER_NODE;
    peer.id = who->id;
    peer.ends_ms = who->ends_s > 0 ? (uint64_t)who->ends_s * 1000 : 0;
    return peer;
}

/* ---- before the core ---- */

static mt_status asks_of(mt_view bytes, uint64_t *out_asks)
{
    uint8_t           sum[MT_SHA256_SIZE];
    mt_sha256         sha;
    ProtobufCMessage *message;
    MT_TRY(rpc_unpack(&manta__v1__certify_request__descriptor, bytes, MT_TLS_FILE_BYTES_MAX, &message));
    const Manta__V1__CertifyRequest *request = (const Manta__V1__CertifyRequest *)message;
    mt_view                          asked = mt_view_of(request->request.data, request->request.len);
    mt_status                        st = io_tls_request_check(asked);
    mt_sha256_init(&sha);
    mt_sha256_add(&sha, asked.data, asked.size);
    mt_sha256_end(&sha, sum);
    memcpy(out_asks, sum, sizeof *out_asks);
    *out_asks |= 1; /* not 0 */
    rpc_unpack_free(message);
    return st;
}

mt_status head_shell_certify_check(struct shell *sh, enum head_method method, mt_view request, uint64_t *out_asks)
{
    *out_asks = 0;
    if (method != HEAD_CERTIFY && method != HEAD_CREATE_TICKET)
        return mt_ok();
    if (!sh->authority)
        return mt_error(MT_EUNSUPPORTED, 0,
                        sh->tls
                            ? "this cluster's certificates are your own (--tls-dir without ca.pem): sign one for each node yourself"
                            : "this cluster speaks in clear: other machines need its token file only (tickets come with "
                              "--bind of an address beyond loopback)");
    return method == HEAD_CERTIFY ? asks_of(request, out_asks) : mt_ok();
}

mt_status head_shell_certify_refusal(enum head_method method, mt_status why, mt_buf *out)
{
    Manta__V1__CertifyReply      certificate = MANTA__V1__CERTIFY_REPLY__INIT;
    Manta__V1__CreateTicketReply ticket = MANTA__V1__CREATE_TICKET_REPLY__INIT;
    certificate.code = ticket.code = why.code;
    certificate.text = ticket.text = (char *)(uintptr_t)why.what;
    return rpc_pack(method == HEAD_CERTIFY ? &certificate.base : &ticket.base, out);
}

/* ---- behind it ---- */

static mt_status pack(ProtobufCMessage *take_message, mt_buf *out)
{
    mt_status st = rpc_pack(take_message, out);
    rpc_unpack_free(take_message);
    return st;
}

/* What it grows by is freed with it. */
static mt_status certificate_fill(struct shell *sh, bool has_ticket, Manta__V1__CertifyReply *reply)
{
    struct io_tls_grant grant = {.role = IO_TLS_NODE,
                                 .id = reply->id,
                                 .from_s = (int64_t)time(NULL) - MT_TLS_SLACK_S,
                                 .until_s = (int64_t)(reply->ends_ms / 1000)};
    mt_buf              text = {0};
    char               *token = has_ticket ? strdup(sh->token.hex) : NULL;
    mt_status           st = has_ticket && !token ? mt_error(MT_ENOMEM, 0, "sign a certificate") : mt_ok();
    if (!st.code)
        st = io_tls_sign(sh->authority, &grant, mt_view_of(reply->certificate.data, reply->certificate.len), &text);
    if (st.code) {
        free(token);
        mt_buf_fini(&text);
        return st;
    }
    free(reply->certificate.data);
    reply->certificate.len = text.size;
    reply->certificate.data = text.data;
    if (has_ticket)
        reply->token = token;
    return st;
}

mt_status head_shell_ticket(struct shell *sh, const struct head_ticket *ticket, mt_buf *out)
{
    struct io_join join = {.is_ticket = true};
    mt_buf         certificates = {0};
    /* The core's clock counts: it tells the bearer why his ticket is not good any more. So the certificate ends later. */
    struct io_tls_grant grant = {.role = IO_TLS_TICKET,
                                 .id = ticket->id,
                                 .from_s = (int64_t)(ticket->made_ms / 1000) - MT_TLS_SLACK_S,
                                 .until_s = (int64_t)(ticket->ends_ms / 1000) + MT_TLS_SLACK_S};
    head_shell_heads_line(sh, join.address, sizeof join.address);
    mt_status st = io_tls_issue(sh->authority, &grant, &certificates);
    join.certificates = mt_buf_view(&certificates);
    if (!st.code)
        st = io_join_write(&join, out);
    io_private_wipe(&certificates);
    return st;
}

static mt_status ticket_fill(struct shell *sh, Manta__V1__CreateTicketReply *reply)
{
    struct head_ticket ticket = {reply->ticket->id, reply->ticket->made_ms, reply->ticket->ends_ms};
    mt_buf             text = {0};
    mt_status          st = head_shell_ticket(sh, &ticket, &text);
    if (st.code) {
        io_private_wipe(&text);
        return st;
    }
    reply->join.len = text.size;
    reply->join.data = text.data;
    return st;
}

mt_status head_shell_certify(struct shell *sh, const struct head_action *action, bool has_ticket, mt_buf *out)
{
    bool              is_ticket = action->reply.method == HEAD_CREATE_TICKET;
    mt_view           bytes = mt_view_of(action->reply.bytes->data, action->reply.bytes->size);
    ProtobufCMessage *message;
    MT_TRY(rpc_unpack(is_ticket ? &manta__v1__create_ticket_reply__descriptor : &manta__v1__certify_reply__descriptor, bytes,
                      MT_CONTROL_BYTES_MAX, &message));
    Manta__V1__CreateTicketReply *ticket = (Manta__V1__CreateTicketReply *)message;
    Manta__V1__CertifyReply      *certificate = (Manta__V1__CertifyReply *)message;
    mt_status                     st = mt_ok();
    if (is_ticket && !ticket->code)
        st = ticket->ticket ? ticket_fill(sh, ticket) : mt_error(MT_ENOMEM, 0, "make a ticket");
    else if (!is_ticket && !certificate->code)
        st = certificate_fill(sh, has_ticket, certificate);
    if (st.code) {
        rpc_unpack_free(message);
        return st;
    }
    return pack(message, out);
}

/* ---- named tokens ---- */

void head_shell_let_in(struct shell *sh, const struct head_token *items, size_t count, bool are_all)
{
    struct rpc_token  *list = calloc(count + 1, sizeof *list);
    struct head_token *copy = calloc(count + 1, sizeof *copy);
    for (size_t i = 0; list && copy && i < count; i++) {
        copy[i] = items[i];
        list[i] = (struct rpc_token){.number = items[i].number, .right = items[i].right, .is_ended = items[i].is_ended};
        memcpy(list[i].name, items[i].name, sizeof list[i].name);
        memcpy(list[i].sha256, items[i].sha256, sizeof list[i].sha256);
    }
    mt_status st = list && copy ? rpc_server_tokens(sh->server, list, count, are_all)
                                : mt_error(MT_ENOMEM, 0, "let named tokens in");
    free(list);
    if (st.code) { /* one that is revoked must not stay in */
        free(copy);
        head_shell_end(sh, st);
        return;
    }
    free(sh->tokens);
    sh->tokens = copy;
    sh->token_count = count;
}

/* ---- the revoked ---- */

static void cut_off(struct io_timer *timer)
{
    struct shell *sh = mt_container_of(timer, struct shell, cut);
    if (sh->server)
        rpc_server_drop_revoked(sh->server);
}

void head_shell_revoked(struct shell *sh, uint64_t id, uint64_t until_ms)
{
    mt_status st = sh->tls ? io_tls_revoke(sh->tls, id, (int64_t)(until_ms / 1000)) : mt_ok();
    if (st.code)
        mt_log_status(MT_LOG_ERROR, "revoke", st);
    if (!sh->tls || io_timer_is_started(&sh->cut))
        return;
    sh->cut.fire = cut_off;
    io_timer_start(sh->loop, &sh->cut, MT_REVOKED_CUT_MS);
}
