/* SPDX-License-Identifier: Apache-2.0
 *
 * k_layers_avx2.c - k_layers_cpu.c once more, compiled with -mavx2. Owns nothing. Thread: any.
 */
#if defined(__x86_64__)
#define K_BUILD avx2
#include "kernels/k_layers_cpu.c"
#endif
