/* SPDX-License-Identifier: Apache-2.0
 *
 * conn.c - see conn.h.
 *
 * Owns: one OpenSSL session per socket. Whether its handshake is done OpenSSL knows; here is kept whether it goes on at all:
 *
 *   LIVES --one of the two refuses--> FAILED
 *     '--the peer is not there any more--> GONE
 */
#include "core/tls/conn.h"

#include "core/base/machine.h"

#include <openssl/bio.h>
#include <openssl/err.h>
#include <openssl/ssl.h>
#include <openssl/x509v3.h>

#include <errno.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>

enum conn_state { CONN_LIVES, CONN_FAILED, CONN_GONE };

struct tls_conn {
    SSL            *ssl;
    enum conn_state state;
    int             wants;        /* SSL_ERROR_WANT_READ or _WRITE */
    bool            has_read_all; /* the last tls_recv found no whole record any more */
    char            why[160];
};

static const char *const conn_names[] = {[CONN_LIVES] = "LIVES", [CONN_FAILED] = "FAILED", [CONN_GONE] = "GONE"};
static const uint32_t    conn_next[] = {
       [CONN_LIVES] = MT_STATE(CONN_FAILED) | MT_STATE(CONN_GONE), [CONN_FAILED] = 0, [CONN_GONE] = 0};
static const struct mt_machine conn_machine = MT_MACHINE("TLS connection", conn_names, conn_next);

static void conn_set_state(struct tls_conn *conn, enum conn_state next)
{
    MT_TRANSITION(&conn_machine, conn->state, next);
    conn->state = next;
}

/* ---- the socket, as OpenSSL sees it: its own way raises SIGPIPE ---- */

static pthread_once_t is_made = PTHREAD_ONCE_INIT;
static BIO_METHOD    *method;

static int fd_of(BIO *bio)
{
    return (int)(intptr_t)BIO_get_data(bio);
}

static int moved(BIO *bio, ssize_t n, int retry)
{
    BIO_clear_retry_flags(bio);
    if (n < 0 && (errno == EAGAIN || errno == EINTR))
        BIO_set_flags(bio, retry | BIO_FLAGS_SHOULD_RETRY);
    return (int)n;
}

static int bio_write(BIO *bio, const char *data, int size)
{
    return moved(bio, send(fd_of(bio), data, (size_t)size, MSG_NOSIGNAL), BIO_FLAGS_WRITE);
}

static int bio_read(BIO *bio, char *out, int size)
{
    ssize_t n = recv(fd_of(bio), out, (size_t)size, 0);
    if (n == 0)
        BIO_set_flags(bio, BIO_FLAGS_IN_EOF);
    return moved(bio, n, BIO_FLAGS_READ);
}

static long bio_control(BIO *bio, int command, long number, void *pointer)
{
    (void)number, (void)pointer;
    if (command == BIO_CTRL_EOF)
        return BIO_test_flags(bio, BIO_FLAGS_IN_EOF) != 0;
    return command == BIO_CTRL_FLUSH || command == BIO_CTRL_DUP;
}

static void method_make(void)
{
    method = BIO_meth_new(BIO_get_new_index() | BIO_TYPE_SOURCE_SINK | BIO_TYPE_DESCRIPTOR, "socket without signals");
    if (!method || !BIO_meth_set_write(method, bio_write) || !BIO_meth_set_read(method, bio_read) ||
        !BIO_meth_set_ctrl(method, bio_control)) {
        BIO_meth_free(method);
        method = NULL;
    }
}

static BIO *bio_new(int fd)
{
    (void)pthread_once(&is_made, method_make);
    BIO *bio = method ? BIO_new(method) : NULL;
    if (!bio)
        return NULL;
    BIO_set_data(bio, (void *)(intptr_t)fd);
    BIO_set_init(bio, 1);
    return bio;
}

/* ---- making one ---- */

mt_status tls_context_new(SSL_CTX **out)
{
    SSL_CTX *ctx = SSL_CTX_new(TLS_method());
    if (!ctx)
        return mt_error(MT_ENOMEM, 0, "TLS context");
    SSL_CTX_set_min_proto_version(ctx, TLS1_3_VERSION);
    SSL_CTX_set_session_cache_mode(ctx, SSL_SESS_CACHE_OFF);
    SSL_CTX_set_num_tickets(ctx, 0);
    SSL_CTX_set_mode(ctx, SSL_MODE_ENABLE_PARTIAL_WRITE | SSL_MODE_ACCEPT_MOVING_WRITE_BUFFER | SSL_MODE_RELEASE_BUFFERS);
    SSL_CTX_set_read_ahead(ctx, 1); /* several records by one system call */
    SSL_CTX_set_default_read_buffer_len(ctx, MT_TLS_AHEAD_BYTES);
    *out = ctx;
    return mt_ok();
}

mt_status tls_conn_new(SSL *ssl, int fd, struct tls_conn **out)
{
    struct tls_conn *conn = calloc(1, sizeof *conn);
    BIO             *bio = bio_new(fd);
    if (!conn || !ssl || !bio) {
        BIO_free(bio);
        SSL_free(ssl);
        free(conn);
        return mt_error(MT_ENOMEM, 0, "TLS connection");
    }
    SSL_set_bio(ssl, bio, bio);
    conn->ssl = ssl;
    conn->wants = SSL_ERROR_WANT_READ;
    *out = conn;
    return mt_ok();
}

SSL *tls_conn_ssl(const struct tls_conn *conn)
{
    return conn->ssl;
}

/* ---- bytes ---- */

static void fail(struct tls_conn *conn, int error)
{
    long          verified = SSL_get_verify_result(conn->ssl);
    unsigned long first = ERR_peek_error();
    const char   *text = ERR_reason_error_string(first);
    bool          is_gone = error == SSL_ERROR_SYSCALL || ERR_GET_REASON(first) == SSL_R_UNEXPECTED_EOF_WHILE_READING;
    conn_set_state(conn, is_gone ? CONN_GONE : CONN_FAILED);
    if (verified != X509_V_OK)
        text = X509_verify_cert_error_string(verified);
    else if (error == SSL_ERROR_SYSCALL || !text)
        text = "the connection has ended without a goodbye";
    snprintf(conn->why, sizeof conn->why, "%s", text);
}

/* What a call of OpenSSL that gave `done` means. */
static ssize_t outcome(struct tls_conn *conn, int done, size_t count)
{
    int error = done == 1 ? SSL_ERROR_NONE : SSL_get_error(conn->ssl, done);
    switch (error) {
    case SSL_ERROR_NONE: conn->wants = SSL_ERROR_WANT_READ; return (ssize_t)count;
    case SSL_ERROR_ZERO_RETURN: return 0;
    case SSL_ERROR_WANT_READ:
    case SSL_ERROR_WANT_WRITE:
        conn->wants = error;
        errno = EAGAIN;
        return -1;
    default:
        fail(conn, error);
        ERR_clear_error();
        errno = EPROTO;
        return -1;
    }
}

ssize_t tls_recv(struct tls_conn *conn, void *out, size_t size)
{
    size_t count = 0;
    if (conn->state != CONN_LIVES) {
        errno = EPROTO;
        return -1;
    }
    ERR_clear_error();
    int done = SSL_read_ex(conn->ssl, out, size, &count);
    conn->has_read_all = done != 1;
    return outcome(conn, done, count);
}

ssize_t tls_send(struct tls_conn *conn, const void *data, size_t size)
{
    size_t count = 0;
    if (conn->state != CONN_LIVES) {
        errno = EPROTO;
        return -1;
    }
    ERR_clear_error();
    int done = SSL_write_ex(conn->ssl, data, size, &count);
    return outcome(conn, done, count);
}

bool tls_wants_write(const struct tls_conn *conn)
{
    return conn->wants == SSL_ERROR_WANT_WRITE;
}

bool tls_has_more(const struct tls_conn *conn)
{
    return !conn->has_read_all && SSL_has_pending(conn->ssl) == 1;
}

bool tls_is_up(const struct tls_conn *conn)
{
    return SSL_is_init_finished(conn->ssl);
}

bool tls_is_refused(const struct tls_conn *conn)
{
    return conn->state == CONN_FAILED && !SSL_is_init_finished(conn->ssl);
}

const char *tls_why(const struct tls_conn *conn)
{
    return conn->why[0] ? conn->why : "it ended before the handshake did";
}

void tls_end(struct tls_conn *conn)
{
    if (!conn)
        return;
    if (conn->state == CONN_LIVES && SSL_is_init_finished(conn->ssl))
        (void)SSL_shutdown(conn->ssl); /* one try: who is gone needs no goodbye */
    SSL_free(conn->ssl);
    ERR_clear_error();
    free(conn);
}
