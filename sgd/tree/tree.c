/* SPDX-License-Identifier: Apache-2.0
 *
 * tree.c - pieces, lanes and sums of the fixed tree.
 *
 * Owns: nothing. Thread: any.
 */
#include "sgd/tree/tree.h"

#include <string.h>

enum { BLOCK = 512 }; /* floats that are joined at a time: they stay in the first cache */

/* ---- pieces ---- */

uint32_t sgd_pieces_of(uint32_t first, uint32_t last, struct sgd_piece out[SGD_PIECES_MAX])
{
    uint32_t at = first, count = 0;
    while (at < last) {
        uint32_t level = at ? (uint32_t)__builtin_ctz(at) : 31;
        while (level > 31 - (uint32_t)__builtin_clz(last - at))
            level--;
        out[count++] = (struct sgd_piece){at, level};
        at += 1u << level;
    }
    return count;
}

/* ---- lanes ---- */

/* Of those that are computed upwards, when `done` of the lane are. */
static uint32_t up_of(const struct sgd_lane *lane, uint32_t done)
{
    uint32_t all = lane->last - lane->turn;
    return done < all ? done : all;
}

uint32_t sgd_lane_height(const struct sgd_lane *lane, uint32_t done)
{
    struct sgd_piece pieces[SGD_PIECES_MAX];
    uint32_t         up = up_of(lane, done);
    return sgd_pieces_of(lane->turn, lane->turn + up, pieces) + sgd_pieces_of(lane->turn - (done - up), lane->turn, pieces);
}

/* Of pieces that are computed from number `turn` on, then those before it: while the last gradient of one with 2^l is computed, l
 * sums of it wait, and one for each of the pieces before it. */
static uint32_t buffers_of(const struct sgd_piece *pieces, uint32_t count, uint32_t turn)
{
    uint32_t most = 0;
    for (uint32_t i = 0; i < count; i++) {
        uint32_t waiting = i + pieces[i < count - turn ? turn + i : count - 1 - i].level;
        most = waiting > most ? waiting : most;
    }
    return most + 1;
}

uint32_t sgd_lane_buffers(const struct sgd_lane *lane)
{
    struct sgd_piece pieces[SGD_PIECES_MAX];
    uint32_t         count = sgd_pieces_of(lane->first, lane->last, pieces), turn = 0;
    while (turn < count && pieces[turn].first < lane->turn)
        turn++;
    return buffers_of(pieces, count, turn);
}

struct sgd_lane sgd_lane_of(uint32_t first, uint32_t last, uint32_t index, uint32_t count)
{
    struct sgd_piece pieces[SGD_PIECES_MAX];
    uint32_t         least = UINT32_MAX;
    struct sgd_lane  lane = {first + sgd_share_first(last - first, count, index),
                             first + sgd_share_first(last - first, count, index + 1), 0};
    uint32_t         all = sgd_pieces_of(lane.first, lane.last, pieces);
    for (uint32_t turn = 0; turn <= all; turn++) {
        uint32_t buffers = buffers_of(pieces, all, turn);
        if (buffers >= least)
            continue;
        least = buffers;
        lane.turn = turn < all ? pieces[turn].first : lane.last;
    }
    return lane;
}

uint32_t sgd_lane_left(const struct sgd_lane *lane, struct sgd_left out[SGD_PIECES_MAX])
{
    struct sgd_piece up[SGD_PIECES_MAX], down[SGD_PIECES_MAX];
    uint32_t         done = sgd_lane_length(lane) - 1, ups = up_of(lane, done), count = 0;
    uint32_t         up_count = sgd_pieces_of(lane->turn, lane->turn + ups, up);
    uint32_t         down_count = sgd_pieces_of(lane->turn - (done - ups), lane->turn, down);
    struct sgd_left  last = {{sgd_lane_vrank(lane, done), 0}, up_count + down_count};
    if (last.piece.first < lane->turn)
        out[count++] = last;
    for (uint32_t i = 0; i < down_count; i++) /* the lowest one came last */
        out[count++] = (struct sgd_left){down[i], up_count + down_count - 1 - i};
    for (uint32_t i = 0; i < up_count; i++)
        out[count++] = (struct sgd_left){up[i], i};
    if (last.piece.first >= lane->turn)
        out[count++] = last;
    return count;
}

static uint32_t share_buffers(uint32_t first, uint32_t last, uint32_t lanes)
{
    uint32_t buffers = 0, count = lanes < last - first ? lanes : last - first;
    for (uint32_t i = 0; i < count; i++) {
        struct sgd_lane lane = sgd_lane_of(first, last, i, count);
        buffers += sgd_lane_buffers(&lane);
    }
    return buffers;
}

uint32_t sgd_tree_buffers(uint32_t vranks, uint32_t members, uint32_t lanes)
{
    uint32_t most = 0;
    for (uint32_t m = 1; m <= members && m <= vranks; m++) {
        uint32_t buffers = 0;
        for (uint32_t r = 0; r < m; r++)
            buffers += share_buffers(sgd_share_first(vranks, m, r), sgd_share_first(vranks, m, r + 1), lanes);
        most = buffers > most ? buffers : most;
    }
    return most;
}

/* ---- sums ---- */

mt_status sgd_tree_add(const struct k_ops *ops, float *left, const float *right, struct sgd_range range)
{
    return ops->axpy(NULL, 1.0f, right + range.begin, left + range.begin, range.end - range.begin);
}

/* Sums that wait for their right half: `level`, and where a block of them stands. */
struct stack {
    const struct k_ops *ops;
    uint32_t            depth, level[SGD_PIECES_MAX];
    const float        *at[SGD_PIECES_MAX];
    float               sum[SGD_PIECES_MAX][BLOCK];
};

static mt_status top_join(struct stack *s, size_t count)
{
    uint32_t left = s->depth - 2;
    MT_TRY(s->ops->tree_sum(NULL, &s->at[left], 2, count, s->sum[left]));
    s->at[left] = s->sum[left];
    s->level[left]++;
    s->depth--;
    return mt_ok();
}

/* Addends come in the order of virtual ranks. Two of one size are one of the next; what is left at the end
 * joins from the right: as tree_sum does with single inputs. The sum is then at s->at[0]. */
static mt_status block_join(struct stack *s, const struct sgd_addend *addends, size_t addend_count, size_t begin, size_t count)
{
    s->depth = 0;
    for (size_t i = 0; i < addend_count; i++) {
        MT_ASSERT(s->depth < SGD_PIECES_MAX);
        s->level[s->depth] = addends[i].piece.level;
        s->at[s->depth++] = addends[i].at + begin;
        while (s->depth > 1 && s->level[s->depth - 2] == s->level[s->depth - 1])
            MT_TRY(top_join(s, count));
    }
    while (s->depth > 1)
        MT_TRY(top_join(s, count));
    return mt_ok();
}

mt_status sgd_tree_join(const struct k_ops *ops, const struct sgd_addend *addends, size_t addend_count, struct sgd_range range,
                        size_t scaled, float scale, float *out)
{
    struct stack s;
    s.ops = ops;
    for (size_t begin = range.begin, count; begin < range.end; begin += count) {
        count = range.end - begin < BLOCK ? range.end - begin : BLOCK;
        MT_TRY(block_join(&s, addends, addend_count, begin, count));
        memcpy(out + begin, s.at[0], count * sizeof *out);
        for (size_t i = begin; i < begin + count && i < scaled; i++)
            out[i] *= scale;
    }
    return mt_ok();
}
