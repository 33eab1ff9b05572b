/* SPDX-License-Identifier: Apache-2.0
 *
 * search.c - where the expected improvement is largest: 2,048 points of a scrambled Sobol sequence, local searches from the best
 * of them, from eight drawn in proportion to their improvement, and from the best row.
 *
 * A local search goes by turns along the gradient of the continuous axes, in units of their lengths, and over the values of each
 * discrete axis, until nothing gets better. Axes that are not active in a point stand still where the model has them; what the
 * constraints forbid promises nothing.
 *
 * Owns: nothing; works in the model's memory. Thread: one at a time.
 */
#include "sweep/sample/gp/gp.h"
#include "sweep/math/lbfgs.h"
#include "sweep/math/normal.h"
#include "sweep/space/layout.h"

#include <math.h>

enum { STARTS = 10, ROUNDS_MAX = 100, STEPS_MAX = 200, SCAN = 16 };
#define GRADIENT_LEAST 1e-2
#define VARIANCE_LEAST 1e-12
#define FAR_LEFT       (-25) /* from where on a series is exact, and the formula is not */

struct search {
    struct swp_sampler     *s;
    struct swp_gp          *m;
    const struct swp_point *given;
    double                  x[MT_SWEEP_PARAMS_MAX], value;             /* where the local search stands: units */
    uint32_t                moving[MT_SWEEP_PARAMS_MAX], moving_count; /* continuous axes */
    double                  length[MT_SWEEP_PARAMS_MAX];               /* of the same */
};

/* ---- improvement ---- */

double swp_gp_log_improvement(double mean, double variance, double best, double *by_mean, double *by_variance)
{
    double sigma = sqrt(fmax(variance, 0) + VARIANCE_LEAST), z = (mean - best) / sigma, log_gain, slope;
    if (z > FAR_LEFT) { /* E max(0, Z + z) = z P(Z < z) + density(z) */
        double below = swp_normal_below(z), gain = z * below + swp_normal_density(z);
        log_gain = log(gain);
        slope = below / gain;
    } else {
        double r = 1 / (z * z), gain = 1 - r * (3 - r * (15 - r * (105 - r * 945)));
        double below = 1 - r * (1 - r * (3 - r * (15 - r * 105)));
        log_gain = swp_normal_log_density(z) + log(gain * r);
        slope = -z * below / gain;
    }
    *by_mean = slope / sigma;
    *by_variance = variance > 0 ? (1 - z * slope) / (2 * sigma * sigma) : 0;
    return log_gain + log(sigma);
}

/* ---- points ---- */

static double value_of(const struct search *q, const struct swp_gp_axis *axis, double unit)
{
    return axis->a.is_category ? unit : swp_param_snap(swp_space_param(q->s->space, axis->a.param), swp_axis_value(&axis->a, unit));
}

/* Which values the units stand for; parents first. */
static void point_of(const struct search *q, const double *units, struct swp_point *point)
{
    const struct swp_space *space = q->s->space;
    for (uint32_t k = 0; k < space->count; k++) {
        uint32_t param = space->order[k];
        int      axis = q->m->axis_of[param];
        if (!swp_condition_holds(space, param, point))
            point->values[param] = NAN;
        else if (axis >= 0)
            point->values[param] = value_of(q, &q->m->axes[axis], units[axis]);
        else
            point->values[param] = space->params[param].kind == SWP_CONSTANT ? 0 : q->given->values[param];
    }
}

/* Units as the model has them; false: the constraints forbid the point. */
static bool settle(const struct search *q, double *units)
{
    struct swp_point point = *q->given;
    if (q->m->is_plain)
        return true;
    point_of(q, units, &point);
    for (uint32_t d = 0; d < q->m->dims; d++)
        if (!swp_point_has(&point, q->m->axes[d].a.param))
            units[d] = q->m->axes[d].resting;
    return swp_point_allowed(q->s->space, &point);
}

/* Scores of up to 8 points, each of `dims` units; of the first also the gradient, if asked for. -infinity: forbidden. */
static void score(const struct search *q, const double *units, uint32_t count, double *out_scores, double *gradient)
{
    const struct swp_gp *m = q->m;
    double points[SWP_GP_LANES * MT_SWEEP_PARAMS_MAX], one[MT_SWEEP_PARAMS_MAX], mean[SWP_GP_LANES], variance[SWP_GP_LANES];
    double slopes[2 * MT_SWEEP_PARAMS_MAX], by_mean, by_variance;
    bool   is_allowed[SWP_GP_LANES];
    for (uint32_t k = 0; k < SWP_GP_LANES; k++) {
        memcpy(one, units + (k < count ? k : 0) * m->dims, m->dims * sizeof *one);
        is_allowed[k] = settle(q, one);
        for (uint32_t d = 0; d < m->dims; d++)
            points[d * SWP_GP_LANES + k] = one[d];
    }
    m->loops->predict(&m->data, m->l_inv, m->alpha, points, mean, variance, gradient ? slopes : NULL);
    for (uint32_t k = count; k-- > 0;) { /* the first one last: its derivatives are used */
        out_scores[k] = swp_gp_log_improvement(mean[k], variance[k], m->best, &by_mean, &by_variance);
        if (!is_allowed[k] || isnan(out_scores[k]))
            out_scores[k] = -INFINITY;
    }
    for (uint32_t d = 0; gradient && d < m->dims; d++) {
        bool is_resting = !m->is_plain && points[d * SWP_GP_LANES] != units[d];
        gradient[d] = is_resting ? 0 : by_mean * slopes[d] + by_variance * slopes[m->dims + d];
    }
}

/* ---- local search ---- */

static double loss_at(void *user, const double *scaled, double *gradient)
{
    struct search *q = user;
    double         x[MT_SWEEP_PARAMS_MAX], slopes[MT_SWEEP_PARAMS_MAX], value;
    memcpy(x, q->x, q->m->dims * sizeof *x);
    for (uint32_t i = 0; i < q->moving_count; i++)
        x[q->moving[i]] = scaled[i] * q->length[i];
    score(q, x, 1, &value, slopes);
    for (uint32_t i = 0; i < q->moving_count; i++)
        gradient[i] = -slopes[q->moving[i]] * q->length[i];
    return -value;
}

static bool climb(struct search *q)
{
    double                 scaled[SWP_LBFGS_DIMS_MAX], low[SWP_LBFGS_DIMS_MAX] = {0}, high[SWP_LBFGS_DIMS_MAX], loss;
    const struct swp_lbfgs problem = {.dims = q->moving_count,
                                      .low = low,
                                      .high = high,
                                      .gradient_least = GRADIENT_LEAST,
                                      .steps_max = STEPS_MAX,
                                      .at = loss_at,
                                      .user = q};
    if (q->moving_count == 0)
        return false;
    for (uint32_t i = 0; i < q->moving_count; i++) {
        high[i] = 1 / q->length[i];
        scaled[i] = fmin(q->x[q->moving[i]] / q->length[i], high[i]);
    }
    if (!swp_lbfgs_least(&problem, scaled, &loss) || !(-loss > q->value))
        return false;
    q->value = -loss;
    for (uint32_t i = 0; i < q->moving_count; i++)
        q->x[q->moving[i]] = scaled[i] * q->length[i];
    return true;
}

static double unit_at(const struct search *q, const struct swp_gp_axis *axis, uint64_t index)
{
    const struct swp_param *p = swp_space_param(q->s->space, axis->a.param);
    bool                    is_index = swp_kind_has_choices(p->kind);
    return swp_axis_unit(&axis->a, is_index ? (double)index : swp_param_snap(p, p->low + (double)index * p->step));
}

/* Tries the values [first, first + count * by) in steps of `by` on axis d; the best index into *best. Whether it is better. */
static bool try_values(struct search *q, uint32_t d, uint64_t first, uint64_t count, uint64_t by, uint64_t *best)
{
    double   units[SWP_GP_LANES * MT_SWEEP_PARAMS_MAX], scores[SWP_GP_LANES], at[SWP_GP_LANES];
    uint32_t dims = q->m->dims;
    bool     is_better = false;
    for (uint64_t i = 0; i < count; i += SWP_GP_LANES) {
        uint32_t n = count - i < SWP_GP_LANES ? (uint32_t)(count - i) : SWP_GP_LANES;
        for (uint32_t k = 0; k < n; k++) {
            memcpy(units + k * dims, q->x, dims * sizeof *units);
            units[k * dims + d] = at[k] = unit_at(q, &q->m->axes[d], first + (i + k) * by);
        }
        score(q, units, n, scores, NULL);
        for (uint32_t k = 0; k < n; k++)
            if (scores[k] > q->value) {
                q->value = scores[k];
                q->x[d] = at[k];
                *best = first + (i + k) * by;
                is_better = true;
            }
    }
    return is_better;
}

/* All values of a category, and of an axis with few; else SCAN of them over the range, then ever closer around the best. */
static bool scan(struct search *q, uint32_t d)
{
    const struct swp_gp_axis *axis = &q->m->axes[d];
    const struct swp_param   *p = swp_space_param(q->s->space, axis->a.param);
    uint64_t                  last = axis->values - 1, by, best = 0, low = 0, high = last;
    if (axis->a.is_category || axis->values <= SCAN)
        return try_values(q, d, 0, axis->values, 1, &best);
    double now = value_of(q, axis, q->x[d]);
    best = (uint64_t)(swp_kind_has_choices(p->kind) ? now : (now - p->low) / p->step + 0.5);
    bool is_better = false;
    do {
        by = (high - low) / (SCAN - 1) + ((high - low) % (SCAN - 1) != 0);
        is_better |= try_values(q, d, low, (high - low) / by + 1, by, &best);
        low = best > by ? best - by : 0;
        high = last - best > by ? best + by : last;
    } while (by > 1);
    return is_better;
}

static void search_from(struct search *q)
{
    enum { CONTINUOUS = -1 };
    int last = CONTINUOUS; /* what was changed last: when its turn comes again, nothing gets better any more */
    for (int round = 0; round < ROUNDS_MAX; round++) {
        if (climb(q))
            last = CONTINUOUS;
        for (uint32_t d = 0; d < q->m->dims; d++) {
            if (q->m->axes[d].values == 0)
                continue;
            if (last == (int)d)
                return;
            if (scan(q, d))
                last = (int)d;
        }
        if (last == CONTINUOUS)
            return;
    }
}

/* ---- starts ---- */

static void draw_samples(const struct search *q, mt_rng *rng, double *samples)
{
    for (uint32_t d = 0; d < q->m->dims; d++) {
        const struct swp_gp_axis *axis = &q->m->axes[d];
        uint32_t                  seed = (uint32_t)mt_rng_next(rng);
        for (uint32_t i = 0; i < SWP_GP_SAMPLES; i++) {
            double u = ((double)swp_sobol_scramble(swp_sobol_at(axis->directions, i), seed) + 0.5) * 0x1p-32;
            if (axis->a.is_category)
                u = floor(u * axis->a.choices);
            else if (axis->values)
                u = swp_axis_unit(&axis->a, value_of(q, axis, u));
            samples[i * q->m->dims + d] = u;
        }
    }
}

/* Draws a sample in proportion to exp(score) and takes it out. False: none has a chance any more. */
static bool draw_start(double *chances, mt_rng *rng, uint32_t *out)
{
    double   total = 0, u = swp_rng_real(rng);
    uint32_t last = SWP_GP_SAMPLES;
    for (uint32_t i = 0; i < SWP_GP_SAMPLES; i++)
        total += chances[i];
    u *= total;
    for (uint32_t i = 0; i < SWP_GP_SAMPLES && u >= 0; i++) {
        if (chances[i] == 0)
            continue;
        last = i;
        u -= chances[i];
    }
    if (last == SWP_GP_SAMPLES)
        return false;
    chances[ *out = last] = 0;
    return true;
}

static void consider(struct search *q, const double *start, double value, double *best, double *best_value)
{
    if (value == -INFINITY)
        return;
    memcpy(q->x, start, q->m->dims * sizeof *start);
    q->value = value;
    search_from(q);
    if (q->value > *best_value) {
        *best_value = q->value;
        memcpy(best, q->x, q->m->dims * sizeof *best);
    }
}

/* Local searches from all starts; the best point's units. False: there is none. */
static bool search_all(struct search *q, mt_rng *rng, double *best)
{
    uint32_t top = 0, start, dims = q->m->dims;
    double  *samples = q->m->samples, *chances = samples + (size_t)SWP_GP_SAMPLES * dims;
    double   best_value = -INFINITY, row[MT_SWEEP_PARAMS_MAX], value, chance_top;
    draw_samples(q, rng, samples);
    for (uint32_t i = 0; i < SWP_GP_SAMPLES; i += SWP_GP_LANES)
        score(q, samples + (size_t)i * dims, SWP_GP_LANES, chances + i, NULL);
    for (uint32_t i = 1; i < SWP_GP_SAMPLES; i++)
        top = chances[i] > chances[top] ? i : top;
    chance_top = chances[top];
    for (uint32_t i = 0; i < SWP_GP_SAMPLES; i++)
        chances[i] = i == top || chances[i] == -INFINITY ? 0 : exp(chances[i] - chance_top);
    consider(q, samples + (size_t)top * dims, chance_top, best, &best_value);
    for (uint32_t i = 0; i < STARTS - 2 && draw_start(chances, rng, &start); i++) {
        score(q, samples + (size_t)start * dims, 1, &value, NULL);
        consider(q, samples + (size_t)start * dims, value, best, &best_value);
    }
    for (uint32_t d = 0; d < dims; d++) {
        row[d] = q->m->columns[d][q->m->best_row];
        if (q->m->axes[d].values == 0) /* a normal parameter may have been seen outside */
            row[d] = fmin(fmax(row[d], 0), 1);
    }
    score(q, row, 1, &value, NULL);
    consider(q, row, value, best, &best_value);
    return best_value > -INFINITY;
}

bool swp_gp_search(struct swp_sampler *s, mt_rng *rng, struct swp_point *point)
{
    struct swp_gp         *m = s->model;
    const struct swp_point given = *point;
    struct search          q = {.s = s, .m = m, .given = &given};
    double                 best[MT_SWEEP_PARAMS_MAX];
    for (uint32_t d = 0; d < m->dims; d++)
        if (m->axes[d].values == 0) {
            q.length[q.moving_count] = 1 / sqrt(m->weight[d]);
            q.moving[q.moving_count++] = d;
        }
    if (!search_all(&q, rng, best))
        return false;
    point_of(&q, best, point);
    return swp_point_allowed(s->space, point);
}
