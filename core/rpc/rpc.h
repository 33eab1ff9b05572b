/* SPDX-License-Identifier: Apache-2.0
 *
 * rpc.h - the gRPC door: calls and streams of bytes between daemons, and from control clients to them.
 *
 * One `rpc` has one gRPC completion queue and one thread. What completes there is posted to the owner's io_loop, so
 * handlers and callbacks run on the loop, where the daemon's state lives; with RPC_DIRECT they run on the rpc thread
 * itself (data plane, and programs without a loop). Payloads are bytes; codec.h packs protobuf messages into them.
 *
 * Views that we hand to a callback are valid until it returns, unless said otherwise; views that are handed to us are
 * copied before the call returns. Every call carries the cluster token, and the versions that the caller speaks
 * (core/base/release.h); every server checks both in one place before any handler (EAUTH, EVERSION).
 */
#ifndef MT_RPC_RPC_H
#define MT_RPC_RPC_H

#include "core/base/buf.h"
#include "core/base/limits/net.h"
#include "core/base/limits/text.h"
#include "core/base/rights.h"
#include "core/base/status.h"
#include "core/io/tls/tls.h"
#include "core/io/token.h"

#include <stdbool.h>

struct io_loop;

/* How a call ended. */
struct rpc_result {
    mt_status   status; /* the code is the one that the peer's handler gave, or what gRPC reported */
    const char *detail; /* the peer's text, never NULL; valid as long as a view */
};

enum {
    RPC_DIRECT = 1,     /* callbacks run on the rpc thread, not on the loop */
    RPC_WAIT_READY = 2, /* client: wait for the connection, up to the deadline, instead of failing at once */
};

/* ---- runtime ---- */

struct rpc;
/* Starts gRPC, a completion queue and its thread. `loop` may be NULL: then only RPC_DIRECT and the blocking calls
 * work. No process that has called this may fork and go on using gRPC in the child. ENOMEM, ESYS; EAGAIN: too few descriptors. */
MT_MUST_USE mt_status rpc_new(struct io_loop *loop, struct rpc **out_rpc);
/* Cancels the client calls that are left, runs their callbacks, joins the thread. Servers and channels must be closed
 * before. Loop thread (any, without a loop). Blocks a few milliseconds. */
void rpc_free(struct rpc *rpc);

/* ---- server ---- */

struct rpc_server;
struct rpc_call;
struct rpc_stream;
struct rpc_service;
struct rpc_stream_handler;

enum {
    RPC_METHOD_OPEN = 4,    /* needs no token: must say nothing about the cluster (health, version) */
    RPC_METHOD_TICKET = 8,  /* needs none of whoever shows a ticket (core/io/tls/tls.h) */
    RPC_METHOD_GREETS = 16, /* its first message says which versions are spoken: who hears it refuses another one */
};
/* One line of a service's table: `unary` or `stream` is set. */
struct rpc_method {
    const char *name;  /* "/manta.v1.Head/Submit" */
    unsigned    flags; /* RPC_METHOD_OPEN, RPC_METHOD_TICKET; RPC_DIRECT for streams */
    /* Answers by rpc_call_reply or rpc_call_fail, now or later. `request` is valid until then. */
    void (*unary)(struct rpc_service *service, struct rpc_call *call, mt_view request);
    /* Takes the stream by giving the handler of its events, embedded in what the caller keeps for it; or refuses it by
     * NULL (the client gets MT_EAGAIN). */
    struct rpc_stream_handler *(*stream)(struct rpc_service *service, struct rpc_stream *stream);
    enum mt_right needs; /* what a token must be good for; NOTHING: everything, as the cluster's own */
};
/* Embedded in the daemon's own struct, so handlers find it. Borrowed until the server is closed. */
struct rpc_service {
    const struct rpc_method *methods;
    size_t                   count;
};
struct rpc_server_config {
    const char            *host; /* NULL: 127.0.0.1 */
    uint16_t               port; /* 0: a free one */
    const struct io_token *token;
    const struct io_tls   *tls;         /* borrowed until the server is closed; NULL: in clear, ... */
    bool                   is_insecure; /* ... and even then beyond loopback */
    bool                   has_tokens; /* named ones too (peer.h); until they are told, who shows another than the cluster's is sent
                                           on (MT_ENOTLEADER, RPC_TOKEN_NOT_HERE) */
    /* 0 takes the default, of core/base/limits/ */
    uint32_t connections_max, unauthenticated_max, first_call_ms, calls_max;
};
#define RPC_TOKEN_NOT_HERE "the token is not known here"
/* Listens and serves. EINVAL, EUNSUPPORTED (in clear, and not loopback), EEXIST (port taken), ENOMEM, ESYS. Loop thread. */
MT_MUST_USE mt_status rpc_server_open(struct rpc *rpc, struct rpc_service *service, const struct rpc_server_config *config,
                                      struct rpc_server **out_server);
/* No handler runs after this: calls that are not answered yet get MT_ECONN and their rpc_call is dead, streams get
 * `closed`. Blocks up to MT_SERVER_GRACE_MS. Loop thread, but in no callback of this server. */
void     rpc_server_close(struct rpc_server *server);
uint16_t rpc_server_port(const struct rpc_server *server);

/* Each call is answered exactly once, by one of these; it is dead afterwards. Loop thread. */
void rpc_call_reply(struct rpc_call *call, mt_view reply);
void rpc_call_fail(struct rpc_call *call, mt_status status, const char *detail);
/* Tells once when nobody waits for the answer any more: the client has gone (at once where it has gone already), or the
 * server closes. The answer must still be given; when the server closes, before `run` returns, or the call is answered
 * with MT_ECONN and dead. `gone` is the caller's, valid until the answer. Loop thread. */
struct rpc_gone {
    void (*run)(struct rpc_gone *gone);
};
void rpc_call_on_gone(struct rpc_call *call, struct rpc_gone *gone);

/* The line of manta.v1.Health in a service's table, the same in every daemon: says without a token that the process answers. */
void rpc_health_check(struct rpc_service *service, struct rpc_call *call, mt_view request);
#define RPC_HEALTH \
    { \
        .name = "/manta.v1.Health/Check", .flags = RPC_METHOD_OPEN, .unary = rpc_health_check \
    }

/* ---- client ---- */

struct rpc_channel;
struct rpc_channel_config {
    const char            *target;      /* "127.0.0.1:6380", "[::1]:6380", or a name with a port */
    const struct io_token *token;       /* copied; NULL sends none (only open methods will answer) */
    const struct io_tls   *tls;         /* who we are; used during the call only; NULL: in clear, ... */
    enum io_tls_role       peer;        /* with tls: who must be there */
    bool                   is_insecure; /* ... and even then beyond loopback */
    uint32_t               silent_ms;   /* a connection that is silent so long is asked; 0: MT_KEEPALIVE_MS */
};
/* A connection of its own, made at the first call and again after each loss. EINVAL, EUNSUPPORTED (in clear, and not a number of
 * loopback or "localhost"), ENOMEM. Any thread. */
MT_MUST_USE mt_status rpc_channel_open(struct rpc *rpc, const struct rpc_channel_config *config, struct rpc_channel **out_channel);
/* Calls in flight go on or fail with MT_ECONN. */
void rpc_channel_close(struct rpc_channel *channel);
/* Forgets the back-off and dials now: the peer is known to be back. Any thread. */
void rpc_channel_kick(struct rpc_channel *channel);

/* One request, one reply. Embed it in what waits; it stays there until `done`. */
struct rpc_unary {
    void (*done)(struct rpc_unary *unary, const struct rpc_result *result, mt_view reply);
    struct rpc_unary_impl *impl; /* private; NULL when not under way */
};
/* `done` runs exactly once if this succeeds, never inside it. timeout_ms > 0. flags: RPC_DIRECT, RPC_WAIT_READY.
 * EINVAL, ENOMEM. Any thread. */
MT_MUST_USE mt_status rpc_unary_start(struct rpc_channel *channel, struct rpc_unary *unary, const char *method, mt_view request,
                                      uint32_t timeout_ms, unsigned flags);
/* A call that nobody here has cancelled never ends so: where the server lets go of it, that is MT_ECONN.
 * `done` comes soon, with MT_ECANCELLED if nothing else was quicker. Loop thread, without RPC_DIRECT. */
void rpc_unary_cancel(struct rpc_unary *unary);

/* ---- streams, the same on both sides ---- */

/* Embed it in what keeps the stream; it must stay until `closed` or rpc_stream_free. Callbacks of one stream never
 * overlap. Each but `message` and `closed` may be NULL. */
struct rpc_stream_handler {
    void (*message)(struct rpc_stream_handler *handler, struct rpc_stream *stream, mt_view message);
    /* A send had been refused with MT_EAGAIN; half of the queue is free now. */
    void (*drained)(struct rpc_stream_handler *handler, struct rpc_stream *stream);
    /* Server side: the client sends nothing more (it still reads). */
    void (*ended)(struct rpc_stream_handler *handler, struct rpc_stream *stream);
    /* Last: the stream is over. Free it here or later. */
    void (*closed)(struct rpc_stream_handler *handler, struct rpc_stream *stream, const struct rpc_result *result);
};
struct rpc_stream_config {
    const char *method;
    uint32_t    timeout_ms; /* of the whole stream; 0: none */
    unsigned    flags;      /* RPC_DIRECT, RPC_WAIT_READY */
};
/* EINVAL, ENOMEM. Any thread. */
MT_MUST_USE mt_status rpc_stream_open(struct rpc_channel *channel, const struct rpc_stream_config *config,
                                      struct rpc_stream_handler *handler, struct rpc_stream **out_stream);
/* Queues one message; they arrive in order. EAGAIN: the queue is full (an empty one takes any message up to
 * MT_CONTROL_BYTES_MAX), `drained` will tell. ECONN: the stream is over. EINVAL: too large, or after the end. Any thread
 * that knows that the stream is not freed. */
MT_MUST_USE mt_status rpc_stream_send(struct rpc_stream *stream, mt_view message);
/* The same without a copy: the bytes stay as they are until `release` is called with `owner`: once, on any thread, perhaps in this
 * call, also where it fails. So what is sent to thousands is in memory once. */
MT_MUST_USE mt_status rpc_stream_send_borrowed(struct rpc_stream *stream, mt_view message, void (*release)(void *owner),
                                               void *owner);
/* Client: nothing more to send. Server: the stream ends with this status. Both after what is queued. */
void rpc_stream_end(struct rpc_stream *stream);
void rpc_stream_finish(struct rpc_stream *stream, mt_status status, const char *detail);
/* Both ends get `closed` soon; what is queued is dropped. */
void rpc_stream_cancel(struct rpc_stream *stream);
/* No `message` comes until resume; what the peer may still send is bounded, then it is held up. A client whose server
 * has ended the stream gets `closed` only after it has resumed and read the rest; when the connection is lost, or on the
 * server once the client has gone, the rest is dropped and `closed` comes at once. */
void rpc_stream_pause(struct rpc_stream *stream);
void rpc_stream_resume(struct rpc_stream *stream);
/* Bound of the send queue; MT_STREAM_QUEUE_BYTES at the start. */
void rpc_stream_set_queue(struct rpc_stream *stream, size_t bytes_max);
/* Gives the stream back; cancels it where it is not over, and no callback comes any more. Loop thread; with
 * RPC_DIRECT only in or after `closed`. */
void rpc_stream_free(struct rpc_stream *stream);

/* ---- for programs without a loop; they block the caller and work from any thread but a callback's ---- */

/* `out_reply` is the caller's to free; it and `detail` (MT_ERROR_BYTES_MAX bytes, or NULL) are written on success and on
 * failure, respectively. */
MT_MUST_USE mt_status rpc_call_blocking(struct rpc_channel *channel, const char *method, mt_view request, uint32_t timeout_ms,
                                        unsigned flags, mt_buf *out_reply, char *detail);

/* The same in two halves, so that the caller may do something else meanwhile. What was asked must be answered. */
struct rpc_asked;
MT_MUST_USE mt_status rpc_ask(struct rpc_channel *channel, const char *method, mt_view request, uint32_t timeout_ms, unsigned flags,
                              struct rpc_asked **out_asked);
MT_MUST_USE mt_status rpc_answer(struct rpc_asked *take_asked, mt_buf *out_reply, char *detail);

struct rpc_reader; /* one request, then messages from the server until it ends */
MT_MUST_USE mt_status rpc_reader_open(struct rpc_channel *channel, const struct rpc_stream_config *config, mt_view request,
                                      struct rpc_reader **out_reader);
/* The next message. ENOENT: the server has ended the stream with success. ETIMEDOUT: none came in time; ask again.
 * Anything else: how it failed, `detail` as above. */
MT_MUST_USE mt_status rpc_reader_next(struct rpc_reader *reader, uint32_t timeout_ms, mt_buf *out_message, char *detail);
void                  rpc_reader_close(struct rpc_reader *reader);

#endif
