/* SPDX-License-Identifier: Apache-2.0
 *
 * tpe_loops.c - the loops of tpe_loops.h for every machine, and which ones to use on this one; tpe_loops_avx2.c and
 * tpe_loops_avx512.c build this file once more under other flags. Owns nothing. Thread: any.
 */
#include "sweep/tpe_loops.h"

#if !defined(SWP_TPE_LOOPS)
#define SWP_TPE_LOOPS swp_tpe_loops_plain
#define SWP_TPE_CHOOSES
#endif

typedef double  v8 __attribute__((vector_size(64), aligned(8), may_alias));
typedef int64_t i8 __attribute__((vector_size(64), aligned(8), may_alias));
#define EACH(x) ((v8){(x), (x), (x), (x), (x), (x), (x), (x)})
#define INLINE static inline __attribute__((always_inline))

INLINE v8 load(const double *p)
{
    return *(const v8 *)p;
}

INLINE v8 choose(i8 mask, v8 yes, v8 no)
{
    return (v8)((mask & (i8)yes) | (~mask & (i8)no));
}

/* exp(x) for x <= 0; below -700 it is exp(-700). x = n ln 2 + r, and the series of exp(r) to the ninth power. */
INLINE v8 exp_below_0(v8 x)
{
    x = choose(x < EACH(-700.0), EACH(-700.0), x);
    v8 shifted = x * EACH(1.4426950408889634) + EACH(0x1.8p52); /* n stands in the low bits */
    v8 n = shifted - EACH(0x1.8p52);
    v8 r = x - n * EACH(0x1.62e42fefa3800p-1) - n * EACH(0x1.ef35793c76730p-45);
    v8 r2 = r * r, r4 = r2 * r2;
    v8 p01 = EACH(1.0) + r, p23 = EACH(1.0 / 2) + r * EACH(1.0 / 6), p45 = EACH(1.0 / 24) + r * EACH(1.0 / 120);
    v8 p67 = EACH(1.0 / 720) + r * EACH(1.0 / 5040), p89 = EACH(1.0 / 40320) + r * EACH(1.0 / 362880);
    v8 p = (p01 + r2 * p23) + r4 * ((p45 + r2 * p67) + r4 * p89);
    return (v8)((i8)p + ((i8)shifted << 52));
}

/* P(X < z) (Abramowitz and Stegun 7.1.26). */
INLINE v8 below(v8 z)
{
    i8 negative = z < EACH(0.0);
    v8 size = choose(negative, -z, z) * EACH(0.70710678118654752);
    v8 t = EACH(1.0) / (EACH(1.0) + EACH(0.3275911) * size);
    v8 p = EACH(1.061405429) * t + EACH(-1.453152027);
    p = (p * t + EACH(1.421413741)) * t + EACH(-0.284496736);
    p = (p * t + EACH(0.254829592)) * t;
    v8 tail = EACH(0.5) * p * exp_below_0(-size * size);
    return choose(negative, tail, EACH(1.0) - tail);
}

static void loop_cut(const double *x, const double *inv, double *weight, size_t n)
{
    for (size_t i = 0; i < n; i += 8) {
        v8 mu = load(x + i), k = load(inv + i);
        v8 mass = below((EACH(1.0) - mu) * k) - below(-mu * k);
        *(v8 *)(weight + i) = load(weight + i) / mass;
    }
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

static double sum(v8 x)
{
    return ((x[0] + x[4]) + (x[1] + x[5])) + ((x[2] + x[6]) + (x[3] + x[7]));
}

/* The square of a difference is taken apart, which saves an operation for each dimension: the squares are there. */
static double loop_mix(const double *const *x, const double *squares, const double *at, uint32_t dims, const double *weight,
                       size_t n)
{
    v8 total = EACH(0.0);
    double square = 0;
    for (uint32_t d = 0; d < dims; d++)
        square += at[d] * at[d];
    for (size_t i = 0; i < n; i += 8) {
        v8 dot = EACH(0.0);
        for (uint32_t d = 0; d < dims; d++)
            dot += load(x[d] + i) * EACH(at[d]);
        v8 minus = dot + dot - load(squares + i) - EACH(square);
        total += load(weight + i) * exp_below_0(choose(minus > EACH(0.0), EACH(0.0), minus));
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

const struct swp_tpe_loops SWP_TPE_LOOPS = {loop_cut, loop_step, loop_mix, loop_mix_one};

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
