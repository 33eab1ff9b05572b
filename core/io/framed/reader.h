/* SPDX-License-Identifier: Apache-2.0
 *
 * reader.h - what comes by a framed connection, taken apart: the greeting, then messages.
 *
 *     dials:    hello {magic, versions, token}, then messages      accepted: messages
 *     message:  its length (4 bytes), then so many bytes
 *
 * All little-endian, no padding. Pure: no I/O, no clock. What is not right ends the connection, never more.
 */
#ifndef MT_IO_FRAMED_READER_H
#define MT_IO_FRAMED_READER_H

#include "core/base/buf.h"
#include "core/base/release.h"
#include "core/io/token.h"

enum {
    IO_FRAMED_MAGIC = 0x6b6e6c6d,       /* "mlnk" */
    IO_FRAMED_HEAD = 4,                 /* bytes of a length */
    IO_FRAMED_AHEAD_BYTES = 128 * 1024, /* read by one call, unless a message is longer */
};

struct io_framed_hello {
    uint32_t magic;
    uint16_t version_max, version_min; /* spoken by who dials */
    uint8_t  token[IO_TOKEN_HEX];
};
static_assert(sizeof(struct io_framed_hello) == 72, "the greeting has no padding");

/* GREETING (of the side that accepted) --the token is right--> MESSAGES */
enum io_framed_reading { IO_FRAMED_GREETING, IO_FRAMED_MESSAGES };

struct io_framed_reader {
    enum io_framed_reading state;
    uint32_t               message_max;
    uint32_t               have; /* bytes of hello that are there */
    struct io_framed_hello hello;
    uint8_t               *bytes; /* none before the first message may come */
    size_t                 capacity, from, to;
};

void io_framed_reader_init(struct io_framed_reader *r, uint32_t message_max, bool is_accepted);
void io_framed_reader_fini(struct io_framed_reader *r);
/* Where the next bytes go, and at most how many, never 0. Once io_framed_next has given none. ENOMEM. */
MT_MUST_USE mt_status io_framed_room(struct io_framed_reader *r, void **out_at, size_t *out_size);
/* So many bytes are there. EAUTH: another token; EPROTO: no greeting; EVERSION. */
MT_MUST_USE mt_status io_framed_received(struct io_framed_reader *r, size_t size, const struct io_token *token);
/* The next whole message; data NULL: there is none. It lives until the next io_framed_room. EPROTO: an impossible length. */
MT_MUST_USE mt_status io_framed_next(struct io_framed_reader *r, mt_view *out);

#endif
