/* SPDX-License-Identifier: Apache-2.0
 *
 * coll_loops_avx2.c - coll_loops.c once more, compiled for avx2 (sgd/CMakeLists.txt). Owns nothing. Thread: any.
 */
#if defined(__x86_64__)
#define COLL_BUILD avx2
#include "sgd/coll_loops.c"
#endif
