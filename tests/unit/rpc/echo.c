/* SPDX-License-Identifier: Apache-2.0
 *
 * echo.c - see echo.h. Owns the server's thread; handlers run on its loop.
 */
#include "tests/unit/rpc/echo.h"

struct echo_stream {
    struct rpc_stream_handler handler;
    struct echo_server       *echo;
    struct rpc_stream        *stream;
    mt_buf                    held; /* a message that did not fit into the send queue */
    bool                      is_direct, has_ended, is_sink;
    unsigned                  count;
};

static struct echo_server *echo_of(struct rpc_service *service)
{
    return mt_container_of(service, struct echo_server, service);
}

/* ---- unary ---- */

static void echo_unary(struct rpc_service *service, struct rpc_call *call, mt_view request)
{
    if (!io_loop_is_mine(echo_of(service)->loop))
        atomic_fetch_add(&echo_of(service)->on_loop_errors, 1);
    rpc_call_reply(call, request);
}

struct never {
    struct rpc_gone     gone;
    struct echo_server *echo;
    struct rpc_call    *call;
};
static void never_gone(struct rpc_gone *gone)
{
    struct never *never = mt_container_of(gone, struct never, gone);
    atomic_fetch_add(&never->echo->gone, 1);
    rpc_call_fail(never->call, mt_error(MT_ECANCELLED, 0, "the client has gone"), NULL);
    free(never);
}
static void echo_never(struct rpc_service *service, struct rpc_call *call, mt_view request)
{
    struct never *never = calloc(1, sizeof *never);
    *never = (struct never){{never_gone}, echo_of(service), call};
    (void)request;
    rpc_call_on_gone(call, &never->gone);
    atomic_fetch_add(&never->echo->came, 1);
}

static void echo_forget(struct rpc_service *service, struct rpc_call *call, mt_view request)
{
    (void)service, (void)call, (void)request; /* rpc_server_close answers it */
}

static void later_fired(struct io_timer *timer)
{
    rpc_call_reply(mt_container_of(timer, struct echo_server, later)->later_call, mt_view_text("later"));
}
static void echo_later(struct rpc_service *service, struct rpc_call *call, mt_view request)
{
    (void)request;
    echo_of(service)->later_call = call;
    echo_of(service)->later.fire = later_fired;
    io_timer_start(echo_of(service)->loop, &echo_of(service)->later, 20);
}

static void echo_fail(struct rpc_service *service, struct rpc_call *call, mt_view request)
{
    (void)service, (void)request;
    rpc_call_fail(call, mt_error(MT_EUNSCHEDULABLE, 0, "fallback"), "no node has 17 GPUs\n");
}

/* ---- streams ---- */

static void stream_echo(struct echo_stream *s, mt_view message)
{
    mt_status st = rpc_stream_send(s->stream, message);
    if (st.code != MT_EAGAIN)
        return;
    atomic_fetch_add(&s->echo->refused_messages, 1);
    assert_ok(mt_buf_append(&s->held, message.data, message.size));
    rpc_stream_pause(s->stream);
}

static void stream_message(struct rpc_stream_handler *handler, struct rpc_stream *stream, mt_view message)
{
    struct echo_stream *s = mt_container_of(handler, struct echo_stream, handler);
    (void)stream;
    if (!s->is_direct && !io_loop_is_mine(s->echo->loop))
        atomic_fetch_add(&s->echo->on_loop_errors, 1);
    s->count++;
    if (!s->is_sink)
        stream_echo(s, message);
}

static void stream_drained(struct rpc_stream_handler *handler, struct rpc_stream *stream)
{
    struct echo_stream *s = mt_container_of(handler, struct echo_stream, handler);
    if (s->held.data) {
        mt_status st = rpc_stream_send(stream, mt_buf_view(&s->held));
        if (st.code == MT_EAGAIN)
            return; /* larger than the half that is free: `drained` comes again */
        mt_buf_fini(&s->held);
    }
    rpc_stream_resume(stream);
    if (s->has_ended)
        rpc_stream_finish(stream, mt_ok(), NULL);
}

static void stream_ended(struct rpc_stream_handler *handler, struct rpc_stream *stream)
{
    struct echo_stream *s = mt_container_of(handler, struct echo_stream, handler);
    char                number[16];
    s->has_ended = true;
    if (s->is_sink) {
        snprintf(number, sizeof number, "%u", s->count);
        mt_status st = rpc_stream_send(stream, mt_view_text(number));
        (void)st;
    }
    if (!s->held.data)
        rpc_stream_finish(stream, mt_ok(), NULL);
}

static void stream_closed(struct rpc_stream_handler *handler, struct rpc_stream *stream, const struct rpc_result *result)
{
    struct echo_stream *s = mt_container_of(handler, struct echo_stream, handler);
    (void)result;
    atomic_fetch_sub(&s->echo->streams_open, 1);
    rpc_stream_free(stream);
    mt_buf_fini(&s->held);
    free(s);
}

static struct echo_stream *stream_make(struct rpc_service *service, struct rpc_stream *stream)
{
    struct echo_stream *s = calloc(1, sizeof *s);
    s->handler = (struct rpc_stream_handler){stream_message, stream_drained, stream_ended, stream_closed};
    s->echo = echo_of(service);
    s->stream = stream;
    atomic_fetch_add(&s->echo->streams_open, 1);
    return s;
}

static struct rpc_stream_handler *echo_stream(struct rpc_service *service, struct rpc_stream *stream)
{
    rpc_stream_set_queue(stream, 4096);
    return &stream_make(service, stream)->handler;
}

static struct rpc_stream_handler *echo_direct(struct rpc_service *service, struct rpc_stream *stream)
{
    struct echo_stream *s = stream_make(service, stream);
    s->is_direct = true;
    return &s->handler;
}

static struct rpc_stream_handler *echo_sink(struct rpc_service *service, struct rpc_stream *stream)
{
    struct echo_stream *s = stream_make(service, stream);
    s->is_sink = true;
    return &s->handler;
}

static struct rpc_stream_handler *echo_refused(struct rpc_service *service, struct rpc_stream *stream)
{
    (void)service, (void)stream;
    return NULL;
}

/* Sends "0", "1", ... up to the number in the request, then ends; with a number above 1000 it ends with an
 * error. */
static void count_message(struct rpc_stream_handler *handler, struct rpc_stream *stream, mt_view message)
{
    char digits[16] = {0}, number[24];
    (void)handler;
    memcpy(digits, message.data, message.size < 15 ? message.size : 15);
    long count = strtol(digits, NULL, 10);
    for (long i = 0; i < count; i++) {
        snprintf(number, sizeof number, "%ld", i);
        mt_status st = rpc_stream_send(stream, mt_view_text(number));
        (void)st; /* small: the default queue takes them */
    }
    rpc_stream_finish(stream, count > 1000 ? mt_error(MT_EOBJ_LOST, 0, "counted too far") : mt_ok(), NULL);
}

static struct rpc_stream_handler *echo_count(struct rpc_service *service, struct rpc_stream *stream)
{
    struct echo_stream *s = stream_make(service, stream);
    s->handler = (struct rpc_stream_handler){.message = count_message, .closed = stream_closed};
    return &s->handler;
}

static const struct rpc_method methods[] = {
    {"/test.Echo/Unary", 0, echo_unary, NULL, MT_MAY_NOTHING},
    {"/test.Echo/Never", 0, echo_never, NULL, MT_MAY_NOTHING},
    {"/test.Echo/Forget", 0, echo_forget, NULL, MT_MAY_NOTHING},
    {"/test.Echo/Later", 0, echo_later, NULL, MT_MAY_NOTHING},
    {"/test.Echo/Fail", 0, echo_fail, NULL, MT_MAY_NOTHING},
    {"/test.Echo/Open", RPC_METHOD_OPEN, echo_unary, NULL, MT_MAY_NOTHING},
    {"/test.Echo/Stream", 0, NULL, echo_stream, MT_MAY_NOTHING},
    {"/test.Echo/Direct", RPC_DIRECT, NULL, echo_direct, MT_MAY_NOTHING},
    {"/test.Echo/Count", 0, NULL, echo_count, MT_MAY_NOTHING},
    {"/test.Echo/Sink", 0, NULL, echo_sink, MT_MAY_NOTHING},
    {"/test.Echo/Refused", 0, NULL, echo_refused, MT_MAY_NOTHING},
};

/* ---- the server's thread ---- */

static void *echo_main(void *arg)
{
    struct echo_server *echo = arg;
    assert_ok(io_loop_new(&echo->loop));
    assert_ok(rpc_new(echo->loop, &echo->rpc));
    assert_ok(rpc_server_open(echo->rpc, &echo->service, &echo->config, &echo->server));
    echo->port = rpc_server_port(echo->server);
    pthread_barrier_wait(&echo->barrier);
    io_loop_run(echo->loop);
    io_timer_stop(&echo->later);
    rpc_server_close(echo->server);
    rpc_free(echo->rpc);
    io_loop_free(echo->loop);
    return NULL;
}

void echo_start(struct echo_server *echo)
{
    char hex[IO_TOKEN_HEX + 1];
    memset(hex, 'a', IO_TOKEN_HEX);
    hex[IO_TOKEN_HEX] = '\0';
    assert_ok(io_token_parse(hex, &echo->token));
    echo->config.token = &echo->token;
    echo->config.port = echo->port;
    echo->service = (struct rpc_service){methods, sizeof methods / sizeof methods[0]};
    pthread_barrier_init(&echo->barrier, NULL, 2);
    assert_int_equal(pthread_create(&echo->thread, NULL, echo_main, echo), 0);
    pthread_barrier_wait(&echo->barrier);
}

void echo_stop(struct echo_server *echo)
{
    io_loop_stop(echo->loop);
    pthread_join(echo->thread, NULL);
    pthread_barrier_destroy(&echo->barrier);
    assert_int_equal(atomic_load(&echo->on_loop_errors), 0);
    assert_int_equal(atomic_load(&echo->streams_open), 0);
}

static void stats_run(struct io_msg *msg)
{
    struct echo_server *echo = mt_container_of(msg, struct echo_server, stats_msg);
    rpc_server_stats(echo->server, &echo->stats);
    pthread_barrier_wait(&echo->barrier);
}

void echo_stats(struct echo_server *echo)
{
    echo->stats_msg.run = stats_run;
    io_loop_post(echo->loop, &echo->stats_msg);
    pthread_barrier_wait(&echo->barrier);
}

/* ---- the client ---- */

static void guard_fired(struct io_timer *timer)
{
    struct echo_client *client = mt_container_of(timer, struct echo_client, guard);
    client->is_late = true;
    io_loop_stop(client->loop);
}

void client_start(struct echo_client *client, const struct echo_server *echo)
{
    memset(client, 0, sizeof *client);
    client->guard.fire = guard_fired;
    assert_ok(io_loop_new(&client->loop));
    assert_ok(rpc_new(client->loop, &client->rpc));
    client->tls = echo->config.tls ? echo->client_tls : NULL;
    client->peer = IO_TLS_HEAD;
    client->channel = client_channel(client, echo->port, &echo->token);
}

void client_stop(struct echo_client *client)
{
    rpc_channel_close(client->channel);
    rpc_free(client->rpc);
    io_loop_free(client->loop);
}

struct rpc_channel *client_channel(struct echo_client *client, uint16_t port, const struct io_token *token)
{
    char                target[32];
    struct rpc_channel *channel = NULL;
    snprintf(target, sizeof target, "127.0.0.1:%u", port);
    struct rpc_channel_config config = {.target = target, .token = token, .tls = client->tls, .peer = client->peer};
    assert_ok(rpc_channel_open(client->rpc, &config, &channel));
    return channel;
}

void client_run(struct echo_client *client)
{
    io_timer_start(client->loop, &client->guard, 60000);
    io_loop_run(client->loop);
    io_timer_stop(&client->guard);
    assert_false(client->is_late);
}

static void call_done(struct rpc_unary *unary, const struct rpc_result *result, mt_view reply)
{
    struct test_call *call = mt_container_of(unary, struct test_call, unary);
    assert_false(call->is_done);
    assert_true(io_loop_is_mine(call->client->loop));
    call->is_done = true;
    call->status = result->status;
    snprintf(call->detail, sizeof call->detail, "%s", result->detail);
    assert_ok(mt_buf_append(&call->reply, reply.data, reply.size));
    assert_ok(mt_buf_terminate(&call->reply));
    io_loop_stop(call->client->loop);
}

void call_begin(struct test_call *call, struct echo_client *client, struct rpc_channel *channel, const char *method,
                mt_view request, uint32_t timeout_ms, unsigned flags)
{
    memset(call, 0, sizeof *call);
    call->client = client;
    call->unary.done = call_done;
    assert_ok(rpc_unary_start(channel, &call->unary, method, request, timeout_ms, flags));
    assert_false(call->is_done);
}

int32_t call_now(struct test_call *call, struct echo_client *client, struct rpc_channel *channel, const char *method,
                 mt_view request, uint32_t timeout_ms)
{
    call_begin(call, client, channel, method, request, timeout_ms, 0);
    while (!call->is_done)
        client_run(client);
    return call->status.code;
}

void call_end(struct test_call *call)
{
    mt_buf_fini(&call->reply);
}
