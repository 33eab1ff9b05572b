/* SPDX-License-Identifier: Apache-2.0
 *
 * join.h - the file that lets another machine join a cluster: where the head is, and what to show it.
 *
 *     manta-join 2                                manta-join 1
 *     address=10.0.0.1:6380                       address=10.0.0.1:6380
 *     check=<16 hexadecimal digits>               token=<64 hexadecimal digits>
 *     -----BEGIN CERTIFICATE-----                 -----BEGIN CERTIFICATE-----         as tls.h reads them
 *     ...                                         ...
 *
 * The address may be a list of several heads', with commas. The first holds a ticket: a certificate that the head exchanges for
 * one of the machine's own, as often and as long as the ticket is good. The check finds what was altered on the way; against a
 * forger it is the certificate that counts. The second is that of a cluster whose certificates are the user's own: it holds the
 * token and a node's certificate, so whoever has it may do everything.
 *
 * Pure; any thread.
 */
#ifndef MT_IO_JOIN_H
#define MT_IO_JOIN_H

#include "core/base/buf.h"
#include "core/io/token.h"

enum { IO_JOIN_ADDRESS_SIZE = 1024 };

struct io_join {
    char            address[IO_JOIN_ADDRESS_SIZE];
    bool            is_ticket; /* else `token` is set */
    struct io_token token;
    mt_view         certificates; /* points into the text */
};

/* Appends the text. ENOMEM. */
MT_MUST_USE mt_status io_join_write(const struct io_join *join, mt_buf *out);
/* Reads one. EPROTO (`what` says which line is wrong), EVERSION. *out is written on success only; wipe its token. */
MT_MUST_USE mt_status io_join_read(mt_view text, struct io_join *out);

#endif
