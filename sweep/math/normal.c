/* SPDX-License-Identifier: Apache-2.0
 *
 * normal.c - the normal distribution by erfc and Wichura's AS 241. Owns nothing. Thread: any.
 */
#include "sweep/math/normal.h"

#include <math.h>

#define SQRT_HALF    0.70710678118654752440
#define LOG_SQRT_2PI 0.91893853320467274178

double swp_normal_log_density(double x)
{
    return -0.5 * x * x - LOG_SQRT_2PI;
}

double swp_normal_density(double x)
{
    return exp(swp_normal_log_density(x));
}

double swp_normal_below(double x)
{
    return 0.5 * erfc(-x * SQRT_HALF);
}

/* a[0] + a[1] x + ... over 1 + b[0] x + ... */
static double ratio(const double a[8], const double b[7], double x)
{
    double top = a[7], bottom = b[6];
    for (int i = 6; i >= 0; i--) {
        top = top * x + a[i];
        bottom = bottom * x + (i ? b[i - 1] : 1);
    }
    return top / bottom;
}

double swp_normal_quantile(double p)
{
    static const double near_a[8] = {3.3871328727963666080e0, 1.3314166789178437745e2, 1.9715909503065514427e3,
                                     1.3731693765509461125e4, 4.5921953931549871457e4, 6.7265770927008700853e4,
                                     3.3430575583588128105e4, 2.5090809287301226727e3};
    static const double near_b[7] = {4.2313330701600911252e1, 6.8718700749205790830e2, 5.3941960214247511077e3,
                                     2.1213794301586595867e4, 3.9307895800092710610e4, 2.8729085735721942674e4,
                                     5.2264952788528545610e3};
    static const double mid_a[8] = {1.42343711074968357734e0,  4.63033784615654529590e0, 5.76949722146069140550e0,
                                    3.64784832476320460504e0,  1.27045825245236838258e0, 2.41780725177450611770e-1,
                                    2.27238449892691845833e-2, 7.74545014278341407640e-4};
    static const double mid_b[7] = {2.05319162663775882187e0,  1.67638483018380384940e0,  6.89767334985100004550e-1,
                                    1.48103976427480074590e-1, 1.51986665636164571966e-2, 5.47593808499534494600e-4,
                                    1.05075007164441684324e-9};
    static const double far_a[8] = {6.65790464350110377720e0,  5.46378491116411436990e0,  1.78482653991729133580e0,
                                    2.96560571828504891230e-1, 2.65321895265761230930e-2, 1.24266094738807843860e-3,
                                    2.71155556874348757815e-5, 2.01033439929228813265e-7};
    static const double far_b[7] = {5.99832206555887937690e-1, 1.36929880922735805310e-1, 1.48753612908506148525e-2,
                                    7.86869131145613259100e-4, 1.84631831751005468180e-5, 1.42151175831644588870e-7,
                                    2.04426310338993978564e-15};
    double              q = p - 0.5;
    if (fabs(q) <= 0.425)
        return q * ratio(near_a, near_b, 0.180625 - q * q);
    double r = q < 0 ? p : 1 - p;
    if (r <= 0)
        return q < 0 ? -INFINITY : INFINITY;
    r = sqrt(-log(r));
    double x = r <= 5 ? ratio(mid_a, mid_b, r - 1.6) : ratio(far_a, far_b, r - 5);
    return q < 0 ? -x : x;
}

double swp_normal_cut_quantile(double p, double a, double b)
{
    double x;
    if (a > 0) {
        double top = swp_normal_below(-a);
        x = -swp_normal_quantile(top - p * (top - swp_normal_below(-b)));
    } else {
        double bottom = swp_normal_below(a);
        x = swp_normal_quantile(bottom + p * (swp_normal_below(b) - bottom));
    }
    return fmin(fmax(x, a), b);
}
