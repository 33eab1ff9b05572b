/* SPDX-License-Identifier: Apache-2.0
 *
 * tls.h - TLS 1.3 between the daemons of one cluster: who we are, and sockets that show it.
 *
 * A cluster has a certificate authority of its own. Every certificate names the cluster and a role, as a DNS name:
 *
 *     head.CLUSTER.manta      what the head shows
 *     node.CLUSTER.manta      what raylets and control clients show
 *
 * Addresses stand in none: a peer is right when the cluster's authority has signed its certificate, and the certificate names our
 * own cluster and the role that we want to speak to. Both sides always show one.
 *
 * The only door to OpenSSL, with issue.c, which makes the certificates. gRPC's own clients get the same files as text.
 */
#ifndef MT_IO_TLS_H
#define MT_IO_TLS_H

#include "core/base/limits/net.h"
#include "core/base/status.h"

#include <stdbool.h>
#include <stddef.h>
#include <sys/types.h>

enum { IO_TLS_NAME_SIZE = 128 };

/* What an end may be. */
enum io_tls_role { IO_TLS_HEAD, IO_TLS_NODE };

/* ---- certificates ---- */

/* Makes what is missing in the folder `dir` (mode 0700, made too): ca.pem (the authority and its key), head.pem and node.pem (a
 * certificate for that role, its key, and the authority's certificate). Files that are there stay, so the user's own may lie
 * there: with head.pem and node.pem nothing is made. `cluster`: letters, digits and "-", at most 63.
 * EINVAL; ENOENT (one of head.pem and node.pem, but no ca.pem); EAUTH (the folder or ca.pem is open to others), ECORRUPT
 * (ca.pem), EDISK_FULL, ENOMEM, ESYS. Blocks (fsync). Any thread. */
MT_MUST_USE mt_status io_tls_make(const char *dir, const char *cluster);

/* Who this process is. Unchanging, so that any thread may use it. */
struct io_tls;
/* Reads a file as io_tls_make makes it. ENOENT; EAUTH: it is open to others, or its certificate is not signed by the
 * authority in it, not valid at this time, or of no role; ECORRUPT: no certificate, key or authority in it; ENOMEM, ESYS.
 * Blocks (disk). */
MT_MUST_USE mt_status io_tls_load(const char *path, struct io_tls **out);
/* All that was made of it must have ended. NULL is allowed. */
void             io_tls_free(struct io_tls *tls);
enum io_tls_role io_tls_role_of(const struct io_tls *tls);
/* The name in the certificate of a peer of this role. */
void io_tls_peer_name(const struct io_tls *tls, enum io_tls_role role, char out[IO_TLS_NAME_SIZE]);
/* The three as PEM texts; they live as long as `tls`. */
struct io_tls_texts {
    const char *authority, *certificate, *key;
};
struct io_tls_texts io_tls_texts_of(const struct io_tls *tls);

/* ---- sockets ---- */

/* TLS on a connected socket that does not block. One thread at a time. */
struct io_tls_conn;
/* The side that accepted: only nodes dial. The handshake is part of the first io_tls_recv. The descriptor stays the caller's.
 * ENOMEM. */
MT_MUST_USE mt_status io_tls_accept(const struct io_tls *tls, int fd, struct io_tls_conn **out);
/* The side that dialled, and wants a peer of this role; nothing is sent to any other. */
MT_MUST_USE mt_status io_tls_dial(const struct io_tls *tls, int fd, enum io_tls_role role, struct io_tls_conn **out);
/* As recv and send: bytes; 0: the peer has said goodbye (recv); -1 and errno: EAGAIN (see io_tls_wants), EPROTO: the connection has
 * failed, io_tls_why says how. A send that got EAGAIN goes on with the same bytes. SIGPIPE must be blocked or ignored. */
ssize_t io_tls_recv(struct io_tls_conn *conn, void *out, size_t size);
ssize_t io_tls_send(struct io_tls_conn *conn, const void *data, size_t size);
/* What to wait for after EAGAIN: IO_READABLE or IO_WRITABLE, which need not be what was tried. */
unsigned io_tls_wants(const struct io_tls_conn *conn);
/* Bytes are there that no watch will tell of. */
bool io_tls_has_more(const struct io_tls_conn *conn);
/* Both sides have shown who they are. */
bool io_tls_is_up(const struct io_tls_conn *conn);
/* Why it failed, in OpenSSL's words; a literal, or lives as long as `conn`. */
const char *io_tls_why(const struct io_tls_conn *conn);
/* Says goodbye where that does not wait, and frees. NULL is allowed. */
void io_tls_end(struct io_tls_conn *conn);

#endif
