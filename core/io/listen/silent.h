/* SPDX-License-Identifier: Apache-2.0
 *
 * silent.h - connections that have been accepted and have not sent their greeting yet.
 *
 *     add --greeting is there--> spoke (the caller's from here on)
 *         --its time is over, a newer one needs the place, or the peer is gone--> closed, by a reset
 *
 * In all our protocols the side that dials speaks first, and its greeting comes right behind the handshake of TCP. So whoever says
 * nothing costs a descriptor and a place in a fixed table: no watch, timer or memory of its own, and no work of who listens.
 * Thread: the loop's.
 */
#ifndef MT_IO_SILENT_H
#define MT_IO_SILENT_H

#include "core/io/io.h"
#include "core/io/listen/bound.h"

#include <sys/types.h>

struct io_peer {
    pid_t            pid; /* of the process that connected; 0 for TCP */
    uid_t            uid;
    struct io_origin from;     /* TCP */
    uint64_t         since_ms; /* when it was accepted */
};

struct io_silent_place;
struct io_silent {
    /* Set by the caller. spoke: the connection is the callee's; it may rest or close what calls it. */
    void (*spoke)(struct io_silent *silent, int fd, const struct io_peer *peer);
    uint32_t greeting_bytes;    /* so many must be there; at most MT_GREETING_BYTES_MAX */
    uint32_t places_max;        /* at most MT_SILENT_MAX */
    uint32_t long_ms, short_ms; /* the time of each; short_ms once half of the places are taken */
    uint64_t dropped;           /* that had their time, or made room */

    /* private */
    struct io_loop         *loop;
    struct io_watch         watch;
    struct io_timer         sweep;
    int                     epoll_fd;
    bool                    is_resting;
    struct io_silent_place *places;                        /* places_max */
    uint16_t                oldest, newest, unused, count; /* lists by number */
};

/* ENOMEM, ESYS. */
MT_MUST_USE mt_status io_silent_open(struct io_loop *loop, struct io_silent *silent);
/* Closes all. Nothing where it is not open. */
void io_silent_close(struct io_silent *silent);
/* How much of its greeting is there: io_silent_add is for those that have not sent all of it. */
enum io_greeting { IO_GREETING_WHOLE, IO_GREETING_AWAITED, IO_GREETING_NEVER };
enum io_greeting io_silent_look(const struct io_silent *silent, int fd);
/* Takes the descriptor. Where all places are taken, the oldest makes room. */
void io_silent_add(struct io_silent *silent, int take_fd, const struct io_peer *peer);
/* Nobody is handed over until it goes on. */
void io_silent_rest(struct io_silent *silent);
void io_silent_go_on(struct io_silent *silent);

#endif
