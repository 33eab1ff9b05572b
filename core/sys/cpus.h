/* SPDX-License-Identifier: Apache-2.0
 *
 * cpus.h - how many CPUs this process may run on. Thread: any.
 */
#ifndef MT_SYS_CPUS_H
#define MT_SYS_CPUS_H

#include <sched.h>

/* 0: the kernel does not say. */
static inline int mt_cpus_allowed(void)
{
    cpu_set_t set;
    return sched_getaffinity(0, sizeof set, &set) == 0 ? CPU_COUNT(&set) : 0;
}

#endif
