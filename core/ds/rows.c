/* SPDX-License-Identifier: Apache-2.0
 *
 * rows.c - rows of texts, each told by what differs from the one above. Owns: what its structs hold. Thread: one at a time.
 */
#include "core/ds/rows.h"

enum { SHARED_MAX = 255 };

/* How many bytes both begin with, at most `most`. */
static size_t shared_bytes(const char *a, const uint8_t *b, size_t most)
{
    size_t n = 0;
    for (uint64_t x, y; n + sizeof x <= most; n += sizeof x) {
        memcpy(&x, a + n, sizeof x);
        memcpy(&y, b + n, sizeof y);
        if (x != y)
            return n + (size_t)__builtin_ctzll(x ^ y) / 8; /* little-endian, as everything here */
    }
    while (n < most && (uint8_t)a[n] == b[n])
        n++;
    return n;
}

/* Writes what is new in one cell, and keeps it as the one above. */
static mt_status cell_add(mt_buf *bytes, mt_buf *above, const char *cell, size_t size)
{
    size_t most = size < above->size ? size : above->size;
    size_t shared = shared_bytes(cell, above->data, most < SHARED_MAX ? most : SHARED_MAX);
    MT_TRY(mt_buf_reserve(bytes, size - shared + 2));
    uint8_t *out = bytes->data + bytes->size;
    *out++ = (uint8_t)shared;
    memcpy(out, cell + shared, size - shared);
    out[size - shared] = 0;
    bytes->size += size - shared + 2;
    above->size = shared;
    return mt_buf_append(above, cell + shared, size - shared);
}

mt_status mt_rows_add(struct mt_rows *rows, size_t columns, const char *const *cells, size_t cell_max)
{
    size_t   at = rows->bytes.size;
    uint32_t changed = 0;
    MT_ASSERT(columns <= MT_ROWS_COLUMNS_MAX);
    MT_TRY(mt_buf_append(&rows->bytes, "\0", 2));
    for (size_t i = 0; i < columns; i++) {
        const char *cell = cells[i] ? cells[i] : "";
        mt_buf     *above = &rows->above[i];
        size_t      size = strnlen(cell, cell_max);
        if (size == above->size && (size == 0 || memcmp(cell, above->data, size) == 0))
            continue;
        MT_TRY(cell_add(&rows->bytes, above, cell, size));
        changed |= 1u << i;
    }
    rows->bytes.data[at] = (uint8_t)changed;
    rows->bytes.data[at + 1] = (uint8_t)(changed >> 8);
    rows->count++;
    return mt_ok();
}

void mt_rows_fini(struct mt_rows *rows)
{
    mt_buf_fini(&rows->bytes);
    for (size_t i = 0; i < MT_ROWS_COLUMNS_MAX; i++)
        mt_buf_fini(&rows->above[i]);
    rows->count = 0;
}

mt_status mt_rows_read(struct mt_rows_reader *reader, mt_view bytes, size_t columns, uint32_t count)
{
    *reader = (struct mt_rows_reader){.bytes = mt_reader_of(bytes), .columns = columns, .left = count};
    if (columns > MT_ROWS_COLUMNS_MAX)
        return mt_error(MT_EPROTO, 0, "more columns than rows have");
    for (size_t i = 0; i < columns; i++)
        reader->cells[i] = "";
    return mt_ok();
}

static mt_status cell_read(mt_reader *bytes, mt_buf *above)
{
    size_t         shared = mt_reader_u8(bytes), size = above->size ? above->size - 1 : 0;
    const uint8_t *end = bytes->left ? memchr(bytes->at, 0, bytes->left) : NULL;
    if (!end || shared > size)
        return mt_error(MT_EPROTO, 0, "a cell that is none");
    mt_view rest = mt_reader_bytes(bytes, (size_t)(end - bytes->at) + 1);
    above->size = shared;
    return mt_buf_append(above, rest.data, rest.size);
}

mt_status mt_rows_next(struct mt_rows_reader *reader)
{
    if (!reader->left)
        return reader->bytes.left ? mt_error(MT_EPROTO, 0, "bytes behind the last row") : mt_error(MT_ENOENT, 0, "no more rows");
    reader->left--;
    reader->changed = mt_reader_u16(&reader->bytes);
    if (reader->bytes.failed || reader->changed >> reader->columns)
        return mt_error(MT_EPROTO, 0, "a row that is none");
    for (uint32_t todo = reader->changed; todo; todo &= todo - 1) {
        unsigned i = (unsigned)__builtin_ctz(todo);
        MT_TRY(cell_read(&reader->bytes, &reader->above[i]));
        reader->cells[i] = (const char *)reader->above[i].data;
    }
    return mt_ok();
}

void mt_rows_read_fini(struct mt_rows_reader *reader)
{
    for (size_t i = 0; i < MT_ROWS_COLUMNS_MAX; i++)
        mt_buf_fini(&reader->above[i]);
}
