/* SPDX-License-Identifier: Apache-2.0
 *
 * join.h - the file that lets another machine join a cluster: where the head is, the token, and a node's certificate with its key.
 *
 *     manta-join 1
 *     address=10.0.0.1:6380                 or of several heads, with commas
 *     token=<64 hexadecimal digits>
 *     -----BEGIN CERTIFICATE-----            as tls.h reads it
 *     ...
 *
 * Whoever holds it may do everything in the cluster. Pure; any thread.
 */
#ifndef MT_IO_JOIN_H
#define MT_IO_JOIN_H

#include "core/base/buf.h"
#include "core/io/token.h"

enum { IO_JOIN_ADDRESS_SIZE = 1024 };

struct io_join {
    char            address[IO_JOIN_ADDRESS_SIZE];
    struct io_token token;
    mt_view         certificates; /* points into the text */
};

/* Appends the text. ENOMEM. */
MT_MUST_USE mt_status io_join_write(const struct io_join *join, mt_buf *out);
/* Reads one. EPROTO (`what` says which line is wrong), EVERSION. *out is written on success only; wipe its token. */
MT_MUST_USE mt_status io_join_read(mt_view text, struct io_join *out);

#endif
