/* SPDX-License-Identifier: Apache-2.0
 *
 * absent.c - in place of conn.c and psk.c where a machine for GPU tests has no OpenSSL: nothing there leaves the machine.
 */
#include "core/tls/psk.h"

#include <errno.h>

mt_status tls_psk_dial(const struct tls_psk *psk, int fd, struct tls_conn **out)
{
    (void)psk, (void)fd, (void)out;
    return mt_error(MT_EUNSUPPORTED, 0, "built without OpenSSL");
}

mt_status tls_psk_accept(const struct tls_psk *psk, int fd, struct tls_conn **out)
{
    (void)psk, (void)fd, (void)out;
    return mt_error(MT_EUNSUPPORTED, 0, "built without OpenSSL");
}

ssize_t tls_recv(struct tls_conn *conn, void *out, size_t size)
{
    (void)conn, (void)out, (void)size;
    errno = EPROTO;
    return -1;
}

ssize_t tls_send(struct tls_conn *conn, const void *data, size_t size)
{
    (void)conn, (void)data, (void)size;
    errno = EPROTO;
    return -1;
}

bool tls_wants_write(const struct tls_conn *conn)
{
    (void)conn;
    return false;
}

bool tls_is_up(const struct tls_conn *conn)
{
    (void)conn;
    return false;
}

bool tls_is_refused(const struct tls_conn *conn)
{
    (void)conn;
    return false;
}

void tls_end(struct tls_conn *conn)
{
    (void)conn;
}
