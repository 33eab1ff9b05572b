/* SPDX-License-Identifier: Apache-2.0
 *
 * bound.h - how many connections without the cluster's token each address may open.
 *
 * Every address has a bucket of MT_BOUND_BURST connections, which gets MT_BOUND_PER_S a second back; in IPv6, whose hosts have as
 * many addresses as they like, every 64-bit network has one. An address from which a
 * connection has shown the token is known, and has no bound for MT_BOUND_KNOWN_MS. Who is past the bound of its address and has
 * sent its greeting already takes from a bucket that all share: a node behind the address of a flood still gets in, now and then.
 * No I/O and no clock: time comes with each call. Thread: one at a time.
 */
#ifndef MT_IO_BOUND_H
#define MT_IO_BOUND_H

#include "core/base/limits/net.h"
#include "core/base/status.h"

#include <netinet/in.h>
#include <stdbool.h>

/* Where a connection comes from: an IPv6 address, IPv4 as ::ffff:a.b.c.d. What is no IP address is all zeros. */
struct io_origin {
    uint8_t bytes[16];
};
struct io_origin io_origin_of(const struct sockaddr *address);

struct io_bound;
/* ENOMEM, ESYS (no random bytes). */
MT_MUST_USE mt_status io_bound_new(struct io_bound **out_bound);
/* NULL is allowed. */
void io_bound_free(struct io_bound *bound);
/* A connection has come. False: it is one too many. */
bool io_bound_take(struct io_bound *bound, const struct io_origin *from, bool has_spoken, uint64_t now_ms);
/* A connection from there has shown the token. */
void io_bound_know(struct io_bound *bound, const struct io_origin *from, uint64_t now_ms);
bool io_bound_is_known(const struct io_bound *bound, const struct io_origin *from, uint64_t now_ms);

#endif
