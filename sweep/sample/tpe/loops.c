/* SPDX-License-Identifier: Apache-2.0
 *
 * loops.c - the loops of loops.h for every machine, and which ones to use on this one; loops_avx2.c and
 * loops_avx512.c build this file once more under other flags. Owns nothing. Thread: any.
 */
#include "sweep/sample/tpe/loops.h"

#include "sweep/math/lanes.h"

#if !defined(SWP_TPE_LOOPS)
#define SWP_TPE_LOOPS swp_tpe_loops_plain
#define SWP_TPE_CHOOSES
#endif

INLINE v8 tail_series(v8 t)
{
    v8 p = EACH(1.061405429) * t + EACH(-1.453152027);
    p = (p * t + EACH(1.421413741)) * t + EACH(-0.284496736);
    return (p * t + EACH(0.254829592)) * t;
}

/* P(X < z) (Abramowitz and Stegun 7.1.26). */
INLINE v8 below(v8 z)
{
    i8 negative = z < EACH(0.0);
    v8 size = choose(negative, -z, z) * EACH(0.70710678118654752);
    v8 t = EACH(1.0) / (EACH(1.0) + EACH(0.3275911) * size);
    v8 tail = EACH(0.5) * tail_series(t) * exp_below_0(-size * size);
    return choose(negative, tail, EACH(1.0) - tail);
}

/* P(0 < X < 1) for a mean between 0 and 1: both tails by the formula of `below`, with one division for the two. */
INLINE v8 inside(v8 mu, v8 k)
{
    v8 a = mu * k * EACH(0.70710678118654752), b = (EACH(1.0) - mu) * k * EACH(0.70710678118654752);
    v8 u = EACH(1.0) + EACH(0.3275911) * a, w = EACH(1.0) + EACH(0.3275911) * b, both = EACH(1.0) / (u * w);
    return EACH(1.0) - EACH(0.5) * (tail_series(w * both) * exp_below_0(-a * a) + tail_series(u * both) * exp_below_0(-b * b));
}

static void loop_cut(const double *x, const double *inv, double *weight, size_t n)
{
    for (size_t i = 0; i < n; i += 8)
        store(weight + i, load(weight + i) / inside(load(x + i), load(inv + i)));
}

/* A difference of two probabilities loses digits where the interval is short; there the density and its curvature will do. */
static void loop_step(const double *x, const double *inv, double low, double high, double *weight, size_t n)
{
    for (size_t i = 0; i < n; i += 8) {
        v8 mu = load(x + i), k = load(inv + i);
        v8 a = (EACH(low) - mu) * k, b = (EACH(high) - mu) * k, h = b - a, mid = EACH(0.5) * (a + b), square = mid * mid;
        v8 wide = below(b) - below(a);
        v8 thin = EACH(0.3989422804014327) * exp_below_0(EACH(-0.5) * square) * h;
        thin = thin * (EACH(1.0) + h * h * (square - EACH(1.0)) * EACH(1.0 / 24));
        v8 mass = choose(h < EACH(0.1), thin, wide);
        *(v8 *)(weight + i) = load(weight + i) * choose(mass < EACH(0.0), EACH(0.0), mass);
    }
}

static void loop_part(const double *x, const double *inv, double *linear, double *square, double *rest, double *weight, size_t n)
{
    for (size_t i = 0; i < n; i += 8) {
        v8 k = load(inv + i), mu = load(x + i), half = EACH(0.5) * k * k, slope = half * mu;
        store(square + i, half);
        store(linear + i, slope);
        store(rest + i, load(rest + i) + slope * mu);
        store(weight + i, load(weight + i) * k * EACH(0.3989422804014327));
    }
}

INLINE v8 weighed(v8 dot, const double *rest, const double *weight)
{
    v8 minus = dot + dot - load(rest);
    return load(weight) * exp_below_0(choose(minus > EACH(0.0), EACH(0.0), minus));
}

/* The squares of differences are taken apart: what does not depend on the candidate is there. */
static double loop_mix(const double *const *x, const double *rest, const double *at, uint32_t dims, const double *weight, size_t n)
{
    v8     total = EACH(0.0);
    size_t i = 0;
    for (; i + 4 * 8 <= n; i += 4 * 8) { /* four at a time: a candidate's coordinate is fetched once for all */
        v8 dots[4] = {EACH(0.0), EACH(0.0), EACH(0.0), EACH(0.0)};
        for (uint32_t d = 0; d < dims; d++) {
            const double *column = x[d] + i;
            v8            each = EACH(at[d]);
            for (int k = 0; k < 4; k++)
                dots[k] += load(column + 8 * k) * each;
        }
        for (size_t k = 0; k < 4; k++)
            total += weighed(dots[k], rest + i + 8 * k, weight + i + 8 * k);
    }
    for (; i < n; i += 8) {
        v8 dot = EACH(0.0);
        for (uint32_t d = 0; d < dims; d++)
            dot += load(x[d] + i) * EACH(at[d]);
        total += weighed(dot, rest + i, weight + i);
    }
    return sum(total);
}

static double loop_mix_one(const double *x, const double *inv, double at, const double *weight, size_t n)
{
    v8 total = EACH(0.0);
    for (size_t i = 0; i < n; i += 8) {
        v8 z = (load(x + i) - EACH(at)) * load(inv + i);
        total += load(weight + i) * exp_below_0(EACH(-0.5) * z * z);
    }
    return sum(total);
}

const struct swp_tpe_loops SWP_TPE_LOOPS = {loop_cut, loop_step, loop_part, loop_mix, loop_mix_one};

#if defined(SWP_TPE_CHOOSES)
const struct swp_tpe_loops *swp_tpe_loops_best(void)
{
#if defined(__x86_64__)
    if (__builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512dq"))
        return &swp_tpe_loops_avx512;
    if (__builtin_cpu_supports("avx2"))
        return &swp_tpe_loops_avx2;
#endif
    return &swp_tpe_loops_plain;
}
#endif
