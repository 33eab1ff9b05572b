/* SPDX-License-Identifier: Apache-2.0
 *
 * tree.h - a regression tree: half spaces that are cut until the results in each are equal.
 *
 * Each node is cut where the squared deviations of the two sides are least together (Breiman et al. 1984), over all
 * dimensions and all places; equally good dimensions have equal chances. A number is cut between two neighbours, a category
 * into one choice and the others. A node that all its rows agree in, that no dimension can cut, or that lies
 * SWP_TREE_DEPTH_MAX deep is a leaf.
 */
#ifndef SWP_IMPORTANCE_TREE_H
#define SWP_IMPORTANCE_TREE_H

#include "sweep/importance/table.h"

enum { SWP_TREE_DEPTH_MAX = 64 };

struct swp_tree_node {
    int32_t  dim; /* -1: a leaf */
    uint32_t left, right;
    double   cut;   /* at most this goes left; of a category: this choice does */
    double   value; /* the mean of the node's results */
};
struct swp_tree {
    MT_VEC(struct swp_tree_node) nodes; /* the first is the root */
};

struct swp_grower; /* scratch memory for trees of one table: 8 bytes for each cell of it, 16 where it is conditional */

MT_MUST_USE mt_status swp_grower_new(const struct swp_table *table, struct swp_grower **out);
void                  swp_grower_free(struct swp_grower *grower);
/* Replaces *tree by one that knows row r counts[r] times. What is missing in conditional columns is drawn. ENOMEM. */
MT_MUST_USE mt_status swp_tree_grow(struct swp_grower *grower, const uint32_t *counts, mt_rng *rng, struct swp_tree *tree);

#endif
