/* SPDX-License-Identifier: Apache-2.0
 *
 * tpe_loops.c - the loops for every machine, and which ones to use on this one. Thread: any.
 */
#define LOOPS swp_tpe_loops_plain
#include "sweep/tpe_loops_body.h"

const struct swp_tpe_loops *swp_tpe_loops_best(void)
{
#if defined(__x86_64__)
    if (__builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512dq"))
        return &swp_tpe_loops_avx512;
    if (__builtin_cpu_supports("avx2"))
        return &swp_tpe_loops_avx2;
#endif
    return &swp_tpe_loops_plain;
}
