/* SPDX-License-Identifier: Apache-2.0
 *
 * k_vector_plain.c - the elementwise entries, for any CPU. Owns nothing. Thread: any.
 */
#define K_BUILD plain
#include "kernels/k_vector_body.h"
