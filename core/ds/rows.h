/* SPDX-License-Identifier: Apache-2.0
 *
 * rows.h - rows of texts in few bytes: of each cell only what differs from the cell above it.
 *
 *   row     u16, low byte first: bit i is set where cell i differs from the one above. Then those cells, in order.
 *   cell    u8: how many of its first bytes are those of the cell above. Then the rest of it, with its NUL.
 *
 * Above the first row all cells are empty. A list of a million tasks takes a third of its text so, and whoever reads it sees
 * which cells are new. Both ends are plain memory: zeroed is empty and valid, one thread at a time, nothing blocks.
 */
#ifndef MT_DS_ROWS_H
#define MT_DS_ROWS_H

#include "core/base/buf.h"

enum { MT_ROWS_COLUMNS_MAX = 16 };

/* The writing end. */
struct mt_rows {
    mt_buf   bytes;
    uint32_t count;
    mt_buf   above[MT_ROWS_COLUMNS_MAX]; /* the cells of the last row, without their NUL */
};

/* Appends a row of `columns` cells; NULL is an empty one, and one of more than cell_max bytes is cut. ENOMEM: the rows can only be
 * freed. */
MT_MUST_USE mt_status mt_rows_add(struct mt_rows *rows, size_t columns, const char *const *cells, size_t cell_max);
void                  mt_rows_fini(struct mt_rows *rows);

/* The reading end. The bytes are another process's: nothing is believed. */
struct mt_rows_reader {
    mt_reader   bytes;
    size_t      columns;
    uint32_t    left;                       /* rows */
    uint32_t    changed;                    /* bit i: cell i is not what it was in the row before */
    const char *cells[MT_ROWS_COLUMNS_MAX]; /* of the present row, until the next one is read */
    mt_buf      above[MT_ROWS_COLUMNS_MAX]; /* the same, with their NUL; no data: empty */
};

/* Reads `count` rows of `columns` cells from `bytes`, which outlive it. EPROTO: so many columns there can't be. */
MT_MUST_USE mt_status mt_rows_read(struct mt_rows_reader *reader, mt_view bytes, size_t columns, uint32_t count);
/* The next row. ENOENT: that was all. EPROTO: the bytes are no such rows. ENOMEM. */
MT_MUST_USE mt_status mt_rows_next(struct mt_rows_reader *reader);
void                  mt_rows_read_fini(struct mt_rows_reader *reader);

#endif
