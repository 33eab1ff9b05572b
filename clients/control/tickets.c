/* SPDX-License-Identifier: Apache-2.0
 *
 * tickets.c - who may join the cluster, and who may not any more.
 */
#include "clients/control/control.h"

#include "core/base/id.h"
#include "core/base/reserved.h"
#include "core/base/rng.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

static void ticket_copy(const Manta__V1__Ticket *from, manta_ticket *out)
{
    *out = (manta_ticket){.is_revoked = from->is_revoked,
                          .uses = from->uses,
                          .used = (uint32_t)from->n_used,
                          .made_ms = from->made_ms,
                          .ends_ms = from->ends_ms};
    mt_hex_text(from->id, sizeof out->id - 1, out->id);
    snprintf(out->name, sizeof out->name, "%s", from->name);
    if (from->n_used == 0)
        return;
    out->last_ms = from->used[from->n_used - 1]->at_ms;
    snprintf(out->last, sizeof out->last, "%s", from->used[from->n_used - 1]->name);
}

/* The text, and the ticket where it is wanted. */
static manta_status take_ticket(const Manta__V1__CreateTicketReply *reply, char **out_join, manta_ticket *out, manta_error *e)
{
    if (reply->code)
        return ctl_fail(e, reply->code, MANTA_NOT_DONE, "%s", reply->text);
    if (!reply->ticket || memchr(reply->join.data, 0, reply->join.len))
        return ctl_fail(e, MT_EPROTO, MANTA_UNKNOWN, "the head's ticket can't be read");
    char *join = malloc(reply->join.len + 1);
    if (!join)
        return ctl_fail(e, MT_ENOMEM, MANTA_UNKNOWN, "no memory for a ticket");
    memcpy(join, reply->join.data, reply->join.len);
    join[reply->join.len] = '\0';
    *out_join = join;
    if (out)
        ticket_copy(reply->ticket, out);
    return MANTA_OK;
}

static manta_status ticket_create(struct ctl_client *c, const manta_ticket_opts *opts, char **out_join, manta_ticket *out,
                                  manta_error *e)
{
    Manta__V1__CreateTicketRequest request = MANTA__V1__CREATE_TICKET_REQUEST__INIT;
    ProtobufCMessage              *message;
    if (opts && MT_RESERVED_IS_USED(opts))
        return ctl_fail(e, MT_EINVAL, MANTA_NOT_DONE, MT_RESERVED_TEXT, "manta_ticket_create");
    if (!out_join || mt_random_bytes(&request.id, sizeof request.id).code)
        return ctl_fail(e, MT_EINVAL, MANTA_NOT_DONE, "manta_ticket_create: out_join is NULL");
    request.id |= 1; /* not 0 */
    request.uses = opts && opts->uses ? opts->uses : 1;
    request.valid_ms = opts && opts->valid_ms ? opts->valid_ms : MT_TICKET_MS;
    request.name = (char *)(uintptr_t)(opts && opts->name ? opts->name : "");
    manta_status st = ctl_call(c, "/manta.v1.Head/CreateTicket", &request.base, &manta__v1__create_ticket_reply__descriptor,
                               c->timeout_ms, MT_CALL_MS, &message, e);
    if (st != MANTA_OK)
        return st;
    Manta__V1__CreateTicketReply *reply = (Manta__V1__CreateTicketReply *)message;
    st = take_ticket(reply, out_join, out, e);
    explicit_bzero(reply->join.data, reply->join.len);
    rpc_unpack_free(message);
    return st;
}

manta_status manta_ticket_create(manta_client *client, const manta_ticket_opts *opts, char **out_join, manta_ticket *out_ticket,
                                 manta_error *e)
{
    struct ctl_client *c;
    manta_status       st = ctl_enter(client, "manta_ticket_create", &c, e);
    return st != MANTA_OK ? st : ctl_leave(client, ticket_create(c, opts, out_join, out_ticket, e));
}

static manta_status tickets_list(struct ctl_client *c, manta_ticket **out_tickets, size_t *out_count, manta_error *e)
{
    Manta__V1__ListTicketsRequest request = MANTA__V1__LIST_TICKETS_REQUEST__INIT;
    ProtobufCMessage             *message;
    manta_status st = ctl_call(c, "/manta.v1.Head/ListTickets", &request.base, &manta__v1__list_tickets_reply__descriptor,
                               c->timeout_ms, MT_CALL_MS, &message, e);
    if (st != MANTA_OK)
        return st;
    const Manta__V1__ListTicketsReply *reply = (const Manta__V1__ListTicketsReply *)message;
    manta_ticket                      *tickets = calloc(reply->n_tickets + 1, sizeof *tickets);
    for (size_t i = 0; tickets && i < reply->n_tickets; i++)
        ticket_copy(reply->tickets[i], &tickets[i]);
    if (tickets) {
        *out_tickets = tickets;
        *out_count = reply->n_tickets;
    }
    rpc_unpack_free(message);
    return tickets ? MANTA_OK : ctl_fail(e, MT_ENOMEM, MANTA_NOT_DONE, "no memory for the list of tickets");
}

manta_status manta_tickets_list(manta_client *client, manta_ticket **out_tickets, size_t *out_count, manta_error *e)
{
    struct ctl_client *c;
    manta_status st = ctl_enter_given(client, "manta_tickets_list", out_tickets && out_count, "out_tickets and out_count", &c, e);
    return st != MANTA_OK ? st : ctl_leave(client, tickets_list(c, out_tickets, out_count, e));
}

/* ---- revoked ---- */

manta_status ctl_revoke(struct ctl_client *c, const char *method, const ProtobufCMessage *request, manta_error *e)
{
    ProtobufCMessage *message;
    manta_status st = ctl_call(c, method, request, &manta__v1__revoke_reply__descriptor, c->timeout_ms, MT_CALL_MS, &message, e);
    if (st != MANTA_OK)
        return st;
    const Manta__V1__RevokeReply *reply = (const Manta__V1__RevokeReply *)message;
    if (reply->code)
        st = ctl_fail(e, reply->code, MANTA_NOT_DONE, "%s", reply->text);
    rpc_unpack_free(message);
    return st;
}

static manta_status ticket_revoke(struct ctl_client *c, const char *id, manta_error *e)
{
    Manta__V1__RevokeTicketRequest request = MANTA__V1__REVOKE_TICKET_REQUEST__INIT;
    char                          *end = NULL;
    errno = 0;
    if (id && strspn(id, "0123456789abcdefABCDEF") == strlen(id))
        request.id = strtoull(id, &end, 16);
    if (!end || errno || request.id == 0)
        return ctl_fail(e, MT_EINVAL, MANTA_NOT_DONE, "\"%.40s\" is no id of a ticket: manta token list shows them", id ? id : "");
    return ctl_revoke(c, "/manta.v1.Head/RevokeTicket", &request.base, e);
}

manta_status manta_ticket_revoke(manta_client *client, const char *id, manta_error *e)
{
    struct ctl_client *c;
    manta_status       st = ctl_enter(client, "manta_ticket_revoke", &c, e);
    return st != MANTA_OK ? st : ctl_leave(client, ticket_revoke(c, id, e));
}

manta_status manta_node_revoke(manta_client *client, uint32_t node, const char *reason, manta_error *e)
{
    Manta__V1__RevokeNodeRequest request = MANTA__V1__REVOKE_NODE_REQUEST__INIT;
    struct ctl_client           *c;
    manta_status                 st = ctl_enter(client, "manta_node_revoke", &c, e);
    request.node = node;
    request.reason = (char *)(uintptr_t)(reason ? reason : "");
    return st != MANTA_OK ? st : ctl_leave(client, ctl_revoke(c, "/manta.v1.Head/RevokeNode", &request.base, e));
}
