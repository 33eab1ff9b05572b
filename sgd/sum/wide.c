/* SPDX-License-Identifier: Apache-2.0
 *
 * wide.c - pieces of the tree, their exchange between leaders, and the joining of all of them.
 *
 * Owns: the growth of a leader's scratch. Thread: the group's.
 */
#include "sgd/sum/wide.h"

#include "sgd/coll/tcp/move.h"
#include "sgd/sum/shard.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { LINE = 16 };

/* ---- pieces ---- */

static uint32_t vrank_of(const struct sgd_group *group, uint32_t rank)
{
    return sgd_share_first(group->plan.vranks, group->members, rank);
}

uint32_t sgd_group_pieces(const struct sgd_group *group, uint32_t node, struct sgd_piece out[SGD_PIECES_MAX])
{
    return sgd_pieces_of(vrank_of(group, group->net.first[node]), vrank_of(group, group->net.first[node + 1]), out);
}

float *sgd_group_partial(const struct sgd_group *group, uint32_t index)
{
    return group->partials + index * group->stride;
}

/* ---- one sum ---- */

/* A piece on its way into the sum: where the values of this leader's slice stand. */
struct part {
    struct sgd_piece piece;
    float           *at;
};

/* The ranges of a sum count as one vector, of which each node joins a slice. Slices go from where they stand and arrive where
 * they belong; only what this node joins is copied: into its scratch, its own pieces and those of the others. */
struct sum {
    struct sgd_group       *group;
    const struct sgd_range *ranges;
    size_t                  count, floats; /* of all ranges */
    struct sgd_piece        pieces[MT_GROUP_MEMBERS_MAX][SGD_PIECES_MAX];
    uint32_t                counts[MT_GROUP_MEMBERS_MAX];
    uint32_t                before[MT_GROUP_MEMBERS_MAX + 1]; /* pieces of all nodes before this one */
    struct part             stack[2 * SGD_PIECES_MAX];
    struct iovec           *places; /* of all slices: a range may lie in several */
    uint64_t                shape;
};

/* Floats of the ranges, as if they stood one after the other, before this one of a slot. */
static size_t floats_before(const struct sum *s, size_t at)
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
        return floats_before(s, sgd_shard_begin(group->plan.mean_floats, group->net.first[node], group->members));
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
    return s->group->scratch + (s->before[node] + index) * lines_of(slice_floats(s, s->group->net.node)) + (node + 1) * LINE;
}

static float *head_at(const struct sum *s, uint32_t node)
{
    return piece_at(s, node, 0) - LINE;
}

static mt_status scratch_grow(struct sgd_group *group, size_t floats)
{
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

static mt_status sum_begin(struct sum *s)
{
    struct sgd_group *group = s->group;
    for (size_t i = 0; i < s->count; i++)
        s->floats += s->ranges[i].end - s->ranges[i].begin;
    for (uint32_t n = 0; n < group->net.nodes; n++) {
        s->counts[n] = sgd_group_pieces(group, n, s->pieces[n]);
        s->before[n + 1] = s->before[n] + s->counts[n];
    }
    s->places = calloc(s->count + group->net.nodes, sizeof *s->places);
    if (!s->places)
        return mt_error(MT_ENOMEM, 0, "group: no memory for a list of gradients");
    return scratch_grow(group, s->before[group->net.nodes] * lines_of(slice_floats(s, group->net.node)) + group->net.nodes * LINE);
}

/* Where a node's slice stands in a vector, what comes before `first` left out; returns how many places it has. */
static size_t places_from(const struct sum *s, float *vector, uint32_t node, size_t first, struct iovec *out)
{
    size_t begin = slice_at(s, node), end = slice_at(s, node + 1), at = 0, count = 0;
    begin = begin < first ? first : begin;
    for (size_t i = 0, size; i < s->count; i++, at += size) {
        size = s->ranges[i].end - s->ranges[i].begin;
        size_t from = at > begin ? at : begin, until = at + size < end ? at + size : end;
        if (from < until)
            out[count++] = (struct iovec){vector + s->ranges[i].begin + (from - at), (until - from) * sizeof(float)};
    }
    return count;
}

static size_t places_of(const struct sum *s, float *vector, uint32_t node, struct iovec *out)
{
    return places_from(s, vector, node, 0, out);
}

/* This node's slice of its own piece, beside those that it gets. */
static void mine_copy(const struct sum *s, float *vector, uint32_t index, struct iovec *places)
{
    float *to = piece_at(s, s->group->net.node, index);
    size_t count = places_of(s, vector, s->group->net.node, places);
    for (size_t i = 0; i < count; i++)
        to = mempcpy(to, places[i].iov_base, places[i].iov_len);
}

/* Everybody's i-th piece: to each other node its slice of mine, from each my slice of its. */
static mt_status pieces_exchange(struct sum *s, uint32_t index)
{
    struct sgd_group *group = s->group;
    struct coll_flow  flows[MT_GROUP_MEMBERS_MAX];
    uint32_t          count = 0, me = group->net.node;
    float            *mine = index < s->counts[me] ? sgd_group_partial(group, index) : NULL;
    struct iovec     *places = s->places;
    uint64_t          head[LINE * sizeof(float) / sizeof(uint64_t)] = {s->shape};
    size_t            head_floats = index == 0 ? LINE : 0;
    for (uint32_t n = 0; n < group->net.nodes; n++) {
        if (n == me)
            continue;
        struct coll_flow *f = &flows[count++];
        *f = (struct coll_flow){.peer = n};
        f->out[0] = head, f->out_size[0] = head_floats * sizeof(float);
        if (mine) {
            f->outs = places, f->out_size[1] = slice_floats(s, n) * sizeof(float);
            places += places_of(s, mine, n, places);
        }
        if (index < s->counts[n])
            f->in = piece_at(s, n, index) - head_floats, f->in_size = (head_floats + slice_floats(s, me)) * sizeof(float);
    }
    if (mine)
        mine_copy(s, mine, index, places);
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
static void join(const struct sum *s, const struct part *left, struct part *right)
{
    right->piece.first = left->piece.first;
    right->piece.level = left->piece.level + 1;
    s->group->tcp.loops->combine[COLL_LANE_F32][COLL_SUM](right->at, left->at, right->at, slice_floats(s, s->group->net.node));
}

/* Pieces come in the order of virtual ranks. Two of one size, the left one at an even place, are one of the next; what is left
 * at the end joins from the right: as tree_sum does with single inputs. */
static float *pieces_join(struct sum *s)
{
    uint32_t depth = 0;
    for (uint32_t n = 0; n < s->group->net.nodes; n++)
        for (uint32_t i = 0; i < s->counts[n]; i++) {
            s->stack[depth++] = (struct part){s->pieces[n][i], piece_at(s, n, i)};
            for (; depth > 1 && s->stack[depth - 2].piece.level == s->stack[depth - 1].piece.level; depth--) {
                join(s, &s->stack[depth - 2], &s->stack[depth - 1]);
                s->stack[depth - 2] = s->stack[depth - 1];
            }
        }
    for (; depth > 1; depth--) {
        join(s, &s->stack[depth - 2], &s->stack[depth - 1]);
        s->stack[depth - 2] = s->stack[depth - 1];
    }
    return s->stack[0].at;
}

/* Makes means of what is to be averaged in this node's slice, there and where it belongs. */
static void slice_end(const struct sum *s, float *slice)
{
    float        part = 1.0f / (float)s->group->plan.vranks, *sum = s->group->sum;
    const float *limit = sum + s->group->plan.mean_floats;
    size_t       count = places_of(s, sum, s->group->net.node, s->places);
    for (size_t i = 0; i < count; i++) {
        float *to = s->places[i].iov_base, *end = to + s->places[i].iov_len / sizeof(float);
        for (; to < end && to < limit; to++, slice++)
            *to = *slice *= part;
        for (; to < end; to++, slice++)
            *to = *slice;
    }
}

/* Bytes of a node's slice that are not before `first`. */
static size_t bytes_from(const struct sum *s, uint32_t node, size_t first)
{
    size_t begin = slice_at(s, node), end = slice_at(s, node + 1);
    begin = begin < first ? first : begin;
    return begin < end ? (end - begin) * sizeof(float) : 0;
}

/* Of a scattered sum only what follows the shards is for all. */
static mt_status slices_gather(struct sum *s, const float *slice)
{
    size_t            first = is_scattered(s->group) ? floats_before(s, s->group->plan.mean_floats) : 0;
    struct sgd_group *group = s->group;
    struct coll_flow  flows[MT_GROUP_MEMBERS_MAX];
    struct iovec     *places = s->places;
    uint32_t          count = 0, me = group->net.node;
    for (uint32_t n = 0; n < group->net.nodes; n++) {
        if (n == me)
            continue;
        struct coll_flow *f = &flows[count++];
        *f = (struct coll_flow){.peer = n, .ins = places, .in_size = bytes_from(s, n, first)};
        f->out_size[0] = bytes_from(s, me, first);
        f->out[0] = slice + (slice_floats(s, me) - f->out_size[0] / sizeof(float));
        places += places_from(s, group->sum, n, first, places);
    }
    return coll_tcp_move(&group->tcp, flows, count);
}

static mt_status nodes_sum(struct sum *s)
{
    uint32_t rounds = 0;
    MT_TRY(coll_tcp_alive(&s->group->tcp));
    for (uint32_t n = 0; n < s->group->net.nodes; n++)
        rounds = s->counts[n] > rounds ? s->counts[n] : rounds;
    for (uint32_t i = 0; i < rounds; i++)
        MT_TRY(pieces_exchange(s, i));
    MT_TRY(heads_compare(s));
    float *slice = pieces_join(s);
    slice_end(s, slice);
    return slices_gather(s, slice);
}

mt_status sgd_group_scratch(struct sgd_group *group)
{
    struct sgd_range all = {0, group->plan.slot_floats};
    struct sum       s = {.group = group, .ranges = &all, .count = 1};
    mt_status        st = sum_begin(&s);
    free(s.places);
    return st;
}

mt_status sgd_group_sum_nodes(struct sgd_group *group, const struct sgd_range *ranges, size_t count, uint64_t shape)
{
    struct sum s = {.group = group, .ranges = ranges, .count = count, .shape = shape};
    mt_status  st = sum_begin(&s);
    if (st.code == MT_OK)
        st = nodes_sum(&s);
    free(s.places);
    return st;
}
