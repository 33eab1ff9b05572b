/* SPDX-License-Identifier: Apache-2.0
 *
 * loops_avx2.c - loops.c once more, compiled for avx2 (sgd/CMakeLists.txt). Owns nothing. Thread: any.
 */
#if defined(__x86_64__)
#define COLL_BUILD avx2
#include "sgd/coll/math/loops.c"
#endif
