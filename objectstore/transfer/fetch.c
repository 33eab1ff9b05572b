/* SPDX-License-Identifier: Apache-2.0
 *
 * fetch.c - the data socket: fetches objects from other raylets.
 *
 * Owns:    the outgoing connections; struct os_fetch is the caller's.
 * Thread:  the loop's.
 * Always:  a started fetch is in transfer->fetches, and ends by `done` or by os_fetch_cancel, once. A connection that carries
 * nothing is in transfer->idle, with all that it was asked for answered.
 */
#include "objectstore/transfer/transfer.h"

#include "core/base/limits/object.h"
#include "core/base/log.h"
#include "core/io/dial.h"
#include "objectstore/system/memory.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

struct os_idle {
    struct os_idle     *next, **link; /* link: what points here */
    struct os_transfer *transfer;
    struct io_watch     watch;
    struct io_timer     timer;
    struct tls_conn    *tls;
    int                 fd;
    uint16_t            port;
    uint32_t            node, epoch; /* as the greeting said */
    uint32_t            serial;      /* of the next request */
};

static void fetch_ready(struct io_watch *watch, unsigned events);
static void fetch_tick(struct io_timer *timer);
static void queue_requests(struct os_fetch *fetch);

/* ---- connections that are kept ---- */

/* Out of the table; the descriptor and TLS are the caller's. */
static void idle_leave(struct os_idle *idle)
{
    io_watch_stop(&idle->watch);
    io_timer_stop(&idle->timer);
    *idle->link = idle->next;
    if (idle->next)
        idle->next->link = idle->link;
    idle->transfer->idle_count--;
}

static void idle_close(struct os_idle *idle)
{
    idle_leave(idle);
    tls_end(idle->tls);
    close(idle->fd);
    free(idle);
}

/* Nothing was asked for, so what comes is the connection's end. */
static void idle_ready(struct io_watch *watch, unsigned events)
{
    (void)events;
    idle_close(mt_container_of(watch, struct os_idle, watch));
}

static void idle_over(struct io_timer *timer)
{
    idle_close(mt_container_of(timer, struct os_idle, timer));
}

static bool is_to(const struct os_idle *idle, uint32_t node, uint32_t epoch, uint16_t port)
{
    return idle->node == node && idle->epoch == epoch && idle->port == port;
}

/* Keeps the connection of a fetch that has left it whole. False: it is to be closed. */
static bool idle_add(struct os_fetch *fetch, struct os_transfer *transfer)
{
    uint32_t of_peer = 0;
    for (const struct os_idle *i = transfer->idle; i; i = i->next)
        of_peer += is_to(i, fetch->to_node, fetch->to_epoch, fetch->port);
    bool is_whole = fetch->pull.done && fetch->out_sent == fetch->out_size && !(fetch->tls && tls_has_more(fetch->tls));
    if (!is_whole || of_peer >= MT_OS_IDLE_PEER_MAX || transfer->idle_count >= MT_OS_IDLE_MAX)
        return false;
    struct os_idle *idle = calloc(1, sizeof *idle);
    if (!idle)
        return false;
    idle->watch.ready = idle_ready;
    idle->timer.fire = idle_over;
    if (io_watch_start(transfer->loop, &idle->watch, fetch->fd, IO_READABLE | IO_HANGUP).code) {
        free(idle);
        return false;
    }
    io_timer_start(transfer->loop, &idle->timer, MT_OS_IDLE_MS);
    idle->transfer = transfer;
    idle->tls = fetch->tls;
    idle->fd = fetch->fd;
    idle->port = fetch->port;
    idle->node = fetch->to_node;
    idle->epoch = fetch->to_epoch;
    idle->serial = fetch->pull.serial_asked;
    idle->next = transfer->idle;
    idle->link = &transfer->idle;
    if (idle->next)
        idle->next->link = &idle->next;
    transfer->idle = idle;
    transfer->idle_count++;
    return true;
}

/* A connection that was kept carries this fetch. False: there is none. */
static bool idle_take(struct os_transfer *transfer, struct os_fetch *fetch)
{
    struct os_idle *idle = transfer->idle;
    while (idle && !is_to(idle, fetch->to_node, fetch->to_epoch, fetch->port))
        idle = idle->next;
    if (!idle)
        return false;
    idle_leave(idle);
    fetch->fd = idle->fd;
    fetch->tls = idle->tls;
    uint32_t serial = idle->serial;
    free(idle);
    if (io_watch_start(transfer->loop, &fetch->watch, fetch->fd, IO_WRITABLE | IO_HANGUP).code) {
        tls_end(fetch->tls);
        close(fetch->fd);
        return false;
    }
    os_pull_go_on(&fetch->pull, serial);
    fetch->out_size = fetch->out_sent = 0;
    queue_requests(fetch);
    transfer->count.reused++;
    return true;
}

void os_fetches_drop_revoked(struct os_transfer *transfer)
{
    for (struct os_idle *idle = transfer->idle, *next; idle; idle = next) {
        next = idle->next;
        if (idle->tls && io_tls_is_revoked(transfer->tls, idle->tls))
            idle_close(idle);
    }
    for (struct os_fetch *fetch = transfer->fetches; fetch; fetch = fetch->next)
        if (fetch->tls && io_tls_is_revoked(transfer->tls, fetch->tls))
            shutdown(fetch->fd, SHUT_RDWR); /* it ends as it would if the peer had gone */
    os_lines_drop_revoked(transfer);
}

void os_transfer_idle_close(struct os_transfer *transfer)
{
    while (transfer->idle)
        idle_close(transfer->idle);
}

/* ---- fetches ---- */

/* Puts the requests that may be sent now behind what is still to be sent. */
static void queue_requests(struct os_fetch *fetch)
{
    if (fetch->out_sent == fetch->out_size)
        fetch->out_sent = fetch->out_size = 0;
    struct os_wire_request request;
    while (fetch->out_size + sizeof request <= sizeof fetch->out && os_pull_request(&fetch->pull, &request)) {
        memcpy(fetch->out + fetch->out_size, &request, sizeof request);
        fetch->out_size += (uint32_t)sizeof request;
    }
}

/* A new connection, which begins with the greeting. */
static mt_status connect_anew(struct os_transfer *transfer, struct os_fetch *fetch)
{
    MT_TRY(io_dial(fetch->host, fetch->port, &fetch->fd));
    fetch->tls = NULL;
    mt_status st = transfer->tls ? io_tls_dial(transfer->tls, fetch->fd, IO_TLS_NODE, &fetch->tls) : mt_ok();
    if (st.code == MT_OK)
        st = io_watch_start(transfer->loop, &fetch->watch, fetch->fd, IO_WRITABLE | IO_HANGUP);
    if (st.code != MT_OK) {
        tls_end(fetch->tls);
        close(fetch->fd);
        return st;
    }
    struct os_wire_hello hello;
    os_hello_fill(transfer, fetch->to_node, fetch->to_epoch, &hello);
    memcpy(fetch->out, &hello, sizeof hello);
    explicit_bzero(&hello, sizeof hello);
    fetch->out_size = sizeof hello;
    fetch->out_sent = 0;
    queue_requests(fetch);
    return mt_ok();
}

/* Four looks within its patience. */
static void tick_later(struct os_fetch *fetch)
{
    io_timer_start(fetch->transfer->loop, &fetch->timer, fetch->pull.patience_ms / 4);
}

mt_status os_fetch_start(struct os_transfer *transfer, struct os_fetch *fetch, const char *host, uint16_t port, uint32_t to_node,
                         uint32_t to_epoch, const struct lane_ref *ref, void *data)
{
    bool is_small = os_fetch_is_small(transfer, ref->size) && !fetch->have;
    if (!is_small && transfer->fetch_count == MT_OS_FETCHES_MAX)
        return mt_error(MT_EAGAIN, 0, "fetch: 256 objects are on their way already");
    if (strlen(host) >= sizeof fetch->host)
        return mt_error(MT_EINVAL, 0, "fetch: no such address");
    memcpy(fetch->host, host, strlen(host) + 1);
    fetch->port = port;
    fetch->to_node = to_node;
    fetch->to_epoch = to_epoch;
    if (is_small)
        return os_line_fetch(transfer, fetch, ref, data);
    fetch->watch.ready = fetch_ready;
    fetch->faulted = fetch->have;
    os_fetch_begin(transfer, fetch, ref, data);
    fetch->is_reused = idle_take(transfer, fetch);
    if (!fetch->is_reused)
        MT_TRY(connect_anew(transfer, fetch));
    fetch->transfer = transfer;
    fetch->timer.fire = fetch_tick;
    tick_later(fetch);
    fetch->previous = NULL;
    fetch->next = transfer->fetches;
    if (fetch->next)
        fetch->next->previous = fetch;
    transfer->fetches = fetch;
    transfer->fetch_count++;
    return mt_ok();
}

/* Out of the table; `keep`: its connection, if that is whole, goes to those that are kept. */
static void fetch_leave(struct os_fetch *fetch, bool keep)
{
    struct os_transfer *transfer = fetch->transfer;
    io_watch_stop(&fetch->watch);
    io_timer_stop(&fetch->timer);
    if (!keep || !idle_add(fetch, transfer)) {
        tls_end(fetch->tls);
        if (fetch->fd >= 0)
            close(fetch->fd);
    }
    explicit_bzero(fetch->out, sizeof fetch->out); /* the token was in it */
    *(fetch->previous ? &fetch->previous->next : &transfer->fetches) = fetch->next;
    if (fetch->next)
        fetch->next->previous = fetch->previous;
    transfer->fetch_count--;
    fetch->transfer = NULL;
}

void os_fetch_cancel(struct os_fetch *fetch)
{
    if (fetch->line)
        os_line_cancel(fetch);
    else if (fetch->transfer)
        fetch_leave(fetch, false);
}

/* The source had closed the connection that was kept, before it heard of this fetch. True: it goes on over a new one. */
static bool is_begun_anew(struct os_fetch *fetch, mt_status st)
{
    struct os_pull *pull = &fetch->pull;
    if (st.code != MT_ECONN || !fetch->is_reused || pull->serial_got != pull->serial_first || pull->head_have || pull->in_body)
        return false;
    struct lane_ref ref = pull->ref;
    io_watch_stop(&fetch->watch);
    tls_end(fetch->tls);
    close(fetch->fd);
    fetch->tls = NULL;
    fetch->is_reused = false;
    os_fetch_begin(fetch->transfer, fetch, &ref, pull->data);
    if (connect_anew(fetch->transfer, fetch).code == MT_OK)
        return true;
    fetch->fd = -1; /* closed already */
    fetch->tls = NULL;
    return false;
}

static void fetch_end(struct os_fetch *fetch, mt_status st)
{
    if (is_begun_anew(fetch, st))
        return;
    fetch_leave(fetch, st.code == MT_OK);
    fetch->done(fetch, st); /* fetch may be gone after this line */
}

static void fetch_tick(struct io_timer *timer)
{
    struct os_fetch *fetch = mt_container_of(timer, struct os_fetch, timer);
    mt_status        st = os_pull_check(&fetch->pull, (int64_t)io_now_ms());
    if (st.code != MT_OK)
        fetch_end(fetch, st);
    else
        tick_later(fetch);
}

/* The connection has failed, here or at its other end. */
static mt_status fetch_failed(const struct os_fetch *fetch, int err, const char *what)
{
    if (fetch->tls && err == EPROTO)
        mt_log(MT_LOG_INFO, "fetch_tls", "node=%u why=\"%s\"", fetch->pull.ref.node, tls_why(fetch->tls));
    return mt_error(MT_ECONN, err, what);
}

static mt_status fetch_write(struct os_fetch *fetch)
{
    while (fetch->out_sent < fetch->out_size) {
        const uint8_t *at = fetch->out + fetch->out_sent;
        size_t         size = fetch->out_size - fetch->out_sent;
        ssize_t        sent = fetch->tls ? tls_send(fetch->tls, at, size) : send(fetch->fd, at, size, MSG_NOSIGNAL);
        if (sent < 0 && (errno == EAGAIN || errno == EINTR))
            break;
        if (sent < 0)
            return fetch_failed(fetch, errno, "fetch: send");
        fetch->out_sent += (uint32_t)sent;
    }
    return mt_ok();
}

/* The pages of the next chunk, where they may be missing: one fault each in recv costs three times as much. */
static void make_pages(struct os_fetch *fetch)
{
    uint64_t from = fetch->pull.received, end = from + MT_OBJECT_CHUNK_BYTES;
    if (!fetch->pull.in_body || from < fetch->faulted || from >= fetch->cold)
        return;
    fetch->faulted = end < fetch->cold ? end : fetch->cold;
    uintptr_t page = 4096, first = (uintptr_t)(fetch->pull.data + from) & ~(page - 1);
    (void)os_memory_prefault((void *)first, (uintptr_t)(fetch->pull.data + fetch->faulted) - first).code;
}

/* Receives until nothing is there, or one chunk's worth has come and others get their turn; but what TLS has read already is taken,
 * since no event will tell of it. */
static mt_status fetch_read(struct os_fetch *fetch)
{
    uint64_t turn = 0;
    while (!fetch->pull.done && (turn < MT_OBJECT_CHUNK_BYTES || (fetch->tls && tls_has_more(fetch->tls)))) {
        void  *at;
        size_t room;
        os_pull_room(&fetch->pull, &at, &room);
        make_pages(fetch);
        ssize_t got = fetch->tls ? tls_recv(fetch->tls, at, room) : recv(fetch->fd, at, room, 0);
        if (got < 0 && (errno == EAGAIN || errno == EINTR))
            return mt_ok();
        if (got <= 0)
            return fetch_failed(fetch, got < 0 ? errno : 0, "fetch: the source closed the connection");
        turn += (uint64_t)got;
        fetch->transfer->count.bytes_received += (uint64_t)got;
        MT_TRY(os_pull_received(&fetch->pull, (size_t)got, (int64_t)io_now_ms()));
        if (fetch->grew)
            fetch->grew(fetch);
    }
    return mt_ok();
}

static void fetch_ready(struct io_watch *watch, unsigned events)
{
    struct os_fetch *fetch = mt_container_of(watch, struct os_fetch, watch);
    mt_status        st = mt_ok();
    if (events & (IO_READABLE | IO_HANGUP)) /* the last bytes may stand before the hang-up */
        st = fetch_read(fetch);
    if (st.code == MT_OK && fetch->pull.done) {
        fetch_end(fetch, mt_ok());
        return;
    }
    if (st.code == MT_OK) {
        queue_requests(fetch);
        st = fetch_write(fetch);
    }
    if (st.code != MT_OK) {
        fetch_end(fetch, st);
        return;
    }
    bool more = fetch->out_sent < fetch->out_size && (!fetch->tls || io_tls_wants(fetch->tls) == IO_WRITABLE);
    /* After a hang-up the rest is read at leisure: recv says when it ends. */
    io_watch_set(watch, IO_READABLE | (more ? IO_WRITABLE : 0u) | (events & IO_HANGUP ? 0u : IO_HANGUP));
}
