/* SPDX-License-Identifier: Apache-2.0
 *
 * tpe_loops_body.h - the loops of tpe_loops.h; included once by each file that builds them, which names LOOPS.
 */
#include "sweep/tpe_loops.h"

typedef double  v4 __attribute__((vector_size(32), aligned(8), may_alias));
typedef int64_t i4 __attribute__((vector_size(32), aligned(8), may_alias));
#define EACH(x) ((v4){(x), (x), (x), (x)})
#define INLINE static inline __attribute__((always_inline))

INLINE v4 load(const double *p)
{
    return *(const v4 *)p;
}

INLINE v4 choose(i4 mask, v4 yes, v4 no)
{
    return (v4)((mask & (i4)yes) | (~mask & (i4)no));
}

/* exp(x) for x <= 0; below -700 it is exp(-700). x = n ln 2 + r, and the series of exp(r) to the ninth power. */
INLINE v4 exp_below_0(v4 x)
{
    x = choose(x < EACH(-700.0), EACH(-700.0), x);
    v4 shifted = x * EACH(1.4426950408889634) + EACH(0x1.8p52); /* n stands in the low bits */
    v4 n = shifted - EACH(0x1.8p52);
    v4 r = x - n * EACH(0x1.62e42fefa3800p-1) - n * EACH(0x1.ef35793c76730p-45);
    v4 r2 = r * r, r4 = r2 * r2;
    v4 p01 = EACH(1.0) + r, p23 = EACH(1.0 / 2) + r * EACH(1.0 / 6), p45 = EACH(1.0 / 24) + r * EACH(1.0 / 120);
    v4 p67 = EACH(1.0 / 720) + r * EACH(1.0 / 5040), p89 = EACH(1.0 / 40320) + r * EACH(1.0 / 362880);
    v4 p = (p01 + r2 * p23) + r4 * ((p45 + r2 * p67) + r4 * p89);
    return (v4)((i4)p + ((i4)shifted << 52));
}

/* P(X < z) (Abramowitz and Stegun 7.1.26). */
INLINE v4 below(v4 z)
{
    i4 negative = z < EACH(0.0);
    v4 size = choose(negative, -z, z) * EACH(0.70710678118654752);
    v4 t = EACH(1.0) / (EACH(1.0) + EACH(0.3275911) * size);
    v4 p = EACH(1.061405429) * t + EACH(-1.453152027);
    p = (p * t + EACH(1.421413741)) * t + EACH(-0.284496736);
    p = (p * t + EACH(0.254829592)) * t;
    v4 tail = EACH(0.5) * p * exp_below_0(-size * size);
    return choose(negative, tail, EACH(1.0) - tail);
}

static void loop_cut(const double *x, const double *inv, double *weight, size_t n)
{
    for (size_t i = 0; i < n; i += 4) {
        v4 mu = load(x + i), k = load(inv + i);
        v4 mass = below((EACH(1.0) - mu) * k) - below(-mu * k);
        *(v4 *)(weight + i) = load(weight + i) / mass;
    }
}

/* A difference of two probabilities loses digits where the interval is short; there the density and its curvature will do. */
static void loop_step(const double *x, const double *inv, double low, double high, double *weight, size_t n)
{
    for (size_t i = 0; i < n; i += 4) {
        v4 mu = load(x + i), k = load(inv + i);
        v4 a = (EACH(low) - mu) * k, b = (EACH(high) - mu) * k, h = b - a, mid = EACH(0.5) * (a + b), square = mid * mid;
        v4 wide = below(b) - below(a);
        v4 thin = EACH(0.3989422804014327) * exp_below_0(EACH(-0.5) * square) * h;
        thin = thin * (EACH(1.0) + h * h * (square - EACH(1.0)) * EACH(1.0 / 24));
        v4 mass = choose(h < EACH(0.1), thin, wide);
        *(v4 *)(weight + i) = load(weight + i) * choose(mass < EACH(0.0), EACH(0.0), mass);
    }
}

static double sum(v4 a, v4 b)
{
    v4 s = a + b;
    return (s[0] + s[1]) + (s[2] + s[3]);
}

static double loop_mix(const double *const *x, const double *at, uint32_t dims, const double *weight, size_t n)
{
    v4 total[2] = {EACH(0.0), EACH(0.0)};
    for (size_t i = 0; i < n; i += 8) {
        v4 far0 = EACH(0.0), far1 = EACH(0.0);
        for (uint32_t d = 0; d < dims; d++) {
            v4 z0 = load(x[d] + i) - EACH(at[d]), z1 = load(x[d] + i + 4) - EACH(at[d]);
            far0 += z0 * z0;
            far1 += z1 * z1;
        }
        total[0] += load(weight + i) * exp_below_0(-far0);
        total[1] += load(weight + i + 4) * exp_below_0(-far1);
    }
    return sum(total[0], total[1]);
}

static double loop_mix_one(const double *x, const double *inv, double at, const double *weight, size_t n)
{
    v4 total[2] = {EACH(0.0), EACH(0.0)};
    for (size_t i = 0; i < n; i += 8) {
        v4 z0 = (load(x + i) - EACH(at)) * load(inv + i), z1 = (load(x + i + 4) - EACH(at)) * load(inv + i + 4);
        total[0] += load(weight + i) * exp_below_0(EACH(-0.5) * z0 * z0);
        total[1] += load(weight + i + 4) * exp_below_0(EACH(-0.5) * z1 * z1);
    }
    return sum(total[0], total[1]);
}

const struct swp_tpe_loops LOOPS = {loop_cut, loop_step, loop_mix, loop_mix_one};
