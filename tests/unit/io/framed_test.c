/* SPDX-License-Identifier: Apache-2.0
 *
 * framed_test.c - whole messages over real sockets on loopback: two ends, and strangers; in clear, and with TLS.
 */
#include "core/base/rng.h"
#include "core/io/framed/framed.h"
#include "core/io/framed/reader.h"
#include "tests/unit/base/says.h"
#include "tests/unit/io/certificates.h"

#include <arpa/inet.h>
#include <errno.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include <cmocka.h>

enum { MESSAGE_MAX = 200 * 1000, QUEUE_MAX = 8 * 1024 * 1024, CONNS = 8, GUARD_MS = 10000 };

struct end;
/* One connection as its owner sees it. */
struct conn {
    struct io_framed_handler handler;
    struct end              *end;
    struct io_framed_conn   *conn; /* NULL: it has ended */
    uint64_t                 messages, bytes;
    mt_status                st;
    bool                     is_over, refuses;
};

struct end {
    struct io_framed framed;
    struct conn      conns[CONNS];
    int              count;
    bool             wants_nobody, echoes;
};

struct net {
    struct io_loop *loop;
    struct io_token token;
    struct end      a, b; /* b listens for what a dials */
    struct io_timer guard;
    struct io_tick  tick;
    bool (*is_done)(struct net *net);
};

static void expect_ok(mt_status st)
{
    if (st.code != MT_OK)
        fail_msg("%s: %s (errno %d)", mt_code_name(st.code), st.what, st.sys);
}

/* Byte i of message n, so that what is lost, doubled or moved shows. */
static uint8_t byte_of(uint64_t n, size_t i)
{
    return (uint8_t)(n * 31 + i * 7 + (i >> 8));
}

static void send_one(struct conn *c, uint64_t n, size_t size)
{
    uint8_t *bytes = malloc(size);
    assert_non_null(bytes);
    for (size_t i = 0; i < size; i++)
        bytes[i] = byte_of(n, i);
    expect_ok(io_framed_send(c->conn, mt_view_of(bytes, size)));
    free(bytes);
}

static bool on_message(struct io_framed_handler *handler, mt_view message)
{
    struct conn *c = mt_container_of(handler, struct conn, handler);
    if (c->refuses)
        return false;
    for (size_t i = 0; i < message.size; i++)
        if (message.data[i] != byte_of(c->messages, i))
            fail_msg("message %llu, byte %zu", (unsigned long long)c->messages, i);
    c->messages++;
    c->bytes += message.size;
    if (c->end->echoes)
        expect_ok(io_framed_send(c->conn, message));
    return true;
}

static void on_ended(struct io_framed_handler *handler, mt_status st)
{
    struct conn *c = mt_container_of(handler, struct conn, handler);
    assert_false(c->is_over);
    c->is_over = true;
    c->conn = NULL;
    c->st = st;
}

static struct conn *conn_add(struct end *end)
{
    assert_true(end->count < CONNS);
    struct conn *c = &end->conns[end->count++];
    c->end = end;
    c->handler = (struct io_framed_handler){on_message, on_ended};
    return c;
}

static struct io_framed_handler *on_accepted(struct io_framed *framed, struct io_framed_conn *conn)
{
    struct end *end = mt_container_of(framed, struct end, framed);
    if (end->wants_nobody)
        return NULL;
    struct conn *c = conn_add(end);
    c->conn = conn;
    return &c->handler;
}

static void on_tick(struct io_tick *tick)
{
    struct net *net = mt_container_of(tick, struct net, tick);
    io_framed_flush(&net->a.framed);
    io_framed_flush(&net->b.framed);
    if (net->is_done && net->is_done(net))
        io_loop_stop(net->loop);
}

static void on_guard(struct io_timer *timer)
{
    (void)timer;
    fail_msg("nothing happened for 10 s");
}

static void run_until(struct net *net, bool (*is_done)(struct net *net))
{
    net->is_done = is_done;
    io_timer_start(net->loop, &net->guard, GUARD_MS);
    io_loop_run(net->loop);
    io_timer_stop(&net->guard);
}

static void end_open(struct net *net, struct end *end, const struct io_tls *tls)
{
    end->framed.accepted = on_accepted;
    end->framed.message_max = MESSAGE_MAX;
    end->framed.queue_max = QUEUE_MAX;
    end->framed.tls = tls;
    expect_ok(io_framed_open(&end->framed, net->loop, "127.0.0.1", 0, &net->token));
}

static void net_open(struct net *net)
{
    memset(net, 0, sizeof *net);
    memset(net->token.hex, 'a', IO_TOKEN_HEX);
    net->guard.fire = on_guard;
    net->tick.run = on_tick;
    expect_ok(io_loop_new(&net->loop));
    io_loop_set_tick(net->loop, &net->tick);
    end_open(net, &net->a, node_tls);
    end_open(net, &net->b, node_tls);
}

static void net_close(struct net *net)
{
    io_framed_close(&net->a.framed);
    io_framed_close(&net->b.framed);
    io_loop_set_tick(net->loop, NULL);
    io_loop_free(net->loop);
}

static struct conn *dial_b(struct net *net)
{
    struct conn *c = conn_add(&net->a);
    expect_ok(io_framed_dial(&net->a.framed, "127.0.0.1", net->b.framed.port, &c->handler, &c->conn));
    return c;
}

enum { MANY = 400 };

static size_t size_of(uint64_t n)
{
    static const size_t sizes[] = {1, 3, 64, 4095, 65536, 131072, MESSAGE_MAX, 17};
    return sizes[n % 8];
}

static bool all_came_back(struct net *net)
{
    return net->a.conns[0].messages == MANY;
}

/* All sizes, both ways; queued before the connection is there, and more than a socket takes. */
static void messages_arrive_whole_and_in_order(void **state)
{
    struct net net;
    (void)state;
    net_open(&net);
    struct conn *c = dial_b(&net);
    net.b.echoes = true;
    for (uint64_t i = 0; i < MANY; i++)
        send_one(c, i, i < 100 ? size_of(i) : size_of(i) % 1000 + 1);
    run_until(&net, all_came_back);
    assert_int_equal(net.b.count, 1);
    assert_int_equal(net.b.conns[0].messages, MANY);
    assert_int_equal(c->bytes, net.b.conns[0].bytes);
    assert_false(c->is_over || net.b.conns[0].is_over);
    net_close(&net);
}

static bool a_is_over(struct net *net)
{
    return net->a.conns[net->a.count - 1].is_over;
}

static bool b_is_over(struct net *net)
{
    return net->b.count > 0 && net->b.conns[net->b.count - 1].is_over;
}

static bool b_has_one(struct net *net)
{
    return net->b.count > 0 && net->b.conns[net->b.count - 1].messages > 0;
}

/* Dials b, and a message has come there. */
static struct conn *meet_b(struct net *net)
{
    struct conn *c = dial_b(net);
    send_one(c, 0, 10);
    run_until(net, b_has_one);
    return c;
}

/* Each way in which one ends, as the other hears of it. */
static void ends_are_told_once(void **state)
{
    struct net net;
    (void)state;
    net_open(&net);
    struct conn *c = meet_b(&net);
    io_framed_end(c->conn); /* without a word here */
    run_until(&net, b_is_over);
    assert_int_equal(net.b.conns[0].st.code, MT_ECONN);
    assert_false(c->is_over);

    c = meet_b(&net);
    io_framed_cancel(c->conn);
    run_until(&net, a_is_over);
    assert_int_equal(c->st.code, MT_ECONN);

    net.b.wants_nobody = true;
    c = dial_b(&net);
    run_until(&net, a_is_over);
    assert_int_equal(c->st.code, MT_ECONN);
    net.b.wants_nobody = false;

    c = dial_b(&net); /* more than may wait */
    mt_status st = mt_ok();
    uint8_t  *zeros = calloc(1, MESSAGE_MAX);
    for (int i = 0; !st.code && i < 1000; i++)
        st = io_framed_send(c->conn, mt_view_of(zeros, MESSAGE_MAX));
    assert_int_equal(st.code, MT_EAGAIN);
    assert_int_equal(io_framed_send(c->conn, mt_view_of(zeros, 0)).code, MT_EINVAL);
    uint8_t *longer = calloc(1, MESSAGE_MAX + 1);
    assert_int_equal(io_framed_send(c->conn, mt_view_of(longer, MESSAGE_MAX + 1)).code, MT_EINVAL);
    free(zeros);
    free(longer);
    io_framed_end(c->conn);

    uint16_t port = net.b.framed.port;
    io_framed_close(&net.b.framed);
    c = conn_add(&net.a);
    st = io_framed_dial(&net.a.framed, "127.0.0.1", port, &c->handler, &c->conn);
    if (!st.code) {
        run_until(&net, a_is_over);
        st = c->st;
    }
    assert_int_equal(st.code, MT_ECONN);
    assert_int_equal(st.sys, ECONNREFUSED);
    struct io_framed_conn *none;
    assert_int_equal(io_framed_dial(&net.a.framed, "no such host", 1, &c->handler, &none).code,
                     node_tls ? MT_EINVAL : MT_EUNSUPPORTED);
    if (!node_tls) /* the token stays here */
        assert_int_equal(io_framed_dial(&net.a.framed, "192.0.2.1", 1, &c->handler, &none).code, MT_EUNSUPPORTED);
    net_close(&net);
}

static void a_message_that_is_none_ends_it(void **state)
{
    struct net net;
    (void)state;
    net_open(&net);
    struct conn *c = meet_b(&net);
    net.b.conns[0].refuses = true;
    send_one(c, 1, 10);
    run_until(&net, b_is_over);
    assert_int_equal(net.b.conns[0].st.code, MT_EPROTO);
    run_until(&net, a_is_over);
    net_close(&net);
}

/* Another cluster's token, by somebody who has our certificate. */
static void a_wrong_token_is_refused(void **state)
{
    struct net net;
    (void)state;
    net_open(&net);
    net.a.framed.token.hex[7] = 'b';
    struct conn *c = dial_b(&net);
    send_one(c, 0, 10);
    run_until(&net, a_is_over);
    assert_int_equal(c->st.code, MT_ECONN);
    assert_int_equal(net.b.count, 0);
    assert_int_equal(net.b.framed.count.refused_auth, 1);
    assert_int_equal(net.b.framed.strangers.count, 0);
    net.a.framed.token.hex[7] = 'a';
    c = meet_b(&net);
    net_close(&net);
}

static int connect_to(uint16_t port)
{
    struct sockaddr_in to = {.sin_family = AF_INET, .sin_port = htons(port)};
    to.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    assert_true(fd >= 0);
    assert_int_equal(connect(fd, (struct sockaddr *)&to, sizeof to), 0);
    return fd;
}

/* Garbage, part of a greeting, one of another version, or nothing: they are dropped, a peer still gets through. */
static void strangers(void **state)
{
    struct net net;
    mt_rng     rng = {3};
    int        fds[MT_CONNS_STRANGER_MAX - 2];
    size_t     count = sizeof fds / sizeof *fds;
    (void)state;
    net_open(&net);
    for (size_t i = 0; i < count; i++) {
        uint8_t garbage[400];
        for (size_t b = 0; b < sizeof garbage; b++)
            garbage[b] = (uint8_t)mt_rng_next(&rng);
        struct io_framed_hello hello = {.magic = IO_FRAMED_MAGIC};
        hello.version_min = hello.version_max = (uint16_t)(mt_release.wire.max + (i % 4 == 1));
        memset(hello.token, i % 4 == 2 ? 'c' : 'a', sizeof hello.token);
        if (i % 2)
            memcpy(garbage, &hello, i % 4 == 3 ? sizeof hello - 1 : sizeof hello);
        fds[i] = connect_to(net.b.framed.port);
        size_t size = i % 2 ? i % 4 == 3 ? sizeof hello - 1 : sizeof hello : mt_rng_below(&rng, sizeof garbage);
        if (size > 0)
            assert_true(send(fds[i], garbage, size, MSG_NOSIGNAL) > 0);
        if (i % 3 == 0)
            shutdown(fds[i], SHUT_WR);
    }
    meet_b(&net);
    assert_int_equal(net.b.count, 1);
    assert_true(net.b.framed.count.refused_auth > 0);
    assert_true(net.b.framed.strangers.count <= MT_CONNS_STRANGER_MAX);
    for (size_t i = 0; i < count; i++)
        close(fds[i]);
    net_close(&net);
}

/* More than are borne, and they say nothing, or the first byte of a greeting: a peer gets through. */
static void too_many_strangers(void **state)
{
    enum { TOO_MANY = 3 * MT_SILENT_MAX };
    struct net net;
    int        fds[TOO_MANY];
    (void)state;
    net_open(&net);
    for (int i = 0; i < TOO_MANY; i++) {
        fds[i] = connect_to(net.b.framed.port);
        if (i % 5 == 0)
            assert_int_equal(send(fds[i], "m", 1, MSG_NOSIGNAL), 1);
    }
    meet_b(&net);
    assert_true(net.b.framed.listener.silent.dropped > 0);
    assert_true(net.b.framed.listener.silent.count <= MT_SILENT_MAX);
    assert_true(net.b.framed.strangers.count <= MT_CONNS_STRANGER_MAX);
    for (int i = 0; i < TOO_MANY; i++)
        close(fds[i]);
    net_close(&net);
}

static bool a_slow_one_is_gone(struct net *net)
{
    return net->b.framed.count.dropped + net->b.framed.count.refused_auth + net->b.framed.listener.silent.dropped > 0;
}

/* It begins to greet and goes on too slowly: its time is over, however many wait. */
static void a_slow_handshake(void **state)
{
    static const uint8_t tls_begins[] = {0x16, 3, 1, 0, 200, 1, 0, 0};
    struct net           net;
    (void)state;
    net_open(&net);
    int fd = connect_to(net.b.framed.port);
    assert_int_equal(send(fd, tls_begins, sizeof tls_begins, MSG_NOSIGNAL), sizeof tls_begins);
    uint64_t began = io_now_ms();
    run_until(&net, a_slow_one_is_gone);
    assert_true(io_now_ms() - began >= MT_HANDSHAKE_MS / 2);
    assert_int_equal(net.b.framed.strangers.count, 0);
    close(fd);
    net_close(&net);
}

/* A rogue authority's certificate, either way round; nobody sends the token to it. */
static void only_certificates_of_the_cluster(void **state)
{
    struct net net;
    (void)state;
    net_open(&net);
    io_framed_close(&net.b.framed);
    net.b.framed = (struct io_framed){0};
    end_open(&net, &net.b, rogue_tls);
    for (int way = 0; way < 2; way++) {
        struct end  *from = way ? &net.b : &net.a, *to = way ? &net.a : &net.b;
        struct conn *c = conn_add(from);
        expect_ok(io_framed_dial(&from->framed, "127.0.0.1", to->framed.port, &c->handler, &c->conn));
        send_one(c, 0, 10);
        run_until(&net, way ? b_is_over : a_is_over);
        assert_int_equal(c->st.code, MT_ECONN);
        assert_int_equal(to->framed.count.refused_auth, 1);
    }
    net_close(&net);
}

/* Who says that it has put in more than there was room for has written past it. */
static void more_than_there_is_room_for(void **state)
{
    (void)state;
    struct io_framed_reader r;
    struct io_token         token = {.hex = "0"};
    void                   *at;
    size_t                  room;
    io_framed_reader_init(&r, 1000, true);
    assert_string_not_equal(SAYS((void)io_framed_received(&r, sizeof r.hello + 1, &token).code), "");
    io_framed_reader_fini(&r);
    io_framed_reader_init(&r, 1000, false);
    assert_int_equal(io_framed_room(&r, &at, &room).code, MT_OK);
    assert_string_not_equal(SAYS((void)io_framed_received(&r, room + 1, &token).code), "");
    io_framed_reader_fini(&r);
}

int main(void)
{
    signal(SIGPIPE, SIG_IGN); /* as in a raylet */
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(messages_arrive_whole_and_in_order),
        cmocka_unit_test(ends_are_told_once),
        cmocka_unit_test(a_message_that_is_none_ends_it),
        cmocka_unit_test(a_wrong_token_is_refused),
        cmocka_unit_test(strangers),
        cmocka_unit_test(too_many_strangers),
        cmocka_unit_test(a_slow_handshake),
        cmocka_unit_test(more_than_there_is_room_for),
    };
    const struct CMUnitTest only_tls[] = {cmocka_unit_test(only_certificates_of_the_cluster)};
    int                     failed = cmocka_run_group_tests_name("in clear", tests, NULL, NULL);
    failed += cmocka_run_group_tests_name("TLS", tests, certificates_begin, certificates_end);
    return failed + cmocka_run_group_tests_name("TLS alone", only_tls, certificates_begin, certificates_end);
}
