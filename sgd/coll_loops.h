/* SPDX-License-Identifier: Apache-2.0
 *
 * coll_loops.h - the tables that coll_loops.c becomes in its builds; coll_math.c chooses among them.
 */
#ifndef SGD_COLL_LOOPS_H
#define SGD_COLL_LOOPS_H

#include "sgd/coll_math.h"

extern const struct coll_loops coll_loops_base;
#if defined(__x86_64__)
extern const struct coll_loops coll_loops_avx2, coll_loops_avx512;
#endif

#endif
