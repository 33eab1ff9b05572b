/* SPDX-License-Identifier: Apache-2.0
 *
 * local_test.c - the raylet in its own store; an object's whole way from one node's writer to another node's
 * reader.
 */
#include "objectstore/transfer/transfer.h"
#include "tests/unit/objectstore/node.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>

#include <cmocka.h>

enum { RAYLET = 1000 };

static const uint64_t MIB = 1 << 20;

static void expect_code(mt_status st, int32_t code)
{
    assert_string_equal(mt_code_name(st.code), mt_code_name(code));
}
#define expect_ok(st) expect_code((st), MT_OK)

static void pin_and_alloc(void **state)
{
    (void)state;
    struct node     n;
    struct os_local local;
    node_open(&n, 64 * MIB);
    expect_ok(os_local_open(&local, n.store, RAYLET, NODE_NUMBER, NODE_JOB));
    n.local = &local;
    struct node_client *c = node_add(&n, 1, NODE_JOB);
    struct lane_ref     ref, copy, again;
    const void         *data;
    void               *to;
    struct os_place     place;
    char                text[OS_TEXT_SIZE];
    expect_ok(node_put(&n, c, 1, 70000, 1, &ref));
    expect_ok(os_local_pin(&local, &ref, &data));
    node_expect(data, 70000, 1);
    expect_ok(os_store_dead(n.store, 1, &ref));
    node_sweep(&n);
    assert_int_equal(n.space_backs, 0); /* the raylet's own pin counts */
    os_local_unpin(&local, &ref);
    node_tick(&n, 20);
    assert_int_equal(n.space_backs, 1);

    expect_ok(os_local_alloc(&local, 50000, NULL, &place, &to, text, &n.actions));
    memset(to, 5, 50000);
    os_client_publish(&local.client, place, to, mt_id_make(99, 1, 1), 8, 50000, 'b', &copy);
    expect_ok(node_pin(&n, c, &copy, &data));
    assert_int_equal(((const uint8_t *)data)[49999], 5);
    expect_ok(os_client_unpin(&c->client, &copy));
    expect_ok(os_store_copy_add(n.store, &copy));
    expect_ok(os_store_copy_dead(n.store, copy.id));
    node_sweep(&n);
    assert_int_equal(n.space_backs, 2); /* to the raylet itself */
    expect_code(os_local_alloc(&local, 100 * MIB, NULL, &place, &to, text, &n.actions), MT_ESTORE_FULL);
    assert_true(text[0] != '\0');

    /* It may be given what it has read before: the segment of a dead writer. */
    node_kill(&n, c);
    for (int i = 0; i < 40; i++) {
        expect_ok(os_local_alloc(&local, MIB, NULL, &place, &to, text, &n.actions));
        os_client_publish(&local.client, place, to, mt_id_make(99, 2 + (uint64_t)i, 1), 8, MIB, 'b', &again);
        if (again.segment == ref.segment)
            break;
    }
    expect_code(os_local_pin(&local, &ref, &data), MT_EOBJ_LOST);
    node_close(&n);
}

static uint64_t pages_of(const struct node *n)
{
    struct os_segment_view view = {0};
    uint64_t               bytes = 0;
    while (os_store_next(n->store, view.segment, &view))
        bytes += os_memory_resident(view.backing.data_ro);
    return bytes;
}

/* What its copies leave free goes back: pages after a round, or at once when the store is full. */
static void trim(void **state)
{
    (void)state;
    struct node     n;
    struct os_local local;
    struct lane_ref copy[6];
    struct os_place place;
    struct os_stats stats;
    char            text[OS_TEXT_SIZE];
    void           *to;
    node_open(&n, 64 * MIB);
    expect_ok(os_local_open(&local, n.store, RAYLET, NODE_NUMBER, NODE_JOB));
    n.local = &local;
    for (uint64_t i = 0; i < 6; i++) {
        expect_ok(os_local_alloc(&local, 3 * MIB, NULL, &place, &to, text, &n.actions));
        memset(to, 5, 3 * MIB);
        os_client_publish(&local.client, place, to, mt_id_make(99, 1 + i, 1), 8, 3 * MIB, 'b', &copy[i]);
        expect_ok(os_store_copy_add(n.store, &copy[i]));
    }
    assert_true(pages_of(&n) >= 18 * MIB);
    for (int i = 0; i < 5; i++)
        expect_ok(os_store_copy_dead(n.store, copy[i].id));
    node_sweep(&n);
    os_local_trim(&local, false);
    assert_true(pages_of(&n) >= 18 * MIB); /* used in this round */
    os_local_trim(&local, false);
    os_store_stats(n.store, &stats);
    assert_true(pages_of(&n) <= stats.bytes_warm + 4 * MIB); /* beside the one that is left */
    const void *data;
    expect_ok(os_local_pin(&local, &copy[5], &data));
    assert_int_equal(((const uint8_t *)data)[3 * MIB - 1], 5);
    os_local_unpin(&local, &copy[5]);
    expect_ok(os_store_copy_dead(n.store, copy[5].id));
    node_sweep(&n);
    os_local_trim(&local, true);
    os_store_stats(n.store, &stats);
    assert_int_equal(stats.bytes_warm, stats.bytes_reserved); /* every segment is anybody's */
    expect_ok(os_local_alloc(&local, 60 * MIB, NULL, &place, &to, text, &n.actions));
    node_close(&n);
}

/* --- from node to node
 * -------------------------------------------------------------------------------------------- */

struct raylet {
    struct os_transfer transfer;
    struct node        n;
    struct os_local    local;
};

static mt_status raylet_pin(struct os_transfer *transfer, const struct lane_ref *ref, uint32_t node, struct os_pinned *out)
{
    (void)node;
    out->held = *ref;
    return os_local_pin(&mt_container_of(transfer, struct raylet, transfer)->local, ref, &out->data);
}

static void raylet_unpin(struct os_transfer *transfer, const struct os_pinned *pin, uint32_t node)
{
    (void)node;
    os_local_unpin(&mt_container_of(transfer, struct raylet, transfer)->local, &pin->held);
}

static void raylet_open(struct raylet *r, struct io_loop *loop, uint32_t number)
{
    struct io_token token = {{0}};
    *r = (struct raylet){.transfer = {.pin = raylet_pin, .unpin = raylet_unpin, .node = number, .epoch = 1}};
    memset(token.hex, 'c', IO_TOKEN_HEX);
    node_open(&r->n, 64 * MIB);
    expect_ok(os_local_open(&r->local, r->n.store, RAYLET + number, NODE_NUMBER, NODE_JOB));
    r->n.local = &r->local;
    expect_ok(os_transfer_open(&r->transfer, loop, "127.0.0.1", 0, &token));
}

struct arrival {
    struct os_fetch fetch;
    struct io_loop *loop;
    mt_status       st;
};

static void arrived(struct os_fetch *fetch, mt_status st)
{
    struct arrival *a = mt_container_of(fetch, struct arrival, fetch);
    a->st = st;
    io_loop_stop(a->loop);
}

static void from_node_to_node(void **state)
{
    (void)state;
    static const uint64_t sizes[] = {0, 100, 30000, 3 * 1024 * 1024 + 5};
    struct io_loop       *loop;
    struct raylet         a, b;
    expect_ok(io_loop_new(&loop));
    raylet_open(&a, loop, 1);
    raylet_open(&b, loop, 2);
    struct node_client *writer = node_add(&a.n, 1, NODE_JOB), *reader = node_add(&b.n, 2, NODE_JOB);
    for (uint8_t i = 0; i < 4; i++) {
        struct lane_ref ref, copy, found;
        struct os_place place;
        struct arrival  arrival = {.fetch = {.done = arrived}, .loop = loop};
        void           *to;
        const void     *data;
        char            text[OS_TEXT_SIZE];
        expect_ok(node_put(&a.n, writer, 1, sizes[i], i, &ref));
        expect_ok(os_local_alloc(&b.local, ref.size, NULL, &place, &to, text, &b.n.actions));
        expect_ok(os_fetch_start(&b.transfer, &arrival.fetch, "localhost", a.transfer.port, 1, 1, &ref, to));
        io_loop_run(loop);
        expect_ok(arrival.st);
        os_client_publish(&b.local.client, place, to, ref.id, ref.owner_node, ref.size, ref.type, &copy);
        expect_ok(os_store_copy_add(b.n.store, &copy));
        expect_ok(os_store_copy_find(b.n.store, ref.id, &found));
        expect_ok(node_pin(&b.n, reader, &found, &data));
        node_expect(data, sizes[i], i);
        expect_ok(os_client_unpin(&reader->client, &found));

        /* The object dies at its source: a later fetch says so, and its place was not written. */
        expect_ok(os_store_dead(a.n.store, 1, &ref));
        node_sweep(&a.n);
        expect_ok(os_fetch_start(&b.transfer, &arrival.fetch, "localhost", a.transfer.port, 1, 1, &ref, to));
        io_loop_run(loop);
        expect_code(arrival.st, MT_EOBJ_LOST);
    }
    os_transfer_close(&b.transfer);
    os_transfer_close(&a.transfer);
    node_close(&a.n);
    node_close(&b.n);
    io_loop_free(loop);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(pin_and_alloc), cmocka_unit_test(trim),
                                       cmocka_unit_test(from_node_to_node)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
