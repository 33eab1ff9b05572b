/* SPDX-License-Identifier: Apache-2.0
 *
 * socket.h - the door to TCP for collectives: connections between members, each of which proves the group's secret before it is
 * sent a byte.
 *
 * A door on loopback speaks in clear; one on any other address speaks TLS 1.3 keyed by the secret (core/tls/psk.h), for this
 * listener in this generation alone. Then the dialler's first bytes are a hello of 64 bytes. In clear it carries the secret, which
 * the listener compares in constant time; over TLS it does not, since the handshake has shown it. Group, generation and rank are
 * compared, and one byte is the answer. Whoever shows anything else, or nothing in time, is closed unanswered. A listener lives
 * only as long as a generation is being joined, or as long as a trainer's worker, which answers nobody in between.
 *
 * Thread: one at a time per struct. Errors: ESYS, ECONN, EAUTH (the secret is another one), ETIMEDOUT, EPROTO, EINVAL.
 */
#ifndef SGD_COLL_SOCKET_H
#define SGD_COLL_SOCKET_H

#include "core/base/limits/net.h"
#include "core/base/limits/train.h"
#include "core/base/status.h"
#include "core/tls/psk.h"

#include <poll.h>
#include <stdbool.h>
#include <stdint.h>

enum { COLL_SECRET_BYTES = TLS_SECRET_BYTES, COLL_DATA = 0, COLL_CONTROL = 1, COLL_MESSAGES = 2, COLL_CHANNELS = 3 };

/* Where a member is reached: an IPv6 address, or an IPv4 one mapped into it (::ffff:a.b.c.d). All zeros: on loopback, in clear. */
struct coll_at {
    unsigned char ip[16];
    uint16_t      port, is_far; /* far: not on loopback, so TLS */
};

struct coll_hello {
    uint32_t      magic, channel;
    uint64_t      group;
    uint32_t      generation, rank;
    unsigned char secret[COLL_SECRET_BYTES];
    uint64_t      reserved;
};
static_assert(sizeof(struct coll_hello) == 64, "the same in every process");

/* A connection that has shown the secret. fd < 0: none. */
struct coll_socket {
    int              fd;
    struct tls_conn *tls; /* NULL: in clear */
};

/* Connections that have not shown the secret yet, and the listener they came through. */
struct coll_door {
    int               listener;
    bool              is_far; /* TLS */
    struct coll_hello mine;   /* what a hello must be like; its rank is that of the highest allowed */
    struct tls_psk    key;    /* of whoever comes now */
    struct {
        struct coll_socket socket; /* fd 0: free */
        size_t             got;
        uint64_t           until_ns;
        struct coll_hello  hello;
    } strangers[MT_COLL_STRANGERS_MAX];
};

/* The address of a host, as "10.0.0.1" or "fd00::1"; "" and any of loopback: loopback. EINVAL. */
MT_MUST_USE mt_status coll_at_read(const char *host, struct coll_at *out);

/* A listener at this address, on a port that the kernel chooses: at->port. It lets nobody in until coll_door_await. */
MT_MUST_USE mt_status coll_door_open(struct coll_door *door, struct coll_at *at);
void                  coll_door_close(struct coll_door *door);
/* What to wait for until coll_door_accept can go on; returns how many. */
enum { COLL_DOOR_POLLS = MT_COLL_STRANGERS_MAX + 1 };
uint32_t coll_door_polls(const struct coll_door *door, struct pollfd out[COLL_DOOR_POLLS]);
/* From now on other members are let in, who want the member `rank`. */
void coll_door_await(struct coll_door *door, const struct coll_hello *mine, uint32_t rank);
/* Waits at most wait_ms for one that has shown the secret; out->fd < 0: none did. The caller owns it then. */
MT_MUST_USE mt_status coll_door_accept(struct coll_door *door, int wait_ms, struct coll_socket *out, uint32_t *out_rank,
                                       uint32_t *out_channel);
/* How long something is awaited; `look` (or NULL) is asked every `each_ms`: an error ends the wait. */
struct coll_patience {
    int wait_ms, each_ms;
    mt_status (*look)(void *user);
    void *user;
};
/* A connection to the door of member `to`, accepted by it. */
MT_MUST_USE mt_status coll_socket_dial(const struct coll_at *at, uint32_t to, const struct coll_hello *hello,
                                       const struct coll_patience *patience, struct coll_socket *out);

/* Moves what it can without waiting; *out_moved bytes. ECONN: the other side is gone. */
MT_MUST_USE mt_status coll_socket_send(struct coll_socket *socket, const void *data, size_t size, size_t *out_moved);
MT_MUST_USE mt_status coll_socket_receive(struct coll_socket *socket, void *data, size_t size, size_t *out_moved);
/* What to poll for until it can go on; `sends`, `takes`: what is wanted. */
short coll_socket_events(const struct coll_socket *socket, bool sends, bool takes);
void  coll_socket_close(struct coll_socket *socket);

#endif
