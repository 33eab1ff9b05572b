/* SPDX-License-Identifier: Apache-2.0
 *
 * loops_avx512.c - loops.c once more, for machines with AVX-512. Owns nothing. Thread: any.
 */
#if defined(__x86_64__)
#define SWP_GP_LOOPS swp_gp_loops_avx512
#include "sweep/sample/gp/loops.c"
#endif
