/* SPDX-License-Identifier: Apache-2.0
 *
 * private.h - what tls.c, issue.c, sign.c and name.c share.
 */
#ifndef MT_IO_TLS_PRIVATE_H
#define MT_IO_TLS_PRIVATE_H

#include "core/io/tls/issue.h"

#include <openssl/x509.h>

enum {
    IO_TLS_CLUSTER_SIZE = 64, /* a label of a DNS name, its end included */
    IO_TLS_SERIAL_BYTES = 16, /* for whom, then which one of his */
};

struct io_tls_authority {
    X509     *certificate;
    EVP_PKEY *key;
    char      cluster[IO_TLS_CLUSTER_SIZE];
};

/* "head.CLUSTER.manta" */
void io_tls_name(const char *cluster, enum io_tls_role role, char out[IO_TLS_NAME_SIZE]);
/* The first DNS name of that form in it. False: there is none. */
bool io_tls_name_of(const X509 *certificate, enum io_tls_role *out_role, char cluster[IO_TLS_CLUSTER_SIZE]);
/* For whom a certificate was made; 0: by no authority of ours. */
uint64_t io_tls_id_of(const X509 *certificate);
/* When it ends, in seconds of the wall clock; 0: it does not say. */
int64_t io_tls_end_of(const X509 *certificate);

/* Fills *a, whose cluster is set. False: no memory. */
bool io_tls_authority_make(struct io_tls_authority *a);
/* Appends a certificate and, where they are not NULL, a key and another certificate, as PEM. ENOMEM. */
MT_MUST_USE mt_status io_tls_write_pem(X509 *certificate, EVP_PKEY *key, X509 *authority, mt_buf *out);

#endif
