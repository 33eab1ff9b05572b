/* SPDX-License-Identifier: Apache-2.0
 *
 * table.c - see table.h. Owns: a table's memory. Thread: one at a time.
 */
#include "sweep/importance/table.h"

#include "sweep/space/axis.h"
#include "sweep/math/normal.h"

#include <math.h>
#include <stdio.h>

/* Numbers that rise or fall all the way: what lies between two of them in the list also lies between them on the line. */
static bool is_sorted(const struct swp_param *p)
{
    double before = 0, now;
    int    up = 0, down = 0;
    for (uint32_t i = 0; i < p->choice_count; i++, before = now) {
        const struct mt_literal *c = &p->choices[i];
        if (c->kind != MT_LITERAL_INT && c->kind != MT_LITERAL_REAL)
            return false;
        now = c->kind == MT_LITERAL_INT ? (double)c->integer : c->real;
        up += i && now > before;
        down += i && now < before;
    }
    return up + 1 == (int)p->choice_count || down + 1 == (int)p->choice_count;
}

/* Where a value lies. */
static double unit_of(const struct swp_column *column, const struct swp_param *p, const struct swp_axis *axis, double value)
{
    if (column->is_category)
        return value;
    if (p->kind == SWP_GRID)
        return (value + 0.5) / p->choice_count;
    double unit = swp_axis_unit(axis, value);
    if (!axis->is_bounded) /* six deviations are its unit, with the mean in the middle */
        unit = swp_normal_below(6 * (unit - 0.5));
    return unit < 0 ? 0 : unit > 1 ? 1 : unit;
}

/* False: the parameter has one value. */
static bool column_make(struct swp_column *column, struct swp_axis *axis, const struct swp_space *space, uint32_t param)
{
    const struct swp_param *p = swp_space_param(space, param);
    if (p->kind == SWP_CONSTANT || swp_param_values(p) == 1)
        return false;
    *column = (struct swp_column){.param = param,
                                  .is_conditional = swp_space_parent(space, param) >= 0,
                                  .last = 1,
                                  .choices = p->choice_count,
                                  .is_category = p->kind == SWP_CATEGORICAL || (p->kind == SWP_GRID && !is_sorted(p))};
    bool is_axis = swp_axis_init(axis, space, param), is_list = p->kind == SWP_GRID || p->kind == SWP_ORDINAL;
    if (is_list || (is_axis && axis->is_bounded && !column->is_category)) {
        column->first = unit_of(column, p, axis, is_list ? 0 : p->low);
        column->last = unit_of(column, p, axis, is_list ? p->choice_count - 1 : p->high);
    }
    return true;
}

static void column_fill(struct swp_column *column, const struct swp_axis *axis, const struct swp_importance_ask *ask)
{
    const struct swp_param *p = swp_space_param(ask->space, column->param);
    uint32_t                width = swp_space_count(ask->space);
    for (uint32_t row = 0; row < ask->rows; row++) {
        double value = ask->points[(size_t)row * width + column->param];
        column->at[row] = value == value ? unit_of(column, p, axis, value) : value;
    }
}

/* So that squares of them neither vanish nor overflow. */
static bool results_fill(double *out, const double *results, uint32_t rows)
{
    double largest = 0, mean = 0, spread = 0;
    for (uint32_t i = 0; i < rows; i++)
        largest = fmax(largest, fabs(results[i]));
    for (uint32_t i = 0; i < rows && largest > 0; i++)
        mean += results[i] / largest / rows;
    for (uint32_t i = 0; i < rows && largest > 0; i++) {
        out[i] = results[i] / largest - mean;
        spread = fmax(spread, fabs(out[i]));
    }
    for (uint32_t i = 0; i < rows && spread > 0; i++)
        out[i] /= spread;
    for (uint32_t i = 1; i < rows; i++) /* looked at as they came: the mean of equal ones need not be one of them */
        if (results[i] != results[0])
            return spread > 0;
    return false;
}

mt_status swp_table_make(struct swp_table *table, const struct swp_importance_ask *ask, struct swp_problem *out_problem)
{
    uint32_t         width = swp_space_count(ask->space);
    struct swp_axis *axes = calloc(width, sizeof *axes);
    *table = (struct swp_table){.space = ask->space, .rows = ask->rows, .columns = calloc(width, sizeof *table->columns)};
    if (axes && table->columns)
        for (uint32_t i = 0; i < width; i++)
            table->dims += column_make(&table->columns[table->dims], &axes[table->dims], ask->space, i);
    table->memory = calloc(((size_t)table->dims + 1) * ask->rows + 1, sizeof *table->memory);
    mt_status st = axes && table->columns && table->memory ? mt_ok() : mt_error(MT_ENOMEM, 0, "sweep: importance");
    for (uint32_t d = 0; d < table->dims && st.code == 0; d++) {
        table->columns[d].at = table->memory + (size_t)(d + 1) * ask->rows;
        column_fill(&table->columns[d], &axes[d], ask);
    }
    free(axes);
    MT_TRY(st);
    table->results = table->memory;
    *out_problem = (struct swp_problem){0};
    if (table->dims == 0)
        snprintf(out_problem->text, sizeof out_problem->text, "no parameter of this space has more than one value");
    else if (!results_fill(table->results, ask->results, ask->rows))
        snprintf(out_problem->text, sizeof out_problem->text, "all %u results are equal: nothing has an effect", ask->rows);
    return out_problem->text[0] ? mt_error(MT_EINVAL, 0, "sweep: importance") : mt_ok();
}

void swp_table_fini(struct swp_table *table)
{
    free(table->columns);
    free(table->memory);
    *table = (struct swp_table){0};
}
