/* SPDX-License-Identifier: Apache-2.0
 *
 * vector_avx2.c - the elementwise entries once more, compiled with -mavx2, without FMA. Owns
 * nothing. Thread: any.
 */
#if defined(__x86_64__)
#define K_BUILD avx2
#include "kernels/cpu/vector.c"
#endif
