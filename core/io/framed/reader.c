/* SPDX-License-Identifier: Apache-2.0
 *
 * reader.c - see reader.h.
 *
 * Owns: the buffer. Thread: any, one at a time.
 * Always: from <= to <= capacity; before the token was shown there is no buffer, so a stranger costs its struct.
 */
#include "core/io/framed/reader.h"

#include "core/base/machine.h"

#include <stdlib.h>

static const char *const       names[] = {[IO_FRAMED_GREETING] = "GREETING", [IO_FRAMED_MESSAGES] = "MESSAGES"};
static const uint32_t          follows[] = {[IO_FRAMED_GREETING] = MT_STATE(IO_FRAMED_MESSAGES), [IO_FRAMED_MESSAGES] = 0};
static const struct mt_machine machine = MT_MACHINE("framed_reader", names, follows);

static void reader_set_state(struct io_framed_reader *r, enum io_framed_reading next)
{
    MT_TRANSITION(&machine, r->state, next);
    r->state = next;
}

void io_framed_reader_init(struct io_framed_reader *r, uint32_t message_max, bool is_accepted)
{
    *r = (struct io_framed_reader){.message_max = message_max};
    if (!is_accepted)
        reader_set_state(r, IO_FRAMED_MESSAGES);
}

void io_framed_reader_fini(struct io_framed_reader *r)
{
    free(r->bytes);
    r->bytes = NULL;
}

static uint32_t length_at(const struct io_framed_reader *r)
{
    const uint8_t *b = r->bytes + r->from;
    return (uint32_t)b[0] | (uint32_t)b[1] << 8 | (uint32_t)b[2] << 16 | (uint32_t)b[3] << 24;
}

/* Bytes that the buffer has to hold for the message that comes. Its length has been checked. */
static size_t wanted(const struct io_framed_reader *r)
{
    return r->to - r->from < IO_FRAMED_HEAD ? IO_FRAMED_HEAD : IO_FRAMED_HEAD + (size_t)length_at(r);
}

static mt_status grow(struct io_framed_reader *r, size_t capacity)
{
    uint8_t *bytes = realloc(r->bytes, capacity);
    if (!bytes)
        return mt_error(MT_ENOMEM, 0, "messages of a connection");
    r->bytes = bytes;
    r->capacity = capacity;
    return mt_ok();
}

mt_status io_framed_room(struct io_framed_reader *r, void **out_at, size_t *out_size)
{
    if (r->state == IO_FRAMED_GREETING) {
        *out_at = (uint8_t *)&r->hello + r->have;
        *out_size = sizeof r->hello - r->have;
        return mt_ok();
    }
    if (r->from && r->bytes) { /* what is there is less than a message, most often nothing */
        memmove(r->bytes, r->bytes + r->from, r->to - r->from);
        r->to -= r->from;
        r->from = 0;
    }
    if (!r->bytes)
        MT_TRY(grow(r, IO_FRAMED_AHEAD_BYTES));
    if (wanted(r) > r->capacity)
        MT_TRY(grow(r, wanted(r)));
    *out_at = r->bytes + r->to;
    *out_size = r->capacity - r->to;
    return mt_ok();
}

static mt_status greeting(struct io_framed_reader *r, const struct io_token *token)
{
    if (!io_token_equal(token, (const char *)r->hello.token, sizeof r->hello.token))
        return mt_error(MT_EAUTH, 0, "connection of a peer: wrong token");
    if (r->hello.magic != IO_FRAMED_MAGIC)
        return mt_error(MT_EPROTO, 0, "connection of a peer: no greeting");
    if (!mt_versions_common(mt_release.wire, (struct mt_versions){r->hello.version_min, r->hello.version_max}))
        return mt_error(MT_EVERSION, 0, "connection of a peer");
    memset(r->hello.token, 0, sizeof r->hello.token);
    reader_set_state(r, IO_FRAMED_MESSAGES);
    return mt_ok();
}

mt_status io_framed_received(struct io_framed_reader *r, size_t size, const struct io_token *token)
{
    if (r->state == IO_FRAMED_MESSAGES) {
        r->to += size;
        MT_ASSERT(r->from <= r->to && r->to <= r->capacity);
        return mt_ok();
    }
    r->have += (uint32_t)size;
    MT_ASSERT(r->have <= sizeof r->hello);
    return r->have < sizeof r->hello ? mt_ok() : greeting(r, token);
}

mt_status io_framed_next(struct io_framed_reader *r, mt_view *out)
{
    *out = mt_view_of(NULL, 0);
    if (r->to - r->from < IO_FRAMED_HEAD)
        return mt_ok();
    uint32_t length = length_at(r);
    if (length == 0 || length > r->message_max)
        return mt_error(MT_EPROTO, 0, "connection of a peer: an impossible length");
    if (r->to - r->from < IO_FRAMED_HEAD + (size_t)length)
        return mt_ok();
    *out = mt_view_of(r->bytes + r->from + IO_FRAMED_HEAD, length);
    r->from += IO_FRAMED_HEAD + (size_t)length;
    return mt_ok();
}
