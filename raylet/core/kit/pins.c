/* SPDX-License-Identifier: Apache-2.0
 *
 * pins.c - see pins.h. Owns nothing. Thread: the logic loop only.
 */
#include "raylet/core/kit/pins.h"

#include <string.h>

enum { ANY_NODE = -1 };

static uint32_t free_of_node(const struct rlt_pins *p, int node)
{
    uint32_t count = 0;
    for (uint32_t i = 0; i < p->count; i++)
        count += p->cpus[i].node == node && p->cpus[i].held == 0;
    return count;
}

/* The NUMA node with the fewest free CPUs that suffice. */
static int node_for(const struct rlt_pins *p, uint32_t want)
{
    uint32_t best_free = UINT32_MAX;
    int      best = ANY_NODE;
    for (uint32_t i = 0; i < p->count; i++) {
        uint32_t has = free_of_node(p, p->cpus[i].node);
        if (has >= want && has < best_free) {
            best_free = has;
            best = p->cpus[i].node;
        }
    }
    return best;
}

static bool is_set(const uint64_t cpus[RLT_CPU_WORDS], uint32_t cpu)
{
    return cpus[cpu / 64] >> cpu % 64 & 1;
}

void rlt_pins_take(struct rlt_pins *p, uint32_t want, uint64_t out[RLT_CPU_WORDS])
{
    int node = node_for(p, want);
    memset(out, 0, RLT_CPU_WORDS * sizeof *out);
    for (; want > 0; want--) {
        struct rlt_cpu *best = NULL;
        for (uint32_t i = 0; i < p->count; i++) {
            struct rlt_cpu *c = &p->cpus[i];
            if ((node == ANY_NODE || c->node == node) && !is_set(out, c->cpu) && (!best || c->held < best->held))
                best = c;
        }
        if (!best)
            return;
        best->held++;
        out[best->cpu / 64] |= UINT64_C(1) << best->cpu % 64;
    }
}

void rlt_pins_change(struct rlt_pins *p, const uint64_t cpus[RLT_CPU_WORDS], int by)
{
    for (uint32_t i = 0; i < p->count; i++)
        p->cpus[i].held += is_set(cpus, p->cpus[i].cpu) ? (uint32_t)by : 0;
}

bool rlt_pins_any(const uint64_t cpus[RLT_CPU_WORDS])
{
    for (int i = 0; i < RLT_CPU_WORDS; i++)
        if (cpus[i])
            return true;
    return false;
}
