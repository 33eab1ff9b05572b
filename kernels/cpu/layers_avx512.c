/* SPDX-License-Identifier: Apache-2.0
 *
 * layers_avx512.c - layers.c once more, compiled for AVX-512. Owns nothing. Thread: any.
 */
#if defined(__x86_64__)
#define K_BUILD avx512
#include "kernels/cpu/layers.c"
#endif
