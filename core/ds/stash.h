/* SPDX-License-Identifier: Apache-2.0
 *
 * stash.h - memory set aside for what may not fail: it is half done when the memory is asked for.
 *
 * Blocks come from malloc ahead of time, so whoever takes one frees it as any other memory. A zeroed stash is empty and
 * valid. One thread at a time; nothing here blocks.
 */
#ifndef MT_BASE_STASH_H
#define MT_BASE_STASH_H

#include "core/base/limits/lib.h"
#include "core/base/status.h"

#include <stdbool.h>
#include <stddef.h>

typedef struct mt_stash {
    void    *small[MT_STASH_SMALL];
    void    *large[MT_STASH_LARGE];
    uint32_t small_count, large_count;
} mt_stash;

/* Fills it up. ENOMEM: as far as memory went; what is there stays. */
MT_MUST_USE mt_status mt_stash_fill(mt_stash *stash);
/* calloc, and where that fails a block of the stash. NULL: neither has `size` bytes; at most MT_STASH_LARGE_BYTES are kept. */
void *mt_stash_take(mt_stash *stash, size_t size);
/* Frees the blocks that are left. */
void mt_stash_fini(mt_stash *stash);

#endif
