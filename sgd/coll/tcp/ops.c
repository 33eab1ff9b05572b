/* SPDX-License-Identifier: Apache-2.0
 *
 * ops.c - the collective calls, where every two members are connected, and messages.
 *
 * Owns: nothing but copies for an all-to-all and a reduce-scatter in place. Thread: one at a time per struct coll_tcp.
 */
#include "sgd/coll/tcp/few.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { SMALL_BYTES = 16 * 1024 }; /* a sum of this size goes to everyone behind its head */

/* A call while it runs. */
struct run {
    struct coll_tcp        *g;
    const struct coll_call *call;
    size_t                  size, part; /* bytes of an element; of a part */
};

static struct coll_flow flow_to(uint32_t peer)
{
    return (struct coll_flow){.peer = peer};
}

/* Slice of a sum that a member reduces, in elements: whole lines. */
static size_t slice_begin(const struct run *r, uint32_t rank)
{
    size_t line = 64 / r->size, lines = (r->call->count + line - 1) / line;
    size_t begin = lines * rank / r->g->config.members * line;
    return begin < r->call->count ? begin : r->call->count;
}

/* ---- heads ---- */

/* This member's head, with `tail` behind it, to everyone; theirs from them. */
static mt_status heads_send(struct coll_tcp *g, struct coll_head heads[MT_GROUP_MEMBERS_MAX], const void *tail, size_t tail_size)
{
    struct coll_flow flows[MT_GROUP_MEMBERS_MAX];
    uint32_t         count = 0;
    for (uint32_t m = 0; m < g->config.members; m++) {
        if (m == g->config.rank)
            continue;
        flows[count] = flow_to(m);
        flows[count].out[0] = &heads[g->config.rank], flows[count].out_size[0] = sizeof heads[0];
        flows[count].out[1] = tail, flows[count].out_size[1] = tail_size;
        flows[count].in = &heads[m], flows[count].in_size = sizeof heads[0];
        count++;
    }
    return coll_tcp_move(g, flows, count);
}

/* Heads of all, to all; `tail` goes behind this member's where all are connected. */
static mt_status heads_exchange(struct run *r, const void *tail, size_t tail_size)
{
    struct coll_tcp *g = r->g;
    struct coll_head heads[MT_GROUP_MEMBERS_MAX];
    heads[g->config.rank] = coll_head_of(r->call);
    MT_TRY(g->is_few ? coll_few_heads(g, heads) : heads_send(g, heads, tail, tail_size));
    for (uint32_t m = 1; m < g->config.members; m++)
        if (!coll_head_equals(&heads[0], &heads[m])) {
            coll_head_explain(g->text, g->name, 0, &heads[0], m, &heads[m]);
            return coll_tcp_end_with(g, m);
        }
    return mt_ok();
}

/* ---- sums ---- */

static mt_status sum_small(struct run *r)
{
    struct coll_tcp *g = r->g;
    const void      *in[MT_GROUP_MEMBERS_MAX];
    struct coll_flow flows[MT_GROUP_MEMBERS_MAX];
    uint32_t         count = 0;

    MT_TRY(heads_exchange(r, r->call->in, r->part));
    for (uint32_t m = 0; m < g->config.members; m++) {
        in[m] = m == g->config.rank ? r->call->in : g->scratch + (size_t)m * MT_COLL_CHUNK_BYTES;
        if (m == g->config.rank)
            continue;
        flows[count] = flow_to(m);
        flows[count].in = (void *)(uintptr_t)in[m], flows[count].in_size = r->part;
        count++;
    }
    MT_TRY(coll_tcp_move(g, flows, count));
    coll_reduce(g->loops, r->call->type, r->call->op, in, g->config.members, r->call->count, r->call->out, false, NULL);
    return mt_ok();
}

/* Where part `m` of the input lies that its member reduces, and how many elements it has. */
static const char *part_of(const struct run *r, uint32_t m, size_t *out_count)
{
    const char *in = r->call->in;
    if (r->call->kind == COLL_REDUCE_SCATTER) {
        *out_count = r->call->count;
        return in + m * r->part;
    }
    if (r->call->kind == COLL_REDUCE) {
        *out_count = m == r->call->root ? r->call->count : 0;
        return in;
    }
    *out_count = slice_begin(r, m + 1) - slice_begin(r, m);
    return in + slice_begin(r, m) * r->size;
}

/* Every member gets the others' input for its own part, chunk by chunk, and reduces it into `out` in the order of ranks. What
 * it sends them of theirs runs ahead as fast as they take it. */
static mt_status reduce_parts(struct run *r, char *out)
{
    struct coll_tcp *g = r->g;
    const void      *in[MT_GROUP_MEMBERS_MAX];
    struct coll_flow flows[MT_GROUP_MEMBERS_MAX];
    uint32_t         count = 0, me = g->config.rank;
    size_t           chunk = MT_COLL_CHUNK_BYTES / r->size, mine, theirs;
    const char      *own = part_of(r, me, &mine);

    for (uint32_t m = 0; m < g->config.members; m++) {
        in[m] = g->scratch + (size_t)m * MT_COLL_CHUNK_BYTES;
        if (m == me)
            continue;
        flows[count] = flow_to(m);
        flows[count].out[0] = part_of(r, m, &theirs);
        flows[count++].out_size[0] = theirs * r->size;
    }
    for (size_t at = 0; at < mine; at += chunk) {
        size_t n = mine - at < chunk ? mine - at : chunk;
        for (uint32_t i = 0; i < count; i++) {
            flows[i].in = (void *)(uintptr_t)in[flows[i].peer];
            flows[i].in_size = n * r->size;
            flows[i].in_done = 0;
        }
        MT_TRY(coll_tcp_move_in(g, flows, count));
        in[me] = own + at * r->size;
        coll_reduce(g->loops, r->call->type, r->call->op, in, g->config.members, n, out + at * r->size, false, NULL);
    }
    return coll_tcp_move(g, flows, count);
}

/* In place the output is what some other member's part of the input still is, until all of that is sent. */
static mt_status reduce_scatter(struct run *r)
{
    if (r->call->in != r->call->out || r->part == 0)
        return reduce_parts(r, r->call->out);
    char *result = malloc(r->part);
    if (!result)
        return mt_error(MT_ENOMEM, 0, "no memory for the output of a reduce-scatter in place");
    mt_status st = reduce_parts(r, result);
    if (st.code == MT_OK)
        memcpy(r->call->out, result, r->part);
    free(result);
    return st;
}

static mt_status gather_slices(struct run *r)
{
    struct coll_tcp *g = r->g;
    struct coll_flow flows[MT_GROUP_MEMBERS_MAX];
    uint32_t         count = 0, me = g->config.rank;
    char            *out = r->call->out;
    for (uint32_t m = 0; m < g->config.members; m++) {
        if (m == me)
            continue;
        flows[count] = flow_to(m);
        flows[count].out[0] = out + slice_begin(r, me) * r->size;
        flows[count].out_size[0] = (slice_begin(r, me + 1) - slice_begin(r, me)) * r->size;
        flows[count].in = out + slice_begin(r, m) * r->size;
        flows[count].in_size = (slice_begin(r, m + 1) - slice_begin(r, m)) * r->size;
        count++;
    }
    return coll_tcp_move(g, flows, count);
}

static mt_status sum_large(struct run *r)
{
    MT_TRY(reduce_parts(r, (char *)r->call->out + slice_begin(r, r->g->config.rank) * r->size));
    return gather_slices(r);
}

/* ---- copies ---- */

/* Parts of the input to everyone (or the whole of it), parts of the output from everyone. */
static mt_status copy_parts(struct run *r, const char *in, bool has_in_parts)
{
    struct coll_tcp *g = r->g;
    struct coll_flow flows[2 * MT_GROUP_MEMBERS_MAX];
    uint32_t         count = 0, me = g->config.rank;
    char            *out = r->call->out;
    for (uint32_t m = 0; m < g->config.members; m++) {
        if (m == me)
            continue;
        flows[count] = (struct coll_flow){.peer = m, .channel = coll_tcp_way_from(g, m)};
        flows[count].in = out + m * r->part, flows[count++].in_size = r->part;
        flows[count] = flow_to(m);
        flows[count].out[0] = has_in_parts ? in + m * r->part : in, flows[count].out_size[0] = r->part;
        MT_TRY(coll_tcp_way_to(g, m, &flows[count++].channel));
    }
    if (r->part && out + me * r->part != (has_in_parts ? in + me * r->part : in))
        memcpy(out + me * r->part, has_in_parts ? in + me * r->part : in, r->part);
    return coll_tcp_move(g, flows, count);
}

static mt_status all_to_all(struct run *r)
{
    size_t whole = r->part * r->g->config.members;
    if (r->call->in != r->call->out || whole == 0)
        return copy_parts(r, r->call->in, true);
    char *copy = malloc(whole);
    if (!copy)
        return mt_error(MT_ENOMEM, 0, "no memory for the input of an all-to-all in place");
    memcpy(copy, r->call->in, whole);
    mt_status st = copy_parts(r, copy, true);
    free(copy);
    return st;
}

static mt_status broadcast(struct run *r)
{
    struct coll_tcp *g = r->g;
    struct coll_flow flows[MT_GROUP_MEMBERS_MAX];
    uint32_t         count = 0, root = r->call->root;
    for (uint32_t m = 0; m < g->config.members; m++) {
        if (m == g->config.rank || (g->config.rank != root && m != root))
            continue;
        flows[count] = flow_to(m);
        if (g->config.rank == root)
            flows[count].out[0] = r->call->in, flows[count].out_size[0] = r->part;
        else
            flows[count].in = r->call->out, flows[count].in_size = r->part;
        count++;
    }
    return coll_tcp_move(g, flows, count);
}

static void alone(const struct run *r)
{
    if (r->call->kind != COLL_BARRIER && r->call->kind != COLL_BROADCAST && r->part && r->call->out != r->call->in)
        memcpy(r->call->out, r->call->in, r->part);
}

mt_status coll_tcp_run(struct coll_tcp *g, const struct coll_call *call)
{
    struct run r = {.g = g, .call = call, .size = coll_type_size(call->type)};
    r.part = call->count * r.size;
    MT_TRY(coll_tcp_alive(g));
    if (g->config.members == 1) {
        if (call->kind != COLL_JOIN)
            alone(&r);
        return mt_ok();
    }
    if (call->kind == COLL_ALL_REDUCE && !g->is_few && r.part <= SMALL_BYTES)
        return sum_small(&r);
    MT_TRY(heads_exchange(&r, NULL, 0));
    if (g->is_few && call->kind != COLL_ALL_TO_ALL)
        return coll_few_run(g, call);
    switch (call->kind) {
    case COLL_ALL_REDUCE: return sum_large(&r);
    case COLL_REDUCE: return reduce_parts(&r, call->out);
    case COLL_REDUCE_SCATTER: return reduce_scatter(&r);
    case COLL_ALL_GATHER: return copy_parts(&r, call->in, false);
    case COLL_ALL_TO_ALL: return all_to_all(&r);
    case COLL_BROADCAST: return broadcast(&r);
    default: return mt_ok();
    }
}

/* ---- messages ---- */

static mt_status other_message(struct coll_tcp *g, const struct coll_head *sent, const struct coll_message *wanted)
{
    snprintf(g->text, sizeof g->text, "group \"%s\": rank %u sent %llu %s, rank %u expected %zu %s", g->name, wanted->peer,
             (unsigned long long)sent->count, sent->type < COLL_TYPES ? coll_type_name((enum coll_type)sent->type) : "?",
             g->config.rank, wanted->count, coll_type_name(wanted->type));
    return coll_tcp_end_with(g, wanted->peer);
}

/* Both directions at the same time: first what they are, then their data. */
mt_status coll_tcp_exchange(struct coll_tcp *g, const struct coll_message *send, const struct coll_message *receive)
{
    struct coll_head out = {.type = (uint8_t)send->type, .count = send->count}, in;
    struct coll_flow flows[2];
    uint32_t         count = 0;

    MT_TRY(coll_tcp_alive(g));
    if (send->peer < g->config.members) {
        flows[count] = flow_to(send->peer);
        MT_TRY(coll_tcp_way_to(g, send->peer, &flows[count].channel));
        flows[count].out[0] = &out, flows[count].out_size[0] = sizeof out;
        flows[count].out[1] = send->data, flows[count].out_size[1] = send->count * coll_type_size(send->type);
        count++;
    }
    if (receive->peer < g->config.members) {
        struct coll_flow *here = &flows[count++];
        *here = (struct coll_flow){
            .peer = receive->peer, .channel = coll_tcp_way_from(g, receive->peer), .in = &in, .in_size = sizeof in};
        MT_TRY(coll_tcp_move_in(g, flows, count));
        if (in.type != (uint8_t)receive->type || in.count != receive->count)
            return other_message(g, &in, receive);
        here->in = receive->data, here->in_size = receive->count * coll_type_size(receive->type), here->in_done = 0;
    }
    return coll_tcp_move(g, flows, count);
}
