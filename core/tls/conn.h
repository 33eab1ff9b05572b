/* SPDX-License-Identifier: Apache-2.0
 *
 * conn.h - TLS 1.3 on a connected socket that does not block: bytes in, bytes out, and why it failed.
 *
 * Who the other side must be is decided where the connection is made: psk.h, core/io/tls/tls.h. The handshake is part of the first
 * calls. Thread: one at a time per connection.
 */
#ifndef MT_TLS_CONN_H
#define MT_TLS_CONN_H

#include "core/base/limits/net.h"
#include "core/base/status.h"

#include <stdbool.h>
#include <stddef.h>
#include <sys/types.h>

struct ssl_st;     /* OpenSSL's SSL */
struct ssl_ctx_st; /* OpenSSL's SSL_CTX */
struct tls_conn;

/* A context for connections of TLS 1.3 alone, without sessions that are resumed. The caller frees it. ENOMEM. */
MT_MUST_USE mt_status tls_context_new(struct ssl_ctx_st **out);

/* Takes over `ssl`, also where it fails; the descriptor stays the caller's. ENOMEM. */
MT_MUST_USE mt_status tls_conn_new(struct ssl_st *ssl, int fd, struct tls_conn **out);
struct ssl_st        *tls_conn_ssl(const struct tls_conn *conn);

/* As recv and send: bytes; 0: the peer has said goodbye (recv); -1 and errno: EAGAIN (see tls_wants_write), EPROTO: the connection
 * has failed, tls_why says how. A send that got EAGAIN goes on with the same bytes. Raises no SIGPIPE. */
ssize_t tls_recv(struct tls_conn *conn, void *out, size_t size);
ssize_t tls_send(struct tls_conn *conn, const void *data, size_t size);
/* What to wait for after EAGAIN, whatever was tried: that the socket takes bytes, else that it has some. */
bool tls_wants_write(const struct tls_conn *conn);
/* Bytes are there that no watch will tell of. */
bool tls_has_more(const struct tls_conn *conn);
/* Both sides have shown who they are. */
bool tls_is_up(const struct tls_conn *conn);
/* The handshake has failed, and not since the other side is gone: one of the two is not who the other wants. */
bool tls_is_refused(const struct tls_conn *conn);
/* Why it failed, in OpenSSL's words; a literal, or lives as long as `conn`. */
const char *tls_why(const struct tls_conn *conn);
/* Says goodbye where that does not wait, and frees. NULL is allowed. */
void tls_end(struct tls_conn *conn);

#endif
