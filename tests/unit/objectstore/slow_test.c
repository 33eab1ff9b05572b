/* SPDX-License-Identifier: Apache-2.0
 *
 * slow_test.c - a value that several nodes want, over wires of different width, on virtual time: who is behind a slow node leaves
 * it, and nobody else does. Both ends (pull.h) and the tree are the real ones; wires are shared evenly by what goes over them.
 *
 * With a number as argument: that bug is planted (core/base/plant.h).
 */
#include "objectstore/server/pull.h"
#include "objectstore/server/tree.h"

#include "core/base/limits/object.h"
#include "core/base/rng.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>
#include <sys/uio.h>

#include <cmocka.h>

#ifdef MANTA_PLANTS
int mt_plant;
#endif

enum { NODES_MAX = 6, CHUNK = 16384, CHUNKS = 256, SIZE = CHUNK * CHUNKS, HOME = 0, NEVER_MS = 600 * 1000, RELAYS_MAX = 4 };

struct node {
    double                 up, down; /* bytes a ms */
    uint8_t               *data;     /* of which so much is right: */
    uint64_t               have;
    uint32_t               from, leaves, relays;
    bool                   is_asking; /* at home, in the next ms */
    struct os_pull         pull;
    struct os_serve        serve; /* of what it is sent */
    struct os_wire_request asked[OS_PULL_AHEAD];
    uint32_t               asked_count;
    double                 credit; /* bytes that may come now */
    int64_t                done_ms;
};

static struct {
    struct node     nodes[NODES_MAX];
    uint32_t        count;
    struct os_trees trees;
    struct lane_ref ref;
    int64_t         now_ms;
    bool            looks;
    int64_t         slow_at_ms; /* from then on node 1 is; 0: never */
} w;

static void world_make(uint32_t count, bool looks)
{
    memset(&w, 0, sizeof w);
    w.count = count;
    w.looks = looks;
    w.ref = (struct lane_ref){.id = {1, 1}, .size = SIZE};
    w.now_ms = 1;
    for (uint32_t i = 0; i < count; i++) {
        w.nodes[i] = (struct node){.up = 2000, .down = 2000, .data = calloc(1, SIZE), .is_asking = i != HOME};
        assert_non_null(w.nodes[i].data);
    }
    for (size_t i = 0; i < SIZE; i++)
        w.nodes[HOME].data[i] = (uint8_t)(i * 31 + i / CHUNK);
    w.nodes[HOME].have = SIZE;
}

static void world_end(void)
{
    os_trees_fini(&w.trees);
    for (uint32_t i = 0; i < w.count; i++)
        free(w.nodes[i].data);
}

static void ask(uint32_t i)
{
    struct node *n = &w.nodes[i];
    n->is_asking = false;
    n->from = os_trees_ask(&w.trees, &w.ref, CHUNKS, i, (uint64_t)w.now_ms);
    n->relays += n->from != HOME;
    os_pull_start(&n->pull, &w.ref, n->data, w.now_ms);
    n->pull.chunk = CHUNK;
    n->pull.slow_ms = w.looks && n->from != HOME && n->relays <= RELAYS_MAX ? MT_OBJECT_SLOW_MS : 0;
    os_pull_resume(&n->pull, n->have);
    n->asked_count = 0;
    n->credit = 0;
    os_serve_start(&n->serve);
    n->serve.state = OS_SERVE_REQUEST; /* its greeting was right */
}

/* The reply to its oldest request, where what it asks for is there. */
static bool reply_make(struct node *n)
{
    struct os_wire_request next;
    while (n->asked_count < OS_PULL_AHEAD && os_pull_request(&n->pull, &next))
        n->asked[n->asked_count++] = next;
    if (n->serve.state == OS_SERVE_REPLY)
        return true;
    const struct node *from = &w.nodes[n->from];
    if (!n->asked_count || n->asked[0].offset + n->asked[0].size > from->have)
        return false;
    n->serve.request = n->asked[0];
    n->serve.state = OS_SERVE_ASKED;
    memmove(n->asked, n->asked + 1, --n->asked_count * sizeof n->asked[0]);
    return os_serve_answer_part(&n->serve, from->data, from->have);
}

static mt_status bytes_move(struct node *n, size_t size)
{
    struct iovec out[2];
    void        *at;
    size_t       room;
    (void)os_serve_out(&n->serve, out);
    os_pull_room(&n->pull, &at, &room);
    size = size < room ? size : room;
    size = size < out[0].iov_len ? size : out[0].iov_len;
    memcpy(at, out[0].iov_base, size);
    n->credit -= (double)size;
    (void)os_serve_sent(&n->serve, size);
    return os_pull_received(&n->pull, size, w.now_ms);
}

static void receive(uint32_t i)
{
    struct node *n = &w.nodes[i];
    while (n->credit >= 1 && !n->pull.done && reply_make(n)) {
        mt_status st = bytes_move(n, (size_t)n->credit);
        n->have = n->pull.good;
        if (st.code) {
            assert_int_equal(st.code, MT_ETIMEDOUT);
            n->leaves++;
            n->is_asking = true;
            return;
        }
    }
    if (n->pull.done && !n->done_ms) {
        n->done_ms = w.now_ms;
        if (n->from == HOME)
            os_trees_served(&w.trees, w.ref.id, i);
    }
    n->credit = n->credit < CHUNK ? n->credit : CHUNK; /* what waits has no use of the time before */
}

static uint32_t readers_of(uint32_t node)
{
    uint32_t count = 0;
    for (uint32_t i = 1; i < w.count; i++)
        count += !w.nodes[i].done_ms && !w.nodes[i].is_asking && w.nodes[i].from == node;
    return count;
}

/* When the last one has it. */
static int64_t run(void)
{
    uint32_t done = 1;
    for (; done < w.count && w.now_ms < NEVER_MS; w.now_ms++) {
        done = 1;
        if (w.now_ms == w.slow_at_ms)
            w.nodes[1].up = 50;
        for (uint32_t i = 1; i < w.count; i++)
            if (w.nodes[i].is_asking)
                ask(i);
        for (uint32_t i = 1; i < w.count; i++) {
            struct node *n = &w.nodes[i];
            double       up = w.nodes[n->from].up / (readers_of(n->from) ? readers_of(n->from) : 1);
            n->credit += up < n->down ? up : n->down;
            if (!n->done_ms)
                receive(i);
            done += n->done_ms != 0;
        }
    }
    assert_int_equal(done, w.count);
    for (uint32_t i = 1; i < w.count; i++)
        assert_memory_equal(w.nodes[i].data, w.nodes[HOME].data, SIZE);
    return w.now_ms;
}

static int64_t run_with_slow(uint32_t slow, double up, bool looks)
{
    world_make(5, looks);
    w.nodes[slow].up = up;
    int64_t took = run();
    world_end();
    return took;
}

/* The whole takes 2.1 s; over the slow one's wire, 42 s. */
static void who_is_behind_a_slow_one_leaves_it(void **state)
{
    (void)state;
    for (uint32_t slow = 1; slow < 4; slow++) {
        int64_t stays = run_with_slow(slow, 100, false), took = run_with_slow(slow, 100, true);
        assert_true(stays > 40000);
        assert_true(took < 8000);
    }
}

/* It has the value whole by then, and gets nothing with which what it sends could be compared. */
static void one_that_becomes_slow_is_left(void **state)
{
    (void)state;
    for (int64_t at_ms = 500; at_ms <= 2500; at_ms += 250) {
        world_make(4, true);
        w.nodes[1].up = 1000;
        w.slow_at_ms = at_ms;
        assert_true(run() < 12000);
        world_end();
    }
}

/* All are as slow as the first hop: to leave would not help. */
static void where_all_is_slow_nobody_leaves(void **state)
{
    (void)state;
    world_make(5, true);
    w.nodes[HOME].up = 150;
    (void)run();
    for (uint32_t i = 1; i < w.count; i++)
        assert_int_equal(w.nodes[i].leaves, 0);
    world_end();
}

/* One that comes late has much to catch up, and a relay that is quick enough. */
static void who_comes_late_stays(void **state)
{
    (void)state;
    world_make(3, true);
    w.nodes[2].is_asking = false;
    w.nodes[2].done_ms = 1;
    for (uint32_t i = 0; i < w.count; i++)
        w.nodes[i].up = w.nodes[i].down = 500;
    ask(1);
    for (; w.nodes[1].have < SIZE / 2; w.now_ms++) {
        w.nodes[1].credit += 500;
        receive(1);
    }
    w.nodes[2].done_ms = 0;
    w.nodes[2].is_asking = true;
    (void)run();
    assert_int_equal(w.nodes[2].leaves, 0);
    world_end();
}

/* Whatever the wires: all get it, a bounded number of moves, and not much later than those who stay. */
static void any_wires_do(void **state)
{
    mt_rng rng = {5};
    (void)state;
    for (int round = 0; round < 12; round++) {
        double  up[NODES_MAX], down[NODES_MAX];
        int64_t took[2];
        for (int i = 0; i < NODES_MAX; i++) {
            up[i] = (double)(100 + mt_rng_below(&rng, 2000));
            down[i] = (double)(100 + mt_rng_below(&rng, 2000));
        }
        for (int looks = 0; looks < 2; looks++) {
            world_make(NODES_MAX, looks);
            for (int i = 0; i < NODES_MAX; i++)
                w.nodes[i].up = up[i], w.nodes[i].down = down[i];
            took[looks] = run();
            for (uint32_t i = 1; i < w.count; i++)
                assert_true(w.nodes[i].leaves <= RELAYS_MAX);
            world_end();
        }
        assert_true(took[1] < took[0] + took[0] / 2 + 2 * MT_OBJECT_SLOW_MS);
    }
}

int main(int argc, char **argv)
{
#ifdef MANTA_PLANTS
    mt_plant = argc > 1 ? (int)strtol(argv[1], NULL, 10) : 0;
#else
    (void)argc, (void)argv;
#endif
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(who_is_behind_a_slow_one_leaves_it),
        cmocka_unit_test(one_that_becomes_slow_is_left),
        cmocka_unit_test(where_all_is_slow_nobody_leaves),
        cmocka_unit_test(who_comes_late_stays),
        cmocka_unit_test(any_wires_do),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
