/* SPDX-License-Identifier: Apache-2.0
 *
 * fanova.c - functional ANOVA over a forest (Hutter, Hoos, Leyton-Brown: An Efficient Approach for Assessing Hyperparameter
 * Importance, ICML 2014), with Optuna's forest: MT_SWEEP_TREES trees, each of as many rows as there are, drawn with replacement;
 * every node may be cut in every dimension, down to single rows. What a dimension explains is a part of each tree's variance; the
 * mean over the trees counts. Trees without any variance say nothing.
 *
 * Owns: nothing beyond a call. Thread: any.
 */
#include "sweep/importance/marginal.h"
#include "sweep/importance/methods.h"

#include <math.h>

struct forest {
    const struct swp_table *table;
    struct swp_grower      *grower;
    struct swp_marginals   *marginals;
    struct swp_tree         tree;
    uint32_t               *counts;
    double                 *parts; /* of one tree */
    size_t                  weights;
    uint32_t                trees; /* that have a variance */
};

/* Adds the parts of one tree, and their squares, to what stands in `out`. */
static mt_status tree_add(struct forest *f, mt_rng *rng, bool pairs, struct swp_weight *out)
{
    uint32_t rows = f->table->rows;
    memset(f->counts, 0, rows * sizeof *f->counts);
    for (uint32_t i = 0; i < rows; i++)
        f->counts[mt_rng_below(rng, rows)]++;
    MT_TRY(swp_tree_grow(f->grower, f->counts, rng, &f->tree));
    double all = swp_marginals_of(f->marginals, &f->tree, f->parts, pairs ? f->parts + f->table->dims : NULL);
    if (!(all > 1e-14)) /* of results that are of the order of 1: what rounding makes of nothing */
        return mt_ok();
    f->trees++;
    for (size_t i = 0; i < f->weights; i++) {
        double part = f->parts[i] / all;
        out[i].variance += part;
        out[i].spread += part * part;
    }
    return mt_ok();
}

mt_status swp_fanova(const struct swp_table *table, uint64_t seed, bool pairs, struct swp_weight *out)
{
    struct forest f = {.table = table, .weights = table->dims + (pairs ? swp_marginals_pairs(table->dims) : 0)};
    f.counts = calloc(table->rows, sizeof *f.counts);
    f.parts = calloc(f.weights, sizeof *f.parts);
    mt_status st = f.counts && f.parts ? swp_grower_new(table, &f.grower) : mt_error(MT_ENOMEM, 0, "sweep: importance");
    if (st.code == 0)
        st = swp_marginals_new(table, pairs, &f.marginals);
    for (uint64_t t = 0; t < MT_SWEEP_TREES && st.code == 0; t++) {
        mt_rng rng = swp_rng_of(seed, t, SWP_FOR_IMPORTANCE);
        st = tree_add(&f, &rng, pairs, out);
    }
    for (size_t i = 0; i < f.weights && f.trees; i++) {
        out[i].variance /= f.trees;
        out[i].spread = sqrt(fmax(0, out[i].spread / f.trees - out[i].variance * out[i].variance));
    }
    swp_grower_free(f.grower);
    swp_marginals_free(f.marginals);
    mt_vec_fini(&f.tree.nodes);
    free(f.counts);
    free(f.parts);
    return st;
}
