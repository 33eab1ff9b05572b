/* SPDX-License-Identifier: Apache-2.0
 *
 * os_sum.c - see os_sum.h. Owns nothing; any thread.
 */
#include "objectstore/os_sum.h"

#define XXH_INLINE_ALL
#include <xxhash.h>

uint64_t os_sum(const void *data, size_t size)
{
    return XXH3_64bits(data, size);
}
