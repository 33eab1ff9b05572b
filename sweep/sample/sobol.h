/* SPDX-License-Identifier: Apache-2.0
 *
 * sobol.h - Sobol's sequence, coordinate by coordinate, as 32 bits of a number in [0, 1). Pure functions; any thread.
 */
#ifndef SWP_SOBOL_H
#define SWP_SOBOL_H

#include <stdint.h>

enum { SWP_SOBOL_BITS = 32 };

/* Direction numbers of one of the first MT_SWEEP_PARAMS_MAX dimensions. */
void swp_sobol_directions(uint32_t dimension, uint32_t out[SWP_SOBOL_BITS]);
/* The coordinate of the point at this place, in binary order. */
uint32_t swp_sobol_at(const uint32_t directions[SWP_SOBOL_BITS], uint32_t place);
/* Each bit is flipped by a hash of the bits above it: the order within every interval of length 2^-k is shuffled, no more. */
uint32_t swp_sobol_scramble(uint32_t x, uint32_t seed);

#endif
