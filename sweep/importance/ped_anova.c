/* SPDX-License-Identifier: Apache-2.0
 *
 * ped_anova.c - PED-ANOVA (Watanabe, Bansal, Hutter: Efficiently Quantifying Hyperparameter Importance in Arbitrary
 * Subspaces, IJCAI 2023) as Optuna has it: the best tenth against all, Parzen estimators on a grid of at most 50 cells with
 * Scott's width, a prior of the weight of one trial, and Pearson's divergence between the two. A parameter that exists in a
 * part of the trials only counts by what that part is among the best and among all (Conditional PED-ANOVA, KDD 2026).
 *
 * Owns: nothing beyond a call. Thread: any.
 */
#include "sweep/importance/methods.h"

#include "sweep/math/normal.h"

#include <math.h>

#define QUANTILE  0.1
#define WIDTH_MIN (0.5 / 1.64) /* nine tenths of a kernel in its own cell */
enum { CELLS_MAX = 50, REGIME_MIN = 2 };

/* ---- the best ---- */

static int by_value(const void *a, const void *b)
{
    double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

/* Marks the best tenth, and what is as good as its last. */
static mt_status best_mark(const struct swp_table *table, bool maximize, bool *is_best)
{
    uint32_t rows = table->rows, count = (uint32_t)ceil(QUANTILE * rows);
    double   sign = maximize ? -1 : 1, *sorted = calloc(rows, sizeof *sorted);
    if (!sorted)
        return mt_error(MT_ENOMEM, 0, "sweep: importance");
    for (uint32_t i = 0; i < rows; i++)
        sorted[i] = sign * table->results[i];
    qsort(sorted, rows, sizeof *sorted, by_value);
    for (uint32_t i = 0; i < rows; i++)
        is_best[i] = sign * table->results[i] <= sorted[count - 1];
    free(sorted);
    return mt_ok();
}

/* ---- densities on a grid ---- */

static uint32_t cells_of(const struct swp_table *table, const struct swp_column *column)
{
    const struct swp_param *p = swp_space_param(table->space, column->param);
    double                  values = (double)swp_param_values(p);
    if (column->is_category)
        return column->choices;
    if (p->kind == SWP_LOG_INT)
        values = ceil(log2(p->high - p->low + 1)) + 1;
    return values > 0 && values < CELLS_MAX ? (uint32_t)values : CELLS_MAX;
}

/* The first and the last cell have their middles at the parameter's bounds; what lies half-way goes down. */
static uint32_t cell_of(const struct swp_column *column, uint32_t cells, double at)
{
    if (column->is_category)
        return (uint32_t)at;
    double cell = ceil((at - column->first) / (column->last - column->first) * (cells - 1) - 0.5);
    return cell < 0 ? 0 : cell > cells - 1 ? cells - 1 : (uint32_t)cell;
}

/* Scott's rule over counts on a grid. */
static double width_of(const double *counts, uint32_t cells, double total)
{
    double   mean = 0, square = 0, below = 0, quarter = floor(total / 4), three = floor(total * 3 / 4);
    uint32_t low = cells, high = cells, last = 0;
    for (uint32_t i = 0; i < cells; i++)
        mean += counts[i] * i / total;
    for (uint32_t i = 0; i < cells; i++) {
        square += counts[i] * (i - mean) * (i - mean);
        below += counts[i];
        if (counts[i] > 0)
            last = i;
        if (counts[i] > 0 && low == cells && below >= quarter)
            low = i;
        if (counts[i] > 0 && high == cells && below > three)
            high = i;
    }
    double range = (high == cells ? last : high) - (double)low;
    return fmax(WIDTH_MIN, 1.059 * fmin(range / 1.34, sqrt(square / fmax(1, total - 1))) * pow(total, -0.2));
}

static double mass(double from, double to, double mean, double width)
{
    return swp_normal_below((to - mean) / width) - swp_normal_below((from - mean) / width);
}

static void number_density(const double *counts, uint32_t cells, double total, double *out)
{
    double width = width_of(counts, cells, total), middle = (cells - 1) / 2.0;
    for (uint32_t kernel = 0; kernel <= cells; kernel++) { /* the last is the prior */
        double weight = kernel < cells ? counts[kernel] : 1, mean = kernel < cells ? kernel : middle;
        double wide = kernel < cells ? width : cells, whole = mass(-0.5, cells - 0.5, mean, wide);
        for (uint32_t i = 0; i < cells && weight > 0; i++)
            out[i] += weight / (total + 1) * mass(i - 0.5, i + 0.5, mean, wide) / whole;
    }
}

static void category_density(const double *counts, uint32_t cells, double total, double *out)
{
    double kernels = 1;
    for (uint32_t i = 0; i < cells; i++)
        kernels += counts[i] > 0;
    double flat = 1 / kernels, all = 1 + cells / kernels;
    for (uint32_t i = 0; i < cells; i++)
        out[i] = (counts[i] / all + total * flat / all + 1.0 / cells) / (total + 1);
}

/* ---- divergence ---- */

struct regime {
    double *counts, *best_counts, *density, *best_density; /* by cell */
    double  total, best_total;
};

static double divergence(const struct swp_column *column, uint32_t cells, struct regime *r)
{
    double sum = 0;
    if (column->is_category) {
        category_density(r->counts, cells, r->total, r->density);
        category_density(r->best_counts, cells, r->best_total, r->best_density);
    } else {
        number_density(r->counts, cells, r->total, r->density);
        number_density(r->best_counts, cells, r->best_total, r->best_density);
    }
    for (uint32_t i = 0; i < cells; i++) {
        double all = r->density[i] + 1e-12, ratio = (r->best_density[i] + 1e-12) / all - 1;
        sum += all * ratio * ratio;
    }
    return sum;
}

static mt_status column_weigh(const struct swp_table *table, const struct swp_column *column, const bool *is_best, double *out)
{
    uint32_t      cells = cells_of(table, column);
    double        best = 0;
    struct regime r = {.counts = calloc(4 * (size_t)cells, sizeof *r.counts)};
    if (!r.counts)
        return mt_error(MT_ENOMEM, 0, "sweep: importance");
    r.best_counts = r.counts + cells;
    r.density = r.best_counts + cells;
    r.best_density = r.density + cells;
    for (uint32_t row = 0; row < table->rows; row++) {
        double at = column->at[row];
        best += is_best[row];
        if (at != at)
            continue;
        uint32_t cell = cell_of(column, cells, at);
        r.counts[cell]++;
        r.total++;
        r.best_counts[cell] += is_best[row];
        r.best_total += is_best[row];
    }
    double part = r.total / table->rows, best_part = r.best_total / best;
    *out = r.total >= REGIME_MIN && r.best_total > 0 ? best_part * best_part / part * divergence(column, cells, &r) : 0;
    free(r.counts);
    return mt_ok();
}

mt_status swp_ped_anova(const struct swp_table *table, bool maximize, struct swp_weight *out)
{
    bool *is_best = calloc(table->rows, sizeof *is_best);
    if (!is_best)
        return mt_error(MT_ENOMEM, 0, "sweep: importance");
    mt_status st = best_mark(table, maximize, is_best);
    for (uint32_t d = 0; d < table->dims && st.code == 0; d++)
        st = column_weigh(table, &table->columns[d], is_best, &out[d].share);
    free(is_best);
    return st;
}
