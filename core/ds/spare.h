/* SPDX-License-Identifier: Apache-2.0
 *
 * spare.h - freed blocks kept for the next ones of their size, up to a bound.
 *
 * Where many values come and go together, malloc gives the top of the heap back to the kernel after each round and faults it in
 * again in the next: three quarters of the time of a put of 1 KiB. Blocks come from malloc. A zeroed mt_spare is empty and valid.
 * One thread at a time; nothing here blocks.
 */
#ifndef MT_DS_SPARE_H
#define MT_DS_SPARE_H

#include "core/base/limits/lib.h"

#include <stddef.h>
#include <stdlib.h>

enum { MT_SPARE_STEP = 64, MT_SPARE_CLASSES = 4096 / MT_SPARE_STEP }; /* larger blocks are malloc's and free's alone */
#ifdef __SANITIZE_ADDRESS__
enum { MT_SPARE_KEPT_MAX = 0 }; /* who reads freed bytes is found */
#else
enum { MT_SPARE_KEPT_MAX = MT_SPARE_BYTES_MAX };
#endif

struct mt_spare_block {
    struct mt_spare_block *next;
};
typedef struct mt_spare {
    struct mt_spare_block *first[MT_SPARE_CLASSES + 1]; /* by size in steps, rounded up */
    size_t                 bytes;                       /* of all that are kept */
} mt_spare;

/* 0: blocks of this size are not kept. */
static inline size_t mt_spare_class(size_t size)
{
    size_t steps = (size + MT_SPARE_STEP - 1) / MT_SPARE_STEP;
    return steps <= MT_SPARE_CLASSES ? steps : 0;
}

/* A block of `size` bytes at least, not cleared, to be given back with the same size. NULL: no memory. */
static inline void *mt_spare_take(mt_spare *spare, size_t size)
{
    size_t class = mt_spare_class(size);
    if (class == 0)
        return malloc(size ? size : 1);
    struct mt_spare_block *block = spare->first[class];
    if (!block)
        return malloc(class * MT_SPARE_STEP);
    spare->first[class] = block->next;
    spare->bytes -= class * MT_SPARE_STEP;
    return block;
}

static inline void mt_spare_give(mt_spare *spare, void *data, size_t size)
{
    size_t class = mt_spare_class(size);
    if (class == 0 || spare->bytes + class * MT_SPARE_STEP > MT_SPARE_KEPT_MAX) {
        free(data);
        return;
    }
    struct mt_spare_block *block = data;
    block->next = spare->first[class];
    spare->first[class] = block;
    spare->bytes += class * MT_SPARE_STEP;
}

/* Frees what is kept. */
void mt_spare_fini(mt_spare *spare);

#endif
