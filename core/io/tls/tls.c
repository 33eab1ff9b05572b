/* SPDX-License-Identifier: Apache-2.0
 *
 * tls.c - see tls.h.
 *
 * Owns:    one OpenSSL context per identity; a renewed one has another, and the old one lives as long as its connections.
 * Thread:  any.
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
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

/* Who is refused, and until when he would be refused anyway. */
struct refused {
    uint64_t id;
    int64_t  until_s;
};
struct refusals {
    pthread_mutex_t lock; /* of this, and of `ctx` */
    struct refused *list; /* MT_REVOKED_MAX of them; NULL: nobody was refused yet */
    size_t          count;
};

struct io_tls {
    SSL_CTX          *ctx;
    struct io_tls_who self;
    char              cluster[IO_TLS_CLUSTER_SIZE];
    mt_buf            authority, certificate, key; /* PEM, ended by NUL */
    struct refusals  *refusals;                    /* apart: a constant io_tls refuses more as time goes */
};

static int       verify(int is_good, X509_STORE_CTX *check);
static mt_status identity_read(BIO *text, struct io_tls *tls);
static mt_status identity_check(struct io_tls *tls);
static mt_status name_read(const X509 *certificate, struct io_tls *tls);
static mt_status pem_of(int (*write)(BIO *out, void *what), void *what, mt_buf *out);
static int       choose_h2(SSL *ssl, const unsigned char **out, unsigned char *out_size, const unsigned char *in, unsigned in_size,
                           void *arg);

/* ---- who we are ---- */

static mt_status context_new(struct refusals *refusals, SSL_CTX **out)
{
    SSL_CTX *ctx;
    MT_TRY(tls_context_new(&ctx));
    SSL_CTX_set_verify(ctx, SSL_VERIFY_PEER | SSL_VERIFY_FAIL_IF_NO_PEER_CERT, verify);
    SSL_CTX_set_verify_depth(ctx, 2);
    SSL_CTX_set_alpn_select_cb(ctx, choose_h2, NULL);
    SSL_CTX_set_app_data(ctx, refusals);
    *out = ctx;
    return mt_ok();
}

static struct refusals *refusals_new(void)
{
    struct refusals *r = calloc(1, sizeof *r);
    if (r)
        pthread_mutex_init(&r->lock, NULL);
    return r;
}

static void refusals_free(struct refusals *r)
{
    if (!r)
        return;
    pthread_mutex_destroy(&r->lock);
    free(r->list);
    free(r);
}

/* All of an identity but whom it refuses. */
static void identity_fini(struct io_tls *tls)
{
    SSL_CTX_free(tls->ctx);
    mt_buf_fini(&tls->authority);
    mt_buf_fini(&tls->certificate);
    io_private_wipe(&tls->key);
}

/* Fills *tls, which has its refusals. */
static mt_status identity_parse(mt_view text, struct io_tls *tls)
{
    BIO      *bio = text.size <= MT_TLS_FILE_BYTES_MAX ? BIO_new_mem_buf(text.data, (int)text.size) : NULL;
    mt_status st = bio ? context_new(tls->refusals, &tls->ctx) : mt_error(MT_ENOMEM, 0, "TLS identity");
    if (!st.code)
        st = identity_read(bio, tls);
    if (!st.code)
        st = identity_check(tls);
    BIO_free(bio);
    ERR_clear_error();
    return st;
}

mt_status io_tls_parse(mt_view text, struct io_tls **out)
{
    struct io_tls *tls = calloc(1, sizeof *tls);
    if (tls)
        tls->refusals = refusals_new();
    mt_status st = tls && tls->refusals ? identity_parse(text, tls) : mt_error(MT_ENOMEM, 0, "TLS identity");
    if (st.code)
        io_tls_free(tls);
    else
        *out = tls;
    return st;
}

mt_status io_tls_load(const char *path, struct io_tls **out)
{
    mt_buf text = {0};
    MT_TRY(io_private_read(path, MT_TLS_FILE_BYTES_MAX, &text));
    mt_status st = io_tls_parse(mt_buf_view(&text), out);
    io_private_wipe(&text);
    return st;
}

mt_status io_tls_renew(struct io_tls *tls, mt_view text)
{
    struct io_tls next = {.refusals = tls->refusals}, old = *tls;
    mt_status     st = identity_parse(text, &next);
    if (!st.code && (next.self.role != tls->self.role || next.self.id != tls->self.id || strcmp(next.cluster, tls->cluster)))
        st = mt_error(MT_EINVAL, 0, "the new certificate is another's");
    if (st.code) {
        identity_fini(&next);
        return st;
    }
    pthread_mutex_lock(&tls->refusals->lock);
    *tls = next;
    pthread_mutex_unlock(&tls->refusals->lock);
    identity_fini(&old);
    return st;
}

void io_tls_free(struct io_tls *tls)
{
    if (!tls)
        return;
    identity_fini(tls);
    refusals_free(tls->refusals);
    free(tls);
}

enum io_tls_role io_tls_role_of(const struct io_tls *tls)
{
    return tls->self.role;
}

struct io_tls_who io_tls_self(const struct io_tls *tls)
{
    return tls->self;
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

static mt_status name_read(const X509 *certificate, struct io_tls *tls)
{
    tls->self.id = io_tls_id_of(certificate);
    tls->self.ends_s = io_tls_end_of(certificate);
    return io_tls_name_of(certificate, &tls->self.role, tls->cluster)
               ? mt_ok()
               : mt_error(MT_EAUTH, 0, "its certificate names neither head.CLUSTER.manta nor node.CLUSTER.manta");
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

/* ---- whom we refuse ---- */

static bool is_refused(struct refusals *r, uint64_t id)
{
    bool is_found = false;
    pthread_mutex_lock(&r->lock);
    for (size_t i = 0; i < r->count && !is_found; i++)
        is_found = r->list[i].id == id;
    pthread_mutex_unlock(&r->lock);
    return is_found;
}

/* OpenSSL has looked at signature, time and name; we at the list. */
static int verify(int is_good, X509_STORE_CTX *check)
{
    SSL *ssl = X509_STORE_CTX_get_ex_data(check, SSL_get_ex_data_X509_STORE_CTX_idx());
    if (!is_good || X509_STORE_CTX_get_error_depth(check) != 0 ||
        !is_refused(SSL_CTX_get_app_data(SSL_get_SSL_CTX(ssl)), io_tls_id_of(X509_STORE_CTX_get_current_cert(check))))
        return is_good;
    X509_STORE_CTX_set_error(check, X509_V_ERR_CERT_REVOKED);
    return 0;
}

static void refusals_prune(struct refusals *r, int64_t now_s)
{
    size_t kept = 0;
    for (size_t i = 0; i < r->count; i++)
        if (r->list[i].until_s > now_s)
            r->list[kept++] = r->list[i];
    r->count = kept;
}

mt_status io_tls_revoke(struct io_tls *tls, uint64_t id, int64_t until_s)
{
    struct refusals *r = tls->refusals;
    mt_status        st = mt_ok();
    if (is_refused(r, id))
        return st;
    pthread_mutex_lock(&r->lock);
    refusals_prune(r, (int64_t)time(NULL));
    if (!r->list)
        r->list = calloc(MT_REVOKED_MAX, sizeof *r->list);
    if (!r->list)
        st = mt_error(MT_ENOMEM, 0, "revoke a certificate");
    else if (r->count == MT_REVOKED_MAX)
        st = mt_error(MT_EAGAIN, 0, "too many certificates are revoked");
    else
        r->list[r->count++] = (struct refused){id, until_s};
    pthread_mutex_unlock(&r->lock);
    return st;
}

bool io_tls_is_revoked(const struct io_tls *tls, const struct tls_conn *conn)
{
    struct io_tls_who who;
    return io_tls_peer(conn, &who) && is_refused(tls->refusals, who.id);
}

bool io_tls_peer(const struct tls_conn *conn, struct io_tls_who *out)
{
    char        cluster[IO_TLS_CLUSTER_SIZE];
    const X509 *certificate = tls_is_up(conn) ? SSL_get0_peer_certificate(tls_conn_ssl(conn)) : NULL;
    if (!certificate || !io_tls_name_of(certificate, &out->role, cluster))
        return false;
    out->id = io_tls_id_of(certificate);
    out->ends_s = io_tls_end_of(certificate);
    return true;
}

/* ---- sockets ---- */

static mt_status conn_new(const struct io_tls *tls, int fd, enum io_tls_role peer, struct tls_conn **out)
{
    char name[IO_TLS_NAME_SIZE];
    pthread_mutex_lock(&tls->refusals->lock);
    SSL *ssl = SSL_new(tls->ctx); /* which keeps the context */
    pthread_mutex_unlock(&tls->refusals->lock);
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
    char ticket[IO_TLS_NAME_SIZE];
    MT_TRY(conn_new(tls, fd, IO_TLS_NODE, out));
    io_tls_peer_name(tls, IO_TLS_TICKET, ticket);
    if (tls->self.role == IO_TLS_HEAD && SSL_add1_host(tls_conn_ssl(*out), ticket) != 1) {
        tls_end(*out);
        return mt_error(MT_ENOMEM, 0, "TLS connection");
    }
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
