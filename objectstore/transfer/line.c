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
 * Always:  a fetch of a line stands in its list, in the order of the requests, until it is answered, and ends by `done` or
 * by os_line_cancel, once. What is answered after it was cancelled goes into memory of the line's own (a ghost).
 *
 *   a refusal --OS_WIRE_GOES_ON--> the others wait on
 *      '--from an older source, or a damaged value--> the line ends, and the others begin anew on another one
 *   the line ends while it was kept for the next value, before a byte of that one--> the same: the source had closed it meanwhile
 *   it ends otherwise, or nothing comes for MT_OBJECT_FETCH_MS--> all that wait on it fail
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
    uint32_t            serial; /* of the next request */
    struct os_fetch    *first, **last;
    uint32_t            count;
    bool                was_idle; /* since the last byte that has come: its end may be news */
    int64_t             progress_ms;
    uint32_t            out_size, out_sent;
    uint8_t             out[sizeof(struct os_wire_hello) + OS_LINE_MAX * sizeof(struct os_wire_request)];
};

struct ghost {
    struct os_fetch fetch;
    uint8_t         data[]; /* the rest of a value that nobody waits for */
};

static void line_ready(struct io_watch *watch, unsigned events);
static void line_look(struct io_timer *timer);

/* ---- its list ---- */

static void ghost_done(struct os_fetch *fetch, mt_status st)
{
    (void)st;
    free(mt_container_of(fetch, struct ghost, fetch));
}

static bool is_ghost(const struct os_fetch *fetch)
{
    return fetch->done == ghost_done;
}

static void append(struct os_line *line, struct os_fetch *fetch)
{
    fetch->behind = NULL;
    fetch->line = line;
    fetch->transfer = line->transfer;
    *line->last = fetch;
    line->last = &fetch->behind;
    line->count++;
}

static struct os_fetch *pop(struct os_line *line)
{
    struct os_fetch *fetch = line->first;
    line->first = fetch->behind;
    if (!line->first)
        line->last = &line->first;
    line->count--;
    fetch->line = NULL;
    fetch->transfer = NULL;
    return fetch;
}

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
    line->last = &line->first;
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

/* Over. With `is_anew` what waits on it begins on another line, else it fails by `st`. */
static void line_end(struct os_line *line, bool is_anew, mt_status st)
{
    line_close(line);
    while (line->first) { /* a `done` may cancel others of them */
        struct os_transfer *transfer = line->transfer;
        struct os_fetch    *fetch = pop(line);
        struct lane_ref     ref = fetch->pull.ref;
        mt_status           why = st;
        if (is_anew && !is_ghost(fetch))
            why = os_line_fetch(transfer, fetch, &ref, fetch->pull.data);
        if (why.code || is_ghost(fetch))
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
    if (line->count == OS_LINE_MAX || sizeof line->out - line->out_size < sizeof request)
        return mt_error(MT_EAGAIN, 0, "fetch: 256 small objects are on their way from that node already");
    os_fetch_begin(transfer, fetch, ref, data);
    os_pull_go_on(&fetch->pull, line->serial++);
    (void)os_pull_request(&fetch->pull, &request);
    memcpy(line->out + line->out_size, &request, sizeof request);
    line->out_size += (uint32_t)sizeof request;
    if (!line->count) {
        line->progress_ms = (int64_t)io_now_ms();
        transfer->count.reused += line->was_idle;
    }
    append(line, fetch);
    io_watch_set(&line->watch, IO_READABLE | IO_WRITABLE | IO_HANGUP); /* when this turn is over; a timer would be 2 ms late */
    return mt_ok();
}

void os_line_cancel(struct os_fetch *fetch)
{
    struct os_line   *line = fetch->line;
    struct os_fetch **at = &line->first;
    struct ghost     *ghost = line->link ? calloc(1, sizeof *ghost + fetch->pull.ref.size) : NULL;
    while (*at != fetch)
        at = &(*at)->behind;
    fetch->line = NULL;
    fetch->transfer = NULL;
    if (ghost) {
        ghost->fetch = *fetch;
        ghost->fetch.done = ghost_done;
        ghost->fetch.grew = NULL;
        ghost->fetch.pull.data = ghost->data;
        ghost->fetch.line = line;
        ghost->fetch.transfer = line->transfer;
        fetch = *at = &ghost->fetch;
        if (!fetch->behind)
            line->last = &fetch->behind;
        return;
    }
    *at = fetch->behind;
    if (!*at)
        line->last = at;
    line->count--;
    if (line->link)
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

/* The first fetch of the list has its answer. False: the line can't go on. */
static bool answered(struct os_line *line, mt_status st)
{
    struct os_fetch *fetch = pop(line);
    bool             goes_on = st.code == MT_OK || os_pull_is_refused_alone(&fetch->pull);
    goes_on |= is_ghost(fetch) && st.code == MT_ECORRUPT; /* its first bytes are elsewhere */
    fetch->done(fetch, st);                               /* fetch may be gone after this line */
    return goes_on;
}

/* What has come, to those whose it is. */
static mt_status line_take(struct os_line *line, const uint8_t *bytes, size_t size)
{
    int64_t now = (int64_t)io_now_ms();
    while (size) {
        struct os_fetch *fetch = line->first;
        void            *at;
        size_t           room;
        if (!fetch)
            return mt_error(MT_EPROTO, 0, "fetch: more than was asked for");
        os_pull_room(&fetch->pull, &at, &room);
        room = room < size ? room : size;
        memcpy(at, bytes, room);
        bytes += room;
        size -= room;
        mt_status st = os_pull_received(&fetch->pull, room, now);
        if ((st.code || fetch->pull.done) && !answered(line, st))
            return st;
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
        line->was_idle = false;
        line->progress_ms = (int64_t)io_now_ms();
        MT_TRY(line_take(line, transfer->taken, (size_t)got));
        if (!line->tls && got < OS_TAKEN_BYTES)
            return mt_ok(); /* that was all */
    }
    return mt_ok();
}

/* What an error of the line means for those who wait on it. */
static void line_over(struct os_line *line, mt_status st)
{
    bool is_of_one = st.code != MT_ECONN && st.code != MT_EFENCED; /* which has heard of it; the line is not to be trusted */
    line_end(line, is_of_one || line->was_idle, st);
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
        if (!line->count)
            line->was_idle = true;
        line_watch(line, events & IO_HANGUP);
    } else {
        line_over(line, st);
    }
}

static void line_look(struct io_timer *timer)
{
    struct os_line *line = mt_container_of(timer, struct os_line, look);
    int64_t         idle = (int64_t)io_now_ms() - line->progress_ms;
    if (line->count && idle >= MT_OBJECT_FETCH_MS)
        line_end(line, false, mt_error(MT_ETIMEDOUT, 0, "fetch: nothing came from the source for too long"));
    else if (!line->count && idle >= MT_OS_IDLE_MS)
        line_end(line, false, mt_ok());
    else
        io_timer_start(line->transfer->loop, timer, MT_OBJECT_FETCH_MS / 4);
}
