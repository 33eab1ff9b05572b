/* SPDX-License-Identifier: Apache-2.0
 *
 * pins.h - which CPUs of the node the threads of a worker are bound to.
 *
 * A lease with whole CPUs may ask for CPUs of its own. They are taken from one NUMA node where that has enough that nobody
 * holds, from the one that is left with the fewest; else wherever the fewest hold them. As long as a node counts no more CPUs
 * than it has, no two leases hold one, but while a task that waits has lent its own.
 */
#ifndef RLT_PINS_H
#define RLT_PINS_H

#include "core/base/limits/raylet.h"

#include <stdbool.h>
#include <stdint.h>

enum { RLT_CPU_WORDS = MT_CPUS_MAX / 64 };

struct rlt_cpu {
    uint16_t cpu;  /* as the kernel counts them, below MT_CPUS_MAX */
    uint16_t node; /* NUMA */
    uint32_t held; /* leases that are bound to it, and have not lent it */
};

struct rlt_pins {
    uint32_t       count;
    struct rlt_cpu cpus[MT_CPUS_MAX];
};

/* Chooses `want` of them, or all where there are not so many, and holds them; a bit each in `out`. */
void rlt_pins_take(struct rlt_pins *p, uint32_t want, uint64_t out[RLT_CPU_WORDS]);
/* One lease more (1) or less (-1) holds each of these. */
void rlt_pins_change(struct rlt_pins *p, const uint64_t cpus[RLT_CPU_WORDS], int by);
bool rlt_pins_any(const uint64_t cpus[RLT_CPU_WORDS]);

#endif
