/* SPDX-License-Identifier: Apache-2.0
 *
 * loops.c - the loops of loops.h for every machine, and which ones to use on this one; loops_avx2.c and
 * loops_avx512.c build this file once more under other flags. Owns nothing. Thread: any.
 */
#include "sweep/sample/gp/loops.h"

#include "core/base/limits/sweep.h"
#include "sweep/math/lanes.h"

#include <math.h>
#include <string.h>

#if !defined(SWP_GP_LOOPS)
#define SWP_GP_LOOPS swp_gp_loops_plain
#define SWP_GP_CHOOSES
#endif

enum { BLOCK = 4 * SWP_LANES }; /* columns whose sums stay in registers */

static size_t lane_of(size_t i)
{
    return i - i % SWP_LANES;
}

INLINE v8 root(v8 x)
{
    for (int k = 0; k < SWP_LANES; k++)
        x[k] = sqrt(x[k]);
    return x;
}

/* Matern's function of r^2, and its derivative by r^2. */
INLINE v8 matern(v8 square, v8 *slope)
{
    v8 a = root(EACH(5.0) * square), e = exp_fine_below_0(-a);
    *slope = EACH(-5.0 / 6) * (a + EACH(1.0)) * e;
    return e * (EACH(5.0 / 3) * square + a + EACH(1.0));
}

/* What a difference counts, before its weight. */
INLINE v8 squared(v8 difference, bool is_category)
{
    if (is_category)
        return choose(difference != EACH(0.0), EACH(1.0), EACH(0.0));
    return difference * difference;
}

/* row[c] -= sum over k in [first, end) of factor[k] rows[k][c], for the columns [from, to). */
static void subtract_rows(double *row, const double *rows, size_t stride, const double *factor, size_t first, size_t end,
                          size_t from, size_t to)
{
    size_t c = from;
    for (; c + BLOCK <= to; c += BLOCK) {
        v8 a = load(row + c), b = load(row + c + 8), d = load(row + c + 16), e = load(row + c + 24);
        for (size_t k = first; k < end; k++) {
            const double *other = rows + k * stride + c;
            v8            f = EACH(factor[k]);
            a -= f * load(other);
            b -= f * load(other + 8);
            d -= f * load(other + 16);
            e -= f * load(other + 24);
        }
        store(row + c, a);
        store(row + c + 8, b);
        store(row + c + 16, d);
        store(row + c + 24, e);
    }
    for (; c < to; c += SWP_LANES) {
        v8 a = load(row + c);
        for (size_t k = first; k < end; k++)
            a -= EACH(factor[k]) * load(rows + k * stride + c);
        store(row + c, a);
    }
}

/* Row i of the covariance, from the diagonal's lanes on. */
static void fill_row(const struct swp_gp_data *d, size_t i, double *u, double *slope)
{
    for (size_t c = lane_of(i); c < d->stride; c += SWP_LANES) {
        v8 square = EACH(0.0), slopes;
        for (uint32_t k = 0; k < d->dims; k++)
            square += EACH(d->weight[k]) * squared(load(d->x[k] + c) - EACH(d->x[k][i]), d->is_category[k]);
        store(u + i * d->stride + c, EACH(d->scale) * matern(square, &slopes));
        if (slope)
            store(slope + i * d->stride + c, EACH(d->scale) * slopes);
    }
}

static bool loop_factor(const struct swp_gp_data *d, double *u, double *l_inv, double *slope)
{
    size_t  n = d->n, stride = d->stride;
    double *column = d->scratch; /* of u: row i of its transpose */
    for (size_t i = 0; i < n; i++) {
        double *row = u + i * stride, *inverse = l_inv + i * stride;
        fill_row(d, i, u, slope);
        row[i] += d->noise;
        for (size_t k = 0; k < i; k++)
            column[k] = u[k * stride + i];
        subtract_rows(row, u, stride, column, 0, i, lane_of(i), stride);
        if (!(row[i] > 0) || isinf(row[i]))
            return false;
        double diagonal = sqrt(row[i]), one = 1 / diagonal;
        row[i] = diagonal;
        for (size_t c = i + 1; c < stride; c++)
            row[c] *= one;
        memset(inverse, 0, stride * sizeof *inverse);
        for (size_t c = 0; c < i; c += BLOCK) { /* the rows above have nothing in these columns before row c */
            size_t to = c + BLOCK < i ? c + BLOCK : lane_of(i + SWP_LANES - 1);
            subtract_rows(inverse, l_inv, stride, column, c, i, c, to);
        }
        for (size_t c = 0; c < i; c++)
            inverse[c] *= one;
        inverse[i] = one;
    }
    return true;
}

static void loop_solve(const struct swp_gp_data *d, const double *l_inv, const double *y, double *alpha)
{
    memset(alpha, 0, d->stride * sizeof *alpha);
    for (size_t i = 0; i < d->n; i++) {
        const double *row = l_inv + i * d->stride;
        v8            total = EACH(0.0);
        for (size_t c = 0; c <= i; c += SWP_LANES)
            total += load(row + c) * load(y + c);
        double white = sum(total);
        for (size_t c = 0; c <= i; c += SWP_LANES)
            store(alpha + c, load(alpha + c) + EACH(white) * load(row + c));
    }
}

static double loop_gradient(const struct swp_gp_data *d, const double *l_inv, const double *slope, const double *alpha,
                            double *out_weights)
{
    size_t  n = d->n, stride = d->stride;
    double *column = d->scratch, *row = d->scratch + stride, trace = 0;
    v8      totals[MT_SWEEP_PARAMS_MAX];
    for (uint32_t k = 0; k < d->dims; k++)
        totals[k] = EACH(0.0);
    for (size_t i = 0; i < n; i++) {
        size_t from = lane_of(i);
        for (size_t k = i; k < n; k++)
            column[k] = l_inv[k * stride + i];
        for (size_t c = from; c < stride; c += SWP_LANES)
            store(row + c, EACH(alpha[i]) * load(alpha + c));
        for (size_t c = from; c < n; c += BLOCK) { /* -S: alpha alpha^T - the sum over rows k of l_inv[k][i] l_inv[k][c] */
            size_t to = c + BLOCK < stride ? c + BLOCK : stride;
            subtract_rows(row, l_inv, stride, column, c > i ? c : i, n, c, to);
        }
        trace -= row[i];
        for (size_t c = from; c <= i; c++) /* of each pair once; a row has no distance from itself */
            row[c] = 0;
        for (size_t c = n; c < stride; c++)
            row[c] = 0;
        for (size_t c = from; c < stride; c += SWP_LANES) {
            v8 part = load(row + c) * load(slope + i * stride + c);
            for (uint32_t k = 0; k < d->dims; k++)
                totals[k] -= part * squared(load(d->x[k] + c) - EACH(d->x[k][i]), d->is_category[k]);
        }
    }
    for (uint32_t k = 0; k < d->dims; k++)
        out_weights[k] = sum(totals[k]);
    return trace;
}

static void predict_gradient(const struct swp_gp_data *d, const double *l_inv, const double *alpha, const double *points,
                             const double *slope, const double *white, double *inverse, double *gradient)
{
    for (size_t i = 0; i < d->stride; i++)
        inverse[i] = 0;
    for (size_t i = 0; i < d->n; i++) /* covariance^-1 k: of point 0 alone */
        for (size_t c = 0; c <= i; c += SWP_LANES)
            store(inverse + c, load(inverse + c) + EACH(white[i * SWP_LANES]) * load(l_inv + i * d->stride + c));
    for (uint32_t k = 0; k < d->dims; k++) {
        v8 mean = EACH(0.0), variance = EACH(0.0);
        for (size_t c = 0; c < d->stride && !d->is_category[k]; c += SWP_LANES) {
            v8 part = load(slope + c) * (EACH(points[k * SWP_LANES]) - load(d->x[k] + c));
            mean += part * load(alpha + c);
            variance += part * load(inverse + c);
        }
        gradient[k] = 2 * d->weight[k] * sum(mean);
        gradient[d->dims + k] = -4 * d->weight[k] * sum(variance);
    }
}

static void loop_predict(const struct swp_gp_data *d, const double *l_inv, const double *alpha, const double *points, double *mean,
                         double *variance, double *gradient)
{
    double *covariance = d->scratch, *white = covariance + SWP_LANES * d->stride, *slope = white + SWP_LANES * d->stride;
    v8      means = EACH(0.0), squares = EACH(0.0);
    for (size_t i = 0; i < d->n; i++) {
        v8 square = EACH(0.0), slopes;
        for (uint32_t k = 0; k < d->dims; k++)
            square += EACH(d->weight[k]) * squared(load(points + k * SWP_LANES) - EACH(d->x[k][i]), d->is_category[k]);
        v8 value = EACH(d->scale) * matern(square, &slopes);
        means += value * EACH(alpha[i]);
        store(covariance + i * SWP_LANES, value);
        slope[i] = d->scale * slopes[0];
    }
    for (size_t i = d->n; i < d->stride; i++)
        slope[i] = 0;
    for (size_t i = 0; i < d->n; i++) {
        const double *row = l_inv + i * d->stride;
        v8            even = EACH(0.0), odd = EACH(0.0);
        size_t        k = 0;
        for (; k + 1 <= i; k += 2) {
            even += EACH(row[k]) * load(covariance + k * SWP_LANES);
            odd += EACH(row[k + 1]) * load(covariance + (k + 1) * SWP_LANES);
        }
        if (k == i)
            even += EACH(row[k]) * load(covariance + k * SWP_LANES);
        even += odd;
        store(white + i * SWP_LANES, even);
        squares += even * even;
    }
    store(mean, means);
    store(variance, EACH(d->scale) - squares);
    if (gradient)
        predict_gradient(d, l_inv, alpha, points, slope, white, slope + d->stride, gradient);
}

const struct swp_gp_loops SWP_GP_LOOPS = {loop_factor, loop_solve, loop_gradient, loop_predict};

#if defined(SWP_GP_CHOOSES)
const struct swp_gp_loops *swp_gp_loops_best(void)
{
#if defined(__x86_64__)
    if (__builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512dq"))
        return &swp_gp_loops_avx512;
    if (__builtin_cpu_supports("avx2"))
        return &swp_gp_loops_avx2;
#endif
    return &swp_gp_loops_plain;
}
#endif
