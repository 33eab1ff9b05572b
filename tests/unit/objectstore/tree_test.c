/* SPDX-License-Identifier: Apache-2.0
 *
 * tree_test.c - who sends a large value on to whom. With a number as argument: that bug is planted (core/base/plant.h).
 */
#include "objectstore/server/tree.h"

#include "core/base/rng.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>

#include <cmocka.h>

#ifdef MANTA_PLANTS
int mt_plant;
#endif

enum { CHUNKS = 64, NODES = 40, SOURCE = 0 };

static const struct lane_ref value = {.id = {1, 1}, .size = 1 << 26};

static uint32_t ask(struct os_trees *t, uint32_t node)
{
    return os_trees_ask(t, &value, CHUNKS, node, 1000);
}

static void a_chain_forms(void **state)
{
    (void)state;
    struct os_trees t = {0};
    for (uint32_t node = 1; node < 10; node++)
        assert_int_equal(ask(&t, node), node - 1);
    os_trees_served(&t, value.id, 1); /* the source has sent it all to the first */
    assert_int_equal(ask(&t, 10), SOURCE);
    assert_int_equal(ask(&t, 11), 9); /* who came first and sends to nobody */
    os_trees_dead(&t, value.id);
    assert_int_equal(ask(&t, 11), SOURCE);
    os_trees_fini(&t);
}

static void small_values_and_strangers_are_served(void **state)
{
    (void)state;
    struct os_trees t = {0};
    for (uint32_t node = 1; node < 10; node++)
        assert_int_equal(os_trees_ask(&t, &value, OS_TREE_CHUNKS_MIN - 1, node, 0), SOURCE);
    for (int i = 0; i < 10; i++)
        assert_int_equal(os_trees_ask(&t, &value, CHUNKS, 0, 0), SOURCE); /* a node that has no number yet */
    os_trees_fini(&t);
}

/* A chain longer than the value has chunks would be slower than a tree. */
static void a_long_chain_branches(void **state)
{
    (void)state;
    struct os_trees t = {0};
    uint32_t        from[200], depth[200] = {0}, deepest = 0;
    for (uint32_t node = 1; node < 200; node++) {
        from[node] = os_trees_ask(&t, &value, 4, node, 0);
        depth[node] = from[node] ? depth[from[node]] + 1 : 1;
        deepest = depth[node] > deepest ? depth[node] : deepest;
        uint32_t outs = 0;
        for (uint32_t i = 1; i <= node; i++)
            outs += from[i] == from[node];
        assert_true(outs <= 2);
    }
    assert_true(deepest < 16);
    os_trees_fini(&t);
}

static void who_comes_back_is_sent_elsewhere(void **state)
{
    (void)state;
    struct os_trees t = {0};
    for (uint32_t node = 1; node <= 4; node++)
        ask(&t, node);
    assert_int_equal(ask(&t, 3), SOURCE); /* 2 has not got it, 1 sends to 2, and 4 gets it from 3 */
    assert_int_equal(ask(&t, 5), 4);
    os_trees_node_lost(&t, 5);
    assert_int_not_equal(ask(&t, 6), 5);
    assert_int_not_equal(ask(&t, 6), 2); /* nobody is sent to one that had it not */
    os_trees_fini(&t);
}

/* Whatever happens, following who is sent where ends at the source. */
static void there_are_no_circles(void **state)
{
    (void)state;
    mt_rng rng = {7};
    for (int round = 0; round < 200; round++) {
        struct os_trees t = {0};
        uint32_t        from[NODES + 1] = {0};
        for (int i = 0; i < 400; i++) {
            uint32_t node = 1 + (uint32_t)(mt_rng_next(&rng) % NODES);
            uint64_t what = mt_rng_next(&rng) % 10;
            if (what < 8)
                from[node] = ask(&t, node);
            else if (what == 8)
                os_trees_served(&t, value.id, node);
            else
                os_trees_node_lost(&t, node);
            uint32_t at = node;
            for (int hops = 0; at; hops++) {
                assert_true(hops <= NODES);
                at = from[at];
            }
        }
        os_trees_fini(&t);
    }
}

static void trees_are_bounded(void **state)
{
    (void)state;
    struct os_trees t = {0};
    for (uint32_t i = 0; i < 3 * OS_TREES_MAX; i++) {
        struct lane_ref other = {.id = {2, i + 1}};
        assert_int_equal(os_trees_ask(&t, &other, CHUNKS, 1, 0), SOURCE);
        if (i < OS_TREES_MAX)
            os_trees_served(&t, other.id, 1);
    }
    assert_int_equal(t.all.count, OS_TREES_MAX);
    assert_int_equal(os_trees_ask(&t, &value, CHUNKS, 1, OS_TREE_STALE_MS), SOURCE); /* the old ones make room */
    assert_int_equal(t.all.count, 1);
    os_trees_fini(&t);
}

int main(int argc, char **argv)
{
#ifdef MANTA_PLANTS
    mt_plant = argc > 1 ? (int)strtol(argv[1], NULL, 10) : 0;
#endif
    (void)argc, (void)argv;
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_chain_forms),         cmocka_unit_test(small_values_and_strangers_are_served),
        cmocka_unit_test(a_long_chain_branches), cmocka_unit_test(who_comes_back_is_sent_elsewhere),
        cmocka_unit_test(there_are_no_circles),  cmocka_unit_test(trees_are_bounded)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
