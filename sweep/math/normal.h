/* SPDX-License-Identifier: Apache-2.0
 *
 * normal.h - the normal distribution: what samplers need of it. Pure functions; any thread.
 */
#ifndef SWP_NORMAL_H
#define SWP_NORMAL_H

/* Density, and its logarithm. */
double swp_normal_density(double x);
double swp_normal_log_density(double x);
/* Probability of less than x. */
double swp_normal_below(double x);
/* The x below which lies probability p; infinities at 0 and 1 (Wichura 1988, AS 241: about 1e-16). */
double swp_normal_quantile(double p);
/* The same for a normal distribution cut to [a, b]: exact in the tails. */
double swp_normal_cut_quantile(double p, double a, double b);

#endif
