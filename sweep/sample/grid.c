/* SPDX-License-Identifier: Apache-2.0
 *
 * grid.c - every combination of a space once: the last parameter varies fastest.
 *
 * A place in the grid is a number with one digit a parameter, the first one highest. Places that the constraints forbid are
 * passed over, and so are those in which a parameter that is not active has a digit other than 0: they would repeat a point.
 * The cursor moves with each suggestion, and with each restored point that is the one that would have been suggested.
 *
 * Owns:    its cursor.
 * Thread:  one at a time.
 */
#include "sweep/sample/method.h"
#include "sweep/space/layout.h"

struct grid {
    uint64_t next;   /* no point before it is left */
    uint64_t size;   /* places */
    uint64_t trials; /* points, once they are counted */
    bool     is_counted;
};

static uint64_t digits(const struct swp_param *p)
{
    uint64_t values = swp_param_values(p);
    return values ? values : p->points;
}

static double value_at(const struct swp_param *p, uint64_t digit)
{
    uint64_t values = swp_param_values(p);
    bool     is_ranged = p->kind == SWP_UNIFORM || p->kind == SWP_INT;
    if (swp_kind_has_choices(p->kind))
        return (double)digit;
    if (values && (is_ranged || p->step > 0))
        return swp_param_snap(p, p->low + (double)digit * p->step);
    double share = p->points == 1 ? 0.5 : (double)digit / (p->points - 1);
    if (p->kind == SWP_NORMAL || p->kind == SWP_LOG_NORMAL) /* the ends lie at infinity: midpoints of equal shares instead */
        return swp_param_at(p, ((double)digit + 0.5) / p->points);
    return p->kind == SWP_UNIFORM ? swp_param_snap(p, p->low + share * (p->high - p->low)) : swp_param_at(p, share);
}

static mt_status grid_init(struct swp_sampler *s, struct swp_problem *out_problem)
{
    struct grid *g = s->model = calloc(1, sizeof *g);
    if (!g)
        return mt_error(MT_ENOMEM, 0, "sweep: a grid");
    g->size = 1;
    for (uint32_t i = 0; i < swp_space_count(s->space); i++) {
        const struct swp_param *p = swp_space_param(s->space, i);
        uint64_t                n = digits(p);
        if (n == 0)
            return swp_refuse(out_problem, p->name, "parameter '%s' is continuous: give it `points` or a step for a grid", p->name);
        if (n > MT_SWEEP_GRID_MAX / g->size)
            return swp_refuse(out_problem, p->name, "parameter '%s': the grid has more than %d combinations", p->name,
                              MT_SWEEP_GRID_MAX);
        g->size *= n;
    }
    return mt_ok();
}

static void grid_fini(struct swp_sampler *s)
{
    free(s->model);
}

/* False: the place is passed over. */
static bool point_at(const struct swp_space *space, uint64_t place, struct swp_point *point)
{
    bool has_digit[MT_SWEEP_PARAMS_MAX];
    for (uint32_t i = swp_space_count(space); i-- > 0;) {
        const struct swp_param *p = swp_space_param(space, i);
        uint64_t                n = digits(p);
        has_digit[i] = place % n != 0;
        point->values[i] = value_at(p, place % n);
        place /= n;
    }
    swp_point_prune(space, point);
    for (uint32_t i = 0; i < swp_space_count(space); i++)
        if (has_digit[i] && !swp_point_has(point, i))
            return false;
    return swp_point_allowed(space, point);
}

static mt_status grid_draw(struct swp_sampler *s, uint64_t trial, struct swp_point *point)
{
    struct grid *g = s->model;
    (void)trial;
    while (g->next < g->size && !point_at(s->space, g->next, point))
        g->next++; /* passed over for good: this is no change that anybody can see */
    return g->next < g->size ? mt_ok() : mt_error(MT_EEND, 0, "sweep: every combination of the grid was given");
}

static mt_status grid_added(struct swp_sampler *s, uint32_t row, const struct swp_point *point)
{
    struct grid     *g = s->model;
    struct swp_point next;
    (void)row;
    if (grid_draw(s, 0, &next).code == 0 && swp_point_equal(s->space, &next, point))
        g->next++;
    return mt_ok();
}

uint64_t swp_grid_trials(const struct swp_sampler *s)
{
    struct grid     *g = s->model;
    struct swp_point ignored;
    if (!g->is_counted)
        for (uint64_t place = 0; place < g->size; place++)
            g->trials += point_at(s->space, place, &ignored);
    g->is_counted = true;
    return g->trials;
}

const struct swp_method swp_grid_method = {.init = grid_init, .fini = grid_fini, .draw = grid_draw, .added = grid_added};
