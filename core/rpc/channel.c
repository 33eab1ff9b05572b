/* SPDX-License-Identifier: Apache-2.0
 *
 * channel.c - client side: connections, and calls with one request and one reply.
 *
 * Owns:    one heap block per unary call, from start until `done` has returned.
 * Thread:  start on any; completion on the rpc thread, from there to the loop unless RPC_DIRECT.
 */
#include "core/rpc/runtime.h"

#include "core/text/address.h"

#include <arpa/inet.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

struct rpc_unary_impl {
    struct rpc_live     live;
    struct rpc_op       op;
    struct io_msg       msg;
    struct rpc         *rpc;
    struct rpc_unary   *unary;
    bool                is_direct;
    grpc_byte_buffer   *request, *reply;
    grpc_metadata_array initial, trailing;
    grpc_status_code    code;
    grpc_slice          detail;
};

static mt_status                 channel_target(const char *target, char *out, size_t size);
static bool                      is_loopback_target(const char *target);
static grpc_channel_credentials *credentials_of(const struct rpc_channel_config *config);
static grpc_channel             *channel_create(const char *target, const struct rpc_channel_config *config);
static void                      unary_complete(struct rpc_op *op, bool ok);
static void                      unary_done(struct io_msg *msg);

mt_status rpc_channel_open(struct rpc *rpc, const struct rpc_channel_config *config, struct rpc_channel **out_channel)
{
    char target[320], bearer[IO_TOKEN_HEX + 8];
    MT_TRY(channel_target(config->target, target, sizeof target));
    if (!config->tls && !config->is_insecure && !is_loopback_target(config->target))
        return mt_error(MT_EUNSUPPORTED, 0, "beyond loopback only TLS is spoken, or in clear where --insecure says so");
    struct rpc_channel *channel = calloc(1, sizeof *channel);
    if (!channel)
        return mt_error(MT_ENOMEM, 0, "rpc channel");
    channel->rpc = rpc;
    channel->channel = channel_create(target, config);
    if (config->token) {
        snprintf(bearer, sizeof bearer, "Bearer %s", config->token->hex);
        channel->authorization = grpc_slice_from_copied_string(bearer);
        channel->has_token = true;
        explicit_bzero(bearer, sizeof bearer);
    }
    *out_channel = channel;
    return mt_ok();
}

void rpc_channel_close(struct rpc_channel *channel)
{
    grpc_channel_destroy(channel->channel);
    if (channel->has_token)
        grpc_slice_unref(channel->authorization);
    free(channel);
}

void rpc_channel_kick(struct rpc_channel *channel)
{
    grpc_channel_reset_connect_backoff(channel->channel);
}

/* Numbers go to gRPC's ipv4 and ipv6 schemes, which need no resolver. */
static mt_status channel_target(const char *target, char *out, size_t size)
{
    char          host[256];
    unsigned char address[16];
    const char   *colon = strrchr(target, ':');
    size_t        length = colon ? (size_t)(colon - target) : 0;
    long          port = colon ? strtol(colon + 1, NULL, 10) : 0;
    if (length == 0 || length >= sizeof host || port <= 0 || port > 65535)
        return mt_error(MT_EINVAL, 0, "an address must be host:port");
    memcpy(host, target, length);
    host[length] = '\0';
    const char *scheme = inet_pton(AF_INET, host, address) == 1 ? "ipv4:" : host[0] == '[' ? "ipv6:" : "dns:///";
    if (strcmp(host, "localhost") == 0) /* where our servers listen; needs no resolver */
        snprintf(out, size, "ipv4:127.0.0.1:%ld", port);
    else
        snprintf(out, size, "%s%s:%ld", scheme, host, port);
    return mt_ok();
}

/* Of an address that channel_target takes. */
static bool is_loopback_target(const char *target)
{
    char        host[256];
    const char *port;
    return mt_address_split(target, host, sizeof host, &port) && io_is_loopback(host);
}

static grpc_channel_credentials *credentials_of(const struct rpc_channel_config *config)
{
    if (!config->tls)
        return grpc_insecure_credentials_create();
    struct io_tls_texts        texts = io_tls_texts_of(config->tls);
    grpc_ssl_pem_key_cert_pair own = {texts.key, texts.certificate};
    return grpc_ssl_credentials_create_ex(texts.authority, &own, NULL, NULL);
}

static grpc_channel *channel_create(const char *target, const struct rpc_channel_config *config)
{
    static const struct {
        const char *key;
        int         value;
    } settings[] = {
        {GRPC_ARG_ENABLE_HTTP_PROXY, 0}, /* nobody's environment decides where the token goes */
        {GRPC_ARG_ENABLE_RETRIES, 0},    /* whoever calls decides what may run twice */
        {GRPC_ARG_SERVICE_CONFIG_DISABLE_RESOLUTION, 1},
        {GRPC_ARG_ENABLE_CHANNELZ, 0},
        {GRPC_ARG_USE_LOCAL_SUBCHANNEL_POOL, 1}, /* each channel is a connection of its own */
        {GRPC_ARG_ENABLE_PER_MESSAGE_COMPRESSION, 0},
        {GRPC_ARG_ENABLE_PER_MESSAGE_DECOMPRESSION, 0},
        {GRPC_ARG_INITIAL_RECONNECT_BACKOFF_MS, MT_REDIAL_MS_MIN},
        {GRPC_ARG_MIN_RECONNECT_BACKOFF_MS, MT_DIAL_MS}, /* its name lies: it limits one attempt */
        {GRPC_ARG_MAX_RECONNECT_BACKOFF_MS, MT_REDIAL_MS_MAX},
        {GRPC_ARG_KEEPALIVE_TIME_MS, MT_KEEPALIVE_MS},
        {GRPC_ARG_KEEPALIVE_TIMEOUT_MS, MT_KEEPALIVE_ANSWER_MS},
        {GRPC_ARG_HTTP2_MAX_PINGS_WITHOUT_DATA, 0},
        {GRPC_ARG_HTTP2_BDP_PROBE, 0}, /* a ping with each message, and timers behind it: a third of what an idle node cost */
        {GRPC_ARG_HTTP2_STREAM_LOOKAHEAD_BYTES, MT_RPC_WINDOW_BYTES},
        {GRPC_ARG_MAX_RECEIVE_MESSAGE_LENGTH, MT_CONTROL_BYTES_MAX},
        {GRPC_ARG_MAX_METADATA_SIZE, MT_METADATA_BYTES_MAX},
    };
    enum { COUNT = sizeof settings / sizeof settings[0] };
    char     peer[IO_TLS_NAME_SIZE];
    grpc_arg args[COUNT + 1];
    for (size_t i = 0; i < COUNT; i++) {
        args[i].type = GRPC_ARG_INTEGER;
        args[i].key = (char *)settings[i].key;
        args[i].value.integer = settings[i].value;
        if (config->silent_ms && strcmp(settings[i].key, GRPC_ARG_KEEPALIVE_TIME_MS) == 0)
            args[i].value.integer = (int)config->silent_ms;
    }
    if (config->tls) { /* certificates name roles, not addresses */
        io_tls_peer_name(config->tls, config->peer, peer);
        args[COUNT].type = GRPC_ARG_STRING;
        args[COUNT].key = (char *)GRPC_SSL_TARGET_NAME_OVERRIDE_ARG;
        args[COUNT].value.string = peer;
    }
    grpc_channel_args         all = {config->tls ? COUNT + 1 : COUNT, args};
    grpc_channel_credentials *credentials = credentials_of(config);
    grpc_channel             *channel = grpc_channel_create(target, credentials, &all);
    grpc_channel_credentials_release(credentials);
    return channel;
}

grpc_op rpc_send_headers(const struct rpc_channel *channel, unsigned flags, grpc_metadata storage[RPC_HEADERS])
{
    grpc_op op = {.op = GRPC_OP_SEND_INITIAL_METADATA};
    if (flags & RPC_WAIT_READY)
        op.flags = GRPC_INITIAL_METADATA_WAIT_FOR_READY | GRPC_INITIAL_METADATA_WAIT_FOR_READY_EXPLICITLY_SET;
    memset(storage, 0, RPC_HEADERS * sizeof *storage);
    storage[0] = rpc_wire_header();
    if (channel->has_token) {
        storage[1].key = grpc_slice_from_static_string("authorization");
        storage[1].value = channel->authorization;
    }
    op.data.send_initial_metadata.count = channel->has_token ? 2 : 1;
    op.data.send_initial_metadata.metadata = storage;
    return op;
}

mt_status rpc_unary_start(struct rpc_channel *channel, struct rpc_unary *unary, const char *method, mt_view request,
                          uint32_t timeout_ms, unsigned flags)
{
    if (timeout_ms == 0 || request.size > MT_CONTROL_BYTES_MAX || (!channel->rpc->loop && !(flags & RPC_DIRECT)))
        return mt_error(MT_EINVAL, 0, "unary call: no time limit, a message that is too large, or no loop");
    MT_ASSERT(!unary->impl);
    struct rpc_unary_impl *impl = calloc(1, sizeof *impl);
    if (!impl)
        return mt_error(MT_ENOMEM, 0, "unary call");
    impl->rpc = channel->rpc;
    impl->unary = unary;
    impl->is_direct = flags & RPC_DIRECT;
    impl->op.run = unary_complete;
    impl->msg.run = unary_done;
    impl->request = rpc_bytes_copy(request);
    grpc_metadata_array_init(&impl->initial);
    grpc_metadata_array_init(&impl->trailing);
    unary->impl = impl;

    grpc_slice name = grpc_slice_from_copied_string(method);
    grpc_call *call = grpc_channel_create_call(channel->channel, NULL, GRPC_PROPAGATE_DEFAULTS, channel->rpc->queue, name, NULL,
                                               rpc_deadline(timeout_ms), NULL);
    grpc_slice_unref(name);
    rpc_live_add(&channel->rpc->clients, &impl->live, call);

    grpc_metadata headers[RPC_HEADERS];
    grpc_op       ops[6] = {rpc_send_headers(channel, flags, headers)};
    ops[1].op = GRPC_OP_SEND_MESSAGE;
    ops[1].data.send_message.send_message = impl->request;
    ops[2].op = GRPC_OP_SEND_CLOSE_FROM_CLIENT;
    ops[3].op = GRPC_OP_RECV_INITIAL_METADATA;
    ops[3].data.recv_initial_metadata.recv_initial_metadata = &impl->initial;
    ops[4].op = GRPC_OP_RECV_MESSAGE;
    ops[4].data.recv_message.recv_message = &impl->reply;
    ops[5].op = GRPC_OP_RECV_STATUS_ON_CLIENT;
    ops[5].data.recv_status_on_client.trailing_metadata = &impl->trailing;
    ops[5].data.recv_status_on_client.status = &impl->code;
    ops[5].data.recv_status_on_client.status_details = &impl->detail;
    rpc_start(call, ops, 6, &impl->op);
    return mt_ok();
}

void rpc_unary_cancel(struct rpc_unary *unary)
{
    if (unary->impl) {
        unary->impl->live.is_cancelled = true;
        grpc_call_cancel(unary->impl->live.call, NULL);
    }
}

static void unary_complete(struct rpc_op *op, bool ok)
{
    struct rpc_unary_impl *impl = mt_container_of(op, struct rpc_unary_impl, op);
    (void)ok; /* a batch with RECV_STATUS always succeeds; the status tells */
    if (impl->is_direct)
        unary_done(&impl->msg);
    else
        io_loop_post(impl->rpc->loop, &impl->msg);
}

/* An answer of a release that speaks otherwise is none. */
static mt_status wire_check(const grpc_metadata_array *trailing, char *text, size_t size)
{
    struct mt_versions theirs = rpc_wire_of(trailing), ours = mt_release.wire;
    if (mt_versions_common(theirs, ours))
        return mt_ok();
    snprintf(text, size, "the other end speaks versions %u to %u, this program (release %s) speaks %u to %u: use the same release",
             theirs.min, theirs.max, mt_release.name, ours.min, ours.max);
    return mt_error(MT_EVERSION, 0, "rpc");
}

static void unary_done(struct io_msg *msg)
{
    struct rpc_unary_impl *impl = mt_container_of(msg, struct rpc_unary_impl, msg);
    struct rpc_unary      *unary = impl->unary;
    struct rpc_message     reply;
    char                   detail[MT_ERROR_BYTES_MAX];
    struct rpc_result      result = {rpc_status_from_grpc(impl->code, &impl->trailing), detail};

    rpc_detail_copy(detail, GRPC_SLICE_START_PTR(impl->detail), GRPC_SLICE_LENGTH(impl->detail));
    rpc_message_open(&reply, impl->reply);
    if (result.status.code == MT_ECANCELLED && !impl->live.is_cancelled)
        result.status = mt_error(MT_ECONN, (int)impl->code, "the server let go of the call"); /* it ends, or is gone */
    if (!result.status.code && (!reply.bytes || reply.is_compressed))
        result.status = mt_error(MT_EPROTO, 0, "a reply without a plain message");
    if (!result.status.code)
        result.status = wire_check(&impl->trailing, detail, sizeof detail);
    unary->impl = NULL;
    unary->done(unary, &result, reply.view); /* unary may be gone after this line */

    rpc_message_close(&reply);
    grpc_byte_buffer_destroy(impl->request);
    grpc_slice_unref(impl->detail);
    grpc_metadata_array_destroy(&impl->initial);
    grpc_metadata_array_destroy(&impl->trailing);
    rpc_live_end(&impl->live);
    free(impl);
}
