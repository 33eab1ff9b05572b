/* SPDX-License-Identifier: Apache-2.0
 *
 * buf.h - bytes: owned and growing (mt_buf), borrowed (mt_view), and the bounds-checked way to read and write them.
 *
 * A zeroed mt_buf is empty and valid. Reader and writer speak little-endian and remember their first failure: a
 * decoder reads all its fields and asks once at the end. Nothing here blocks; one thread at a time.
 */
#ifndef MT_BASE_BUF_H
#define MT_BASE_BUF_H

#include "core/base/id.h"
#include "core/base/status.h"

#include <stdbool.h>
#include <string.h>

/* Borrowed bytes: valid as long as the one who lends them says. */
typedef struct mt_view {
    const uint8_t *data;
    size_t         size;
} mt_view;

/* Owned bytes; freed by mt_buf_fini. */
typedef struct mt_buf {
    uint8_t *data; /* NULL while capacity is 0 */
    size_t   size;
    size_t   capacity;
} mt_buf;

static inline mt_view mt_view_of(const void *data, size_t size)
{
    mt_view view = {(const uint8_t *)data, size};
    return view;
}
static inline mt_view mt_view_text(const char *text)
{
    return mt_view_of(text, strlen(text));
}
/* The bytes of `buf`, valid until it grows or goes. */
static inline mt_view mt_buf_view(const mt_buf *buf)
{
    return mt_view_of(buf->data, buf->size);
}
static inline bool mt_view_equal(mt_view a, mt_view b)
{
    return a.size == b.size && (a.size == 0 || memcmp(a.data, b.data, a.size) == 0);
}

/* Frees the bytes; `buf` is empty and may be used again. */
void mt_buf_fini(mt_buf *buf);
/* Gives the bytes away by value; `buf` is empty afterwards. */
mt_buf mt_buf_move(mt_buf *buf);
/* Makes room for `extra` bytes behind the present ones. ENOMEM leaves `buf` as it was. */
MT_MUST_USE mt_status mt_buf_reserve(mt_buf *buf, size_t extra);
/* Appends a copy of the bytes; they may not lie in `buf` itself. ENOMEM leaves `buf` as it was. */
MT_MUST_USE mt_status mt_buf_append(mt_buf *buf, const void *data, size_t size);
/* Appends formatted text, without an end mark; real numbers with a point (real.h). ENOMEM leaves `buf` as it was. */
MT_MUST_USE mt_status mt_buf_printf(mt_buf *buf, const char *format, ...) MT_PRINTF(2, 3);
/* Writes a NUL behind the last byte, not counted in size, so that data is a C string. */
MT_MUST_USE mt_status mt_buf_terminate(mt_buf *buf);

/* --- reading ---------------------------------------------------------------------------------------------- */

typedef struct mt_reader {
    const uint8_t *at;
    size_t         left;
    bool           failed; /* a field went past the end; from then on every read gives zero */
} mt_reader;

static inline mt_reader mt_reader_of(mt_view view)
{
    mt_reader reader = {view.data, view.size, false};
    return reader;
}
/* The next `size` bytes in place; {NULL, 0} where fewer are left. */
mt_view mt_reader_bytes(mt_reader *reader, size_t size);
/* Fields; 0 after a failure. */
uint8_t  mt_reader_u8(mt_reader *reader);
uint16_t mt_reader_u16(mt_reader *reader);
uint32_t mt_reader_u32(mt_reader *reader);
uint64_t mt_reader_u64(mt_reader *reader);
/* A u32 length and so many bytes, in place. A length over size_max is a failure. */
mt_view mt_reader_blob(mt_reader *reader, size_t size_max);
/* EPROTO after a failure, else success. */
MT_MUST_USE mt_status mt_reader_status(const mt_reader *reader);
/* The same, and EPROTO where bytes are left over: the end of a decoder. */
MT_MUST_USE mt_status mt_reader_end(const mt_reader *reader);

/* --- writing ---------------------------------------------------------------------------------------------- */

typedef struct mt_writer {
    mt_buf   *buf;
    size_t    size_max;
    mt_status status; /* the first failure: ENOMEM, or EINVAL past size_max; nothing is written after it */
} mt_writer;

/* Appends to `buf`, which must outlive the writer, up to size_max bytes in all. */
mt_writer mt_writer_to_buf(mt_buf *buf, size_t size_max);
void      mt_writer_bytes(mt_writer *writer, const void *data, size_t size);
void      mt_writer_u8(mt_writer *writer, uint8_t value);
void      mt_writer_u32(mt_writer *writer, uint32_t value);
void      mt_writer_u64(mt_writer *writer, uint64_t value);
/* A u32 length and the bytes: what mt_reader_blob reads. */
void mt_writer_blob(mt_writer *writer, mt_view view);
/* Bytes written so far, those that stood in the buffer before included. */
static inline size_t mt_writer_size(const mt_writer *writer)
{
    return writer->buf->size;
}

#endif
