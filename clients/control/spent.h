/* SPDX-License-Identifier: Apache-2.0
 *
 * spent.h - in seconds what the wire has in small units. Private to clients/control/.
 */
#ifndef CTL_SPENT_H
#define CTL_SPENT_H

#include "core/proto/manta.pb-c.h"

/* `from` NULL: nothing. */
static inline void ctl_spent_copy(const Manta__V1__Spent *from, double *cpu_s, double *gpu_s, double *memory_gib_s, double *cost)
{
    *cpu_s = from ? (double)from->cpu_us / 1e6 : 0;
    *gpu_s = from ? (double)from->gpu_us / 1e6 : 0;
    *memory_gib_s = from ? (double)from->memory_mib_ms / 1024 / 1e3 : 0;
    *cost = from ? (double)from->cost_micro / 1e6 : 0;
}

#endif
