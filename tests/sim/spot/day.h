/* SPDX-License-Identifier: Apache-2.0
 *
 * day.h - what the parts of sim_spot share: a day of spot nodes that can be had or not, one job, and what it costs.
 */
#ifndef SIM_SPOT_DAY_H
#define SIM_SPOT_DAY_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum { ZONES = 2, TICK_S = 60, DAY_TICKS = 24 * 60 };

struct day {
    bool     can_be_had[ZONES][DAY_TICKS];
    double   price[ZONES]; /* of an hour on a spot node; a sure one costs 1 */
    uint32_t work_ticks, deadline_ticks, change_ticks, boot_s;
};

/* ---- trace.c ---- */

/* From one number alone: spells that last for hours, with a share of the day that differs from zone to zone; and a job for it. */
void day_make(uint64_t seed, struct day *out);
void day_job(uint64_t seed, struct day *out);
/* One zone from a file in the form of the public traces (skypilot-org/spot-traces), from `from_tick` on; what is after its end is
 * as at its beginning: {"metadata": {"gap_seconds": N}, "data": [COUNT, ...]}. False: what is wrong is in `text`. */
bool day_read(const char *file, uint64_t from_tick, bool *out_ticks, char *text, size_t size);

/* ---- plan.c ---- */

/* What the job costs at least, for somebody who knows the whole day; by dynamic programming over ticks, work done, and place. Nodes
 * come at once and cost nothing until they are there, so no plan is cheaper. Negative: no memory. */
double day_least(const struct day *day);

#endif
