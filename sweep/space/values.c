/* SPDX-License-Identifier: Apache-2.0
 *
 * values.c - a space that stands: looking at it, drawing from it, its conditions and constraints.
 *
 * Owns: nothing. Thread: any.
 */
#include "sweep/math/normal.h"
#include "sweep/space/layout.h"

#include <math.h>
#include <stdarg.h>
#include <stdio.h>

mt_status swp_refuse(struct swp_problem *out_problem, const char *param, const char *format, ...)
{
    va_list args;
    snprintf(out_problem->param, sizeof out_problem->param, "%s", param);
    va_start(args, format);
    vsnprintf(out_problem->text, sizeof out_problem->text, format, args);
    va_end(args);
    return mt_error(MT_EINVAL, 0, "sweep: refused, see the problem");
}

/* ---- memory ---- */

void *swp_space_alloc(struct swp_space *space, size_t count, size_t size)
{
    if (mt_vec_reserve(&space->owned, 1).code != 0)
        return NULL;
    void *memory = calloc(count ? count : 1, size);
    if (memory)
        space->owned.data[space->owned.count++] = memory;
    return memory;
}

char *swp_space_text(struct swp_space *space, const char *text)
{
    size_t size = strlen(text) + 1;
    char  *copy = swp_space_alloc(space, size, 1);
    if (copy)
        memcpy(copy, text, size);
    return copy;
}

/* ---- what a value means ---- */

struct mt_literal swp_point_literal(const struct swp_space *space, const struct swp_point *point, uint32_t index)
{
    const struct swp_param *p = &space->params[index];
    double                  value = point->values[index];
    if (swp_kind_has_choices(p->kind))
        return p->choices[(uint32_t)value];
    if (swp_kind_is_int(p->kind))
        return (struct mt_literal){.kind = MT_LITERAL_INT, .integer = (int64_t)value};
    return (struct mt_literal){.kind = MT_LITERAL_REAL, .real = value};
}

/* Value of an active parameter as a number: the number, or that of an INT, REAL or BOOL choice. False: it has none. */
static bool point_number(const struct swp_space *space, const struct swp_point *point, uint32_t index, double *out)
{
    if (!swp_point_has(point, index))
        return false;
    if (!swp_kind_has_choices(space->params[index].kind))
        return *out = point->values[index], true;
    struct mt_literal literal = swp_point_literal(space, point, index);
    if (literal.kind == MT_LITERAL_TEXT || literal.kind == MT_LITERAL_NULL)
        return false;
    return *out = literal.kind == MT_LITERAL_REAL ? literal.real : (double)literal.integer, true;
}

/* ---- looking ---- */

uint32_t swp_space_count(const struct swp_space *space)
{
    return space->count;
}

const struct swp_param *swp_space_param(const struct swp_space *space, uint32_t index)
{
    return &space->params[index];
}

int swp_space_find(const struct swp_space *space, const char *name)
{
    for (uint32_t i = 0; i < space->count; i++)
        if (strcmp(space->params[i].name, name) == 0)
            return (int)i;
    return -1;
}

int swp_space_parent(const struct swp_space *space, uint32_t index)
{
    return space->conditions[index].parent;
}

uint64_t swp_space_grid_size(const struct swp_space *space)
{
    return space->grid_size;
}

void swp_space_grid_at(const struct swp_space *space, uint64_t index, struct swp_point *point)
{
    for (uint32_t i = space->count; i-- > 0;)
        if (space->params[i].kind == SWP_GRID) {
            point->values[i] = (double)(index % space->params[i].choice_count);
            index /= space->params[i].choice_count;
        }
}

/* ---- conditions and constraints ---- */

bool swp_condition_holds(const struct swp_space *space, uint32_t index, const struct swp_point *point)
{
    const struct swp_condition *c = &space->conditions[index];
    bool                        holds = c->parent < 0;
    for (uint32_t i = 0; !holds && i < c->when_count; i++)
        holds = point->values[c->parent] == c->when[i]; /* false where the parent is NaN */
    return holds;
}

void swp_point_prune(const struct swp_space *space, struct swp_point *point)
{
    for (uint32_t i = 0; i < space->count; i++)
        if (!swp_condition_holds(space, space->order[i], point))
            point->values[space->order[i]] = NAN;
}

static bool linear_holds(const struct swp_space *space, const struct swp_linear *linear, const struct swp_point *point)
{
    double sum = 0, value;
    for (uint32_t i = 0; i < linear->count; i++) {
        if (!point_number(space, point, linear->params[i], &value))
            return true;
        sum += linear->factors[i] * value;
    }
    return sum <= linear->bound;
}

bool swp_point_allowed(const struct swp_space *space, const struct swp_point *point)
{
    for (uint32_t i = 0; i < space->linear_count; i++)
        if (!linear_holds(space, &space->linear[i], point))
            return false;
    return !space->allows || space->allows(space->user, space, point);
}

/* ---- drawing ---- */

double swp_rng_real(mt_rng *rng)
{
    return (double)(mt_rng_next(rng) >> 11) * 0x1p-53;
}

double swp_rng_normal(mt_rng *rng)
{
    return swp_normal_quantile(swp_rng_real(rng) + 0x1p-54);
}

mt_rng swp_rng_of(uint64_t seed, uint64_t trial, uint64_t purpose)
{
    mt_rng rng = {seed};
    rng.state = mt_rng_next(&rng) ^ trial;
    rng.state = mt_rng_next(&rng) ^ purpose;
    rng.state = mt_rng_next(&rng);
    return rng;
}

uint64_t swp_param_values(const struct swp_param *param)
{
    if (swp_kind_has_choices(param->kind))
        return param->choice_count;
    if (param->step == 0 || param->kind == SWP_NORMAL || param->kind == SWP_LOG_NORMAL)
        return 0;
    return (uint64_t)((param->high - param->low) / param->step + 0.5) + 1;
}

/* The value of a range that lies nearest to x. */
static double onto_step(const struct swp_param *p, double x)
{
    double last = (double)(swp_param_values(p) - 1), k = nearbyint((x - p->low) / p->step);
    k = fmin(fmax(k, 0), last);
    return k == last ? p->high : p->low + k * p->step;
}

double swp_param_snap(const struct swp_param *p, double x)
{
    if (p->kind == SWP_NORMAL || p->kind == SWP_LOG_NORMAL)
        return p->step > 0 ? p->step * nearbyint(x / p->step) : x;
    if (swp_kind_has_choices(p->kind))
        return fmin(fmax(nearbyint(x), 0), p->choice_count - 1);
    if (p->step > 0)
        return onto_step(p, x);
    return fmin(fmax(x, p->low), nextafter(p->high, p->low));
}

double swp_param_at(const struct swp_param *p, double u)
{
    double values = (double)swp_param_values(p), k = fmin(floor(u * values), values - 1);
    switch (p->kind) {
    case SWP_UNIFORM:
    case SWP_INT: return values > 0 ? swp_param_snap(p, p->low + k * p->step) : swp_param_snap(p, p->low + u * (p->high - p->low));
    case SWP_LOG_UNIFORM: return swp_param_snap(p, exp(log(p->low) + u * (log(p->high) - log(p->low))));
    case SWP_LOG_INT: { /* each number has the length of [n - 1/2, n + 1/2] in the logarithm */
        double low = log(p->low - 0.5);
        return swp_param_snap(p, exp(low + u * (log(p->high + 0.5) - low)));
    }
    case SWP_NORMAL:
    case SWP_LOG_NORMAL: {
        double x = p->mean + p->sd * swp_normal_quantile(fmin(fmax(u, 0x1p-54), 1 - 0x1p-53));
        return swp_param_snap(p, p->kind == SWP_LOG_NORMAL ? exp(x) : x);
    }
    default: return k;
    }
}

double swp_param_draw(const struct swp_param *param, mt_rng *rng)
{
    return swp_param_at(param, swp_rng_real(rng));
}

mt_status swp_space_draw(const struct swp_space *space, mt_rng *rng, struct swp_point *point)
{
    struct swp_point drawn;
    for (int tries = 0; tries < MT_SWEEP_DRAWS_MAX; tries++) {
        for (uint32_t i = 0; i < space->count; i++) {
            const struct swp_param *param = &space->params[i];
            drawn.values[i] = param->kind == SWP_GRID ? point->values[i] : swp_param_draw(param, rng);
        }
        swp_point_prune(space, &drawn);
        if (swp_point_allowed(space, &drawn)) {
            memcpy(point->values, drawn.values, space->count * sizeof *drawn.values);
            return mt_ok();
        }
    }
    return mt_error(MT_EUNSCHEDULABLE, 0, "sweep: no point that was drawn meets the constraints");
}
