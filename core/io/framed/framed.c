/* SPDX-License-Identifier: Apache-2.0
 *
 * framed.c - see framed.h.
 *
 * Owns:    the listener and every connection. Thread: the loop's.
 * Always:  a connection hands nothing on before its token was right. Who dials sends the greeting first, and by TLS only to a peer
 * of the right role. What was queued is sent in order, or the connection ends.
 */
#include "core/io/framed/framed.h"

#include "core/base/log.h"
#include "core/base/machine.h"
#include "core/io/dial.h"
#include "core/io/framed/reader.h"
#include "core/io/tls/tls.h"

#include <errno.h>
#include <stdlib.h>
#include <sys/socket.h>
#include <unistd.h>

enum {
    TLS_BYTES = 6,                /* a record's head, and the kind of its message */
    TURN_BYTES = 512 * 1024,      /* received on one connection before others get their turn */
    OUT_KEPT_BYTES = 1024 * 1024, /* of an empty queue's memory */
    TOLD_MS = 1000,               /* between two lines of the log about refused connections */
};

/*   accepted: GREETS --the token is right--> OPEN
 *   dialled:  DIALS --connected, and by TLS both have shown who they are--> OPEN */
enum conn_state { CONN_GREETS, CONN_DIALS, CONN_OPEN };

struct io_framed_conn {
    struct io_framed_conn    *next, **link;
    struct io_framed         *framed;
    struct io_framed_handler *handler; /* NULL before it is open, where it was accepted */
    enum conn_state           state;
    struct io_framed_reader   reader;
    struct io_watch           watch;
    struct io_timer           timer; /* until it is open */
    struct io_stranger        stranger;
    struct tls_conn          *tls; /* NULL: in clear */
    int                       fd;
    unsigned                  wanted; /* what the watch looks for */
    bool                      is_accepted, is_hung_up;
    bool                      is_unsent; /* in framed->unsent */
    struct io_framed_conn    *next_unsent;
    mt_buf                    out;
    size_t                    sent; /* of `out` */
};

static const char *const names[] = {[CONN_GREETS] = "GREETS", [CONN_DIALS] = "DIALS", [CONN_OPEN] = "OPEN"};
static const uint32_t    follows[] = {[CONN_GREETS] = MT_STATE(CONN_OPEN), [CONN_DIALS] = MT_STATE(CONN_OPEN), [CONN_OPEN] = 0};
static const struct mt_machine machine = MT_MACHINE("framed_conn", names, follows);

static void conn_set_state(struct io_framed_conn *conn, enum conn_state next)
{
    MT_TRANSITION(&machine, conn->state, next);
    conn->state = next;
}

static void lock(const struct io_framed *framed)
{
    if (framed->lock)
        pthread_mutex_lock(framed->lock);
}

static void unlock(const struct io_framed *framed)
{
    if (framed->lock)
        pthread_mutex_unlock(framed->lock);
}

/* ---- ends ---- */

static void unsent_leave(struct io_framed_conn *conn)
{
    if (!conn->is_unsent)
        return;
    struct io_framed_conn **at = &conn->framed->unsent;
    while (*at != conn)
        at = &(*at)->next_unsent;
    *at = conn->next_unsent;
    conn->is_unsent = false;
}

void io_framed_end(struct io_framed_conn *conn)
{
    io_watch_stop(&conn->watch);
    io_timer_stop(&conn->timer);
    io_stranger_leave(&conn->stranger);
    unsent_leave(conn);
    tls_end(conn->tls);
    close(conn->fd);
    *conn->link = conn->next;
    if (conn->next)
        conn->next->link = conn->link;
    if (conn->is_accepted)
        io_listener_release(&conn->framed->listener);
    io_framed_reader_fini(&conn->reader);
    if (conn->out.data)
        explicit_bzero(conn->out.data, conn->out.capacity); /* the token may be in it */
    mt_buf_fini(&conn->out);
    free(conn);
}

/* Strangers do not fill the log. */
static void tell_refused(struct io_framed_conn *conn, const char *event, const char *why)
{
    struct io_framed *framed = conn->framed;
    uint64_t          now = io_now_ms(), count = ++framed->count.refused_auth;
    if (framed->told_ms && now - framed->told_ms < TOLD_MS)
        return;
    framed->told_ms = now;
    mt_log(MT_LOG_INFO, event, "why=\"%s\" so_far=%llu", why, (unsigned long long)count);
}

static void conn_over(struct io_framed_conn *conn, mt_status st)
{
    struct io_framed_handler *handler = conn->handler;
    bool                      is_unknown = conn->tls && !tls_is_up(conn->tls);
    if (is_unknown && conn->is_accepted)
        tell_refused(conn, "tls_refused", tls_why(conn->tls));
    else if (is_unknown)
        mt_log(MT_LOG_INFO, "dial_tls", "why=\"%s\"", tls_why(conn->tls));
    else if (!handler && st.code == MT_EAUTH)
        tell_refused(conn, "token_refused", "the token is another cluster's");
    else if (!handler && st.code == MT_EVERSION)
        tell_refused(conn, "version_refused", "it speaks no version that this release does");
    else if (!handler)
        conn->framed->count.dropped++;
    io_framed_end(conn);
    if (handler)
        handler->ended(handler, st);
}

void io_framed_cancel(struct io_framed_conn *conn)
{
    shutdown(conn->fd, SHUT_RDWR); /* which its watch tells of */
}

void io_framed_drop_revoked(struct io_framed *framed)
{
    for (struct io_framed_conn *conn = framed->conns; conn; conn = conn->next)
        if (conn->tls && io_tls_is_revoked(framed->tls, conn->tls))
            io_framed_cancel(conn);
}

static void stranger_over(struct io_stranger *stranger)
{
    struct io_framed_conn *conn = mt_container_of(stranger, struct io_framed_conn, stranger);
    struct io_framed      *framed = conn->framed;
    lock(framed);
    conn_over(conn, mt_error(MT_ETIMEDOUT, 0, "no token"));
    unlock(framed);
}

static void conn_late(struct io_timer *timer)
{
    struct io_framed_conn *conn = mt_container_of(timer, struct io_framed_conn, timer);
    struct io_framed      *framed = conn->framed;
    lock(framed);
    conn_over(conn, mt_error(MT_ETIMEDOUT, 0, "connection of a peer"));
    unlock(framed);
}

/* ---- out ---- */

static void out_is_sent(struct io_framed_conn *conn)
{
    if (conn->state == CONN_DIALS)
        explicit_bzero(conn->out.data, sizeof(struct io_framed_hello)); /* the token was in it */
    conn->out.size = conn->sent = 0;
    if (conn->out.capacity > OUT_KEPT_BYTES)
        mt_buf_fini(&conn->out);
}

static mt_status conn_write(struct io_framed_conn *conn)
{
    while (conn->sent < conn->out.size) {
        const uint8_t *at = conn->out.data + conn->sent;
        size_t         size = conn->out.size - conn->sent;
        ssize_t        sent = conn->tls ? tls_send(conn->tls, at, size) : send(conn->fd, at, size, MSG_NOSIGNAL);
        if (sent < 0 && errno == EINTR)
            continue;
        if (sent < 0 && errno == EAGAIN)
            return mt_ok();
        if (sent < 0)
            return mt_error(MT_ECONN, errno, "connection of a peer: send");
        conn->sent += (size_t)sent;
    }
    if (conn->out.size)
        out_is_sent(conn);
    return mt_ok();
}

static void watch_update(struct io_framed_conn *conn)
{
    bool     more = conn->tls ? tls_wants_write(conn->tls) : conn->sent < conn->out.size;
    unsigned wanted = IO_READABLE | (more ? IO_WRITABLE : 0u) | (conn->is_hung_up ? 0u : IO_HANGUP);
    if (wanted != conn->wanted)
        io_watch_set(&conn->watch, wanted);
    conn->wanted = wanted;
}

/* A length and the message, behind what waits. */
static mt_status out_append(struct io_framed_conn *conn, mt_view message)
{
    uint32_t n = (uint32_t)message.size;
    uint8_t  head[IO_FRAMED_HEAD] = {(uint8_t)n, (uint8_t)(n >> 8), (uint8_t)(n >> 16), (uint8_t)(n >> 24)};
    if (conn->sent > conn->out.size / 2) {
        memmove(conn->out.data, conn->out.data + conn->sent, conn->out.size - conn->sent);
        conn->out.size -= conn->sent;
        conn->sent = 0;
    }
    MT_TRY(mt_buf_reserve(&conn->out, sizeof head + message.size));
    MT_TRY(mt_buf_append(&conn->out, head, sizeof head));
    return mt_buf_append(&conn->out, message.data, message.size);
}

mt_status io_framed_send(struct io_framed_conn *conn, mt_view message)
{
    struct io_framed *framed = conn->framed;
    if (!message.size || message.size > framed->message_max)
        return mt_error(MT_EINVAL, 0, "a message of this length");
    if (conn->out.size - conn->sent > framed->queue_max)
        return mt_error(MT_EAGAIN, 0, "too much waits for this peer");
    MT_TRY(out_append(conn, message));
    if (!conn->is_unsent) {
        conn->is_unsent = true;
        conn->next_unsent = framed->unsent;
        framed->unsent = conn;
    }
    return mt_ok();
}

void io_framed_flush(struct io_framed *framed)
{
    while (framed->unsent) {
        struct io_framed_conn *conn = framed->unsent;
        framed->unsent = conn->next_unsent;
        conn->is_unsent = false;
        if (conn->state != CONN_OPEN)
            continue; /* it goes when it is open */
        if (conn_write(conn).code)
            io_framed_cancel(conn);
        watch_update(conn);
    }
}

bool io_framed_flush_here(struct io_framed *framed)
{
    struct io_framed_conn **at = &framed->unsent;
    while (*at) {
        struct io_framed_conn *conn = *at;
        if (conn->state == CONN_OPEN && conn_write(conn).code)
            io_framed_cancel(conn);
        else if (conn->state == CONN_OPEN && conn->sent < conn->out.size) {
            at = &conn->next_unsent; /* the loop is to watch it */
            continue;
        }
        *at = conn->next_unsent;
        conn->is_unsent = false;
    }
    return !framed->unsent;
}

/* ---- in ---- */

static mt_status messages(struct io_framed_conn *conn)
{
    mt_view message;
    for (;;) {
        MT_TRY(io_framed_next(&conn->reader, &message));
        if (!message.data)
            return mt_ok();
        if (!conn->handler->message(conn->handler, message))
            return mt_error(MT_EPROTO, 0, "connection of a peer: no message");
    }
}

/* Its token was right. */
static mt_status greeted(struct io_framed_conn *conn)
{
    io_timer_stop(&conn->timer);
    io_stranger_known(&conn->stranger);
    conn_set_state(conn, CONN_OPEN);
    conn->handler = conn->framed->accepted(conn->framed, conn);
    return conn->handler ? mt_ok() : mt_error(MT_ECANCELLED, 0, "connection of a peer: not wanted");
}

/* Receives what is there, at most a turn's worth; but all that TLS has read already, since no event will tell of it. */
static mt_status conn_read(struct io_framed_conn *conn)
{
    size_t turn = 0;
    while (turn < TURN_BYTES || (conn->tls && tls_has_more(conn->tls))) {
        void  *at;
        size_t room;
        MT_TRY(io_framed_room(&conn->reader, &at, &room));
        ssize_t got = conn->tls ? tls_recv(conn->tls, at, room) : recv(conn->fd, at, room, 0);
        if (got < 0 && (errno == EAGAIN || errno == EINTR))
            return mt_ok();
        if (got <= 0)
            return mt_error(MT_ECONN, got < 0 ? errno : 0, "connection of a peer: it has closed");
        turn += (size_t)got;
        MT_TRY(io_framed_received(&conn->reader, (size_t)got, &conn->framed->token));
        if (conn->state == CONN_GREETS && conn->reader.state == IO_FRAMED_MESSAGES)
            MT_TRY(greeted(conn));
        MT_TRY(messages(conn));
        if (!conn->tls && conn->state == CONN_OPEN && (size_t)got < room)
            return mt_ok(); /* that was all: a further call would only say so */
    }
    return mt_ok();
}

/* Whether it is connected, and by TLS the peer has shown who it is. */
static mt_status conn_dialled(struct io_framed_conn *conn)
{
    MT_TRY(io_dialled(conn->fd));
    MT_TRY(conn_write(conn)); /* the greeting, behind TLS's handshake */
    if (conn->tls && !tls_is_up(conn->tls))
        return mt_ok();
    io_timer_stop(&conn->timer);
    conn_set_state(conn, CONN_OPEN);
    return mt_ok();
}

static void conn_turn(struct io_framed_conn *conn, unsigned events)
{
    mt_status st = mt_ok();
    conn->is_hung_up |= (events & IO_HANGUP) != 0; /* the last bytes may stand before it: recv says when they end */
    if (conn->state == CONN_DIALS)
        st = conn_dialled(conn);
    if (!st.code && conn->state != CONN_DIALS)
        st = conn_read(conn);
    if (!st.code && conn->state == CONN_OPEN)
        st = conn_write(conn);
    if (st.code)
        conn_over(conn, st);
    else
        watch_update(conn);
}

static void conn_ready(struct io_watch *watch, unsigned events)
{
    struct io_framed_conn *conn = mt_container_of(watch, struct io_framed_conn, watch);
    struct io_framed      *framed = conn->framed;
    lock(framed);
    conn_turn(conn, events);
    unlock(framed);
}

/* ---- begin ---- */

static mt_status conn_new(struct io_framed *framed, int fd, enum conn_state first, struct io_framed_conn **out)
{
    bool                   is_accepted = first == CONN_GREETS;
    struct io_framed_conn *conn = calloc(1, sizeof *conn);
    mt_status              st = mt_ok();
    if (!conn)
        return mt_error(MT_ENOMEM, 0, "connection of a peer");
    *conn = (struct io_framed_conn){.framed = framed, .fd = fd, .is_accepted = is_accepted, .state = first};
    conn->wanted = (is_accepted ? 0u : IO_WRITABLE) | IO_READABLE | IO_HANGUP;
    conn->watch.ready = conn_ready;
    if (framed->tls)
        st = is_accepted ? io_tls_accept(framed->tls, fd, &conn->tls) : io_tls_dial(framed->tls, fd, IO_TLS_NODE, &conn->tls);
    if (!st.code)
        st = io_watch_start(framed->loop, &conn->watch, fd, conn->wanted);
    if (st.code) {
        tls_end(conn->tls);
        free(conn);
        return st;
    }
    conn->timer.fire = conn_late;
    io_framed_reader_init(&conn->reader, framed->message_max, is_accepted);
    conn->next = framed->conns;
    conn->link = &framed->conns;
    if (conn->next)
        conn->next->link = &conn->next;
    framed->conns = conn;
    *out = conn;
    return mt_ok();
}

static bool conn_add(struct io_framed *framed, int fd, const struct io_peer *peer)
{
    struct io_framed_conn *conn;
    if (io_strangers_are_full(&framed->strangers) || conn_new(framed, fd, CONN_GREETS, &conn).code)
        return false;
    conn->stranger.over = stranger_over;
    io_stranger_add(&framed->strangers, &conn->stranger, fd, &peer->from);
    io_timer_start(framed->loop, &conn->timer, MT_HANDSHAKE_MS);
    return true;
}

static void conn_accepted(struct io_listener *listener, int fd, const struct io_peer *peer)
{
    struct io_framed *framed = mt_container_of(listener, struct io_framed, listener);
    lock(framed);
    bool is_taken = conn_add(framed, fd, peer);
    unlock(framed);
    *(is_taken ? &framed->count.accepted : &framed->count.refused_full) += 1;
    if (is_taken)
        return;
    close(fd);
    io_listener_release(listener);
}

static mt_status greet(struct io_framed_conn *conn)
{
    struct io_framed_hello hello = {
        .magic = IO_FRAMED_MAGIC, .version_max = mt_release.wire.max, .version_min = mt_release.wire.min};
    memcpy(hello.token, conn->framed->token.hex, sizeof hello.token);
    mt_status st = mt_buf_append(&conn->out, &hello, sizeof hello);
    explicit_bzero(&hello, sizeof hello);
    return st;
}

mt_status io_framed_dial(struct io_framed *framed, const char *host, uint16_t port, struct io_framed_handler *handler,
                         struct io_framed_conn **out_conn)
{
    struct io_framed_conn *conn;
    int                    fd;
    if (!framed->tls && !framed->is_insecure && !io_is_loopback(host))
        return mt_error(MT_EUNSUPPORTED, 0, "beyond loopback only TLS is spoken, or in clear where --insecure says so");
    MT_TRY(io_dial(host, port, &fd));
    mt_status st = conn_new(framed, fd, CONN_DIALS, &conn);
    if (st.code) {
        close(fd);
        return st;
    }
    st = greet(conn);
    if (st.code) {
        io_framed_end(conn);
        return st;
    }
    conn->handler = handler;
    io_timer_start(framed->loop, &conn->timer, MT_DIAL_MS);
    *out_conn = conn;
    return mt_ok();
}

mt_status io_framed_open(struct io_framed *framed, struct io_loop *loop, const char *host, uint16_t port,
                         const struct io_token *token)
{
    struct io_listener *listener = &framed->listener;
    framed->loop = loop;
    framed->token = *token;
    framed->strangers.loop = loop;
    framed->strangers.listener = listener;
    framed->strangers.short_ms = framed->tls ? MT_TLS_STRANGER_MS_MIN : MT_CONN_STRANGER_MS_MIN;
    listener->accepted = conn_accepted;
    /* In clear it may come when all that shows who it is has come; TLS begins with the head of a record, and goes to and fro. */
    listener->greeting_bytes = framed->tls ? TLS_BYTES : sizeof(struct io_framed_hello);
    listener->greeting_short_ms = framed->strangers.short_ms;
    listener->bound = framed->bound;
    listener->may_leave_loopback = framed->tls || framed->is_insecure;
    mt_status st = io_listener_open_tcp(loop, listener, host, port, 0);
    if (st.code) {
        framed->loop = NULL;
        return st;
    }
    framed->port = listener->port;
    return mt_ok();
}

void io_framed_close(struct io_framed *framed)
{
    if (!framed->loop)
        return;
    while (framed->conns)
        io_framed_end(framed->conns);
    io_strangers_stop(&framed->strangers);
    io_listener_close(&framed->listener);
    io_token_wipe(&framed->token);
    framed->loop = NULL;
}
