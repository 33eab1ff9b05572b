/* SPDX-License-Identifier: Apache-2.0
 *
 * socket.h - the door to TCP for collectives: connections between members, on loopback only, each of which proves the
 * group's secret before it is sent a byte.
 *
 * The dialler's first bytes are a hello of 64 bytes; the listener compares the secret in constant time, then group,
 * generation and rank, and answers with one byte. Whoever shows anything else, or nothing in time, is closed unanswered. A
 * listener lives only as long as a generation is being joined, or as long as a trainer's worker, which answers nobody in between.
 *
 * Thread: one at a time per struct. Errors: ESYS, ECONN, EAUTH, ETIMEDOUT, EPROTO.
 */
#ifndef SGD_COLL_SOCKET_H
#define SGD_COLL_SOCKET_H

#include "core/base/limits/net.h"
#include "core/base/limits/train.h"
#include "core/base/status.h"

#include <stdbool.h>

enum { COLL_SECRET_BYTES = 32, COLL_DATA = 0, COLL_CONTROL = 1, COLL_CHANNELS = 2 };

struct coll_hello {
    uint32_t      magic, channel;
    uint64_t      group;
    uint32_t      generation, rank;
    unsigned char secret[COLL_SECRET_BYTES];
    uint64_t      reserved;
};
static_assert(sizeof(struct coll_hello) == 64, "the same in every process");

/* Connections that have not shown the secret yet, and the listener they came through. */
struct coll_door {
    int               listener;
    struct coll_hello mine; /* what a hello must be like; its rank is that of the highest allowed */
    struct {
        int               fd; /* 0: free */
        size_t            got;
        uint64_t          until_ns;
        struct coll_hello hello;
    } strangers[MT_COLL_STRANGERS_MAX];
};

/* A listener on 127.0.0.1 and its port. */
MT_MUST_USE mt_status coll_door_open(struct coll_door *door, const struct coll_hello *mine, uint16_t *out_port);
void                  coll_door_close(struct coll_door *door);
/* From now on other members are let in. */
void coll_door_await(struct coll_door *door, const struct coll_hello *mine);
/* Waits at most wait_ms for one that has shown the secret; *out_fd < 0: none did. The caller owns it then. */
MT_MUST_USE mt_status coll_door_accept(struct coll_door *door, int wait_ms, int *out_fd, uint32_t *out_rank, uint32_t *out_channel);
/* How long something is awaited; `look` (or NULL) is asked every `each_ms`: an error ends the wait. */
struct coll_patience {
    int wait_ms, each_ms;
    mt_status (*look)(void *user);
    void *user;
};
/* A connection to a member's port, accepted by it. */
MT_MUST_USE mt_status coll_socket_dial(uint16_t port, const struct coll_hello *hello, const struct coll_patience *patience,
                                       int *out_fd);

/* Moves what it can without waiting; *out_moved bytes. ECONN: the other side is gone. */
MT_MUST_USE mt_status coll_socket_send(int fd, const void *data, size_t size, size_t *out_moved);
MT_MUST_USE mt_status coll_socket_receive(int fd, void *data, size_t size, size_t *out_moved);
void                  coll_socket_close(int fd);

#endif
