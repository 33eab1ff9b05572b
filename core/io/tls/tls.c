/* SPDX-License-Identifier: Apache-2.0
 *
 * tls.c - see tls.h.
 *
 * Owns:    one OpenSSL context per identity. Thread: any.
 * Always:  a peer without a certificate of our authority, cluster and the wanted role gets no byte of ours but alerts, and
 *          none of its bytes is handed on. No session is resumed, so each connection is checked by itself.
 */
#include "core/io/tls/tls.h"

#include "core/io/io.h"
#include "core/io/private.h"
#include "core/io/tls/private.h"

#include <openssl/err.h>
#include <openssl/pem.h>
#include <openssl/ssl.h>
#include <openssl/x509v3.h>

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static const char *const role_names[] = {[IO_TLS_HEAD] = "head", [IO_TLS_NODE] = "node"};

struct io_tls {
    SSL_CTX         *ctx;
    enum io_tls_role role;
    char             cluster[IO_TLS_CLUSTER_SIZE];
    mt_buf           authority, certificate, key; /* PEM, ended by NUL */
};

static mt_status identity_read(BIO *text, struct io_tls *tls);
static mt_status identity_check(struct io_tls *tls);
static mt_status name_read(const X509 *certificate, struct io_tls *tls);
static mt_status pem_of(int (*write)(BIO *out, void *what), void *what, mt_buf *out);
static int       choose_h2(SSL *ssl, const unsigned char **out, unsigned char *out_size, const unsigned char *in, unsigned in_size,
                           void *arg);

/* ---- who we are ---- */

static mt_status context_new(SSL_CTX **out)
{
    SSL_CTX *ctx;
    MT_TRY(tls_context_new(&ctx));
    SSL_CTX_set_verify(ctx, SSL_VERIFY_PEER | SSL_VERIFY_FAIL_IF_NO_PEER_CERT, NULL);
    SSL_CTX_set_verify_depth(ctx, 2);
    SSL_CTX_set_alpn_select_cb(ctx, choose_h2, NULL);
    *out = ctx;
    return mt_ok();
}

mt_status io_tls_load(const char *path, struct io_tls **out)
{
    mt_buf text = {0};
    MT_TRY(io_private_read(path, MT_TLS_FILE_BYTES_MAX, &text));
    struct io_tls *tls = calloc(1, sizeof *tls);
    BIO           *bio = BIO_new_mem_buf(text.data, (int)text.size);
    mt_status      st = tls && bio ? context_new(&tls->ctx) : mt_error(MT_ENOMEM, 0, "TLS identity");
    if (!st.code)
        st = identity_read(bio, tls);
    if (!st.code)
        st = identity_check(tls);
    BIO_free(bio);
    io_private_wipe(&text);
    ERR_clear_error();
    if (st.code)
        io_tls_free(tls);
    else
        *out = tls;
    return st;
}

void io_tls_free(struct io_tls *tls)
{
    if (!tls)
        return;
    SSL_CTX_free(tls->ctx);
    mt_buf_fini(&tls->authority);
    mt_buf_fini(&tls->certificate);
    io_private_wipe(&tls->key);
    free(tls);
}

enum io_tls_role io_tls_role_of(const struct io_tls *tls)
{
    return tls->role;
}

void io_tls_name(const char *cluster, enum io_tls_role role, char out[IO_TLS_NAME_SIZE])
{
    snprintf(out, IO_TLS_NAME_SIZE, "%s.%s.manta", role_names[role], cluster);
}

void io_tls_peer_name(const struct io_tls *tls, enum io_tls_role role, char out[IO_TLS_NAME_SIZE])
{
    io_tls_name(tls->cluster, role, out);
}

struct io_tls_texts io_tls_texts_of(const struct io_tls *tls)
{
    return (struct io_tls_texts){(const char *)tls->authority.data, (const char *)tls->certificate.data,
                                 (const char *)tls->key.data};
}

static int write_certificate(BIO *out, void *certificate)
{
    return PEM_write_bio_X509(out, certificate);
}

static int write_key(BIO *out, void *key)
{
    return PEM_write_bio_PrivateKey(out, key, NULL, NULL, 0, NULL, NULL);
}

/* Our certificate first, the authority's behind it; the key anywhere. */
static mt_status certificates_read(BIO *text, struct io_tls *tls)
{
    X509     *own = PEM_read_bio_X509(text, NULL, NULL, NULL);
    mt_status st = own && SSL_CTX_use_certificate(tls->ctx, own) == 1 ? mt_ok()
                                                                      : mt_error(MT_ECORRUPT, 0, "there is no certificate in it");
    if (!st.code)
        st = pem_of(write_certificate, own, &tls->certificate);
    if (!st.code)
        st = name_read(own, tls);
    X509_free(own);
    for (X509 *other; !st.code && (other = PEM_read_bio_X509(text, NULL, NULL, NULL));) {
        if (X509_STORE_add_cert(SSL_CTX_get_cert_store(tls->ctx), other) != 1)
            st = mt_error(MT_ECORRUPT, 0, "its authority's certificate can't be read");
        else
            st = pem_of(write_certificate, other, &tls->authority);
        X509_free(other);
    }
    if (!st.code && !tls->authority.size)
        st = mt_error(MT_ECORRUPT, 0, "the authority's certificate is not in it");
    return st;
}

static mt_status identity_read(BIO *text, struct io_tls *tls)
{
    MT_TRY(certificates_read(text, tls));
    if (BIO_reset(text) != 1)
        return mt_error(MT_ESYS, 0, "read TLS identity");
    EVP_PKEY *key = PEM_read_bio_PrivateKey(text, NULL, NULL, "");
    mt_status st = key && SSL_CTX_use_PrivateKey(tls->ctx, key) == 1
                       ? mt_ok()
                       : mt_error(MT_ECORRUPT, 0, "the key of its certificate is not in it");
    if (!st.code)
        st = pem_of(write_key, key, &tls->key);
    EVP_PKEY_free(key);
    return st;
}

/* What every peer would find, found now: signed by the authority beside it, and valid today. */
static mt_status identity_check(struct io_tls *tls)
{
    X509_STORE_CTX *check = X509_STORE_CTX_new();
    if (!check || X509_STORE_CTX_init(check, SSL_CTX_get_cert_store(tls->ctx), SSL_CTX_get0_certificate(tls->ctx), NULL) != 1) {
        X509_STORE_CTX_free(check);
        return mt_error(MT_ENOMEM, 0, "check a certificate");
    }
    X509_STORE_CTX_set_depth(check, 2);
    int is_good = X509_verify_cert(check), error = X509_STORE_CTX_get_error(check);
    X509_STORE_CTX_free(check);
    if (is_good == 1)
        return mt_ok();
    if (error == X509_V_ERR_CERT_HAS_EXPIRED || error == X509_V_ERR_CERT_NOT_YET_VALID)
        return mt_error(MT_EAUTH, 0, "its certificate is not valid at this time: it has expired, or the clock is wrong");
    return mt_error(MT_EAUTH, 0, "its certificate is not signed by the authority that is in it");
}

/* "head.CLUSTER.manta": the first DNS name of that form. */
static mt_status name_read(const X509 *certificate, struct io_tls *tls)
{
    GENERAL_NAMES *names = X509_get_ext_d2i(certificate, NID_subject_alt_name, NULL, NULL);
    bool           is_found = false;
    for (int i = 0; !is_found && i < sk_GENERAL_NAME_num(names); i++) {
        const GENERAL_NAME *name = sk_GENERAL_NAME_value(names, i);
        char                role[8], end[8], text[IO_TLS_NAME_SIZE];
        if (name->type != GEN_DNS || ASN1_STRING_length(name->d.dNSName) >= (int)sizeof text)
            continue;
        snprintf(text, sizeof text, "%.*s", ASN1_STRING_length(name->d.dNSName),
                 (const char *)ASN1_STRING_get0_data(name->d.dNSName));
        if (sscanf(text, "%7[a-z].%63[a-zA-Z0-9-].%7s", role, tls->cluster, end) != 3 || strcmp(end, "manta"))
            continue;
        is_found = !strcmp(role, role_names[IO_TLS_HEAD]) || !strcmp(role, role_names[IO_TLS_NODE]);
        tls->role = strcmp(role, role_names[IO_TLS_HEAD]) ? IO_TLS_NODE : IO_TLS_HEAD;
    }
    GENERAL_NAMES_free(names);
    return is_found ? mt_ok() : mt_error(MT_EAUTH, 0, "its certificate names neither head.CLUSTER.manta nor node.CLUSTER.manta");
}

/* Appends; ended by a NUL that does not count. */
static mt_status pem_of(int (*write)(BIO *out, void *what), void *what, mt_buf *out)
{
    BIO      *bio = BIO_new(BIO_s_secmem());
    char     *text = NULL;
    mt_status st = mt_error(MT_ENOMEM, 0, "TLS identity");
    if (bio && write(bio, what) == 1) {
        long size = BIO_get_mem_data(bio, &text);
        st = mt_buf_append(out, text, (size_t)size);
    }
    if (!st.code)
        st = mt_buf_terminate(out);
    BIO_free(bio); /* wipes it */
    return st;
}

/* gRPC's clients insist on it; ours name no protocol. */
static int choose_h2(SSL *ssl, const unsigned char **out, unsigned char *out_size, const unsigned char *in, unsigned in_size,
                     void *arg)
{
    static const unsigned char h2[] = {2, 'h', '2'};
    unsigned char             *chosen;
    (void)ssl, (void)arg;
    if (SSL_select_next_proto(&chosen, out_size, h2, sizeof h2, in, in_size) != OPENSSL_NPN_NEGOTIATED)
        return SSL_TLSEXT_ERR_ALERT_FATAL;
    *out = chosen;
    return SSL_TLSEXT_ERR_OK;
}

/* ---- sockets ---- */

static mt_status conn_new(const struct io_tls *tls, int fd, enum io_tls_role peer, struct tls_conn **out)
{
    char name[IO_TLS_NAME_SIZE];
    SSL *ssl = SSL_new(tls->ctx);
    io_tls_peer_name(tls, peer, name);
    if (ssl && SSL_set1_host(ssl, name) != 1) {
        SSL_free(ssl);
        ssl = NULL;
    }
    MT_TRY(tls_conn_new(ssl, fd, out));
    SSL_set_hostflags(ssl, X509_CHECK_FLAG_NO_WILDCARDS | X509_CHECK_FLAG_NEVER_CHECK_SUBJECT);
    return mt_ok();
}

mt_status io_tls_accept(const struct io_tls *tls, int fd, struct tls_conn **out)
{
    MT_TRY(conn_new(tls, fd, IO_TLS_NODE, out));
    SSL_set_accept_state(tls_conn_ssl(*out));
    return mt_ok();
}

mt_status io_tls_dial(const struct io_tls *tls, int fd, enum io_tls_role role, struct tls_conn **out)
{
    MT_TRY(conn_new(tls, fd, role, out));
    SSL_set_connect_state(tls_conn_ssl(*out));
    return mt_ok();
}

unsigned io_tls_wants(const struct tls_conn *conn)
{
    return tls_wants_write(conn) ? IO_WRITABLE : IO_READABLE;
}
