/* SPDX-License-Identifier: Apache-2.0
 *
 * peer.c - streams to and from the other raylets, and the files that travel on them.
 *
 * Owns: the port for frames of other raylets, every struct sh_stream, and archives that are being received. Thread: the loop.
 * Always: the core hears of a stream's end once. A stream that was dialled and failed is told with whether anybody
 * listens at that address: that is how a dead raylet is told from a slow one.
 */
#include "raylet/shell/links/links.h"

#include "core/text/address.h"
#include "core/base/log.h"
#include "core/sha/sha256.h"
#include "core/io/dial.h"
#include "core/io/framed/framed.h"
#include "core/rpc/codec.h"
#include "raylet/core/kit/link.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

enum {
    PROBE_MS = 500,                                              /* for an answer to a bare connect */
    STREAM_QUEUE_BYTES = 16 * 1024 * 1024,                       /* more than the link ever has on its way */
    FRAME_BYTES_MAX = LINK_FRAME_BYTES + LANE_RECORD_MAX + 1024, /* its records, and what stands around them */
};

struct sh_stream {
    struct sh               *sh;
    uint64_t                 number;
    struct io_framed_handler handler;
    struct io_framed_conn   *conn; /* NULL once it has ended */
    bool                     is_dialled;
    char                     host[RLT_ADDRESS_SIZE]; /* of a dialled one */
    uint16_t                 port;
    int                      probe_fd; /* asks whether anybody listens; -1: not asking */
    struct io_watch          probe;
    struct io_timer          probe_timer;
};

/* The archive of an environment that is being received: a memfd. */
struct sh_archive {
    mt_id     key; /* job and environment */
    int       fd;
    uint64_t  have;
    mt_sha256 sha;
};

struct sh_peers {
    struct sh       *sh;
    struct io_framed framed;
    struct io_msg    rest; /* tells the loop that the switch thread could not send all */
    bool             is_rest_posted;
    bool             is_registered; /* this node has its number: peers are let in */
    mt_map           streams;       /* number -> sh_stream */
    mt_map           archives;      /* job and environment -> sh_archive */
    uint64_t         next_stream;
};

static struct sh_stream *stream_find(const struct sh *sh, uint64_t number)
{
    return sh->peers ? mt_map_ptr(&sh->peers->streams, mt_map_key(number)) : NULL;
}

static void stream_free(struct sh_stream *s)
{
    mt_map_remove(&s->sh->peers->streams, mt_map_key(s->number));
    if (s->conn)
        io_framed_end(s->conn);
    io_watch_stop(&s->probe);
    io_timer_stop(&s->probe_timer);
    if (s->probe_fd >= 0)
        close(s->probe_fd);
    free(s);
}

static void stream_over(struct sh_stream *s, bool refused)
{
    struct sh       *sh = s->sh;
    struct rlt_event e;
    sh_event(&e, RLT_EV_PEER_CLOSED);
    e.peer_closed.stream = s->number;
    e.peer_closed.is_refused = refused;
    stream_free(s);
    sh_post(sh, &e);
}

/* ---- does anybody listen there? ------------------------------------------------------------------------------------ */

static void probe_ready(struct io_watch *watch, unsigned events)
{
    struct sh_stream *s = mt_container_of(watch, struct sh_stream, probe);
    struct sh        *sh = s->sh;
    (void)events;
    pthread_mutex_lock(&sh->in_core);
    stream_over(s, io_dialled(s->probe_fd).sys == ECONNREFUSED);
    pthread_mutex_unlock(&sh->in_core);
}

static void probe_timeout(struct io_timer *timer)
{
    struct sh_stream *s = mt_container_of(timer, struct sh_stream, probe_timer);
    struct sh        *sh = s->sh;
    pthread_mutex_lock(&sh->in_core);
    stream_over(s, false);
    pthread_mutex_unlock(&sh->in_core);
}

static void probe_start(struct sh_stream *s)
{
    mt_status st = io_dial(s->host, s->port, &s->probe_fd);
    if (st.code) {
        stream_over(s, st.sys == ECONNREFUSED);
        return;
    }
    s->probe.ready = probe_ready;
    s->probe_timer.fire = probe_timeout;
    if (io_watch_start(s->sh->loop, &s->probe, s->probe_fd, IO_WRITABLE).code)
        stream_over(s, false);
    else
        io_timer_start(s->sh->loop, &s->probe_timer, PROBE_MS);
}

/* ---- streams --------------------------------------------------------------------------------------------------------- */

static void frame_free(void *frame)
{
    rpc_unpack_free(frame);
}

static bool link_message(struct io_framed_handler *handler, mt_view message)
{
    struct sh_stream *s = mt_container_of(handler, struct sh_stream, handler);
    ProtobufCMessage *m = NULL;
    struct rlt_event  e;
    if (rpc_unpack(&manta__v1__frame__descriptor, message, FRAME_BYTES_MAX, &m).code)
        return false;
    sh_event(&e, RLT_EV_PEER_FRAME);
    e.peer_frame.stream = s->number;
    e.peer_frame.frame = (const Manta__V1__Frame *)m;
    sh_keep_this(s->sh, m, frame_free);
    sh_post(s->sh, &e);
    return true;
}

static void link_ended(struct io_framed_handler *handler, mt_status st)
{
    struct sh_stream *s = mt_container_of(handler, struct sh_stream, handler);
    mt_log(MT_LOG_DEBUG, "peer_stream_closed", "code=%s detail=\"%.200s\"", mt_code_name(st.code), st.what);
    s->conn = NULL;
    if (s->is_dialled && st.sys != ECONNREFUSED)
        probe_start(s);
    else
        stream_over(s, s->is_dialled);
}

static struct sh_stream *stream_new(struct sh *sh, uint64_t number)
{
    struct sh_stream *s = calloc(1, sizeof *s);
    if (!s || mt_map_put_ptr(&sh->peers->streams, mt_map_key(number), s).code) {
        free(s);
        return NULL;
    }
    s->sh = sh;
    s->number = number;
    s->probe_fd = -1;
    s->handler.message = link_message;
    s->handler.ended = link_ended;
    return s;
}

static struct io_framed_handler *link_accepted(struct io_framed *framed, struct io_framed_conn *conn)
{
    struct sh_peers  *peers = mt_container_of(framed, struct sh_peers, framed);
    struct sh_stream *s = stream_new(peers->sh, peers->next_stream++);
    struct rlt_event  e;
    if (!s)
        return NULL;
    s->conn = conn;
    sh_event(&e, RLT_EV_PEER_OPEN);
    e.peer_open.stream = s->number;
    sh_post(peers->sh, &e);
    return &s->handler;
}

/* EINVAL: no address. */
static mt_status stream_dial(struct sh_stream *s, const char *address)
{
    const char *port;
    if (!mt_address_split(address, s->host, sizeof s->host, &port))
        return mt_error(MT_EINVAL, 0, "the address of a raylet");
    s->is_dialled = true;
    s->port = (uint16_t)strtoul(port, NULL, 10);
    return io_framed_dial(&s->sh->peers->framed, s->host, s->port, &s->handler, &s->conn);
}

void sh_peer_dial(struct sh *sh, const struct rlt_a_peer_dial *a)
{
    struct sh_stream *s = sh->peers ? stream_new(sh, a->stream) : NULL;
    mt_status         st = s ? stream_dial(s, a->address) : mt_error(MT_ENOMEM, 0, "stream");
    struct rlt_event  e;
    if (s && st.code) {
        mt_log_status(MT_LOG_INFO, "peer_dial", st);
        stream_over(s, st.sys == ECONNREFUSED);
        return;
    }
    sh_event(&e, s ? RLT_EV_PEER_OPEN : RLT_EV_PEER_CLOSED);
    if (s)
        e.peer_open.stream = a->stream;
    else
        e.peer_closed.stream = a->stream;
    sh_post(sh, &e);
}

void sh_peer_send(struct sh *sh, const struct rlt_a_peer_send *a)
{
    struct sh_stream *s = stream_find(sh, a->stream);
    mt_buf            bytes = {0};
    mt_status         st;
    if (!s || !s->conn)
        return;
    st = rpc_pack(&a->frame->base, &bytes);
    if (!st.code)
        st = io_framed_send(s->conn, mt_buf_view(&bytes));
    mt_buf_fini(&bytes);
    if (st.code) {
        mt_log_status(MT_LOG_WARN, "peer_send", st);
        io_framed_cancel(s->conn); /* what it lost is sent again on the next one */
    }
}

void sh_peers_flush(struct sh *sh)
{
    if (sh->peers)
        io_framed_flush(&sh->peers->framed);
}

/* The round that follows flushes. */
static void rest_waits(struct io_msg *msg)
{
    struct sh_peers *peers = mt_container_of(msg, struct sh_peers, rest);
    pthread_mutex_lock(&peers->sh->in_core);
    peers->is_rest_posted = false;
    pthread_mutex_unlock(&peers->sh->in_core);
}

void sh_peers_flush_here(struct sh *sh)
{
    struct sh_peers *peers = sh->peers;
    if (!peers || io_framed_flush_here(&peers->framed) || peers->is_rest_posted)
        return;
    peers->is_rest_posted = true;
    peers->rest.run = rest_waits;
    io_loop_post(sh->loop, &peers->rest);
}

void sh_peers_drop_revoked(struct sh *sh)
{
    if (sh->peers)
        io_framed_drop_revoked(&sh->peers->framed);
}

void sh_peer_close(struct sh *sh, uint64_t stream)
{
    struct sh_stream *s = stream_find(sh, stream);
    if (s)
        stream_free(s);
}

/* ---- files ----------------------------------------------------------------------------------------------------------- */

void sh_file_read(struct sh *sh, const struct rlt_a_file_read *a)
{
    struct rlt_event e;
    struct stat      st;
    uint8_t         *piece;
    if (!sh->peers || fstat(a->fd, &st) < 0 || a->offset >= (uint64_t)st.st_size)
        return;
    piece = sh_keep(sh, RLT_FILE_CHUNK);
    ssize_t n = piece ? pread(a->fd, piece, RLT_FILE_CHUNK, (off_t)a->offset) : -1;
    if (n <= 0)
        return;
    sh_event(&e, RLT_EV_FILE_BYTES);
    e.file_bytes.file = a->file;
    e.file_bytes.node = a->node;
    e.file_bytes.offset = a->offset;
    e.file_bytes.total = (uint64_t)st.st_size;
    e.file_bytes.bytes = piece;
    e.file_bytes.size = (size_t)n;
    sh_post(sh, &e);
}

static mt_id archive_key(const struct peer_file *file)
{
    return (mt_id){file->job, file->env};
}

static struct sh_archive *archive_of(struct sh_peers *peers, const struct peer_file *file, uint64_t offset)
{
    struct sh_archive *p = mt_map_ptr(&peers->archives, archive_key(file));
    if (p || offset)
        return p;
    p = calloc(1, sizeof *p);
    if (!p)
        return NULL;
    p->key = archive_key(file);
    p->fd = memfd_create("manta-archive", MFD_CLOEXEC);
    mt_sha256_init(&p->sha);
    if (p->fd < 0 || mt_map_put_ptr(&peers->archives, p->key, p).code) {
        if (p->fd >= 0)
            close(p->fd);
        free(p);
        return NULL;
    }
    return p;
}

static void archive_over(struct sh *sh, struct sh_archive *p, const struct peer_file *file, const char *why)
{
    struct rlt_event e;
    sh_event(&e, RLT_EV_FILE_READY);
    e.file_ready.file = *file;
    e.file_ready.fd = why ? -1 : p->fd;
    e.file_ready.is_refused = why != NULL;
    e.file_ready.why = why;
    if (p) {
        mt_map_remove(&sh->peers->archives, p->key);
        if (why)
            close(p->fd);
        free(p);
    }
    sh_post(sh, &e);
}

void sh_archive_write(struct sh *sh, const struct rlt_a_file_write *a)
{
    struct sh_archive *p = sh->peers ? archive_of(sh->peers, &a->file, a->offset) : NULL;
    uint8_t            sum[MT_SHA256_SIZE];
    if (!p || a->offset != p->have || write(p->fd, a->bytes, a->size) != (ssize_t)a->size) {
        archive_over(sh, p, &a->file, "no memory, or no room for it");
        return;
    }
    mt_sha256_add(&p->sha, a->bytes, a->size);
    p->have += a->size;
    if (p->have < a->total)
        return;
    mt_sha256_end(&p->sha, sum);
    archive_over(sh, p, &a->file, memcmp(sum, a->sha256, sizeof sum) ? "it is not what its SHA-256 says" : NULL);
}

void sh_file_drop(struct sh *sh, const struct peer_file *file)
{
    struct sh_archive *p = sh->peers && file->env ? mt_map_ptr(&sh->peers->archives, archive_key(file)) : NULL;
    if (!p)
        return; /* a program's goes with its job */
    mt_map_remove(&sh->peers->archives, p->key);
    close(p->fd);
    free(p);
}

/* ---- start and end -------------------------------------------------------------------------------------------------- */

mt_status sh_listen_read(struct sh *sh)
{
    const char *listen = sh->options.listen, *port;
    bool        is_good = mt_address_split(listen, sh->listen_host, sizeof sh->listen_host, &port);
    size_t      size = is_good ? (size_t)(port - 1 - listen) : 0;
    if (!is_good || size >= sizeof sh->listen_shown - sizeof ":65535")
        return mt_error(MT_EINVAL, 0, "--listen: want HOST:PORT");
    snprintf(sh->listen_shown, sizeof sh->listen_shown, "%.*s", (int)size, listen);
    if (mt_address_is_any(sh->listen_host))
        return mt_error(MT_EINVAL, 0, "--listen: name the one address that other machines reach this one by");
    return mt_ok();
}

mt_status sh_peers_start(struct sh *sh, char address[RLT_ADDRESS_SIZE])
{
    struct sh_peers *peers;
    uint16_t         port = (uint16_t)strtoul(strrchr(sh->options.listen, ':') + 1, NULL, 10);
    if (!sh->token || sh->options.driver_fd >= 0)
        return mt_ok(); /* a private cluster has one node; without a token nothing is served */
    peers = sh->peers = calloc(1, sizeof *peers);
    if (!peers)
        return mt_error(MT_ENOMEM, 0, "peers");
    peers->sh = sh;
    peers->next_stream = 1;
    MT_TRY(sh_head_rpc_start(sh));
    MT_TRY(io_bound_new(&sh->bound));
    peers->framed.lock = &sh->in_core;
    peers->framed.accepted = link_accepted;
    peers->framed.tls = sh->tls;
    peers->framed.is_insecure = sh->options.is_insecure;
    peers->framed.bound = sh->bound;
    peers->framed.message_max = FRAME_BYTES_MAX;
    peers->framed.queue_max = STREAM_QUEUE_BYTES;
    MT_TRY(io_framed_open(&peers->framed, sh->loop, sh->listen_host, port, sh->token));
    /* The head tells others of this node as it tells this node its number, and they dial at once. Who comes first would be refused,
     * and come again only after half a second. */
    io_listener_pause(&peers->framed.listener);
    snprintf(address, RLT_ADDRESS_SIZE, "%.50s:%u", sh->listen_shown, peers->framed.port);
    return mt_ok();
}

void sh_peers_registered(struct sh *sh)
{
    uint32_t node, epoch;
    rlt_self(sh->core, &node, &epoch);
    if (!sh->peers || sh->peers->is_registered || !node)
        return;
    sh->peers->is_registered = true;
    io_listener_resume(&sh->peers->framed.listener);
}

void sh_peers_stop(struct sh *sh)
{
    struct sh_peers *peers = sh->peers;
    if (!peers)
        return;
    MT_MAP_EACH(&peers->streams, entry)
        stream_free(entry->value.ptr);
    io_framed_close(&peers->framed);
    MT_MAP_EACH(&peers->archives, entry) {
        struct sh_archive *p = entry->value.ptr;
        close(p->fd);
        free(p);
    }
    mt_map_fini(&peers->streams);
    mt_map_fini(&peers->archives);
    free(peers);
    sh->peers = NULL;
}
