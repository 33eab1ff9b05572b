/* SPDX-License-Identifier: Apache-2.0
 *
 * main.c - manta-bench-grpc: what the gRPC door costs on loopback, between two processes.
 *
 *   manta-bench-grpc            all figures: unary calls, streams, beside a TCP ping-pong of 64 bytes; then with TLS
 *   manta-bench-grpc --floor    one number: records per second over one stream, 128 bytes each (a task with one argument),
 *                               256 in a message, one way; manta-bench shows it beside tasks_remote
 *
 * A program of its own: manta-bench links no gRPC, as no user's program does.
 */
#include "core/io/io.h"
#include "core/rpc/rpc.h"
#include "tests/bench/usage.h"

#include <netinet/in.h>
#include <netinet/tcp.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

struct bench_server {
    struct rpc_service        service;
    struct rpc_stream_handler sink;
    struct io_loop           *loop;
    struct rpc               *rpc;
    struct rpc_server        *server;
};

enum { CALLS = 20000, MESSAGES = 1000000, RECORD = 128, BUNDLE = 32768, FLOOR_MESSAGES = 40000, FLOOR_ROUNDS = 3 };

struct bench_client {
    struct rpc_unary          unary;
    struct rpc_stream_handler handler;
    struct io_loop           *loop;
    struct rpc               *rpc;
    struct rpc_channel       *channel;
    struct rpc_stream        *stream;
    uint64_t                 *ns, started_ns;
    size_t                    calls, done;
    size_t                    size, sent, to_send;
};

static struct io_token token;
static char            payload[BUNDLE];

static void check(mt_status st)
{
    if (st.code) {
        fprintf(stderr, "manta-bench-grpc: %s: %s\n", mt_code_name(st.code), st.what ? st.what : "");
        exit(1);
    }
}

/* ---- server ---- */

static void serve_echo(struct rpc_service *service, struct rpc_call *call, mt_view request)
{
    (void)service;
    rpc_call_reply(call, request);
}

static void sink_message(struct rpc_stream_handler *handler, struct rpc_stream *stream, mt_view message)
{
    (void)handler, (void)stream, (void)message;
}

static void sink_ended(struct rpc_stream_handler *handler, struct rpc_stream *stream)
{
    (void)handler;
    rpc_stream_finish(stream, mt_ok(), NULL);
}

static void sink_closed(struct rpc_stream_handler *handler, struct rpc_stream *stream, const struct rpc_result *result)
{
    (void)handler, (void)result;
    rpc_stream_free(stream);
}

static struct rpc_stream_handler *serve_sink(struct rpc_service *service, struct rpc_stream *stream)
{
    (void)stream;
    return &mt_container_of(service, struct bench_server, service)->sink;
}

static const struct rpc_method methods[] = {
    {"/bench/Echo", 0, serve_echo, NULL, MT_MAY_NOTHING},
    {"/bench/Sink", 0, NULL, serve_sink, MT_MAY_NOTHING},
    {"/bench/Direct", RPC_DIRECT, NULL, serve_sink, MT_MAY_NOTHING},
};

/* In a process of its own, until its parent kills it. The port goes through `out`. */
static void server_run(int out, const struct io_tls *tls)
{
    struct bench_server      s = {0};
    struct rpc_server_config config = {.token = &token, .tls = tls};
    s.service = (struct rpc_service){methods, sizeof methods / sizeof methods[0]};
    s.sink = (struct rpc_stream_handler){sink_message, NULL, sink_ended, sink_closed};
    check(io_loop_new(&s.loop));
    check(rpc_new(s.loop, &s.rpc));
    check(rpc_server_open(s.rpc, &s.service, &config, &s.server));
    uint16_t port = rpc_server_port(s.server);
    if (write(out, &port, sizeof port) == sizeof port)
        io_loop_run(s.loop);
    _exit(1);
}

static pid_t server_start(const struct io_tls *tls, uint16_t *port)
{
    int   ends[2];
    pid_t parent = getpid();
    if (pipe(ends) != 0)
        check(mt_error(MT_ESYS, 0, "pipe"));
    pid_t child = fork();
    if (child == 0) {
        prctl(PR_SET_PDEATHSIG, SIGKILL);
        if (getppid() == parent)
            server_run(ends[1], tls);
        _exit(1);
    }
    close(ends[1]);
    if (child < 0 || read(ends[0], port, sizeof *port) != sizeof *port)
        check(mt_error(MT_ESYS, 0, "the server does not start"));
    close(ends[0]);
    return child;
}

/* ---- client ---- */

static int compare(const void *a, const void *b)
{
    uint64_t x = *(const uint64_t *)a, y = *(const uint64_t *)b;
    return (x > y) - (x < y);
}

static void print_latency(const char *name, uint64_t *ns, size_t n)
{
    qsort(ns, n, sizeof *ns, compare);
    printf("%-34s %9.1f us p50 %9.1f us p99  n=%zu\n", name, (double)ns[n / 2] / 1e3, (double)ns[n * 99 / 100] / 1e3, n);
}

static void unary_begin(struct bench_client *c)
{
    c->started_ns = io_now_ns();
    check(rpc_unary_start(c->channel, &c->unary, "/bench/Echo", mt_view_of(payload, 64), 10000, 0));
}

static void unary_done(struct rpc_unary *unary, const struct rpc_result *result, mt_view reply)
{
    struct bench_client *c = mt_container_of(unary, struct bench_client, unary);
    (void)reply;
    check(result->status);
    c->ns[c->done++] = io_now_ns() - c->started_ns;
    if (c->done < c->calls)
        unary_begin(c);
    else
        io_loop_stop(c->loop);
}

static void bench_blocking(struct bench_client *c)
{
    for (size_t i = 0; i < c->calls; i++) {
        mt_buf   reply = {0};
        uint64_t start = io_now_ns();
        check(rpc_call_blocking(c->channel, "/bench/Echo", mt_view_of(payload, 64), 10000, 0, &reply, NULL));
        c->ns[i] = io_now_ns() - start;
        mt_buf_fini(&reply);
    }
    print_latency("unary, blocking caller", c->ns, c->calls);
}

static void stream_send(struct bench_client *c)
{
    while (c->sent < c->to_send) {
        mt_status st = rpc_stream_send(c->stream, mt_view_of(payload, c->size));
        if (st.code == MT_EAGAIN)
            return;
        check(st);
        c->sent++;
    }
    rpc_stream_end(c->stream);
}

static void stream_drained(struct rpc_stream_handler *handler, struct rpc_stream *stream)
{
    (void)stream;
    stream_send(mt_container_of(handler, struct bench_client, handler));
}

static void stream_closed(struct rpc_stream_handler *handler, struct rpc_stream *stream, const struct rpc_result *result)
{
    check(result->status);
    rpc_stream_free(stream);
    io_loop_stop(mt_container_of(handler, struct bench_client, handler)->loop);
}

/* One way, from the first send until the server has said that it has all. */
static double stream_rate(struct bench_client *c, const char *method, size_t size, size_t messages)
{
    struct rpc_stream_config config = {.method = method};
    c->handler = (struct rpc_stream_handler){sink_message, stream_drained, NULL, stream_closed};
    c->size = size;
    c->to_send = messages;
    c->sent = 0;
    uint64_t start = io_now_ns();
    check(rpc_stream_open(c->channel, &config, &c->handler, &c->stream));
    stream_send(c);
    io_loop_run(c->loop);
    return (double)messages * 1e9 / (double)(io_now_ns() - start);
}

static void bench_stream(struct bench_client *c, const char *name, const char *method, size_t size, size_t messages)
{
    double rate = stream_rate(c, method, size, messages);
    printf("%-34s %9.0f msg/s %9.0f MB/s  n=%zu\n", name, rate, rate * (double)size / 1e6, messages);
}

/* ---- floor ---- */

static void *pong_main(void *arg)
{
    int  fd = *(int *)arg;
    char bytes[64];
    while (recv(fd, bytes, sizeof bytes, MSG_WAITALL) == sizeof bytes)
        if (send(fd, bytes, sizeof bytes, 0) != sizeof bytes)
            break;
    return NULL;
}

static void bench_floor(uint64_t *ns, size_t calls)
{
    struct sockaddr_in at = {.sin_family = AF_INET};
    socklen_t          size = sizeof at;
    pthread_t          pong;
    int                listener = socket(AF_INET, SOCK_STREAM, 0), ping = socket(AF_INET, SOCK_STREAM, 0), peer, on = 1;
    at.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    if (bind(listener, (struct sockaddr *)&at, size) || listen(listener, 1) ||
        getsockname(listener, (struct sockaddr *)&at, &size) || connect(ping, (struct sockaddr *)&at, size) ||
        (peer = accept(listener, NULL, NULL)) < 0)
        check(mt_error(MT_ESYS, 0, "tcp floor"));
    setsockopt(ping, IPPROTO_TCP, TCP_NODELAY, &on, sizeof on);
    setsockopt(peer, IPPROTO_TCP, TCP_NODELAY, &on, sizeof on);
    pthread_create(&pong, NULL, pong_main, &peer);
    for (size_t i = 0; i < calls; i++) {
        char     bytes[64] = {0};
        uint64_t start = io_now_ns();
        if (send(ping, bytes, sizeof bytes, 0) != sizeof bytes || recv(ping, bytes, sizeof bytes, MSG_WAITALL) < 1)
            check(mt_error(MT_ESYS, 0, "tcp floor"));
        ns[i] = io_now_ns() - start;
    }
    shutdown(ping, SHUT_RDWR);
    pthread_join(pong, NULL);
    close(ping);
    close(peer);
    close(listener);
    print_latency("floor: TCP ping-pong, 64 bytes", ns, calls);
}

/* The best of a few: what else the machine does only takes away. */
static void print_floor(struct bench_client *c)
{
    double best = 0;
    for (int i = 0; i < FLOOR_ROUNDS; i++) {
        double rate = stream_rate(c, "/bench/Direct", BUNDLE, FLOOR_MESSAGES) * (BUNDLE / RECORD);
        best = rate > best ? rate : best;
    }
    printf("%.0f\n", best);
}

static void print_all(struct bench_client *c)
{
    bench_floor(c->ns, c->calls);
    c->done = 0;
    unary_begin(c);
    io_loop_run(c->loop);
    print_latency("unary, loop to loop, 64 bytes", c->ns, c->calls);
    bench_blocking(c);
    bench_stream(c, "stream to loop, 64 bytes", "/bench/Sink", 64, MESSAGES);
    bench_stream(c, "stream, RPC_DIRECT, 64 bytes", "/bench/Direct", 64, MESSAGES);
    bench_stream(c, "stream, RPC_DIRECT, 4 KiB", "/bench/Direct", 4096, MESSAGES / 4);
    bench_stream(c, "stream, RPC_DIRECT, 32 KiB", "/bench/Direct", BUNDLE, MESSAGES / 20);
}

/* ---- both ---- */

static struct io_tls *head, *node;

/* A cluster's certificates, gone from the disk again when they are read. */
static void certificates_make(void)
{
    static const char *const files[] = {"ca.pem", "head.pem", "node.pem"};
    char                     dir[] = "/tmp/manta-bench-grpc.XXXXXX", paths[3][sizeof dir + 16];
    if (!mkdtemp(dir))
        check(mt_error(MT_ESYS, 0, "mkdtemp"));
    for (int i = 0; i < 3; i++)
        snprintf(paths[i], sizeof paths[i], "%s/%s", dir, files[i]);
    check(io_tls_make(dir, "bench"));
    check(io_tls_load(paths[1], &head));
    check(io_tls_load(paths[2], &node));
    for (int i = 0; i < 3; i++)
        unlink(paths[i]);
    rmdir(dir);
}

static void bench(uint16_t port, const struct io_tls *tls, void (*print)(struct bench_client *c))
{
    static uint64_t     ns[CALLS];
    struct bench_client client = {.unary.done = unary_done, .ns = ns, .calls = CALLS};
    char                target[32];
    snprintf(target, sizeof target, "127.0.0.1:%u", port);
    struct rpc_channel_config config = {.target = target, .token = &token, .tls = tls, .peer = IO_TLS_HEAD};
    check(io_loop_new(&client.loop));
    check(rpc_new(client.loop, &client.rpc));
    check(rpc_channel_open(client.rpc, &config, &client.channel));
    print(&client);
    rpc_channel_close(client.channel);
    rpc_free(client.rpc);
    io_loop_free(client.loop);
}

int main(int argc, char **argv)
{
    bool     is_floor = argc == 2 && strcmp(argv[1], "--floor") == 0;
    uint16_t ports[2];
    pid_t    servers[2] = {0};
    if (argc > 1 && !is_floor)
        return bench_usage(bench_is_help(argc, argv), "--grpc [--floor]");
    memset(token.hex, 'a', IO_TOKEN_HEX);
    if (!is_floor)
        certificates_make();
    servers[0] = server_start(NULL, &ports[0]); /* before this process has a thread */
    if (!is_floor)
        servers[1] = server_start(head, &ports[1]);
    bench(ports[0], NULL, is_floor ? print_floor : print_all);
    if (!is_floor) {
        printf("with TLS, both ends shown by certificates:\n");
        bench(ports[1], node, print_all);
    }
    for (int i = 0; i < 2 && servers[i]; i++) {
        kill(servers[i], SIGKILL);
        waitpid(servers[i], NULL, 0);
    }
    io_tls_free(head);
    io_tls_free(node);
    return 0;
}
