/* SPDX-License-Identifier: Apache-2.0
 *
 * sum.c - see sum.h. Owns nothing; any thread.
 */
#include "objectstore/layout/sum.h"

#define XXH_INLINE_ALL
#include <xxhash.h>

uint64_t os_sum(const void *data, size_t size)
{
    return XXH3_64bits(data, size);
}
