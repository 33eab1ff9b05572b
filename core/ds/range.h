/* SPDX-License-Identifier: Apache-2.0
 *
 * range.h - memory that grows in place: what stands in it never moves, and is found by its number.
 *
 * The addresses are taken at once, the memory behind them as it is asked for. A zeroed range is empty and valid. One thread at
 * a time; nothing here blocks.
 */
#ifndef MT_BASE_RANGE_H
#define MT_BASE_RANGE_H

#include "core/base/status.h"

#include <stddef.h>

typedef struct mt_range {
    void  *base; /* NULL: nothing yet */
    size_t size; /* that can be used from there */
    size_t room; /* addresses in all */
} mt_range;

/* `more` bytes behind what there is, zeroed; the first of them takes the addresses for `room` bytes, or for a quarter of what
 * the process may have where that is less. Both are rounded up to pages. ENOMEM changes nothing. */
MT_MUST_USE mt_status mt_range_grow(mt_range *range, size_t more, size_t room);
void                  mt_range_fini(mt_range *range);

#endif
