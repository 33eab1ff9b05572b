/* SPDX-License-Identifier: Apache-2.0
 *
 * issue.h - the cluster's certificate authority: who may be what, and until when.
 *
 * Its key lies in ca.pem in one folder at the head, and nowhere else. A node makes its own key, which never leaves it, and asks
 * with a request that only the holder of that key can have made (PKCS#10, DER). A certificate's serial number begins with the
 * number of whom it was made for: all that were made for one node, one after the other, are refused by that. Any thread.
 */
#ifndef MT_IO_ISSUE_H
#define MT_IO_ISSUE_H

#include "core/base/buf.h"
#include "core/io/tls/tls.h"

/* What a certificate says. Times are seconds of the wall clock. */
struct io_tls_grant {
    enum io_tls_role role;
    uint64_t         id; /* of the node or the ticket; not 0 */
    int64_t          from_s, until_s;
};

struct io_tls_authority;
/* Reads ca.pem in the folder. ENOENT: this folder has none, so nothing can be signed; EAUTH: it is open to others; ECORRUPT,
 * ENOMEM, ESYS. Blocks (disk). */
MT_MUST_USE mt_status io_tls_authority_load(const char *dir, const char *cluster, struct io_tls_authority **out);
void                  io_tls_authority_free(struct io_tls_authority *authority); /* NULL is allowed */

/* A new key and its certificate, as io_tls_load reads them. ENOMEM. */
MT_MUST_USE mt_status io_tls_issue(const struct io_tls_authority *authority, const struct io_tls_grant *grant, mt_buf *out);
/* A certificate for the key of a request, and the authority's: PEM, without the key. EPROTO: it is no request, its maker does not
 * have the key, or that is none of P-256; ENOMEM. */
MT_MUST_USE mt_status io_tls_sign(const struct io_tls_authority *authority, const struct io_tls_grant *grant, mt_view request,
                                  mt_buf *out);
/* Whether io_tls_sign would take it. EPROTO, ENOMEM. */
MT_MUST_USE mt_status io_tls_request_check(mt_view request);
/* The side that asks: makes a key (PEM; wipe it by io_private_wipe) and the request. ENOMEM. */
MT_MUST_USE mt_status io_tls_ask(mt_buf *out_request, mt_buf *out_key);

#endif
