/* SPDX-License-Identifier: Apache-2.0
 *
 * transfer_test.c - objects over real sockets on loopback: two raylets' shells, and strangers; in clear, and with TLS.
 */
#include "core/base/limits/net.h"
#include "core/base/rng.h"
#include "objectstore/layout/layout.h"
#include "objectstore/layout/sum.h"
#include "objectstore/transfer/transfer.h"
#include "tests/unit/io/certificates.h"

#include <arpa/inet.h>
#include <poll.h>
#include <pthread.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include <cmocka.h>

enum { SOURCE = 7, SOURCE_EPOCH = 3, PULLER = 4, FETCHES = 20, SIZE_MAX_TEST = 5 * 1024 * 1024 + 77 };

struct node_end {
    struct os_transfer transfer;
    uint8_t           *value; /* of every object here */
    int                pins;
    int                stop_at;        /* pins: the loop stops there */
    int32_t            refuse;         /* code */
    uint64_t           refuse_counter; /* not 0: of the object with this id alone */
    uint32_t           elsewhere;
    const uint8_t     *whole; /* what a pin finds instead of `value` */
};

struct net {
    struct io_loop *loop;
    struct io_token token;
    struct node_end source, puller;
    int             left; /* fetches under way; the loop stops at 0 */
    struct io_timer guard, pause;
};

struct test_fetch {
    struct os_fetch    fetch;
    struct net        *net;
    uint8_t           *data;
    mt_status          st;
    int                done;
    struct test_fetch *cancels; /* when it is done */
};

static void expect_ok(mt_status st)
{
    if (st.code != MT_OK)
        fail_msg("%s: %s (errno %d)", mt_code_name(st.code), st.what, st.sys);
}

static mt_status node_pin(struct os_transfer *transfer, const struct lane_ref *ref, uint32_t node, struct os_pinned *out)
{
    struct node_end *end = mt_container_of(transfer, struct node_end, transfer);
    out->held = *ref;
    out->elsewhere = end->elsewhere;
    (void)node;
    if (end->refuse && (!end->refuse_counter || end->refuse_counter == ref->id.counter_index))
        return mt_error(end->refuse, 0, "test");
    if (++end->pins == end->stop_at)
        io_loop_stop(transfer->loop);
    out->data = end->whole ? end->whole : end->value;
    return mt_ok();
}

static void node_unpin(struct os_transfer *transfer, const struct os_pinned *pin, uint32_t node)
{
    (void)pin;
    (void)node;
    mt_container_of(transfer, struct node_end, transfer)->pins--;
}

static void stop_loop(struct io_timer *timer)
{
    io_loop_stop(mt_container_of(timer, struct net, pause)->loop);
}

static void guard_fired(struct io_timer *timer)
{
    (void)timer;
    abort(); /* a test that hangs */
}

static void net_open(struct net *net)
{
    *net = (struct net){0};
    expect_ok(io_loop_new(&net->loop));
    memset(net->token.hex, 'a', IO_TOKEN_HEX);
    struct node_end *ends[] = {&net->source, &net->puller};
    for (int i = 0; i < 2; i++) {
        uint8_t *object = calloc(1, OS_HEADER_SIZE + SIZE_MAX_TEST); /* a value has its header in front */
        assert_non_null(object);
        ends[i]->value = object + OS_HEADER_SIZE;
        mt_rng rng = {77};
        for (size_t b = 0; b < SIZE_MAX_TEST; b++)
            ends[i]->value[b] = (uint8_t)mt_rng_next(&rng);
        ends[i]->transfer.pin = node_pin;
        ends[i]->transfer.unpin = node_unpin;
        ends[i]->transfer.tls = node_tls;
        expect_ok(os_transfer_open(&ends[i]->transfer, net->loop, "127.0.0.1", 0, &net->token));
    }
    net->source.transfer.node = SOURCE;
    net->source.transfer.epoch = SOURCE_EPOCH;
    net->puller.transfer.node = PULLER;
    net->guard.fire = guard_fired;
    io_timer_start(net->loop, &net->guard, 30000);
}

static void net_close(struct net *net)
{
    os_transfer_close(&net->puller.transfer);
    os_transfer_close(&net->source.transfer);
    assert_int_equal(net->source.pins, 0);
    io_timer_stop(&net->guard);
    io_loop_free(net->loop);
    free(net->source.value - OS_HEADER_SIZE);
    free(net->puller.value - OS_HEADER_SIZE);
}

static void cancel(struct test_fetch *t)
{
    os_fetch_cancel(&t->fetch);
    t->net->left--;
}

static void fetched(struct os_fetch *fetch, mt_status st)
{
    struct test_fetch *t = mt_container_of(fetch, struct test_fetch, fetch);
    t->st = st;
    t->done++;
    if (t->cancels)
        cancel(t->cancels);
    if (--t->net->left == 0)
        io_loop_stop(t->net->loop);
}

static mt_status start_of_job(struct net *net, struct test_fetch *t, uint16_t port, uint32_t epoch, uint64_t size, uint32_t job)
{
    struct lane_ref ref = {.id = {1, size + 1}, .node = SOURCE, .segment = 1, .size = size, .job = job};
    *t = (struct test_fetch){.net = net, .data = calloc(1, size + 1)};
    t->fetch.done = fetched;
    assert_non_null(t->data);
    mt_status st = os_fetch_start(&net->puller.transfer, &t->fetch, "127.0.0.1", port, SOURCE, epoch, &ref, t->data);
    if (st.code == MT_OK)
        net->left++;
    return st;
}

static mt_status start(struct net *net, struct test_fetch *t, uint16_t port, uint32_t epoch, uint64_t size)
{
    return start_of_job(net, t, port, epoch, size, 1);
}

static void run(struct net *net)
{
    if (net->left > 0)
        io_loop_run(net->loop);
}

static int32_t fetch_one(struct net *net, uint16_t port, uint32_t epoch, uint64_t size)
{
    struct test_fetch t;
    mt_status         st = start(net, &t, port, epoch, size);
    if (st.code == MT_OK) {
        run(net);
        st = t.st;
        assert_int_equal(t.done, 1);
        if (st.code == MT_OK)
            assert_memory_equal(t.data, net->source.value, size);
    }
    free(t.data);
    return st.code;
}

static void many_at_once(void **state)
{
    (void)state;
    struct net        net;
    struct test_fetch t[FETCHES];
    net_open(&net);
    for (int i = 0; i < FETCHES; i++)
        expect_ok(start(&net, &t[i], net.source.transfer.port, SOURCE_EPOCH, i == 0 ? 0 : (uint64_t)SIZE_MAX_TEST / (uint64_t)i));
    run(&net);
    for (int i = 0; i < FETCHES; i++) {
        expect_ok(t[i].st);
        assert_int_equal(t[i].done, 1);
        assert_memory_equal(t[i].data, net.source.value, t[i].fetch.pull.ref.size);
        free(t[i].data);
    }
    assert_int_equal(net.source.transfer.count.accepted, FETCHES);
    net_close(&net);
}

static void refusals(void **state)
{
    (void)state;
    struct net net;
    net_open(&net);
    uint16_t port = net.source.transfer.port;
    assert_int_equal(fetch_one(&net, port, SOURCE_EPOCH, 100000), MT_OK);
    assert_int_equal(fetch_one(&net, port, 0, 100000), MT_OK);
    assert_int_equal(fetch_one(&net, port, SOURCE_EPOCH + 1, 100000), MT_EFENCED);
    net.source.refuse = MT_EOBJ_LOST;
    assert_int_equal(fetch_one(&net, port, SOURCE_EPOCH, 100000), MT_EOBJ_LOST);
    net.source.refuse = 0;
    os_transfer_idle_close(&net.puller.transfer); /* they have shown the token */
    net.puller.transfer.token.hex[5] = 'b';
    assert_int_equal(fetch_one(&net, port, SOURCE_EPOCH, 100000), MT_ECONN);
    assert_int_equal(net.source.transfer.count.refused_auth, 1);
    net.puller.transfer.token.hex[5] = 'a';
    os_transfer_close(&net.source.transfer);
    int32_t code = fetch_one(&net, port, SOURCE_EPOCH, 100000); /* nobody listens any more */
    assert_int_equal(code, MT_ECONN);
    struct test_fetch t = {0};
    struct lane_ref   ref = {.id = {1, 1}};
    assert_int_equal(os_fetch_start(&net.puller.transfer, &t.fetch, "no such host", 1, 1, 1, &ref, NULL).code, MT_EINVAL);
    net_close(&net);
}

/* ---- values that are on their way ---- */

enum { CHUNK = MT_OBJECT_CHUNK_BYTES, PART_SIZE = 4 * CHUNK + 99, THIRD = 9 };

/* A node that has the first `have` bytes of a value of another node, and one that fetches it from there. */
struct sender {
    struct net        net;
    struct os_part    part;
    struct os_pull    pull; /* how far it is */
    uint8_t          *data; /* of the relay */
    struct lane_ref   ref;
    struct test_fetch t;
    struct io_timer   grow;
    int               steps;
};

/* One more chunk is there; in the end all is. */
static void sender_grows(struct io_timer *timer)
{
    struct sender *r = mt_container_of(timer, struct sender, grow);
    assert_false(r->t.done); /* it waits for what is not there */
    assert_true(r->t.fetch.pull.good <= r->pull.good);
    uint64_t from = r->pull.good, size = PART_SIZE - from < CHUNK ? PART_SIZE - from : CHUNK;
    memcpy(r->data + from, r->net.puller.value + from, size);
    r->pull.good += size;
    os_part_grow(&r->part, &r->pull);
    if (--r->steps)
        io_timer_start(r->net.loop, &r->grow, 5);
    else
        io_loop_stop(r->net.loop);
}

static void sender_open(struct sender *r, int steps)
{
    *r = (struct sender){.steps = steps};
    net_open(&r->net);
    uint8_t *object = calloc(1, OS_HEADER_SIZE + PART_SIZE);
    assert_non_null(object);
    r->data = object + OS_HEADER_SIZE;
    r->ref = (struct lane_ref){.id = {1, 5}, .node = THIRD, .segment = 1, .size = PART_SIZE, .job = 1};
    os_part_open(&r->net.source.transfer, &r->part, &r->ref, r->data);
    r->grow.fire = sender_grows;
    io_timer_start(r->net.loop, &r->grow, 5);
    r->t = (struct test_fetch){.net = &r->net, .data = calloc(1, PART_SIZE), .fetch = {.done = fetched}};
    expect_ok(os_fetch_start(&r->net.puller.transfer, &r->t.fetch, "127.0.0.1", r->net.source.transfer.port, SOURCE, SOURCE_EPOCH,
                             &r->ref, r->t.data));
    r->net.left = 1;
    io_loop_run(r->net.loop);
}

static void sender_close(struct sender *r)
{
    io_timer_stop(&r->grow);
    net_close(&r->net);
    free(r->data - OS_HEADER_SIZE);
    free(r->t.data);
}

/* What a node has of a value it sends on, chunk by chunk, and the rest when the value is whole there. */
static void sent_on_while_it_comes(void **state)
{
    (void)state;
    struct sender r;
    sender_open(&r, 5);
    r.net.source.whole = r.data;
    os_part_close(&r.part, true);
    run(&r.net);
    expect_ok(r.t.st);
    assert_memory_equal(r.t.data, r.net.source.value, PART_SIZE);
    r.net.source.whole = NULL;
    sender_close(&r);
}

/* It does not come to that node: who fetches it there hears so, and goes on elsewhere behind what has come. */
static void a_part_that_ends(void **state)
{
    (void)state;
    struct sender r;
    sender_open(&r, 3);
    while (r.t.fetch.pull.good < 2 * CHUNK) {
        io_timer_start(r.net.loop, &r.net.pause, 1);
        r.net.pause.fire = stop_loop;
        io_loop_run(r.net.loop);
    }
    os_part_close(&r.part, false);
    run(&r.net);
    assert_int_equal(r.t.st.code, MT_ECONN);
    uint64_t have = r.t.fetch.pull.good;
    assert_true(have >= 2 * CHUNK && have < PART_SIZE);
    uint64_t before = r.net.puller.transfer.count.bytes_received;
    r.t.fetch = (struct os_fetch){.done = fetched, .have = have};
    r.ref.node = SOURCE;
    r.t.done = 0;
    expect_ok(os_fetch_start(&r.net.puller.transfer, &r.t.fetch, "127.0.0.1", r.net.source.transfer.port, SOURCE, SOURCE_EPOCH,
                             &r.ref, r.t.data));
    r.net.left = 1;
    run(&r.net);
    expect_ok(r.t.st);
    assert_memory_equal(r.t.data, r.net.source.value, PART_SIZE);
    assert_true(r.net.puller.transfer.count.bytes_received - before < PART_SIZE - have + 1000); /* not from its first byte */
    sender_close(&r);
}

/* A node that waits for another one that gets nothing has had enough before that one has. */
static void a_relay_that_is_silent(void **state)
{
    (void)state;
    struct net        net;
    struct test_fetch t;
    struct os_part    part;
    net_open(&net);
    struct lane_ref ref = {.id = {1, 5}, .node = THIRD, .segment = 1, .size = PART_SIZE, .job = 1};
    t = (struct test_fetch){.net = &net, .data = calloc(1, PART_SIZE), .fetch = {.done = fetched, .patience_ms = 100}};
    os_part_open(&net.source.transfer, &part, &ref, net.source.value);
    expect_ok(
        os_fetch_start(&net.puller.transfer, &t.fetch, "127.0.0.1", net.source.transfer.port, SOURCE, SOURCE_EPOCH, &ref, t.data));
    net.left = 1;
    run(&net);
    assert_int_equal(t.st.code, MT_ETIMEDOUT);
    os_part_close(&part, false);
    free(t.data);
    net_close(&net);
}

static void a_node_is_named(void **state)
{
    (void)state;
    struct net        net;
    struct test_fetch t;
    net_open(&net);
    net.source.refuse = MT_EAGAIN;
    net.source.elsewhere = 1234;
    expect_ok(start(&net, &t, net.source.transfer.port, SOURCE_EPOCH, 100000));
    run(&net);
    assert_int_equal(t.st.code, MT_EAGAIN);
    assert_int_equal(t.fetch.pull.elsewhere, 1234);
    free(t.data);
    net_close(&net);
}

/* The node ends while objects are on their way: each fetch hears of it once. */
static void closed_in_the_middle(void **state)
{
    (void)state;
    struct net        net;
    struct test_fetch t[3];
    net_open(&net);
    for (int i = 0; i < 3; i++)
        expect_ok(start(&net, &t[i], net.source.transfer.port, SOURCE_EPOCH, SIZE_MAX_TEST));
    os_fetch_cancel(&t[1].fetch); /* without a word */
    os_transfer_close(&net.puller.transfer);
    assert_int_equal(t[0].done, 1);
    assert_int_equal(t[0].st.code, MT_ECANCELLED);
    assert_int_equal(t[1].done, 0);
    assert_int_equal(t[2].done, 1);
    for (int i = 0; i < 3; i++)
        free(t[i].data);
    net_close(&net);
}

/* A job's end ends the connections that carry its objects, and no other. */
static void job_gone_in_the_middle(void **state)
{
    (void)state;
    struct net        net;
    struct test_fetch t[2];
    net_open(&net);
    net.source.stop_at = 2;
    for (uint32_t i = 0; i < 2; i++)
        expect_ok(start_of_job(&net, &t[i], net.source.transfer.port, SOURCE_EPOCH, SIZE_MAX_TEST, 5 + i));
    run(&net);
    assert_int_equal(net.source.pins, 2);
    os_transfer_job_gone(&net.source.transfer, 5);
    assert_int_equal(net.source.pins, 1);
    run(&net);
    assert_int_equal(t[0].st.code, MT_ECONN);
    expect_ok(t[1].st);
    for (int i = 0; i < 2; i++)
        free(t[i].data);
    net_close(&net);
}

static int dial(uint16_t port)
{
    struct sockaddr_in to = {.sin_family = AF_INET, .sin_port = htons(port)};
    to.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    assert_true(fd >= 0);
    assert_int_equal(connect(fd, (struct sockaddr *)&to, sizeof to), 0);
    return fd;
}

/* Strangers that send garbage, part of a greeting, or nothing: they are dropped, an object still gets
 * through. */
static void strangers(void **state)
{
    (void)state;
    struct net net;
    net_open(&net);
    mt_rng rng = {3};
    int    fds[MT_CONNS_STRANGER_MAX - 2];
    size_t count = sizeof fds / sizeof *fds;
    for (size_t i = 0; i < count; i++) {
        uint8_t garbage[400];
        for (size_t b = 0; b < sizeof garbage; b++)
            garbage[b] = (uint8_t)mt_rng_next(&rng);
        fds[i] = dial(net.source.transfer.port);
        size_t size = mt_rng_below(&rng, sizeof garbage);
        if (size > 0)
            assert_true(send(fds[i], garbage, size, MSG_NOSIGNAL) > 0);
        if (i % 3 == 0)
            shutdown(fds[i], SHUT_WR);
    }
    assert_int_equal(fetch_one(&net, net.source.transfer.port, SOURCE_EPOCH, 200000), MT_OK);
    for (size_t i = 0; i < count; i++)
        close(fds[i]);
    assert_int_equal(fetch_one(&net, net.source.transfer.port, SOURCE_EPOCH, 200000), MT_OK);
    assert_true(net.source.transfer.count.refused_auth > 0);
    assert_true(net.source.transfer.strangers.count <= MT_CONNS_STRANGER_MAX);
    net_close(&net);
}

/* More strangers than are borne, and they say nothing: those that had their time give way, and a fetch gets through. */
static void too_many_strangers(void **state)
{
    enum { MANY = 3 * MT_SILENT_MAX };
    (void)state;
    struct net net;
    net_open(&net);
    int fds[MANY];
    for (int i = 0; i < MANY; i++)
        fds[i] = dial(net.source.transfer.port);
    assert_int_equal(fetch_one(&net, net.source.transfer.port, SOURCE_EPOCH, 1000), MT_OK);
    assert_true(net.source.transfer.listener.silent.dropped > 0);
    assert_true(net.source.transfer.listener.silent.count <= MT_SILENT_MAX);
    assert_true(net.source.transfer.strangers.count <= MT_CONNS_STRANGER_MAX);
    for (int i = 0; i < MANY; i++)
        close(fds[i]);
    net_close(&net);
}

static void timer_stops(struct io_timer *timer)
{
    io_loop_stop(mt_container_of(timer, struct net, pause)->loop);
}

static void turn(struct net *net)
{
    net->pause.fire = timer_stops;
    io_timer_start(net->loop, &net->pause, 20);
    io_loop_run(net->loop);
}

/* One connection brings value after value; one that its source has closed meanwhile is replaced; nothing stays pinned. */
static void connections_are_kept(void **state)
{
    (void)state;
    struct net net;
    net_open(&net);
    for (int i = 0; i < 10; i++) {
        assert_int_equal(fetch_one(&net, net.source.transfer.port, SOURCE_EPOCH, (uint64_t)(i * 300000 + 100000)), MT_OK);
        assert_int_equal(net.source.pins, 0);
    }
    assert_int_equal(net.source.transfer.count.accepted, 1);
    assert_int_equal(net.puller.transfer.count.reused, 9);
    uint16_t port = net.source.transfer.port;
    os_transfer_close(&net.source.transfer);
    memset(&net.source.transfer.listener, 0, sizeof net.source.transfer.listener);
    net.source.transfer.token = net.token;
    expect_ok(os_transfer_open(&net.source.transfer, net.loop, "127.0.0.1", port, &net.token));
    assert_int_equal(fetch_one(&net, port, SOURCE_EPOCH, 100000), MT_OK); /* its end had not been read yet */
    assert_int_equal(net.source.transfer.count.accepted, 2);
    net.source.refuse = MT_EOBJ_LOST;
    assert_int_equal(fetch_one(&net, port, SOURCE_EPOCH, 100000), MT_EOBJ_LOST);
    net.source.refuse = 0;
    for (int i = 0; i < 500 && net.puller.transfer.idle_count; i++)
        turn(&net);
    assert_int_equal(net.puller.transfer.idle_count, 0); /* a refusal ends its connection */
    net_close(&net);
}

/* ---- small ones, which share a connection ---- */

enum { SMALLS = 200 };

/* Of all sizes up to the largest that is small; each has an id of its own, so none is like another. */
static void smalls_start(struct net *net, struct test_fetch *t, uint16_t port, int count)
{
    for (int i = 0; i < count; i++)
        expect_ok(start(net, &t[i], port, SOURCE_EPOCH, i == 0 ? 0 : i == 1 ? MT_OBJECT_SMALL_BYTES : (uint64_t)i * 97));
}

/* Whether all but `without` (-1: none) have brought what they should. */
static void smalls_end(const struct net *net, struct test_fetch *t, int count, int without)
{
    for (int i = 0; i < count; i++) {
        if (i != without) {
            expect_ok(t[i].st);
            assert_int_equal(t[i].done, 1);
            assert_memory_equal(t[i].data, net->source.value, t[i].fetch.pull.ref.size);
        }
        free(t[i].data);
    }
}

static void small_ones_share(void **state)
{
    (void)state;
    struct net               net;
    static struct test_fetch t[SMALLS];
    net_open(&net);
    for (int round = 0; round < 3; round++) {
        smalls_start(&net, t, net.source.transfer.port, SMALLS);
        run(&net);
        smalls_end(&net, t, SMALLS, -1);
        assert_int_equal(net.source.pins, 0);
        turn(&net);
    }
    assert_int_equal(net.source.transfer.count.accepted, 1);
    assert_int_equal(net.puller.transfer.count.reused, 2);
    for (int i = 0; i < OS_LINE_MAX; i++) {
        static struct test_fetch more[OS_LINE_MAX];
        expect_ok(start(&net, &more[i], net.source.transfer.port, SOURCE_EPOCH, 100));
        if (i == OS_LINE_MAX - 1)
            assert_int_equal(start(&net, &t[0], net.source.transfer.port, SOURCE_EPOCH, 100).code, MT_EAGAIN);
        if (i == OS_LINE_MAX - 1) {
            run(&net);
            smalls_end(&net, more, OS_LINE_MAX, -1);
            free(t[0].data);
        }
    }
    net_close(&net);
}

/* One that the source has not, and one that nobody wants any more, before it was asked for or when it comes: the others come, over
 * the same connection. */
static void small_ones_refused_and_cancelled(void **state)
{
    (void)state;
    struct net               net;
    static struct test_fetch t[SMALLS];
    net_open(&net);
    net.source.refuse = MT_EOBJ_LOST;
    net.source.refuse_counter = 70 * 97 + 1;
    smalls_start(&net, t, net.source.transfer.port, SMALLS);
    run(&net);
    assert_int_equal(t[70].st.code, MT_EOBJ_LOST);
    smalls_end(&net, t, SMALLS, 70);
    net.source.refuse = 0;
    for (int late = 0; late < 2; late++) {
        smalls_start(&net, t, net.source.transfer.port, SMALLS);
        if (late)
            t[0].cancels = &t[1]; /* when the answers come */
        else
            cancel(&t[1]);
        run(&net);
        assert_int_equal(t[1].done, 0);
        assert_int_equal(t[1].data[100], 0);
        smalls_end(&net, t, SMALLS, 1);
    }
    assert_int_equal(net.source.transfer.count.accepted, 1);
    net_close(&net);
}

/* The source has closed the connection that was kept: they begin anew over another one; if it is gone, all are told. */
static void small_ones_begin_anew(void **state)
{
    (void)state;
    struct net               net;
    static struct test_fetch t[SMALLS];
    net_open(&net);
    uint16_t port = net.source.transfer.port;
    smalls_start(&net, t, port, SMALLS);
    run(&net);
    smalls_end(&net, t, SMALLS, -1);
    os_transfer_close(&net.source.transfer);
    memset(&net.source.transfer.listener, 0, sizeof net.source.transfer.listener);
    expect_ok(os_transfer_open(&net.source.transfer, net.loop, "127.0.0.1", port, &net.token));
    smalls_start(&net, t, port, SMALLS);
    run(&net);
    smalls_end(&net, t, SMALLS, -1);
    os_transfer_close(&net.source.transfer);
    smalls_start(&net, t, port, SMALLS);
    run(&net);
    for (int i = 0; i < SMALLS; i++) {
        assert_int_equal(t[i].st.code, MT_ECONN);
        free(t[i].data);
    }
    net_close(&net);
}

/* Answers requests as the rules say, but the third: refuses it and closes, as earlier releases did, or damages it. */
struct crooked {
    int       listener;
    bool      damages;
    pthread_t thread;
};

static bool read_all(int fd, void *to, size_t size)
{
    return recv(fd, to, size, MSG_WAITALL) == (ssize_t)size;
}

static void *crooked_main(void *arg)
{
    struct crooked *c = arg;
    static uint8_t  zeros[MT_OBJECT_SMALL_BYTES];
    for (int i = 0; i < 2; i++) {
        struct os_wire_hello   hello;
        struct os_wire_request request;
        int                    fd = accept(c->listener, NULL, NULL);
        bool                   goes_on = read_all(fd, &hello, sizeof hello);
        while (goes_on && read_all(fd, &request, sizeof request)) {
            bool                 is_third = i == 0 && request.serial == 2;
            struct os_wire_reply reply = {.magic = OS_WIRE_MAGIC, .serial = request.serial, .offset = request.offset};
            reply.code = is_third && !c->damages ? MT_EOBJ_LOST : MT_OK;
            reply.size = reply.code ? 0 : request.size;
            reply.sum = os_sum(zeros, reply.size) + (is_third && c->damages);
            goes_on = !reply.code && send(fd, &reply, sizeof reply, MSG_NOSIGNAL) > 0;
            if (!goes_on)
                (void)!send(fd, &reply, sizeof reply, MSG_NOSIGNAL);
            (void)!send(fd, zeros, reply.size, MSG_NOSIGNAL);
        }
        shutdown(fd, SHUT_WR);
        while (read_all(fd, &request, 1))
            ;
        close(fd);
    }
    return NULL;
}

/* What is said of one is said of that one: the others begin anew. */
static void small_ones_of_a_crooked_source(void **state)
{
    (void)state;
    for (int damages = 0; damages < 2; damages++) {
        struct net               net;
        static struct test_fetch t[SMALLS];
        struct sockaddr_in       at = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
        socklen_t                size = sizeof at;
        struct crooked           c = {.listener = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0), .damages = damages};
        net_open(&net);
        net.puller.transfer.tls = NULL;
        memset(net.source.value, 0, MT_OBJECT_SMALL_BYTES);
        assert_int_equal(bind(c.listener, (struct sockaddr *)&at, size), 0);
        assert_int_equal(listen(c.listener, 2), 0);
        assert_int_equal(getsockname(c.listener, (struct sockaddr *)&at, &size), 0);
        assert_int_equal(pthread_create(&c.thread, NULL, crooked_main, &c), 0);
        smalls_start(&net, t, ntohs(at.sin_port), SMALLS);
        run(&net);
        assert_int_equal(t[2].st.code, damages ? MT_ECORRUPT : MT_EOBJ_LOST);
        smalls_end(&net, t, SMALLS, 2);
        net_close(&net);
        pthread_join(c.thread, NULL);
        close(c.listener);
    }
}

/* Passes on what two ends say, and what the source says only once it has been quiet for a moment. */
struct relay {
    int       listener;
    uint16_t  to;
    size_t    last; /* so many bytes at once are the value: its source is gone when they arrive */
    pthread_t thread;
};

static void *relay_main(void *arg)
{
    struct relay *relay = arg;
    int           puller = accept(relay->listener, NULL, NULL), source = dial(relay->to);
    uint8_t       held[65536], asked[4096];
    size_t        count = 0;
    bool          is_over = false;
    while (!is_over) {
        struct pollfd ends[2] = {{.fd = puller, .events = POLLIN}, {.fd = source, .events = POLLIN}};
        if (poll(ends, 2, 30) == 0 && count) {
            is_over = count >= relay->last;
            (void)!send(puller, held, count, MSG_NOSIGNAL | (is_over ? MSG_MORE : 0)); /* with the end behind it */
            count = 0;
        }
        if (ends[0].revents) {
            ssize_t n = recv(puller, asked, sizeof asked, 0);
            is_over = n <= 0 || send(source, asked, (size_t)n, MSG_NOSIGNAL) != n;
        }
        if (ends[1].revents) {
            ssize_t n = recv(source, held + count, sizeof held - count, 0);
            count += n > 0 ? (size_t)n : 0;
            is_over |= n <= 0;
        }
    }
    close(puller);
    close(source);
    return NULL;
}

/* Its last byte and its source's end come at once: the value is whole. */
static void gone_behind_the_last_byte(void **state)
{
    (void)state;
    struct net         net;
    struct sockaddr_in at = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    socklen_t          size = sizeof at;
    net_open(&net);
    struct relay relay = {
        .listener = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0), .to = net.source.transfer.port, .last = 10000};
    assert_int_equal(bind(relay.listener, (struct sockaddr *)&at, size), 0);
    assert_int_equal(listen(relay.listener, 1), 0);
    assert_int_equal(getsockname(relay.listener, (struct sockaddr *)&at, &size), 0);
    assert_int_equal(pthread_create(&relay.thread, NULL, relay_main, &relay), 0);
    assert_int_equal(fetch_one(&net, ntohs(at.sin_port), SOURCE_EPOCH, 10000), MT_OK);
    pthread_join(relay.thread, NULL);
    close(relay.listener);
    net_close(&net);
}

/* The right token, but in clear, or with a certificate of somebody else's authority: either end refuses. */
static void only_certificates_of_the_cluster(void **state)
{
    (void)state;
    struct net net;
    net_open(&net);
    uint16_t port = net.source.transfer.port;
    net.puller.transfer.tls = rogue_tls;
    assert_int_equal(fetch_one(&net, port, SOURCE_EPOCH, 100000), MT_ECONN);
    net.puller.transfer.tls = NULL;
    assert_int_equal(fetch_one(&net, port, SOURCE_EPOCH, 100000), MT_ECONN);
    assert_int_equal(net.source.transfer.count.refused_auth, 2);
    net.puller.transfer.tls = node_tls;
    net.source.transfer.tls = rogue_tls;
    assert_int_equal(fetch_one(&net, port, SOURCE_EPOCH, 100000), MT_ECONN);
    net.source.transfer.tls = NULL;
    assert_int_equal(fetch_one(&net, port, SOURCE_EPOCH, 100000), MT_ECONN); /* and has not sent its token */
    net.source.transfer.tls = node_tls;
    assert_int_equal(fetch_one(&net, port, SOURCE_EPOCH, 100000), MT_OK);
    net_close(&net);
}

int main(void)
{
    signal(SIGPIPE, SIG_IGN); /* as in a raylet */
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(many_at_once),
        cmocka_unit_test(refusals),
        cmocka_unit_test(closed_in_the_middle),
        cmocka_unit_test(job_gone_in_the_middle),
        cmocka_unit_test(strangers),
        cmocka_unit_test(too_many_strangers),
        cmocka_unit_test(connections_are_kept),
        cmocka_unit_test(small_ones_share),
        cmocka_unit_test(small_ones_refused_and_cancelled),
        cmocka_unit_test(small_ones_begin_anew),
        cmocka_unit_test(small_ones_of_a_crooked_source),
        cmocka_unit_test(gone_behind_the_last_byte),
        cmocka_unit_test(sent_on_while_it_comes),
        cmocka_unit_test(a_part_that_ends),
        cmocka_unit_test(a_relay_that_is_silent),
        cmocka_unit_test(a_node_is_named),
    };
    const struct CMUnitTest only_tls[] = {cmocka_unit_test(only_certificates_of_the_cluster)};
    int                     failed = cmocka_run_group_tests_name("in clear", tests, NULL, NULL);
    failed += cmocka_run_group_tests_name("TLS", tests, certificates_begin, certificates_end);
    return failed + cmocka_run_group_tests_name("TLS alone", only_tls, certificates_begin, certificates_end);
}
