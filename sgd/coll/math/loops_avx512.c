/* SPDX-License-Identifier: Apache-2.0
 *
 * loops_avx512.c - loops.c once more, compiled for avx512 (sgd/CMakeLists.txt). Owns nothing. Thread: any.
 */
#if defined(__x86_64__)
#define COLL_BUILD avx512
#include "sgd/coll/math/loops.c"
#endif
