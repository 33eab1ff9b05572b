/* SPDX-License-Identifier: Apache-2.0
 *
 * psk.h - TLS 1.3 between two who share a secret: external PSK with Diffie-Hellman (psk_dhe_ke), no certificates.
 *
 * A key is made of the secret and of a name that says what the connection is for, so the key of one purpose opens no other. The
 * name is seen on the wire, the secret never. Who does not have it gets no byte but alerts; what was heard stays unreadable to
 * who learns the secret later.
 */
#ifndef MT_TLS_PSK_H
#define MT_TLS_PSK_H

#include "core/tls/conn.h"

enum { TLS_SECRET_BYTES = 32, TLS_PSK_NAME_SIZE = 96 };

/* What both sides have. */
struct tls_psk {
    unsigned char secret[TLS_SECRET_BYTES]; /* random */
    char          name[TLS_PSK_NAME_SIZE];  /* of this purpose; not empty */
};

/* The side that dialled, and the one that accepted; `psk` is looked at until the handshake is over. A peer that has another
 * secret, or wants another name, makes tls_recv and tls_send fail. EUNSUPPORTED: built without OpenSSL; ENOMEM. */
MT_MUST_USE mt_status tls_psk_dial(const struct tls_psk *psk, int fd, struct tls_conn **out);
MT_MUST_USE mt_status tls_psk_accept(const struct tls_psk *psk, int fd, struct tls_conn **out);

#endif
