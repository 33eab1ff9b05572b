/* SPDX-License-Identifier: Apache-2.0
 *
 * debug.h - checks that are too dear for a release build: a few instructions on a way that takes a few hundred.
 *
 * MT_ASSERT_DEBUG is MT_ASSERT in debug builds (the presets debug, asan and tsan) and in files that define MT_DEBUG themselves,
 * as the tests of such checks do. Elsewhere the expression is compiled and not run, so it may have no effects.
 */
#ifndef MT_BASE_DEBUG_H
#define MT_BASE_DEBUG_H

#include "core/base/status.h"

#ifdef MT_DEBUG
#define MT_ASSERT_DEBUG(expr) MT_ASSERT(expr)
#else
#define MT_ASSERT_DEBUG(expr) ((void)sizeof(!(expr)))
#endif

#endif
