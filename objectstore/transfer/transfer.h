/* SPDX-License-Identifier: Apache-2.0
 *
 * transfer.h - objects over TCP: the shell of server/pull.h on core/io. One per raylet.
 *
 * Sends what other raylets ask for, straight from the segments, and fetches objects straight into them. A connection
 * that has brought a value is kept for the next one from that node, for a while. Small values of one node all come over one
 * connection (line.c): what is asked for in one turn of the loop leaves together, and the answers come together. Every connection
 * shows the cluster's token first; whoever sends anything else is dropped, and only that connection. With TLS, large values are
 * encrypted from the segments and decrypted into them.
 * Thread: the loop's. Nothing blocks.
 */
#ifndef OS_TRANSFER_H
#define OS_TRANSFER_H

#include "core/base/limits/net.h"
#include "core/base/limits/object.h"
#include "core/io/listen/stranger.h"
#include "core/io/tls/tls.h"
#include "objectstore/server/pull.h"
#include "objectstore/server/row.h"

#include <string.h>

enum {
    OS_HOST_SIZE = 64,
    OS_LINE_MAX = 256,           /* small values that are on their way from one node at a time */
    OS_STAGE_BYTES = 256 * 1024, /* of small replies that are sent together */
    OS_TAKEN_BYTES = 64 * 1024,  /* of them, read together */
    OS_REQUESTS_READ = 32,       /* read together */
};

/* What a node is sent. */
struct os_pinned {
    struct lane_ref held; /* what stands for the value here: itself or a copy */
    const void     *data;
    void           *by;        /* the caller's own: who has pinned it */
    uint32_t        elsewhere; /* with EAGAIN: the node to ask; 0: here again, soon */
};

struct os_part;
struct os_line;

struct os_transfer {
    /* Set by the caller before open. pin: the value of an object here, for `node`, unchanging until as many unpins of
     * out->held. EAGAIN: the puller is to ask again soon, here or elsewhere. */
    mt_status (*pin)(struct os_transfer *transfer, const struct lane_ref *ref, uint32_t node, struct os_pinned *out);
    void (*unpin)(struct os_transfer *transfer, const struct os_pinned *pin, uint32_t node);
    const struct io_tls *tls;         /* borrowed until close; NULL: in clear, ... */
    bool                 is_insecure; /* ... and even then beyond loopback */
    struct io_bound     *bound;       /* borrowed until close: as io_listener's */
    uint32_t             chunk_bytes; /* that are asked for at a time; 0: MT_OBJECT_CHUNK_BYTES */
    /* Set by the caller, may change: 0 until the head has registered this node. */
    uint32_t node, epoch;

    uint16_t port; /* that others reach us on */
    struct {
        uint64_t accepted, refused_auth, refused_full, dropped; /* connections; auth: token or certificate */
        uint64_t bytes_sent, bytes_received;
        uint64_t reused; /* fetches over a connection that had carried others before */
    } count;

    /* private */
    struct io_loop          *loop;
    struct io_listener       listener;
    struct io_token          token;
    struct os_transfer_conn *conns;
    struct os_part          *parts;
    struct os_fetch         *fetches;
    struct os_idle          *idle;      /* connections to other nodes that carry nothing now */
    struct os_line          *lines;     /* connections that carry small values */
    uint8_t                 *stage;     /* OS_STAGE_BYTES: small replies, on their way into a connection; NULL: none yet */
    uint8_t                 *taken;     /* OS_TAKEN_BYTES, likewise out of one */
    struct io_strangers      strangers; /* connections that have sent a greeting and not shown the token */
    uint32_t                 idle_count;
    uint32_t                 fetch_count;
};

static inline uint32_t os_transfer_chunk(const struct os_transfer *transfer)
{
    return transfer->chunk_bytes ? transfer->chunk_bytes : MT_OBJECT_CHUNK_BYTES;
}
/* Listens on host:port (port 0: a free one). Errors as io_listener_open_tcp. */
MT_MUST_USE mt_status os_transfer_open(struct os_transfer *transfer, struct io_loop *loop, const char *host, uint16_t port,
                                       const struct io_token *token);
/* Ends every connection; fetches are done with ECANCELLED. */
void os_transfer_close(struct os_transfer *transfer);
/* Ends the connections that carry nothing: the next fetches make new ones. */
void os_transfer_idle_close(struct os_transfer *transfer);
/* Ends the connections of those whose certificates are refused by now (io_tls_revoke); fetches from them are done with ECONN. */
void os_transfer_drop_revoked(struct os_transfer *transfer);
/* Between the files here: those that are to other nodes. */
void               os_fetches_drop_revoked(struct os_transfer *transfer);
void               os_lines_drop_revoked(struct os_transfer *transfer);
void               os_lines_close(struct os_transfer *transfer);
static inline void os_hello_fill(const struct os_transfer *transfer, uint32_t to_node, uint32_t to_epoch, struct os_wire_hello *out)
{
    *out = (struct os_wire_hello){.magic = OS_WIRE_MAGIC,
                                  .version_max = mt_release.wire.max,
                                  .version_min = mt_release.wire.min,
                                  .from_node = transfer->node,
                                  .from_epoch = transfer->epoch,
                                  .to_node = to_node,
                                  .to_epoch = to_epoch};
    memcpy(out->token, transfer->token.hex, sizeof out->token);
}
/* Ends the connections that an object of this job is being sent on: its segments are about to be closed. */
void os_transfer_job_gone(struct os_transfer *transfer, uint32_t job);

/* A value on its way here: other nodes that ask for it are sent what has come, and wait for the rest. The caller's. */
struct os_part {
    /* private */
    struct os_part     *next, **link; /* link: what points here */
    struct os_transfer *transfer;
    struct lane_ref     ref; /* where it comes from in the end */
    const uint8_t      *data;
    uint64_t            have; /* bytes that are what was sent */
    bool                is_summed;
    uint64_t            value_sum;
};
/* NULL: what is asked for is not on its way here. */
static inline struct os_part *os_part_find(const struct os_transfer *transfer, const struct lane_ref *ref)
{
    struct os_part *part = ref->node == transfer->node ? NULL : transfer->parts;
    while (part && memcmp(&part->ref, ref, sizeof *ref) != 0)
        part = part->next;
    return part;
}
void os_part_open(struct os_transfer *transfer, struct os_part *part, const struct lane_ref *ref, const void *data);
/* More of it is there: whoever waits for that gets it. */
void os_part_grow(struct os_part *part, const struct os_pull *pull);
/* Before its memory goes: those who are sent it are cut off. `is_whole`: they go on, if the transfer's pin finds it by now. */
void os_part_close(struct os_part *part, bool is_whole);

/* One object on its way here. Starts zeroed, stays in place until `done`, which runs once, never inside start. */
struct os_fetch {
    void (*done)(struct os_fetch *fetch, mt_status st); /* the memory may be freed there */
    /* Set by the caller. */
    uint64_t cold;                        /* bytes of the data that may have no pages yet; they are made chunk by chunk */
    uint64_t have;                        /* bytes, whole chunks, that are there from a fetch before */
    void (*grew)(struct os_fetch *fetch); /* more is right (fetch->pull.good), and it goes on; NULL: nobody asks */
    uint32_t patience_ms;                 /* without a byte it ends after so long; 0: MT_OBJECT_FETCH_MS */
    uint32_t slow_ms; /* ETIMEDOUT also where it is slow, looked at so often (os_pull_received); 0: nobody looks */

    /* private */
    struct os_transfer *transfer;
    struct os_fetch    *next, *previous;
    struct os_line     *line; /* it is a small value, ... */
    struct os_row_item  item; /* ... one of that line's */
    struct os_pull      pull;
    uint64_t            faulted; /* bytes of the data whose pages are there */
    struct io_watch     watch;
    struct io_timer     timer;
    int                 fd;
    struct tls_conn    *tls; /* NULL: in clear */
    char                host[OS_HOST_SIZE];
    uint16_t            port;
    uint32_t            to_node, to_epoch;
    bool                is_reused; /* the connection has carried others before: its end may be news */
    uint32_t            out_size, out_sent;
    uint8_t             out[sizeof(struct os_wire_hello) + OS_PULL_AHEAD * sizeof(struct os_wire_request)];
};
/* Its pull as the caller wants it, from its first byte. */
static inline void os_fetch_begin(struct os_transfer *transfer, struct os_fetch *fetch, const struct lane_ref *ref, void *data)
{
    os_pull_start(&fetch->pull, ref, data, (int64_t)io_now_ms());
    fetch->pull.chunk = os_transfer_chunk(transfer);
    os_pull_resume(&fetch->pull, fetch->have);
    if (fetch->patience_ms)
        fetch->pull.patience_ms = fetch->patience_ms;
    fetch->pull.slow_ms = fetch->slow_ms;
}
/* Whether it comes over a connection that it shares: OS_LINE_MAX of them at a time from one node. */
static inline bool os_fetch_is_small(const struct os_transfer *transfer, uint64_t size)
{
    return size <= MT_OBJECT_SMALL_BYTES && size <= os_transfer_chunk(transfer);
}
/* Fetches `ref` from the raylet at host:port (a number, or "localhost"), which the head knows as to_node, to_epoch (0:
 * any), into `data` (ref->size bytes, valid until done). `done` says ECONN, EFENCED, EOBJ_LOST, ETIMEDOUT, EPROTO.
 * EAGAIN: MT_OS_FETCHES_MAX are under way, or OS_LINE_MAX small ones from that node. EINVAL: no address. ESYS. On failure `done`
 * does not run. */
MT_MUST_USE mt_status os_fetch_start(struct os_transfer *transfer, struct os_fetch *fetch, const char *host, uint16_t port,
                                     uint32_t to_node, uint32_t to_epoch, const struct lane_ref *ref, void *data);
/* The same of a small one: line.c. */
MT_MUST_USE mt_status os_line_fetch(struct os_transfer *transfer, struct os_fetch *fetch, const struct lane_ref *ref, void *data);
void                  os_line_cancel(struct os_fetch *fetch);
/* Ends it without `done`. */
void os_fetch_cancel(struct os_fetch *fetch);

#endif
