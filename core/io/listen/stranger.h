/* SPDX-License-Identifier: Apache-2.0
 *
 * stranger.h - connections that have sent a greeting and not shown the token yet.
 *
 *     add --it shows the token--> known, and so is its address
 *         --its time is over while others wait for its place--> `over`
 *
 * They have MT_CONNS_STRANGER_MAX places. When all are taken accept waits. When half are, a stranger has `short_ms`, unless it has
 * sent something that is not read yet: then this loop is late, not the peer. The longer limit for when nobody waits is the owner's.
 * Thread: the loop's.
 */
#ifndef MT_IO_STRANGER_H
#define MT_IO_STRANGER_H

#include "core/io/listener.h"

/* One; embedded in its connection. Zeroed: none. */
struct io_stranger {
    void (*over)(struct io_stranger *stranger); /* set by the owner, who ends the connection: io_stranger_leave */

    /* private */
    struct io_strangers *all; /* NULL: it is none */
    struct io_stranger  *next, **link;
    struct io_origin     from;
    uint64_t             since_ms;
    int                  fd;
};

/* Those of one listener. */
struct io_strangers {
    /* Set by the owner. */
    struct io_loop     *loop;
    struct io_listener *listener; /* borrowed until io_strangers_stop */
    uint32_t            short_ms;

    uint32_t count; /* for reading */

    /* private */
    struct io_timer     sweep; /* started: half of the places are taken */
    struct io_stranger *first;
};

/* No more are borne: whoever comes is to be closed. */
bool io_strangers_are_full(const struct io_strangers *all);
void io_stranger_add(struct io_strangers *all, struct io_stranger *stranger, int fd, const struct io_origin *from);
/* It has shown the token. Nothing where it is none. */
void io_stranger_known(struct io_stranger *stranger);
/* Its connection ends. Nothing where it is none. */
void io_stranger_leave(struct io_stranger *stranger);
/* All have left. */
void io_strangers_stop(struct io_strangers *all);

#endif
