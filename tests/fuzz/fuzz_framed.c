/* SPDX-License-Identifier: Apache-2.0
 *
 * fuzz_framed.c - what a stranger, or a peer, may write on a framed connection: the greeting, then messages, in pieces of any size.
 */
#include "core/io/framed/reader.h"

#include <stdlib.h>
#include <string.h>

int LLVMFuzzerTestOneInput(const uint8_t *input, size_t size);

enum { MESSAGE_MAX = 300 };

/* So many bytes of the input, or of a length that is right now and then, into the reader's room. False: it has refused them. */
static bool feed(struct io_framed_reader *r, const struct io_token *token, const uint8_t **at, const uint8_t *end)
{
    void   *to;
    size_t  room;
    mt_view message;
    size_t  piece = (size_t) * (*at)++ + 1;
    if (io_framed_room(r, &to, &room).code || !room)
        abort();
    piece = piece > room ? room : piece;
    piece = piece > (size_t)(end - *at) ? (size_t)(end - *at) : piece;
    memcpy(to, *at, piece);
    *at += piece;
    if (io_framed_received(r, piece, token).code)
        return false;
    if (r->state == IO_FRAMED_GREETING)
        return true;
    for (;;) {
        if (io_framed_next(r, &message).code)
            return false;
        if (!message.data)
            return true;
        if (!message.size || message.size > MESSAGE_MAX || message.data < r->bytes ||
            message.data + message.size > r->bytes + r->to)
            abort();
        for (size_t i = 0, sum = 0; i < message.size; i++) /* the sanitizer looks whether it is there */
            if ((sum += message.data[i]) == SIZE_MAX)
                abort();
    }
}

int LLVMFuzzerTestOneInput(const uint8_t *input, size_t size)
{
    static const struct io_token token; /* all zero: what greets so is let in */
    const uint8_t               *at = input, *end = input + size;
    struct io_framed_reader      r;
    if (!size)
        return 0;
    uint8_t how = *at++;
    io_framed_reader_init(&r, MESSAGE_MAX, how & 1);
    if ((how & 3) == 3) { /* an honest greeting */
        struct io_framed_hello hello = {
            .magic = IO_FRAMED_MAGIC, .version_max = mt_release.wire.max, .version_min = mt_release.wire.min};
        void  *to;
        size_t room;
        memcpy(hello.token, token.hex, sizeof hello.token);
        if (io_framed_room(&r, &to, &room).code || room != sizeof hello)
            abort();
        memcpy(to, &hello, sizeof hello);
        if (io_framed_received(&r, sizeof hello, &token).code || r.state != IO_FRAMED_MESSAGES)
            abort();
    }
    while (at < end && feed(&r, &token, &at, end))
        ;
    io_framed_reader_fini(&r);
    return 0;
}
