/* SPDX-License-Identifier: Apache-2.0
 *
 * listener.h - accepting connections: TCP, and unix sockets for processes of the same user.
 *
 * Every listener of the daemons is one of these, so the caps hold for all: connections are counted, descriptors are
 * left over for the process itself (a fifth of the limit), and a spare descriptor lets accept go on, by refusing,
 * when there is none left. (A listener that just stops at EMFILE would spin or go deaf; gRPC 1.51's goes deaf.)
 *
 * Over TCP anybody may connect, so its owner hears only of connections that have sent a greeting: the others wait in a small table
 * (listen/silent.h). And an address from which nobody shows the token may open only so many (listen/bound.h).
 */
#ifndef MT_IO_LISTENER_H
#define MT_IO_LISTENER_H

#include "core/io/io.h"
#include "core/io/listen/silent.h"

#include <sys/types.h>

enum { IO_UNIX_PATH_SIZE = 108 }; /* sun_path, its end included */

struct io_listener {
    /* Set by the owner before open. */
    /* The new connection: non-blocking, close-on-exec, the callee's to close; it then calls io_listener_release. */
    void (*accepted)(struct io_listener *listener, int fd, const struct io_peer *peer);
    bool             may_leave_loopback; /* what is accepted speaks TLS, or the user wants it in clear */
    uint32_t         greeting_bytes;     /* TCP: what a peer sends before it expects an answer has at least so many; 0 is 1 */
    uint32_t         greeting_ms;        /* TCP: a peer's time for them; 0 is MT_HANDSHAKE_MS, ... */
    uint32_t         greeting_short_ms;  /* ... and where places are short; 0 is MT_CONN_STRANGER_MS_MIN */
    struct io_bound *bound; /* TCP: borrowed until close, for listeners that know the same peers; NULL: one of its own */

    uint16_t port; /* what a TCP listener is bound to */
    struct {
        uint64_t accepted;
        uint64_t refused_fds;   /* closed at once: descriptors were short */
        uint64_t refused_peer;  /* closed at once: another user's process */
        uint64_t refused_bound; /* closed at once: too many without the token from its address */
        uint64_t pauses;        /* how often the cap or a lack of memory held accept up */
    } count;
    struct io_silent silent; /* its count `dropped` is for reading */

    /* private */
    struct io_loop  *loop;
    struct io_watch  watch;
    struct io_timer  retry, rest;
    int              fd, spare_fd;
    uint32_t         connections, connections_max, fd_max;
    bool             is_held;   /* the owner wants accept to rest */
    bool             is_paused; /* accept rests: is_held, all connections are there, or `retry` runs */
    bool             owns_bound;
    struct io_origin own;   /* the address that it is bound to: this node's own processes have no bound */
    uint32_t         crowd; /* strangers that came since crowd_ms */
    uint64_t         crowd_ms;
    uint64_t         told, told_ms;           /* refused and dropped when the log was told last */
    char             path[IO_UNIX_PATH_SIZE]; /* "" for TCP */
};

/* Listens on host:port; `host` is a number or "localhost", port 0 takes a free one. `listener->accepted` must be
 * set, the rest zero. connections_max 0 takes MT_CONNS_MAX.
 * EUNSUPPORTED for an address that is not loopback, unless `may_leave_loopback`: without TLS the token would travel in
 * clear. EINVAL (no address), EEXIST (the port is taken), ESYS. Loop thread. */
MT_MUST_USE mt_status io_listener_open_tcp(struct io_loop *loop, struct io_listener *listener, const char *host, uint16_t port,
                                           uint32_t connections_max);
/* Listens on a unix socket (SOCK_SEQPACKET, mode 0600) and accepts processes of the same user only. A socket file
 * that nobody listens on any more is replaced. The folder must be the user's own, mode 0700.
 * EINVAL (path too long), EAUTH (the folder is open to others), EEXIST (somebody listens), ESYS. Loop thread. */
MT_MUST_USE mt_status io_listener_open_unix(struct io_loop *loop, struct io_listener *listener, const char *path,
                                            uint32_t connections_max);
/* Is `host` a number of loopback, or "localhost"? Any thread. */
bool io_is_loopback(const char *host);
/* Stops and removes the socket file. Connections given away stay open. Nothing where it is not open. */
void io_listener_close(struct io_listener *listener);
/* A connection that was given to `accepted` has ended. Loop thread. */
void io_listener_release(struct io_listener *listener);
/* TCP: a connection from there has shown the token, so its address has no bound for a while. Loop thread. */
void io_listener_know(struct io_listener *listener, const struct io_origin *from);
/* Holds accept up, or lets it go on as soon as nothing else holds it up (the backlog keeps what comes in). Loop thread. */
void io_listener_pause(struct io_listener *listener);
void io_listener_resume(struct io_listener *listener);

#endif
