/* SPDX-License-Identifier: Apache-2.0
 *
 * checksum.c - the only file that includes xxhash.h (header only: nothing to link). Owns nothing. Thread:
 * any.
 */
#include "sgd/ground/checksum.h"

#define XXH_INLINE_ALL
#include <xxhash.h>

uint64_t sgd_checksum(const void *data, size_t size)
{
    return XXH3_64bits(data, size);
}
