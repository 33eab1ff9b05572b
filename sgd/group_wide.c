/* SPDX-License-Identifier: Apache-2.0
 *
 * group_wide.c - pieces of the tree, their exchange between leaders, and the joining of all of them.
 *
 * Owns: the growth of a leader's scratch. Thread: the group's.
 */
#include "sgd/group_wide.h"

#include "sgd/coll_tcp_private.h"

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
    size_t                  stride; /* of packed pieces */
};

/* Of the sum's lines each node joins its share. */
static size_t slice_at(const struct sum *s, uint32_t node)
{
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

/* Where this node's slice of a piece stands. */
static float *piece_at(const struct sum *s, uint32_t node, uint32_t index)
{
    return s->theirs + (s->before[node] + index) * lines_of(slice_floats(s, s->group->net.node));
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
    size_t floats = (mine + 1) * s->stride + s->before[group->net.nodes] * slice;
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

/* And makes means of what is to be averaged. */
static void unpack(struct sum *s)
{
    float        part = 1.0f / (float)s->group->plan.vranks, *sum = s->group->sum;
    const float *from = s->out;
    size_t       mean = s->group->plan.mean_floats;
    for (size_t i = 0; i < s->count; i++)
        for (size_t at = s->ranges[i].begin; at < s->ranges[i].end; at++, from++)
            sum[at] = at < mean ? *from * part : *from;
}

/* Everybody's i-th piece: to each other node its slice of mine, from each my slice of its. */
static mt_status pieces_exchange(struct sum *s, uint32_t index)
{
    struct sgd_group *group = s->group;
    struct coll_flow  flows[MT_GROUP_MEMBERS_MAX];
    uint32_t          count = 0, me = group->net.node;
    const float      *mine = index < s->counts[me] ? s->packed + index * s->stride : NULL;
    for (uint32_t n = 0; n < group->net.nodes; n++) {
        if (n == me)
            continue;
        struct coll_flow *f = &flows[count++];
        *f = (struct coll_flow){.peer = n};
        if (mine)
            f->out[0] = mine + slice_at(s, n), f->out_size[0] = slice_floats(s, n) * sizeof(float);
        if (index < s->counts[n])
            f->in = piece_at(s, n, index), f->in_size = slice_floats(s, me) * sizeof(float);
    }
    if (mine)
        memcpy(piece_at(s, me, index), mine + slice_at(s, me), slice_floats(s, me) * sizeof(float));
    return coll_tcp_move(&group->tcp, flows, count);
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

static mt_status slices_gather(struct sum *s)
{
    struct sgd_group *group = s->group;
    struct coll_flow  flows[MT_GROUP_MEMBERS_MAX];
    uint32_t          count = 0, me = group->net.node;
    for (uint32_t n = 0; n < group->net.nodes; n++) {
        if (n == me)
            continue;
        struct coll_flow *f = &flows[count++];
        *f = (struct coll_flow){.peer = n};
        f->out[0] = s->out + slice_at(s, me), f->out_size[0] = slice_floats(s, me) * sizeof(float);
        f->in = s->out + slice_at(s, n), f->in_size = slice_floats(s, n) * sizeof(float);
    }
    return coll_tcp_move(&group->tcp, flows, count);
}

mt_status sgd_group_sum_nodes(struct sgd_group *group, const struct k_ops *ops, const struct sgd_range *ranges, size_t count,
                              uint64_t shape)
{
    struct sum       s = {.group = group, .ops = ops, .ranges = ranges, .count = count};
    struct coll_call call = {.kind = COLL_BARRIER, .shape = shape};
    uint32_t         rounds = 0;
    MT_TRY(sum_begin(&s));
    MT_TRY(coll_tcp_run(&group->tcp, &call));
    pack(&s);
    for (uint32_t n = 0; n < group->net.nodes; n++)
        rounds = s.counts[n] > rounds ? s.counts[n] : rounds;
    for (uint32_t i = 0; i < rounds; i++)
        MT_TRY(pieces_exchange(&s, i));
    MT_TRY(pieces_join(&s));
    MT_TRY(slices_gather(&s));
    unpack(&s);
    return mt_ok();
}
