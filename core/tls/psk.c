/* SPDX-License-Identifier: Apache-2.0
 *
 * psk.c - see psk.h.
 *
 * Owns:   one OpenSSL context for the process, never freed.
 * Always: a handshake without the key fails on both sides: who accepts has no certificate to show, and who dials accepts none.
 */
#include "core/tls/psk.h"

#include <openssl/err.h>
#include <openssl/hmac.h>
#include <openssl/ssl.h>

#include <pthread.h>
#include <string.h>

/* Its hash is the one that the key is made with. */
static const unsigned char cipher_id[] = {0x13, 0x01}; /* TLS_AES_128_GCM_SHA256 */
static const char          cipher_name[] = "TLS_AES_128_GCM_SHA256";

static pthread_once_t is_made = PTHREAD_ONCE_INIT;
static SSL_CTX       *context;

/* HKDF-Expand of RFC 5869: one block of output, from a secret that is random as it is. */
static bool key_of(const struct tls_psk *psk, unsigned char out[32])
{
    unsigned char info[TLS_PSK_NAME_SIZE + 1];
    size_t        size = strnlen(psk->name, sizeof psk->name - 1);
    unsigned      got = 32;
    memcpy(info, psk->name, size);
    info[size] = 1;
    return HMAC(EVP_sha256(), psk->secret, sizeof psk->secret, info, size + 1, out, &got) && got == 32;
}

static SSL_SESSION *session_of(SSL *ssl, const struct tls_psk *psk)
{
    unsigned char     key[32];
    SSL_SESSION      *session = SSL_SESSION_new();
    const SSL_CIPHER *cipher = SSL_CIPHER_find(ssl, cipher_id);
    bool is_good = session && cipher && key_of(psk, key) && SSL_SESSION_set1_master_key(session, key, sizeof key) == 1 &&
                   SSL_SESSION_set_cipher(session, cipher) == 1 && SSL_SESSION_set_protocol_version(session, TLS1_3_VERSION) == 1;
    OPENSSL_cleanse(key, sizeof key);
    if (!is_good) {
        SSL_SESSION_free(session);
        return NULL;
    }
    return session;
}

/* The dialler names the key that it has. */
static int use(SSL *ssl, const EVP_MD *md, const unsigned char **out_name, size_t *out_size, SSL_SESSION **out)
{
    const struct tls_psk *psk = SSL_get_app_data(ssl);
    (void)md; /* the only cipher's */
    *out = session_of(ssl, psk);
    *out_name = (const unsigned char *)psk->name;
    *out_size = strlen(psk->name);
    return *out != NULL;
}

/* A name that is not ours gets no session, and so no connection. */
static int find(SSL *ssl, const unsigned char *name, size_t size, SSL_SESSION **out)
{
    const struct tls_psk *psk = SSL_get_app_data(ssl);
    *out = size && size == strlen(psk->name) && memcmp(name, psk->name, size) == 0 ? session_of(ssl, psk) : NULL;
    return 1;
}

static void context_make(void)
{
    SSL_CTX *ctx = NULL;
    if (tls_context_new(&ctx).code)
        return;
    SSL_CTX_set_psk_use_session_callback(ctx, use);
    SSL_CTX_set_psk_find_session_callback(ctx, find);
    if (SSL_CTX_set_ciphersuites(ctx, cipher_name) != 1) {
        SSL_CTX_free(ctx);
        return;
    }
    context = ctx;
}

static mt_status conn_new(const struct tls_psk *psk, int fd, struct tls_conn **out)
{
    (void)pthread_once(&is_made, context_make);
    SSL *ssl = context ? SSL_new(context) : NULL;
    if (ssl)
        (void)SSL_set_app_data(ssl, (void *)(uintptr_t)psk);
    return tls_conn_new(ssl, fd, out);
}

mt_status tls_psk_dial(const struct tls_psk *psk, int fd, struct tls_conn **out)
{
    MT_TRY(conn_new(psk, fd, out));
    SSL_set_verify(tls_conn_ssl(*out), SSL_VERIFY_PEER, NULL); /* no certificate is known, so whoever shows one is refused */
    SSL_set_connect_state(tls_conn_ssl(*out));
    return mt_ok();
}

mt_status tls_psk_accept(const struct tls_psk *psk, int fd, struct tls_conn **out)
{
    MT_TRY(conn_new(psk, fd, out));
    SSL_set_accept_state(tls_conn_ssl(*out));
    return mt_ok();
}
