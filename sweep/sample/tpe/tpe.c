/* SPDX-License-Identifier: Apache-2.0
 *
 * tpe.c - tree of Parzen estimators (Bergstra et al. 2011; joint model: Falkner et al. 2018), as Optuna defines it: keeps the
 * rows in the order that densities need, draws candidates from the good ones' density, takes the one that is best by
 * good(x) / rest(x).
 *
 *   tell:    the row goes to its place among the finished ones (binary search)
 *   suggest: mark the good ones, widths and weights of both sets, `candidates` draws, their densities: O(rows x axes)
 *
 * Owns:    struct swp_tpe.
 * Thread:  one at a time.
 */
#include "sweep/sample/tpe/tpe.h"

#include "sweep/math/normal.h"
#include "sweep/space/layout.h"

#include <math.h>

enum { TRIES_MAX = 32 }; /* rounds of candidates before constraints send a suggestion back to the random draw */

/* ---- the model ---- */

static mt_status tpe_init(struct swp_sampler *s, struct swp_problem *out_problem)
{
    (void)out_problem;
    uint32_t        count = swp_space_count(s->space), choices_max = 1;
    struct swp_tpe *m = s->model = calloc(1, sizeof *m);
    if (!m || !(m->axes = calloc(count, sizeof *m->axes)))
        return mt_error(MT_ENOMEM, 0, "sweep: TPE");
    m->loops = swp_tpe_loops_best();
    for (uint32_t i = 0; i < count; i++) {
        struct swp_tpe_axis *axis = &m->axes[m->axis_count];
        m->axis_of[i] = -1;
        if (!swp_axis_init(&axis->a, s->space, i))
            continue;
        axis->is_joint = !s->opts.independent && swp_space_parent(s->space, i) < 0;
        m->axis_of[i] = (int)m->axis_count;
        choices_max = axis->a.choices > choices_max ? axis->a.choices : choices_max;
        if (axis->is_joint)
            m->joint[m->joint_count++] = m->axis_count;
        m->axis_count++;
    }
    m->good = calloc((size_t)(4 * m->joint_count + 3) * SWP_TPE_GOOD_ROOM, sizeof *m->good);
    m->shares[0] = calloc(choices_max, sizeof(double));
    m->shares[1] = calloc(choices_max, sizeof(double));
    return m->good && m->shares[0] && m->shares[1] ? mt_ok() : mt_error(MT_ENOMEM, 0, "sweep: TPE");
}

static void tpe_fini(struct swp_sampler *s)
{
    struct swp_tpe *m = s->model;
    for (uint32_t i = 0; i < m->axis_count; i++) {
        free(m->axes[i].units);
        free(m->axes[i].inv);
        free(m->axes[i].linear);
        free(m->axes[i].square);
        mt_vec_fini(&m->axes[i].sorted);
    }
    mt_vec_fini(&m->best);
    free(m->is_good);
    free(m->weight);
    free(m->inv);
    free(m->temp);
    free(m->units);
    free(m->order);
    free(m->good);
    free(m->shares[0]);
    free(m->shares[1]);
    free(m->axes);
    free(m);
}

/* ---- rows ---- */

static bool grow(void *pointer, size_t from, size_t to, size_t size)
{
    char **array = pointer, *bigger = realloc(*array, to * size);
    if (!bigger)
        return false;
    memset(bigger + from * size, 0, (to - from) * size);
    *array = bigger;
    return true;
}

static bool joint_grow(struct swp_tpe_axis *axis, size_t from, size_t to)
{
    return axis->a.is_category || (grow(&axis->inv, from, to, sizeof(double)) && grow(&axis->linear, from, to, sizeof(double)) &&
                                   grow(&axis->square, from, to, sizeof(double)));
}

static mt_status make_room(struct swp_tpe *m, size_t rows)
{
    MT_TRY(mt_vec_reserve(&m->best, rows - m->best.count));
    for (uint32_t i = 0; i < m->axis_count; i++)
        if (!m->axes[i].a.is_category)
            MT_TRY(mt_vec_reserve(&m->axes[i].sorted, 1));
    if (rows <= m->capacity)
        return mt_ok();
    size_t from = m->capacity, to = from ? 2 * from : SWP_TPE_GOOD_ROOM;
    bool   done = grow(&m->is_good, from, to, 1) && grow(&m->weight, from, to, sizeof(double)) &&
                grow(&m->inv, from, to, sizeof(double)) && grow(&m->temp, from, to, sizeof(double)) &&
                grow(&m->units, from, to, sizeof(double)) && grow(&m->order, from, to, sizeof *m->order);
    for (uint32_t i = 0; done && i < m->axis_count; i++)
        done = grow(&m->axes[i].units, from, to, sizeof(double)) && (!m->axes[i].is_joint || joint_grow(&m->axes[i], from, to));
    if (!done)
        return mt_error(MT_ENOMEM, 0, "sweep: TPE");
    m->capacity = to;
    return mt_ok();
}

static void insert_at(uint32_t *data, size_t count, size_t index, uint32_t row)
{
    memmove(data + index + 1, data + index, (count - index) * sizeof *data);
    data[index] = row;
}

static void sort_in(struct swp_tpe_axis *axis, uint32_t row)
{
    size_t low = 0, high = axis->sorted.count;
    while (low < high) {
        size_t mid = (low + high) / 2;
        if (axis->units[axis->sorted.data[mid]] <= axis->units[row])
            low = mid + 1;
        else
            high = mid;
    }
    insert_at(axis->sorted.data, axis->sorted.count++, low, row);
}

static mt_status tpe_added(struct swp_sampler *s, uint32_t row, const struct swp_point *point)
{
    struct swp_tpe *m = s->model;
    MT_TRY(make_room(m, row + 1));
    for (uint32_t i = 0; i < m->axis_count; i++) {
        struct swp_tpe_axis *axis = &m->axes[i];
        bool                 has = swp_point_has(point, axis->a.param);
        axis->units[row] = has ? swp_axis_unit(&axis->a, point->values[axis->a.param]) : NAN;
        if (has && !axis->a.is_category)
            sort_in(axis, row);
    }
    return mt_ok();
}

/* Complete ones before pruned ones, by value; of pruned ones those that came further first; the older first among equals. */
static bool is_before(const struct swp_row *rows, uint32_t a, uint32_t b)
{
    const struct swp_row *x = &rows[a], *y = &rows[b];
    if (x->state != y->state)
        return x->state == SWP_ROW_COMPLETE;
    if (x->state == SWP_ROW_PRUNED && x->step != y->step)
        return x->step > y->step;
    return x->value != y->value ? x->value < y->value : a < b;
}

static void tpe_told(struct swp_sampler *s, uint32_t row)
{
    struct swp_tpe *m = s->model;
    size_t          low = 0, high = m->best.count;
    if (s->rows.data[row].state == SWP_ROW_FAILED)
        return;
    while (low < high) {
        size_t mid = (low + high) / 2;
        if (is_before(s->rows.data, row, m->best.data[mid]))
            high = mid;
        else
            low = mid + 1;
    }
    insert_at(m->best.data, m->best.count++, low, row);
}

/* ---- candidates ---- */

/* A draw from the kernel at `mean` (NaN: the prior's), onto a value of the parameter; its unit in *unit. */
static double draw_number(const struct swp_sampler *s, const struct swp_tpe_axis *axis, double mean, double inv, mt_rng *rng,
                          double *unit)
{
    const struct swp_param *p = swp_space_param(s->space, axis->a.param);
    double                  u = swp_rng_real(rng) + 0x1p-54, x;
    if (isnan(mean)) {
        mean = 0.5;
        inv = axis->a.is_bounded ? 1 : 6;
    }
    if (axis->a.is_bounded)
        x = mean + swp_normal_cut_quantile(u, -mean * inv, (1 - mean) * inv) / inv;
    else
        x = mean + swp_normal_quantile(u) / inv;
    double value = swp_param_snap(p, swp_axis_value(&axis->a, x));
    *unit = swp_axis_unit(&axis->a, value);
    return value;
}

static double draw_category(const struct swp_tpe_axis *axis, double seen, double a, mt_rng *rng)
{
    if (isnan(seen))
        return (double)mt_rng_below(rng, axis->a.choices);
    double u = swp_rng_real(rng) * (1 + a * axis->a.choices); /* the seen one's own part first */
    return u < 1 ? seen : fmin(floor((u - 1) / a), axis->a.choices - 1);
}

/* Which kernel of the good ones: all weigh the same but the prior's. SIZE_MAX: that one. */
static size_t pick_kernel(const struct swp_sampler *s, const struct swp_tpe_set *good, mt_rng *rng)
{
    double u = swp_rng_real(rng) * ((double)good->kernels + s->opts.prior_weight);
    return u < (double)good->kernels ? (size_t)u : SIZE_MAX;
}

static void draw_joint(const struct swp_sampler *s, const struct swp_tpe_set *good, mt_rng *rng, struct swp_point *point,
                       double *candidate)
{
    const struct swp_tpe *m = s->model;
    double                a = s->opts.prior_weight / (double)(good->kernels + 1);
    size_t                kernel = pick_kernel(s, good, rng);
    for (uint32_t d = 0; d < m->joint_count; d++) {
        const struct swp_tpe_axis *axis = &m->axes[m->joint[d]];
        double                     at = kernel == SIZE_MAX ? NAN : good->units[d][kernel];
        double                    *value = &point->values[axis->a.param];
        if (axis->a.is_category)
            *value = candidate[d] = draw_category(axis, at, a, rng);
        else
            *value = draw_number(s, axis, at, kernel == SIZE_MAX ? 0 : good->inv[d][kernel], rng, &candidate[d]);
    }
}

/* The best candidate of the joint model into *point; false: the constraints allow none of them. */
static bool choose_joint(struct swp_sampler *s, bool is_whole, mt_rng *rng, struct swp_point *point)
{
    const struct swp_tpe *m = s->model;
    struct swp_tpe_set    good, rest;
    struct swp_point      drawn = *point;
    double                candidate[MT_SWEEP_PARAMS_MAX], best = -INFINITY;
    bool                  found = m->joint_count == 0;
    if (found)
        return true;
    swp_tpe_joint_sets(s, &good, &rest);
    for (uint32_t i = 0; i < s->opts.candidates; i++) {
        draw_joint(s, &good, rng, &drawn, candidate);
        if (is_whole && !swp_point_allowed(s->space, &drawn))
            continue;
        double score = log(swp_tpe_joint_density(s, &good, candidate)) - log(swp_tpe_joint_density(s, &rest, candidate));
        if (!found || score > best)
            best = score, *point = drawn;
        found = true;
    }
    return found;
}

static double choose_one(struct swp_sampler *s, const struct swp_tpe_axis *axis, mt_rng *rng)
{
    struct swp_tpe_set good, rest;
    double             best = -INFINITY, best_value = NAN, unit;
    swp_tpe_axis_sets(s, axis, &good, &rest);
    for (uint32_t i = 0; i < s->opts.candidates; i++) {
        double value;
        if (axis->a.is_category) {
            double   u = swp_rng_real(rng);
            uint32_t c = 0;
            while (c + 1 < axis->a.choices && u >= good.shares[c])
                u -= good.shares[c++];
            value = unit = c;
        } else {
            size_t kernel = pick_kernel(s, &good, rng);
            bool   is_prior = kernel == SIZE_MAX;
            value = draw_number(s, axis, is_prior ? NAN : good.units[0][kernel], is_prior ? 0 : good.inv[0][kernel], rng, &unit);
        }
        double score = log(swp_tpe_axis_density(s, axis, &good, unit)) - log(swp_tpe_axis_density(s, axis, &rest, unit));
        if (i == 0 || score > best)
            best = score, best_value = value;
    }
    return best_value;
}

/* The parameters that the joint model does not have, parents first. */
static void choose_rest(struct swp_sampler *s, mt_rng *rng, struct swp_point *point)
{
    const struct swp_tpe *m = s->model;
    for (uint32_t k = 0; k < s->space->count; k++) {
        uint32_t param = s->space->order[k];
        int      axis = m->axis_of[param];
        if (!swp_condition_holds(s->space, param, point))
            point->values[param] = NAN;
        else if (axis < 0)
            point->values[param] = s->space->params[param].kind == SWP_CONSTANT ? 0 : point->values[param];
        else if (!m->axes[axis].is_joint)
            point->values[param] = choose_one(s, &m->axes[axis], rng);
    }
}

static mt_status tpe_draw(struct swp_sampler *s, uint64_t trial, struct swp_point *point)
{
    const struct swp_tpe  *m = s->model;
    const struct swp_point given = *point; /* its grid parameters */
    mt_rng                 rng = swp_rng_of(s->seed, trial, SWP_FOR_METHOD);
    bool                   is_done = false;
    for (uint32_t i = 0; i < s->space->count; i++)
        if (s->space->params[i].kind == SWP_CONSTANT)
            point->values[i] = 0;
    swp_tpe_mark(s);
    for (int tries = 0; tries < TRIES_MAX && !is_done; tries++) {
        if (!choose_joint(s, m->joint_count == m->axis_count, &rng, point))
            continue;
        choose_rest(s, &rng, point);
        is_done = swp_point_allowed(s->space, point);
        if (!is_done)
            *point = given;
    }
    swp_tpe_unmark(s);
    return is_done ? mt_ok() : swp_sampler_draw_random(s, trial, point);
}

const struct swp_method swp_tpe_method = {
    .is_adaptive = true,
    .init = tpe_init,
    .fini = tpe_fini,
    .draw = tpe_draw,
    .added = tpe_added,
    .told = tpe_told,
};
