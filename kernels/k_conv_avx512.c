/* SPDX-License-Identifier: Apache-2.0
 *
 * k_conv_avx512.c - k_conv_cpu.c once more, compiled for AVX-512. Owns nothing. Thread: any.
 */
#if defined(__x86_64__)
#define K_BUILD avx512
#include "kernels/k_conv_cpu.c"
#endif
