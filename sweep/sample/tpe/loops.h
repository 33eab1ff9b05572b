/* SPDX-License-Identifier: Apache-2.0
 *
 * loops.h - the loops over all kernels of a Parzen estimator, built for each instruction set with the same bits.
 *
 * Vectors have eight lanes in every build and nothing is contracted, so a sweep goes on with the same draws on another machine.
 * Lengths are multiples of SWP_TPE_LANES; what pads an array has weight 0. Coordinates are in units of the range: 0 to 1.
 * Pure functions; any thread.
 */
#ifndef SWP_TPE_LOOPS_H
#define SWP_TPE_LOOPS_H

#include <stddef.h>
#include <stdint.h>

enum { SWP_TPE_LANES = 8 };

struct swp_tpe_loops {
    /* weight[i] /= P(0 < X < 1), X normal around x[i] in [0, 1] with deviation 1 / inv[i]; the probability within 2e-7. */
    void (*cut)(const double *x, const double *inv, double *weight, size_t n);
    /* weight[i] *= P(low < X < high), for a short interval: relative error 1e-5 where that matters. */
    void (*step)(const double *x, const double *inv, double low, double high, double *weight, size_t n);
    /* A Gaussian's exponent at y, (y - x[i])^2 inv[i]^2 / 2, taken apart: square[i] y^2 - 2 linear[i] y + what is added to
     * rest[i]. weight[i] *= its factor, inv[i] / sqrt(2 pi). */
    void (*part)(const double *x, const double *inv, double *linear, double *square, double *rest, double *weight, size_t n);
    /* Sum of weight[i] exp(2 (sum over d of x[d][i] at[d]) - rest[i]), no exponent above 0; within 1e-10. */
    double (*mix)(const double *const *x, const double *rest, const double *at, uint32_t dims, const double *weight, size_t n);
    /* Sum of weight[i] exp(-((x[i] - at) inv[i])^2 / 2); within 1e-10. */
    double (*mix_one)(const double *x, const double *inv, double at, const double *weight, size_t n);
};

extern const struct swp_tpe_loops swp_tpe_loops_plain, swp_tpe_loops_avx2, swp_tpe_loops_avx512;
/* The best that this machine has. */
const struct swp_tpe_loops *swp_tpe_loops_best(void);

#endif
