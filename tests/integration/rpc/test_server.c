/* SPDX-License-Identifier: Apache-2.0
 *
 * test_server.c - a server as a daemon has one, for tests that talk to it from another process.
 *
 *   test_server TOKEN_FILE PORT
 *
 * Makes the token file if it is missing, serves on 127.0.0.1 (PORT 0: a free one), prints one line for each
 * method
 * ("method NAME open|token unary|stream") and then "port N". Ends with 0 at SIGTERM, or when its stdin is
 * closed, so it never outlives the test.
 */
#include "core/io/io.h"
#include "core/rpc/codec.h"
#include "core/rpc/rpc.h"

#include "echo.pb-c.h"

#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

struct chat {
    struct rpc_stream_handler handler;
};

struct test_server {
    struct rpc_service service;
    struct io_loop    *loop;
    struct rpc        *rpc;
    struct rpc_server *server;
    struct io_signal   term;
    struct io_watch    stdin_watch;
    struct io_token    token;
};

/* Unpacks a request, packs the reply to it. EPROTO where it is none. */
static mt_status answer(mt_view bytes, mt_buf *out_reply)
{
    ProtobufCMessage      *message;
    Manta__Test__EchoReply reply = MANTA__TEST__ECHO_REPLY__INIT;
    MT_TRY(rpc_unpack(&manta__test__echo_request__descriptor, bytes, MT_CONTROL_BYTES_MAX, &message));
    Manta__Test__EchoRequest *request = (Manta__Test__EchoRequest *)message;
    reply.text = request->text;
    reply.number = request->number + 1;
    mt_status st = rpc_pack(&reply.base, out_reply);
    rpc_unpack_free(message);
    return st;
}

static void echo_say(struct rpc_service *service, struct rpc_call *call, mt_view request)
{
    mt_buf reply;
    (void)service;
    mt_status st = answer(request, &reply);
    if (st.code) {
        rpc_call_fail(call, st, NULL);
        return;
    }
    rpc_call_reply(call, mt_buf_view(&reply));
    mt_buf_fini(&reply);
}

static void echo_fail(struct rpc_service *service, struct rpc_call *call, mt_view request)
{
    (void)service, (void)request;
    rpc_call_fail(call, mt_error(MT_EUNSCHEDULABLE, 0, "as asked"), "no node has that");
}

/* grpc.health.v1.HealthCheckResponse { status: SERVING } */
static void health_check(struct rpc_service *service, struct rpc_call *call, mt_view request)
{
    static const char serving[] = {8, 1};
    (void)service, (void)request;
    rpc_call_reply(call, mt_view_of(serving, sizeof serving));
}

static void chat_message(struct rpc_stream_handler *handler, struct rpc_stream *stream, mt_view message)
{
    mt_buf reply;
    (void)handler;
    mt_status st = answer(message, &reply);
    if (!st.code) {
        st = rpc_stream_send(stream, mt_buf_view(&reply));
        mt_buf_fini(&reply);
    }
    if (st.code && st.code != MT_ECONN)
        rpc_stream_finish(stream, st, NULL);
}

static void chat_ended(struct rpc_stream_handler *handler, struct rpc_stream *stream)
{
    (void)handler;
    rpc_stream_finish(stream, mt_ok(), NULL);
}

static void chat_closed(struct rpc_stream_handler *handler, struct rpc_stream *stream, const struct rpc_result *result)
{
    (void)result;
    rpc_stream_free(stream);
    free(mt_container_of(handler, struct chat, handler));
}

static struct rpc_stream_handler *echo_chat(struct rpc_service *service, struct rpc_stream *stream)
{
    struct chat *chat = calloc(1, sizeof *chat);
    (void)service, (void)stream;
    if (!chat)
        return NULL;
    chat->handler = (struct rpc_stream_handler){chat_message, NULL, chat_ended, chat_closed};
    return &chat->handler;
}

static const struct rpc_method methods[] = {
    {"/manta.test.Echo/Say", 0, echo_say, NULL, MT_MAY_NOTHING},
    {"/manta.test.Echo/Fail", 0, echo_fail, NULL, MT_MAY_NOTHING},
    {"/manta.test.Echo/Chat", 0, NULL, echo_chat, MT_MAY_NOTHING},
    {"/grpc.health.v1.Health/Check", RPC_METHOD_OPEN, health_check, NULL, MT_MAY_NOTHING},
};
enum { METHODS = sizeof methods / sizeof methods[0] };

static void term_caught(struct io_signal *term, int number)
{
    (void)number;
    io_loop_stop(mt_container_of(term, struct test_server, term)->loop);
}

static void stdin_ready(struct io_watch *watch, unsigned events)
{
    char bytes[64];
    (void)events;
    if (read(STDIN_FILENO, bytes, sizeof bytes) <= 0)
        io_loop_stop(mt_container_of(watch, struct test_server, stdin_watch)->loop);
}

static mt_status serve(struct test_server *s, const char *token_file, uint16_t port)
{
    mt_status st = io_token_read(token_file, &s->token);
    if (st.code == MT_ENOENT)
        st = io_token_make(token_file, &s->token);
    if (st.code)
        return st;
    struct rpc_server_config config = {.port = port, .token = &s->token};
    s->service = (struct rpc_service){methods, METHODS};
    s->term.caught = term_caught;
    s->stdin_watch.ready = stdin_ready;
    MT_TRY(io_loop_new(&s->loop));
    MT_TRY(io_signal_start(s->loop, &s->term, SIGTERM));
    MT_TRY(io_watch_start(s->loop, &s->stdin_watch, STDIN_FILENO, IO_READABLE | IO_HANGUP));
    MT_TRY(rpc_new(s->loop, &s->rpc));
    MT_TRY(rpc_server_open(s->rpc, &s->service, &config, &s->server));
    for (int i = 0; i < METHODS; i++)
        printf("method %s %s %s\n", methods[i].name, methods[i].flags & RPC_METHOD_OPEN ? "open" : "token",
               methods[i].unary ? "unary" : "stream");
    printf("port %u\n", rpc_server_port(s->server));
    fflush(stdout);
    io_loop_run(s->loop);
    rpc_server_close(s->server);
    rpc_free(s->rpc);
    io_watch_stop(&s->stdin_watch);
    io_signal_stop(&s->term);
    io_loop_free(s->loop);
    return mt_ok();
}

int main(int argc, char **argv)
{
    struct test_server server = {0};
    if (argc != 3) {
        fprintf(stderr, "usage: test_server TOKEN_FILE PORT\n");
        return 2;
    }
    mt_status st = serve(&server, argv[1], (uint16_t)strtoul(argv[2], NULL, 10));
    if (st.code)
        fprintf(stderr, "test_server: %s: %s\n", mt_code_name(st.code), st.what);
    return st.code ? 1 : 0;
}
