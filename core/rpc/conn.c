/* SPDX-License-Identifier: Apache-2.0
 *
 * conn.c - the connections of a server: accepted here once they have sent the preface of HTTP/2, handed to gRPC by descriptor,
 * counted, and dropped when no call with the token comes. With TLS the gate (core/io/tls/gate.h) stands in
 * front: what gRPC gets, and what is watched here, is its plain end.
 *
 * gRPC owns the descriptor that it is given and says nothing about its end. So a stranger's connection keeps a duplicate: its
 * hang-up tells the end (gRPC shuts a connection down before it closes it), and shutting it down ends the connection from our
 * side. One that has shown the token needs no more than to be counted: its duplicate goes, since descriptors are what a large
 * cluster has least of, and now and then it is looked whether gRPC's descriptor is still that socket (SO_COOKIE).
 *
 * Owns:    every struct rpc_conn and its duplicate. Thread: the loop's; rpc_conns_trust runs on the rpc
 * thread. Always:  fresh holds at most unauthenticated_max connections; accept waits while it is full.
 */
#include "core/rpc/runtime.h"

#include <grpc/support/alloc.h>

#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

struct rpc_conn {
    struct rpc_conn     *next, **link; /* link: what points here */
    struct rpc_conns    *conns;
    struct io_watch      watch;
    int                  twin_fd, grpc_fd; /* twin_fd -1: let go */
    uint64_t             cookie;           /* of the socket, then */
    uint64_t             since_ms;
    struct io_origin     from;
    struct io_gate_peer *peer;                /* NULL: in clear */
    bool                 is_trusted, is_told; /* is_told: the listener knows its address */
};

/* What every client of HTTP/2 says first; gRPC's own answer to anything else costs it a whole connection. */
static const char preface[] = "PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n";
enum { PREFACE_BYTES = sizeof preface - 1, TLS_BYTES = 6 }; /* TLS_BYTES: a record's head, and the kind of its message */

static void conns_accepted(struct io_listener *listener, int fd, const struct io_peer *peer);
static void conns_sweep(struct io_timer *timer);
static void conns_reap(struct io_timer *timer);
static void conns_resume(struct io_msg *msg);
static void conns_use_room(struct rpc_conns *conns);
static void conn_hung_up(struct io_watch *watch, unsigned events);
static void conn_free(struct rpc_conn *conn);
static void conn_link(struct rpc_conn **list, struct rpc_conn *conn);
static void conn_unlink(struct rpc_conn *conn);

mt_status rpc_conns_open(struct rpc_conns *conns, struct rpc *rpc, grpc_server *server, const struct rpc_server_config *config)
{
    conns->rpc = rpc;
    conns->server = server;
    conns->unauthenticated_max = config->unauthenticated_max ? config->unauthenticated_max : MT_CONNS_STRANGER_MAX;
    conns->first_call_ms = config->first_call_ms ? config->first_call_ms : MT_HANDSHAKE_MS;
    conns->held_up_ms = config->tls ? MT_TLS_STRANGER_MS_MIN : MT_CONN_STRANGER_MS_MIN;
    conns->listener.accepted = conns_accepted;
    conns->listener.may_leave_loopback = config->tls || config->is_insecure;
    conns->listener.greeting_bytes = config->tls ? TLS_BYTES : PREFACE_BYTES;
    conns->listener.greeting_ms = conns->first_call_ms;
    conns->listener.greeting_short_ms = conns->held_up_ms;
    conns->sweep.fire = conns_sweep;
    conns->reap.fire = conns_reap;
    conns->resume.run = conns_resume;
    if (config->tls)
        MT_TRY(io_gate_new(config->tls, &conns->gate));
    mt_status st = io_listener_open_tcp(rpc->loop, &conns->listener, config->host ? config->host : "127.0.0.1", config->port,
                                        config->connections_max ? config->connections_max : MT_CONNS_MAX);
    if (st.code) {
        io_gate_free(conns->gate);
        return st;
    }
    pthread_mutex_init(&conns->lock, NULL);
    conns->plain = grpc_insecure_server_credentials_create();
    return mt_ok();
}

void rpc_conns_stop(struct rpc_conns *conns)
{
    io_listener_close(&conns->listener);
    io_timer_stop(&conns->sweep);
    io_timer_stop(&conns->reap);
}

void rpc_conns_close(struct rpc_conns *conns)
{
    while (conns->fresh)
        conn_free(conns->fresh);
    while (conns->trusted)
        conn_free(conns->trusted);
    io_gate_free(conns->gate);
    io_loop_drain(conns->rpc->loop); /* a last `resume` */
    grpc_server_credentials_release(conns->plain);
    pthread_mutex_destroy(&conns->lock);
}

static void conns_accepted(struct io_listener *listener, int fd, const struct io_peer *peer)
{
    struct rpc_conns    *conns = mt_container_of(listener, struct rpc_conns, listener);
    struct io_gate_peer *who = NULL;
    char                 first[PREFACE_BYTES];
    if (!conns->gate && (recv(fd, first, sizeof first, MSG_PEEK) != PREFACE_BYTES || memcmp(first, preface, PREFACE_BYTES) != 0)) {
        conns->dropped++;
        close(fd);
        io_listener_release(listener);
        return;
    }
    if (conns->gate && io_gate_take(conns->gate, fd, &fd, &who).code) {
        listener->count.refused_fds++;
        io_listener_release(listener);
        return;
    }
    struct rpc_conn *conn = calloc(1, sizeof *conn);
    int              twin_fd = fcntl(fd, F_DUPFD_CLOEXEC, 0);
    if (conn) {
        conn->watch.ready = conn_hung_up;
        if (twin_fd < 0 || io_watch_start(conns->rpc->loop, &conn->watch, twin_fd, IO_HANGUP).code) {
            free(conn);
            conn = NULL;
        }
    }
    if (!conn) { /* no memory, or no descriptors: the peer is told by the end of its connection */
        if (twin_fd >= 0)
            close(twin_fd);
        close(fd);
        io_gate_peer_free(who);
        listener->count.refused_fds++;
        io_listener_release(listener);
        return;
    }
    conn->conns = conns;
    conn->twin_fd = twin_fd;
    conn->grpc_fd = fd;
    conn->since_ms = io_now_ms(); /* not since accept: it may have waited for a place here */
    conn->from = peer->from;
    conn->peer = who;
    pthread_mutex_lock(&conns->lock);
    conn_link(&conns->fresh, conn);
    conns->is_held_up = atomic_fetch_add(&conns->unauthenticated, 1) + 1 >= conns->unauthenticated_max;
    bool is_held_up = conns->is_held_up;
    pthread_mutex_unlock(&conns->lock);
    if (is_held_up)
        io_listener_pause(listener);
    if (!io_timer_is_started(&conns->sweep))
        io_timer_start(conns->rpc->loop, &conns->sweep, MT_CONN_SWEEP_MS);
    if (listener->connections >= listener->connections_max) /* some of them may have ended */
        io_timer_start(conns->rpc->loop, &conns->reap, MT_CONN_SWEEP_MS);
    grpc_server_add_channel_from_fd(conns->server, fd, conns->plain);
}

/* Drops the connections that had their time: first_call_ms, or less when others wait in the backlog. */
static void conns_sweep(struct io_timer *timer)
{
    struct rpc_conns *conns = mt_container_of(timer, struct rpc_conns, sweep);
    uint64_t          now = io_now_ms();
    pthread_mutex_lock(&conns->lock);
    uint64_t limit_ms = conns->is_held_up ? conns->held_up_ms : conns->first_call_ms;
    for (struct rpc_conn *conn = conns->fresh; conn; conn = conn->next)
        io_timer_forgive(timer, now, &conn->since_ms);
    pthread_mutex_unlock(&conns->lock);
    for (;;) {
        struct rpc_conn *old = NULL;
        pthread_mutex_lock(&conns->lock);
        for (struct rpc_conn *conn = conns->fresh; conn && !old; conn = conn->next)
            if (now - conn->since_ms >= limit_ms)
                old = conn;
        if (old)
            conn_unlink(old);
        pthread_mutex_unlock(&conns->lock);
        if (!old)
            break;
        conns->dropped++;
        shutdown(old->twin_fd, SHUT_RDWR);
        conn_free(old);
    }
    if (atomic_load(&conns->unauthenticated))
        io_timer_start(conns->rpc->loop, timer, MT_CONN_SWEEP_MS);
}

/* gRPC's own number of the connection: "fd:7" for those given by descriptor. -1: it says none. */
static int fd_of(grpc_call *call)
{
    int   fd = -1;
    char *peer = grpc_call_get_peer(call);
    if (peer && sscanf(peer, "fd:%d", &fd) != 1)
        fd = -1;
    gpr_free(peer);
    return fd;
}

bool rpc_conns_peer(struct rpc_conns *conns, grpc_call *call, struct io_tls_who *out)
{
    int  fd = conns->gate ? fd_of(call) : -1;
    bool is_known = false;
    if (fd < 0)
        return false;
    pthread_mutex_lock(&conns->lock);
    struct rpc_conn *conn = conns->fresh; /* of two with one number the newest is the call's, or the call is over */
    while (conn && conn->grpc_fd != fd)
        conn = conn->next;
    for (struct rpc_conn *other = conns->trusted; other && !conn; other = other->next)
        conn = other->grpc_fd == fd ? other : NULL;
    is_known = conn && io_gate_peer_who(conn->peer, out);
    pthread_mutex_unlock(&conns->lock);
    return is_known;
}

/* With a ticket only open methods are called, whoever has the token: its holder has still to become a node. */
static bool has_only_a_ticket(const struct rpc_conn *conn)
{
    struct io_tls_who who;
    return io_gate_peer_who(conn->peer, &who) && who.role == IO_TLS_TICKET;
}

bool rpc_conns_trust(struct rpc_conns *conns, grpc_call *call)
{
    if (atomic_load(&conns->unauthenticated) == 0)
        return true;
    int fd = fd_of(call);

    bool is_news = false, is_taken = true;
    pthread_mutex_lock(&conns->lock);
    for (struct rpc_conn *conn = conns->fresh; conn; conn = conn->next) {
        if (conn->grpc_fd != fd)
            continue;
        is_taken = !has_only_a_ticket(conn);
        if (!is_taken)
            break;
        conn_unlink(conn);
        conn->is_trusted = true;
        conn_link(&conns->trusted, conn);
        atomic_fetch_add(&conns->trusted_count, 1);
        is_news = !conns->is_resume_posted;
        conns->is_resume_posted = true;
        break;
    }
    pthread_mutex_unlock(&conns->lock);
    if (is_news)
        io_loop_post(conns->rpc->loop, &conns->resume);
    return is_taken;
}

/* 0: it is no socket, or the kernel does not say. No two sockets ever have the same. */
static uint64_t cookie_of(int fd)
{
    uint64_t  cookie = 0;
    socklen_t size = sizeof cookie;
    return getsockopt(fd, SOL_SOCKET, SO_COOKIE, &cookie, &size) == 0 ? cookie : 0;
}

static void twin_let_go(struct rpc_conn *conn)
{
    conn->cookie = cookie_of(conn->twin_fd);
    if (!conn->cookie)
        return;
    io_watch_stop(&conn->watch);
    close(conn->twin_fd);
    conn->twin_fd = -1;
}

static void conns_resume(struct io_msg *msg)
{
    struct rpc_conns *conns = mt_container_of(msg, struct rpc_conns, resume);
    pthread_mutex_lock(&conns->lock);
    conns->is_resume_posted = false;
    for (struct rpc_conn *conn = conns->trusted; conn && !conn->is_told; conn = conn->next) {
        conn->is_told = true; /* the newest are in front */
        io_listener_know(&conns->listener, &conn->from);
        twin_let_go(conn);
    }
    pthread_mutex_unlock(&conns->lock);
    conns_use_room(conns);
    if (!io_timer_is_started(&conns->reap))
        io_timer_start(conns->rpc->loop, &conns->reap, MT_CONN_REAP_MS);
}

void rpc_conns_reap(struct rpc_conns *conns)
{
    struct rpc_conn *ended = NULL, *next;
    pthread_mutex_lock(&conns->lock);
    for (struct rpc_conn *conn = conns->trusted; conn; conn = next) {
        next = conn->next;
        if (conn->twin_fd >= 0 || cookie_of(conn->grpc_fd) == conn->cookie)
            continue;
        conn_unlink(conn);
        conn->next = ended;
        ended = conn;
    }
    pthread_mutex_unlock(&conns->lock);
    for (; ended; ended = next) {
        next = ended->next;
        conn_free(ended);
    }
}

static void conns_reap(struct io_timer *timer)
{
    struct rpc_conns *conns = mt_container_of(timer, struct rpc_conns, reap);
    rpc_conns_reap(conns);
    bool is_full = conns->listener.connections >= conns->listener.connections_max;
    if (atomic_load(&conns->trusted_count))
        io_timer_start(conns->rpc->loop, timer, is_full ? MT_CONN_SWEEP_MS : MT_CONN_REAP_MS);
}

/* Lets accept go on when there is a place again. */
static void conns_use_room(struct rpc_conns *conns)
{
    pthread_mutex_lock(&conns->lock);
    bool is_free = conns->is_held_up && atomic_load(&conns->unauthenticated) < conns->unauthenticated_max;
    if (is_free)
        conns->is_held_up = false;
    pthread_mutex_unlock(&conns->lock);
    if (is_free)
        io_listener_resume(&conns->listener);
}

static void conn_hung_up(struct io_watch *watch, unsigned events)
{
    (void)events;
    conn_free(mt_container_of(watch, struct rpc_conn, watch));
}

/* Lets go of the duplicate; gRPC's own descriptor is gRPC's business. */
static void conn_free(struct rpc_conn *conn)
{
    struct rpc_conns *conns = conn->conns;
    pthread_mutex_lock(&conns->lock);
    if (conn->link)
        conn_unlink(conn);
    pthread_mutex_unlock(&conns->lock);
    io_watch_stop(&conn->watch);
    if (conn->twin_fd >= 0)
        close(conn->twin_fd);
    io_gate_peer_free(conn->peer);
    free(conn);
    io_listener_release(&conns->listener);
    conns_use_room(conns);
}

static void conn_link(struct rpc_conn **list, struct rpc_conn *conn)
{
    conn->next = *list;
    conn->link = list;
    if (conn->next)
        conn->next->link = &conn->next;
    *list = conn;
}

/* Takes it out of its list, and out of that list's count. */
static void conn_unlink(struct rpc_conn *conn)
{
    *conn->link = conn->next;
    if (conn->next)
        conn->next->link = conn->link;
    conn->next = NULL;
    conn->link = NULL;
    atomic_fetch_sub(conn->is_trusted ? &conn->conns->trusted_count : &conn->conns->unauthenticated, 1);
}
