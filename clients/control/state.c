/* SPDX-License-Identifier: Apache-2.0
 *
 * state.c - what the nodes know: asked one after the other, page by page, put together to one table.
 *
 * Owns: the answers while the table lives; its cells point into them.
 */
#include "clients/control/control.h"
#include "core/base/reserved.h"
#include "core/ds/map.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { LIMIT_DEFAULT = 100, NOTICE_SIZE = 512 };

struct table {
    manta_rows rows; /* first: what the caller has */
    MT_VEC(Manta__V1__QueryReply *) replies;
    MT_VEC(const char *) cells;
    mt_map tasks; /* (task, attempt) -> row + 1 */
    size_t limit;
    bool   is_tasks;
};

static void notice_add(struct table *t, const char *text)
{
    size_t at = strlen(t->rows.notice);
    if (text[0] && !strstr(t->rows.notice, text))
        snprintf(t->rows.notice + at, sizeof t->rows.notice - at, "%s%s", at ? "\n" : "", text);
}

enum { TASK_ID, TASK_ATTEMPT = 3, TASK_STARTED = 8, TASK_ENDED, TASK_CELLS }; /* columns of core/wire/look.h */

/* The row that tells of the same attempt of the same task already, or SIZE_MAX. Tasks that have ended are not noted, only
 * looked for: their owner tells of them no more, and they may be a million. */
static size_t same_task(struct table *t, const char *const *cells)
{
    mt_id         id;
    mt_map_entry *found;
    bool          has_ended = cells[TASK_ENDED][0] != '\0';
    if ((has_ended && !t->tasks.count) || mt_id_parse(cells[TASK_ID], &id).code)
        return SIZE_MAX;
    id = mt_id_with_index(id, (uint16_t)strtoul(cells[TASK_ATTEMPT], NULL, 10));
    found = mt_map_find(&t->tasks, id);
    if (found)
        return found->value.num;
    if (!has_ended) /* without memory it is shown twice */
        (void)mt_map_put_num(&t->tasks, id, t->cells.count / t->rows.column_count).code;
    return SIZE_MAX;
}

/* A task may be told of by its owner and by the worker that runs it, in either order: the worker's word counts. */
static bool row_add(struct table *t, const char *const *cells)
{
    size_t at = t->is_tasks ? same_task(t, cells) : SIZE_MAX, columns = t->rows.column_count;
    if (at != SIZE_MAX && !cells[TASK_STARTED][0])
        return true;
    for (size_t i = 0; i < columns; i++) {
        if (at != SIZE_MAX)
            t->cells.data[at * columns + i] = cells[i];
        else if (mt_vec_push(&t->cells, cells[i]).code)
            return false;
    }
    return true;
}

static bool columns_agree(struct table *t, const Manta__V1__QueryReply *reply)
{
    if (!t->rows.columns) {
        t->rows.columns = (const char *const *)reply->columns;
        t->rows.column_count = reply->n_columns;
    }
    return reply->n_columns == t->rows.column_count && (!t->is_tasks || reply->n_columns >= TASK_CELLS) && reply->n_columns > 0;
}

/* Takes the rows of one answer. False: they cannot be read, or there is no memory. */
static bool rows_take(struct table *t, const Manta__V1__QueryReply *reply)
{
    const char *at = (const char *)reply->rows.data, *end = at + reply->rows.len, *cells[CTL_COLUMNS_MAX];
    if (!columns_agree(t, reply) || t->rows.column_count > CTL_COLUMNS_MAX)
        return false;
    for (uint32_t row = 0; row < reply->count; row++) {
        if (t->cells.count / t->rows.column_count >= t->limit) {
            t->rows.is_cut = true;
            return true;
        }
        for (size_t i = 0; i < t->rows.column_count; i++) {
            const char *stop = at < end ? memchr(at, 0, (size_t)(end - at)) : NULL;
            if (!stop)
                return false;
            cells[i] = at;
            at = stop + 1;
        }
        if (!row_add(t, cells))
            return false;
    }
    return at == end;
}

/* One answer of a node, *reply kept by the table. */
static manta_status page_get(struct ctl_client *c, struct table *t, const manta_look *look, uint32_t node, const char *cursor,
                             const Manta__V1__QueryReply **out, manta_error *e)
{
    Manta__V1__QueryRequest request = MANTA__V1__QUERY_REQUEST__INIT;
    ProtobufCMessage       *message;
    size_t                  have = t->rows.column_count ? t->cells.count / t->rows.column_count : 0;
    request.node = node;
    request.kind = (char *)(uintptr_t)look->kind;
    request.cursor = (char *)(uintptr_t)cursor;
    request.filters = (char **)(uintptr_t)look->filters;
    request.limit = t->limit - have < UINT32_MAX ? (uint32_t)(t->limit - have) : 0;
    while (look->filters && look->filters[request.n_filters])
        request.n_filters++;
    manta_status st = ctl_call(c, "/manta.v1.Head/Query", &request.base, &manta__v1__query_reply__descriptor, c->timeout_ms,
                               MT_HEAD_QUERY_MS + MT_CALL_MS, &message, e);
    if (st != MANTA_OK)
        return st;
    *out = (const Manta__V1__QueryReply *)message;
    if (mt_vec_push(&t->replies, (Manta__V1__QueryReply *)message).code == 0)
        return MANTA_OK;
    rpc_unpack_free(message);
    return ctl_fail(e, MT_ENOMEM, MANTA_NOT_DONE, "no memory for the state of the cluster");
}

static manta_status node_ask(struct ctl_client *c, struct table *t, const manta_look *look, uint32_t node, manta_error *e)
{
    const Manta__V1__QueryReply *reply = NULL;
    const char                  *cursor = "";
    do {
        if (t->rows.column_count && t->cells.count / t->rows.column_count >= t->limit) {
            t->rows.is_cut = true;
            return MANTA_OK;
        }
        manta_status st = page_get(c, t, look, node, cursor, &reply, e);
        if (st != MANTA_OK)
            return st;
        if (reply->code)
            return ctl_fail(e, reply->code, MANTA_NOT_DONE, "%.400s", reply->text);
        if (!rows_take(t, reply))
            return ctl_fail(e, MT_EPROTO, MANTA_NOT_DONE, "node %u tells of its %s what can't be read", node, look->kind);
        notice_add(t, reply->notice);
        cursor = reply->cursor;
    } while (cursor[0]);
    return MANTA_OK;
}

static bool is_the_callers_fault(manta_status st)
{
    return st == MANTA_EINVAL || st == MANTA_EUNSUPPORTED || st == MANTA_EAUTH || st == MANTA_ECONN || st == MANTA_ENOMEM;
}

static manta_status nodes_ask(struct ctl_client *c, struct table *t, const manta_look *look, manta_error *e)
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
            notice_add(t, text);
        }
    }
    free(nodes);
    return st;
}

static manta_status state_list(struct ctl_client *c, const manta_look *look, manta_rows **out_rows, manta_error *e)
{
    if (look && MT_RESERVED_IS_USED(look))
        return ctl_fail(e, MT_EINVAL, MANTA_NOT_DONE, MT_RESERVED_TEXT, "manta_state_list");
    struct table *t = look && look->kind ? calloc(1, sizeof *t) : NULL;
    manta_status  st;
    if (!t)
        return ctl_fail(e, look && look->kind ? MT_ENOMEM : MT_EINVAL, MANTA_NOT_DONE, "manta_state_list: no kind, or no memory");
    t->limit = look->limit ? look->limit : LIMIT_DEFAULT;
    t->is_tasks = strcmp(look->kind, "tasks") == 0;
    bool is_heads = strcmp(look->kind, "placement-groups") == 0; /* it answers itself, as node 0 */
    st = look->node || is_heads ? node_ask(c, t, look, is_heads ? 0 : look->node, e) : nodes_ask(c, t, look, e);
    if (st != MANTA_OK) {
        manta_rows_free(&t->rows);
        return st;
    }
    t->rows.cells = t->cells.data;
    t->rows.count = t->rows.column_count ? t->cells.count / t->rows.column_count : 0;
    *out_rows = &t->rows;
    return MANTA_OK;
}

manta_status manta_state_list(manta_client *client, const manta_look *look, manta_rows **out_rows, manta_error *e)
{
    struct ctl_client *c;
    manta_status       st = ctl_enter(client, "manta_state_list", &c, e);
    return st != MANTA_OK ? st : ctl_leave(client, state_list(c, look, out_rows, e));
}

void manta_rows_free(manta_rows *rows)
{
    struct table *t = rows ? mt_container_of(rows, struct table, rows) : NULL;
    if (!t)
        return;
    for (size_t i = 0; i < t->replies.count; i++)
        rpc_unpack_free(&t->replies.data[i]->base);
    mt_vec_fini(&t->replies);
    mt_vec_fini(&t->cells);
    mt_map_fini(&t->tasks);
    free(t);
}
