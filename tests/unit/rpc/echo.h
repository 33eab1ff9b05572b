/* SPDX-License-Identifier: Apache-2.0
 *
 * echo.h - what the tests of core/rpc share: a server on a thread and loop of its own, and a client's loop.
 *
 * The service: /test.Echo/Unary answers with its request; Never does not answer; Later answers from a timer; Fail
 * answers with an error; Open needs no token; Stream echoes a stream, holding its reading up while its own send queue
 * is full; Direct does the same on the rpc thread; Count sends as many messages as its request says; Refused takes no
 * stream; Sink reads nothing until the client has ended.
 */
#ifndef TEST_RPC_ECHO_H
#define TEST_RPC_ECHO_H

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
/* cmocka needs the four above */
#include <cmocka.h>

#include "core/io/io.h"
#include "core/rpc/stats.h"

#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define assert_ok(expr) assert_code(expr, MT_OK)
#define assert_code(expr, expected) \
    do { \
        mt_status st_ = (expr); \
        if (st_.code != (expected)) \
            fail_msg("%s: %s (%s), sys %d", #expr, mt_code_name(st_.code), st_.what ? st_.what : "", st_.sys); \
    } while (0)

struct echo_server {
    struct rpc_service       service;
    struct rpc_server_config config; /* set before echo_start; token and port are filled in */
    struct rpc_server_stats  stats;  /* as of the last echo_stats */
    struct io_token          token;
    const struct io_tls     *client_tls; /* of clients of a server with TLS */
    atomic_uint              came, gone; /* calls of Never that came, and whose clients have gone */
    atomic_uint              streams_open;
    atomic_uint              refused_messages; /* sends that got MT_EAGAIN */
    atomic_uint              on_loop_errors;   /* callbacks on the wrong thread */
    uint16_t                 port;

    pthread_t          thread;
    pthread_barrier_t  barrier;
    struct io_loop    *loop;
    struct rpc        *rpc;
    struct rpc_server *server;
    struct io_msg      stats_msg;
    struct io_timer    later;
    struct rpc_call   *later_call;
};
void echo_start(struct echo_server *echo);
void echo_stop(struct echo_server *echo);
void echo_stats(struct echo_server *echo);

/* The client's side: a loop on the test's thread. */
struct echo_client {
    struct io_loop      *loop;
    struct rpc          *rpc;
    struct rpc_channel  *channel;
    const struct io_tls *tls; /* who it is to servers, NULL: in clear; and who they must be */
    enum io_tls_role     peer;
    struct io_timer      guard;
    bool                 is_late;
};
void client_start(struct echo_client *client, const struct echo_server *echo);
void client_stop(struct echo_client *client);
/* Opens another channel; token may be NULL. */
struct rpc_channel *client_channel(struct echo_client *client, uint16_t port, const struct io_token *token);
/* Runs the loop until it is stopped; the test fails if that takes longer than 60 s. */
void client_run(struct echo_client *client);

/* One unary call that stops the loop when done. */
struct test_call {
    struct rpc_unary    unary;
    struct echo_client *client;
    bool                is_done;
    mt_status           status;
    char                detail[MT_ERROR_BYTES_MAX];
    mt_buf              reply;
};
void call_begin(struct test_call *call, struct echo_client *client, struct rpc_channel *channel, const char *method,
                mt_view request, uint32_t timeout_ms, unsigned flags);
/* Begins, waits, and gives the code. `call->reply` is freed by call_end. */
int32_t call_now(struct test_call *call, struct echo_client *client, struct rpc_channel *channel, const char *method,
                 mt_view request, uint32_t timeout_ms);
void    call_end(struct test_call *call);

#endif
