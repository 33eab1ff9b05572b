/* SPDX-License-Identifier: Apache-2.0
 *
 * state.c - what the nodes know: asked one after the other, page by page; the next page is on its way while one is read.
 *
 * Owns: nothing. Thread: the caller's.
 */
#include "clients/control/told.h"
#include "core/base/reserved.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { NOTICE_SIZE = 512, PAGE_MS = MT_HEAD_QUERY_MS + MT_CALL_MS };

static const char method[] = "/manta.v1.Head/Query";

/* A node's pages. */
struct pages {
    struct ctl_client      *client;
    Manta__V1__QueryRequest request;
    Manta__V1__QueryReply  *reply; /* the last one: the next request's cursor is in it */
    struct rpc_asked       *ahead; /* the next one; NULL: it was not asked for yet */
};

static void pages_begin(struct pages *p, struct ctl_client *c, const manta_look *look, uint32_t node)
{
    *p = (struct pages){.client = c, .request = MANTA__V1__QUERY_REQUEST__INIT};
    p->request.node = node;
    p->request.kind = (char *)(uintptr_t)look->kind;
    p->request.filters = (char **)(uintptr_t)look->filters;
    while (look->filters && look->filters[p->request.n_filters])
        p->request.n_filters++;
}

static void reply_set(struct pages *p, ProtobufCMessage *reply)
{
    if (p->reply)
        rpc_unpack_free(&p->reply->base);
    p->reply = (Manta__V1__QueryReply *)reply;
}

static void limit_set(struct pages *p, size_t room)
{
    p->request.limit = room < UINT32_MAX ? (uint32_t)room : 0;
}

/* The next page becomes the present one: that which is on its way, or, where none is or it got lost, one that is asked for now. */
static manta_status page_next(struct pages *p, size_t room, manta_error *e)
{
    ProtobufCMessage *reply = p->ahead ? ctl_answer(p->ahead, &manta__v1__query_reply__descriptor) : NULL;
    manta_status      st = MANTA_OK;
    p->ahead = NULL;
    limit_set(p, room);
    if (!reply)
        st = ctl_call(p->client, method, &p->request.base, &manta__v1__query_reply__descriptor, p->client->timeout_ms, PAGE_MS,
                      &reply, e);
    if (st == MANTA_OK)
        reply_set(p, reply);
    return st;
}

/* Asks for the page behind the present one, unless that fills the list. */
static void page_ahead(struct pages *p, size_t room)
{
    p->request.cursor = p->reply->cursor;
    if (!p->reply->cursor[0] || p->reply->count >= room)
        return;
    limit_set(p, room - p->reply->count);
    p->ahead = ctl_ask(p->client, method, &p->request.base, PAGE_MS);
}

static void pages_end(struct pages *p)
{
    ProtobufCMessage *unread = p->ahead ? ctl_answer(p->ahead, &manta__v1__query_reply__descriptor) : NULL;
    if (unread)
        rpc_unpack_free(unread);
    reply_set(p, NULL);
}

/* Reads the present page, and asks for the next one before. */
static manta_status page_read(struct pages *p, struct ctl_told *t, manta_error *e)
{
    if (p->reply->code)
        return ctl_fail(e, p->reply->code, MANTA_NOT_DONE, "%.400s", p->reply->text);
    page_ahead(p, ctl_told_room(t));
    mt_status st = ctl_told_take(t, p->reply);
    if (st.code == MT_ENOMEM)
        return ctl_fail(e, st.code, MANTA_NOT_DONE, "no memory for the state of the cluster");
    if (st.code)
        return ctl_fail(e, MT_EPROTO, MANTA_NOT_DONE, "node %u tells of its %s what can't be read", p->request.node,
                        p->request.kind);
    ctl_told_notice(t, p->reply->notice);
    return MANTA_OK;
}

static manta_status node_ask(struct ctl_client *c, struct ctl_told *t, const manta_look *look, uint32_t node, manta_error *e)
{
    struct pages p;
    manta_status st = MANTA_OK;
    pages_begin(&p, c, look, node);
    do {
        size_t room = ctl_told_room(t);
        if (!room) {
            ctl_told_cut(t);
            break;
        }
        st = page_next(&p, room, e);
        if (st == MANTA_OK)
            st = page_read(&p, t, e);
    } while (st == MANTA_OK && p.request.cursor[0]);
    pages_end(&p);
    return st;
}

static bool is_the_callers_fault(manta_status st)
{
    return st == MANTA_EINVAL || st == MANTA_EUNSUPPORTED || st == MANTA_EAUTH || st == MANTA_ECONN || st == MANTA_ENOMEM;
}

static manta_status nodes_ask(struct ctl_client *c, struct ctl_told *t, const manta_look *look, manta_error *e)
{
    manta_cluster_node *nodes;
    manta_error         why;
    size_t              count;
    char                text[NOTICE_SIZE];
    manta_status        st = ctl_nodes_list(c, &nodes, &count, NULL, e);
    if (st != MANTA_OK)
        return st;
    for (size_t i = 0; i < count && st == MANTA_OK; i++) {
        if (nodes[i].state != MANTA_NODE_ALIVE && nodes[i].state != MANTA_NODE_DRAINING)
            continue;
        manta_status one = node_ask(c, t, look, nodes[i].node, &why);
        if (is_the_callers_fault(one)) {
            st = one;
            if (e)
                *e = why;
        } else if (one != MANTA_OK) {
            snprintf(text, sizeof text, "node %u: %.400s", nodes[i].node, why.message);
            ctl_told_notice(t, text);
        }
    }
    free(nodes);
    return st;
}

static manta_status state_tell(struct ctl_client *c, const char *call, const manta_look *look, manta_state_row_fn each, void *user,
                               manta_rows **out_rows, manta_error *e)
{
    if (!look || !look->kind)
        return ctl_fail(e, MT_EINVAL, MANTA_NOT_DONE, "%s: no kind of thing is named", call);
    if (MT_RESERVED_IS_USED(look))
        return ctl_fail(e, MT_EINVAL, MANTA_NOT_DONE, MT_RESERVED_TEXT, call);
    struct ctl_told *t = ctl_told_new(look, each, user);
    manta_status     st;
    if (!t)
        return ctl_fail(e, MT_ENOMEM, MANTA_NOT_DONE, "%s: no memory", call);
    bool is_heads = strcmp(look->kind, "placement-groups") == 0; /* it answers itself, as node 0 */
    st = look->node || is_heads ? node_ask(c, t, look, is_heads ? 0 : look->node, e) : nodes_ask(c, t, look, e);
    if (st == MANTA_OK)
        *out_rows = ctl_told_end(t);
    else
        ctl_told_free(t);
    return st;
}

manta_status manta_state_list(manta_client *client, const manta_look *look, manta_rows **out_rows, manta_error *e)
{
    static const char  call[] = "manta_state_list";
    struct ctl_client *c;
    manta_status       st = ctl_enter_given(client, call, out_rows, "out_rows", &c, e);
    return st != MANTA_OK ? st : ctl_leave(client, state_tell(c, call, look, NULL, NULL, out_rows, e));
}

manta_status manta_state_each(manta_client *client, const manta_look *look, manta_state_row_fn each, void *user,
                              manta_rows **out_end, manta_error *e)
{
    static const char  call[] = "manta_state_each";
    struct ctl_client *c;
    manta_status       st = ctl_enter_given(client, call, each && out_end, "each and out_end", &c, e);
    return st != MANTA_OK ? st : ctl_leave(client, state_tell(c, call, look, each, user, out_end, e));
}
