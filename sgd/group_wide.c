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

struct sum {
    struct sgd_group   *group;
    const struct k_ops *ops;
    size_t              begin, end;
    struct sgd_piece    pieces[MT_GROUP_MEMBERS_MAX][SGD_PIECES_MAX];
    uint32_t            counts[MT_GROUP_MEMBERS_MAX];
    uint32_t            before[MT_GROUP_MEMBERS_MAX + 1]; /* pieces of all nodes before this one */
    struct part         stack[2 * SGD_PIECES_MAX];
};

/* Of the sum's lines each node joins its share. */
static size_t slice_at(const struct sum *s, uint32_t node)
{
    size_t lines = (s->end - s->begin + LINE - 1) / LINE;
    size_t at = s->begin + lines * node / s->group->net.nodes * LINE;
    return at < s->end ? at : s->end;
}

static size_t slice_floats(const struct sum *s, uint32_t node)
{
    return slice_at(s, node + 1) - slice_at(s, node);
}

/* Where in the scratch this node's slice of a piece stands. */
static float *scratch_at(const struct sum *s, uint32_t node, uint32_t index)
{
    size_t stride = (slice_floats(s, s->group->net.node) + LINE - 1) / LINE * LINE;
    return s->group->scratch + (s->before[node] + index) * stride;
}

static mt_status scratch_fit(struct sum *s)
{
    struct sgd_group *group = s->group;
    size_t stride = (slice_floats(s, group->net.node) + LINE - 1) / LINE * LINE, floats = s->before[group->net.nodes] * stride;
    if (floats <= group->scratch_floats)
        return mt_ok();
    free(group->scratch);
    group->scratch_floats = 0;
    group->scratch = aligned_alloc(64, floats * sizeof(float));
    if (!group->scratch)
        return mt_error(MT_ENOMEM, 0, "group: no memory for the other nodes' sums");
    group->scratch_floats = floats;
    return mt_ok();
}

static void sum_begin(struct sum *s)
{
    s->before[0] = 0;
    for (uint32_t n = 0; n < s->group->net.nodes; n++) {
        s->counts[n] = sgd_group_pieces(s->group, n, s->pieces[n]);
        s->before[n + 1] = s->before[n] + s->counts[n];
    }
}

/* Everybody's i-th piece: to each other node its slice of mine, from each my slice of its. */
static mt_status pieces_exchange(struct sum *s, uint32_t index)
{
    struct sgd_group *group = s->group;
    struct coll_flow  flows[MT_GROUP_MEMBERS_MAX];
    uint32_t          count = 0, me = group->net.node;
    const float      *mine = index < s->counts[me] ? sgd_group_partial(group, &s->pieces[me][index], index) : NULL;
    for (uint32_t n = 0; n < group->net.nodes; n++) {
        if (n == me)
            continue;
        struct coll_flow *f = &flows[count++];
        *f = (struct coll_flow){.peer = n};
        if (mine)
            f->out[0] = mine + slice_at(s, n), f->out_size[0] = slice_floats(s, n) * sizeof(float);
        if (index < s->counts[n])
            f->in = scratch_at(s, n, index), f->in_size = slice_floats(s, me) * sizeof(float);
    }
    if (mine)
        memcpy(scratch_at(s, me, index), mine + slice_at(s, me), slice_floats(s, me) * sizeof(float));
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
    struct sgd_group *group = s->group;
    uint32_t          depth = 0, me = group->net.node;
    for (uint32_t n = 0; n < group->net.nodes; n++)
        for (uint32_t i = 0; i < s->counts[n]; i++) {
            s->stack[depth++] = (struct part){s->pieces[n][i], scratch_at(s, n, i)};
            for (; depth > 1 && s->stack[depth - 2].piece.level == s->stack[depth - 1].piece.level; depth--) {
                MT_TRY(join(s, &s->stack[depth - 2], &s->stack[depth - 1]));
                s->stack[depth - 2] = s->stack[depth - 1];
            }
        }
    for (; depth > 1; depth--) {
        MT_TRY(join(s, &s->stack[depth - 2], &s->stack[depth - 1]));
        s->stack[depth - 2] = s->stack[depth - 1];
    }
    float part = 1.0f / (float)group->plan.vranks, *out = group->sum + slice_at(s, me);
    size_t floats = slice_floats(s, me), mean = group->plan.mean_floats;
    for (size_t i = 0, at = slice_at(s, me); i < floats; i++, at++)
        out[i] = at < mean ? s->stack[0].at[i] * part : s->stack[0].at[i];
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
        f->out[0] = group->sum + slice_at(s, me), f->out_size[0] = slice_floats(s, me) * sizeof(float);
        f->in = group->sum + slice_at(s, n), f->in_size = slice_floats(s, n) * sizeof(float);
    }
    return coll_tcp_move(&group->tcp, flows, count);
}

mt_status sgd_group_sum_nodes(struct sgd_group *group, const struct k_ops *ops, size_t begin, size_t end)
{
    struct sum s = {.group = group, .ops = ops, .begin = begin, .end = end};
    uint32_t   rounds = 0;
    sum_begin(&s);
    MT_TRY(scratch_fit(&s));
    MT_TRY(coll_tcp_alive(&group->tcp));
    for (uint32_t n = 0; n < group->net.nodes; n++)
        rounds = s.counts[n] > rounds ? s.counts[n] : rounds;
    for (uint32_t i = 0; i < rounds; i++)
        MT_TRY(pieces_exchange(&s, i));
    MT_TRY(pieces_join(&s));
    return slices_gather(&s);
}
