/* SPDX-License-Identifier: Apache-2.0
 *
 * unary_test.c - calls with one request and one reply: what comes back, and how each failure is told.
 */
#include "tests/unit/rpc/echo.h"

#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

static struct echo_server echo;
static struct echo_client client;

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

static void echoes_any_size_up_to_the_limit(void **state)
{
    static const size_t sizes[] = {0, 1, 64, 5000, 70000, 1 << 20, MT_CONTROL_BYTES_MAX};
    struct test_call    call;
    (void)state;
    char *bytes = malloc(MT_CONTROL_BYTES_MAX + 1);
    for (size_t i = 0; i <= MT_CONTROL_BYTES_MAX; i++)
        bytes[i] = (char)(i * 31 + (i >> 8));
    for (size_t i = 0; i < sizeof sizes / sizeof sizes[0]; i++) {
        mt_view view = mt_view_of(bytes, sizes[i]);
        assert_int_equal(call_now(&call, &client, client.channel, "/test.Echo/Unary", view, 30000), MT_OK);
        assert_int_equal(call.reply.size, sizes[i]);
        assert_memory_equal(call.reply.data, bytes, sizes[i]);
        call_end(&call);
    }
    mt_view large = mt_view_of(bytes, MT_CONTROL_BYTES_MAX + 1);
    assert_code(rpc_unary_start(client.channel, &call.unary, "/test.Echo/Unary", large, 1000, 0), MT_EINVAL);
    assert_code(rpc_unary_start(client.channel, &call.unary, "/test.Echo/Unary", mt_view_text(""), 0, 0), MT_EINVAL);
    free(bytes);
}

static void many_at_a_time(void **state)
{
    enum { CALLS = 1000 };
    static struct test_call calls[CALLS];
    char                    number[16];
    (void)state;
    for (int i = 0; i < CALLS; i++) {
        snprintf(number, sizeof number, "%d", i);
        call_begin(&calls[i], &client, client.channel, "/test.Echo/Unary", mt_view_text(number), 30000, 0);
    }
    for (int i = 0; i < CALLS; i++) {
        while (!calls[i].is_done)
            client_run(&client);
        snprintf(number, sizeof number, "%d", i);
        assert_int_equal(calls[i].status.code, MT_OK);
        assert_string_equal(calls[i].reply.data, number);
        call_end(&calls[i]);
    }
}

static void a_handler_may_answer_later(void **state)
{
    struct test_call call;
    (void)state;
    assert_int_equal(call_now(&call, &client, client.channel, "/test.Echo/Later", mt_view_text("x"), 30000), MT_OK);
    assert_string_equal(call.reply.data, "later");
    call_end(&call);
}

static void an_error_keeps_its_code_and_text(void **state)
{
    struct test_call call;
    (void)state;
    assert_int_equal(call_now(&call, &client, client.channel, "/test.Echo/Fail", mt_view_text("x"), 30000), MT_EUNSCHEDULABLE);
    assert_string_equal(call.detail, "no node has 17 GPUs?"); /* unprintable bytes do not reach a terminal */
    call_end(&call);
}

/* The server has heard of the end of each call of Never that it got. */
static void wait_until_all_have_gone(void)
{
    for (int i = 0; i < 30000 && (!atomic_load(&echo.came) || atomic_load(&echo.gone) < atomic_load(&echo.came)); i++)
        usleep(1000);
    assert_true(atomic_load(&echo.came) > 0);
    assert_int_equal(atomic_load(&echo.gone), atomic_load(&echo.came));
}

static void the_deadline_ends_a_call_on_both_sides(void **state)
{
    struct test_call call;
    (void)state;
    for (uint32_t ms = 50; atomic_load(&echo.came) == 0 && ms < 30000; ms *= 2) { /* on a busy machine it may end on its way */
        assert_int_equal(call_now(&call, &client, client.channel, "/test.Echo/Never", mt_view_text("x"), ms), MT_ETIMEDOUT);
        call_end(&call);
    }
    wait_until_all_have_gone();
}

static void a_cancelled_call_ends_on_both_sides(void **state)
{
    struct test_call call;
    (void)state;
    assert_int_equal(call_now(&call, &client, client.channel, "/test.Echo/Unary", mt_view_text("warm"), 30000), MT_OK);
    call_end(&call);
    call_begin(&call, &client, client.channel, "/test.Echo/Never", mt_view_text("x"), 30000, 0);
    for (int i = 0; i < 5000 && atomic_load(&echo.came) == 0; i++)
        usleep(1000);
    rpc_unary_cancel(&call.unary);
    while (!call.is_done)
        client_run(&client);
    assert_int_equal(call.status.code, MT_ECANCELLED);
    call_end(&call);
    wait_until_all_have_gone();
}

static void unknown_methods_are_told_to_who_has_the_token(void **state)
{
    struct test_call call;
    (void)state;
    assert_int_equal(call_now(&call, &client, client.channel, "/test.Echo/Nope", mt_view_text("x"), 30000), MT_EUNSUPPORTED);
    call_end(&call);
    assert_int_equal(call_now(&call, &client, client.channel, "/other.Service/Unary", mt_view_text("x"), 30000), MT_EUNSUPPORTED);
    call_end(&call);
    struct rpc_channel *bare = client_channel(&client, echo.port, NULL);
    assert_int_equal(call_now(&call, &client, bare, "/test.Echo/Nope", mt_view_text("x"), 30000), MT_EAUTH);
    call_end(&call);
    rpc_channel_close(bare);
}

static void every_method_but_the_open_one_wants_the_token(void **state)
{
    struct test_call call;
    struct io_token  wrong = echo.token;
    (void)state;
    wrong.hex[63] ^= 1;
    struct rpc_channel *channels[2] = {client_channel(&client, echo.port, NULL), client_channel(&client, echo.port, &wrong)};
    for (int c = 0; c < 2; c++)
        for (size_t i = 0; i < echo.service.count; i++) {
            const struct rpc_method *method = &echo.service.methods[i];
            int32_t                  wanted = method->flags & RPC_METHOD_OPEN ? MT_OK : MT_EAUTH;
            assert_int_equal(call_now(&call, &client, channels[c], method->name, mt_view_text("x"), 30000), wanted);
            call_end(&call);
        }
    rpc_channel_close(channels[0]);
    rpc_channel_close(channels[1]);
    echo_stats(&echo);
    assert_int_equal(echo.stats.refused_token, 2 * (echo.service.count - 1));
}

static void calls_above_the_bound_are_refused(void **state)
{
    struct test_call calls[3];
    (void)state;
    client_stop(&client);
    echo_stop(&echo);
    memset(&echo, 0, sizeof echo);
    echo.config.calls_max = 2;
    echo_start(&echo);
    client_start(&client, &echo);
    call_begin(&calls[0], &client, client.channel, "/test.Echo/Forget", mt_view_text("x"), 30000, 0);
    call_begin(&calls[1], &client, client.channel, "/test.Echo/Forget", mt_view_text("x"), 30000, 0);
    do /* the two may still be on their way */
        echo_stats(&echo);
    while (echo.stats.calls < 2);
    assert_int_equal(call_now(&calls[2], &client, client.channel, "/test.Echo/Unary", mt_view_text("x"), 30000), MT_EAGAIN);
    rpc_unary_cancel(&calls[0].unary);
    rpc_unary_cancel(&calls[1].unary);
    while (!calls[0].is_done || !calls[1].is_done)
        client_run(&client);
    for (int i = 0; i < 3; i++)
        call_end(&calls[i]);
}

static void a_closing_server_answers_what_is_open(void **state)
{
    struct test_call call, kept;
    (void)state;
    call_begin(&call, &client, client.channel, "/test.Echo/Forget", mt_view_text("x"), 30000, 0);
    call_begin(&kept, &client, client.channel, "/test.Echo/Never", mt_view_text("x"), 30000, 0);
    do
        echo_stats(&echo);
    while (echo.stats.calls < 2);
    usleep(20000); /* the handlers, too, have run by now, as good as always */
    echo_stop(&echo);
    while (!call.is_done || !kept.is_done)
        client_run(&client);
    assert_int_equal(call.status.code, MT_ECONN);
    /* Its handler is told that the server closes and answers for itself; or it has never seen the call. */
    assert_true(kept.status.code == MT_ECANCELLED || kept.status.code == MT_ECONN);
    call_end(&call);
    call_end(&kept);
    assert_int_equal(call_now(&call, &client, client.channel, "/test.Echo/Unary", mt_view_text("x"), 30000), MT_ECONN);
    call_end(&call);

    uint16_t port = echo.port; /* and one that takes its place is found again */
    memset(&echo, 0, sizeof echo);
    echo.port = port;
    echo_start(&echo);
    rpc_channel_kick(client.channel);
    call_begin(&call, &client, client.channel, "/test.Echo/Unary", mt_view_text("again"), 30000, RPC_WAIT_READY);
    while (!call.is_done)
        client_run(&client);
    assert_int_equal(call.status.code, MT_OK);
    call_end(&call);
}

static void freeing_the_runtime_ends_its_calls(void **state)
{
    struct test_call call;
    (void)state;
    call_begin(&call, &client, client.channel, "/test.Echo/Forget", mt_view_text("x"), 30000, 0);
    client_stop(&client);
    int32_t code = call.is_done ? call.status.code : MT_OK;
    call_end(&call);
    client_start(&client, &echo);
    assert_true(code == MT_ECANCELLED || code == MT_ECONN); /* ECONN: the channel was closed while it dialled */
}

static void blocking_calls_need_no_loop(void **state)
{
    struct rpc         *rpc;
    struct rpc_channel *channel;
    mt_buf              reply;
    char                target[32], detail[MT_ERROR_BYTES_MAX];
    (void)state;
    assert_ok(rpc_new(NULL, &rpc));
    snprintf(target, sizeof target, "localhost:%u", echo.port);
    struct rpc_channel_config config = {.target = target, .token = &echo.token};
    assert_ok(rpc_channel_open(rpc, &config, &channel));
    assert_ok(rpc_call_blocking(channel, "/test.Echo/Unary", mt_view_text("hello"), 30000, 0, &reply, NULL));
    assert_int_equal(reply.size, 5);
    assert_memory_equal(reply.data, "hello", 5);
    mt_buf_fini(&reply);
    assert_code(rpc_call_blocking(channel, "/test.Echo/Fail", mt_view_text(""), 30000, 0, &reply, detail), MT_EUNSCHEDULABLE);
    assert_string_equal(detail, "no node has 17 GPUs?");
    assert_code(rpc_call_blocking(channel, "/test.Echo/Never", mt_view_text(""), 30, 0, &reply, detail), MT_ETIMEDOUT);
    struct rpc_unary unary = {0};
    assert_code(rpc_unary_start(channel, &unary, "/test.Echo/Unary", mt_view_text(""), 30000, 0), MT_EINVAL);
    rpc_channel_close(channel);

    config.target = "127.0.0.1:1";
    assert_ok(rpc_channel_open(rpc, &config, &channel));
    assert_code(rpc_call_blocking(channel, "/test.Echo/Unary", mt_view_text(""), 30000, 0, &reply, detail), MT_ECONN);
    rpc_channel_close(channel);
    static const char *const bad[] = {"", "localhost", ":1", "h:0", "h:70000", "h:x"};
    for (size_t i = 0; i < sizeof bad / sizeof bad[0]; i++) {
        config.target = bad[i];
        assert_code(rpc_channel_open(rpc, &config, &channel), MT_EINVAL);
    }
    rpc_free(rpc);
}

/* A process that has so many descriptors left: 0: it starts gRPC; 1: it is told that it can't. */
static int start_with(int left)
{
    int   last = -1, status, fd;
    pid_t pid = fork(); /* gRPC has not begun here */
    if (pid == 0) {
        struct rlimit limit;
        struct rpc   *rpc;
        getrlimit(RLIMIT_NOFILE, &limit);
        limit.rlim_cur = 256;
        setrlimit(RLIMIT_NOFILE, &limit);
        while ((fd = dup(0)) >= 0)
            last = fd;
        while (left-- > 0)
            close(last--);
        _exit(rpc_new(NULL, &rpc).code == MT_EAGAIN);
    }
    assert_int_equal(waitpid(pid, &status, 0), pid);
    assert_true(WIFEXITED(status));
    return WEXITSTATUS(status);
}

static void too_few_descriptors_are_told(void **state)
{
    (void)state;
    for (int left = 1; left < 8; left++)
        assert_int_equal(start_with(left), 1);
    assert_int_equal(start_with(8), 0);
}

static void a_server_that_cannot_open_says_why(void **state)
{
    struct rpc_server *server;
    struct rpc_service none = {0};
    (void)state;
    struct rpc_server_config config = {.port = echo.port, .token = &echo.token};
    assert_code(rpc_server_open(client.rpc, &none, &config, &server), MT_EEXIST);
    config.host = "0.0.0.0";
    assert_code(rpc_server_open(client.rpc, &none, &config, &server), MT_EUNSUPPORTED);
    config.token = NULL;
    assert_code(rpc_server_open(client.rpc, &none, &config, &server), MT_EINVAL);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(too_few_descriptors_are_told), /* first: gRPC has not begun */
        cmocka_unit_test_setup_teardown(echoes_any_size_up_to_the_limit, setup, teardown),
        cmocka_unit_test_setup_teardown(many_at_a_time, setup, teardown),
        cmocka_unit_test_setup_teardown(a_handler_may_answer_later, setup, teardown),
        cmocka_unit_test_setup_teardown(an_error_keeps_its_code_and_text, setup, teardown),
        cmocka_unit_test_setup_teardown(the_deadline_ends_a_call_on_both_sides, setup, teardown),
        cmocka_unit_test_setup_teardown(a_cancelled_call_ends_on_both_sides, setup, teardown),
        cmocka_unit_test_setup_teardown(unknown_methods_are_told_to_who_has_the_token, setup, teardown),
        cmocka_unit_test_setup_teardown(every_method_but_the_open_one_wants_the_token, setup, teardown),
        cmocka_unit_test_setup_teardown(calls_above_the_bound_are_refused, setup, teardown),
        cmocka_unit_test_setup_teardown(a_closing_server_answers_what_is_open, setup, teardown),
        cmocka_unit_test_setup_teardown(freeing_the_runtime_ends_its_calls, setup, teardown),
        cmocka_unit_test_setup_teardown(blocking_calls_need_no_loop, setup, teardown),
        cmocka_unit_test_setup_teardown(a_server_that_cannot_open_says_why, setup, teardown),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
