/* SPDX-License-Identifier: Apache-2.0
 *
 * marginal.h - how much of a tree's variance over the whole space one dimension explains by itself, and two do together.
 *
 * A tree is constant on its leaves, which are boxes; all the space has the size 1. Its mean over all dimensions but d is
 * the marginal of d: at x, the sum over the leaves that reach x of value * size / width along d. That is a staircase with a
 * step at each cut of d, so its variance is exact, and found in one walk over the leaves.
 *
 * The interplay of two dimensions is their common marginal without what each does by itself. It is taken from a raster of at most
 * SWP_MARGINAL_CELLS steps a dimension: exact where a tree cuts both in fewer places, else a little too small.
 */
#ifndef SWP_IMPORTANCE_MARGINAL_H
#define SWP_IMPORTANCE_MARGINAL_H

#include "sweep/importance/tree.h"

enum { SWP_MARGINAL_CELLS = 32 };

struct swp_marginals;

/* Scratch memory for trees of one table; with pairs 8.7 kB for each of them (30 dimensions: 4 MB, 128: 71 MB). ENOMEM. */
MT_MUST_USE mt_status swp_marginals_new(const struct swp_table *table, bool pairs, struct swp_marginals **out);
void                  swp_marginals_free(struct swp_marginals *m);
/* Returns the variance of the tree; out_single[d]: what the dimension explains of it. out_pairs[swp_marginals_pair(dims, i,
 * k)]: what i and k explain beyond that; NULL: not asked for. */
double swp_marginals_of(struct swp_marginals *m, const struct swp_tree *tree, double *out_single, double *out_pairs);

/* Number of pairs, and the place of one, i < k, among them. */
static inline size_t swp_marginals_pairs(uint32_t dims)
{
    return (size_t)dims * (dims - 1) / 2;
}
static inline size_t swp_marginals_pair(uint32_t dims, uint32_t i, uint32_t k)
{
    return (size_t)i * (2 * dims - i - 1) / 2 + k - i - 1;
}

#endif
