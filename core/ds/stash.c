/* SPDX-License-Identifier: Apache-2.0
 *
 * stash.c - blocks of two sizes, made ahead of time.
 *
 * Owns: the blocks that were not taken. Thread: the caller's.
 */
#include "core/ds/stash.h"

#include <stdlib.h>
#include <string.h>

/* A failure does not stop it: the next block may be had. */
static void fill(void **blocks, uint32_t *count, uint32_t wanted, size_t size)
{
    for (uint32_t missing = wanted - *count; missing; missing--) {
        void *block = malloc(size);
        if (block)
            blocks[(*count)++] = block;
    }
}

mt_status mt_stash_fill(mt_stash *stash)
{
    fill(stash->small, &stash->small_count, MT_STASH_SMALL, MT_STASH_SMALL_BYTES);
    fill(stash->large, &stash->large_count, MT_STASH_LARGE, MT_STASH_LARGE_BYTES);
    if (stash->small_count < MT_STASH_SMALL || stash->large_count < MT_STASH_LARGE)
        return mt_error(MT_ENOMEM, 0, "memory set aside");
    return mt_ok();
}

void *mt_stash_take(mt_stash *stash, size_t size)
{
    void *block = calloc(1, size);
    if (block)
        return block;
    if (size <= MT_STASH_SMALL_BYTES && stash->small_count)
        return memset(stash->small[--stash->small_count], 0, size);
    if (size <= MT_STASH_LARGE_BYTES && stash->large_count)
        return memset(stash->large[--stash->large_count], 0, size);
    return NULL;
}

void mt_stash_fini(mt_stash *stash)
{
    while (stash->small_count)
        free(stash->small[--stash->small_count]);
    while (stash->large_count)
        free(stash->large[--stash->large_count]);
}
