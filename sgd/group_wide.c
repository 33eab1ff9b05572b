/* SPDX-License-Identifier: Apache-2.0
 *
 * group_wide.c - pieces of the tree, their exchange between leaders, and the joining of all of them.
 *
 * Owns: the growth of a leader's scratch. Thread: the group's.
 */
#include "sgd/group_wide.h"

#include "sgd/coll_tcp_private.h"
#include "sgd/shard.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { LINE = 16 };

/* ---- pieces ---- */

static uint32_t vrank_of(const struct sgd_group *group, uint32_t rank)
{
    return (uint32_t)((uint64_t)group->plan.vranks * rank / group->members);
}

uint32_t sgd_group_pieces(const struct sgd_group *group, uint32_t node, struct sgd_piece out[SGD_PIECES_MAX])
{
    uint32_t at = vrank_of(group, group->net.first[node]), last = vrank_of(group, group->net.first[node + 1]), count = 0;
    while (at < last) {
        uint32_t level = at ? (uint32_t)__builtin_ctz(at) : 31;
        while (level > 31 - (uint32_t)__builtin_clz(last - at))
            level--;
        out[count++] = (struct sgd_piece){at, level};
        at += 1u << level;
    }
    return count;
}

float *sgd_group_partial(const struct sgd_group *group, const struct sgd_piece *piece, uint32_t index)
{
    return piece->level == 0 ? sgd_group_slot(group, piece->first) : group->partials + index * group->stride;
}

/* ---- one sum ---- */

/* A piece on its way into the sum: where the values of this leader's slice stand. */
struct part {
    struct sgd_piece piece;
    float           *at;
};

/* The ranges of a sum stand one after the other in a leader's scratch: first what it sends of each of its pieces, then their
 * sum, then what it gets from the others. */
struct sum {
    struct sgd_group       *group;
    const struct k_ops     *ops;
    const struct sgd_range *ranges;
    size_t                  count, floats; /* of all ranges */
    struct sgd_piece        pieces[MT_GROUP_MEMBERS_MAX][SGD_PIECES_MAX];
    uint32_t                counts[MT_GROUP_MEMBERS_MAX];
    uint32_t                before[MT_GROUP_MEMBERS_MAX + 1]; /* pieces of all nodes before this one */
    struct part             stack[2 * SGD_PIECES_MAX];
    float                  *packed, *out, *theirs;
    uint64_t                shape;
    size_t                  stride; /* of packed pieces */
};

/* Floats of the ranges, as they are packed, that stand before this one of a slot. */
static size_t packed_before(const struct sum *s, size_t at)
{
    size_t floats = 0;
    for (size_t i = 0; i < s->count && s->ranges[i].begin < at; i++)
        floats += (at < s->ranges[i].end ? at : s->ranges[i].end) - s->ranges[i].begin;
    return floats;
}

static bool is_scattered(const struct sgd_group *group)
{
    return group->plan.is_sharded && !group->plan.is_mirrored;
}

/* Of the sum's lines each node joins its share; of a scattered one, its members' shards, and the last node what follows them. */
static size_t slice_at(const struct sum *s, uint32_t node)
{
    const struct sgd_group *group = s->group;
    if (is_scattered(group) && node == group->net.nodes)
        return s->floats;
    if (is_scattered(group))
        return packed_before(s, sgd_shard_begin(group->plan.mean_floats, group->net.first[node], group->members));
    size_t lines = (s->floats + LINE - 1) / LINE, at = lines * node / s->group->net.nodes * LINE;
    return at < s->floats ? at : s->floats;
}

static size_t slice_floats(const struct sum *s, uint32_t node)
{
    return slice_at(s, node + 1) - slice_at(s, node);
}

static size_t lines_of(size_t floats)
{
    return (floats + LINE - 1) / LINE * LINE;
}

/* Where this node's slice of a piece stands; of a first one, its sender's shape stands a line before. */
static float *piece_at(const struct sum *s, uint32_t node, uint32_t index)
{
    return s->theirs + (s->before[node] + index) * lines_of(slice_floats(s, s->group->net.node)) + (node + 1) * LINE;
}

static float *head_at(const struct sum *s, uint32_t node)
{
    return piece_at(s, node, 0) - LINE;
}

static mt_status sum_begin(struct sum *s)
{
    struct sgd_group *group = s->group;
    for (size_t i = 0; i < s->count; i++)
        s->floats += s->ranges[i].end - s->ranges[i].begin;
    for (uint32_t n = 0; n < group->net.nodes; n++) {
        s->counts[n] = sgd_group_pieces(group, n, s->pieces[n]);
        s->before[n + 1] = s->before[n] + s->counts[n];
    }
    s->stride = lines_of(s->floats);
    size_t mine = s->counts[group->net.node], slice = lines_of(slice_floats(s, group->net.node));
    size_t floats = (mine + 1) * s->stride + s->before[group->net.nodes] * slice + group->net.nodes * LINE;
    if (floats > group->scratch_floats) {
        free(group->scratch);
        group->scratch_floats = 0;
        group->scratch = aligned_alloc(64, floats * sizeof(float));
        if (!group->scratch)
            return mt_error(MT_ENOMEM, 0, "group: no memory for the other nodes' sums");
        group->scratch_floats = floats;
    }
    s->packed = group->scratch;
    s->out = s->packed + mine * s->stride;
    s->theirs = s->out + s->stride;
    return mt_ok();
}

static void pack(struct sum *s)
{
    struct sgd_group *group = s->group;
    for (uint32_t p = 0; p < s->counts[group->net.node]; p++) {
        const float *from = sgd_group_partial(group, &s->pieces[group->net.node][p], p);
        float       *to = s->packed + p * s->stride;
        for (size_t i = 0; i < s->count; i++)
            to = mempcpy(to, from + s->ranges[i].begin, (s->ranges[i].end - s->ranges[i].begin) * sizeof(float));
    }
}

/* What is packed from `begin` to `end`, into the sum; makes means of what is to be averaged. */
static void unpack(struct sum *s, size_t begin, size_t end)
{
    float  part = 1.0f / (float)s->group->plan.vranks, *sum = s->group->sum;
    size_t mean = s->group->plan.mean_floats, before = 0;
    for (size_t i = 0; i < s->count; before += s->ranges[i].end - s->ranges[i].begin, i++) {
        size_t from = begin > before ? begin - before : 0, size = s->ranges[i].end - s->ranges[i].begin;
        size_t to = end > before ? end - before : 0, at = s->ranges[i].begin + from;
        const float *in = s->out + before + from;
        to = to < size ? to : size;
        for (; from < to && at < mean; from++)
            sum[at++] = *in++ * part;
        for (; from < to; from++)
            sum[at++] = *in++;
    }
}

/* Everybody's i-th piece: to each other node its slice of mine, from each my slice of its. */
static mt_status pieces_exchange(struct sum *s, uint32_t index)
{
    struct sgd_group *group = s->group;
    struct coll_flow  flows[MT_GROUP_MEMBERS_MAX];
    uint32_t          count = 0, me = group->net.node;
    const float      *mine = index < s->counts[me] ? s->packed + index * s->stride : NULL;
    uint64_t          head[LINE * sizeof(float) / sizeof(uint64_t)] = {s->shape};
    size_t            head_floats = index == 0 ? LINE : 0;
    for (uint32_t n = 0; n < group->net.nodes; n++) {
        if (n == me)
            continue;
        struct coll_flow *f = &flows[count++];
        *f = (struct coll_flow){.peer = n};
        f->out[0] = head, f->out_size[0] = head_floats * sizeof(float);
        if (mine)
            f->out[1] = mine + slice_at(s, n), f->out_size[1] = slice_floats(s, n) * sizeof(float);
        if (index < s->counts[n])
            f->in = piece_at(s, n, index) - head_floats, f->in_size = (head_floats + slice_floats(s, me)) * sizeof(float);
    }
    if (mine)
        memcpy(piece_at(s, me, index), mine + slice_at(s, me), slice_floats(s, me) * sizeof(float));
    return coll_tcp_move(&group->tcp, flows, count);
}

/* All nodes sum the same ranges. */
static mt_status heads_compare(struct sum *s)
{
    struct coll_tcp *tcp = &s->group->tcp;
    for (uint32_t n = 0; n < s->group->net.nodes; n++) {
        if (n == s->group->net.node || memcmp(head_at(s, n), &s->shape, sizeof s->shape) == 0)
            continue;
        snprintf(tcp->text, sizeof tcp->text, "node %u and node %u sum other parts of the gradient", s->group->net.node, n);
        return coll_tcp_end_with(tcp, n);
    }
    return mt_ok();
}

/* left + right, into right's place. */
static mt_status join(const struct sum *s, const struct part *left, struct part *right)
{
    const float *const in[2] = {left->at, right->at};
    right->piece.first = left->piece.first;
    right->piece.level = left->piece.level + 1;
    return s->ops->tree_sum(NULL, in, 2, slice_floats(s, s->group->net.node), right->at);
}

/* Pieces come in the order of virtual ranks. Two of one size, the left one at an even place, are one of the next; what is left
 * at the end joins from the right: as tree_sum does with single inputs. */
static mt_status pieces_join(struct sum *s)
{
    uint32_t depth = 0, me = s->group->net.node;
    for (uint32_t n = 0; n < s->group->net.nodes; n++)
        for (uint32_t i = 0; i < s->counts[n]; i++) {
            s->stack[depth++] = (struct part){s->pieces[n][i], piece_at(s, n, i)};
            for (; depth > 1 && s->stack[depth - 2].piece.level == s->stack[depth - 1].piece.level; depth--) {
                MT_TRY(join(s, &s->stack[depth - 2], &s->stack[depth - 1]));
                s->stack[depth - 2] = s->stack[depth - 1];
            }
        }
    for (; depth > 1; depth--) {
        MT_TRY(join(s, &s->stack[depth - 2], &s->stack[depth - 1]));
        s->stack[depth - 2] = s->stack[depth - 1];
    }
    memcpy(s->out + slice_at(s, me), s->stack[0].at, slice_floats(s, me) * sizeof(float));
    return mt_ok();
}

static size_t larger(size_t a, size_t b)
{
    return a > b ? a : b;
}

/* From `first` on, all nodes get the sum. */
static mt_status slices_gather(struct sum *s, size_t first)
{
    struct sgd_group *group = s->group;
    struct coll_flow  flows[MT_GROUP_MEMBERS_MAX];
    uint32_t          count = 0, me = group->net.node;
    size_t            mine = larger(first, slice_at(s, me));
    for (uint32_t n = 0; n < group->net.nodes; n++) {
        if (n == me)
            continue;
        struct coll_flow *f = &flows[count++];
        size_t at = larger(first, slice_at(s, n));
        *f = (struct coll_flow){.peer = n};
        f->out[0] = s->out + mine, f->out_size[0] = (larger(mine, slice_at(s, me + 1)) - mine) * sizeof(float);
        f->in = s->out + at, f->in_size = (larger(at, slice_at(s, n + 1)) - at) * sizeof(float);
    }
    return coll_tcp_move(&group->tcp, flows, count);
}

mt_status sgd_group_sum_nodes(struct sgd_group *group, const struct k_ops *ops, const struct sgd_range *ranges, size_t count,
                              uint64_t shape)
{
    struct sum s = {.group = group, .ops = ops, .ranges = ranges, .count = count, .shape = shape};
    uint32_t   rounds = 0;
    MT_TRY(sum_begin(&s));
    MT_TRY(coll_tcp_alive(&group->tcp));
    pack(&s);
    for (uint32_t n = 0; n < group->net.nodes; n++)
        rounds = s.counts[n] > rounds ? s.counts[n] : rounds;
    for (uint32_t i = 0; i < rounds; i++)
        MT_TRY(pieces_exchange(&s, i));
    MT_TRY(heads_compare(&s));
    MT_TRY(pieces_join(&s));
    size_t first = is_scattered(group) ? packed_before(&s, group->plan.mean_floats) : 0;
    if (first < s.floats)
        MT_TRY(slices_gather(&s, first));
    unpack(&s, first, s.floats);
    size_t end = slice_at(&s, group->net.node + 1);
    if (first)
        unpack(&s, slice_at(&s, group->net.node), end < first ? end : first);
    return mt_ok();
}
