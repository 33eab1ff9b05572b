/* SPDX-License-Identifier: Apache-2.0
 *
 * hostile_test.c - what strangers can do to a server's port, and that its clients are served all the same: in clear, and with TLS.
 */
#include "tests/unit/rpc/echo.h"

#include "core/base/clock.h"
#include "core/base/rng.h"

#include <errno.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <poll.h>
#include <sys/resource.h>
#include <sys/socket.h>

enum { PLACES = 8, STILL_MS = 2000 };
static struct echo_server       echo;
static struct rpc_server_config echo_config;
static struct echo_client       client;

static struct io_tls *tls_head, *tls_node; /* NULL: in clear */

static int setup_with(uint32_t first_call_ms)
{
    memset(&echo, 0, sizeof echo);
    echo.config = echo_config;
    echo.config.first_call_ms = first_call_ms;
    echo.config.tls = tls_head;
    echo.client_tls = tls_node;
    echo_start(&echo);
    client_start(&client, &echo);
    return 0;
}

static int setup(void **state)
{
    (void)state;
    return setup_with(0);
}

static int setup_impatient(void **state)
{
    (void)state;
    return setup_with(200);
}

static int setup_still(void **state)
{
    (void)state;
    return setup_with(STILL_MS / 2);
}

static int teardown(void **state)
{
    (void)state;
    client_stop(&client);
    echo_stop(&echo);
    return 0;
}

static int make_socket(void)
{
    int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    assert_true(fd >= 0);
    return fd;
}

/* One that the server ends at once, by a reset, may be over before this thread hears that it was made. */
static void dial(int fd)
{
    struct sockaddr_in at = {.sin_family = AF_INET, .sin_port = htons(echo.port)};
    at.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    if (connect(fd, (struct sockaddr *)&at, sizeof at) != 0)
        assert_int_equal(errno, ECONNRESET);
}

/* Reads until the server has closed the connection; false if it has not within 20 s. */
static bool is_dropped(int fd)
{
    char          bytes[4096];
    struct pollfd p = {fd, POLLIN, 0};
    while (poll(&p, 1, 20000) == 1) {
        ssize_t n = recv(fd, bytes, sizeof bytes, 0);
        if (n <= 0)
            return true;
    }
    return false;
}

static void assert_served(void)
{
    struct test_call    call;
    struct rpc_channel *channel = client_channel(&client, echo.port, &echo.token); /* a new connection */
    assert_int_equal(call_now(&call, &client, channel, "/test.Echo/Unary", mt_view_text("hello"), 30000), MT_OK);
    assert_string_equal(call.reply.data, "hello");
    call_end(&call);
    rpc_channel_close(channel);
}

/* A call on a connection that the server may be dropping right now: tries again as long as it is lost. */
static int32_t call_until_connected(struct rpc_channel *channel, const char *method)
{
    struct test_call call;
    int32_t          code = MT_ECONN;
    for (int i = 0; i < 2000 && code == MT_ECONN; i++) {
        usleep(i ? 10000 : 0);
        code = call_now(&call, &client, channel, method, mt_view_text("x"), 30000);
        call_end(&call);
    }
    return code;
}

/* One that has gone may keep its descriptors for a moment longer, so that there is none for this one. */
static void assert_served_soon(void)
{
    struct rpc_channel *channel = client_channel(&client, echo.port, &echo.token);
    assert_int_equal(call_until_connected(channel, "/test.Echo/Unary"), MT_OK);
    rpc_channel_close(channel);
}

static void garbage_ends_its_own_connection_only(void **state)
{
    static const char preface[] = "PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n";
    static const char settings[] = "\0\0\0\4\0\0\0\0\0", giant_frame[] = "\xff\xff\xff\1\4\0\0\0\1";
    mt_rng            rng = {7};
    char              bytes[8192];
    (void)state;
    for (int round = 0; round < 24; round++) {
        int    fd = make_socket();
        size_t size = 0;
        dial(fd);
        if (round % 4 >= 1) { /* garbage after a right beginning goes deeper */
            memcpy(bytes, preface, sizeof preface - 1);
            size = sizeof preface - 1;
        }
        if (round % 4 >= 2) {
            memcpy(bytes + size, settings, 9);
            size += 9;
        }
        if (round % 4 == 3) {
            memcpy(bytes + size, giant_frame, 9);
            size += 9;
        }
        while (size < 1024 + (size_t)round * 256)
            bytes[size++] = (char)(mt_rng_next(&rng) | 0x80); /* never a frame of a kind that is just ignored */
        ssize_t sent = send(fd, bytes, size, MSG_NOSIGNAL);
        (void)sent; /* the server may have hung up already */
        assert_true(is_dropped(fd));
        close(fd);
    }
    assert_served();
    echo_stats(&echo);
    assert_int_equal(echo.stats.unauthenticated, 0);
}

static void http_1_is_turned_away(void **state)
{
    static const char get[] = "GET / HTTP/1.1\r\nHost: localhost\r\n\r\n";
    (void)state;
    int fd = make_socket();
    dial(fd);
    assert_int_equal(send(fd, get, sizeof get - 1, MSG_NOSIGNAL), sizeof get - 1);
    assert_true(is_dropped(fd));
    close(fd);
    assert_served();
}

static void idle_connections_do_not_keep_clients_out(void **state)
{
    enum { IDLE = 300 };
    int fds[IDLE];
    (void)state;
    for (int i = 0; i < IDLE; i++) {
        fds[i] = make_socket();
        dial(fds[i]);
    }
    assert_served();
    echo_stats(&echo);
    assert_true(echo.stats.unauthenticated <= MT_CONNS_STRANGER_MAX);
    assert_true(echo.stats.silent <= MT_SILENT_MAX);
    assert_true(echo.stats.dropped_silent > 0);
    for (int i = 0; i < IDLE; i++)
        close(fds[i]);
    assert_served();
}

/* From one address, more than it may open: they are reset at once, and other addresses do not notice. */
static void one_address_opens_so_many(void **state)
{
    enum { MANY = 2 * MT_BOUND_BURST };
    struct sockaddr_in from = {.sin_family = AF_INET, .sin_addr = {htonl(INADDR_LOOPBACK + 1)}};
    int                fds[MANY];
    (void)state;
    for (int i = 0; i < MANY; i++) {
        fds[i] = make_socket();
        assert_int_equal(bind(fds[i], (struct sockaddr *)&from, sizeof from), 0);
        dial(fds[i]);
    }
    assert_served();
    echo_stats(&echo);
    assert_true(echo.stats.refused_bound > 0);
    assert_int_equal(echo.stats.unauthenticated, 0);
    assert_true(is_dropped(fds[MANY - 1]));
    for (int i = 0; i < MANY; i++)
        close(fds[i]);
}

static void a_connection_without_the_token_has_its_time(void **state)
{
    (void)state;
    int silent = make_socket();
    dial(silent);
    assert_true(is_dropped(silent));
    close(silent);

    /* Calls that need no token do not make a connection trusted, calls with a wrong one neither. */
    struct rpc_channel *bare = client_channel(&client, echo.port, NULL);
    assert_int_equal(call_until_connected(bare, "/test.Echo/Open"), MT_OK);
    assert_int_equal(call_until_connected(bare, "/test.Echo/Unary"), MT_EAUTH);
    do {
        usleep(5000);
        echo_stats(&echo);
    } while (echo.stats.dropped_unauthenticated < 1);
    assert_true(echo.stats.dropped_silent >= 1); /* the bare one too, where it was slow to say its first word */
    assert_int_equal(call_until_connected(bare, "/test.Echo/Open"), MT_OK); /* on a new one */
    rpc_channel_close(bare);

    /* One good call, and it may stay. */
    assert_int_equal(call_until_connected(client.channel, "/test.Echo/Unary"), MT_OK);
    for (int i = 0; i < 4000 && echo.stats.connections != 1; i++) { /* the closed one has gone */
        usleep(5000);
        echo_stats(&echo);
    }
    uint64_t until = io_now_ms() + 600;
    while (io_now_ms() < until)
        usleep(10000);
    echo_stats(&echo);
    assert_int_equal(echo.stats.connections, 1);
    assert_int_equal(echo.stats.unauthenticated, 0);
}

static _Atomic uint64_t still_from, still_to;
static void             stand_still(struct io_msg *msg)
{
    (void)msg;
    still_from = io_now_ms();
    mt_sleep_ms(STILL_MS);
    still_to = io_now_ms();
}

/* False: this thread was slow, and most of the connection's time was over before the server stood still. */
static bool is_time_left(void)
{
    struct rpc_channel *bare = client_channel(&client, echo.port, NULL);
    struct io_msg       still = {.run = stand_still};
    uint64_t            begun = io_now_ms();
    assert_int_equal(call_until_connected(bare, "/test.Echo/Open"), MT_OK);
    io_loop_post(echo.loop, &still);
    echo_stats(&echo); /* behind it */
    bool     is_early = still_from - begun < STILL_MS / 4;
    uint64_t before = echo.stats.dropped_unauthenticated;
    if (is_early) {
        assert_int_equal(echo.stats.unauthenticated, 1);
        do {
            usleep(5000);
            echo_stats(&echo);
        } while (echo.stats.dropped_unauthenticated == before);
        assert_in_range(io_now_ms() - still_to, STILL_MS / 20, UINT32_MAX);
    }
    rpc_channel_close(bare);
    return is_early;
}

/* The server's loop stands still for longer than a connection has: it is not blamed, and has what was left of its time. */
static void time_that_the_server_lost_is_not_counted(void **state)
{
    (void)state;
    for (int tries = 1; !is_time_left(); tries++)
        assert_true(tries < 5);
}

static void the_end_of_a_connection_is_noticed(void **state)
{
    struct test_call call;
    (void)state;
    struct rpc_channel *channel = client_channel(&client, echo.port, &echo.token);
    assert_int_equal(call_now(&call, &client, channel, "/test.Echo/Unary", mt_view_text("x"), 30000), MT_OK);
    call_end(&call);
    echo_stats(&echo);
    assert_int_equal(echo.stats.connections, 1);
    rpc_channel_close(channel);
    for (int i = 0; i < 10000 && echo.stats.connections; i++) {
        usleep(1000);
        echo_stats(&echo);
    }
    assert_int_equal(echo.stats.connections, 0);
}

static int setup_small(void **state)
{
    (void)state;
    echo_config = (struct rpc_server_config){.connections_max = PLACES};
    int failed = setup_with(0);
    echo_config = (struct rpc_server_config){0};
    return failed;
}

static int count_fds(void)
{
    int count = 0;
    for (int fd = 0; fd < 1024; fd++)
        count += fcntl(fd, F_GETFD) >= 0;
    return count;
}

/* What the first connection is the first to need is there, however late. */
static int count_fds_at_rest(void)
{
    int count = count_fds();
    for (int i = 0, same = 0; i < 1000 && same < 30; i++) {
        usleep(10000);
        int now = count_fds();
        same = now == count ? same + 1 : 0;
        count = now;
    }
    return count;
}

static void open_all(struct rpc_channel **channels, int from)
{
    struct test_call call;
    for (int i = from; i < PLACES; i++) {
        channels[i] = client_channel(&client, echo.port, &echo.token);
        assert_int_equal(call_now(&call, &client, channels[i], "/test.Echo/Unary", mt_view_text("x"), 30000), MT_OK);
        call_end(&call);
    }
}

/* Of a node that has shown the token the server has one descriptor, with TLS three; and its place is another's when it has gone. */
static void many_nodes_need_few_descriptors(void **state)
{
    struct rpc_channel *channels[PLACES], *others[PLACES];
    struct test_call    call;
    (void)state;
    channels[0] = client_channel(&client, echo.port, &echo.token);
    assert_int_equal(call_now(&call, &client, channels[0], "/test.Echo/Unary", mt_view_text("x"), 30000), MT_OK);
    call_end(&call);
    int before = count_fds_at_rest(), each = tls_head ? 1 + 3 : 1 + 1;
    open_all(channels, 1);
    for (int i = 0; i < 30000 && count_fds() > before + (PLACES - 1) * each; i++)
        usleep(1000);
    assert_in_range(count_fds(), before, before + (PLACES - 1) * each);
    for (int i = 0; i < PLACES; i++)
        rpc_channel_close(channels[i]);
    open_all(others, 0);
    for (int i = 0; i < PLACES; i++)
        rpc_channel_close(others[i]);
}

static void no_descriptor_left_does_not_make_it_deaf(void **state)
{
    enum { MANY = 60 };
    int           fds[MANY];
    struct rlimit old, low;
    (void)state;
    for (int i = 0; i < MANY; i++)
        fds[i] = make_socket();
    assert_served(); /* gRPC has all that it opens once */
    int next = open("/dev/null", O_RDONLY);
    close(next);
    assert_int_equal(getrlimit(RLIMIT_NOFILE, &old), 0);
    low = old;
    low.rlim_cur = (rlim_t)next + 3; /* one connection takes two */
    assert_int_equal(setrlimit(RLIMIT_NOFILE, &low), 0);
    for (int i = 0; i < MANY; i++)
        dial(fds[i]); /* into the backlog; needs no descriptor here */
    assert_true(is_dropped(fds[MANY - 1]));
    for (int i = 0; i < MANY; i++)
        close(fds[i]);
    echo_stats(&echo);
    assert_true(echo.stats.refused_fds > 0);
    for (int i = 0; i < 5; i++)
        assert_served_soon(); /* still under the low limit */
    assert_int_equal(setrlimit(RLIMIT_NOFILE, &old), 0);
    assert_served();
}

static void no_descriptor_is_left_behind(void **state)
{
    (void)state;
    setup(state);
    assert_served();
    teardown(state);
    int before = count_fds();
    for (int i = 0; i < 3; i++) {
        setup(state);
        assert_served();
        int fd = make_socket();
        dial(fd);
        teardown(state);
        close(fd);
    }
    /* gRPC's own threads close theirs a little later, those of the first round too: fewer than before is fine. */
    for (int i = 0; i < 5000 && count_fds() > before; i++)
        usleep(1000);
    assert_true(count_fds() <= before);
}

/* TLS with the token, but of no authority of this cluster: not even calls that need no token are answered. */
static void only_certificates_of_the_cluster_are_served(void **state)
{
    struct test_call call;
    (void)state;
    assert_served();
    client.tls = NULL;
    struct rpc_channel *plain = client_channel(&client, echo.port, &echo.token);
    assert_int_equal(call_now(&call, &client, plain, "/test.Echo/Open", mt_view_text("x"), 30000), MT_ECONN);
    call_end(&call);
    rpc_channel_close(plain);
    client.tls = tls_head; /* the head dials nobody */
    struct rpc_channel *wrong = client_channel(&client, echo.port, &echo.token);
    assert_int_equal(call_now(&call, &client, wrong, "/test.Echo/Open", mt_view_text("x"), 30000), MT_ECONN);
    call_end(&call);
    rpc_channel_close(wrong);
    client.tls = tls_node;
    client.peer = IO_TLS_NODE; /* it is the head that is there */
    wrong = client_channel(&client, echo.port, &echo.token);
    assert_int_equal(call_now(&call, &client, wrong, "/test.Echo/Open", mt_view_text("x"), 30000), MT_ECONN);
    call_end(&call);
    rpc_channel_close(wrong);
    client.peer = IO_TLS_HEAD;
    echo_stats(&echo);
    assert_true(echo.stats.refused_tls >= 2);                            /* the last one was refused by the client */
    struct rpc_channel *bare = client_channel(&client, echo.port, NULL); /* the certificate, but no token */
    assert_int_equal(call_now(&call, &client, bare, "/test.Echo/Unary", mt_view_text("x"), 30000), MT_EAUTH);
    call_end(&call);
    rpc_channel_close(bare);
    assert_served();
}

static char folder[80];

static void remove_file(const char *name)
{
    char path[160];
    snprintf(path, sizeof path, "%s/%s", folder, name);
    unlink(path);
}

static int tls_begin(void **state)
{
    char        path[160];
    const char *parent = getenv("TMPDIR");
    (void)state;
    snprintf(folder, sizeof folder, "%s/rpc-XXXXXX", parent ? parent : "/tmp");
    assert_non_null(mkdtemp(folder));
    assert_ok(io_tls_make(folder, "c1"));
    snprintf(path, sizeof path, "%s/head.pem", folder);
    assert_ok(io_tls_load(path, &tls_head));
    snprintf(path, sizeof path, "%s/node.pem", folder);
    assert_ok(io_tls_load(path, &tls_node));
    return 0;
}

static int tls_over(void **state)
{
    (void)state;
    io_tls_free(tls_head);
    io_tls_free(tls_node);
    remove_file("ca.pem");
    remove_file("head.pem");
    remove_file("node.pem");
    return rmdir(folder);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(garbage_ends_its_own_connection_only, setup, teardown),
        cmocka_unit_test_setup_teardown(http_1_is_turned_away, setup, teardown),
        cmocka_unit_test_setup_teardown(idle_connections_do_not_keep_clients_out, setup, teardown),
        cmocka_unit_test_setup_teardown(one_address_opens_so_many, setup, teardown),
        cmocka_unit_test_setup_teardown(a_connection_without_the_token_has_its_time, setup_impatient, teardown),
        cmocka_unit_test_setup_teardown(time_that_the_server_lost_is_not_counted, setup_still, teardown),
        cmocka_unit_test_setup_teardown(the_end_of_a_connection_is_noticed, setup, teardown),
        cmocka_unit_test_setup_teardown(many_nodes_need_few_descriptors, setup_small, teardown),
        cmocka_unit_test_setup_teardown(no_descriptor_left_does_not_make_it_deaf, setup, teardown),
        cmocka_unit_test(no_descriptor_is_left_behind),
    };
    const struct CMUnitTest only_tls[] = {
        cmocka_unit_test_setup_teardown(only_certificates_of_the_cluster_are_served, setup, teardown),
    };
    int failed = cmocka_run_group_tests_name("in clear", tests, NULL, NULL);
    failed += cmocka_run_group_tests_name("TLS", tests, tls_begin, tls_over);
    return failed + cmocka_run_group_tests_name("TLS alone", only_tls, tls_begin, tls_over);
}
