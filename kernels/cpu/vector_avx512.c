/* SPDX-License-Identifier: Apache-2.0
 *
 * vector_avx512.c - the elementwise entries once more, compiled for AVX-512, without FMA. Owns
 * nothing. Thread: any.
 */
#if defined(__x86_64__)
#define K_BUILD avx512
#include "kernels/cpu/vector.c"
#endif
