/* SPDX-License-Identifier: Apache-2.0
 *
 * buf.c - growing bytes, and little-endian fields read and written within bounds.
 *
 * Owns: the bytes of each mt_buf, from the first append to mt_buf_fini. Thread: the caller's.
 * Always: size <= capacity; a failed reader or writer stays failed and moves no more.
 */
#include "core/base/buf.h"

#include "core/base/real.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>

enum { BUF_CAPACITY_MIN = 64 };

void mt_buf_fini(mt_buf *buf)
{
    free(buf->data);
    *buf = (mt_buf){0};
}

mt_buf mt_buf_move(mt_buf *buf)
{
    mt_buf moved = *buf;
    *buf = (mt_buf){0};
    return moved;
}

mt_status mt_buf_reserve(mt_buf *buf, size_t extra)
{
    size_t need;
    if (__builtin_add_overflow(buf->size, extra, &need))
        return mt_error(MT_ENOMEM, 0, "grow buffer: size overflows");
    if (need <= buf->capacity)
        return mt_ok();
    size_t capacity = buf->capacity ? buf->capacity : BUF_CAPACITY_MIN;
    while (capacity < need) {
        if (__builtin_mul_overflow(capacity, 2, &capacity))
            capacity = need;
    }
    uint8_t *data = realloc(buf->data, capacity);
    if (!data)
        return mt_error(MT_ENOMEM, 0, "grow buffer");
    buf->data = data;
    buf->capacity = capacity;
    return mt_ok();
}

mt_status mt_buf_append(mt_buf *buf, const void *data, size_t size)
{
    if (size == 0)
        return mt_ok();
    MT_TRY(mt_buf_reserve(buf, size));
    memcpy(buf->data + buf->size, data, size);
    buf->size += size;
    return mt_ok();
}

mt_status mt_buf_printf(mt_buf *buf, const char *format, ...)
{
    va_list   args;
    locale_t  users = mt_real_enter();
    mt_status st;
    va_start(args, format);
    int size = vsnprintf(NULL, 0, format, args);
    va_end(args);
    /* One byte more: vsnprintf writes the end mark, which is not counted. */
    st = size < 0 ? mt_error(MT_EINVAL, 0, "format text") : mt_buf_reserve(buf, (size_t)size + 1);
    if (st.code == 0) {
        va_start(args, format);
        vsnprintf((char *)buf->data + buf->size, (size_t)size + 1, format, args);
        va_end(args);
        buf->size += (size_t)size;
    }
    mt_real_leave(users);
    return st;
}

mt_status mt_buf_terminate(mt_buf *buf)
{
    MT_TRY(mt_buf_reserve(buf, 1));
    buf->data[buf->size] = 0;
    return mt_ok();
}

mt_view mt_reader_bytes(mt_reader *reader, size_t size)
{
    if (reader->failed || size > reader->left) {
        reader->failed = true;
        return mt_view_of(NULL, 0);
    }
    mt_view view = mt_view_of(reader->at, size);
    if (size) {
        reader->at += size;
        reader->left -= size;
    }
    return view;
}

static uint64_t reader_field(mt_reader *reader, size_t size)
{
    mt_view  view = mt_reader_bytes(reader, size);
    uint64_t value = 0;
    for (size_t i = 0; i < view.size; i++)
        value |= (uint64_t)view.data[i] << 8 * i;
    return value;
}

uint8_t mt_reader_u8(mt_reader *reader)
{
    return (uint8_t)reader_field(reader, 1);
}

uint16_t mt_reader_u16(mt_reader *reader)
{
    return (uint16_t)reader_field(reader, 2);
}

uint32_t mt_reader_u32(mt_reader *reader)
{
    return (uint32_t)reader_field(reader, 4);
}

uint64_t mt_reader_u64(mt_reader *reader)
{
    return reader_field(reader, 8);
}

mt_view mt_reader_blob(mt_reader *reader, size_t size_max)
{
    size_t size = mt_reader_u32(reader);
    if (size > size_max)
        reader->failed = true;
    return mt_reader_bytes(reader, size);
}

mt_status mt_reader_status(const mt_reader *reader)
{
    return reader->failed ? mt_error(MT_EPROTO, 0, "read field: past the end") : mt_ok();
}

mt_status mt_reader_end(const mt_reader *reader)
{
    MT_TRY(mt_reader_status(reader));
    return reader->left ? mt_error(MT_EPROTO, 0, "read field: bytes left over") : mt_ok();
}

mt_writer mt_writer_to_buf(mt_buf *buf, size_t size_max)
{
    mt_writer writer = {.buf = buf, .size_max = size_max};
    return writer;
}

/* NULL: it has failed, or there is no room; writer->status says why. */
static uint8_t *writer_room(mt_writer *writer, size_t size)
{
    mt_buf *buf = writer->buf;
    if (writer->status.code != 0)
        return NULL;
    if (buf->size > writer->size_max || size > writer->size_max - buf->size)
        writer->status = mt_error(MT_EINVAL, 0, "write field: past the limit");
    else
        writer->status = mt_buf_reserve(buf, size);
    if (writer->status.code != 0)
        return NULL;
    uint8_t *room = buf->data + buf->size;
    buf->size += size;
    return room;
}

void mt_writer_bytes(mt_writer *writer, const void *data, size_t size)
{
    if (size == 0)
        return;
    uint8_t *room = writer_room(writer, size);
    if (room)
        memcpy(room, data, size);
}

static void writer_field(mt_writer *writer, uint64_t value, size_t size)
{
    uint8_t *room = writer_room(writer, size);
    for (size_t i = 0; room && i < size; i++)
        room[i] = (uint8_t)(value >> 8 * i);
}

void mt_writer_u8(mt_writer *writer, uint8_t value)
{
    writer_field(writer, value, 1);
}

void mt_writer_u32(mt_writer *writer, uint32_t value)
{
    writer_field(writer, value, 4);
}

void mt_writer_u64(mt_writer *writer, uint64_t value)
{
    writer_field(writer, value, 8);
}

void mt_writer_blob(mt_writer *writer, mt_view view)
{
    if (view.size > UINT32_MAX && writer->status.code == 0)
        writer->status = mt_error(MT_EINVAL, 0, "write field: longer than its length says");
    mt_writer_u32(writer, (uint32_t)view.size);
    mt_writer_bytes(writer, view.data, view.size);
}
