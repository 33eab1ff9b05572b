/* SPDX-License-Identifier: Apache-2.0
 *
 * check.c - what a space may be: each parameter by itself, then conditions and constraints between them.
 *
 * Owns: nothing. Thread: any. Each refusal names what is wrong and what would do.
 */
#include "sweep/space/layout.h"

#include <math.h>

#define EXACT_MAX    9007199254740992.0 /* 2^53: the integers that a double holds exactly */
#define LOG_REAL_MAX 700.0              /* exp of it is still finite */
#define STEP_SLACK   1e-8               /* parts of a step: 0.3 is three steps of 0.1 */

static bool literal_equal(const struct mt_literal *a, const struct mt_literal *b)
{
    if (a->kind != b->kind)
        return false;
    switch (a->kind) {
    case MT_LITERAL_TEXT: return strcmp(a->text, b->text) == 0;
    case MT_LITERAL_REAL: return a->real == b->real;
    case MT_LITERAL_INT:
    case MT_LITERAL_BOOL: return a->integer == b->integer;
    case MT_LITERAL_NULL: break;
    }
    return true;
}

/* A number written otherwise (1 for 1.0) is the same choice, where no other is. */
static bool same_number(const struct mt_literal *a, const struct mt_literal *b)
{
    bool numbers = (a->kind == MT_LITERAL_INT || a->kind == MT_LITERAL_REAL) &&
                   (b->kind == MT_LITERAL_INT || b->kind == MT_LITERAL_REAL);
    double x = a->kind == MT_LITERAL_INT ? (double)a->integer : a->real;
    double y = b->kind == MT_LITERAL_INT ? (double)b->integer : b->real;
    return numbers && x == y;
}

bool swp_param_value_of(const struct swp_param *param, const struct mt_literal *literal, double *out)
{
    if (!swp_kind_has_choices(param->kind)) {
        if (literal->kind != MT_LITERAL_INT && literal->kind != MT_LITERAL_REAL)
            return false;
        *out = literal->kind == MT_LITERAL_INT ? (double)literal->integer : literal->real;
        return true;
    }
    for (int exact = 1; exact >= 0; exact--)
        for (uint32_t i = 0; i < param->choice_count; i++)
            if (exact ? literal_equal(&param->choices[i], literal) : same_number(&param->choices[i], literal))
                return *out = i, true;
    return false;
}

/* ---- one parameter ---- */

static mt_status check_step(struct swp_param *p, struct swp_problem *out)
{
    if (!(p->step >= 0) || !isfinite(p->step))
        return swp_refuse(out, p->name, "parameter '%s': step %g must be a positive number (or 0 for none)", p->name, p->step);
    if (p->step == 0)
        return mt_ok();
    double steps = floor((p->high - p->low) / p->step + STEP_SLACK);
    if (steps < 1 && p->high > p->low)
        return swp_refuse(out, p->name, "parameter '%s': step %g is wider than the range from %g to %g", p->name, p->step, p->low,
                          p->high);
    if (steps >= EXACT_MAX)
        return swp_refuse(out, p->name, "parameter '%s': step %g is too small for the range", p->name, p->step);
    double last = p->low + steps * p->step;
    if (fabs(last - p->high) > STEP_SLACK * p->step)
        p->high = last;
    return mt_ok();
}

static mt_status check_range(struct swp_param *p, struct swp_problem *out)
{
    bool is_log = p->kind == SWP_LOG_UNIFORM || p->kind == SWP_LOG_INT;
    if (!isfinite(p->low) || !isfinite(p->high))
        return swp_refuse(out, p->name, "parameter '%s': bounds %g and %g must be finite numbers", p->name, p->low, p->high);
    if (p->low > p->high || (p->low == p->high && !swp_kind_is_int(p->kind)))
        return swp_refuse(out, p->name, "parameter '%s': low %g must be less than high %g (a fixed value is a constant)", p->name,
                          p->low, p->high);
    if (!isfinite(p->high - p->low))
        return swp_refuse(out, p->name, "parameter '%s': the range is too wide for a double", p->name);
    if (is_log && p->low <= 0)
        return swp_refuse(out, p->name, "parameter '%s': low %g must be above 0 on a logarithmic scale", p->name, p->low);
    return check_step(p, out);
}

static mt_status check_int(struct swp_param *p, struct swp_problem *out)
{
    p->step = p->step == 0 ? 1 : p->step;
    bool exact = fabs(p->low) <= EXACT_MAX && fabs(p->high) <= EXACT_MAX && p->low == floor(p->low) && p->high == floor(p->high) &&
                 p->step == floor(p->step);
    if (isfinite(p->low) && isfinite(p->high) && !exact)
        return swp_refuse(out, p->name, "parameter '%s': bounds and step of an int must be integers up to 2^53", p->name);
    if (p->kind == SWP_LOG_INT && (p->low < 1 || p->step != 1))
        return swp_refuse(out, p->name, "parameter '%s': a logint needs low >= 1 and no step", p->name);
    return check_range(p, out);
}

static mt_status check_normal(struct swp_param *p, struct swp_problem *out)
{
    if (!isfinite(p->mean) || !isfinite(p->sd) || p->sd <= 0)
        return swp_refuse(out, p->name, "parameter '%s': mean %g must be finite and sd %g above 0", p->name, p->mean, p->sd);
    if (!(p->step >= 0) || !isfinite(p->step))
        return swp_refuse(out, p->name, "parameter '%s': step %g must be a positive number (or 0 for none)", p->name, p->step);
    if (p->kind == SWP_LOG_NORMAL && fabs(p->mean) + 10 * p->sd > LOG_REAL_MAX)
        return swp_refuse(out, p->name, "parameter '%s': mean and sd are those of the logarithm; %g and %g are too large", p->name,
                          p->mean, p->sd);
    return mt_ok();
}

static mt_status check_literals(const struct swp_param *p, const char *what, const struct mt_literal *list, uint32_t count,
                                struct swp_problem *out)
{
    if (count == 0 || count > MT_SWEEP_CHOICES_MAX)
        return swp_refuse(out, p->name, "parameter '%s' has %u %s; 1 to %d are possible", p->name, count, what,
                          MT_SWEEP_CHOICES_MAX);
    for (uint32_t i = 0; i < count; i++) {
        if (list[i].kind == MT_LITERAL_TEXT && !list[i].text)
            return swp_refuse(out, p->name, "parameter '%s': one of its %s is no text", p->name, what);
        if (list[i].kind == MT_LITERAL_REAL && !isfinite(list[i].real))
            return swp_refuse(out, p->name, "parameter '%s': one of its %s is not a finite number", p->name, what);
        for (uint32_t k = 0; k < i; k++)
            if (literal_equal(&list[i], &list[k]))
                return swp_refuse(out, p->name, "parameter '%s': its %s %u and %u are the same", p->name, what, k, i);
    }
    return mt_ok();
}

static mt_status check_choices(const struct swp_param *p, struct swp_problem *out)
{
    if (p->kind == SWP_CONSTANT && p->choice_count != 1)
        return swp_refuse(out, p->name, "parameter '%s': a constant has one choice, not %u", p->name, p->choice_count);
    return check_literals(p, "choices", p->choices, p->choice_count, out);
}

mt_status swp_param_check(struct swp_param *p, struct swp_problem *out)
{
    if (!p->name || !*p->name || strlen(p->name) >= MT_NAME_BYTES_MAX)
        return swp_refuse(out, "", "a parameter's name has 1 to %d bytes", MT_NAME_BYTES_MAX - 1);
    if (p->parent)
        MT_TRY(check_literals(p, "values of its condition", p->when, p->when_count, out));
    switch (p->kind) {
    case SWP_UNIFORM:
    case SWP_LOG_UNIFORM: return check_range(p, out);
    case SWP_INT:
    case SWP_LOG_INT: return check_int(p, out);
    case SWP_NORMAL:
    case SWP_LOG_NORMAL: return check_normal(p, out);
    case SWP_CATEGORICAL:
    case SWP_ORDINAL:
    case SWP_GRID:
    case SWP_CONSTANT: return check_choices(p, out);
    case SWP_KIND_COUNT: break;
    }
    return swp_refuse(out, p->name, "parameter '%s' is of no known kind", p->name);
}

/* ---- conditions ---- */

static mt_status link_condition(struct swp_space *space, uint32_t index, struct swp_problem *out)
{
    const struct swp_param *p = &space->params[index];
    struct swp_condition   *c = &space->conditions[index];
    c->parent = p->parent ? swp_space_find(space, p->parent) : -1;
    if (!p->parent)
        return mt_ok();
    if (c->parent < 0)
        return swp_refuse(out, p->name, "the condition of parameter '%s' names an unknown parameter '%s'", p->name, p->parent);
    const struct swp_param *parent = &space->params[c->parent];
    if (!swp_kind_has_choices(parent->kind) && !swp_kind_is_int(parent->kind))
        return swp_refuse(out, p->name, "the condition of parameter '%s' names '%s', which is no choice and no int", p->name,
                          p->parent);
    if (!(c->when = swp_space_alloc(space, p->when_count, sizeof *c->when)))
        return mt_error(MT_ENOMEM, 0, "sweep: a space");
    for (uint32_t i = 0; i < p->when_count; i++) {
        double value;
        if (!swp_param_value_of(parent, &p->when[i], &value) || swp_param_snap(parent, value) != value)
            return swp_refuse(out, p->name, "the condition of parameter '%s' names a value that '%s' never has", p->name,
                              p->parent);
        c->when[c->when_count++] = value;
    }
    return mt_ok();
}

/* Parents first. What is left when nothing can be placed any more stands in a circle. */
static mt_status link_order(struct swp_space *space, struct swp_problem *out)
{
    bool     placed[MT_SWEEP_PARAMS_MAX] = {false};
    uint32_t count = 0, before;
    do {
        before = count;
        for (uint32_t i = 0; i < space->count; i++) {
            int parent = space->conditions[i].parent;
            if (placed[i] || (parent >= 0 && !placed[parent]))
                continue;
            placed[i] = true;
            space->order[count++] = i;
        }
    } while (count > before);
    for (uint32_t i = 0; i < space->count; i++)
        if (!placed[i])
            return swp_refuse(out, space->params[i].name, "the condition of parameter '%s' depends on itself",
                              space->params[i].name);
    return mt_ok();
}

/* ---- constraints ---- */

/* Smallest value of factor * parameter; -infinity where there is none. */
static double least(const struct swp_param *p, double factor)
{
    double low = INFINITY;
    if (p->kind == SWP_NORMAL)
        return -INFINITY;
    if (p->kind == SWP_LOG_NORMAL)
        return factor < 0 ? -INFINITY : 0;
    if (!swp_kind_has_choices(p->kind))
        return fmin(factor * p->low, factor * p->high);
    for (uint32_t i = 0; i < p->choice_count; i++) {
        const struct mt_literal *c = &p->choices[i];
        low = fmin(low, factor * (c->kind == MT_LITERAL_REAL ? c->real : (double)c->integer));
    }
    return low;
}

static bool is_numeric(const struct swp_param *p)
{
    for (uint32_t i = 0; i < p->choice_count; i++)
        if (p->choices[i].kind == MT_LITERAL_TEXT || p->choices[i].kind == MT_LITERAL_NULL)
            return false;
    return true;
}

static mt_status link_constraint(struct swp_space *space, uint32_t index, struct swp_problem *out)
{
    const struct swp_constraint *from = &space->constraints[index];
    struct swp_linear           *to = &space->linear[index];
    double                       low = 0;
    to->bound = from->bound;
    to->params = swp_space_alloc(space, from->term_count, sizeof *to->params);
    to->factors = swp_space_alloc(space, from->term_count, sizeof *to->factors);
    if (!to->params || !to->factors)
        return mt_error(MT_ENOMEM, 0, "sweep: a space");
    if (from->term_count == 0 || !isfinite(from->bound))
        return swp_refuse(out, "", "constraint %u needs a term at least, and a finite bound", index);
    for (uint32_t i = 0; i < from->term_count; i++) {
        const struct swp_term *term = &from->terms[i];
        int                    param = swp_space_find(space, term->name);
        if (param < 0)
            return swp_refuse(out, term->name, "constraint %u names an unknown parameter '%s'", index, term->name);
        if (!isfinite(term->factor) || !is_numeric(&space->params[param]))
            return swp_refuse(out, term->name, "constraint %u: parameter '%s' is no number, or its factor is not finite", index,
                              term->name);
        low += space->conditions[param].parent >= 0 ? -INFINITY : least(&space->params[param], term->factor);
        to->params[i] = (uint32_t)param;
        to->factors[i] = term->factor;
        to->count++;
    }
    if (low > from->bound)
        return swp_refuse(out, from->terms[0].name, "constraint %u (on '%s') can never hold: the sum is at least %g, its bound %g",
                          index, from->terms[0].name, low, from->bound);
    return mt_ok();
}

static mt_status try_constraints(const struct swp_space *space, struct swp_problem *out)
{
    struct swp_point point;
    mt_rng           rng = {1};
    if (space->linear_count == 0 && !space->allows)
        return mt_ok();
    for (int i = 0; i < MT_SWEEP_DRAWS_MAX; i++) {
        swp_space_grid_at(space, mt_rng_below(&rng, space->grid_size), &point);
        for (uint32_t k = 0; k < space->count; k++)
            if (space->params[k].kind != SWP_GRID)
                point.values[k] = swp_param_draw(&space->params[k], &rng);
        swp_point_prune(space, &point);
        if (swp_point_allowed(space, &point))
            return mt_ok();
    }
    return swp_refuse(out, "", "the constraints contradict each other: none of %d points drawn meets them all", MT_SWEEP_DRAWS_MAX);
}

static mt_status link_grid(struct swp_space *space, struct swp_problem *out)
{
    space->grid_size = 1;
    for (uint32_t i = 0; i < space->count; i++) {
        const struct swp_param *p = &space->params[i];
        if (p->kind != SWP_GRID)
            continue;
        space->grid_size *= p->choice_count;
        if (space->grid_size > MT_SWEEP_GRID_MAX)
            return swp_refuse(out, p->name, "parameter '%s': the grid has more than %d combinations", p->name, MT_SWEEP_GRID_MAX);
    }
    return mt_ok();
}

mt_status swp_space_link(struct swp_space *space, struct swp_problem *out_problem)
{
    space->conditions = swp_space_alloc(space, space->count, sizeof *space->conditions);
    space->order = swp_space_alloc(space, space->count, sizeof *space->order);
    space->linear = swp_space_alloc(space, space->linear_count, sizeof *space->linear);
    if (!space->conditions || !space->order || !space->linear)
        return mt_error(MT_ENOMEM, 0, "sweep: a space");
    for (uint32_t i = 0; i < space->count; i++)
        MT_TRY(link_condition(space, i, out_problem));
    MT_TRY(link_order(space, out_problem));
    MT_TRY(link_grid(space, out_problem));
    for (uint32_t i = 0; i < space->linear_count; i++)
        MT_TRY(link_constraint(space, i, out_problem));
    return try_constraints(space, out_problem);
}
