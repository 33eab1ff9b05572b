/* SPDX-License-Identifier: Apache-2.0
 *
 * beats.h - a run of the simulation of signs of life: see README.md.
 */
#ifndef SIM_BEATS_H
#define SIM_BEATS_H

#include <stdbool.h>
#include <stdint.h>

struct sim_beats_counters {
    uint64_t heard, lost, doubled, held_back, replayed, refused, reports, paused, head_paused, head_restarted, resets;
};

/* True: every invariant held; else prints which did not. What happened is added to *counters. */
bool sim_beats_run(uint64_t seed, struct sim_beats_counters *counters);

#endif
