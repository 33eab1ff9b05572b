/* SPDX-License-Identifier: Apache-2.0
 *
 * stream_test.c - streams both ways: order, back-pressure, ends, and what is told when they break.
 */
#include "tests/unit/base/says.h"
#include "tests/unit/rpc/echo.h"

#include "core/rpc/runtime.h"

#include <netinet/in.h>
#include <sys/socket.h>

static struct echo_server echo;
static struct echo_client client;
static pthread_t          test_thread;
static atomic_int         ops_done;

static int setup(void **state)
{
    (void)state;
    memset(&echo, 0, sizeof echo);
    echo_start(&echo);
    client_start(&client, &echo);
    return 0;
}

static int teardown(void **state)
{
    (void)state;
    client_stop(&client);
    echo_stop(&echo);
    return 0;
}

/* Sends numbered messages of growing size as fast as the queue takes them, and checks what comes back. */
struct pump {
    struct rpc_stream_handler handler;
    struct rpc_stream        *stream;
    unsigned                  to_send, sent, received, refused;
    size_t                    size_max;
    bool                      is_closed, is_direct;
    mt_status                 status;
    char                      detail[MT_ERROR_BYTES_MAX];
};

static void pump_send(struct pump *pump)
{
    char bytes[5000] = {0};
    while (pump->sent < pump->to_send) {
        size_t size = 12 + (pump->sent * 37) % (pump->size_max - 12);
        snprintf(bytes, sizeof bytes, "%010u", pump->sent);
        mt_status st = rpc_stream_send(pump->stream, mt_view_of(bytes, size));
        if (st.code == MT_EAGAIN) {
            pump->refused++;
            return;
        }
        assert_int_equal(st.code, MT_OK);
        pump->sent++;
    }
    rpc_stream_end(pump->stream);
}

static void pump_message(struct rpc_stream_handler *handler, struct rpc_stream *stream, mt_view message)
{
    struct pump *pump = mt_container_of(handler, struct pump, handler);
    char         number[16];
    (void)stream;
    assert_int_equal(message.size, 12 + (pump->received * 37) % (pump->size_max - 12));
    snprintf(number, sizeof number, "%010u", pump->received);
    assert_memory_equal(message.data, number, 10);
    pump->received++;
    assert_true(!pthread_equal(pthread_self(), test_thread) == pump->is_direct);
}

static void pump_drained(struct rpc_stream_handler *handler, struct rpc_stream *stream)
{
    (void)stream;
    pump_send(mt_container_of(handler, struct pump, handler));
}

static void pump_closed(struct rpc_stream_handler *handler, struct rpc_stream *stream, const struct rpc_result *result)
{
    struct pump *pump = mt_container_of(handler, struct pump, handler);
    assert_false(pump->is_closed);
    pump->is_closed = true;
    pump->status = result->status;
    snprintf(pump->detail, sizeof pump->detail, "%s", result->detail);
    rpc_stream_free(stream);
    pump->stream = NULL;
    io_loop_stop(client.loop);
}

static void pump_start(struct pump *pump, const char *method, unsigned to_send, size_t size_max, unsigned flags)
{
    memset(pump, 0, sizeof *pump);
    pump->handler = (struct rpc_stream_handler){pump_message, pump_drained, NULL, pump_closed};
    pump->to_send = to_send;
    pump->size_max = size_max;
    pump->is_direct = flags & RPC_DIRECT;
    struct rpc_stream_config config = {.method = method, .flags = flags};
    assert_ok(rpc_stream_open(client.channel, &config, &pump->handler, &pump->stream));
}

static void pump_wait(struct pump *pump)
{
    while (!pump->is_closed)
        client_run(&client);
}

static void ten_thousand_in_order_with_back_pressure(void **state)
{
    struct pump pump;
    (void)state;
    pump_start(&pump, "/test.Echo/Stream", 10000, 300, 0);
    rpc_stream_set_queue(pump.stream, 10000);
    pump_send(&pump);
    pump_wait(&pump);
    assert_int_equal(pump.status.code, MT_OK);
    assert_int_equal(pump.received, 10000);
    assert_true(pump.refused > 0); /* the client's queue was full now and then, */
}

static void large_messages_fill_the_servers_queue_too(void **state)
{
    struct pump pump;
    (void)state;
    pump_start(&pump, "/test.Echo/Stream", 5000, 4900, 0);
    pump_send(&pump);
    pump_wait(&pump);
    assert_int_equal(pump.status.code, MT_OK);
    assert_int_equal(pump.received, 5000);
    assert_true(atomic_load(&echo.refused_messages) > 0); /* and so was the server's, of 4096 bytes */
}

static void direct_streams_run_on_the_rpc_thread(void **state)
{
    struct pump pump;
    (void)state;
    pump_start(&pump, "/test.Echo/Direct", 5000, 300, 0);
    pump_send(&pump);
    pump_wait(&pump);
    assert_int_equal(pump.received, 5000);
}

static void two_streams_at_a_time(void **state)
{
    struct pump a, b;
    (void)state;
    pump_start(&a, "/test.Echo/Stream", 2000, 100, 0);
    pump_start(&b, "/test.Echo/Direct", 2000, 200, 0);
    pump_send(&a);
    pump_send(&b);
    pump_wait(&a);
    pump_wait(&b);
    assert_int_equal(a.received, 2000);
    assert_int_equal(b.received, 2000);
}

static void an_empty_stream_ends_well(void **state)
{
    struct pump pump;
    (void)state;
    pump_start(&pump, "/test.Echo/Stream", 0, 100, 0);
    pump_send(&pump);
    assert_code(rpc_stream_send(pump.stream, mt_view_text("x")), MT_EINVAL); /* after the end */
    pump_wait(&pump);
    assert_int_equal(pump.status.code, MT_OK);
}

static void refused_and_unknown_streams_are_closed_with_the_reason(void **state)
{
    struct pump pump;
    (void)state;
    pump_start(&pump, "/test.Echo/Refused", 0, 100, 0);
    pump_wait(&pump);
    assert_int_equal(pump.status.code, MT_EAGAIN);
    pump_start(&pump, "/test.Echo/Nope", 0, 100, 0);
    pump_wait(&pump);
    assert_int_equal(pump.status.code, MT_EUNSUPPORTED);

    struct rpc_channel *with = client.channel;
    client.channel = client_channel(&client, echo.port, NULL);
    pump_start(&pump, "/test.Echo/Stream", 0, 100, 0);
    pump_wait(&pump);
    assert_int_equal(pump.status.code, MT_EAUTH);
    rpc_channel_close(client.channel);
    client.channel = with;
}

static void a_stream_may_have_a_deadline(void **state)
{
    struct pump pump = {.handler = {pump_message, NULL, NULL, pump_closed}};
    (void)state;
    struct rpc_stream_config config = {.method = "/test.Echo/Stream", .timeout_ms = 50};
    assert_ok(rpc_stream_open(client.channel, &config, &pump.handler, &pump.stream));
    pump_wait(&pump);
    assert_int_equal(pump.status.code, MT_ETIMEDOUT);
}

static void cancel_closes_both_ends(void **state)
{
    struct pump pump;
    (void)state;
    pump_start(&pump, "/test.Echo/Stream", 10, 100, 0);
    for (int i = 0; i < 10000 && atomic_load(&echo.streams_open) == 0; i++)
        usleep(1000);
    assert_int_equal(atomic_load(&echo.streams_open), 1);
    rpc_stream_cancel(pump.stream);
    pump_wait(&pump);
    assert_int_equal(pump.status.code, MT_ECANCELLED);
    for (int i = 0; i < 10000 && atomic_load(&echo.streams_open) == 1; i++)
        usleep(1000);
    assert_int_equal(atomic_load(&echo.streams_open), 0);
}

static void freeing_an_open_stream_ends_it_without_a_callback(void **state)
{
    struct pump pump;
    (void)state;
    pump_start(&pump, "/test.Echo/Stream", 10, 100, 0);
    for (int i = 0; i < 10000 && atomic_load(&echo.streams_open) == 0; i++)
        usleep(1000);
    rpc_stream_free(pump.stream);
    for (int i = 0; i < 10000 && atomic_load(&echo.streams_open) == 1; i++)
        usleep(1000);
    assert_int_equal(atomic_load(&echo.streams_open), 0);
    assert_false(pump.is_closed);
}

static void a_closing_server_closes_its_streams(void **state)
{
    struct pump pump;
    (void)state;
    pump_start(&pump, "/test.Echo/Stream", 10, 100, 0);
    for (int i = 0; i < 10000 && atomic_load(&echo.streams_open) == 0; i++)
        usleep(1000);
    echo_stop(&echo); /* checks that every stream was closed */
    pump_wait(&pump);
    assert_int_equal(pump.status.code, MT_ECONN);
    memset(&echo, 0, sizeof echo);
    echo_start(&echo);
}

static void paused_message(struct rpc_stream_handler *handler, struct rpc_stream *stream, mt_view message)
{
    struct pump *pump = mt_container_of(handler, struct pump, handler);
    (void)message;
    if (++pump->received == 1) {
        rpc_stream_pause(stream);
        io_loop_stop(client.loop);
    }
}

static void a_paused_stream_holds_the_peer_up(void **state)
{
    struct pump pump;
    (void)state;
    pump_start(&pump, "/test.Echo/Count", 0, 100, 0);
    pump.handler.message = paused_message;
    assert_ok(rpc_stream_send(pump.stream, mt_view_text("900")));
    client_run(&client);
    assert_int_equal(pump.received, 1);
    for (int i = 0; i < 20; i++) { /* time for more messages to come, if they did */
        usleep(1000);
        io_loop_drain(client.loop);
    }
    assert_int_equal(pump.received, 1);
    assert_false(pump.is_closed);
    rpc_stream_resume(pump.stream);
    pump_wait(&pump);
    assert_int_equal(pump.received, 900);
    assert_int_equal(pump.status.code, MT_OK);
}

static void a_paused_stream_that_is_lost_is_closed_all_the_same(void **state)
{
    struct pump pump;
    (void)state;
    pump_start(&pump, "/test.Echo/Count", 0, 100, 0);
    pump.handler.message = paused_message;
    assert_ok(rpc_stream_send(pump.stream, mt_view_text("900")));
    client_run(&client);
    echo_stop(&echo);
    rpc_stream_cancel(pump.stream);
    pump_wait(&pump);
    assert_true(pump.is_closed);
    memset(&echo, 0, sizeof echo);
    echo_start(&echo);
}

/* A channel to a socket at which nobody answers. */
static struct rpc_channel *deaf_channel(int *out_deaf)
{
    int                deaf = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    struct sockaddr_in at = {.sin_family = AF_INET};
    socklen_t          size = sizeof at;
    at.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    assert_int_equal(bind(deaf, (struct sockaddr *)&at, sizeof at), 0);
    assert_int_equal(listen(deaf, 1), 0);
    assert_int_equal(getsockname(deaf, (struct sockaddr *)&at, &size), 0);
    *out_deaf = deaf;
    return client_channel(&client, ntohs(at.sin_port), &echo.token);
}

static void the_send_queue_is_bounded_in_bytes(void **state)
{
    struct pump pump;
    char        bytes[1000] = {0};
    unsigned    sent = 0;
    (void)state;
    int                 deaf;
    struct rpc_channel *with = client.channel;
    client.channel = deaf_channel(&deaf); /* nothing leaves the queue but what gRPC takes for itself */
    pump_start(&pump, "/test.Echo/Stream", 0, 100, RPC_WAIT_READY);
    rpc_stream_set_queue(pump.stream, 10000);
    while (rpc_stream_send(pump.stream, mt_view_of(bytes, sizeof bytes)).code == MT_OK)
        sent++;
    assert_true(sent >= 10 && sent < 200);
    char *large = calloc(1, MT_CONTROL_BYTES_MAX + 1);
    assert_code(rpc_stream_send(pump.stream, mt_view_of(large, MT_CONTROL_BYTES_MAX + 1)), MT_EINVAL);
    free(large);
    rpc_stream_cancel(pump.stream);
    pump_wait(&pump);
    rpc_channel_close(client.channel);
    client.channel = with;
    close(deaf);
}

static void op_done(struct rpc_op *op, bool ok)
{
    (void)op, (void)ok;
    atomic_fetch_add(&ops_done, 1);
}

/* A second send or receive beside one that is under way is a bug of ours, and is named where it begins. */
static void one_send_and_one_receive_at_a_time(void **state)
{
    struct rpc_op       tags[5] = {{op_done}, {op_done}, {op_done}, {op_done}, {op_done}};
    grpc_byte_buffer   *message = rpc_bytes_copy(mt_view_text("x")), *got = NULL;
    grpc_metadata       headers[RPC_HEADERS];
    grpc_slice          method = grpc_slice_from_static_string("/test.Echo/Stream");
    int                 deaf;
    struct rpc_channel *to = deaf_channel(&deaf); /* so all that is begun stays under way */
    grpc_call          *call = grpc_channel_create_call(to->channel, NULL, GRPC_PROPAGATE_DEFAULTS, client.rpc->queue, method, NULL,
                                                        rpc_deadline(0), NULL);
    grpc_op             open = rpc_send_headers(to, RPC_WAIT_READY, headers), send = {.op = GRPC_OP_SEND_MESSAGE};
    grpc_op             receive = {.op = GRPC_OP_RECV_MESSAGE};
    (void)state;
    send.data.send_message.send_message = message;
    receive.data.recv_message.recv_message = &got;
    atomic_store(&ops_done, 0);
    assert_string_equal(SAYS(rpc_start(call, &open, 1, &tags[0])), "");
    assert_string_equal(SAYS(rpc_start(call, &send, 1, &tags[1])), "");
    assert_string_equal(SAYS(rpc_start(call, &send, 1, &tags[2])), "err == GRPC_CALL_OK");
    assert_string_equal(SAYS(rpc_start(call, &receive, 1, &tags[3])), "");
    assert_string_equal(SAYS(rpc_start(call, &receive, 1, &tags[4])), "err == GRPC_CALL_OK");
    grpc_call_cancel(call, NULL);
    for (int i = 0; i < 10000 && atomic_load(&ops_done) < 3; i++)
        usleep(1000);
    assert_int_equal(atomic_load(&ops_done), 3);
    grpc_call_unref(call);
    grpc_byte_buffer_destroy(message);
    rpc_channel_close(to);
    close(deaf);
}

static void a_reader_needs_no_loop(void **state)
{
    struct rpc         *rpc;
    struct rpc_channel *channel;
    struct rpc_reader  *reader;
    mt_buf              message;
    char                target[32], detail[MT_ERROR_BYTES_MAX], number[16];
    (void)state;
    assert_ok(rpc_new(NULL, &rpc));
    snprintf(target, sizeof target, "127.0.0.1:%u", echo.port);
    struct rpc_channel_config config = {.target = target, .token = &echo.token};
    assert_ok(rpc_channel_open(rpc, &config, &channel));
    struct rpc_stream_config stream = {.method = "/test.Echo/Count", .timeout_ms = 30000};

    assert_ok(rpc_reader_open(channel, &stream, mt_view_text("1000"), &reader));
    for (int i = 0; i < 1000; i++) {
        assert_ok(rpc_reader_next(reader, 30000, &message, detail));
        snprintf(number, sizeof number, "%d", i);
        assert_int_equal(message.size, strlen(number));
        assert_memory_equal(message.data, number, message.size);
        mt_buf_fini(&message);
    }
    assert_code(rpc_reader_next(reader, 30000, &message, detail), MT_ENOENT);
    assert_code(rpc_reader_next(reader, 30000, &message, detail), MT_ENOENT);
    rpc_reader_close(reader);

    assert_ok(rpc_reader_open(channel, &stream, mt_view_text("1001"), &reader)); /* ends with an error, after all messages */
    for (int i = 0; i < 1001; i++) {
        assert_ok(rpc_reader_next(reader, 30000, &message, detail));
        mt_buf_fini(&message);
    }
    assert_code(rpc_reader_next(reader, 30000, &message, detail), MT_EOBJ_LOST);
    assert_string_equal(detail, "counted too far");
    rpc_reader_close(reader);

    assert_ok(rpc_reader_open(channel, &stream, mt_view_text("900"), &reader)); /* closed in the middle */
    assert_ok(rpc_reader_next(reader, 30000, &message, detail));
    mt_buf_fini(&message);
    rpc_reader_close(reader);

    stream.method = "/test.Echo/Refused";
    assert_ok(rpc_reader_open(channel, &stream, mt_view_text("1"), &reader));
    assert_code(rpc_reader_next(reader, 30000, &message, detail), MT_EAGAIN);
    rpc_reader_close(reader);

    stream.method = "/test.Echo/Stream"; /* one request, one echo */
    assert_ok(rpc_reader_open(channel, &stream, mt_view_text("1"), &reader));
    assert_ok(rpc_reader_next(reader, 30000, &message, detail));
    mt_buf_fini(&message);
    assert_code(rpc_reader_next(reader, 30000, &message, detail), MT_ENOENT);
    rpc_reader_close(reader);
    rpc_channel_close(channel);
    rpc_free(rpc);
}

static void a_direct_client_stream_runs_without_a_loop(void **state)
{
    struct rpc         *rpc, *with = client.rpc;
    struct rpc_channel *channel = client.channel;
    struct pump         pump;
    (void)state;
    assert_ok(rpc_new(NULL, &rpc));
    client.rpc = rpc;
    client.channel = client_channel(&client, echo.port, &echo.token);
    pump_start(&pump, "/test.Echo/Direct", 3000, 300, RPC_DIRECT);
    pump_send(&pump);
    client_run(&client); /* stopped by pump_closed, from the rpc thread */
    assert_int_equal(pump.received, 3000);
    rpc_channel_close(client.channel);
    rpc_free(rpc);
    client.rpc = with;
    client.channel = channel;
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(ten_thousand_in_order_with_back_pressure, setup, teardown),
        cmocka_unit_test_setup_teardown(large_messages_fill_the_servers_queue_too, setup, teardown),
        cmocka_unit_test_setup_teardown(direct_streams_run_on_the_rpc_thread, setup, teardown),
        cmocka_unit_test_setup_teardown(two_streams_at_a_time, setup, teardown),
        cmocka_unit_test_setup_teardown(an_empty_stream_ends_well, setup, teardown),
        cmocka_unit_test_setup_teardown(refused_and_unknown_streams_are_closed_with_the_reason, setup, teardown),
        cmocka_unit_test_setup_teardown(a_stream_may_have_a_deadline, setup, teardown),
        cmocka_unit_test_setup_teardown(cancel_closes_both_ends, setup, teardown),
        cmocka_unit_test_setup_teardown(freeing_an_open_stream_ends_it_without_a_callback, setup, teardown),
        cmocka_unit_test_setup_teardown(a_closing_server_closes_its_streams, setup, teardown),
        cmocka_unit_test_setup_teardown(a_paused_stream_holds_the_peer_up, setup, teardown),
        cmocka_unit_test_setup_teardown(a_paused_stream_that_is_lost_is_closed_all_the_same, setup, teardown),
        cmocka_unit_test_setup_teardown(the_send_queue_is_bounded_in_bytes, setup, teardown),
        cmocka_unit_test_setup_teardown(one_send_and_one_receive_at_a_time, setup, teardown),
        cmocka_unit_test_setup_teardown(a_reader_needs_no_loop, setup, teardown),
        cmocka_unit_test_setup_teardown(a_direct_client_stream_runs_without_a_loop, setup, teardown),
    };
    test_thread = pthread_self();
    return cmocka_run_group_tests(tests, NULL, NULL);
}
