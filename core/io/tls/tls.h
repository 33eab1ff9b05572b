/* SPDX-License-Identifier: Apache-2.0
 *
 * tls.h - TLS 1.3 between the daemons of one cluster: who we are, and sockets that show it.
 *
 * A cluster has a certificate authority of its own. Every certificate names the cluster and a role, as a DNS name:
 *
 *     head.CLUSTER.manta      what the head shows
 *     node.CLUSTER.manta      what raylets and control clients show
 *     ticket.CLUSTER.manta    what a machine shows that is about to join: only the head takes it, for a certificate of its own
 *
 * Addresses stand in none: a peer is right when the cluster's authority has signed its certificate, and the certificate names our
 * own cluster and the role that we want to speak to. Both sides always show one.
 *
 * Certificates of OpenSSL are handled here and in issue.c and sign.c, which make them (issue.h). gRPC's own clients get the same
 * files as text.
 */
#ifndef MT_IO_TLS_H
#define MT_IO_TLS_H

#include "core/base/buf.h"
#include "core/tls/conn.h"

enum { IO_TLS_NAME_SIZE = 128 };

/* What an end may be. */
enum io_tls_role { IO_TLS_HEAD, IO_TLS_NODE, IO_TLS_TICKET };

/* ---- certificates ---- */

/* Makes what is missing, or older than a day, in the folder `dir` (mode 0700, made too): ca.pem (the authority and its key),
 * head.pem and node.pem (a certificate for that role, its key, and the authority's certificate). Certificates of the user's own
 * may lie there and stay: with head.pem, node.pem and no ca.pem nothing is made. `cluster`: letters, digits and "-", at most 63.
 * EINVAL; ENOENT (one of head.pem and node.pem, but no ca.pem); EAUTH (the folder or ca.pem is open to others), ECORRUPT
 * (ca.pem), EDISK_FULL, ENOMEM, ESYS. Blocks (fsync). Any thread. */
MT_MUST_USE mt_status io_tls_make(const char *dir, const char *cluster);

/* Who this process is, and whom it refuses. Any thread may use it. */
struct io_tls;
/* Reads a file as io_tls_make makes it. ENOENT; EAUTH: it is open to others, or its certificate is not signed by the
 * authority in it, not valid at this time, or of no role; ECORRUPT: no certificate, key or authority in it; ENOMEM, ESYS.
 * Blocks (disk). */
MT_MUST_USE mt_status io_tls_load(const char *path, struct io_tls **out);
/* The same of a text; and nobody else need hold it in a file. */
MT_MUST_USE mt_status io_tls_parse(mt_view text, struct io_tls **out);
/* All that was made of it must have ended. NULL is allowed. */
void             io_tls_free(struct io_tls *tls);
enum io_tls_role io_tls_role_of(const struct io_tls *tls);
/* What a certificate says. */
struct io_tls_who {
    enum io_tls_role role;
    uint64_t         id;     /* for whom it was made (issue.h); 0: by no authority of Manta's */
    int64_t          ends_s; /* of the wall clock */
};
struct io_tls_who io_tls_self(const struct io_tls *tls);
/* Takes another certificate of the same role and cluster, and its key: new connections show it, those that are there go on. As
 * io_tls_parse; EINVAL: it is another's. */
MT_MUST_USE mt_status io_tls_renew(struct io_tls *tls, mt_view text);
/* Whose certificate begins with this number is refused from now on, until it ends by itself; who is connected is not cut off by
 * this. EAGAIN: too many are refused already; ENOMEM. */
MT_MUST_USE mt_status io_tls_revoke(struct io_tls *tls, uint64_t id, int64_t until_s);
/* The name in the certificate of a peer of this role. */
void io_tls_peer_name(const struct io_tls *tls, enum io_tls_role role, char out[IO_TLS_NAME_SIZE]);
/* The three as PEM texts; they live until the next io_tls_renew. */
struct io_tls_texts {
    const char *authority, *certificate, *key;
};
struct io_tls_texts io_tls_texts_of(const struct io_tls *tls);

/* ---- sockets (core/tls/conn.h) ---- */

/* The side that accepted: nodes dial, and the head takes those with a ticket too. ENOMEM. */
MT_MUST_USE mt_status io_tls_accept(const struct io_tls *tls, int fd, struct tls_conn **out);
/* The side that dialled, and wants a peer of this role; nothing is sent to any other. */
MT_MUST_USE mt_status io_tls_dial(const struct io_tls *tls, int fd, enum io_tls_role role, struct tls_conn **out);
/* Whom the peer has shown to be. False: nobody yet. */
bool io_tls_peer(const struct tls_conn *conn, struct io_tls_who *out);
/* It was revoked since it came. */
bool io_tls_is_revoked(const struct io_tls *tls, const struct tls_conn *conn);
/* What to watch for after EAGAIN: IO_READABLE or IO_WRITABLE, which need not be what was tried. */
unsigned io_tls_wants(const struct tls_conn *conn);

#endif
