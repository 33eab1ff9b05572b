/* SPDX-License-Identifier: Apache-2.0
 *
 * queries.c - what clients ask of one node: passed on to its raylet, and its answer passed back. Nothing is kept.
 *
 * Owns:    the queries that wait for their nodes' answers.
 * Always:  each is answered once: by its node, or because that is gone or silent.
 */

#include "scheduler/head/core/calls/calls.h"
#include "scheduler/head/core/groups/groups.h"
#include "scheduler/head/core/nodes/nodes.h"

#include <inttypes.h>

struct query {
    uint64_t number;
    uint64_t call;
    uint32_t node;
    uint64_t stream; /* on which it went */
    uint64_t due_ms;
};

static Manta__V1__QueryReply refusal(int32_t code, const char *text)
{
    Manta__V1__QueryReply reply = MANTA__V1__QUERY_REPLY__INIT;
    reply.code = code;
    reply.text = (char *)text;
    return reply;
}

static void refuse(struct head *h, uint64_t call, int32_t code, const char *text)
{
    Manta__V1__QueryReply reply = refusal(code, text);
    head_out_reply(h, call, HEAD_QUERY, &reply.base);
}

/* The only way to answer one that waits; NULL: its caller is gone. */
static void query_end(struct head *h, struct query *q, const Manta__V1__QueryReply *reply)
{
    MT_ASSERT(mt_map_ptr(&h->queries, mt_map_key(q->number)) == q);
    if (reply)
        head_out_reply(h, q->call, HEAD_QUERY, &reply->base);
    mt_map_remove(&h->queries, mt_map_key(q->number));
    free(q);
}

static void send_order(struct head *h, struct stream *s, uint64_t number, const Manta__V1__QueryRequest *request)
{
    Manta__V1__QueryOrder order = MANTA__V1__QUERY_ORDER__INIT;
    to_node               message = MANTA__V1__HEAD_TO_NODE__INIT;
    order.number = number;
    order.request = (Manta__V1__QueryRequest *)(uintptr_t)request;
    message.kind_case = MANTA__V1__HEAD_TO_NODE__KIND_QUERY;
    message.query = &order;
    head_out_send(h, s, &message, false);
}

void head_queries_take(struct head *h, uint64_t call, const Manta__V1__QueryRequest *request)
{
    struct node   *n = head_nodes_find(h, request->node);
    struct stream *s = n ? head_nodes_stream(h, n) : NULL;
    struct query  *q;
    char           text[HEAD_TEXT_SIZE];
    if (request->node == 0 && strcmp(request->kind, "placement-groups") == 0) {
        head_groups_list(h, call, request);
        return;
    }
    if (!s) {
        snprintf(text, sizeof text, "node %u %s%.200s", request->node, n ? "is not connected: " : "is not in the cluster",
                 n ? n->reason : "");
        refuse(h, call, n ? MT_ENODE_DIED : MT_ENOENT, text);
        return;
    }
    if (h->queries.count >= MT_HEAD_QUERIES_MAX) {
        refuse(h, call, MT_EAGAIN, "too many queries are under way: ask again");
        return;
    }
    q = calloc(1, sizeof *q);
    if (!q || mt_map_put_ptr(&h->queries, mt_map_key(h->next_query + 1), q).code != 0) {
        free(q);
        head_broken(h, mt_error(MT_ENOMEM, 0, "keep a query"));
        return;
    }
    *q = (struct query){++h->next_query, call, n->place.id, s->number, h->now_ms + MT_HEAD_QUERY_MS};
    send_order(h, s, q->number, request);
}

void head_queries_answer(struct head *h, const struct node *n, Manta__V1__QueryAnswer *answer)
{
    struct query *q = mt_map_ptr(&h->queries, mt_map_key(answer->number));
    if (!q || q->node != n->place.id || !answer->reply)
        return; /* it came too late */
    query_end(h, q, answer->reply);
}

void head_queries_call_gone(struct head *h, uint64_t call)
{
    MT_MAP_EACH(&h->queries, entry) {
        struct query *q = entry->value.ptr;
        if (q->call == call)
            query_end(h, q, NULL);
    }
}

void head_queries_tick(struct head *h)
{
    char text[HEAD_TEXT_SIZE];
    MT_MAP_EACH(&h->queries, entry) {
        struct query *q = entry->value.ptr;
        struct node  *n = head_nodes_find(h, q->node);
        bool          is_gone = !n || n->stream != q->stream;
        if (!is_gone && h->now_ms < q->due_ms)
            continue;
        snprintf(text, sizeof text, "node %u %s", q->node, is_gone ? "has gone" : "has not answered");
        Manta__V1__QueryReply reply = refusal(is_gone ? MT_ENODE_DIED : MT_ETIMEDOUT, text);
        query_end(h, q, &reply);
    }
}

const char *head_queries_check(const struct head *h)
{
    MT_MAP_EACH(&h->queries, entry) {
        const struct query *q = entry->value.ptr;
        if (!mt_id_equal(entry->key, mt_map_key(q->number)))
            return "a query does not stand under its number";
        if (q->number > h->next_query)
            return "a query has a number that was not given out";
        MT_MAP_EACH(&h->queries, other) {
            const struct query *o = other->value.ptr;
            if (o != q && o->call == q->call)
                return "a call has two queries: it would be answered twice";
        }
    }
    return NULL;
}

void head_queries_fini(struct head *h)
{
    MT_MAP_EACH(&h->queries, entry)
        free(entry->value.ptr);
    mt_map_fini(&h->queries);
}
