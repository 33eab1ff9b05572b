/* SPDX-License-Identifier: Apache-2.0
 *
 * loops_avx2.c - loops.c once more, for machines with AVX2. Owns nothing. Thread: any.
 */
#if defined(__x86_64__)
#define SWP_TPE_LOOPS swp_tpe_loops_avx2
#include "sweep/sample/tpe/loops.c"
#endif
