/* SPDX-License-Identifier: Apache-2.0
 *
 * tpe_loops_avx512.c - the loops for machines with AVX-512 (elsewhere built as plain ones). Thread: any.
 */
#define LOOPS swp_tpe_loops_avx512
#include "sweep/tpe_loops_body.h"
