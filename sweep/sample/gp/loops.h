/* SPDX-License-Identifier: Apache-2.0
 *
 * loops.h - what a Gaussian process computes over all pairs of rows, built for each instruction set with the same bits.
 *
 * The covariance of two points is scale * M(r^2), Matern's function of smoothness 5/2 of the squared distance r^2 = sum of
 * weight[d] * (difference in d)^2, where two different categories differ by 1. An observation adds `noise` to its variance.
 * Pure functions; any thread.
 */
#ifndef SWP_GP_LOOPS_H
#define SWP_GP_LOOPS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum { SWP_GP_LANES = 8 };

/* Columns have `stride` doubles, matrices n rows of as many: a multiple of SWP_GP_LANES, and what is beyond n is finite. */
struct swp_gp_data {
    size_t               n, stride;
    uint32_t             dims;
    const double *const *x; /* by dimension: units by row; categories: their index */
    const bool          *is_category;
    const double        *weight; /* by dimension: 1 / length^2 */
    double               scale, noise;
    double              *scratch; /* 18 columns */
};

struct swp_gp_loops {
    /* The covariance of all rows as u^T u, into the upper triangle of u; l_inv = u^-T, zero above the diagonal; the slopes dM/dr^2
     * times scale into `slope`'s upper triangle, where it is not NULL. False: rounding has made it singular. */
    bool (*factor)(const struct swp_gp_data *d, double *u, double *l_inv, double *slope);
    /* alpha = covariance^-1 y; both columns, zero beyond n. */
    void (*solve)(const struct swp_gp_data *d, const double *l_inv, const double *y, double *alpha);
    /* With S = covariance^-1 - alpha alpha^T: out_weights[d], half the derivative of trace(S covariance) by weight[d]; returns
     * trace(S). */
    double (*gradient)(const struct swp_gp_data *d, const double *l_inv, const double *slope, const double *alpha,
                       double *out_weights);
    /* Of 8 points (point k's coordinate d stands at points[8 d + k]): mean and variance without noise. With `gradient` != NULL also
     * of point 0 the derivatives of both: gradient[d] and gradient[dims + d], 0 for categories. */
    void (*predict)(const struct swp_gp_data *d, const double *l_inv, const double *alpha, const double *points, double *mean,
                    double *variance, double *gradient);
};

extern const struct swp_gp_loops swp_gp_loops_plain, swp_gp_loops_avx2, swp_gp_loops_avx512;
/* The best that this machine has. */
const struct swp_gp_loops *swp_gp_loops_best(void);

#endif
