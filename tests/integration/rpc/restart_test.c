/* SPDX-License-Identifier: Apache-2.0
 *
 * restart_test.c - a server is killed (SIGKILL) and started again on its port: what its client is told, and
 * that the same channel works afterwards. Also a paused server (SIGSTOP): the deadline holds, and it is found
 * again.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
/* cmocka needs the four above */
#include <cmocka.h>

#include "core/io/io.h"
#include "core/rpc/rpc.h"
#include "tests/port.h"

#include <signal.h>
#include <spawn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

extern char **environ;

static char                dir[80], token_file[128];
static struct io_loop     *loop;
static struct rpc         *rpc;
static struct rpc_channel *channel;
static pid_t               server_pid;
static int                 server_stdin = -1, held = -1; /* `held`: the port, also while nobody listens there */
static uint16_t            port;

#define assert_ok(expr) \
    do { \
        mt_status st_ = (expr); \
        if (st_.code) \
            fail_msg("%s: %s (%s), sys %d", #expr, mt_code_name(st_.code), st_.what, st_.sys); \
    } while (0)

/* Starts TEST_SERVER and waits until it has said its port. posix_spawn: a fork would copy gRPC's threads'
 * locks. */
static void server_start(void)
{
    int  in[2], out[2];
    char number[8], line[256];
    snprintf(number, sizeof number, "%u", port);
    char                      *argv[] = {(char *)TEST_SERVER, token_file, number, NULL};
    posix_spawn_file_actions_t actions;
    assert_int_equal(pipe2(in, 0), 0);
    assert_int_equal(pipe2(out, 0), 0);
    posix_spawn_file_actions_init(&actions);
    posix_spawn_file_actions_adddup2(&actions, in[0], STDIN_FILENO);
    posix_spawn_file_actions_adddup2(&actions, out[1], STDOUT_FILENO);
    posix_spawn_file_actions_addclose(&actions, in[1]); /* or its stdin would never end */
    posix_spawn_file_actions_addclose(&actions, out[0]);
    assert_int_equal(posix_spawn(&server_pid, TEST_SERVER, &actions, NULL, argv, environ), 0);
    posix_spawn_file_actions_destroy(&actions);
    close(in[0]);
    close(out[1]);
    server_stdin = in[1];
    FILE *lines = fdopen(out[0], "r");
    while (fgets(line, sizeof line, lines))
        if (sscanf(line, "port %hu", &port) == 1)
            break;
    fclose(lines);
    assert_int_equal(port, port_of(held));
}

static void server_kill(void)
{
    kill(server_pid, SIGKILL);
    assert_int_equal(waitpid(server_pid, NULL, 0), server_pid);
    close(server_stdin);
    server_pid = 0;
}

static int setup(void **state)
{
    struct io_token token;
    char            target[32];
    const char     *parent = getenv("TMPDIR");
    (void)state;
    snprintf(dir, sizeof dir, "%s/rpc-XXXXXX", parent ? parent : "/tmp");
    assert_non_null(mkdtemp(dir));
    snprintf(token_file, sizeof token_file, "%s/token", dir);
    held = port_hold();
    port = port_of(held);
    assert_true(port > 0);
    server_start();
    assert_ok(io_token_read(token_file, &token));
    assert_ok(io_loop_new(&loop));
    assert_ok(rpc_new(loop, &rpc));
    snprintf(target, sizeof target, "127.0.0.1:%u", port);
    struct rpc_channel_config config = {.target = target, .token = &token};
    assert_ok(rpc_channel_open(rpc, &config, &channel));
    return 0;
}

static int teardown(void **state)
{
    (void)state;
    rpc_channel_close(channel);
    rpc_free(rpc);
    io_loop_free(loop);
    if (server_pid)
        server_kill();
    unlink(token_file);
    close(held);
    return rmdir(dir);
}

static int32_t say(uint32_t timeout_ms, unsigned flags)
{
    mt_buf    reply = {0};
    mt_status st = rpc_call_blocking(channel, "/manta.test.Echo/Say", mt_view_of("", 0), timeout_ms, flags, &reply, NULL);
    mt_buf_fini(&reply);
    return st.code;
}

struct watched_stream {
    struct rpc_stream_handler handler;
    struct rpc_stream        *stream;
    unsigned                  messages;
    bool                      is_closed;
    mt_status                 status;
};

static void stream_message(struct rpc_stream_handler *handler, struct rpc_stream *stream, mt_view message)
{
    (void)stream, (void)message;
    mt_container_of(handler, struct watched_stream, handler)->messages++;
    io_loop_stop(loop);
}

static void stream_closed(struct rpc_stream_handler *handler, struct rpc_stream *stream, const struct rpc_result *result)
{
    struct watched_stream *s = mt_container_of(handler, struct watched_stream, handler);
    s->is_closed = true;
    s->status = result->status;
    rpc_stream_free(stream);
    io_loop_stop(loop);
}

static void stream_begin(struct watched_stream *s)
{
    struct rpc_stream_config config = {.method = "/manta.test.Echo/Chat"};
    memset(s, 0, sizeof *s);
    s->handler = (struct rpc_stream_handler){.message = stream_message, .closed = stream_closed};
    assert_ok(rpc_stream_open(channel, &config, &s->handler, &s->stream));
    assert_ok(rpc_stream_send(s->stream, mt_view_of("", 0)));
    while (!s->messages && !s->is_closed)
        io_loop_run(loop);
    assert_int_equal(s->messages, 1);
}

static void a_killed_server_is_noticed_and_found_again(void **state)
{
    struct watched_stream s;
    (void)state;
    for (int round = 0; round < 3; round++) {
        assert_int_equal(say(10000, RPC_WAIT_READY), MT_OK);
        stream_begin(&s);
        server_kill();
        while (!s.is_closed) /* told by the end of the connection; no deadline is set */
            io_loop_run(loop);
        assert_int_equal(s.status.code, MT_ECONN);
        assert_int_equal(say(10000, 0), MT_ECONN);
        server_start();
        uint64_t start = io_now_ms();
        rpc_channel_kick(channel);
        assert_int_equal(say(20000, RPC_WAIT_READY), MT_OK);
        print_message("served again %u ms after the restart\n", (unsigned)(io_now_ms() - start));
    }
}

static void a_stopped_server_costs_the_deadline_only(void **state)
{
    (void)state;
    assert_int_equal(say(10000, RPC_WAIT_READY), MT_OK);
    kill(server_pid, SIGSTOP);
    assert_int_equal(say(100, 0), MT_ETIMEDOUT);
    kill(server_pid, SIGCONT);
    assert_int_equal(say(20000, RPC_WAIT_READY), MT_OK);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(a_killed_server_is_noticed_and_found_again, setup, teardown),
        cmocka_unit_test_setup_teardown(a_stopped_server_costs_the_deadline_only, setup, teardown),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
