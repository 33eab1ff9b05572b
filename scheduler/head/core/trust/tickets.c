/* SPDX-License-Identifier: Apache-2.0
 *
 * tickets.c - the table of tickets: made, used, revoked, forgotten some time after their end.
 *
 * Always:  a use is in the store before its answer leaves the head. What proves a ticket is not here: its bearer shows a
 *          certificate that the cluster's authority has made for its id.
 */
#include "scheduler/head/core/trust/trust.h"

#include "core/base/hash.h"
#include "core/base/limits/net.h"
#include "core/base/plant.h"

#include <inttypes.h>

static struct ticket *find(const struct head *h, uint64_t id)
{
    return mt_map_ptr(&h->tickets, mt_map_key(id));
}

static bool has_ended(const struct head *h, const struct ticket *t)
{
    return h->wall_ms >= t->ends_ms;
}

/* ---- messages ---- */

/* Borrows the texts; *out holds an array of the heap, see ticket_unfill. */
static bool ticket_fill(const struct ticket *t, Manta__V1__Ticket *out)
{
    Manta__V1__TicketUse *uses = calloc(t->used.count + 1, sizeof *uses);
    *out = (Manta__V1__Ticket)MANTA__V1__TICKET__INIT;
    out->used = calloc(t->used.count + 1, sizeof(Manta__V1__TicketUse *));
    if (!uses || !out->used) {
        free(uses);
        return false;
    }
    out->id = t->id;
    out->made_ms = t->made_ms;
    out->ends_ms = t->ends_ms;
    out->uses = t->uses;
    out->is_revoked = t->is_revoked;
    out->instance = t->instance;
    out->name = (char *)(uintptr_t)t->name;
    out->used[0] = uses; /* also where there is none: it is freed by that */
    for (size_t i = 0; i < t->used.count; i++) {
        uses[i] = (Manta__V1__TicketUse)MANTA__V1__TICKET_USE__INIT;
        uses[i].id = t->used.data[i].member;
        uses[i].at_ms = t->used.data[i].at_ms;
        uses[i].name = t->used.data[i].name;
        out->used[i] = &uses[i];
    }
    out->n_used = t->used.count;
    return true;
}

static void ticket_unfill(Manta__V1__Ticket *t)
{
    if (t->used)
        free(t->used[0]);
    free(t->used);
}

static void store(struct head *h, const struct ticket *t)
{
    Manta__V1__Ticket record;
    uint8_t           key[8];
    head_trust_key(t->id, key);
    if (ticket_fill(t, &record))
        head_record_change(h, HEAD_TABLE_TICKETS, key, sizeof key, &record.base);
    else
        head_broken(h, mt_error(MT_ENOMEM, 0, "store a ticket"));
    ticket_unfill(&record);
}

/* ---- life ---- */

static void ticket_free(struct ticket *t)
{
    mt_vec_fini(&t->used);
    free(t);
}

static void forget(struct head *h, struct ticket *t)
{
    uint8_t key[8];
    head_trust_key(t->id, key);
    head_record_change(h, HEAD_TABLE_TICKETS, key, sizeof key, NULL);
    mt_map_remove(&h->tickets, mt_map_key(t->id));
    ticket_free(t);
}

/* Room for one more: those that ended long ago go; where that is not enough, the one that ended first. Those of instances go with
 * them. */
static bool make_room(struct head *h)
{
    struct ticket *first = NULL;
    size_t         count = 0;
    MT_MAP_EACH(&h->tickets, entry) {
        struct ticket *t = entry->value.ptr;
        if (t->instance)
            continue;
        if (h->wall_ms >= t->ends_ms + MT_TICKET_KEPT_MS) {
            forget(h, t);
            continue;
        }
        count++;
        if ((has_ended(h, t) || t->is_revoked) && (!first || t->ends_ms < first->ends_ms))
            first = t;
    }
    if (count < MT_TICKETS_MAX)
        return true;
    if (first)
        forget(h, first);
    return first;
}

void head_tickets_fini(struct head *h)
{
    MT_MAP_EACH(&h->tickets, entry)
        ticket_free(entry->value.ptr);
    mt_map_fini(&h->tickets);
    mt_vec_fini(&h->revoked);
}

mt_status head_tickets_load(struct head *h, const Manta__V1__Ticket *r)
{
    struct ticket *t = calloc(1, sizeof *t);
    if (!t)
        return mt_error(MT_ENOMEM, 0, "load a ticket");
    *t = (struct ticket){.id = r->id,
                         .made_ms = r->made_ms,
                         .ends_ms = r->ends_ms,
                         .uses = r->uses,
                         .is_revoked = r->is_revoked,
                         .instance = r->instance};
    snprintf(t->name, sizeof t->name, "%s", r->name);
    mt_status st = r->id && r->n_used <= MT_TICKET_USES_MAX && !find(h, r->id)
                       ? mt_map_put_ptr(&h->tickets, mt_map_key(r->id), t)
                       : mt_error(MT_ECORRUPT, 0, "the store holds a ticket that can't be");
    if (st.code) {
        ticket_free(t);
        return st;
    }
    for (size_t i = 0; i < r->n_used; i++) {
        struct ticket_use use = {.member = r->used[i]->id, .at_ms = r->used[i]->at_ms};
        snprintf(use.name, sizeof use.name, "%s", r->used[i]->name);
        MT_TRY(mt_vec_push(&t->used, use));
    }
    return mt_ok();
}

/* ---- what clients ask ---- */

/* Why not; MT_OK: nothing is against it. */
static int32_t refusal(struct head *h, const Manta__V1__CreateTicketRequest *r, char *text, size_t size)
{
    if (r->id == 0 || r->uses == 0 || r->uses > MT_TICKET_USES_MAX || r->valid_ms == 0 || r->valid_ms > MT_TICKET_MS_MAX) {
        snprintf(text, size, "a ticket is for 1 to %d nodes, and for at most %d hours", MT_TICKET_USES_MAX,
                 MT_TICKET_MS_MAX / 3600000);
        return MT_EINVAL;
    }
    if (strlen(r->name) >= HEAD_NAME_SIZE) {
        snprintf(text, size, "the name of a ticket has at most %d bytes", HEAD_NAME_SIZE - 1);
        return MT_EINVAL;
    }
    if (!head_has_room(h, 1024)) {
        snprintf(text, size, "%s", head_room_refusal(h).what);
        return head_room_refusal(h).code;
    }
    if (!make_room(h)) {
        snprintf(text, size, "there are %d tickets that are still good: revoke some (manta token list)", MT_TICKETS_MAX);
        return MT_EAGAIN;
    }
    return MT_OK;
}

static struct ticket *make(struct head *h, uint64_t id, uint32_t uses, uint64_t valid_ms, uint64_t instance, const char *name)
{
    struct ticket *t = calloc(1, sizeof *t);
    if (!t || mt_map_put_ptr(&h->tickets, mt_map_key(id), t).code) {
        free(t);
        head_broken(h, mt_error(MT_ENOMEM, 0, "make a ticket"));
        return NULL;
    }
    *t = (struct ticket){.id = id, .made_ms = h->wall_ms, .ends_ms = h->wall_ms + valid_ms, .uses = uses, .instance = instance};
    snprintf(t->name, sizeof t->name, "%s", name);
    h->count.ticket_made++;
    store(h, t);
    return t;
}

/* It is no secret: the certificate is what proves a ticket. */
static uint64_t id_of_instance(uint64_t instance)
{
    return mt_hash_bytes(mt_hash_bytes(MT_HASH_START, "instance", 8), &instance, sizeof instance) | 1;
}

struct head_ticket head_tickets_of_instance(struct head *h, uint64_t instance)
{
    char           name[40];
    struct ticket *t = NULL;
    snprintf(name, sizeof name, "instance %" PRIu64, instance);
    if (h->config.own_member && !find(h, id_of_instance(instance)))
        t = make(h, id_of_instance(instance), 1, MT_TICKET_MS_MAX, instance, name);
    return t ? (struct head_ticket){t->id, t->made_ms, t->ends_ms} : (struct head_ticket){0};
}

uint64_t head_tickets_end_instance(struct head *h, uint64_t instance)
{
    struct ticket *t = find(h, id_of_instance(instance));
    uint64_t       member = t && t->used.count ? t->used.data[0].member : 0;
    if (!t || t->instance != instance)
        return 0;
    if (member && !head_revoked_add(h, member, 0, h->wall_ms + INT64_C(1000) * MT_TLS_VALID_S, "its instance was given back"))
        mt_log(MT_LOG_ERROR, "not_revoked", "instance=%" PRIu64 " id=%016" PRIx64 " why=\"too many are\"", instance, member);
    forget(h, t);
    return member;
}

/* The same id is the same ticket, however often it is asked for, as long as somebody can still join with it. */
void head_tickets_create(struct head *h, uint64_t call, const Manta__V1__CreateTicketRequest *request)
{
    Manta__V1__CreateTicketReply reply = MANTA__V1__CREATE_TICKET_REPLY__INIT;
    Manta__V1__Ticket            ticket = MANTA__V1__TICKET__INIT;
    char                         text[HEAD_TEXT_SIZE] = "";
    struct ticket               *t = find(h, request->id);
    if (t && (t->is_revoked || has_ended(h, t) || t->used.count >= t->uses)) {
        snprintf(text, sizeof text, "this ticket is over: draw a new id");
        reply.code = MT_EEXIST;
    }
    if (!t)
        reply.code = refusal(h, request, text, sizeof text);
    if (!t && !reply.code)
        t = make(h, request->id, request->uses, request->valid_ms, 0, request->name);
    reply.text = text;
    if (t && ticket_fill(t, &ticket))
        reply.ticket = &ticket;
    head_out_reply(h, call, HEAD_CREATE_TICKET, &reply.base);
    ticket_unfill(&ticket);
}

void head_tickets_list(struct head *h, uint64_t call)
{
    Manta__V1__ListTicketsReply reply = MANTA__V1__LIST_TICKETS_REPLY__INIT;
    Manta__V1__Ticket          *items = calloc(h->tickets.count + 1, sizeof *items);
    reply.tickets = calloc(h->tickets.count + 1, sizeof(Manta__V1__Ticket *));
    bool is_fine = items && reply.tickets;
    if (is_fine)
        MT_MAP_EACH(&h->tickets, entry) {
            if (((const struct ticket *)entry->value.ptr)->instance)
                continue; /* `manta scale status` has them */
            reply.tickets[reply.n_tickets] = &items[reply.n_tickets];
            is_fine = is_fine && ticket_fill(entry->value.ptr, &items[reply.n_tickets]);
            reply.n_tickets++;
        }
    if (is_fine)
        head_out_reply(h, call, HEAD_LIST_TICKETS, &reply.base);
    else
        head_broken(h, mt_error(MT_ENOMEM, 0, "list the tickets"));
    for (size_t i = 0; i < reply.n_tickets; i++)
        ticket_unfill(&items[i]);
    free(items);
    free(reply.tickets);
}

void head_tickets_revoke(struct head *h, uint64_t call, const Manta__V1__RevokeTicketRequest *request)
{
    Manta__V1__RevokeReply reply = MANTA__V1__REVOKE_REPLY__INIT;
    char                   text[HEAD_TEXT_SIZE] = "";
    struct ticket         *t = find(h, request->id);
    if (!t) {
        reply.code = MT_ENOENT;
        snprintf(text, sizeof text, "there is no such ticket: manta token list shows them");
    } else if (!t->is_revoked) {
        t->is_revoked = true;
        store(h, t);
    }
    reply.text = text;
    head_out_reply(h, call, HEAD_REVOKE_TICKET, &reply.base);
}

/* ---- a use ---- */

static bool was_used_by(const struct ticket *t, uint64_t member)
{
    for (size_t i = 0; i < t->used.count; i++)
        if (t->used.data[i].member == member)
            return true;
    return false;
}

/* Why not, in words for whoever holds it. */
static int32_t use_refusal(struct head *h, const struct ticket *t, char *text, size_t size)
{
    static const char another[] = "make another at the head: manta token create";
    if (!t) {
        snprintf(text, size, "the head does not know this ticket: it ended long ago, or is an older cluster's; %s", another);
        return MT_ENOENT;
    }
    if (t->is_revoked) {
        snprintf(text, size, "this ticket was revoked; %s", another);
        return MT_EAUTH;
    }
    if (has_ended(h, t)) {
        snprintf(text, size, "this ticket ended %" PRIu64 " s ago, by the head's clock; %s", (h->wall_ms - t->ends_ms) / 1000,
                 another);
        return MT_EAUTH;
    }
    if (t->used.count >= t->uses) {
        snprintf(text, size, "this ticket was used%s (last by %.63s, %" PRIu64 " s ago); %s", t->uses > 1 ? " up" : " already",
                 t->used.data[t->used.count - 1].name, (h->wall_ms - t->used.data[t->used.count - 1].at_ms) / 1000, another);
        return MT_EEXIST;
    }
    return MT_OK;
}

int32_t head_tickets_use(struct head *h, uint64_t id, uint64_t member, const char *name, char *text, size_t size)
{
    struct ticket *t = find(h, id);
    bool           is_again = t && !t->is_revoked && !has_ended(h, t) && was_used_by(t, member);
    int32_t        code = is_again ? MT_OK : use_refusal(h, t, text, size);
    if (code || is_again)
        return code;
    struct ticket_use use = {.member = member, .at_ms = h->wall_ms};
    snprintf(use.name, sizeof use.name, "%s", name);
    HEAD_TRY(h, mt_vec_push(&t->used, use));
    if (!MT_PLANT(MT_PLANT_TICKET_UNSTORED))
        store(h, t);
    return MT_OK;
}
