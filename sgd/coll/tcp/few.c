/* SPDX-License-Identifier: Apache-2.0
 *
 * few.c - sums by recursive halving, gathers by doubling, and broadcasts along the connections that these have.
 *
 * A sum of 16-bit floats travels as float32 until it is complete: the tree rounds once.
 *
 * Owns: copies while a call runs. Thread: one at a time per struct coll_tcp.
 */
#include "sgd/coll/tcp/few.h"

#include "sgd/coll/tcp/halving.h"

#include <stdlib.h>
#include <string.h>

enum { PAIRS_MAX = MT_GROUP_MEMBERS_MAX / 2, GATHERED_BYTES = 16 * 1024 };

/* Where the slices stand, in elements. */
struct slices {
    uint32_t members, positions; /* 2^K */
    uint8_t  order[MT_GROUP_MEMBERS_MAX];
    size_t   at[MT_GROUP_MEMBERS_MAX], count[MT_GROUP_MEMBERS_MAX];
};

static struct slices slices_new(uint32_t members)
{
    struct slices s = {.members = members, .positions = 1u << coll_halving_steps(members)};
    for (uint32_t i = 0; i < s.positions; i++)
        s.order[i] = (uint8_t)coll_halving_slice(members, i);
    return s;
}

/* A part of each member's, in the order of ranks. */
static struct slices slices_of_parts(uint32_t members, size_t count)
{
    struct slices s = slices_new(members);
    for (uint32_t m = 0; m < members; m++)
        s.at[m] = m * count, s.count[m] = count;
    return s;
}

/* A vector cut into whole lines, in an order in which what a step keeps is one run. */
static struct slices slices_of_vector(uint32_t members, size_t count, size_t element)
{
    struct slices s = slices_new(members);
    size_t        line = 64 / element, lines = (count + line - 1) / line, at = 0;
    for (uint32_t i = 0, cut = 0; i < s.positions; i++) {
        uint32_t slice = s.order[i];
        if (slice >= members)
            continue;
        size_t end = lines * ++cut / members * line;
        end = end < count ? end : count;
        s.at[slice] = at, s.count[slice] = end - at;
        at = end;
    }
    return s;
}

/* The slices `which`, which + modulus, ... of a vector as places in memory; returns their bytes. */
static size_t places_of(const struct slices *s, const char *vector, size_t element, uint32_t which, uint32_t modulus,
                        struct iovec *out, uint32_t *out_count)
{
    size_t   bytes = 0;
    uint32_t count = 0;
    for (uint32_t i = 0; i < s->positions; i++) {
        uint32_t slice = s->order[i];
        if (slice % modulus != which || s->count[slice] == 0)
            continue;
        char  *at = (char *)(uintptr_t)vector + s->at[slice] * element;
        size_t size = s->count[slice] * element;
        if (count && (char *)out[count - 1].iov_base + out[count - 1].iov_len == at)
            out[count - 1].iov_len += size;
        else
            out[count++] = (struct iovec){at, size};
        bytes += size;
    }
    *out_count = count;
    return bytes;
}

/* ---- gathering ---- */

/* Each member's slice stands in `vector`; then all do. */
static mt_status gather(struct coll_tcp *g, const struct slices *s, void *vector, size_t element)
{
    struct coll_pair pairs[PAIRS_MAX];
    struct coll_flow flows[PAIRS_MAX];
    for (uint32_t step = coll_halving_steps(s->members); step-- > 0;) {
        struct iovec places[2 * MT_GROUP_MEMBERS_MAX], *next = places;
        uint32_t     count = coll_halving_pairs(s->members, g->config.rank, step, pairs), used;
        for (uint32_t i = 0; i < count; i++) {
            flows[i] = (struct coll_flow){.peer = pairs[i].peer, .outs = next};
            flows[i].out_size[1] = places_of(s, vector, element, pairs[i].keep, 2u << step, next, &used);
            next += used;
            flows[i].ins = next;
            flows[i].in_size = places_of(s, vector, element, pairs[i].give, 2u << step, next, &used);
            next += used;
        }
        if (count)
            MT_TRY(coll_tcp_move(g, flows, count));
    }
    return mt_ok();
}

mt_status coll_few_heads(struct coll_tcp *g, struct coll_head heads[MT_GROUP_MEMBERS_MAX])
{
    struct slices s = slices_of_parts(g->config.members, 1);
    return gather(g, &s, heads, sizeof heads[0]);
}

/* ---- sums ---- */

/* A sum on its way. */
struct sum {
    struct coll_tcp        *g;
    const struct coll_call *call;
    struct slices           slices;
    enum coll_type          type;    /* in which it travels */
    size_t                  element; /* of that */
    const char             *from;    /* what this member has by now: its input at first, then `to` */
    char                   *to;
};

/* What a pair keeps, as far as it is joined. */
struct keeper {
    struct iovec *at, *end;
    size_t        done;
};

/* The next chunk that is to come of each; false: there is none. */
static bool chunks_begin(struct sum *s, struct coll_flow *flows, struct keeper *keepers, uint32_t count)
{
    bool any = false;
    for (uint32_t i = 0; i < count; i++) {
        struct keeper *k = &keepers[i];
        if (k->at < k->end && k->done == k->at->iov_len)
            k->at++, k->done = 0;
        size_t left = k->at < k->end ? k->at->iov_len - k->done : 0;
        flows[i].in = s->g->scratch + (size_t)i * MT_COLL_CHUNK_BYTES;
        flows[i].in_size = left < MT_COLL_CHUNK_BYTES ? left : MT_COLL_CHUNK_BYTES;
        flows[i].in_done = 0;
        any = any || flows[i].in_size;
    }
    return any;
}

/* What has come, and what this member has of it: the lower ranks' first. */
static void chunk_join(struct sum *s, const struct coll_flow *flow, struct keeper *k, bool is_left)
{
    enum coll_op op = s->call->op == COLL_MEAN ? COLL_SUM : s->call->op;
    if (flow->in_size == 0)
        return;
    char       *to = (char *)k->at->iov_base + k->done;
    const char *mine = s->from + (to - s->to);
    const void *both[2] = {is_left ? mine : flow->in, is_left ? flow->in : mine};
    coll_reduce(s->g->loops, s->type, op, both, 2, flow->in_size / s->element, to, false, NULL);
    k->done += flow->in_size;
}

static mt_status halve(struct sum *s, uint32_t step)
{
    struct coll_pair pairs[PAIRS_MAX];
    struct coll_flow flows[PAIRS_MAX];
    struct keeper    keepers[PAIRS_MAX];
    struct iovec     places[2 * MT_GROUP_MEMBERS_MAX], *next = places;
    uint32_t         count = coll_halving_pairs(s->slices.members, s->g->config.rank, step, pairs), used;
    for (uint32_t i = 0; i < count; i++) {
        flows[i] = (struct coll_flow){.peer = pairs[i].peer, .outs = next};
        flows[i].out_size[1] = places_of(&s->slices, s->from, s->element, pairs[i].give, 2u << step, next, &used);
        next += used;
        (void)places_of(&s->slices, s->to, s->element, pairs[i].keep, 2u << step, next, &used);
        keepers[i] = (struct keeper){next, next + used, 0};
        next += used;
    }
    if (count == 0)
        return mt_ok();
    while (chunks_begin(s, flows, keepers, count)) {
        MT_TRY(coll_tcp_move_in(s->g, flows, count));
        for (uint32_t i = 0; i < count; i++)
            chunk_join(s, &flows[i], &keepers[i], pairs[i].is_left);
    }
    s->from = s->to;
    return coll_tcp_move(s->g, flows, count);
}

/* This member's slice of the sum, into `out`. `room` holds the vector while it is summed, where `out` does not. */
static mt_status scatter(struct coll_tcp *g, const struct coll_call *call, const struct slices *slices, size_t total, void *out)
{
    bool       is_part = call->kind == COLL_REDUCE_SCATTER;
    struct sum s = {.g = g, .call = call, .slices = *slices, .type = coll_partial_type(call->type), .from = call->in};
    size_t     size = coll_type_size(call->type), mine = slices->at[g->config.rank];
    char      *room = NULL;
    s.element = coll_type_size(s.type);
    if (is_part || s.type != call->type) {
        room = aligned_alloc(64, (total * s.element + 64) / 64 * 64);
        if (!room)
            return mt_error(MT_ENOMEM, 0, "no memory for a sum on its way");
    }
    s.to = room ? room : out;
    if (s.type != call->type) {
        coll_widen(g->loops, call->type, room, call->in, total);
        s.from = room;
    }
    mt_status st = mt_ok();
    for (uint32_t step = 0; st.code == MT_OK && step < coll_halving_steps(slices->members); step++)
        st = halve(&s, step);
    if (st.code == MT_OK)
        coll_partial_end(g->loops, call->type, call->op, s.to + mine * s.element, slices->members, slices->count[g->config.rank],
                         (char *)out + (is_part ? 0 : mine * size));
    free(room);
    return st;
}

/* A small one: everyone gets all inputs. */
static mt_status sum_gathered(struct coll_tcp *g, const struct coll_call *call, void *out)
{
    size_t        part = coll_part_bytes(call);
    struct slices s = slices_of_parts(g->config.members, part);
    const void   *in[MT_GROUP_MEMBERS_MAX];
    for (uint32_t m = 0; m < g->config.members; m++)
        in[m] = g->scratch + m * part;
    memcpy(g->scratch + g->config.rank * part, call->in, part);
    MT_TRY(gather(g, &s, g->scratch, 1));
    coll_reduce(g->loops, call->type, call->op, in, g->config.members, call->count, out, false, NULL);
    return mt_ok();
}

static mt_status all_reduce(struct coll_tcp *g, const struct coll_call *call, void *out)
{
    size_t size = coll_type_size(call->type);
    if (call->count == 0)
        return mt_ok();
    if (call->count * size * g->config.members <= GATHERED_BYTES)
        return sum_gathered(g, call, out);
    struct slices s = slices_of_vector(g->config.members, call->count, size);
    MT_TRY(scatter(g, call, &s, call->count, out));
    return gather(g, &s, out, size);
}

/* To everyone: for the root alone it would be (p - 1) vectors through its own connections. */
static mt_status reduce(struct coll_tcp *g, const struct coll_call *call)
{
    if (call->root == g->config.rank || call->count == 0)
        return all_reduce(g, call, call->out);
    void *room = malloc(coll_part_bytes(call));
    if (!room)
        return mt_error(MT_ENOMEM, 0, "no memory for a sum on its way");
    mt_status st = all_reduce(g, call, room);
    free(room);
    return st;
}

static mt_status reduce_scatter(struct coll_tcp *g, const struct coll_call *call)
{
    struct slices s = slices_of_parts(g->config.members, call->count);
    return call->count ? scatter(g, call, &s, call->count * g->config.members, call->out) : mt_ok();
}

static mt_status all_gather(struct coll_tcp *g, const struct coll_call *call)
{
    struct slices s = slices_of_parts(g->config.members, call->count);
    size_t        part = coll_part_bytes(call);
    char         *mine = (char *)call->out + g->config.rank * part;
    if (part && mine != call->in)
        memcpy(mine, call->in, part);
    return gather(g, &s, call->out, coll_type_size(call->type));
}

/* ---- broadcast ---- */

/* From whom this member gets it, and to whom it passes it on: the shortest ways from the root. */
static uint64_t branch_of(const struct coll_tcp *g, uint32_t root, uint32_t *out_parent)
{
    uint64_t reached = 1ull << root, children = 0;
    for (uint64_t last = reached, now; last; last = now) {
        now = 0;
        for (uint32_t m = 0; m < g->config.members; m++) {
            uint64_t fresh = last >> m & 1 ? g->near[m] & ~reached : 0;
            if (m == g->config.rank)
                children |= fresh;
            if (fresh >> g->config.rank & 1)
                *out_parent = m;
            reached |= fresh;
            now |= fresh;
        }
    }
    return children;
}

/* Chunk by chunk: what has come goes on while the next comes. */
static mt_status broadcast(struct coll_tcp *g, const struct coll_call *call)
{
    struct coll_flow flows[MT_GROUP_MEMBERS_MAX];
    uint32_t         count = 0, parent = g->config.rank;
    uint64_t         children = branch_of(g, call->root, &parent);
    bool             is_root = parent == g->config.rank;
    size_t           part = coll_part_bytes(call), passed = is_root ? part : 0;
    if (!is_root)
        flows[count++] = (struct coll_flow){.peer = parent, .in = call->out};
    for (; children; children &= children - 1) {
        flows[count] = (struct coll_flow){.peer = (uint32_t)__builtin_ctzll(children)};
        flows[count].out[0] = is_root ? call->in : call->out;
        flows[count++].out_size[0] = passed;
    }
    while (passed < part) {
        passed = part - passed < MT_COLL_CHUNK_BYTES ? part : passed + MT_COLL_CHUNK_BYTES;
        flows[0].in_size = passed;
        MT_TRY(coll_tcp_move_in(g, flows, count));
        for (uint32_t i = 1; i < count; i++)
            flows[i].out_size[0] = passed;
    }
    return count ? coll_tcp_move(g, flows, count) : mt_ok();
}

mt_status coll_few_run(struct coll_tcp *g, const struct coll_call *call)
{
    switch (call->kind) {
    case COLL_ALL_REDUCE: return all_reduce(g, call, call->out);
    case COLL_REDUCE: return reduce(g, call);
    case COLL_REDUCE_SCATTER: return reduce_scatter(g, call);
    case COLL_ALL_GATHER: return all_gather(g, call);
    case COLL_BROADCAST: return broadcast(g, call);
    default: return mt_ok();
    }
}
