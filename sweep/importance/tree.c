/* SPDX-License-Identifier: Apache-2.0
 *
 * tree.c - see tree.h. The rows of a tree stand once for each dimension, in the order of that dimension's values; a node is
 * the same stretch of all these lists, and a cut divides each without disturbing its order. So a level of the tree costs
 * one pass over rows times dimensions, and nothing is sorted twice.
 *
 * Owns:    a grower's memory; nodes are the tree's.
 * Thread:  one at a time.
 */
#include "sweep/importance/tree.h"

struct swp_grower {
    const struct swp_table *table;
    uint32_t               *sorted;                     /* dims x rows: all rows by value; of conditional dimensions not used */
    uint32_t               *order;                      /* dims x rows: the rows of this tree; a node is a stretch of each */
    double                 *drawn;                      /* conditional dims x rows */
    double                **at;                         /* by dimension: the values that this tree sees */
    double                 *weight, *sum;               /* by row: how often it counts, and its result times that */
    uint32_t               *spare;                      /* by row */
    uint8_t                *is_left;                    /* by row */
    uint32_t               *dims;                       /* in the order in which the next node tries them */
    double                 *choice_weight, *choice_sum; /* of the node's rows, by choice: zeros between two uses */
    uint32_t               *choices;                    /* those that the node has */
    mt_rng                 *rng;
    struct swp_tree        *tree;
};

struct stretch {
    uint32_t begin, end;
    double   weight, sum;
};
struct split {
    int32_t dim;
    double  cut, gain;
};

static int by_value(const void *a, const void *b, void *user)
{
    const double *at = user;
    uint32_t      i = *(const uint32_t *)a, k = *(const uint32_t *)b;
    return at[i] != at[k] ? (at[i] > at[k]) - (at[i] < at[k]) : (i > k) - (i < k);
}

static mt_status grower_allocate(struct swp_grower *g, const struct swp_table *table)
{
    size_t rows = table->rows, dims = table->dims, conditional = 0, choices = 1;
    for (uint32_t d = 0; d < dims; d++) {
        conditional += table->columns[d].is_conditional;
        choices = table->columns[d].choices > choices ? table->columns[d].choices : choices;
    }
    g->table = table;
    g->sorted = calloc(dims * rows, sizeof *g->sorted);
    g->order = calloc(dims * rows, sizeof *g->order);
    g->drawn = calloc(conditional * rows + 1, sizeof *g->drawn);
    g->at = calloc(dims, sizeof *g->at);
    g->weight = calloc(2 * rows, sizeof *g->weight);
    g->spare = calloc(rows, sizeof *g->spare);
    g->is_left = calloc(rows, sizeof *g->is_left);
    g->dims = calloc(dims, sizeof *g->dims);
    g->choice_weight = calloc(2 * choices, sizeof *g->choice_weight);
    g->choices = calloc(choices, sizeof *g->choices);
    if (!g->sorted || !g->order || !g->drawn || !g->at || !g->weight || !g->spare || !g->is_left || !g->dims || !g->choice_weight ||
        !g->choices)
        return mt_error(MT_ENOMEM, 0, "sweep: importance");
    g->sum = g->weight + rows;
    g->choice_sum = g->choice_weight + choices;
    return mt_ok();
}

mt_status swp_grower_new(const struct swp_table *table, struct swp_grower **out)
{
    size_t             rows = table->rows;
    double            *drawn;
    struct swp_grower *g = calloc(1, sizeof *g);
    mt_status          st = g ? grower_allocate(g, table) : mt_error(MT_ENOMEM, 0, "sweep: importance");
    if (st.code) {
        swp_grower_free(g);
        return st;
    }
    drawn = g->drawn;
    for (uint32_t d = 0; d < table->dims; d++) {
        const struct swp_column *column = &table->columns[d];
        g->dims[d] = d;
        g->at[d] = column->is_conditional ? drawn : column->at;
        drawn += column->is_conditional ? rows : 0;
        for (uint32_t row = 0; row < rows; row++)
            g->sorted[d * rows + row] = row;
        if (!column->is_conditional && !column->is_category)
            qsort_r(g->sorted + d * rows, rows, sizeof *g->sorted, by_value, column->at);
    }
    *out = g;
    return mt_ok();
}

void swp_grower_free(struct swp_grower *g)
{
    if (!g)
        return;
    free(g->sorted);
    free(g->order);
    free(g->drawn);
    free(g->at);
    free(g->weight);
    free(g->spare);
    free(g->is_left);
    free(g->dims);
    free(g->choice_weight);
    free(g->choices);
    free(g);
}

/* ---- where to cut ---- */

/* How much the squared deviations of both sides are less than those of the whole, but for what all cuts of a node share. */
static double gain_of(const struct stretch *whole, double weight, double sum)
{
    double rest = whole->sum - sum;
    return sum * sum / weight + rest * rest / (whole->weight - weight);
}

static void number_try(const struct swp_grower *g, uint32_t dim, const struct stretch *whole, struct split *best)
{
    const uint32_t *order = g->order + (size_t)dim * g->table->rows;
    const double   *at = g->at[dim];
    double          weight = 0, sum = 0, here = at[order[whole->begin]];
    if (here == at[order[whole->end - 1]])
        return;
    for (uint32_t i = whole->begin; i + 1 < whole->end; i++) {
        double next = at[order[i + 1]];
        weight += g->weight[order[i]];
        sum += g->sum[order[i]];
        if (next == here)
            continue;
        double gain = gain_of(whole, weight, sum);
        if (gain > best->gain) {
            double middle = here + (next - here) / 2;
            *best = (struct split){(int32_t)dim, middle < next ? middle : here, gain};
        }
        here = next;
    }
}

static void category_try(struct swp_grower *g, uint32_t dim, const struct stretch *whole, struct split *best)
{
    const uint32_t *order = g->order + (size_t)dim * g->table->rows;
    uint32_t        count = 0;
    for (uint32_t i = whole->begin; i < whole->end; i++) {
        uint32_t choice = (uint32_t)g->at[dim][order[i]];
        if (g->choice_weight[choice] == 0)
            g->choices[count++] = choice;
        g->choice_weight[choice] += g->weight[order[i]];
        g->choice_sum[choice] += g->sum[order[i]];
    }
    for (uint32_t i = 0; i < count; i++) {
        uint32_t choice = g->choices[i];
        double   gain = count > 1 ? gain_of(whole, g->choice_weight[choice], g->choice_sum[choice]) : -1;
        if (gain > best->gain)
            *best = (struct split){(int32_t)dim, choice, gain};
        g->choice_weight[choice] = g->choice_sum[choice] = 0;
    }
}

/* Few rows are cut equally well by many dimensions; the first of these wins, so each node has an order of its own. */
static struct split split_find(struct swp_grower *g, const struct stretch *whole)
{
    struct split best = {-1, 0, -1};
    for (uint32_t i = g->table->dims; i-- > 0;) {
        uint32_t k = (uint32_t)mt_rng_below(g->rng, i + 1), dim = g->dims[k];
        g->dims[k] = g->dims[i];
        g->dims[i] = dim;
        if (g->table->columns[dim].is_category)
            category_try(g, dim, whole, &best);
        else
            number_try(g, dim, whole, &best);
    }
    return best;
}

/* ---- growing ---- */

/* Divides every list; returns where the right side begins. */
static uint32_t split_apply(struct swp_grower *g, const struct stretch *whole, const struct split *split)
{
    uint32_t rows = g->table->rows, left = whole->begin;
    bool     is_category = g->table->columns[split->dim].is_category;
    for (uint32_t i = whole->begin; i < whole->end; i++) {
        uint32_t row = g->order[i];
        double   at = g->at[split->dim][row];
        g->is_left[row] = is_category ? at == split->cut : at <= split->cut;
    }
    for (uint32_t d = 0; d < g->table->dims; d++) {
        uint32_t *order = g->order + (size_t)d * rows, right = 0;
        left = whole->begin;
        for (uint32_t i = whole->begin; i < whole->end; i++) {
            uint32_t row = order[i];
            order[left] = g->spare[right] = row; /* one of the two stays */
            left += g->is_left[row];
            right += !g->is_left[row];
        }
        memcpy(order + left, g->spare, right * sizeof *order);
    }
    return left;
}

static struct stretch stretch_of(const struct swp_grower *g, uint32_t begin, uint32_t end)
{
    struct stretch s = {begin, end, 0, 0};
    for (uint32_t i = begin; i < end; i++) {
        s.weight += g->weight[g->order[i]];
        s.sum += g->sum[g->order[i]];
    }
    return s;
}

static bool is_even(const struct swp_grower *g, const struct stretch *s)
{
    for (uint32_t i = s->begin + 1; i < s->end; i++)
        if (g->table->results[g->order[i]] != g->table->results[g->order[s->begin]])
            return false;
    return true;
}

/* Appends the node of a stretch and all below it; returns its index. As deep as the tree at most. */
static uint32_t node_grow(struct swp_grower *g, uint32_t begin, uint32_t end, int depth)
{
    struct stretch s = stretch_of(g, begin, end);
    struct split   split = {-1, 0, 0};
    uint32_t       index = (uint32_t)g->tree->nodes.count++; /* there is room: swp_tree_grow */
    if (depth < SWP_TREE_DEPTH_MAX && !is_even(g, &s))
        split = split_find(g, &s);
    g->tree->nodes.data[index] = (struct swp_tree_node){.dim = split.dim, .cut = split.cut, .value = s.sum / s.weight};
    if (split.dim < 0)
        return index;
    uint32_t middle = split_apply(g, &s, &split);
    MT_ASSERT(middle > begin && middle < end);
    uint32_t left = node_grow(g, begin, middle, depth + 1), right = node_grow(g, middle, end, depth + 1);
    g->tree->nodes.data[index].left = left;
    g->tree->nodes.data[index].right = right;
    return index;
}

static void missing_draw(struct swp_grower *g, uint32_t dim)
{
    const struct swp_column *column = &g->table->columns[dim];
    for (uint32_t row = 0; row < g->table->rows; row++) {
        double at = column->at[row];
        if (at != at)
            at = column->is_category ? (double)mt_rng_below(g->rng, column->choices) : swp_rng_real(g->rng);
        g->at[dim][row] = at;
    }
}

mt_status swp_tree_grow(struct swp_grower *g, const uint32_t *counts, mt_rng *rng, struct swp_tree *tree)
{
    uint32_t rows = g->table->rows, used = 0;
    tree->nodes.count = 0;
    MT_TRY(mt_vec_reserve(&tree->nodes, 2 * (size_t)rows));
    g->rng = rng;
    g->tree = tree;
    for (uint32_t row = 0; row < rows; row++) {
        g->weight[row] = counts[row];
        g->sum[row] = counts[row] * g->table->results[row];
    }
    for (uint32_t d = 0; d < g->table->dims; d++) {
        uint32_t                *order = g->order + (size_t)d * rows, *sorted = g->sorted + (size_t)d * rows;
        const struct swp_column *column = &g->table->columns[d];
        if (column->is_conditional)
            missing_draw(g, d);
        used = 0;
        for (uint32_t i = 0; i < rows; i++)
            if (counts[sorted[i]])
                order[used++] = sorted[i];
        if (column->is_conditional && !column->is_category)
            qsort_r(order, used, sizeof *order, by_value, g->at[d]);
    }
    MT_ASSERT(used > 0);
    (void)node_grow(g, 0, used, 0);
    return mt_ok();
}
