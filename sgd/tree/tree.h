/* SPDX-License-Identifier: Apache-2.0
 *
 * tree.h - the fixed binary tree over virtual ranks: its pieces, who stacks them, and their sum.
 *
 * The tree over V virtual ranks joins 0..1, 2..3, ..., then 0..3, ...: aligned runs of 2^l. A run from
 * `first` to `last` falls into the largest aligned runs that fit (its pieces): these are nodes of the tree,
 * whatever the other virtual ranks are.
 *
 * Pure functions. Thread: any.
 */
#ifndef SGD_TREE_H
#define SGD_TREE_H

#include "core/base/limits/train.h"
#include "kernels/kernels.h"

#include <stdbool.h>
#include <stddef.h>

enum { SGD_PIECES_MAX = 20 }; /* of one run: two of each size below MT_VRANKS_MAX */
static_assert(MT_VRANKS_MAX <= 1 << (SGD_PIECES_MAX / 2), "an aligned run at each end, of each size");

/* An aligned run of 2^level virtual ranks. */
struct sgd_piece {
    uint32_t first, level;
};

/* Floats of a vector. */
struct sgd_range {
    size_t begin, end;
};

/* The pieces of the virtual ranks first <= vrank < last, in order. */
uint32_t sgd_pieces_of(uint32_t first, uint32_t last, struct sgd_piece out[SGD_PIECES_MAX]);

/* ---- shares ---- */

/* The first virtual rank of one of `count` shares of so many; the next share's first is its end. The first shares have one more
 * where they can't be equal: so they begin at virtual ranks that need few buffers (docs/design/training.md). */
static inline uint32_t sgd_share_first(uint32_t vranks, uint32_t count, uint32_t index)
{
    uint32_t more = vranks % count;
    return vranks / count * index + (index < more ? index : more);
}

/* ---- lanes ---- */

/* Virtual ranks that one device computes one after the other: upwards from `turn`, then downwards from there. So the large
 * pieces come first, on both sides, and fewer sums wait beside them. */
struct sgd_lane {
    uint32_t first, last;
    uint32_t turn; /* between two pieces, or at an end */
};

/* The lane number `index` of `count` that share the virtual ranks first <= vrank < last; each has one at
 * least. */
struct sgd_lane sgd_lane_of(uint32_t first, uint32_t last, uint32_t index, uint32_t count);

static inline uint32_t sgd_lane_length(const struct sgd_lane *lane)
{
    return lane->last - lane->first;
}

/* The virtual rank that is computed after `done` others, and how many are computed before one. */
static inline uint32_t sgd_lane_vrank(const struct sgd_lane *lane, uint32_t done)
{
    return done < lane->last - lane->turn ? lane->turn + done : lane->last - 1 - done;
}
static inline uint32_t sgd_lane_before(const struct sgd_lane *lane, uint32_t vrank)
{
    return vrank >= lane->turn ? vrank - lane->turn : lane->last - 1 - vrank;
}

/* Pieces on the stack when `done` virtual ranks are summed up: also the buffer into which the next one goes.
 */
uint32_t sgd_lane_height(const struct sgd_lane *lane, uint32_t done);
/* Buffers that the lane needs. With a power of two of aligned virtual ranks log2 of it and one. */
uint32_t sgd_lane_buffers(const struct sgd_lane *lane);

/* A piece, and in which of its lane's buffers its sum stands. */
struct sgd_left {
    struct sgd_piece piece;
    uint32_t         buffer;
};
/* What stands in its buffers when all are computed and the last one is not summed up yet, in the order of virtual ranks; returns
 * how many. */
uint32_t sgd_lane_left(const struct sgd_lane *lane, struct sgd_left out[SGD_PIECES_MAX]);

/* The most buffers that a group needs, of 1 to `members` members, each with so many lanes (fewer where it has
 * fewer virtual ranks). */
uint32_t sgd_tree_buffers(uint32_t vranks, uint32_t members, uint32_t lanes);

/* ---- sums ---- */

/* Of each float in `range`: left += right. */
MT_MUST_USE mt_status sgd_tree_add(const struct k_ops *ops, float *left, const float *right, struct sgd_range range);

/* A piece's sum, and where it stands. */
struct sgd_addend {
    struct sgd_piece piece;
    const float     *at;
};

/* The floats in `range` of a sum over addends that follow each other without a gap, from an aligned one on,
 * as the tree joins them; times `scale` before `scaled`. out may be none of them. */
MT_MUST_USE mt_status sgd_tree_join(const struct k_ops *ops, const struct sgd_addend *addends, size_t count, struct sgd_range range,
                                    size_t scaled, float scale, float *out);

#endif
