/* SPDX-License-Identifier: Apache-2.0
 *
 * server.c - server side: calls arrive, are checked, and go to the handler in the service's table.
 *
 * One request per method is armed with gRPC, and one more for names that the table lacks; each is armed again
 * as soon as it has caught a call. The check stands in arrival_check, before anything of the call is read:
 * whoever lacks the token gets 16 (UNAUTHENTICATED) for known and unknown names alike, and not one byte of
 * his message is taken.
 *
 * Owns:    every rpc_call until it is answered and gRPC has let go; streams are their handlers'.
 * Thread:  arrivals on the rpc thread; handlers on the loop (streams with RPC_DIRECT: on the rpc thread).
 */
#include "core/rpc/stats.h"
#include "core/rpc/tokens.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

struct arrival {
    struct rpc_op            op;
    struct rpc_server       *server;
    const struct rpc_method *method;     /* NULL: the one for unknown names */
    void                    *registered; /* gRPC's handle of the method */
    grpc_call               *call;
    grpc_call_details        details;
    gpr_timespec             deadline;
    grpc_metadata_array      headers;
};

struct rpc_server {
    struct rpc         *rpc;
    struct rpc_service *service;
    grpc_server        *grpc;
    struct io_token     token;
    struct rpc_conns    conns;
    struct rpc_tokens   tokens;
    struct rpc_scope    scope; /* calls and streams */
    struct rpc_op       down_op;
    atomic_bool         is_down; /* gRPC's server has ended */
    atomic_bool         is_closing;
    atomic_uint         armed;    /* arrivals that gRPC holds */
    atomic_uint         replying; /* answers on their way */
    uint32_t            calls_max;
    atomic_ullong       count_calls, count_token, count_unknown, count_busy;
    pthread_mutex_t     lock;
    struct rpc_call    *unanswered;
    size_t              arrivals_count;
    struct arrival      arrivals[];
};

/* One unary call. */
struct rpc_call {
    struct rpc_live          live;
    struct rpc_server       *server;
    const struct rpc_method *method;
    atomic_uint              refs; /* one until it is answered, one per batch or message under way */
    struct rpc_op            request_op, gone_op, reply_op;
    struct io_msg            request_msg, gone_msg;
    struct rpc_message       request;
    grpc_byte_buffer        *received, *reply;
    int                      is_cancelled;
    bool                     is_gone;      /* loop thread */
    struct rpc_gone         *gone;         /* loop thread */
    struct rpc_call         *next, **link; /* in server->unanswered, under its lock; link NULL: not there */
};

/* A call that goes no further; it only needs its status sent. */
struct refusal {
    struct rpc_live live;
    struct rpc_op   op;
    int             is_cancelled;
};

/* A stream on its way to its handler. */
struct opening {
    struct io_msg            msg;
    struct rpc_server       *server;
    const struct rpc_method *method;
    struct rpc_stream       *stream;
};

static grpc_server *server_create(void);
static void         server_arm(struct arrival *arrival);
static void         server_down(struct rpc_op *op, bool ok);
static bool         server_has_replied(void *what);
static bool         server_is_over(void *what);
static void         arrival_caught(struct rpc_op *op, bool ok);
static int32_t      arrival_check(struct rpc_server *server, const struct rpc_method *method, grpc_call *call,
                                  const grpc_metadata_array *headers, uint64_t *out_token, char text[MT_ERROR_BYTES_MAX]);
static int32_t      who_asks(struct rpc_server *server, const grpc_metadata_array *headers, struct rpc_token *out);
static void         refuse(struct rpc_server *server, grpc_call *call, int32_t code, const char *text);
static void         refused(struct rpc_op *op, bool ok);
static void         call_start(struct rpc_server *server, const struct rpc_method *method, grpc_call *call, uint64_t token);
static void         call_received(struct rpc_op *op, bool ok);
static void         call_handle(struct io_msg *msg);
static void         call_closed(struct rpc_op *op, bool ok);
static void         call_tell_gone(struct io_msg *msg);
static bool         call_take(struct rpc_call *call);
static void         call_answer(struct rpc_call *call, mt_view reply, int32_t code, const char *detail);
static void         call_replied(struct rpc_op *op, bool ok);
static void         call_unref(struct rpc_call *call);
static void         stream_start(struct rpc_server *server, const struct rpc_method *method, grpc_call *call, uint64_t token);
static void         stream_handle(struct io_msg *msg);

/* ---- life of a server ---- */

mt_status rpc_server_open(struct rpc *rpc, struct rpc_service *service, const struct rpc_server_config *config,
                          struct rpc_server **out_server)
{
    if (!rpc->loop || !config->token || strlen(config->token->hex) != IO_TOKEN_HEX)
        return mt_error(MT_EINVAL, 0, "a server needs a loop and a token");
    IO_ON_LOOP(rpc->loop);
    struct rpc_server *server = calloc(1, sizeof *server + (service->count + 1) * sizeof server->arrivals[0]);
    if (!server)
        return mt_error(MT_ENOMEM, 0, "rpc server");
    server->rpc = rpc;
    server->service = service;
    server->token = *config->token;
    server->calls_max = config->calls_max ? config->calls_max : MT_CALLS_OPEN_MAX;
    server->down_op.run = server_down;
    server->grpc = server_create();
    grpc_server_register_completion_queue(server->grpc, rpc->queue, NULL);
    server->arrivals_count = service->count + 1;
    for (size_t i = 0; i < server->arrivals_count; i++) {
        struct arrival *arrival = &server->arrivals[i];
        arrival->op.run = arrival_caught;
        arrival->server = server;
        grpc_metadata_array_init(&arrival->headers);
        grpc_call_details_init(&arrival->details);
        if (i == service->count)
            break;
        arrival->method = &service->methods[i];
        arrival->registered = grpc_server_register_method(server->grpc, arrival->method->name, NULL, GRPC_SRM_PAYLOAD_NONE, 0);
        MT_ASSERT(arrival->registered && !arrival->method->unary != !arrival->method->stream);
        MT_ASSERT(!arrival->method->unary || !(arrival->method->flags & RPC_DIRECT));
    }
    mt_status st = rpc_conns_open(&server->conns, rpc, server->grpc, config);
    if (st.code) {
        grpc_server_destroy(server->grpc);
        free(server);
        return st;
    }
    rpc_scope_init(&server->scope);
    rpc_tokens_init(&server->tokens, !config->has_tokens);
    pthread_mutex_init(&server->lock, NULL);
    grpc_server_start(server->grpc);
    for (size_t i = 0; i < server->arrivals_count; i++)
        server_arm(&server->arrivals[i]);
    *out_server = server;
    return mt_ok();
}

void rpc_server_close(struct rpc_server *server)
{
    struct rpc_call *call;
    IO_ON_LOOP(server->rpc->loop);
    atomic_store(&server->is_closing, true);
    rpc_conns_stop(&server->conns);
    rpc_op_give(&server->down_op);
    grpc_server_shutdown_and_notify(server->grpc, server->rpc->queue, &server->down_op);
    for (;;) {
        pthread_mutex_lock(&server->lock);
        call = server->unanswered;
        pthread_mutex_unlock(&server->lock);
        if (!call)
            break;
        if (call->gone && !call->is_gone) { /* whoever keeps something for the call lets go of it, and may answer */
            call->is_gone = true;
            call->gone->run(call->gone);
        } else {
            rpc_call_fail(call, mt_error(MT_ECONN, 0, "the server is stopping"), NULL);
        }
    }
    /* Let the last replies out, then end what is left: streams, and clients that do not read. */
    (void)rpc_wait(server->rpc, server_has_replied, server, MT_SERVER_GRACE_MS);
    grpc_server_cancel_all_calls(server->grpc);
    bool is_over = rpc_wait(server->rpc, server_is_over, server, MT_CLOSE_MS_MAX);
    MT_ASSERT(is_over);

    grpc_server_destroy(server->grpc);
    rpc_conns_close(&server->conns);
    for (size_t i = 0; i < server->arrivals_count; i++) {
        grpc_metadata_array_destroy(&server->arrivals[i].headers);
        grpc_call_details_destroy(&server->arrivals[i].details);
    }
    rpc_scope_fini(&server->scope);
    rpc_tokens_fini(&server->tokens);
    pthread_mutex_destroy(&server->lock);
    io_token_wipe(&server->token);
    free(server);
}

void rpc_health_check(struct rpc_service *service, struct rpc_call *call, mt_view request)
{
    static const uint8_t serving[] = {0x08, 0x01}; /* HealthReply.serving = true */
    (void)service;
    (void)request;
    rpc_call_reply(call, (mt_view){serving, sizeof serving});
}

uint16_t rpc_server_port(const struct rpc_server *server)
{
    return server->conns.listener.port;
}

void rpc_server_stats(struct rpc_server *server, struct rpc_server_stats *out)
{
    IO_ON_LOOP(server->rpc->loop);
    rpc_conns_reap(&server->conns);
    out->unauthenticated = atomic_load(&server->conns.unauthenticated);
    out->connections = out->unauthenticated + atomic_load(&server->conns.trusted_count);
    out->calls = atomic_load(&server->count_calls);
    out->refused_token = atomic_load(&server->count_token);
    out->refused_unknown = atomic_load(&server->count_unknown);
    out->refused_busy = atomic_load(&server->count_busy);
    out->dropped_unauthenticated = server->conns.dropped;
    out->silent = server->conns.listener.silent.count;
    out->dropped_silent = server->conns.listener.silent.dropped;
    out->refused_bound = server->conns.listener.count.refused_bound;
    out->refused_fds = server->conns.listener.count.refused_fds;
    out->refused_tls = server->conns.gate ? io_gate_refused(server->conns.gate) : 0;
}

bool rpc_call_peer(const struct rpc_call *call, struct io_tls_who *out)
{
    return rpc_conns_peer(&call->server->conns, call->live.call, out);
}

bool rpc_stream_peer(struct rpc_server *server, const struct rpc_stream *stream, struct io_tls_who *out)
{
    return rpc_conns_peer(&server->conns, rpc_stream_call(stream), out);
}

mt_status rpc_server_tokens(struct rpc_server *server, const struct rpc_token *list, size_t count, bool are_all)
{
    MT_TRY(rpc_tokens_set(&server->tokens, list, count, are_all));
    rpc_tokens_cut(&server->tokens, &server->scope);
    return mt_ok();
}

uint64_t rpc_call_token(const struct rpc_call *call)
{
    return call->live.token;
}

void rpc_server_drop_revoked(struct rpc_server *server)
{
    if (server->conns.gate)
        io_gate_drop_revoked(server->conns.gate);
}

static grpc_server *server_create(void)
{
    static const struct {
        const char *key;
        int         value;
    } settings[] = {
        {GRPC_ARG_ENABLE_CHANNELZ, 0},
        {GRPC_ARG_ENABLE_PER_MESSAGE_COMPRESSION, 0},
        {GRPC_ARG_ENABLE_PER_MESSAGE_DECOMPRESSION, 0}, /* a small message must not become a large one */
        {GRPC_ARG_MAX_RECEIVE_MESSAGE_LENGTH, MT_CONTROL_BYTES_MAX},
        {GRPC_ARG_MAX_METADATA_SIZE, MT_METADATA_BYTES_MAX},
        {GRPC_ARG_MAX_CONCURRENT_STREAMS, MT_CONN_STREAMS_MAX},
        {GRPC_ARG_MAX_CONNECTION_IDLE_MS, MT_CONN_IDLE_MS},
        {GRPC_ARG_HTTP2_BDP_PROBE, 0}, /* as a channel's */
        {GRPC_ARG_HTTP2_STREAM_LOOKAHEAD_BYTES, MT_RPC_WINDOW_BYTES},
        {GRPC_ARG_KEEPALIVE_TIME_MS, MT_KEEPALIVE_SERVER_MS},
        {GRPC_ARG_KEEPALIVE_TIMEOUT_MS, MT_KEEPALIVE_ANSWER_MS},
        {GRPC_ARG_HTTP2_MAX_PINGS_WITHOUT_DATA, 0},
        /* Our clients ask every MT_KEEPALIVE_MS; half of that is not rude. */
        {GRPC_ARG_HTTP2_MIN_RECV_PING_INTERVAL_WITHOUT_DATA_MS, MT_KEEPALIVE_MS / 2},
    };
    enum { COUNT = sizeof settings / sizeof settings[0] };
    grpc_arg args[COUNT + 1];
    for (size_t i = 0; i < COUNT; i++) {
        args[i].type = GRPC_ARG_INTEGER;
        args[i].key = (char *)settings[i].key;
        args[i].value.integer = settings[i].value;
    }
    grpc_resource_quota *quota = grpc_resource_quota_create("manta");
    grpc_resource_quota_resize(quota, MT_RPC_BYTES_MAX);
    args[COUNT].type = GRPC_ARG_POINTER;
    args[COUNT].key = (char *)GRPC_ARG_RESOURCE_QUOTA;
    args[COUNT].value.pointer.p = quota;
    args[COUNT].value.pointer.vtable = grpc_resource_quota_arg_vtable();
    grpc_channel_args all = {COUNT + 1, args};
    grpc_server      *server = grpc_server_create(&all, NULL);
    grpc_resource_quota_unref(quota);
    return server;
}

static void server_down(struct rpc_op *op, bool ok)
{
    struct rpc_server *server = mt_container_of(op, struct rpc_server, down_op);
    (void)ok;
    atomic_store(&server->is_down, true);
}

static bool server_has_replied(void *what)
{
    struct rpc_server *server = what;
    return atomic_load(&server->replying) == 0;
}

static bool server_is_over(void *what)
{
    struct rpc_server *server = what;
    return atomic_load(&server->is_down) && atomic_load(&server->armed) == 0 && rpc_scope_is_empty(&server->scope);
}

/* ---- arrivals ---- */

static void server_arm(struct arrival *arrival)
{
    struct rpc_server     *server = arrival->server;
    grpc_completion_queue *queue = server->rpc->queue;
    grpc_call_error        err;
    atomic_fetch_add(&server->armed, 1);
    rpc_op_give(&arrival->op);
    if (arrival->method)
        err = grpc_server_request_registered_call(server->grpc, arrival->registered, &arrival->call, &arrival->deadline,
                                                  &arrival->headers, NULL, queue, queue, &arrival->op);
    else
        err = grpc_server_request_call(server->grpc, &arrival->call, &arrival->details, &arrival->headers, queue, queue,
                                       &arrival->op);
    MT_ASSERT(err == GRPC_CALL_OK);
}

static void arrival_caught(struct rpc_op *op, bool ok)
{
    struct arrival          *arrival = mt_container_of(op, struct arrival, op);
    struct rpc_server       *server = arrival->server;
    const struct rpc_method *method = arrival->method;
    grpc_call               *call = arrival->call;
    char                     text[MT_ERROR_BYTES_MAX];
    uint64_t                 token = 0, version = rpc_tokens_version(&server->tokens);

    if (!ok) { /* the server is ending */
        atomic_fetch_sub(&server->armed, 1);
        return;
    }
    int32_t code = arrival_check(server, method, call, &arrival->headers, &token, text);
    grpc_metadata_array_destroy(&arrival->headers);
    grpc_metadata_array_init(&arrival->headers);
    if (!method) {
        grpc_call_details_destroy(&arrival->details);
        grpc_call_details_init(&arrival->details);
    }
    /* A call joins the scope before the arrival is armed again or ends, so rpc_server_close sees the one or
     * the other; armed again after gRPC's shutdown, it comes back at once with ok false. */
    if (code)
        refuse(server, call, code, text);
    else if (method->unary)
        call_start(server, method, call, token);
    else
        stream_start(server, method, call, token);
    if (token && version != rpc_tokens_version(&server->tokens))
        rpc_tokens_cut(&server->tokens, &server->scope); /* the list changed between the look at it and now */
    server_arm(arrival);
    atomic_fetch_sub(&server->armed, 1);
}

static bool needs_no_token(struct rpc_server *server, const struct rpc_method *method, grpc_call *call)
{
    struct io_tls_who who;
    return method->flags & RPC_METHOD_OPEN ||
           (method->flags & RPC_METHOD_TICKET && rpc_conns_peer(&server->conns, call, &who) && who.role == IO_TLS_TICKET);
}

/* Why this bearer is not let in at all. */
static int32_t refuse_bearer(int32_t code, const struct rpc_token *who, char text[MT_ERROR_BYTES_MAX])
{
    if (code == MT_ENOTLEADER)
        snprintf(text, MT_ERROR_BYTES_MAX, RPC_TOKEN_NOT_HERE); /* ask another head, or this one again */
    else if (code || who->right)
        snprintf(text, MT_ERROR_BYTES_MAX, "the cluster token is missing or wrong");
    else
        snprintf(text, MT_ERROR_BYTES_MAX, "the token \"%s\" %s", who->name, who->is_ended ? "has ended" : "was revoked");
    return code ? code : MT_EAUTH;
}

static bool may(const struct rpc_method *method, const struct rpc_token *who, char text[MT_ERROR_BYTES_MAX])
{
    enum mt_right needs = method->needs ? method->needs : MT_MAY_ADMIN;
    if (who->right >= needs)
        return true;
    snprintf(text, MT_ERROR_BYTES_MAX, "the token \"%s\" is good for %s; this needs %s", who->name, mt_right_text(who->right),
             mt_right_text(needs));
    return false;
}

/* The one place where a call is let in. 0, or why not. */
static int32_t arrival_check(struct rpc_server *server, const struct rpc_method *method, grpc_call *call,
                             const grpc_metadata_array *headers, uint64_t *out_token, char text[MT_ERROR_BYTES_MAX])
{
    struct mt_versions theirs = rpc_wire_of(headers), ours = mt_release.wire;
    struct rpc_token   who = {0};
    int32_t            code = who_asks(server, headers, &who);
    bool               is_open = method && needs_no_token(server, method, call);
    bool               is_trusted = !code && who.right && rpc_conns_trust(&server->conns, call);
    if (!is_trusted && !is_open) {
        atomic_fetch_add(&server->count_token, 1);
        return refuse_bearer(code, &who, text);
    }
    if (!method) {
        atomic_fetch_add(&server->count_unknown, 1);
        snprintf(text, MT_ERROR_BYTES_MAX, "no such method");
        return MT_EUNSUPPORTED;
    }
    if (!is_open && !may(method, &who, text)) {
        atomic_fetch_add(&server->count_token, 1);
        return MT_EAUTH;
    }
    if (!mt_versions_common(theirs, ours) && !(method->flags & (RPC_METHOD_OPEN | RPC_METHOD_GREETS))) {
        snprintf(text, MT_ERROR_BYTES_MAX,
                 "the caller speaks versions %u to %u, this end (release %s) speaks %u to %u: use the same release", theirs.min,
                 theirs.max, mt_release.name, ours.min, ours.max);
        return MT_EVERSION;
    }
    if (atomic_load(&server->scope.count) >= server->calls_max) {
        atomic_fetch_add(&server->count_busy, 1);
        snprintf(text, MT_ERROR_BYTES_MAX, "too many calls at a time");
        return MT_EAGAIN;
    }
    if (atomic_load(&server->is_closing)) {
        snprintf(text, MT_ERROR_BYTES_MAX, "the server is stopping");
        return MT_ECONN;
    }
    atomic_fetch_add(&server->count_calls, 1);
    *out_token = is_trusted ? who.number : 0;
    return MT_OK;
}

/* Exactly one authorization header, with the cluster's token, or a named one (*out: NOTHING where it is refused). EAUTH; ENOTLEADER
 * where another head may know it. */
static int32_t who_asks(struct rpc_server *server, const grpc_metadata_array *headers, struct rpc_token *out)
{
    static const char scheme[] = "Bearer ";
    enum { SCHEME = sizeof scheme - 1 };
    const char *text = NULL;
    size_t      size = 0;
    unsigned    found = 0;
    for (size_t i = 0; i < headers->count; i++) {
        if (grpc_slice_str_cmp(headers->metadata[i].key, "authorization"))
            continue;
        text = (const char *)GRPC_SLICE_START_PTR(headers->metadata[i].value);
        size = GRPC_SLICE_LENGTH(headers->metadata[i].value);
        found++;
    }
    if (found != 1 || size != SCHEME + IO_TOKEN_HEX || memcmp(text, scheme, SCHEME) != 0)
        return MT_EAUTH;
    if (!io_token_equal(&server->token, text + SCHEME, size - SCHEME))
        return rpc_tokens_find(&server->tokens, text + SCHEME, size - SCHEME, out);
    *out = (struct rpc_token){.right = MT_MAY_ADMIN, .name = MT_ADMIN_NAME};
    return MT_OK;
}

static void refuse(struct rpc_server *server, grpc_call *call, int32_t code, const char *text)
{
    struct refusal *refusal = calloc(1, sizeof *refusal);
    if (!refusal) { /* then without a reason */
        grpc_call_cancel(call, NULL);
        grpc_call_unref(call);
        return;
    }
    grpc_slice    detail = grpc_slice_from_copied_string(text);
    grpc_metadata header = rpc_code_header(code);
    grpc_op       ops[3] = {
              {.op = GRPC_OP_SEND_INITIAL_METADATA}, {.op = GRPC_OP_SEND_STATUS_FROM_SERVER}, {.op = GRPC_OP_RECV_CLOSE_ON_SERVER}};
    ops[1].data.send_status_from_server.status = rpc_status_to_grpc(code);
    ops[1].data.send_status_from_server.status_details = &detail;
    ops[1].data.send_status_from_server.trailing_metadata = &header;
    ops[1].data.send_status_from_server.trailing_metadata_count = 1;
    ops[2].data.recv_close_on_server.cancelled = &refusal->is_cancelled;
    refusal->op.run = refused;
    rpc_live_add(&server->scope, &refusal->live, call);
    rpc_start(call, ops, 3, &refusal->op);
    grpc_slice_unref(detail);
}

static void refused(struct rpc_op *op, bool ok)
{
    struct refusal *refusal = mt_container_of(op, struct refusal, op);
    (void)ok;
    rpc_live_end(&refusal->live);
    free(refusal);
}

/* ---- unary calls ---- */

static void call_start(struct rpc_server *server, const struct rpc_method *method, grpc_call *grpc, uint64_t token)
{
    struct rpc_call *call = calloc(1, sizeof *call);
    if (!call) {
        refuse(server, grpc, MT_ENOMEM, "out of memory");
        return;
    }
    call->server = server;
    call->method = method;
    call->request_op.run = call_received;
    call->gone_op.run = call_closed;
    call->reply_op.run = call_replied;
    call->request_msg.run = call_handle;
    call->gone_msg.run = call_tell_gone;
    atomic_init(&call->refs, 3); /* the answer, the request, the close */
    call->live.token = token;
    rpc_live_add(&server->scope, &call->live, grpc);
    pthread_mutex_lock(&server->lock);
    call->next = server->unanswered;
    call->link = &server->unanswered;
    if (call->next)
        call->next->link = &call->next;
    server->unanswered = call;
    pthread_mutex_unlock(&server->lock);

    grpc_op closed = {.op = GRPC_OP_RECV_CLOSE_ON_SERVER};
    closed.data.recv_close_on_server.cancelled = &call->is_cancelled;
    grpc_op recv = {.op = GRPC_OP_RECV_MESSAGE};
    recv.data.recv_message.recv_message = &call->received;
    rpc_start(grpc, &closed, 1, &call->gone_op);
    rpc_start(grpc, &recv, 1, &call->request_op);
}

static void call_received(struct rpc_op *op, bool ok)
{
    struct rpc_call *call = mt_container_of(op, struct rpc_call, request_op);
    (void)ok; /* then `received` is NULL */
    io_loop_post(call->server->rpc->loop, &call->request_msg);
}

static void call_handle(struct io_msg *msg)
{
    struct rpc_call   *call = mt_container_of(msg, struct rpc_call, request_msg);
    struct rpc_server *server = call->server;
    pthread_mutex_lock(&server->lock);
    bool is_answered = !call->link; /* by rpc_server_close, meanwhile */
    pthread_mutex_unlock(&server->lock);
    if (is_answered) {
        grpc_byte_buffer_destroy(call->received);
    } else {
        rpc_message_open(&call->request, call->received);
        if (!call->request.bytes || call->request.is_compressed)
            rpc_call_fail(call, mt_error(MT_EPROTO, 0, "no plain message in the request"), NULL);
        else if (atomic_load(&server->is_closing))
            rpc_call_fail(call, mt_error(MT_ECONN, 0, "the server is stopping"), NULL);
        else
            call->method->unary(server->service, call, call->request.view);
    }
    call_unref(call);
}

/* The client has gone, or has its answer. */
static void call_closed(struct rpc_op *op, bool ok)
{
    struct rpc_call *call = mt_container_of(op, struct rpc_call, gone_op);
    (void)ok;
    if (call->is_cancelled)
        io_loop_post(call->server->rpc->loop, &call->gone_msg);
    else
        call_unref(call);
}

static void call_tell_gone(struct io_msg *msg)
{
    struct rpc_call *call = mt_container_of(msg, struct rpc_call, gone_msg);
    pthread_mutex_lock(&call->server->lock);
    bool is_answered = !call->link;
    pthread_mutex_unlock(&call->server->lock);
    bool is_told = call->is_gone;
    call->is_gone = true;
    if (!is_answered && !is_told && call->gone)
        call->gone->run(call->gone);
    call_unref(call);
}

void rpc_call_on_gone(struct rpc_call *call, struct rpc_gone *gone)
{
    IO_ON_LOOP(call->server->rpc->loop);
    call->gone = gone;
    if (call->is_gone)
        gone->run(gone);
}

void rpc_call_reply(struct rpc_call *call, mt_view reply)
{
    if (reply.size > MT_CONTROL_BYTES_MAX)
        rpc_call_fail(call, mt_error(MT_EINTERNAL, 0, "the reply is larger than MT_CONTROL_BYTES_MAX"), NULL);
    else
        call_answer(call, reply, MT_OK, "");
}

void rpc_call_fail(struct rpc_call *call, mt_status status, const char *detail)
{
    mt_view none = mt_view_of(NULL, 0);
    MT_ASSERT(status.code != MT_OK);
    call_answer(call, none, status.code, detail ? detail : status.what ? status.what : "");
}

/* True for the first answer. */
static bool call_take(struct rpc_call *call)
{
    pthread_mutex_lock(&call->server->lock);
    bool is_first = call->link != NULL;
    if (is_first) {
        *call->link = call->next;
        if (call->next)
            call->next->link = call->link;
        call->link = NULL;
    }
    pthread_mutex_unlock(&call->server->lock);
    return is_first;
}

static void call_answer(struct rpc_call *call, mt_view reply, int32_t code, const char *detail)
{
    char text[MT_ERROR_BYTES_MAX];
    bool is_first = call_take(call);
    MT_ASSERT(is_first);
    if (!is_first)
        return;
    rpc_detail_copy(text, detail, strlen(detail));
    grpc_slice    detail_slice = grpc_slice_from_copied_string(text);
    grpc_metadata headers[2] = {rpc_wire_header(), rpc_code_header(code)};
    grpc_op       ops[3] = {{.op = GRPC_OP_SEND_INITIAL_METADATA}, {.op = GRPC_OP_SEND_STATUS_FROM_SERVER}};
    size_t        count = 2;
    ops[1].data.send_status_from_server.status = rpc_status_to_grpc(code);
    ops[1].data.send_status_from_server.status_details = &detail_slice;
    ops[1].data.send_status_from_server.trailing_metadata = headers;
    ops[1].data.send_status_from_server.trailing_metadata_count = code ? 2 : 1;
    if (!code) {
        call->reply = rpc_bytes_copy(reply);
        ops[count].op = GRPC_OP_SEND_MESSAGE;
        ops[count++].data.send_message.send_message = call->reply;
    }
    atomic_fetch_add(&call->server->replying, 1);
    rpc_start(call->live.call, ops, count, &call->reply_op); /* the answer's reference goes with it */
    grpc_slice_unref(detail_slice);
}

static void call_replied(struct rpc_op *op, bool ok)
{
    struct rpc_call *call = mt_container_of(op, struct rpc_call, reply_op);
    (void)ok; /* the client may have gone: nobody is left to be told */
    atomic_fetch_sub(&call->server->replying, 1);
    call_unref(call);
}

static void call_unref(struct rpc_call *call)
{
    if (atomic_fetch_sub(&call->refs, 1) != 1)
        return;
    rpc_message_close(&call->request);
    if (call->reply)
        grpc_byte_buffer_destroy(call->reply);
    rpc_live_end(&call->live);
    free(call);
}

/* ---- streams ---- */

static void stream_start(struct rpc_server *server, const struct rpc_method *method, grpc_call *call, uint64_t token)
{
    bool               is_direct = method->flags & RPC_DIRECT;
    struct opening    *opening = calloc(1, sizeof *opening);
    struct rpc_stream *stream = opening ? rpc_stream_new(server->rpc, &server->scope, call, false, is_direct, token) : NULL;
    if (!stream) {
        free(opening);
        refuse(server, call, MT_ENOMEM, "out of memory");
        return;
    }
    *opening = (struct opening){{stream_handle, NULL}, server, method, stream};
    if (is_direct)
        stream_handle(&opening->msg);
    else
        io_loop_post(server->rpc->loop, &opening->msg);
}

static void stream_handle(struct io_msg *msg)
{
    struct opening            *opening = mt_container_of(msg, struct opening, msg);
    struct rpc_server         *server = opening->server;
    struct rpc_stream         *stream = opening->stream;
    bool                       is_closing = atomic_load(&server->is_closing);
    struct rpc_stream_handler *handler = is_closing ? NULL : opening->method->stream(server->service, stream);
    free(opening);
    rpc_stream_accept(stream, handler);
    if (handler)
        return;
    rpc_stream_finish(
        stream, is_closing ? mt_error(MT_ECONN, 0, "the server is stopping") : mt_error(MT_EAGAIN, 0, "the stream is refused"),
        NULL);
    rpc_stream_let_go(stream);
}
