/* SPDX-License-Identifier: Apache-2.0
 *
 * density.c - Parzen estimators: weights, widths and densities of the good and of the other rows.
 *
 * As Optuna defines them. Weights: the newest 25 rows of a set count fully, older ones in a ramp from 1/n; the prior has
 * prior_weight. A kernel's deviation along an axis is the larger gap to a neighbour of its set there, in the joint model as well
 * (Optuna 4.9 had 0.2 n^(-1/(d + 4)) of the range there, for all), kept between range / min(100, n + 2) and the range. Numeric
 * kernels are cut at the bounds; discrete values have the probability of the interval of a step around them. A category has 1 + a
 * where it was seen and a elsewhere, a = prior_weight / (n + 1), normalised.
 *
 * Owns: nothing; works in the model's scratch memory. Thread: one at a time.
 */
#include "sweep/math/normal.h"
#include "sweep/sample/tpe/tpe.h"

#include <math.h>

#define INV_SQRT_2PI    0.39894228040143267794
#define PRIOR_MASS      0.38292492254802620728 /* P(-1/2 < X < 1/2): of the prior between the bounds */
#define NORMAL_PRIOR_SD (1.0 / 6)              /* six deviations of a normal parameter are its range */
enum { FULL_WEIGHTS = 25 };

/* The interval of units around a discrete value. */
static void edges(const struct swp_tpe_axis *axis, double unit, double *low, double *high)
{
    double half = 0.5 * axis->a.step, value = swp_axis_value(&axis->a, unit);
    *low = axis->a.is_log ? swp_axis_unit(&axis->a, value - half) : unit - half / axis->a.range;
    *high = axis->a.is_log ? swp_axis_unit(&axis->a, value + half) : unit + half / axis->a.range;
}

static double prior_density(const struct swp_tpe_axis *axis, double unit)
{
    double low, high, x = unit - 0.5;
    if (axis->a.is_category)
        return 1.0 / axis->a.choices;
    if (!axis->a.is_bounded)
        return swp_normal_density(x / NORMAL_PRIOR_SD) / NORMAL_PRIOR_SD;
    if (axis->a.step == 0)
        return swp_normal_density(x) / PRIOR_MASS;
    edges(axis, unit, &low, &high);
    return (swp_normal_below(high - 0.5) - swp_normal_below(low - 0.5)) / PRIOR_MASS;
}

/* ---- which rows, and how much they count ---- */

void swp_tpe_mark(struct swp_sampler *s)
{
    struct swp_tpe *m = s->model;
    double          n = (double)m->best.count, good = s->opts.hyperopt ? ceil(0.25 * sqrt(n)) : ceil(0.1 * n);
    m->good_count = (uint32_t)fmin(good, SWP_TPE_GOOD_MAX);
    for (uint32_t i = 0; i < m->good_count; i++)
        m->is_good[m->best.data[i]] = 1;
}

void swp_tpe_unmark(struct swp_sampler *s)
{
    struct swp_tpe *m = s->model;
    for (uint32_t i = 0; i < m->good_count; i++)
        m->is_good[m->best.data[i]] = 0;
}

static bool counts(const struct swp_sampler *s, const struct swp_tpe_axis *axis, bool good, size_t row)
{
    const struct swp_tpe *m = s->model;
    enum swp_row_state    state = s->rows.data[row].state;
    bool is_in = state == SWP_ROW_RUNNING ? !good && !s->opts.no_liar : state != SWP_ROW_FAILED && m->is_good[row] == good;
    return is_in && (!axis || !isnan(axis->units[row]));
}

/* Weights of the set by row into `weight` (others 0), together with the prior's of sum 1; how many there are. */
static size_t weigh(const struct swp_sampler *s, const struct swp_tpe_axis *axis, bool good, double *weight, double *out_prior)
{
    size_t rows = s->rows.count, n = 0, rank = 0;
    double sum = 0;
    for (size_t i = 0; i < rows; i++) {
        bool is_in = counts(s, axis, good, i);
        weight[i] = is_in;
        n += is_in;
    }
    size_t ramp = n > FULL_WEIGHTS ? n - FULL_WEIGHTS : 0;
    double start = ramp ? 1.0 / (double)n : 1, slope = ramp > 1 ? (1 - start) / (double)(ramp - 1) : 0;
    for (size_t i = 0; i < rows; i++) {
        if (weight[i] == 0)
            continue;
        if (rank < ramp)
            weight[i] = start + slope * (double)rank;
        sum += weight[i];
        rank++;
    }
    double total = n ? sum + s->opts.prior_weight : 1, share = 1 / total;
    for (size_t i = 0; i < rows; i++)
        weight[i] *= share;
    *out_prior = n ? s->opts.prior_weight / total : 1;
    return n;
}

static size_t padded(size_t n)
{
    return (n + SWP_TPE_LANES - 1) / SWP_TPE_LANES * SWP_TPE_LANES;
}

static double least_width(size_t kernels)
{
    return 1 / fmin(100, (double)kernels + 2);
}

/* Widths of kernels at x, in rising order, by the gaps between neighbours; at the ends by the inner gap, where there is one. */
static void fill_widths(const struct swp_tpe_axis *axis, const double *x, size_t n, double *inv)
{
    double ends[2] = {axis->a.is_bounded ? 0 : -INFINITY, axis->a.is_bounded ? 1 : INFINITY};
    for (size_t i = 0; i < n; i++) {
        double left = x[i] - (i ? x[i - 1] : ends[0]), right = (i + 1 < n ? x[i + 1] : ends[1]) - x[i];
        double gap = n > 1 && i == 0 ? right : n > 1 && i == n - 1 ? left : fmax(left, right);
        inv[i] = 1 / fmin(fmax(gap, least_width(n)), 1);
    }
}

/* ---- the joint model ---- */

/* Widths along an axis of the kernels order[0 .. n-1], which stand there by value. */
static void joint_widths(struct swp_tpe *m, const struct swp_tpe_axis *axis, const double *units, const uint32_t *order, size_t n,
                         double *inv, size_t all)
{
    double *gaps = m->inv, *sorted = m->temp;
    for (size_t i = 0; i < n; i++)
        sorted[i] = units[order[i]];
    fill_widths(axis, sorted, n, gaps);
    for (size_t i = 0; i < all; i++)
        inv[i] = 1;
    for (size_t i = 0; i < n; i++)
        inv[order[i]] = gaps[i];
}

static void finish_joint(struct swp_tpe *m, struct swp_tpe_set *set)
{
    memset(set->rest, 0, set->n * sizeof *set->rest);
    for (uint32_t d = 0; d < m->joint_count; d++) {
        const struct swp_tpe_axis *axis = &m->axes[m->joint[d]];
        if (!axis->a.is_category && axis->a.is_bounded)
            m->loops->cut(set->units[d], set->inv[d], set->weight, set->n);
        if (!axis->a.is_category && axis->a.step == 0)
            m->loops->part(set->units[d], set->inv[d], set->linear[d], set->square[d], set->rest, set->weight, set->n);
    }
}

/* The good ones are few: they are sorted anew. */
static void good_widths(struct swp_tpe *m, const struct swp_tpe_axis *axis, const double *units, double *inv, size_t n, size_t all)
{
    uint32_t order[SWP_TPE_GOOD_ROOM];
    for (uint32_t i = 0; i < n; i++) {
        uint32_t at = i;
        for (; at > 0 && units[order[at - 1]] > units[i]; at--)
            order[at] = order[at - 1];
        order[at] = i;
    }
    joint_widths(m, axis, units, order, n, inv, all);
}

/* The columns of the good rows are copied together. */
static void gather_good(struct swp_sampler *s, struct swp_tpe_set *good)
{
    struct swp_tpe *m = s->model;
    double         *room = m->good;
    *good = (struct swp_tpe_set){.weight = room, .rest = room + SWP_TPE_GOOD_ROOM, .kernels = m->good_count};
    room += 3 * SWP_TPE_GOOD_ROOM;
    good->n = padded(m->good_count);
    double total = m->good_count ? m->good_count + s->opts.prior_weight : 1;
    good->prior = m->good_count ? s->opts.prior_weight / total : 1;
    for (size_t i = 0; i < good->n; i++)
        good->weight[i] = i < m->good_count ? 1 / total : 0;
    for (uint32_t d = 0; d < m->joint_count; d++, room += 4 * SWP_TPE_GOOD_ROOM) {
        const struct swp_tpe_axis *axis = &m->axes[m->joint[d]];
        for (size_t i = 0; i < good->n; i++)
            room[i] = i < m->good_count ? axis->units[m->best.data[i]] : 0;
        good->units[d] = room;
        good->inv[d] = room + SWP_TPE_GOOD_ROOM;
        good->linear[d] = room + 2 * SWP_TPE_GOOD_ROOM;
        good->square[d] = room + 3 * SWP_TPE_GOOD_ROOM;
        if (!axis->a.is_category)
            good_widths(m, axis, room, good->inv[d], m->good_count, good->n);
    }
}

static void gather_rest(struct swp_sampler *s, struct swp_tpe_set *rest)
{
    struct swp_tpe *m = s->model;
    *rest = (struct swp_tpe_set){.weight = m->weight, .rest = m->units, .n = padded(s->rows.count)};
    rest->kernels = weigh(s, NULL, false, m->weight, &rest->prior);
    for (size_t i = s->rows.count; i < rest->n; i++)
        m->weight[i] = 0;
    for (uint32_t d = 0; d < m->joint_count; d++) {
        const struct swp_tpe_axis *axis = &m->axes[m->joint[d]];
        size_t                     n = 0;
        rest->units[d] = axis->units;
        if (axis->a.is_category)
            continue;
        rest->inv[d] = axis->inv, rest->linear[d] = axis->linear, rest->square[d] = axis->square;
        for (size_t k = 0; k < axis->sorted.count; k++)
            if (m->weight[axis->sorted.data[k]] > 0)
                m->order[n++] = axis->sorted.data[k];
        joint_widths(m, axis, axis->units, m->order, n, axis->inv, rest->n);
    }
}

void swp_tpe_joint_sets(struct swp_sampler *s, struct swp_tpe_set *out_good, struct swp_tpe_set *out_rest)
{
    gather_rest(s, out_rest);
    finish_joint(s->model, out_rest);
    gather_good(s, out_good);
    finish_joint(s->model, out_good);
}

/* Factors of the kernels that are no plain Gaussians: weights with them, in scratch memory, or the set's own without. */
static const double *special_weights(struct swp_sampler *s, const struct swp_tpe_set *set, const double *candidate)
{
    struct swp_tpe *m = s->model;
    double          a = s->opts.prior_weight / (double)(set->kernels + 1), low, high;
    const double   *weight = set->weight;
    for (uint32_t d = 0; d < m->joint_count; d++) {
        const struct swp_tpe_axis *axis = &m->axes[m->joint[d]];
        if (!axis->a.is_category && axis->a.step == 0)
            continue;
        if (weight == set->weight)
            weight = memcpy(m->temp, set->weight, set->n * sizeof *m->temp);
        if (axis->a.is_category) {
            double all = 1 + a * axis->a.choices, hit = (1 + a) / all, miss = a / all;
            for (size_t i = 0; i < set->n; i++)
                m->temp[i] *= set->units[d][i] == candidate[d] ? hit : miss;
        } else {
            edges(axis, candidate[d], &low, &high);
            m->loops->step(set->units[d], set->inv[d], low, high, m->temp, set->n);
        }
    }
    return weight;
}

double swp_tpe_joint_density(struct swp_sampler *s, const struct swp_tpe_set *set, const double *candidate)
{
    struct swp_tpe *m = s->model;
    const double   *columns[2 * MT_SWEEP_PARAMS_MAX];
    double          at[2 * MT_SWEEP_PARAMS_MAX], prior = set->prior;
    double          far = 0; /* of the plain axes from the middle: their priors are one Gaussian */
    uint32_t        count = 0;
    for (uint32_t d = 0; d < m->joint_count; d++) {
        const struct swp_tpe_axis *axis = &m->axes[m->joint[d]];
        bool                       is_plain = !axis->a.is_category && axis->a.step == 0;
        if (is_plain && axis->a.is_bounded) {
            far += (candidate[d] - 0.5) * (candidate[d] - 0.5);
            prior *= INV_SQRT_2PI / PRIOR_MASS;
        } else {
            prior *= prior_density(axis, candidate[d]);
        }
        if (!is_plain)
            continue;
        columns[count] = set->linear[d], at[count++] = candidate[d];
        columns[count] = set->square[d], at[count++] = -0.5 * candidate[d] * candidate[d];
    }
    const double *weight = special_weights(s, set, candidate);
    return m->loops->mix(columns, set->rest, at, count, weight, set->n) + prior * exp(-0.5 * far);
}

/* ---- one axis ---- */

/* Probability of each choice: an average over kernels, so sums by choice will do. */
static void fill_shares(const struct swp_sampler *s, const struct swp_tpe_axis *axis, const double *weight, double *shares,
                        struct swp_tpe_set *set)
{
    double a = s->opts.prior_weight / (double)(set->kernels + 1), all = 1 + a * axis->a.choices, sum = 0;
    set->shares = shares;
    memset(shares, 0, axis->a.choices * sizeof *shares);
    for (size_t i = 0; i < s->rows.count; i++)
        if (weight[i] > 0) {
            shares[(uint32_t)axis->units[i]] += weight[i] / all;
            sum += weight[i];
        }
    for (uint32_t c = 0; c < axis->a.choices; c++)
        shares[c] += sum * a / all + set->prior / axis->a.choices;
}

static void fill_axis(struct swp_sampler *s, const struct swp_tpe_axis *axis, bool good, double *units, double *shares,
                      struct swp_tpe_set *set)
{
    struct swp_tpe *m = s->model;
    size_t          n = 0;
    double         *by_row = m->temp;
    set->kernels = weigh(s, axis, good, by_row, &set->prior);
    set->units[0] = units;
    set->n = padded(set->kernels);
    if (axis->a.is_category) {
        fill_shares(s, axis, by_row, shares, set);
        return;
    }
    for (size_t k = 0; k < axis->sorted.count; k++) {
        uint32_t row = axis->sorted.data[k];
        if (by_row[row] > 0)
            units[n] = axis->units[row], set->weight[n++] = by_row[row];
    }
    for (; n < set->n; n++)
        units[n] = set->weight[n] = 0, set->inv[0][n] = 1;
    fill_widths(axis, units, set->kernels, set->inv[0]);
    if (axis->a.is_bounded)
        m->loops->cut(units, set->inv[0], set->weight, set->n);
    for (size_t i = 0; i < set->kernels && axis->a.step == 0; i++)
        set->weight[i] *= set->inv[0][i] * INV_SQRT_2PI;
}

void swp_tpe_axis_sets(struct swp_sampler *s, const struct swp_tpe_axis *axis, struct swp_tpe_set *out_good,
                       struct swp_tpe_set *out_rest)
{
    struct swp_tpe *m = s->model;
    double         *room = m->good;
    *out_good = (struct swp_tpe_set){.weight = room, .inv = {room + SWP_TPE_GOOD_ROOM}};
    *out_rest = (struct swp_tpe_set){.weight = m->weight, .inv = {m->inv}};
    fill_axis(s, axis, true, room + 2 * SWP_TPE_GOOD_ROOM, m->shares[0], out_good);
    fill_axis(s, axis, false, m->units, m->shares[1], out_rest);
}

double swp_tpe_axis_density(struct swp_sampler *s, const struct swp_tpe_axis *axis, const struct swp_tpe_set *set, double unit)
{
    struct swp_tpe *m = s->model;
    double          low, high, sum = 0;
    if (axis->a.is_category)
        return set->shares[(uint32_t)unit];
    if (axis->a.step == 0)
        return m->loops->mix_one(set->units[0], set->inv[0], unit, set->weight, set->n) + set->prior * prior_density(axis, unit);
    edges(axis, unit, &low, &high);
    memcpy(m->temp, set->weight, set->n * sizeof *m->temp);
    m->loops->step(set->units[0], set->inv[0], low, high, m->temp, set->n);
    for (size_t i = 0; i < set->n; i++)
        sum += m->temp[i];
    return sum + set->prior * prior_density(axis, unit);
}

/* ---- scores ---- */

double swp_tpe_joint_score(struct swp_sampler *s, const struct swp_point *point)
{
    struct swp_tpe    *m = s->model;
    struct swp_tpe_set good, rest;
    double             candidate[MT_SWEEP_PARAMS_MAX];
    for (uint32_t d = 0; d < m->joint_count; d++)
        candidate[d] = swp_axis_unit(&m->axes[m->joint[d]].a, point->values[m->axes[m->joint[d]].a.param]);
    swp_tpe_mark(s);
    swp_tpe_joint_sets(s, &good, &rest);
    swp_tpe_unmark(s);
    return log(swp_tpe_joint_density(s, &good, candidate)) - log(swp_tpe_joint_density(s, &rest, candidate));
}

double swp_tpe_axis_score(struct swp_sampler *s, uint32_t index, double value)
{
    struct swp_tpe            *m = s->model;
    const struct swp_tpe_axis *axis = &m->axes[index];
    struct swp_tpe_set         good, rest;
    double                     unit = swp_axis_unit(&axis->a, value);
    swp_tpe_mark(s);
    swp_tpe_axis_sets(s, axis, &good, &rest);
    swp_tpe_unmark(s);
    return log(swp_tpe_axis_density(s, axis, &good, unit)) - log(swp_tpe_axis_density(s, axis, &rest, unit));
}
