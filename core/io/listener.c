/* SPDX-License-Identifier: Apache-2.0
 *
 * listener.c - see listener.h.
 *
 * Owns:    the listening descriptor and the spare one. Thread: the loop's.
 * Always:  nothing is accepted while is_paused; is_paused says that the owner asked for it, the cap is reached, or the retry
 * timer runs (settle alone writes it). A connection over TCP ends by a reset until it is handed over: an orderly end would leave
 * the kernel with a socket in FIN_WAIT2 for each that a flood keeps open. While strangers crowd, accept runs every
 * MT_LISTEN_REST_MS and takes many at a time: a wake-up for each of them costs more than they do.
 */
#include "core/io/listener.h"

#include "core/base/log.h"
#include "core/io/address.h"
#include "core/io/private.h"

#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <stdio.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

union address {
    struct sockaddr     any;
    struct sockaddr_in  in4;
    struct sockaddr_in6 in6;
    struct sockaddr_un  un;
};

static mt_status listener_start(struct io_loop *loop, struct io_listener *listener, int fd, uint32_t connections_max);
static mt_status door_open(struct io_loop *loop, struct io_listener *listener, int fd);
static void      door_close(struct io_listener *listener);
static bool      is_loopback(const union address *at);
static mt_status bind_unix(int fd, const char *path);
static bool      is_held_up(const struct io_listener *listener);
static void      settle(struct io_listener *listener);
static void      listener_ready(struct io_watch *watch, unsigned events);
static void      rest_over(struct io_timer *timer);
static void      listener_retry(struct io_timer *timer);
static bool      accept_one(struct io_listener *listener);
static void      accept_tcp(struct io_listener *listener, int fd, const struct sockaddr *from);
static void      silent_spoke(struct io_silent *silent, int fd, const struct io_peer *peer);
static void      hand_over(struct io_listener *listener, int fd, const struct io_peer *peer);
static void      tell_refused(struct io_listener *listener);
static void      accept_failed(struct io_listener *listener, int err);
static bool      peer_is_ours(int fd, struct io_peer *peer);

mt_status io_listener_open_tcp(struct io_loop *loop, struct io_listener *listener, const char *host, uint16_t port,
                               uint32_t connections_max)
{
    union address at;
    socklen_t     size;
    if (!io_address_read(host, port, &at.in6, &size))
        return mt_error(MT_EINVAL, 0, "the address to bind is not a numeric IPv4 or IPv6 address");
    if (!listener->may_leave_loopback && !is_loopback(&at))
        return mt_error(MT_EUNSUPPORTED, 0, "beyond loopback only TLS is spoken, or in clear where --insecure says so");
    int fd = socket(at.any.sa_family, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0), on = 1;
    if (fd < 0)
        return mt_error(MT_ESYS, errno, "socket");
    setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &on, sizeof on); /* a port in TIME_WAIT is free; a live one is not */
    if (bind(fd, &at.any, size) < 0) {
        int err = errno;
        close(fd);
        return mt_error(err == EADDRINUSE ? MT_EEXIST : MT_ESYS, err, "bind a TCP port");
    }
    getsockname(fd, &at.any, &size);
    listener->port = ntohs(at.any.sa_family == AF_INET ? at.in4.sin_port : at.in6.sin6_port);
    listener->own = io_origin_of(&at.any);
    listener->path[0] = '\0';
    mt_status st = door_open(loop, listener, fd);
    if (st.code) {
        close(fd);
        return st;
    }
    st = listener_start(loop, listener, fd, connections_max);
    if (st.code)
        door_close(listener);
    return st;
}

/* What stands between accept and the owner. */
static mt_status door_open(struct io_loop *loop, struct io_listener *listener, int fd)
{
    struct linger reset = {.l_onoff = 1, .l_linger = 0};
    int           on = 1, wanted = (int)(listener->greeting_bytes ? listener->greeting_bytes : 1);
    /* Linux's sockets have these from the one that listens: no system call for each stranger. */
    if (setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &on, sizeof on) < 0 ||
        setsockopt(fd, SOL_SOCKET, SO_LINGER, &reset, sizeof reset) < 0 ||
        setsockopt(fd, SOL_SOCKET, SO_RCVLOWAT, &wanted, sizeof wanted) < 0)
        return mt_error(MT_ESYS, errno, "options of a TCP port");
    listener->silent.spoke = silent_spoke;
    listener->silent.greeting_bytes = (uint32_t)wanted;
    listener->silent.long_ms = listener->greeting_ms ? listener->greeting_ms : MT_HANDSHAKE_MS;
    listener->silent.short_ms = listener->greeting_short_ms ? listener->greeting_short_ms : MT_CONN_STRANGER_MS_MIN;
    uint32_t share = io_fd_share() / 8; /* strangers get few of the descriptors, however few there are */
    listener->silent.places_max = share == 0 ? 1 : share < MT_SILENT_MAX ? share : MT_SILENT_MAX;
    listener->owns_bound = !listener->bound;
    if (listener->owns_bound)
        MT_TRY(io_bound_new(&listener->bound));
    mt_status st = io_silent_open(loop, &listener->silent);
    if (st.code)
        door_close(listener);
    return st;
}

static void door_close(struct io_listener *listener)
{
    io_silent_close(&listener->silent);
    if (listener->owns_bound)
        io_bound_free(listener->bound);
    listener->bound = NULL;
    listener->owns_bound = false;
}

mt_status io_listener_open_unix(struct io_loop *loop, struct io_listener *listener, const char *path, uint32_t connections_max)
{
    char        dir[IO_UNIX_PATH_SIZE];
    const char *slash = strrchr(path, '/');
    if (strlen(path) >= IO_UNIX_PATH_SIZE || !slash || slash == path)
        return mt_error(MT_EINVAL, ENAMETOOLONG, "path of a unix socket: absolute, at most 107 bytes");
    memcpy(dir, path, (size_t)(slash - path));
    dir[slash - path] = '\0';
    MT_TRY(io_check_private_dir(dir));

    int fd = socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
    if (fd < 0)
        return mt_error(MT_ESYS, errno, "socket");
    fchmod(fd, 0600); /* before bind: the file never has another mode; needs no umask, which is the process's */
    mt_status st = bind_unix(fd, path);
    if (st.code) {
        close(fd);
        return st;
    }
    listener->port = 0;
    snprintf(listener->path, sizeof listener->path, "%s", path);
    return listener_start(loop, listener, fd, connections_max);
}

void io_listener_close(struct io_listener *listener)
{
    if (!listener->loop)
        return;
    IO_ON_LOOP(listener->loop);
    io_timer_stop(&listener->retry);
    io_timer_stop(&listener->rest);
    io_watch_stop(&listener->watch);
    door_close(listener);
    if (listener->path[0])
        unlink(listener->path);
    close(listener->fd);
    if (listener->spare_fd >= 0)
        close(listener->spare_fd);
    listener->loop = NULL;
}

void io_listener_release(struct io_listener *listener)
{
    MT_ASSERT(listener->connections > 0);
    listener->connections--;
    settle(listener);
}

void io_listener_pause(struct io_listener *listener)
{
    listener->is_held = true;
    settle(listener);
}

void io_listener_resume(struct io_listener *listener)
{
    listener->is_held = false;
    settle(listener);
}

static bool is_held_up(const struct io_listener *listener)
{
    return listener->is_held || listener->connections >= listener->connections_max || io_timer_is_started(&listener->retry);
}

/* Accept rests, or goes on: after each change of what holds it up. */
static void settle(struct io_listener *listener)
{
    bool is_paused = is_held_up(listener);
    if (!listener->loop || listener->is_paused == is_paused)
        return;
    listener->is_paused = is_paused;
    listener->count.pauses += is_paused;
    io_watch_set(&listener->watch, is_paused || io_timer_is_started(&listener->rest) ? 0 : IO_READABLE);
    if (listener->silent.loop)
        (is_paused ? io_silent_rest : io_silent_go_on)(&listener->silent);
}

void io_listener_know(struct io_listener *listener, const struct io_origin *from)
{
    if (listener->bound)
        io_bound_know(listener->bound, from, io_now_ms());
}

/* Takes the descriptor, also when it fails. */
static mt_status listener_start(struct io_loop *loop, struct io_listener *listener, int fd, uint32_t connections_max)
{
    mt_status st = mt_ok();
    listener->fd = fd;
    listener->spare_fd = -1;
    listener->connections = 0;
    listener->connections_max = connections_max ? connections_max : MT_CONNS_MAX;
    listener->fd_max = io_fd_share();
    listener->is_held = listener->is_paused = false;
    listener->watch.ready = listener_ready;
    listener->retry.fire = listener_retry;
    listener->rest.fire = rest_over;
    listener->crowd = 0;
    if (listen(fd, MT_LISTEN_BACKLOG) < 0)
        st = mt_error(MT_ESYS, errno, "listen");
    if (!st.code) {
        listener->spare_fd = open("/dev/null", O_RDONLY | O_CLOEXEC);
        if (listener->spare_fd < 0)
            st = mt_error(MT_ESYS, errno, "open a spare descriptor");
    }
    if (!st.code)
        st = io_watch_start(loop, &listener->watch, fd, IO_READABLE);
    if (!st.code) {
        listener->loop = loop;
        return st;
    }
    if (listener->path[0])
        unlink(listener->path);
    if (listener->spare_fd >= 0)
        close(listener->spare_fd);
    close(fd);
    return st;
}

static bool is_loopback(const union address *at)
{
    return at->any.sa_family == AF_INET ? ntohl(at->in4.sin_addr.s_addr) >> 24 == 127 : IN6_IS_ADDR_LOOPBACK(&at->in6.sin6_addr);
}

bool io_is_loopback(const char *host)
{
    union address at;
    socklen_t     size;
    return io_address_read(host, 0, &at.in6, &size) && is_loopback(&at);
}

/* A socket file outlives the process that made it. Whether somebody still listens is known by connecting; two
 * daemons that start in the same folder in the same moment are kept apart by the folder's own lock, not here.
 */
static mt_status bind_unix(int fd, const char *path)
{
    union address at = {.un = {.sun_family = AF_UNIX}};
    snprintf(at.un.sun_path, sizeof at.un.sun_path, "%s", path);
    if (bind(fd, &at.any, sizeof at.un) == 0)
        return mt_ok();
    if (errno != EADDRINUSE)
        return mt_error(MT_ESYS, errno, "bind a unix socket");
    int probe = socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
    if (probe < 0)
        return mt_error(MT_ESYS, errno, "socket");
    bool is_stale = connect(probe, &at.any, sizeof at.un) < 0 && errno == ECONNREFUSED;
    close(probe);
    if (!is_stale)
        return mt_error(MT_EEXIST, EADDRINUSE, "somebody listens on this unix socket");
    if (unlink(path) < 0 || bind(fd, &at.any, sizeof at.un) < 0)
        return mt_error(MT_ESYS, errno, "replace a stale unix socket");
    return mt_ok();
}

static void listener_ready(struct io_watch *watch, unsigned events)
{
    struct io_listener *listener = mt_container_of(watch, struct io_listener, watch);
    (void)events;
    MT_ASSERT(!listener->is_paused && !is_held_up(listener));
    uint64_t now = io_now_ms();
    int      most = listener->crowd >= MT_LISTEN_CROWD_MIN ? MT_LISTEN_CROWD_MAX : MT_LISTEN_BATCH_MAX;
    if (now - listener->crowd_ms >= MT_LISTEN_REST_MS) {
        listener->crowd_ms = now;
        listener->crowd = 0;
    }
    for (int i = 0; i < most && listener->loop && !listener->is_paused; i++)
        if (!accept_one(listener))
            break;
    if (!listener->loop)
        return;
    if (listener->crowd >= MT_LISTEN_CROWD_MIN) {
        io_timer_start(listener->loop, &listener->rest, MT_LISTEN_REST_MS);
        io_watch_set(&listener->watch, 0);
    }
    tell_refused(listener);
}

static void rest_over(struct io_timer *timer)
{
    struct io_listener *listener = mt_container_of(timer, struct io_listener, rest);
    if (!listener->is_paused)
        io_watch_set(&listener->watch, IO_READABLE);
}

/* False when there is nothing more to accept now. The callback may pause or close the listener. */
static bool accept_one(struct io_listener *listener)
{
    struct io_peer peer = {0};
    union address  from = {.any = {.sa_family = AF_UNSPEC}};
    socklen_t      size = sizeof from;
    int            fd = accept4(listener->fd, &from.any, &size, SOCK_CLOEXEC | SOCK_NONBLOCK);
    if (fd < 0) {
        if (errno == EINTR || errno == ECONNABORTED)
            return true;
        if (errno != EAGAIN)
            accept_failed(listener, errno);
        return false;
    }
    if ((uint32_t)fd >= listener->fd_max) { /* numbers are given lowest first, so the number tells how many are open */
        listener->count.refused_fds++;
        close(fd);
    } else if (!listener->path[0]) {
        accept_tcp(listener, fd, &from.any);
    } else if (peer_is_ours(fd, &peer)) {
        hand_over(listener, fd, &peer);
    } else {
        listener->count.refused_peer++;
        close(fd);
    }
    return true;
}

/* A greeting that is there already spares the table; most are, since it comes right behind the connection. */
static void accept_tcp(struct io_listener *listener, int fd, const struct sockaddr *from)
{
    struct io_peer   peer = {.from = io_origin_of(from), .since_ms = io_now_ms()};
    enum io_greeting greeting = io_silent_look(&listener->silent, fd);
    if (greeting == IO_GREETING_NEVER) {
        close(fd);
        return;
    }
    listener->crowd += greeting != IO_GREETING_WHOLE;
    bool is_own = memcmp(&peer.from, &listener->own, sizeof peer.from) == 0;
    if (!is_own && !io_bound_take(listener->bound, &peer.from, greeting == IO_GREETING_WHOLE, peer.since_ms)) {
        listener->count.refused_bound++;
        close(fd);
    } else if (greeting == IO_GREETING_WHOLE) {
        hand_over(listener, fd, &peer);
    } else {
        io_silent_add(&listener->silent, fd, &peer);
    }
}

static void silent_spoke(struct io_silent *silent, int fd, const struct io_peer *peer)
{
    hand_over(mt_container_of(silent, struct io_listener, silent), fd, peer);
}

static void hand_over(struct io_listener *listener, int fd, const struct io_peer *peer)
{
    if (!listener->path[0]) { /* from here on it is like any other */
        struct linger orderly = {0};
        int           one = 1;
        setsockopt(fd, SOL_SOCKET, SO_LINGER, &orderly, sizeof orderly);
        setsockopt(fd, SOL_SOCKET, SO_RCVLOWAT, &one, sizeof one);
    }
    listener->count.accepted++;
    listener->connections++;
    settle(listener);
    listener->accepted(listener, fd, peer);
}

/* At most one line in MT_LISTEN_TELL_MS: strangers do not fill the log. */
static void tell_refused(struct io_listener *listener)
{
    uint64_t refused = listener->count.refused_bound + listener->silent.dropped;
    if (refused == listener->told)
        return;
    uint64_t now = io_now_ms();
    if (listener->told_ms && now - listener->told_ms < MT_LISTEN_TELL_MS)
        return;
    listener->told = refused;
    listener->told_ms = now;
    mt_log(MT_LOG_WARN, "strangers", "port=%u refused=%llu silent=%llu why=\"connections without the token, so far\"",
           listener->port, (unsigned long long)listener->count.refused_bound, (unsigned long long)listener->silent.dropped);
}

/* No descriptor left: the spare one makes room to accept and close one connection, so that the peer is told
 * at once and the backlog moves. Without a spare (another thread was quicker), or for want of memory, wait.
 */
static void accept_failed(struct io_listener *listener, int err)
{
    if ((err == EMFILE || err == ENFILE) && listener->spare_fd >= 0) {
        close(listener->spare_fd);
        int fd = accept4(listener->fd, NULL, NULL, SOCK_CLOEXEC);
        if (fd >= 0) {
            close(fd);
            listener->count.refused_fds++;
        }
        listener->spare_fd = open("/dev/null", O_RDONLY | O_CLOEXEC);
        if (listener->spare_fd >= 0)
            return; /* still readable if there are more: the next round refuses the next one */
    }
    io_timer_start(listener->loop, &listener->retry, MT_LISTEN_RETRY_MS);
    settle(listener);
}

static void listener_retry(struct io_timer *timer)
{
    struct io_listener *listener = mt_container_of(timer, struct io_listener, retry);
    if (listener->spare_fd < 0)
        listener->spare_fd = open("/dev/null", O_RDONLY | O_CLOEXEC);
    settle(listener);
}

static bool peer_is_ours(int fd, struct io_peer *peer)
{
    struct ucred cred;
    socklen_t    size = sizeof cred;
    if (getsockopt(fd, SOL_SOCKET, SO_PEERCRED, &cred, &size) < 0 || cred.uid != geteuid())
        return false;
    peer->pid = cred.pid;
    peer->uid = cred.uid;
    return true;
}
