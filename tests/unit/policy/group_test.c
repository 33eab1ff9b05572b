/* SPDX-License-Identifier: Apache-2.0
 *
 * group_test.c - placement groups: each strategy by example, and what always holds by random clusters.
 */
#include "scheduler/policy/policy.h"

#include <stdarg.h>
#include <setjmp.h>
#include <cmocka.h>
#include <string.h>

enum { CPU = 0, GPU = 1, NODES = 5, BUNDLES = 5 };

static struct policy_node node_of(uint32_t id, int64_t cpus, int64_t gpus)
{
    struct policy_node n = {.id = id, .state = POLICY_ALIVE, .resource_count = 2};
    n.resources[0] = (struct policy_resource){CPU, cpus * 1000, cpus * 1000};
    n.resources[1] = (struct policy_resource){GPU, gpus * 1000, gpus * 1000};
    return n;
}

static struct policy_request amounts(int64_t cpus, int64_t gpus)
{
    struct policy_request r = {.amount_count = 0};
    if (cpus)
        r.amounts[r.amount_count++] = (struct policy_amount){CPU, cpus * 1000};
    if (gpus)
        r.amounts[r.amount_count++] = (struct policy_amount){GPU, gpus * 1000};
    return r;
}

struct scene {
    struct policy_node    nodes[NODES], *list[NODES];
    struct policy_request requests[BUNDLES];
    struct policy_bundle  bundles[BUNDLES];
    uint32_t              node_count, bundle_count;
    mt_rng                rng;
};

static void scene_add_node(struct scene *s, int64_t cpus, int64_t gpus)
{
    s->nodes[s->node_count] = node_of(s->node_count + 1, cpus, gpus);
    s->list[s->node_count] = &s->nodes[s->node_count];
    s->node_count++;
}

static void scene_add_bundle(struct scene *s, int64_t cpus, int64_t gpus)
{
    s->requests[s->bundle_count] = amounts(cpus, gpus);
    s->bundles[s->bundle_count] = (struct policy_bundle){&s->requests[s->bundle_count], 0};
    s->bundle_count++;
}

static bool place(struct scene *s, enum policy_strategy strategy)
{
    return policy_place_group(s->list, s->node_count, strategy, s->bundles, s->bundle_count, &s->rng);
}

static enum policy_hopeless hopeless(struct scene *s, enum policy_strategy strategy, uint32_t *which)
{
    struct policy_request sum;
    return policy_group_is_hopeless(s->list, s->node_count, strategy, s->bundles, s->bundle_count, which, &sum);
}

static uint32_t nodes_used(const struct scene *s)
{
    uint32_t used = 0;
    for (uint32_t n = 1; n <= s->node_count; n++) {
        bool is_used = false;
        for (uint32_t b = 0; b < s->bundle_count; b++)
            is_used |= s->bundles[b].node == n;
        used += is_used;
    }
    return used;
}

static void pack_takes_few_nodes(void **state)
{
    struct scene s = {.rng = {1}};
    (void)state;
    for (int i = 0; i < 3; i++)
        scene_add_node(&s, 4, 0);
    for (int i = 0; i < 5; i++)
        scene_add_bundle(&s, 1 + (i == 4), 0);
    assert_true(place(&s, POLICY_GROUP_PACK));
    assert_int_equal(nodes_used(&s), 2); /* six CPUs */
    struct scene t = {.rng = {1}};
    scene_add_node(&t, 2, 0);
    scene_add_node(&t, 8, 0);
    scene_add_bundle(&t, 3, 0);
    scene_add_bundle(&t, 1, 0);
    assert_true(place(&t, POLICY_GROUP_PACK));
    assert_int_equal(t.bundles[0].node, 2);
    assert_int_equal(t.bundles[1].node, 2); /* beside the large one, though the small node had room */
}

static void spread_takes_many(void **state)
{
    struct scene s = {.rng = {1}};
    (void)state;
    for (int i = 0; i < 3; i++)
        scene_add_node(&s, 4, 0);
    for (int i = 0; i < 4; i++)
        scene_add_bundle(&s, 1, 0);
    assert_true(place(&s, POLICY_GROUP_SPREAD));
    assert_int_equal(nodes_used(&s), 3); /* the fourth goes where it can */
    struct scene one = {.rng = {1}};
    scene_add_node(&one, 4, 0);
    scene_add_bundle(&one, 1, 0);
    scene_add_bundle(&one, 1, 0);
    assert_true(place(&one, POLICY_GROUP_SPREAD));
}

static void strict_pack_is_one_node_or_none(void **state)
{
    struct scene s = {.rng = {1}};
    uint32_t     which;
    (void)state;
    scene_add_node(&s, 4, 0);
    scene_add_node(&s, 6, 0);
    scene_add_bundle(&s, 3, 0);
    scene_add_bundle(&s, 3, 0);
    assert_true(place(&s, POLICY_GROUP_STRICT_PACK));
    assert_int_equal(s.bundles[0].node, 2);
    assert_int_equal(s.bundles[1].node, 2);
    s.bundles[0].node = s.bundles[1].node = 0;
    assert_false(place(&s, POLICY_GROUP_STRICT_PACK)); /* node 2 is full, node 1 has room for one */
    assert_int_equal(s.bundles[0].node, 0);
    assert_int_equal(s.nodes[0].resources[0].free, 4000);
    assert_int_equal(hopeless(&s, POLICY_GROUP_STRICT_PACK, &which), POLICY_COULD); /* ... when node 2 is free again */
    scene_add_bundle(&s, 1, 0);
    assert_int_equal(hopeless(&s, POLICY_GROUP_STRICT_PACK, &which), POLICY_SUM_FITS_NOWHERE);
}

/* A greedy choice would give the plain bundle the only node with a GPU. */
static void strict_spread_is_a_matching(void **state)
{
    (void)state;
    for (uint64_t seed = 0; seed < 50; seed++) {
        struct scene s = {.rng = {seed}};
        uint32_t     which = 0;
        scene_add_node(&s, 2, 1);
        scene_add_node(&s, 2, 0);
        scene_add_bundle(&s, 2, 0);
        scene_add_bundle(&s, 0, 1);
        assert_true(place(&s, POLICY_GROUP_STRICT_SPREAD));
        assert_int_equal(s.bundles[0].node, 2);
        assert_int_equal(s.bundles[1].node, 1);
        scene_add_bundle(&s, 1, 0);
        assert_false(place(&s, POLICY_GROUP_STRICT_SPREAD));
        assert_int_equal(hopeless(&s, POLICY_GROUP_STRICT_SPREAD, &which), POLICY_TOO_FEW_NODES);
        assert_int_equal(which, 2);
    }
}

/* What stands already stays, and counts. */
static void the_rest_goes_beside_what_stands(void **state)
{
    struct scene s = {.rng = {3}};
    (void)state;
    for (int i = 0; i < 3; i++)
        scene_add_node(&s, 4, 0);
    for (int i = 0; i < 3; i++)
        scene_add_bundle(&s, 1, 0);
    s.bundles[1].node = 2;
    assert_true(place(&s, POLICY_GROUP_STRICT_SPREAD));
    assert_int_equal(s.bundles[1].node, 2);
    assert_int_equal(nodes_used(&s), 3);
    s.bundles[0].node = s.bundles[2].node = 0;
    assert_true(place(&s, POLICY_GROUP_STRICT_PACK));
    assert_int_equal(nodes_used(&s), 1);
    s.bundles[0].node = s.bundles[2].node = 0;
    assert_true(place(&s, POLICY_GROUP_PACK));
    s.nodes[1].state = POLICY_SUSPECT;
    s.bundles[0].node = 0;
    assert_false(place(&s, POLICY_GROUP_STRICT_PACK)); /* nothing new on a node that is silent */
}

static void hopeless_says_why(void **state)
{
    struct scene s = {.rng = {1}};
    uint32_t     which = 9;
    (void)state;
    scene_add_node(&s, 4, 0);
    scene_add_node(&s, 4, 0);
    scene_add_bundle(&s, 4, 0);
    scene_add_bundle(&s, 0, 1);
    assert_int_equal(hopeless(&s, POLICY_GROUP_PACK, &which), POLICY_BUNDLE_FITS_NOWHERE);
    assert_int_equal(which, 1);
    s.requests[1] = amounts(4, 0);
    assert_int_equal(hopeless(&s, POLICY_GROUP_PACK, &which), POLICY_COULD);
    scene_add_bundle(&s, 1, 0);
    assert_int_equal(hopeless(&s, POLICY_GROUP_SPREAD, &which), POLICY_CLUSTER_TOO_SMALL);
    s.nodes[1].state = POLICY_DEAD;
    s.bundle_count = 2;
    assert_int_equal(hopeless(&s, POLICY_GROUP_SPREAD, &which), POLICY_CLUSTER_TOO_SMALL);
}

/* ---- what always holds ---- */

static void scene_draw(struct scene *s, mt_rng *rng)
{
    uint32_t nodes = 1 + (uint32_t)(mt_rng_next(rng) % NODES), bundles = 1 + (uint32_t)(mt_rng_next(rng) % BUNDLES);
    memset(s, 0, sizeof *s);
    s->rng.state = mt_rng_next(rng);
    for (uint32_t n = 0; n < nodes; n++) {
        scene_add_node(s, (int64_t)(mt_rng_next(rng) % 5), (int64_t)(mt_rng_next(rng) % 3));
        s->nodes[n].state = mt_rng_next(rng) % 8 ? POLICY_ALIVE : POLICY_SUSPECT;
    }
    for (uint32_t b = 0; b < bundles; b++)
        scene_add_bundle(s, 1 + (int64_t)(mt_rng_next(rng) % 3), (int64_t)(mt_rng_next(rng) % 2));
}

/* Whether any way at all places bundles from `b` on. */
static bool any_way(struct scene *s, enum policy_strategy strategy, uint32_t b)
{
    if (b == s->bundle_count)
        return true;
    for (uint32_t n = 0; n < s->node_count; n++) {
        struct policy_node *node = &s->nodes[n];
        bool                is_wrong = false;
        for (uint32_t k = 0; k < b; k++)
            is_wrong |= (strategy == POLICY_GROUP_STRICT_SPREAD && s->bundles[k].node == node->id) ||
                        (strategy == POLICY_GROUP_STRICT_PACK && s->bundles[k].node != node->id);
        if (is_wrong || node->state != POLICY_ALIVE || !policy_fits_free(node, &s->requests[b]))
            continue;
        policy_take(node, &s->requests[b]);
        s->bundles[b].node = node->id;
        bool is_there = any_way(s, strategy, b + 1);
        policy_give(node, &s->requests[b]);
        s->bundles[b].node = 0;
        if (is_there)
            return true;
    }
    return false;
}

static void random_clusters(void **state)
{
    mt_rng   rng = {77};
    uint32_t which;
    (void)state;
    for (int round = 0; round < 8000; round++) {
        enum policy_strategy strategy = (enum policy_strategy)(round % 4);
        struct scene         s, before;
        scene_draw(&s, &rng);
        bool could = any_way(&s, strategy, 0), is_strict = strategy >= POLICY_GROUP_STRICT_PACK;
        before = s;
        bool is_placed = place(&s, strategy);
        assert_true(!is_placed || could);
        assert_true(!is_strict || is_placed == could); /* the strict ones find a way wherever there is one */
        if (could)
            assert_int_equal(hopeless(&before, strategy, &which), POLICY_COULD);
        for (uint32_t n = 0; n < s.node_count; n++)
            for (int r = 0; r < 2; r++) {
                int64_t taken = 0;
                for (uint32_t b = 0; b < s.bundle_count; b++)
                    for (uint32_t i = 0; i < s.requests[b].amount_count; i++)
                        if (s.bundles[b].node == s.nodes[n].id && s.requests[b].amounts[i].kind == (uint32_t)r)
                            taken += s.requests[b].amounts[i].amount;
                assert_int_equal(s.nodes[n].resources[r].free, before.nodes[n].resources[r].free - taken);
                assert_true(s.nodes[n].resources[r].free >= 0);
            }
        for (uint32_t b = 0; b < s.bundle_count; b++)
            assert_int_equal(s.bundles[b].node != 0, is_placed);
        if (is_placed && strategy == POLICY_GROUP_STRICT_PACK)
            assert_int_equal(nodes_used(&s), 1);
        if (is_placed && strategy == POLICY_GROUP_STRICT_SPREAD)
            assert_int_equal(nodes_used(&s), s.bundle_count);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(pack_takes_few_nodes),
        cmocka_unit_test(spread_takes_many),
        cmocka_unit_test(strict_pack_is_one_node_or_none),
        cmocka_unit_test(strict_spread_is_a_matching),
        cmocka_unit_test(the_rest_goes_beside_what_stands),
        cmocka_unit_test(hopeless_says_why),
        cmocka_unit_test(random_clusters),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
