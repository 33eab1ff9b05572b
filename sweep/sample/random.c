/* SPDX-License-Identifier: Apache-2.0
 *
 * random.c - each parameter from its own distribution. Other kinds begin with it, and draw by it what they have no model for.
 *
 * Owns: nothing. Thread: one at a time.
 */
#include "sweep/sample/method.h"

mt_status swp_sampler_draw_random(struct swp_sampler *s, uint64_t trial, struct swp_point *point)
{
    mt_rng rng = swp_rng_of(s->seed, trial, SWP_FOR_RANDOM);
    return swp_space_draw(s->space, &rng, point);
}

const struct swp_method swp_random_method = {.draw = swp_sampler_draw_random};
