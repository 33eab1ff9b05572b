/* SPDX-License-Identifier: Apache-2.0
 *
 * loops.h - the tables that loops.c becomes in its builds; math.c chooses among them.
 */
#ifndef SGD_COLL_LOOPS_H
#define SGD_COLL_LOOPS_H

#include "sgd/coll/math/math.h"

extern const struct coll_loops coll_loops_base;
#if defined(__x86_64__)
extern const struct coll_loops coll_loops_avx2, coll_loops_avx512;
#endif

#endif
