/* SPDX-License-Identifier: Apache-2.0
 *
 * stream.c - one stream of messages both ways; the same for client and server.
 *
 * Owns:    its two queues, and gRPC's call until every batch of it has completed and the handler was told
 * `closed`. Thread:  batches complete on the rpc thread, callbacks run in stream_deliver: on the loop, or
 * with RPC_DIRECT on the rpc thread. Sends come from any thread. `lock` guards all fields below it and is
 * never held across a callback, nor while gRPC sends or receives. Always:  at most one send and one receive
 * are under way (gRPC allows no more); stream_deliver runs on one thread only, so callbacks of a stream never
 * overlap.
 *
 *   send:  rpc_stream_send -> [unsent] -> batch -> gRPC             half of the queue free again -> drained
 *   recv:  gRPC -> batch -> [unread] -> stream_deliver -> message   unread full -> no batch -> gRPC's window
 * closes over:  status known, nothing more to read, no send or end under way -> closed
 */
#include "core/rpc/peer.h"
#include "core/rpc/runtime.h"

#include <grpc/support/alloc.h>

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

struct node {
    struct node      *next;
    grpc_byte_buffer *bytes;
    size_t            size;
};
struct fifo {
    struct node *first, **end;
    size_t       count, bytes;
};

struct rpc_stream {
    struct rpc_live     live;
    struct rpc         *rpc;
    bool                is_client, is_direct;
    atomic_uint         refs;      /* memory: the owner's, and one for the call */
    atomic_uint         call_refs; /* gRPC's call: batches, a wake-up on its way, and one until `closed` was told */
    struct rpc_op       open_op, send_op, recv_op, status_op, end_op, wake_op;
    struct io_msg       wake_msg;
    grpc_metadata_array initial, trailing;    /* client */
    grpc_status_code    code;                 /* client */
    grpc_slice          detail_slice;         /* client */
    int                 is_cancelled_by_peer; /* server */
    grpc_byte_buffer   *received;

    pthread_mutex_t            lock;
    struct rpc_stream_handler *handler; /* NULL: nobody listens any more */
    struct fifo                unsent, unread;
    struct node               *sending; /* its batch is under way */
    size_t                     queue_max;
    bool                       is_receiving, is_read_out; /* a receive is under way; there is nothing more to receive */
    bool                       is_paused, is_woken, wants_drained;
    bool                       wants_end, is_ending, is_end_sent, is_ended_told;
    bool                       has_status, is_closed_told;
    mt_status                  end_status; /* server: what rpc_stream_finish said */
    mt_status                  status;     /* how it ended, once has_status */
    char                       end_detail[MT_ERROR_BYTES_MAX], detail[MT_ERROR_BYTES_MAX];
};

static mt_status    stream_send(struct rpc_stream *stream, grpc_byte_buffer *take_bytes, size_t size);
static void         stream_opened(struct rpc_op *op, bool ok);
static void         stream_sent(struct rpc_op *op, bool ok);
static void         stream_received(struct rpc_op *op, bool ok);
static void         stream_status_known(struct rpc_op *op, bool ok);
static void         stream_end_sent(struct rpc_op *op, bool ok);
static void         stream_woken_direct(struct rpc_op *op, bool ok);
static void         stream_woken(struct io_msg *msg);
static void         stream_next_send_locked(struct rpc_stream *stream);
static void         stream_wake_locked(struct rpc_stream *stream);
static void         stream_receive(struct rpc_stream *stream);
static bool         stream_wants_receive_locked(struct rpc_stream *stream);
static bool         stream_is_over_locked(const struct rpc_stream *stream);
static void         stream_deliver(struct rpc_stream *stream);
static bool         stream_deliver_one_locked(struct rpc_stream *stream);
static void         stream_unref(struct rpc_stream *stream);
static void         call_ref(struct rpc_stream *stream);
static void         call_unref(struct rpc_stream *stream);
static void         fifo_push(struct fifo *fifo, struct node *node);
static struct node *fifo_pop(struct fifo *fifo);
static void         node_free(struct node *node);

struct rpc_stream *rpc_stream_new(struct rpc *rpc, struct rpc_scope *scope, grpc_call *call, bool is_client, bool is_direct,
                                  uint64_t token)
{
    struct rpc_stream *stream = calloc(1, sizeof *stream);
    if (!stream)
        return NULL;
    stream->rpc = rpc;
    stream->is_client = is_client;
    stream->live.token = token;
    stream->is_direct = is_direct;
    atomic_init(&stream->refs, 2);
    atomic_init(&stream->call_refs, 1);
    stream->open_op.run = stream_opened;
    stream->send_op.run = stream_sent;
    stream->recv_op.run = stream_received;
    stream->status_op.run = stream_status_known;
    stream->end_op.run = stream_end_sent;
    stream->wake_op.run = stream_woken_direct;
    stream->wake_msg.run = stream_woken;
    stream->detail_slice = grpc_empty_slice();
    grpc_metadata_array_init(&stream->initial);
    grpc_metadata_array_init(&stream->trailing);
    pthread_mutex_init(&stream->lock, NULL);
    stream->unsent.end = &stream->unsent.first;
    stream->unread.end = &stream->unread.first;
    stream->queue_max = MT_STREAM_QUEUE_BYTES;
    rpc_live_add(scope, &stream->live, call);
    return stream;
}

mt_status rpc_stream_open(struct rpc_channel *channel, const struct rpc_stream_config *config, struct rpc_stream_handler *handler,
                          struct rpc_stream **out_stream)
{
    bool is_direct = config->flags & RPC_DIRECT;
    if (!config->method || (!channel->rpc->loop && !is_direct))
        return mt_error(MT_EINVAL, 0, "stream: no method, or no loop");
    grpc_slice name = grpc_slice_from_copied_string(config->method);
    grpc_call *call = grpc_channel_create_call(channel->channel, NULL, GRPC_PROPAGATE_DEFAULTS, channel->rpc->queue, name, NULL,
                                               rpc_deadline(config->timeout_ms), NULL);
    grpc_slice_unref(name);
    struct rpc_stream *stream = rpc_stream_new(channel->rpc, &channel->rpc->clients, call, true, is_direct, 0);
    if (!stream) {
        grpc_call_unref(call);
        return mt_error(MT_ENOMEM, 0, "stream");
    }
    stream->handler = handler;
    *out_stream = stream; /* before the first batch: with RPC_DIRECT callbacks may come at once */

    grpc_metadata headers[RPC_HEADERS];
    grpc_op       open[2] = {rpc_send_headers(channel, config->flags, headers)};
    open[1].op = GRPC_OP_RECV_INITIAL_METADATA;
    open[1].data.recv_initial_metadata.recv_initial_metadata = &stream->initial;
    grpc_op status = {.op = GRPC_OP_RECV_STATUS_ON_CLIENT};
    status.data.recv_status_on_client.trailing_metadata = &stream->trailing;
    status.data.recv_status_on_client.status = &stream->code;
    status.data.recv_status_on_client.status_details = &stream->detail_slice;
    call_ref(stream);
    call_ref(stream);
    call_ref(stream);
    stream->is_receiving = true;
    rpc_start(call, open, 2, &stream->open_op);
    rpc_start(call, &status, 1, &stream->status_op);
    stream_receive(stream);
    return mt_ok();
}

void rpc_stream_accept(struct rpc_stream *stream, struct rpc_stream_handler *handler)
{
    grpc_op open = {.op = GRPC_OP_SEND_INITIAL_METADATA};
    grpc_op closed = {.op = GRPC_OP_RECV_CLOSE_ON_SERVER};
    closed.data.recv_close_on_server.cancelled = &stream->is_cancelled_by_peer;
    stream->handler = handler;
    call_ref(stream);
    call_ref(stream);
    call_ref(stream);
    stream->is_receiving = true;
    rpc_start(stream->live.call, &open, 1, &stream->open_op);
    rpc_start(stream->live.call, &closed, 1, &stream->status_op);
    stream_receive(stream);
}

/* ---- what the owner does ---- */

mt_status rpc_stream_send(struct rpc_stream *stream, mt_view message)
{
    if (message.size > MT_CONTROL_BYTES_MAX)
        return mt_error(MT_EINVAL, 0, "message larger than MT_CONTROL_BYTES_MAX");
    return stream_send(stream, rpc_bytes_copy(message), message.size);
}

mt_status rpc_stream_send_borrowed(struct rpc_stream *stream, mt_view message, void (*release)(void *owner), void *owner)
{
    if (message.size > MT_CONTROL_BYTES_MAX) {
        release(owner);
        return mt_error(MT_EINVAL, 0, "message larger than MT_CONTROL_BYTES_MAX");
    }
    return stream_send(stream, rpc_bytes_borrow(message, release, owner), message.size);
}

static mt_status stream_send(struct rpc_stream *stream, grpc_byte_buffer *take_bytes, size_t size)
{
    struct node *node = malloc(sizeof *node);
    if (!node) {
        grpc_byte_buffer_destroy(take_bytes);
        return mt_error(MT_ENOMEM, 0, "send on a stream");
    }
    node->bytes = take_bytes;
    node->size = size;

    mt_status st = mt_ok();
    pthread_mutex_lock(&stream->lock);
    if (stream->has_status || stream->is_closed_told) {
        st = mt_error(MT_ECONN, 0, "the stream is over");
    } else if (stream->wants_end) {
        st = mt_error(MT_EINVAL, 0, "send after the end of the stream");
    } else if (stream->unsent.bytes && stream->unsent.bytes + node->size > stream->queue_max) {
        stream->wants_drained = true;
        st = mt_error(MT_EAGAIN, 0, "the stream's send queue is full");
    } else {
        fifo_push(&stream->unsent, node);
        if (!stream->sending) {
            call_ref(stream);
            stream_next_send_locked(stream); /* unlocks and locks again */
        }
    }
    pthread_mutex_unlock(&stream->lock);
    if (st.code)
        node_free(node);
    return st;
}

void rpc_stream_end(struct rpc_stream *stream)
{
    rpc_stream_finish(stream, mt_ok(), NULL);
}

void rpc_stream_finish(struct rpc_stream *stream, mt_status status, const char *detail)
{
    pthread_mutex_lock(&stream->lock);
    if (!stream->wants_end && !stream->has_status && !stream->is_closed_told) {
        const char *text = detail ? detail : status.what ? status.what : "";
        stream->wants_end = true;
        stream->end_status = status;
        rpc_detail_copy(stream->end_detail, text, strlen(text));
        if (!stream->sending) {
            call_ref(stream);
            stream_next_send_locked(stream);
        }
    }
    pthread_mutex_unlock(&stream->lock);
}

void rpc_stream_cancel(struct rpc_stream *stream)
{
    pthread_mutex_lock(&stream->lock);
    bool is_open = !stream->is_closed_told;
    if (is_open) {
        call_ref(stream);
        stream->is_paused = false; /* or `closed` would wait behind what nobody reads */
        stream_wake_locked(stream);
    }
    pthread_mutex_unlock(&stream->lock);
    if (is_open) {
        grpc_call_cancel(stream->live.call, NULL);
        call_unref(stream);
    }
}

void rpc_stream_pause(struct rpc_stream *stream)
{
    pthread_mutex_lock(&stream->lock);
    stream->is_paused = true;
    pthread_mutex_unlock(&stream->lock);
}

void rpc_stream_resume(struct rpc_stream *stream)
{
    pthread_mutex_lock(&stream->lock);
    if (stream->is_paused && !stream->is_closed_told) {
        stream->is_paused = false;
        stream_wake_locked(stream);
    }
    pthread_mutex_unlock(&stream->lock);
}

void rpc_stream_set_queue(struct rpc_stream *stream, size_t bytes_max)
{
    pthread_mutex_lock(&stream->lock);
    stream->queue_max = bytes_max;
    pthread_mutex_unlock(&stream->lock);
}

void rpc_stream_free(struct rpc_stream *stream)
{
    pthread_mutex_lock(&stream->lock);
    stream->handler = NULL;
    pthread_mutex_unlock(&stream->lock);
    rpc_stream_cancel(stream);
    stream_unref(stream);
}

/* ---- sending ---- */

/* Starts the next batch: a message, or the end behind the last one. The caller holds the lock and a reference
 * to the call, which goes to the batch or back. The lock is released while gRPC works. */
static void stream_next_send_locked(struct rpc_stream *stream)
{
    grpc_op        ops[1] = {{0}};
    grpc_metadata  header;
    grpc_slice     detail = grpc_empty_slice();
    struct rpc_op *tag = &stream->send_op;

    stream->sending = fifo_pop(&stream->unsent);
    if (stream->sending) {
        stream->unsent.bytes += stream->sending->size; /* counts as queued until gRPC has taken it */
        ops[0].op = GRPC_OP_SEND_MESSAGE;
        ops[0].flags = stream->unsent.first ? GRPC_WRITE_BUFFER_HINT : 0;
        ops[0].data.send_message.send_message = stream->sending->bytes;
    } else if (stream->wants_end && !stream->is_end_sent && !stream->is_ending && !stream->has_status) {
        stream->is_ending = true;
        tag = &stream->end_op;
        ops[0].op = stream->is_client ? GRPC_OP_SEND_CLOSE_FROM_CLIENT : GRPC_OP_SEND_STATUS_FROM_SERVER;
        if (!stream->is_client) {
            detail = grpc_slice_from_copied_string(stream->end_detail);
            header = rpc_code_header(stream->end_status.code);
            ops[0].data.send_status_from_server.status = rpc_status_to_grpc(stream->end_status.code);
            ops[0].data.send_status_from_server.status_details = &detail;
            ops[0].data.send_status_from_server.trailing_metadata = &header;
            ops[0].data.send_status_from_server.trailing_metadata_count = stream->end_status.code ? 1 : 0;
        }
    } else {
        pthread_mutex_unlock(&stream->lock);
        call_unref(stream);
        pthread_mutex_lock(&stream->lock);
        return;
    }
    pthread_mutex_unlock(&stream->lock);
    rpc_start(stream->live.call, ops, 1, tag);
    grpc_slice_unref(detail);
    pthread_mutex_lock(&stream->lock);
}

static void stream_sent(struct rpc_op *op, bool ok)
{
    struct rpc_stream *stream = mt_container_of(op, struct rpc_stream, send_op);
    struct node       *sent, *dropped;

    pthread_mutex_lock(&stream->lock);
    sent = stream->sending;
    stream->unsent.bytes -= sent->size;
    stream->sending = NULL;
    while (!ok && (dropped = fifo_pop(&stream->unsent))) /* the call is broken; its status is on the way */
        node_free(dropped);
    if (stream->has_status || (stream->wants_drained && stream->unsent.bytes <= stream->queue_max / 2))
        stream_wake_locked(stream);
    if (ok) {
        stream_next_send_locked(stream); /* our reference goes on with it */
        pthread_mutex_unlock(&stream->lock);
    } else {
        pthread_mutex_unlock(&stream->lock);
        call_unref(stream);
    }
    node_free(sent);
}

static void stream_end_sent(struct rpc_op *op, bool ok)
{
    struct rpc_stream *stream = mt_container_of(op, struct rpc_stream, end_op);
    (void)ok;
    pthread_mutex_lock(&stream->lock);
    stream->is_ending = false;
    stream->is_end_sent = true;
    stream_wake_locked(stream);
    pthread_mutex_unlock(&stream->lock);
    call_unref(stream);
}

/* ---- receiving ---- */

static void stream_opened(struct rpc_op *op, bool ok)
{
    (void)ok; /* the status tells */
    call_unref(mt_container_of(op, struct rpc_stream, open_op));
}

/* The caller has set is_receiving and gives a reference to the call. */
static void stream_receive(struct rpc_stream *stream)
{
    grpc_op recv = {.op = GRPC_OP_RECV_MESSAGE};
    recv.data.recv_message.recv_message = &stream->received;
    rpc_start(stream->live.call, &recv, 1, &stream->recv_op);
}

/* True once when a receive should be started now; the caller then does it, with the reference taken here. */
static bool stream_wants_receive_locked(struct rpc_stream *stream)
{
    if (stream->is_receiving || stream->is_read_out || stream->unread.count >= MT_STREAM_AHEAD_MAX ||
        stream->unread.bytes >= MT_STREAM_AHEAD_BYTES)
        return false;
    stream->is_receiving = true;
    call_ref(stream);
    return true;
}

static void stream_received(struct rpc_op *op, bool ok)
{
    struct rpc_stream *stream = mt_container_of(op, struct rpc_stream, recv_op);
    grpc_byte_buffer  *bytes = stream->received;
    struct node       *node = NULL;
    bool               is_broken = false;

    stream->received = NULL;
    if (ok && bytes) {
        node = malloc(sizeof *node);
        /* What cannot be kept must not be skipped in silence; what is compressed nobody has agreed to. */
        is_broken = !node || bytes->data.raw.compression != GRPC_COMPRESS_NONE;
    }
    pthread_mutex_lock(&stream->lock);
    stream->is_receiving = false;
    if (node && !is_broken) {
        node->bytes = bytes;
        node->size = grpc_byte_buffer_length(bytes);
        bytes = NULL;
        fifo_push(&stream->unread, node);
        node = NULL;
    } else {
        stream->is_read_out = true;
    }
    bool is_next = stream_wants_receive_locked(stream);
    if (!stream->is_direct)
        stream_wake_locked(stream);
    pthread_mutex_unlock(&stream->lock);
    if (is_next)
        stream_receive(stream);
    if (stream->is_direct)
        stream_deliver(stream); /* this is the thread */
    if (is_broken)
        grpc_call_cancel_with_status(stream->live.call, GRPC_STATUS_INTERNAL, "message cannot be taken", NULL);
    if (bytes)
        grpc_byte_buffer_destroy(bytes);
    free(node);
    call_unref(stream);
}

/* Client: the status is here. Server: the client is done with the call, one way or another. */
static void stream_status_known(struct rpc_op *op, bool ok)
{
    struct rpc_stream *stream = mt_container_of(op, struct rpc_stream, status_op);
    (void)ok;
    pthread_mutex_lock(&stream->lock);
    if (stream->is_client) {
        stream->status = rpc_status_from_grpc(stream->code, &stream->trailing);
        rpc_detail_copy(stream->detail, GRPC_SLICE_START_PTR(stream->detail_slice), GRPC_SLICE_LENGTH(stream->detail_slice));
    } else if (stream->is_cancelled_by_peer) {
        stream->status = mt_error(MT_ECONN, 0, "the client cancelled, or its connection broke");
    } else {
        stream->status = stream->end_status;
    }
    stream->has_status = true;
    stream_wake_locked(stream);
    pthread_mutex_unlock(&stream->lock);
    call_unref(stream);
}

/* ---- callbacks ---- */

/* Lets stream_deliver run where callbacks run. */
static void stream_wake_locked(struct rpc_stream *stream)
{
    if (stream->is_woken)
        return;
    stream->is_woken = true;
    call_ref(stream);
    if (stream->is_direct)
        rpc_start(stream->live.call, NULL, 0, &stream->wake_op); /* an empty batch completes at once, as an event */
    else
        io_loop_post(stream->rpc->loop, &stream->wake_msg);
}

static void stream_woken(struct io_msg *msg)
{
    struct rpc_stream *stream = mt_container_of(msg, struct rpc_stream, wake_msg);
    stream_deliver(stream);
    call_unref(stream);
}

static void stream_woken_direct(struct rpc_op *op, bool ok)
{
    struct rpc_stream *stream = mt_container_of(op, struct rpc_stream, wake_op);
    (void)ok;
    stream_deliver(stream);
    call_unref(stream);
}

static void stream_deliver(struct rpc_stream *stream)
{
    pthread_mutex_lock(&stream->lock);
    stream->is_woken = false;
    unsigned budget = MT_STREAM_BATCH_MAX;
    while (stream_deliver_one_locked(stream))
        if (--budget == 0) {
            stream_wake_locked(stream);
            break;
        }
    pthread_mutex_unlock(&stream->lock);
}

static bool stream_is_over_locked(const struct rpc_stream *stream)
{
    return stream->has_status && stream->is_read_out && !stream->unread.first && !stream->sending && !stream->is_ending &&
           !stream->is_closed_told;
}

/* Calls the handler for the next thing that happened; false when there is none. The lock is released
 * meanwhile. */
static bool stream_deliver_one_locked(struct rpc_stream *stream)
{
    struct rpc_stream_handler *handler = stream->handler;
    bool                       is_lost = stream->has_status &&
                   (!stream->is_client || stream->status.code == MT_ECONN || stream->status.code == MT_ECANCELLED);
    if (stream->unread.first && stream->is_paused && is_lost)
        handler = NULL; /* what waits behind the pause is dropped */
    if (stream->unread.first && (!stream->is_paused || !handler)) {
        struct node *node = fifo_pop(&stream->unread);
        bool         is_next = stream_wants_receive_locked(stream);
        pthread_mutex_unlock(&stream->lock);
        if (is_next)
            stream_receive(stream);
        struct rpc_message message;
        rpc_message_open(&message, node->bytes);
        if (handler)
            handler->message(handler, stream, message.view);
        rpc_message_close(&message);
        free(node);
    } else if (stream->wants_drained && stream->unsent.bytes <= stream->queue_max / 2) {
        stream->wants_drained = false;
        pthread_mutex_unlock(&stream->lock);
        if (handler && handler->drained)
            handler->drained(handler, stream);
    } else if (stream->is_read_out && !stream->unread.first && !stream->is_client && !stream->is_ended_told) {
        stream->is_ended_told = true;
        pthread_mutex_unlock(&stream->lock);
        if (handler && handler->ended)
            handler->ended(handler, stream);
    } else if (stream_is_over_locked(stream)) {
        struct rpc_result result = {stream->status, stream->detail};
        stream->is_closed_told = true;
        pthread_mutex_unlock(&stream->lock);
        if (handler)
            handler->closed(handler, stream, &result);
        call_unref(stream); /* the one from rpc_stream_new; the wake-up that we run in has its own */
    } else {
        return false;
    }
    pthread_mutex_lock(&stream->lock);
    return true;
}

/* ---- life ---- */

grpc_call *rpc_stream_call(const struct rpc_stream *stream)
{
    return stream->live.call;
}

/* gRPC says "ipv4:127.0.0.1:80", "ipv6:[::1]:80", or that with its brackets as %5B and %5D. */
bool rpc_stream_host(const struct rpc_stream *stream, char *out, size_t size)
{
    char       *peer = grpc_call_get_peer(stream->live.call);
    char       *colon = peer ? strrchr(peer, ':') : NULL;
    const char *host = NULL;
    if (colon && strncmp(peer, "ipv4:", 5) == 0) {
        host = peer + 5;
    } else if (colon && strncmp(peer, "ipv6:", 5) == 0) {
        host = peer[5] == '[' ? peer + 6 : strncmp(peer + 5, "%5B", 3) == 0 ? peer + 8 : NULL;
        if (colon - peer > 3 && strncmp(colon - 3, "%5D", 3) == 0)
            colon -= 3;
        else if (colon[-1] == ']')
            colon--;
    }
    bool fits = host && host < colon && snprintf(out, size, "%.*s", (int)(colon - host), host) < (int)size;
    gpr_free(peer);
    return fits;
}

void rpc_stream_let_go(struct rpc_stream *stream)
{
    stream_unref(stream);
}

static void stream_unref(struct rpc_stream *stream)
{
    if (atomic_fetch_sub(&stream->refs, 1) != 1)
        return;
    pthread_mutex_destroy(&stream->lock);
    free(stream);
}

static void call_ref(struct rpc_stream *stream)
{
    atomic_fetch_add(&stream->call_refs, 1);
}

/* The last one gives gRPC's call back: no batch is under way and none will be started. */
static void call_unref(struct rpc_stream *stream)
{
    if (atomic_fetch_sub(&stream->call_refs, 1) != 1)
        return;
    struct node *node;
    while ((node = fifo_pop(&stream->unsent)))
        node_free(node);
    while ((node = fifo_pop(&stream->unread)))
        node_free(node);
    grpc_slice_unref(stream->detail_slice);
    grpc_metadata_array_destroy(&stream->initial);
    grpc_metadata_array_destroy(&stream->trailing);
    rpc_live_end(&stream->live);
    stream_unref(stream);
}

static void fifo_push(struct fifo *fifo, struct node *node)
{
    node->next = NULL;
    *fifo->end = node;
    fifo->end = &node->next;
    fifo->count++;
    fifo->bytes += node->size;
}

static struct node *fifo_pop(struct fifo *fifo)
{
    struct node *node = fifo->first;
    if (!node)
        return NULL;
    fifo->first = node->next;
    if (!fifo->first)
        fifo->end = &fifo->first;
    fifo->count--;
    fifo->bytes -= node->size;
    return node;
}

static void node_free(struct node *node)
{
    grpc_byte_buffer_destroy(node->bytes);
    free(node);
}
