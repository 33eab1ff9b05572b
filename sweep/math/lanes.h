/* SPDX-License-Identifier: Apache-2.0
 *
 * lanes.h - vectors of eight doubles, for loops that are built once for each instruction set and have the same bits in each.
 *
 * Only files that are built with contraction off may include it (CMakeLists.txt). Pure functions; any thread.
 */
#ifndef SWP_LANES_H
#define SWP_LANES_H

#include <stddef.h>
#include <stdint.h>

enum { SWP_LANES = 8 };

typedef double  v8 __attribute__((vector_size(64), aligned(8), may_alias));
typedef int64_t i8 __attribute__((vector_size(64), aligned(8), may_alias));
#define EACH(x) ((v8){(x), (x), (x), (x), (x), (x), (x), (x)})
/* Inlined always: a call would pass these registers, and builds differ in how. So the compiler's warning says nothing here. */
#pragma GCC diagnostic ignored "-Wpsabi"
#define INLINE static inline __attribute__((always_inline, unused))

INLINE v8 load(const double *p)
{
    return *(const v8 *)p;
}

INLINE void store(double *p, v8 x)
{
    *(v8 *)p = x;
}

INLINE v8 choose(i8 mask, v8 yes, v8 no)
{
    return (v8)((mask & (i8)yes) | (~mask & (i8)no));
}

INLINE double sum(v8 x)
{
    return ((x[0] + x[4]) + (x[1] + x[5])) + ((x[2] + x[6]) + (x[3] + x[7]));
}

/* exp(x) = 2^n exp(r) for x <= 0, |r| below 0.35; below -700 it is exp(-700). n stands in the low bits of *shifted. */
INLINE v8 exp_rest(v8 x, v8 *shifted)
{
    x = choose(x < EACH(-700.0), EACH(-700.0), x);
    *shifted = x * EACH(1.4426950408889634) + EACH(0x1.8p52);
    v8 n = *shifted - EACH(0x1.8p52);
    return x - n * EACH(0x1.62e42fefa3800p-1) - n * EACH(0x1.ef35793c76730p-45);
}

INLINE v8 exp_scaled(v8 p, v8 shifted)
{
    return (v8)((i8)p + ((i8)shifted << 52));
}

/* The series of exp(r) to the ninth power. */
INLINE v8 exp_series(v8 r)
{
    v8 r2 = r * r, r4 = r2 * r2;
    v8 p01 = EACH(1.0) + r, p23 = EACH(1.0 / 2) + r * EACH(1.0 / 6), p45 = EACH(1.0 / 24) + r * EACH(1.0 / 120);
    v8 p67 = EACH(1.0 / 720) + r * EACH(1.0 / 5040), p89 = EACH(1.0 / 40320) + r * EACH(1.0 / 362880);
    return (p01 + r2 * p23) + r4 * ((p45 + r2 * p67) + r4 * p89);
}

/* exp(x) for x <= 0, within 1e-11. */
INLINE v8 exp_below_0(v8 x)
{
    v8 shifted, r = exp_rest(x, &shifted);
    return exp_scaled(exp_series(r), shifted);
}

/* The same within 1e-15: four powers more. */
INLINE v8 exp_fine_below_0(v8 x)
{
    v8 shifted, r = exp_rest(x, &shifted), r2 = r * r, r4 = r2 * r2;
    v8 rest = (EACH(1.0 / 3628800) + r * EACH(1.0 / 39916800)) + r2 * (EACH(1.0 / 479001600) + r * EACH(1.0 / 6227020800.0));
    return exp_scaled(exp_series(r) + r4 * r4 * r2 * rest, shifted);
}

#endif
