/* SPDX-License-Identifier: Apache-2.0
 *
 * transfer.c - the data socket: serves objects to other raylets.
 *
 * Owns:    the listener and every incoming connection, with its pin.
 * Thread:  the loop's.
 * Always:  a connection has shown the token before it costs more than its own struct; it holds at most one
 * pin, of the object of its last request, or is at one part, whose memory stays until os_part_close. Small replies are copied
 * (os_transfer.stage) and leave together; what the socket does not take is the connection's, and nothing is answered before it
 * is sent.
 */
#include "objectstore/transfer/transfer.h"

#include "core/base/limits/net.h"
#include "core/base/limits/object.h"
#include "objectstore/layout/layout.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

struct os_transfer_conn {
    struct os_transfer_conn *next, *previous;
    struct os_transfer      *transfer;
    struct os_serve          serve;
    struct io_watch          watch;
    struct io_timer          timer;
    struct lane_ref          pinned; /* zero id: nothing */
    struct os_pinned         pin;    /* what stands for it here, unless ... */
    const struct os_part    *part;   /* ... it is still on its way here */
    int                      fd;
    struct tls_conn         *tls; /* NULL: in clear */
    struct io_stranger       stranger;
    uint8_t                 *rest; /* of small replies, that the socket has not taken; NULL: none */
    size_t                   rest_size, rest_sent;
    uint32_t                 in_at, in_size; /* what was read and not looked at */
    uint8_t                  in[OS_REQUESTS_READ * sizeof(struct os_wire_request)];
};

enum { TLS_BYTES = 6 }; /* a record's head, and the kind of its message */

static void conn_accepted(struct io_listener *listener, int fd, const struct io_peer *peer);
static void conn_ready(struct io_watch *watch, unsigned events);
static void conn_timeout(struct io_timer *timer);
static void stranger_over(struct io_stranger *stranger);

mt_status os_transfer_open(struct os_transfer *transfer, struct io_loop *loop, const char *host, uint16_t port,
                           const struct io_token *token)
{
    transfer->loop = loop;
    transfer->token = *token;
    transfer->listener.accepted = conn_accepted;
    transfer->strangers.loop = loop;
    transfer->strangers.listener = &transfer->listener;
    transfer->strangers.short_ms = transfer->tls ? MT_TLS_STRANGER_MS_MIN : MT_CONN_STRANGER_MS_MIN;
    /* In clear it may come when all that shows who it is has come; TLS begins with the head of a record, and goes to and fro. */
    transfer->listener.greeting_bytes = transfer->tls ? TLS_BYTES : sizeof(struct os_wire_hello);
    transfer->listener.greeting_short_ms = transfer->strangers.short_ms;
    transfer->listener.bound = transfer->bound;
    transfer->listener.may_leave_loopback = transfer->tls || transfer->is_insecure;
    MT_TRY(io_listener_open_tcp(loop, &transfer->listener, host, port, MT_OS_TRANSFER_CONNECTIONS_MAX));
    transfer->port = transfer->listener.port;
    return mt_ok();
}

static void conn_unpin(struct os_transfer_conn *conn)
{
    if (!mt_id_is_zero(conn->pinned.id) && !conn->part)
        conn->transfer->unpin(conn->transfer, &conn->pin, conn->serve.hello.from_node);
    conn->pinned = (struct lane_ref){0};
    conn->part = NULL;
}

static void conn_end(struct os_transfer_conn *conn)
{
    struct os_transfer *transfer = conn->transfer;
    conn_unpin(conn);
    io_watch_stop(&conn->watch);
    io_timer_stop(&conn->timer);
    tls_end(conn->tls);
    close(conn->fd);
    free(conn->rest);
    io_stranger_leave(&conn->stranger);
    *(conn->previous ? &conn->previous->next : &transfer->conns) = conn->next;
    if (conn->next)
        conn->next->previous = conn->previous;
    io_listener_release(&transfer->listener);
    free(conn);
}

void os_transfer_close(struct os_transfer *transfer)
{
    while (transfer->conns)
        conn_end(transfer->conns);
    io_strangers_stop(&transfer->strangers);
    os_transfer_idle_close(transfer);
    os_lines_close(transfer);
    free(transfer->stage);
    transfer->stage = NULL;
    while (transfer->fetches) {
        struct os_fetch *fetch = transfer->fetches;
        os_fetch_cancel(fetch);
        fetch->done(fetch, mt_error(MT_ECANCELLED, 0, "fetch: this node ends"));
    }
    io_listener_close(&transfer->listener);
    io_token_wipe(&transfer->token);
}

void os_transfer_job_gone(struct os_transfer *transfer, uint32_t job)
{
    for (struct os_transfer_conn *conn = transfer->conns, *next; conn; conn = next) {
        next = conn->next;
        if (!mt_id_is_zero(conn->pinned.id) && conn->pinned.job == job)
            conn_end(conn);
    }
}

void os_transfer_drop_revoked(struct os_transfer *transfer)
{
    for (struct os_transfer_conn *conn = transfer->conns, *next; conn; conn = next) {
        next = conn->next;
        if (conn->tls && io_tls_is_revoked(transfer->tls, conn->tls))
            conn_end(conn);
    }
    os_fetches_drop_revoked(transfer);
}

static void conn_accepted(struct io_listener *listener, int fd, const struct io_peer *peer)
{
    struct os_transfer      *transfer = mt_container_of(listener, struct os_transfer, listener);
    struct os_transfer_conn *conn = io_strangers_are_full(&transfer->strangers) ? NULL : calloc(1, sizeof *conn);
    if (conn) {
        conn->watch.ready = conn_ready;
        if ((transfer->tls && io_tls_accept(transfer->tls, fd, &conn->tls).code) ||
            io_watch_start(transfer->loop, &conn->watch, fd, IO_READABLE | IO_HANGUP).code) {
            tls_end(conn->tls);
            free(conn);
            conn = NULL;
        }
    }
    if (!conn) {
        transfer->count.refused_full++;
        close(fd);
        io_listener_release(listener);
        return;
    }
    conn->fd = fd;
    conn->transfer = transfer;
    conn->next = transfer->conns;
    if (conn->next)
        conn->next->previous = conn;
    transfer->conns = conn;
    conn->stranger.over = stranger_over;
    io_stranger_add(&transfer->strangers, &conn->stranger, fd, &peer->from);
    transfer->count.accepted++;
    os_serve_start(&conn->serve);
    conn->timer.fire = conn_timeout;
    io_timer_start(transfer->loop, &conn->timer, MT_HANDSHAKE_MS);
}

static void conn_timeout(struct io_timer *timer)
{
    struct os_transfer_conn *conn = mt_container_of(timer, struct os_transfer_conn, timer);
    conn->transfer->count.dropped++;
    conn_end(conn);
}

/* Places are short: a stranger has less time for its greeting than when nobody waits. */
static void stranger_over(struct io_stranger *stranger)
{
    struct os_transfer_conn *conn = mt_container_of(stranger, struct os_transfer_conn, stranger);
    conn->transfer->count.dropped++;
    conn_end(conn);
}

/* The value that is asked for; a conn that has one, pinned or a part, keeps it until another is asked for. */
static mt_status conn_pin(struct os_transfer_conn *conn, const struct lane_ref *ref)
{
    struct os_transfer *transfer = conn->transfer;
    conn_unpin(conn);
    conn->serve.elsewhere = 0;
    if (mt_id_is_zero(ref->id))
        return mt_error(MT_EOBJ_LOST, 0, "object socket: no id");
    conn->part = os_part_find(transfer, ref);
    if (!conn->part) {
        conn->pin = (struct os_pinned){0};
        mt_status st = transfer->pin(transfer, ref, conn->serve.hello.from_node, &conn->pin);
        conn->serve.elsewhere = conn->pin.elsewhere;
        if (st.code)
            return st;
    }
    conn->pinned = *ref;
    return mt_ok();
}

static void answer_whole(struct os_transfer_conn *conn)
{
    struct os_object header;
    shm_read(&header, (const struct os_object *)conn->pin.data - 1, sizeof header);
    conn->serve.is_summed = header.flags & OS_OBJECT_SUMMED;
    conn->serve.value_sum = header.sum;
    os_serve_answer(&conn->serve, MT_OK, conn->pin.data);
}

/* What has not come yet is answered when it has. */
static void answer_part(struct os_transfer_conn *conn)
{
    const struct os_part *part = conn->part;
    conn->serve.is_summed = part->is_summed;
    conn->serve.value_sum = part->value_sum;
    if (!os_serve_answer_part(&conn->serve, part->data, part->have))
        io_timer_start(conn->transfer->loop, &conn->timer, MT_OBJECT_FETCH_MS);
}

/* A request is there: finds its object, which may be the one of the request before. */
static void conn_answer(struct os_transfer_conn *conn)
{
    const struct lane_ref *ref = &conn->serve.request.ref;
    mt_status              st = memcmp(&conn->pinned, ref, sizeof *ref) != 0 ? conn_pin(conn, ref) : mt_ok();
    if (st.code)
        os_serve_answer(&conn->serve, st.code, NULL);
    else if (conn->part)
        answer_part(conn);
    else
        answer_whole(conn);
}

/* Bytes of the next greeting or requests, in conn->in. False: the connection has ended. With none there is nothing now. */
static bool conn_recv(struct os_transfer_conn *conn)
{
    size_t  room = conn->serve.state == OS_SERVE_HELLO ? sizeof conn->serve.hello - conn->serve.have : sizeof conn->in;
    ssize_t got = conn->tls ? tls_recv(conn->tls, conn->in, room) : recv(conn->fd, conn->in, room, 0);
    conn->in_at = 0;
    conn->in_size = got > 0 ? (uint32_t)got : 0;
    return got > 0 || (got < 0 && (errno == EAGAIN || errno == EINTR));
}

/* Of what was read, up to the end of one greeting or request. False: the connection has ended. */
static bool conn_take(struct os_transfer_conn *conn)
{
    struct os_transfer *transfer = conn->transfer;
    void               *at;
    size_t              room, left = conn->in_size - conn->in_at;
    os_serve_room(&conn->serve, &at, &room);
    room = room < left ? room : left;
    memcpy(at, conn->in + conn->in_at, room);
    conn->in_at += (uint32_t)room;
    mt_status st = os_serve_received(&conn->serve, room, &transfer->token, transfer->node, transfer->epoch);
    if (st.code != MT_OK) {
        *(st.code == MT_EAUTH ? &transfer->count.refused_auth : &transfer->count.dropped) += 1;
        return false;
    }
    if (conn->serve.state != OS_SERVE_HELLO)
        io_stranger_known(&conn->stranger);
    if (conn->serve.state == OS_SERVE_ASKED)
        conn_answer(conn);
    return true;
}

static bool is_last(const struct os_wire_request *request)
{
    return request->offset + request->size == request->ref.size;
}

static ssize_t send_clear(struct os_transfer_conn *conn)
{
    struct iovec  pieces[2];
    struct msghdr message = {.msg_iov = pieces};
    message.msg_iovlen = (size_t)os_serve_out(&conn->serve, pieces);
    return sendmsg(conn->fd, &message, MSG_NOSIGNAL);
}

/* The next record. */
static ssize_t send_tls(struct os_transfer_conn *conn)
{
    struct iovec pieces[2];
    (void)os_serve_out(&conn->serve, pieces);
    return tls_send(conn->tls, pieces[0].iov_base, pieces[0].iov_len);
}

static void conn_sent(struct os_transfer_conn *conn, size_t size)
{
    conn->transfer->count.bytes_sent += size;
    io_timer_start(conn->transfer->loop, &conn->timer, MT_OBJECT_FETCH_MS);
}

/* So much of the reply is sent, or copied. False: that was the last one. */
static bool reply_left(struct os_transfer_conn *conn, size_t size)
{
    if (!os_serve_sent(&conn->serve, size))
        return false;
    if (conn->serve.state == OS_SERVE_REQUEST && is_last(&conn->serve.request))
        conn_unpin(conn); /* what comes next is another value, or nothing for a while */
    return true;
}

/* Sends a reply, or a part; others get their turn after a chunk's worth. False: the connection has ended. */
static bool conn_write(struct os_transfer_conn *conn)
{
    uint64_t turn = 0;
    do {
        ssize_t sent = conn->tls ? send_tls(conn) : send_clear(conn);
        if (sent < 0)
            return errno == EAGAIN || errno == EINTR;
        turn += (uint64_t)sent;
        conn_sent(conn, (size_t)sent);
        if (!reply_left(conn, (size_t)sent))
            return false;
        /* In clear, one call has sent what there was room for. */
    } while (conn->tls && conn->serve.state == OS_SERVE_REPLY && turn < MT_OBJECT_CHUNK_BYTES);
    return true;
}

/* ---- small replies, many at a time ---- */

/* What the socket takes of these bytes; -1: the connection has ended. */
static ssize_t send_bytes(struct os_transfer_conn *conn, const uint8_t *bytes, size_t size)
{
    size_t done = 0;
    while (done < size) {
        ssize_t sent = conn->tls ? tls_send(conn->tls, bytes + done, size - done)
                                 : send(conn->fd, bytes + done, size - done, MSG_NOSIGNAL);
        if (sent < 0 && errno != EAGAIN && errno != EINTR)
            return -1;
        if (sent < 0)
            break;
        done += (size_t)sent;
    }
    if (done)
        conn_sent(conn, done);
    return (ssize_t)done;
}

/* False: the connection has ended. */
static bool rest_send(struct os_transfer_conn *conn)
{
    ssize_t sent = conn->rest ? send_bytes(conn, conn->rest + conn->rest_sent, conn->rest_size - conn->rest_sent) : 0;
    if (sent < 0)
        return false;
    conn->rest_sent += (size_t)sent;
    if (conn->rest && conn->rest_sent == conn->rest_size) {
        free(conn->rest);
        conn->rest = NULL;
    }
    return true;
}

/* False: the connection has ended. */
static bool stage_send(struct os_transfer_conn *conn, size_t *staged)
{
    const uint8_t *stage = conn->transfer->stage;
    size_t         size = *staged;
    ssize_t        sent = size ? send_bytes(conn, stage, size) : 0;
    *staged = 0;
    if (sent < 0 || (size_t)sent == size)
        return sent >= 0;
    conn->rest_size = size - (size_t)sent;
    conn->rest_sent = 0;
    conn->rest = malloc(conn->rest_size);
    if (conn->rest)
        memcpy(conn->rest, stage + sent, conn->rest_size);
    return conn->rest != NULL;
}

static bool stage_has_room(struct os_transfer *transfer, size_t staged, uint64_t size)
{
    if (!transfer->stage)
        transfer->stage = malloc(OS_STAGE_BYTES);
    return transfer->stage && size <= OS_STAGE_BYTES - staged;
}

/* The reply behind those that are staged. False: it was the last one. */
static bool stage_add(struct os_transfer_conn *conn, size_t *staged)
{
    struct iovec pieces[2];
    size_t       from = *staged;
    int          count = os_serve_out(&conn->serve, pieces);
    for (int i = 0; i < count; i++) {
        memcpy(conn->transfer->stage + *staged, pieces[i].iov_base, pieces[i].iov_len);
        *staged += pieces[i].iov_len;
    }
    return reply_left(conn, *staged - from);
}

/* The next reply: staged, or sent. False: the connection has ended. `out_is_over`: others get their turn. */
static bool reply_go(struct os_transfer_conn *conn, size_t *staged, bool *out_is_over)
{
    bool is_small = os_serve_left(&conn->serve) <= sizeof conn->serve.reply + MT_OBJECT_SMALL_BYTES && !conn->serve.sent;
    if (is_small && stage_has_room(conn->transfer, *staged, os_serve_left(&conn->serve))) {
        bool goes_on = stage_add(conn, staged);
        return goes_on || (stage_send(conn, staged) && false);
    }
    *out_is_over = true;
    if (*staged)
        return stage_send(conn, staged);
    return conn_write(conn);
}

/* Reads requests and answers them, until there are none, one waits, or it is others' turn. False: the connection has ended. */
static bool conn_serve(struct os_transfer_conn *conn)
{
    size_t staged = 0;
    bool   is_over = false;
    if (!rest_send(conn))
        return false;
    while (!conn->rest && !is_over && conn->serve.state != OS_SERVE_ASKED) {
        if (conn->serve.state == OS_SERVE_REPLY) {
            if (!reply_go(conn, &staged, &is_over))
                return false;
            continue;
        }
        if (conn->in_at == conn->in_size && !conn_recv(conn))
            return stage_send(conn, &staged) && false;
        if (conn->in_at == conn->in_size)
            break;
        if (!conn_take(conn))
            return stage_send(conn, &staged) && false;
    }
    return stage_send(conn, &staged);
}

/* Nothing is read while a request waits for its answer. */
static void conn_watch(struct os_transfer_conn *conn)
{
    bool     has_more = conn->in_at < conn->in_size || (conn->tls && tls_is_up(conn->tls) && tls_has_more(conn->tls));
    unsigned wanted = conn->rest || conn->serve.state == OS_SERVE_REPLY ? IO_WRITABLE
                      : conn->serve.state == OS_SERVE_ASKED             ? 0
                      : has_more                                        ? IO_WRITABLE             /* at once */
                      : conn->tls                                       ? io_tls_wants(conn->tls) /* a handshake writes too */
                                                                        : IO_READABLE;
    io_watch_set(&conn->watch, wanted | IO_HANGUP);
}

static void conn_ready(struct io_watch *watch, unsigned events)
{
    struct os_transfer_conn *conn = mt_container_of(watch, struct os_transfer_conn, watch);
    bool                     alive = !(events & (IO_READABLE | IO_WRITABLE)) || conn_serve(conn);
    if (!alive || (events & IO_HANGUP)) {
        conn->transfer->count.refused_auth += conn->tls && !tls_is_up(conn->tls);
        conn_end(conn);
        return;
    }
    conn_watch(conn);
}

/* ---- what is on its way here ---- */

void os_part_open(struct os_transfer *transfer, struct os_part *part, const struct lane_ref *ref, const void *data)
{
    *part = (struct os_part){.transfer = transfer, .ref = *ref, .data = data, .next = transfer->parts, .link = &transfer->parts};
    if (part->next)
        part->next->link = &part->next;
    transfer->parts = part;
}

void os_part_grow(struct os_part *part, const struct os_pull *pull)
{
    if (pull->good <= part->have)
        return;
    part->have = pull->good;
    part->is_summed = pull->head.flags & OS_WIRE_SUMMED;
    part->value_sum = pull->head.value_sum;
    for (struct os_transfer_conn *conn = part->transfer->conns; conn; conn = conn->next)
        if (conn->part == part && conn->serve.state == OS_SERVE_ASKED) {
            answer_part(conn);
            conn_watch(conn);
        }
}

/* The value is whole, and pinned from now on. False: it is not to be had. */
static bool goes_on_whole(struct os_transfer_conn *conn)
{
    struct os_transfer *transfer = conn->transfer;
    const uint8_t      *data = conn->part->data;
    conn->pin = (struct os_pinned){0};
    if (transfer->pin(transfer, &conn->pinned, conn->serve.hello.from_node, &conn->pin).code)
        return false;
    conn->part = NULL;
    if (conn->pin.data != data)
        return false; /* a reply under way is of the memory that goes */
    if (conn->serve.state == OS_SERVE_ASKED)
        answer_whole(conn);
    conn_watch(conn);
    return true;
}

void os_part_close(struct os_part *part, bool is_whole)
{
    for (struct os_transfer_conn *conn = part->transfer->conns, *next; conn; conn = next) {
        next = conn->next;
        if (conn->part == part && !(is_whole && goes_on_whole(conn)))
            conn_end(conn);
    }
    *part->link = part->next;
    if (part->next)
        part->next->link = part->link;
}
