/* SPDX-License-Identifier: Apache-2.0
 *
 * conv_avx2.c - conv.c once more, compiled with -mavx2. Owns nothing. Thread: any.
 */
#if defined(__x86_64__)
#define K_BUILD avx2
#include "kernels/cpu/conv.c"
#endif
