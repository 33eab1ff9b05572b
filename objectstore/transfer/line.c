/* SPDX-License-Identifier: Apache-2.0
 *
 * line.c - the data socket: fetches small objects from other raylets, many over one connection.
 *
 *   requests of one turn of the loop --> [ hello? | request | request | ... ] -->  source
 *   done, done, done  <-- what was read at once, one reply behind the other  <--
 *
 * A fetch of its own costs a place in the loop, a timer and two system calls at each end; a value of 8 KiB is a memcpy. So they go
 * together: sent when the turn is over, answered in their order (server/pull.h), read many at a time and copied into their places.
 *
 * Owns:    the lines, one to each node whose small values are wanted; struct os_fetch is the caller's.
 * Thread:  the loop's.
 * Always:  a fetch of a line stands in its row (server/row.h, which says what becomes of it) until it is answered, and ends by
 * `done` or by os_line_cancel, once. Where nothing comes for MT_OBJECT_FETCH_MS, all that wait on the line fail.
 */
#include "objectstore/transfer/transfer.h"

#include "core/base/log.h"
#include "core/io/dial.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

struct os_line {
    struct os_line     *next, **link; /* link: what points here; NULL: it ends */
    struct os_transfer *transfer;
    struct io_watch     watch;
    struct io_timer     look;
    struct tls_conn    *tls; /* NULL: in clear */
    int                 fd;
    char                host[OS_HOST_SIZE];
    uint16_t            port;
    uint32_t            to_node, to_epoch;
    struct os_row       row;
    int64_t             progress_ms;
    uint32_t            out_size, out_sent;
    uint8_t             out[sizeof(struct os_wire_hello) + OS_LINE_MAX * sizeof(struct os_wire_request)];
};

static void line_ready(struct io_watch *watch, unsigned events);
static void line_look(struct io_timer *timer);

/* ---- a line's life ---- */

static struct os_line *line_find(struct os_transfer *transfer, const struct os_fetch *fetch)
{
    struct os_line *line = transfer->lines;
    while (line && (line->to_node != fetch->to_node || line->to_epoch != fetch->to_epoch || line->port != fetch->port ||
                    strcmp(line->host, fetch->host) != 0))
        line = line->next;
    return line;
}

static mt_status line_dial(struct os_line *line)
{
    struct os_transfer *transfer = line->transfer;
    MT_TRY(io_dial(line->host, line->port, &line->fd));
    mt_status st = transfer->tls ? io_tls_dial(transfer->tls, line->fd, IO_TLS_NODE, &line->tls) : mt_ok();
    if (st.code == MT_OK)
        st = io_watch_start(transfer->loop, &line->watch, line->fd, IO_WRITABLE | IO_HANGUP);
    if (st.code != MT_OK) {
        tls_end(line->tls);
        close(line->fd);
    }
    return st;
}

static mt_status line_new(struct os_transfer *transfer, const struct os_fetch *to, struct os_line **out)
{
    struct os_line *line = calloc(1, sizeof *line);
    if (!line || (!transfer->taken && !(transfer->taken = malloc(OS_TAKEN_BYTES)))) {
        free(line);
        return mt_error(MT_ENOMEM, 0, "fetch");
    }
    line->transfer = transfer;
    line->watch.ready = line_ready;
    line->look.fire = line_look;
    os_row_init(&line->row);
    memcpy(line->host, to->host, sizeof line->host);
    line->port = to->port;
    line->to_node = to->to_node;
    line->to_epoch = to->to_epoch;
    line->progress_ms = (int64_t)io_now_ms();
    mt_status st = line_dial(line);
    if (st.code) {
        free(line);
        return st;
    }
    os_hello_fill(transfer, line->to_node, line->to_epoch, (struct os_wire_hello *)line->out);
    line->out_size = sizeof(struct os_wire_hello);
    io_timer_start(transfer->loop, &line->look, MT_OBJECT_FETCH_MS / 4);
    line->next = transfer->lines;
    line->link = &transfer->lines;
    if (line->next)
        line->next->link = &line->next;
    transfer->lines = line;
    *out = line;
    return mt_ok();
}

/* Nobody finds it any more; what waits on it is in its list still. */
static void line_close(struct os_line *line)
{
    io_watch_stop(&line->watch);
    io_timer_stop(&line->look);
    tls_end(line->tls);
    close(line->fd);
    explicit_bzero(line->out, sizeof line->out); /* the token was in it */
    *line->link = line->next;
    if (line->next)
        line->next->link = line->link;
    line->link = NULL;
}

static struct os_fetch *fetch_of(struct os_row_item *item)
{
    struct os_fetch *fetch = item ? mt_container_of(item, struct os_fetch, item) : NULL;
    if (fetch)
        fetch->line = NULL, fetch->transfer = NULL;
    return fetch;
}

static void fetch_done(struct os_row_item *item, mt_status st)
{
    struct os_fetch *fetch = fetch_of(item);
    fetch->done(fetch, st);
}

/* Over. With `is_anew` what waits on it begins on another line, else it fails by `st`. */
static void line_end(struct os_line *line, bool is_anew, mt_status st)
{
    struct os_transfer *transfer = line->transfer;
    struct os_fetch    *fetch;
    line_close(line);
    while ((fetch = fetch_of(os_row_pop(&line->row)))) { /* a `done` may cancel others of them */
        struct lane_ref ref = fetch->pull.ref;
        mt_status       why = is_anew ? os_line_fetch(transfer, fetch, &ref, fetch->pull.data) : st;
        if (why.code)
            fetch->done(fetch, why);
    }
    free(line);
}

void os_lines_close(struct os_transfer *transfer)
{
    while (transfer->lines)
        line_end(transfer->lines, false, mt_error(MT_ECANCELLED, 0, "fetch: this node ends"));
    free(transfer->taken);
    transfer->taken = NULL;
}

void os_lines_drop_revoked(struct os_transfer *transfer)
{
    for (struct os_line *line = transfer->lines; line; line = line->next)
        if (line->tls && io_tls_is_revoked(transfer->tls, line->tls))
            shutdown(line->fd, SHUT_RDWR); /* it ends as it would if the peer had gone */
}

/* ---- asking ---- */

mt_status os_line_fetch(struct os_transfer *transfer, struct os_fetch *fetch, const struct lane_ref *ref, void *data)
{
    struct os_line        *line = line_find(transfer, fetch);
    struct os_wire_request request;
    if (!line)
        MT_TRY(line_new(transfer, fetch, &line));
    if (line->out_sent == line->out_size)
        line->out_sent = line->out_size = 0;
    if (line->row.count == OS_LINE_MAX || sizeof line->out - line->out_size < sizeof request)
        return mt_error(MT_EAGAIN, 0, "fetch: 256 small objects are on their way from that node already");
    os_fetch_begin(transfer, fetch, ref, data);
    if (!line->row.count) {
        line->progress_ms = (int64_t)io_now_ms();
        transfer->count.reused += line->row.was_idle;
    }
    fetch->item = (struct os_row_item){.done = fetch_done, .pull = &fetch->pull};
    os_row_add(&line->row, &fetch->item, &request);
    fetch->line = line;
    fetch->transfer = transfer;
    memcpy(line->out + line->out_size, &request, sizeof request);
    line->out_size += (uint32_t)sizeof request;
    io_watch_set(&line->watch, IO_READABLE | IO_WRITABLE | IO_HANGUP); /* when this turn is over; a timer would be 2 ms late */
    return mt_ok();
}

void os_line_cancel(struct os_fetch *fetch)
{
    const struct os_line *line = fetch->line;
    fetch->line = NULL;
    fetch->transfer = NULL;
    if (!os_row_cancel(&fetch->item) && line->link)
        shutdown(line->fd, SHUT_RDWR); /* no memory for what comes: all that is behind it begins again */
}

/* ---- bytes ---- */

static mt_status line_failed(const struct os_line *line, int err, const char *what)
{
    if (line->tls && err == EPROTO)
        mt_log(MT_LOG_INFO, "fetch_tls", "node=%u why=\"%s\"", line->to_node, tls_why(line->tls));
    return mt_error(MT_ECONN, err, what);
}

static mt_status line_write(struct os_line *line)
{
    while (line->out_sent < line->out_size) {
        const uint8_t *at = line->out + line->out_sent;
        size_t         size = line->out_size - line->out_sent;
        ssize_t        sent = line->tls ? tls_send(line->tls, at, size) : send(line->fd, at, size, MSG_NOSIGNAL);
        if (sent < 0 && (errno == EAGAIN || errno == EINTR))
            break;
        if (sent < 0)
            return line_failed(line, errno, "fetch: send");
        line->out_sent += (uint32_t)sent;
    }
    return mt_ok();
}

/* Receives until nothing is there, or enough has come and others get their turn; but what TLS has read already is taken, since no
 * event will tell of it. */
static mt_status line_read(struct os_line *line)
{
    struct os_transfer *transfer = line->transfer;
    uint64_t            turn = 0;
    while (turn < MT_OBJECT_CHUNK_BYTES || (line->tls && tls_has_more(line->tls))) {
        ssize_t got = line->tls ? tls_recv(line->tls, transfer->taken, OS_TAKEN_BYTES)
                                : recv(line->fd, transfer->taken, OS_TAKEN_BYTES, 0);
        if (got < 0 && (errno == EAGAIN || errno == EINTR))
            return mt_ok();
        if (got <= 0)
            return line_failed(line, got < 0 ? errno : 0, "fetch: the source closed the connection");
        turn += (uint64_t)got;
        transfer->count.bytes_received += (uint64_t)got;
        line->progress_ms = (int64_t)io_now_ms();
        MT_TRY(os_row_take(&line->row, transfer->taken, (size_t)got, line->progress_ms));
        if (!line->tls && got < OS_TAKEN_BYTES)
            return mt_ok(); /* that was all */
    }
    return mt_ok();
}

static void line_watch(struct os_line *line, bool is_hung_up)
{
    bool more = line->out_sent < line->out_size && (!line->tls || io_tls_wants(line->tls) == IO_WRITABLE);
    /* After a hang-up the rest is read at leisure: recv says when it ends. */
    io_watch_set(&line->watch, IO_READABLE | (more ? IO_WRITABLE : 0u) | (is_hung_up ? 0u : IO_HANGUP));
}

static void line_ready(struct io_watch *watch, unsigned events)
{
    struct os_line *line = mt_container_of(watch, struct os_line, watch);
    mt_status       st = mt_ok();
    if (events & (IO_READABLE | IO_HANGUP)) /* the last bytes may stand before the hang-up */
        st = line_read(line);
    if (st.code == MT_OK)
        st = line_write(line);
    if (st.code == MT_OK) {
        os_row_rests(&line->row);
        line_watch(line, events & IO_HANGUP);
    } else {
        line_end(line, os_row_begins_anew(&line->row, st), st);
    }
}

static void line_look(struct io_timer *timer)
{
    struct os_line *line = mt_container_of(timer, struct os_line, look);
    int64_t         idle = (int64_t)io_now_ms() - line->progress_ms;
    if (line->row.count && idle >= MT_OBJECT_FETCH_MS)
        line_end(line, false, mt_error(MT_ETIMEDOUT, 0, "fetch: nothing came from the source for too long"));
    else if (!line->row.count && idle >= MT_OS_IDLE_MS)
        line_end(line, false, mt_ok());
    else
        io_timer_start(line->transfer->loop, timer, MT_OBJECT_FETCH_MS / 4);
}
