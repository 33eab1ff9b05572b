/* SPDX-License-Identifier: Apache-2.0
 *
 * sim.h - the time of a sweep of many slots, on virtual time. See sim.c.
 */
#ifndef BENCH_SWEEP_SIM_H
#define BENCH_SWEEP_SIM_H

#include <stdbool.h>
#include <stdint.h>

/* Seconds for `trials` trials of one second on 16 slots, and what they would take at best. False: it did not come to its end. */
bool sweep_sim_run(uint64_t trials, double *out_seconds, double *out_ideal);

#endif
