/* SPDX-License-Identifier: Apache-2.0
 *
 * marginal.c - see marginal.h.
 *
 * A dimension has places 0 = cuts[0] < cuts[1] < ... = 1: those where the tree cuts it, or the bounds of its choices. What
 * a leaf adds to a staircase is written down as rises at places; a running sum at the end makes steps of them. A raster has
 * rises in two directions.
 *
 * Owns:    struct swp_marginals.
 * Thread:  one at a time.
 */
#include "sweep/importance/marginal.h"

enum { SIDE = SWP_MARGINAL_CELLS + 1, RISES_MAX = 4 * (SWP_TREE_DEPTH_MAX + 1) };

/* What the nodes above say of one dimension. */
struct side {
    uint32_t low, high; /* places; of a category that is fixed the bounds of its choice */
    uint32_t excluded;  /* choices, in the path's list */
    uint32_t uses;      /* cuts above */
    double   width;
};
struct exclusion {
    uint32_t dim, choice;
};
struct rise {
    uint32_t cell;
    double   by;
};
struct rises {
    struct rise list[RISES_MAX];
    uint32_t    count;
};

struct swp_marginals {
    const struct swp_table *table;
    uint32_t                dims;
    double                 *cuts, *stairs; /* of all dimensions, one behind the other: places, and rises at them */
    double                 *raster_at;     /* where each place lies in the raster: 3.25 is a quarter behind its third line */
    size_t                 *first;         /* of each dimension in these three; dims + 1 */
    double                 *raster_width;  /* dims x SWP_MARGINAL_CELLS */
    double                 *rasters;       /* pairs x SIDE x SIDE rises; NULL: no pairs */
    struct side            *sides;
    uint32_t               *ranks;                                    /* by node: the place of its cut */
    uint32_t                active[SWP_TREE_DEPTH_MAX], active_count; /* dimensions that the nodes above have cut */
    struct exclusion        excluded[SWP_TREE_DEPTH_MAX];
    uint32_t                excluded_count;
    struct rises            rises[SWP_TREE_DEPTH_MAX]; /* of the active dimensions, in the raster */
    double                  mean, square;              /* of the leaves, by their sizes */
};

mt_status swp_marginals_new(const struct swp_table *table, bool pairs, struct swp_marginals **out)
{
    size_t places = 2 * (size_t)table->dims + table->rows, dims = table->dims;
    for (uint32_t d = 0; d < dims; d++)
        places += table->columns[d].is_category ? table->columns[d].choices : 0;
    struct swp_marginals *m = calloc(1, sizeof *m);
    if (!m)
        return mt_error(MT_ENOMEM, 0, "sweep: importance");
    m->table = table;
    m->dims = table->dims;
    m->cuts = calloc(3 * places, sizeof *m->cuts);
    m->first = calloc(dims + 1, sizeof *m->first);
    m->raster_width = calloc(dims * SWP_MARGINAL_CELLS, sizeof *m->raster_width);
    m->rasters = pairs ? calloc(swp_marginals_pairs(table->dims) * SIDE * SIDE + 1, sizeof *m->rasters) : NULL;
    m->sides = calloc(dims, sizeof *m->sides);
    m->ranks = calloc(2 * (size_t)table->rows, sizeof *m->ranks);
    if (!m->cuts || !m->first || !m->raster_width || (pairs && !m->rasters) || !m->sides || !m->ranks) {
        swp_marginals_free(m);
        return mt_error(MT_ENOMEM, 0, "sweep: importance");
    }
    m->stairs = m->cuts + places;
    m->raster_at = m->stairs + places;
    *out = m;
    return mt_ok();
}

void swp_marginals_free(struct swp_marginals *m)
{
    if (!m)
        return;
    free(m->cuts);
    free(m->first);
    free(m->raster_width);
    free(m->rasters);
    free(m->sides);
    free(m->ranks);
    free(m);
}

/* ---- places ---- */

static int by_size(const void *a, const void *b)
{
    double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

static uint32_t rank_of(const double *cuts, size_t count, double cut)
{
    size_t low = 0, high = count;
    while (low < high) {
        size_t middle = (low + high) / 2;
        if (cuts[middle] < cut)
            low = middle + 1;
        else
            high = middle;
    }
    return (uint32_t)low;
}

static void places_find(struct swp_marginals *m, const struct swp_tree *tree)
{
    memset(m->first, 0, (m->dims + 1) * sizeof *m->first);
    for (uint32_t d = 0; d < m->dims; d++)
        m->first[d + 1] = m->table->columns[d].is_category ? m->table->columns[d].choices + 1 : 2;
    for (size_t i = 0; i < tree->nodes.count; i++) {
        int32_t dim = tree->nodes.data[i].dim;
        if (dim >= 0 && !m->table->columns[dim].is_category)
            m->first[dim + 1]++;
    }
    for (uint32_t d = 0; d < m->dims; d++) {
        m->first[d + 1] += m->first[d];
        size_t  count = m->first[d + 1] - m->first[d];
        double *cuts = m->cuts + m->first[d];
        cuts[0] = 0;
        for (size_t i = 1; i < count && m->table->columns[d].is_category; i++)
            cuts[i] = (double)i / (double)(count - 1);
        m->sides[d] = (struct side){.low = 1, .high = 1, .width = 1}; /* high: how many are filled in already */
    }
    for (size_t i = 0; i < tree->nodes.count; i++) {
        const struct swp_tree_node *node = &tree->nodes.data[i];
        if (node->dim >= 0 && !m->table->columns[node->dim].is_category)
            m->cuts[m->first[node->dim] + m->sides[node->dim].high++] = node->cut;
    }
    for (uint32_t d = 0; d < m->dims; d++) {
        size_t count = m->first[d + 1] - m->first[d];
        m->cuts[m->first[d + 1] - 1] = 1;
        if (!m->table->columns[d].is_category)
            qsort(m->cuts + m->first[d], count, sizeof *m->cuts, by_size);
        m->sides[d] = (struct side){.low = 0, .high = (uint32_t)count - 1, .width = 1};
    }
    for (size_t i = 0; i < tree->nodes.count; i++) {
        const struct swp_tree_node *node = &tree->nodes.data[i];
        if (node->dim >= 0)
            m->ranks[i] = m->table->columns[node->dim].is_category
                              ? (uint32_t)node->cut
                              : rank_of(m->cuts + m->first[node->dim], m->first[node->dim + 1] - m->first[node->dim], node->cut);
    }
    memset(m->stairs, 0, m->first[m->dims] * sizeof *m->stairs);
}

/* The raster's lines are places of the tree: all of them, or evenly many between each two. */
static void raster_lay(struct swp_marginals *m)
{
    for (uint32_t d = 0; d < m->dims; d++) {
        const double *cuts = m->cuts + m->first[d];
        double       *at = m->raster_at + m->first[d], *width = m->raster_width + (size_t)d * SWP_MARGINAL_CELLS;
        size_t        steps = m->first[d + 1] - m->first[d] - 1, cells = steps < SWP_MARGINAL_CELLS ? steps : SWP_MARGINAL_CELLS;
        memset(width, 0, SWP_MARGINAL_CELLS * sizeof *width);
        for (size_t cell = 0; cell < cells; cell++) {
            size_t begin = cell * steps / cells, end = (cell + 1) * steps / cells;
            width[cell] = cuts[end] - cuts[begin];
            for (size_t i = begin; i < end; i++)
                at[i] = (double)cell + (width[cell] > 0 ? (cuts[i] - cuts[begin]) / width[cell] : 0);
        }
        at[steps] = (double)cells;
    }
    memset(m->rasters, 0, swp_marginals_pairs(m->dims) * SIDE * SIDE * sizeof *m->rasters);
}

/* ---- leaves ---- */

static void rise_add(struct swp_marginals *m, struct rises *rises, uint32_t dim, uint32_t place, double by)
{
    double   at = m->raster_at[m->first[dim] + place];
    uint32_t cell = (uint32_t)at;
    rises->list[rises->count++] = (struct rise){cell, by * (1 - (at - cell))};
    if (at > cell)
        rises->list[rises->count++] = (struct rise){cell + 1, by * (at - cell)};
}

/* Calls for both bounds of what the leaf has of a dimension, and for the bounds of each choice that it has not. */
static void staircase_add(struct swp_marginals *m, uint32_t dim, double by, struct rises *rises)
{
    const struct side *side = &m->sides[dim];
    double            *stairs = m->stairs + m->first[dim];
    stairs[side->low] += by;
    stairs[side->high] -= by;
    for (uint32_t i = 0; side->excluded && i < m->excluded_count; i++)
        if (m->excluded[i].dim == dim) {
            stairs[m->excluded[i].choice] -= by;
            stairs[m->excluded[i].choice + 1] += by;
        }
    if (!rises)
        return;
    rises->count = 0;
    rise_add(m, rises, dim, side->low, 1);
    rise_add(m, rises, dim, side->high, -1);
    for (uint32_t i = 0; side->excluded && i < m->excluded_count; i++)
        if (m->excluded[i].dim == dim) {
            rise_add(m, rises, dim, m->excluded[i].choice, -1);
            rise_add(m, rises, dim, m->excluded[i].choice + 1, 1);
        }
}

/* Dimensions that the leaf is not cut in add a constant to every marginal, and to every raster a function of one dimension: neither
 * changes what is asked for. */
static void leaf_add(struct swp_marginals *m, double value)
{
    double size = 1;
    for (uint32_t i = 0; i < m->active_count; i++)
        size *= m->sides[m->active[i]].width;
    if (!(size > 0)) /* of a width that no double holds */
        return;
    m->mean += size * value;
    m->square += size * value * value;
    for (uint32_t i = 0; i < m->active_count; i++)
        staircase_add(m, m->active[i], value * size / m->sides[m->active[i]].width, m->rasters ? &m->rises[i] : NULL);
    for (uint32_t i = 0; m->rasters && i < m->active_count; i++)
        for (uint32_t k = i + 1; k < m->active_count; k++) {
            uint32_t a = i, b = k;
            if (m->active[a] > m->active[b])
                a = k, b = i;
            double *raster = m->rasters + swp_marginals_pair(m->dims, m->active[a], m->active[b]) * SIDE * SIDE;
            double  by = value * size / m->sides[m->active[a]].width / m->sides[m->active[b]].width;
            for (uint32_t x = 0; x < m->rises[a].count; x++)
                for (uint32_t y = 0; y < m->rises[b].count; y++)
                    raster[m->rises[a].list[x].cell * SIDE + m->rises[b].list[y].cell] += by * m->rises[a].list[x].by *
                                                                                          m->rises[b].list[y].by;
        }
}

static void side_cut(struct swp_marginals *m, const struct swp_tree_node *node, uint32_t rank, bool is_left)
{
    uint32_t     dim = (uint32_t)node->dim;
    struct side *side = &m->sides[dim];
    double      *cuts = m->cuts + m->first[dim];
    side->uses++;
    if (!m->table->columns[dim].is_category) {
        *(is_left ? &side->high : &side->low) = rank;
        side->width = cuts[side->high] - cuts[side->low];
    } else if (is_left) {
        *side = (struct side){.low = rank, .high = rank + 1, .uses = side->uses, .width = 1.0 / m->table->columns[dim].choices};
    } else {
        m->excluded[m->excluded_count++] = (struct exclusion){dim, rank};
        side->excluded++;
        side->width = (double)(m->table->columns[dim].choices - side->excluded) / m->table->columns[dim].choices;
    }
}

/* As deep as the tree: SWP_TREE_DEPTH_MAX. */
static void walk(struct swp_marginals *m, const struct swp_tree *tree, uint32_t index)
{
    const struct swp_tree_node *node = &tree->nodes.data[index];
    if (node->dim < 0) {
        leaf_add(m, node->value);
        return;
    }
    struct side before = m->sides[node->dim];
    uint32_t    excluded = m->excluded_count;
    if (before.uses == 0)
        m->active[m->active_count++] = (uint32_t)node->dim;
    for (int is_left = 1; is_left >= 0; is_left--) {
        side_cut(m, node, m->ranks[index], is_left);
        walk(m, tree, is_left ? node->left : node->right);
        m->sides[node->dim] = before;
        m->excluded_count = excluded;
    }
    m->active_count -= before.uses == 0;
}

/* ---- variances ---- */

static double staircase_variance(const struct swp_marginals *m, uint32_t dim)
{
    const double *cuts = m->cuts + m->first[dim], *stairs = m->stairs + m->first[dim];
    size_t        steps = m->first[dim + 1] - m->first[dim] - 1;
    double        mean = 0, variance = 0, height = 0;
    for (size_t i = 0; i < steps; i++) {
        height += stairs[i];
        mean += (cuts[i + 1] - cuts[i]) * height;
    }
    height = 0;
    for (size_t i = 0; i < steps; i++) {
        height += stairs[i];
        variance += (cuts[i + 1] - cuts[i]) * (height - mean) * (height - mean);
    }
    return variance;
}

/* Rises become heights; each row and each column then loses its mean, so that what one dimension does alone is gone. */
static double raster_variance(double *raster, const double *width, const double *height)
{
    double variance = 0, all = 0, columns[SWP_MARGINAL_CELLS] = {0}, rows[SWP_MARGINAL_CELLS] = {0};
    for (int x = 0; x < SWP_MARGINAL_CELLS; x++)
        for (int y = 0; y < SWP_MARGINAL_CELLS; y++) {
            double *at = raster + x * SIDE + y;
            *at += (x ? at[-SIDE] : 0) + (y ? at[-1] : 0) - (x && y ? at[-SIDE - 1] : 0);
            rows[x] += height[y] * *at;
            columns[y] += width[x] * *at;
            all += width[x] * height[y] * *at;
        }
    for (int x = 0; x < SWP_MARGINAL_CELLS; x++)
        for (int y = 0; y < SWP_MARGINAL_CELLS; y++) {
            double by = raster[x * SIDE + y] - rows[x] - columns[y] + all;
            variance += width[x] * height[y] * by * by;
        }
    return variance;
}

double swp_marginals_of(struct swp_marginals *m, const struct swp_tree *tree, double *out_single, double *out_pairs)
{
    MT_ASSERT(!out_pairs || m->rasters);
    m->mean = m->square = 0;
    m->active_count = m->excluded_count = 0;
    places_find(m, tree);
    if (m->rasters)
        raster_lay(m);
    walk(m, tree, 0);
    for (uint32_t d = 0; d < m->dims; d++)
        out_single[d] = staircase_variance(m, d);
    for (uint32_t i = 0; out_pairs && i < m->dims; i++)
        for (uint32_t k = i + 1; k < m->dims; k++) {
            size_t pair = swp_marginals_pair(m->dims, i, k);
            out_pairs[pair] = raster_variance(m->rasters + pair * SIDE * SIDE, m->raster_width + (size_t)i * SWP_MARGINAL_CELLS,
                                              m->raster_width + (size_t)k * SWP_MARGINAL_CELLS);
        }
    double variance = m->square - m->mean * m->mean;
    return variance > 0 ? variance : 0;
}
