/* SPDX-License-Identifier: Apache-2.0
 *
 * hash.h - FNV-1a, the one hash of short keys: tables, sums of what a process keeps for itself.
 *
 * Not for what an enemy chooses (he finds collisions), nor for values and files (xxhash, SHA-256). Where the key is short and the
 * low bits decide, mix what comes out: keys that differ in their last byte differ in few bits. Pure; any thread.
 */
#ifndef MT_BASE_HASH_H
#define MT_BASE_HASH_H

#include <stddef.h>
#include <stdint.h>

#define MT_HASH_START UINT64_C(0xcbf29ce484222325)

/* `x` is a byte, or a number as a whole. */
static inline uint64_t mt_hash_mix(uint64_t hash, uint64_t x)
{
    return (hash ^ x) * UINT64_C(0x100000001b3);
}

static inline uint64_t mt_hash_bytes(uint64_t hash, const void *bytes, size_t size)
{
    const uint8_t *at = bytes;
    while (size--)
        hash = mt_hash_mix(hash, *at++);
    return hash;
}

/* Its end does not count: mix something between two texts. NULL counts as "". */
static inline uint64_t mt_hash_text(uint64_t hash, const char *text)
{
    for (; text && *text; text++)
        hash = mt_hash_mix(hash, (uint8_t)*text);
    return hash;
}

#endif
