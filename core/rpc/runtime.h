/* SPDX-License-Identifier: Apache-2.0
 *
 * runtime.h - what the files of core/rpc share; private. The only header that shows gRPC.
 */
#ifndef MT_RPC_RUNTIME_H
#define MT_RPC_RUNTIME_H

#include "core/base/release.h"
#include "core/io/tls/gate.h"
#include "core/io/io.h"
#include "core/io/listener.h"
#include "core/rpc/rpc.h"

#include <grpc/byte_buffer.h>
#include <grpc/byte_buffer_reader.h>
#include <grpc/grpc.h>
#include <grpc/grpc_posix.h>
#include <grpc/grpc_security.h>
#include <grpc/slice.h>

#include <pthread.h>
#include <stdatomic.h>

/* What stands behind a gRPC tag: `run` is called on the rpc thread when the batch is complete. */
struct rpc_op {
    void (*run)(struct rpc_op *op, bool ok);
};

/* The calls of one owner (the runtime's client calls, a server's calls), so that it can cancel them and wait until
 * gRPC has let go of all. */
struct rpc_live {
    struct rpc_live  *next, *back;
    struct rpc_scope *scope;
    grpc_call        *call;
    atomic_bool       is_cancelled; /* by this side */
    uint64_t          token;        /* of whoever made it (peer.h); 0: the cluster's own, or a call of ours */
};
struct rpc_scope {
    pthread_mutex_t  lock;
    struct rpc_live *first;
    atomic_size_t    count; /* changed under the lock; read without it for a bound */
};
void rpc_scope_init(struct rpc_scope *scope);
void rpc_scope_fini(struct rpc_scope *scope);
/* Adds a call, whose live->token is set; the scope does not own it. */
void rpc_live_add(struct rpc_scope *scope, struct rpc_live *live, grpc_call *call);
/* Removes it and gives gRPC's call back. Any thread. */
void rpc_live_end(struct rpc_live *live);

struct rpc {
    struct io_loop        *loop; /* or NULL */
    grpc_completion_queue *queue;
    pthread_t              thread;
    struct rpc_scope       clients;
};
/* Runs the loop's messages (if there is a loop) for at most `limit_ms`, until `is_done` says so. False: too late. */
bool rpc_wait(struct rpc *rpc, bool (*is_done)(void *what), void *what, uint64_t limit_ms);
bool rpc_scope_is_empty(void *scope); /* for rpc_wait */
/* Call it before gRPC is given a tag (rpc_start does): what was written so far is seen by `run`. */
void         rpc_op_give(struct rpc_op *op);
void         rpc_start(grpc_call *call, const grpc_op *ops, size_t count, struct rpc_op *tag);
gpr_timespec rpc_deadline(uint32_t timeout_ms); /* 0: never */

struct rpc_channel {
    struct rpc   *rpc;
    grpc_channel *channel;
    bool          has_token;
    grpc_slice    authorization; /* "Bearer ..." */
};
enum { RPC_HEADERS = 2 };
/* The first op of a client call; `storage` must live until the batch is started. */
grpc_op rpc_send_headers(const struct rpc_channel *channel, unsigned flags, grpc_metadata storage[RPC_HEADERS]);

/* ---- bytes.c: byte buffers and statuses ---- */

grpc_byte_buffer *rpc_bytes_copy(mt_view view);
/* Without a copy: `release` is called once, on any thread, when nobody needs the bytes any more. */
grpc_byte_buffer *rpc_bytes_borrow(mt_view view, void (*release)(void *owner), void *owner);
/* A received message as one piece. Takes `bytes` (may be NULL: an empty view). */
struct rpc_message {
    mt_view           view;
    grpc_byte_buffer *bytes;
    grpc_slice        flat;
    bool              is_flat, is_compressed; /* the peer compressed it, which nobody agreed to: the view is empty */
};
void rpc_message_open(struct rpc_message *message, grpc_byte_buffer *take_bytes);
void rpc_message_close(struct rpc_message *message);

grpc_status_code rpc_status_to_grpc(int32_t code);
/* The exact code travels in a trailing header beside gRPC's coarser one. */
#define RPC_CODE_HEADER "manta-code"
grpc_metadata rpc_code_header(int32_t code);
/* "MIN-MAX": the versions that this end speaks (core/base/release.h); of an answer in its trailing headers. */
#define RPC_WIRE_HEADER "manta-wire"
grpc_metadata rpc_wire_header(void);
/* What the other end speaks: MT_WIRE_FIRST where it does not say. */
struct mt_versions rpc_wire_of(const grpc_metadata_array *headers);
/* The status of a finished client call. */
mt_status rpc_status_from_grpc(grpc_status_code code, const grpc_metadata_array *trailing);
/* Copies a status text, cut to MT_ERROR_BYTES_MAX, unprintable bytes replaced. */
void rpc_detail_copy(char *out, const void *text, size_t size);

/* ---- stream.c ---- */

struct rpc_stream *rpc_stream_new(struct rpc *rpc, struct rpc_scope *scope, grpc_call *call, bool is_client, bool is_direct,
                                  uint64_t token);
/* Server side, once the handler is known: starts sending and receiving. */
void       rpc_stream_accept(struct rpc_stream *stream, struct rpc_stream_handler *handler);
grpc_call *rpc_stream_call(const struct rpc_stream *stream);
/* Gives up the owner's reference without cancelling: a stream without handler runs to its end by itself. */
void rpc_stream_let_go(struct rpc_stream *stream);

/* ---- conn.c: the connections of a server ---- */

struct rpc_conn;
struct rpc_conns {
    struct rpc              *rpc;
    grpc_server             *server;
    grpc_server_credentials *plain;
    struct io_gate          *gate; /* NULL: in clear */
    struct io_listener       listener;
    struct io_timer          sweep;                          /* runs while `unauthenticated` > 0 */
    struct io_timer          reap;                           /* runs while `trusted_count` > 0 */
    uint32_t unauthenticated_max, first_call_ms, held_up_ms; /* held_up_ms: the limit while others wait for a place */
    uint64_t dropped;

    pthread_mutex_t  lock;            /* of the rest */
    struct rpc_conn *fresh, *trusted; /* without and with a call that had the token */
    atomic_uint      unauthenticated, trusted_count;
    bool             is_held_up, is_resume_posted; /* accept waits for a place; a message says that some have shown the token */
    struct io_msg    resume;
};
mt_status rpc_conns_open(struct rpc_conns *conns, struct rpc *rpc, grpc_server *server, const struct rpc_server_config *config);
/* Forgets those that have ended, so that the counts are right. */
void rpc_conns_reap(struct rpc_conns *conns);
/* No new connections. */
void rpc_conns_stop(struct rpc_conns *conns);
/* After gRPC's server has ended. */
void rpc_conns_close(struct rpc_conns *conns);
/* This call had the token, so its connection may stay. False: it shows a ticket only, and stays a stranger's. Rpc thread. */
bool rpc_conns_trust(struct rpc_conns *conns, grpc_call *call);
/* Whom the other end of this call has shown to be. False: in clear, or it is gone. Any thread. */
bool rpc_conns_peer(struct rpc_conns *conns, grpc_call *call, struct io_tls_who *out);

#endif
