/* SPDX-License-Identifier: Apache-2.0
 *
 * framed.h - whole messages between two daemons over a socket of their own, read and written by their loops.
 *
 *     open:  whoever dials shows the cluster's token first (reader.h), then both send messages, each behind its length
 *
 * For what is sent all the time and cannot afford another thread on its way. Calls, and what is rare, go by core/rpc. With TLS both
 * ends show certificates of the cluster (tls/tls.h) before the token is sent. The first thing that is not right ends a connection.
 * Thread: the loop's; io_framed_send and io_framed_flush_here any, with `lock` held. Nothing blocks.
 */
#ifndef MT_IO_FRAMED_H
#define MT_IO_FRAMED_H

#include "core/base/buf.h"
#include "core/io/listen/stranger.h"
#include "core/io/token.h"

#include <pthread.h>

struct io_tls;
struct io_framed_conn;

/* Who gets what comes by a connection; the owner's, kept until `ended`, or io_framed_end. */
struct io_framed_handler {
    /* Borrowed for the call. False: that is no message, the connection ends. Must not end it by io_framed_end. */
    bool (*message)(struct io_framed_handler *handler, mt_view message);
    /* Once, and then nothing more. The connection is gone. ECONN (`sys` ECONNREFUSED: nobody listens), EPROTO, ETIMEDOUT. */
    void (*ended)(struct io_framed_handler *handler, mt_status st);
};

/* One end: a port, and all connections to it and from here. Starts zeroed. */
struct io_framed {
    /* Set by the owner before open. */
    /* Somebody who has shown the token; the connection is the owner's from here on. NULL: it is not wanted. */
    struct io_framed_handler *(*accepted)(struct io_framed *framed, struct io_framed_conn *conn);
    pthread_mutex_t
        *lock; /* borrowed until close; NULL: one thread does it all. Else handlers run with it held, and so are these calls */
    const struct io_tls *tls;         /* borrowed until close; NULL: in clear, ... */
    bool                 is_insecure; /* ... and even then beyond loopback */
    struct io_bound     *bound;       /* borrowed until close: as io_listener's */
    uint32_t             message_max; /* bytes; a longer one ends the connection */
    size_t               queue_max;   /* bytes that wait on a connection to be sent */

    uint16_t port; /* that others reach us on */
    struct {
        uint64_t accepted, refused_auth, refused_full, dropped; /* connections; auth: token or certificate */
    } count;

    /* private */
    struct io_loop        *loop;
    struct io_listener     listener;
    struct io_strangers    strangers;
    struct io_token        token;
    struct io_framed_conn *conns;
    struct io_framed_conn *unsent; /* have something to send since the last flush */
    uint64_t               told_ms;
};

/* Listens on host:port (port 0: a free one). Errors as io_listener_open_tcp. */
MT_MUST_USE mt_status io_framed_open(struct io_framed *framed, struct io_loop *loop, const char *host, uint16_t port,
                                     const struct io_token *token);
/* Ends every connection without a word. Nothing where it is not open. */
void io_framed_close(struct io_framed *framed);

/* Connects to a peer; what is sent meanwhile goes out once that is done. EINVAL: no address; EUNSUPPORTED: the token would travel
 * in clear beyond loopback; ECONN, ENOMEM, ESYS. On failure `ended` does not run. */
MT_MUST_USE mt_status io_framed_dial(struct io_framed *framed, const char *host, uint16_t port, struct io_framed_handler *handler,
                                     struct io_framed_conn **out_conn);
/* Queues a copy, for io_framed_flush. EAGAIN: too much waits already; EINVAL: longer than message_max; ENOMEM. */
MT_MUST_USE mt_status io_framed_send(struct io_framed_conn *conn, mt_view message);
/* Sends what was queued, as far as it goes now; the rest follows by itself. Once in a round of the loop. `ended` follows later. */
void io_framed_flush(struct io_framed *framed);
/* The same on another thread. False: something is left, for io_framed_flush. */
bool io_framed_flush_here(struct io_framed *framed);
/* Ends it; `ended` follows, from the loop. */
void io_framed_cancel(struct io_framed_conn *conn);
/* Ends the connections of those whose certificates are refused by now (io_tls_revoke); `ended` follows, from the loop. */
void io_framed_drop_revoked(struct io_framed *framed);
/* Ends it without `ended`. */
void io_framed_end(struct io_framed_conn *conn);

#endif
