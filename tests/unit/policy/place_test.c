/* SPDX-License-Identifier: Apache-2.0
 *
 * place_test.c - where leases go: each policy by example, and what always holds by random clusters.
 */
#include "scheduler/policy/policy.h"

#include <stdarg.h>
#include <setjmp.h>
#include <cmocka.h>
#include <stdio.h>
#include <string.h>

enum { CPU = 0, GPU = 1, MEMORY = 2, KINDS = 3, NODES = 12 };
static const char *const names[KINDS] = {"CPU", "GPU", "memory"};

static struct policy_node node_of(uint32_t id, int64_t cpus, int64_t free_cpus)
{
    struct policy_node n = {.id = id, .state = POLICY_ALIVE, .resource_count = 1};
    n.resources[0] = (struct policy_resource){CPU, cpus * 1000, free_cpus * 1000};
    return n;
}

static struct policy_request cpus(enum policy_kind policy, int64_t milli)
{
    struct policy_request r = {.policy = policy, .amount_count = 1};
    r.amounts[0] = (struct policy_amount){CPU, milli};
    return r;
}

static void pack_up_to_half_then_spread(void **state)
{
    (void)state;
    struct policy_node    a = node_of(1, 8, 8), b = node_of(2, 8, 7), c = node_of(3, 8, 8);
    struct policy_node   *nodes[] = {&a, &b, &c};
    struct policy_request one = cpus(POLICY_HYBRID, 1000);
    mt_rng                rng = {1};
    uint32_t              got[24];
    assert_int_equal(policy_place(nodes, 3, &one, 3, &rng, got), 3);
    for (int i = 0; i < 3; i++)
        assert_int_equal(got[i], 2); /* the node in use is filled up to half first */
    assert_int_equal(policy_place(nodes, 3, &one, 8, &rng, got), 8);
    assert_int_equal(a.resources[0].free, 4000); /* then the next, one after the other */
    assert_int_equal(b.resources[0].free, 4000);
    assert_int_equal(c.resources[0].free, 4000);
    assert_int_equal(policy_place(nodes, 3, &one, 3, &rng, got), 3);
    assert_int_equal(a.resources[0].free, 3000); /* and above half the load is level */
    assert_int_equal(b.resources[0].free, 3000);
    assert_int_equal(c.resources[0].free, 3000);
    assert_int_equal(policy_place(nodes, 3, &one, 24, &rng, got), 9);
    assert_int_equal(policy_place(nodes, 3, &one, 1, &rng, got), 0);
}

static void the_asking_node_is_first_among_equals(void **state)
{
    (void)state;
    for (uint64_t seed = 0; seed < 20; seed++) {
        struct policy_node    a = node_of(1, 4, 4), b = node_of(2, 4, 4), c = node_of(3, 4, 4);
        struct policy_node   *nodes[] = {&a, &b, &c};
        struct policy_request one = cpus(POLICY_HYBRID, 1000);
        mt_rng                rng = {seed};
        uint32_t              got = 0;
        one.prefer = 3;
        assert_int_equal(policy_place(nodes, 3, &one, 1, &rng, &got), 1);
        assert_int_equal(got, 3);
    }
}

static void spread_takes_the_emptiest(void **state)
{
    (void)state;
    struct policy_node    a = node_of(1, 4, 4), b = node_of(2, 4, 4), c = node_of(3, 4, 2);
    struct policy_node   *nodes[] = {&a, &b, &c};
    struct policy_request one = cpus(POLICY_SPREAD, 1000);
    mt_rng                rng = {7};
    uint32_t              got[4];
    assert_int_equal(policy_place(nodes, 3, &one, 4, &rng, got), 4);
    assert_int_equal(a.resources[0].free, 2000);
    assert_int_equal(b.resources[0].free, 2000);
    assert_int_equal(c.resources[0].free, 2000);
}

static void affinity_hard_and_soft(void **state)
{
    (void)state;
    struct policy_node    a = node_of(1, 4, 4), b = node_of(2, 4, 1);
    struct policy_node   *nodes[] = {&a, &b};
    struct policy_request hard = cpus(POLICY_NODE, 1000), soft = cpus(POLICY_NODE_SOFT, 1000);
    mt_rng                rng = {7};
    uint32_t              got[4];
    hard.node = soft.node = 2;
    assert_int_equal(policy_place(nodes, 2, &hard, 3, &rng, got), 1);
    assert_int_equal(got[0], 2);
    b.resources[0].free = 1000;
    assert_int_equal(policy_place(nodes, 2, &soft, 3, &rng, got), 3);
    assert_int_equal(got[0], 2);
    assert_int_equal(got[1], 1);
    assert_int_equal(got[2], 1);
    hard.node = 9;
    assert_int_equal(policy_place(nodes, 2, &hard, 1, &rng, got), 0);
}

static void nodes_to_avoid_get_nothing_whatever_they_have(void **state)
{
    (void)state;
    for (enum policy_kind policy = POLICY_HYBRID; policy <= POLICY_NODE_SOFT; policy++) {
        struct policy_node              a = node_of(1, 4, 4), b = node_of(2, 8, 8);
        struct policy_node             *nodes[] = {&a, &b};
        const struct policy_node *const seen[] = {&a, &b};
        struct policy_request           one = cpus(policy, 1000);
        mt_rng                          rng = {7};
        uint32_t                        got[12];
        one.node = one.avoid[1] = 2;
        assert_int_equal(policy_place(nodes, 2, &one, 12, &rng, got), policy == POLICY_NODE ? 0 : 4);
        assert_int_equal(b.resources[0].free, 8000);
        assert_int_equal(policy_is_feasible(seen, 2, &one), policy != POLICY_NODE);
        one.avoid[0] = 1;
        assert_false(policy_is_feasible(seen, 2, &one));
    }
}

static void suspect_and_dead_nodes_get_nothing(void **state)
{
    (void)state;
    struct policy_node              a = node_of(1, 4, 4), b = node_of(2, 4, 4);
    struct policy_node             *nodes[] = {&a, &b};
    const struct policy_node *const seen[] = {&a, &b};
    struct policy_request           one = cpus(POLICY_HYBRID, 1000);
    mt_rng                          rng = {7};
    uint32_t                        got[4];
    a.state = POLICY_SUSPECT;
    b.state = POLICY_DEAD;
    assert_int_equal(policy_place(nodes, 2, &one, 4, &rng, got), 0);
    assert_true(policy_is_feasible(seen, 2, &one)); /* a suspect node may come back */
    a.state = POLICY_DEAD;
    assert_false(policy_is_feasible(seen, 2, &one));
}

static void the_reason_names_resource_amount_and_largest_node(void **state)
{
    (void)state;
    struct policy_node              a = node_of(1, 4, 0), b = node_of(2, 8, 0);
    const struct policy_node *const nodes[] = {&a, &b};
    struct policy_request           r = cpus(POLICY_HYBRID, 64500);
    char                            text[256];
    assert_false(policy_is_feasible(nodes, 2, &r));
    policy_explain(nodes, 2, &r, names, text, sizeof text);
    assert_string_equal(text, "wants 64.5 CPU, the largest node (2) has 8");
    r.amounts[0] = (struct policy_amount){CPU, 1000};
    r.amounts[1] = (struct policy_amount){GPU, 1000};
    r.amounts[2] = (struct policy_amount){MEMORY, (int64_t)2 << 30};
    r.amount_count = 3;
    policy_explain(nodes, 2, &r, names, text, sizeof text);
    assert_string_equal(text, "wants 1 GPU, no node has any; wants 2 GiB memory, no node has any");
    b.resource_count = 2;
    b.resources[1] = (struct policy_resource){GPU, 1000, 1000};
    r.amounts[0].amount = 8000;
    r.amount_count = 2;
    assert_true(policy_is_feasible(nodes, 2, &r));
    b.resources[0].total = 4000;
    a.resources[0].total = 8000;
    assert_false(policy_is_feasible(nodes, 2, &r));
    policy_explain(nodes, 2, &r, names, text, sizeof text);
    assert_string_equal(text, "no single node has all of 8 CPU, 1 GPU, though each fits on some node");
    r.policy = POLICY_NODE;
    r.node = 5;
    policy_explain(nodes, 2, &r, names, text, sizeof text);
    assert_string_equal(text, "asks for node 5, which is not in the cluster or is dead");
    char tiny[8];
    policy_explain(nodes, 2, &r, names, tiny, sizeof tiny);
    assert_int_equal(strlen(tiny), 7);
}

static void random_cluster(mt_rng *rng, struct policy_node *nodes, struct policy_request *r)
{
    for (uint32_t i = 0; i < NODES; i++) {
        nodes[i] = (struct policy_node){.id = i + 1, .state = (enum policy_state)(1 + mt_rng_below(rng, 3))};
        for (uint32_t k = 0; k < KINDS; k++) {
            if (mt_rng_below(rng, 4) == 0)
                continue;
            int64_t total = (int64_t)mt_rng_below(rng, k == MEMORY ? (uint64_t)1 << 44 : 9000);
            nodes[i].resources[nodes[i].resource_count++] = (struct policy_resource){
                k, total, (int64_t)mt_rng_below(rng, (uint64_t)total + 1)};
        }
    }
    *r = (struct policy_request){.policy = (enum policy_kind)mt_rng_below(rng, 4),
                                 .node = (uint32_t)mt_rng_below(rng, NODES + 2),
                                 .prefer = (uint32_t)mt_rng_below(rng, NODES + 2)};
    for (uint32_t k = 0; k < KINDS; k++)
        if (mt_rng_below(rng, 2) == 0)
            r->amounts[r->amount_count++] = (struct policy_amount){
                k, (int64_t)mt_rng_below(rng, k == MEMORY ? (uint64_t)1 << 44 : 9000) >> mt_rng_below(rng, 8)};
}

static bool one_more_fits(const struct policy_node *nodes, const struct policy_request *r)
{
    for (uint32_t i = 0; i < NODES; i++)
        if (nodes[i].state == POLICY_ALIVE && (r->policy != POLICY_NODE || nodes[i].id == r->node) &&
            policy_fits_free(&nodes[i], r))
            return true;
    return false;
}

static void random_clusters(void **state)
{
    (void)state;
    enum { WANTED = 40 };
    mt_rng rng = {20240611};
    for (int round = 0; round < 20000; round++) {
        struct policy_node        nodes[NODES], again[NODES], *list[NODES], *list_again[NODES];
        const struct policy_node *seen[NODES];
        struct policy_request     r;
        uint32_t                  got[WANTED], got_again[WANTED];
        random_cluster(&rng, nodes, &r);
        memcpy(again, nodes, sizeof again);
        bool fits_somewhere = false;
        for (uint32_t i = 0; i < NODES; i++) {
            seen[i] = list[i] = &nodes[i];
            list_again[i] = &again[i];
            fits_somewhere |= nodes[i].state != POLICY_DEAD && (r.policy != POLICY_NODE || nodes[i].id == r.node) &&
                              policy_fits_total(&nodes[i], &r);
        }
        assert_int_equal(policy_is_feasible(seen, NODES, &r), fits_somewhere);
        mt_rng   a = {(uint64_t)round}, b = {(uint64_t)round};
        uint32_t placed = policy_place(list, NODES, &r, WANTED, &a, got);
        assert_int_equal(policy_place(list_again, NODES, &r, WANTED, &b, got_again), placed);
        assert_memory_equal(got, got_again, placed * sizeof *got); /* same seed, same answer */
        for (uint32_t i = 0; i < NODES; i++)
            for (uint32_t j = 0; j < nodes[i].resource_count; j++)
                assert_true(nodes[i].resources[j].free >= 0); /* never more than was free */
        if (placed < WANTED)
            assert_false(one_more_fits(nodes, &r)); /* and never less than could be */
        for (uint32_t i = 0; i < placed; i++)
            policy_give(&nodes[got[i] - 1], &r);
        if (placed > 0)
            assert_true(fits_somewhere);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(pack_up_to_half_then_spread),
        cmocka_unit_test(the_asking_node_is_first_among_equals),
        cmocka_unit_test(spread_takes_the_emptiest),
        cmocka_unit_test(affinity_hard_and_soft),
        cmocka_unit_test(nodes_to_avoid_get_nothing_whatever_they_have),
        cmocka_unit_test(suspect_and_dead_nodes_get_nothing),
        cmocka_unit_test(the_reason_names_resource_amount_and_largest_node),
        cmocka_unit_test(random_clusters),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
