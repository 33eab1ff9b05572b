/* SPDX-License-Identifier: Apache-2.0
 *
 * k_layers_avx512.c - k_layers_cpu.c once more, compiled for AVX-512. Owns nothing. Thread: any.
 */
#if defined(__x86_64__)
#define K_BUILD avx512
#include "kernels/k_layers_cpu.c"
#endif
