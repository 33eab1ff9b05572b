/* SPDX-License-Identifier: Apache-2.0
 *
 * rng.h - seeded random numbers (SplitMix64: Steele, Lea, Flood, OOPSLA 2014), handed down by main or by the
 * simulation; state machines draw from nothing else.
 */
#ifndef MT_BASE_RNG_H
#define MT_BASE_RNG_H

#include "core/base/status.h"

__extension__ typedef unsigned __int128 mt_u128;

typedef struct mt_rng {
    uint64_t state;
} mt_rng;

static inline uint64_t mt_rng_next(mt_rng *rng)
{
    uint64_t z = rng->state += 0x9e3779b97f4a7c15u;
    z = (z ^ z >> 30) * 0xbf58476d1ce4e5b9u;
    z = (z ^ z >> 27) * 0x94d049bb133111ebu;
    return z ^ z >> 31;
}
/* Uniform in [0, bound); bound > 0. (Lemire's multiplication; the bias is below 2^-32 for the bounds used here.) */
static inline uint64_t mt_rng_below(mt_rng *rng, uint64_t bound)
{
    return (uint64_t)((mt_u128)mt_rng_next(rng) * bound >> 64);
}

/* Fills `out` from the kernel's random source (getrandom). ESYS only where that fails. Blocks never after boot. */
MT_MUST_USE mt_status mt_random_bytes(void *out, size_t size);

#endif
