/* SPDX-License-Identifier: Apache-2.0
 *
 * backfill_test.c - room that is promised: when, where, and that nobody who starts before it makes it come later, on random
 * clusters; and room that is made.
 */
#include "scheduler/policy/backfill.h"
#include "scheduler/policy/preempt.h"

#include <stdarg.h>
#include <setjmp.h>
#include <cmocka.h>
#include <string.h>

enum { NODES = 4, WAIT_MAX = 60, CASES = 60 };

static struct policy_request cpus(int64_t amount)
{
    return (struct policy_request){.amount_count = 1, .amounts = {{0, amount}}};
}

struct world {
    struct policy_node  nodes[NODES], shadow_room[NODES], spare_room[NODES];
    struct policy_node *at[NODES], *shadow[NODES], *spare[NODES];
    uint32_t            count;
    mt_rng              rng;
};

static void world_init(struct world *w, uint32_t count, int64_t each, uint64_t seed)
{
    memset(w, 0, sizeof *w);
    w->count = count;
    w->rng.state = seed;
    for (uint32_t i = 0; i < NODES; i++) {
        w->nodes[i] = (struct policy_node){
            .id = i + 1, .state = POLICY_ALIVE, .resource_count = 1, .resources = {{.kind = 0, .total = each, .free = each}}};
        w->at[i] = &w->nodes[i];
        w->shadow[i] = &w->shadow_room[i];
        w->spare[i] = &w->spare_room[i];
    }
}

static bool reserve(struct world *w, const struct policy_release *releases, uint32_t count, const struct policy_bundle *bundles,
                    uint32_t bundle_count, struct policy_reservation *out)
{
    return policy_reserve((const struct policy_node *const *)w->at, w->shadow, w->count, releases, count, POLICY_GROUP_PACK,
                          bundles, bundle_count, &w->rng, out);
}

static void spare(struct world *w)
{
    policy_spare((const struct policy_node *const *)w->at, (const struct policy_node *const *)w->shadow, w->spare, w->count);
}

/* ---- single promises ---- */

static void a_promise_is_for_the_first_end_that_is_enough(void **unused)
{
    struct world                w;
    const struct policy_request one = cpus(1000), two = cpus(2000), four = cpus(4000);
    const struct policy_release releases[] = {{1, 100, &one}, {2, 200, &two}, {1, 300, &two}, {2, POLICY_UNKNOWN_MS, &one}};
    const struct policy_bundle  bundle = {&two, 0}, large = {&four, 0};
    struct policy_reservation   r;
    (void)unused;
    world_init(&w, 2, 4000, 1);
    w.nodes[0].resources[0].free = w.nodes[1].resources[0].free = 1000;
    assert_true(reserve(&w, releases, 4, &bundle, 1, &r));
    assert_int_equal(r.at_ms, 100); /* node 1 has 1 + 1 then */
    assert_int_equal(r.waits_for, 1);
    assert_int_equal(w.shadow[0]->resources[0].free, 0);
    assert_true(policy_ends_before(&r, 100));
    assert_false(policy_ends_before(&r, 101));
    spare(&w);
    assert_int_equal(w.spare[0]->resources[0].free, 0); /* what it needs of what is free now */
    assert_int_equal(w.spare[1]->resources[0].free, 1000);
    assert_true(reserve(&w, releases, 4, &large, 1, &r));
    assert_int_equal(r.at_ms, 300);
    assert_true(reserve(&w, releases + 3, 1, &bundle, 1, &r));
    assert_true(r.at_ms == POLICY_UNKNOWN_MS);
    assert_false(policy_ends_before(&r, 1)); /* it may be any moment */
    assert_false(reserve(&w, releases, 1, &large, 1, &r));
    assert_false(reserve(&w, releases, 0, &bundle, 1, &r));
    w.nodes[0].resources[0].free = -2000; /* what runs there was promised, and is in its report, for a moment */
    w.nodes[1].resources[0].free = 0;
    assert_true(reserve(&w, releases, 3, &bundle, 1, &r));
    assert_int_equal(r.at_ms, 200);
    w.nodes[0].resources[0].free = w.nodes[1].resources[0].free = 1000;
    w.nodes[0].state = POLICY_DRAINING;
    assert_true(reserve(&w, releases, 4, &bundle, 1, &r));
    assert_int_equal(r.at_ms, 200);
}

/* A gang of four, of one CPU each: two nodes give theirs back one after the other. */
static void a_gang_is_promised_all_of_its_room(void **unused)
{
    struct world                w;
    const struct policy_request one = cpus(1000), two = cpus(2000);
    const struct policy_release releases[] = {{1, 100, &two}, {2, 200, &two}};
    const struct policy_bundle  gang[] = {{&one, 0}, {&one, 0}, {&one, 0}, {&one, 0}};
    struct policy_reservation   r;
    (void)unused;
    world_init(&w, 3, 2000, 1);
    w.nodes[0].resources[0].free = w.nodes[1].resources[0].free = 0;
    w.nodes[2].resources[0].free = 1000;
    assert_true(reserve(&w, releases, 2, gang, 4, &r));
    assert_int_equal(r.at_ms, 200);
    spare(&w);
    int64_t left = 0;
    for (uint32_t i = 0; i < 3; i++)
        left += w.shadow[i]->resources[0].free;
    assert_int_equal(left, 1000);
    assert_false(reserve(&w, releases, 1, gang, 4, &r));
}

/* ---- many, on random clusters: time passes, and what was promised is kept ---- */

struct one {
    int64_t               amount;
    uint64_t              limit_ms, ran_ms; /* limit 0: none */
    uint32_t              on;
    uint64_t              began_ms;
    struct policy_request request;
};

static uint32_t releases_of(const struct one *all, uint32_t count, struct policy_release *out)
{
    uint32_t found = 0;
    for (uint32_t i = 0; i < count; i++) {
        if (!all[i].on)
            continue;
        struct policy_release r = {all[i].on, all[i].limit_ms ? all[i].began_ms + all[i].limit_ms : POLICY_UNKNOWN_MS,
                                   &all[i].request};
        uint32_t              at = found++;
        for (; at > 0 && out[at - 1].ends_ms > r.ends_ms; at--)
            out[at] = out[at - 1];
        out[at] = r;
    }
    return found;
}

/* Starts what may start, the first `next` of which have ended or run. True: the first that waits was promised something. */
static bool round_of(struct world *w, struct one *all, uint32_t count, uint64_t now_ms, uint32_t *out_first,
                     struct policy_reservation *out)
{
    struct policy_release releases[WAIT_MAX];
    bool                  is_on = false;
    for (uint32_t i = 0; i < count; i++) {
        struct one *one = &all[i];
        uint32_t    node;
        if (one->on || one->began_ms)
            continue;
        bool is_before = !is_on || (one->limit_ms && policy_ends_before(out, now_ms + one->limit_ms));
        if (!is_before)
            spare(w);
        if (policy_place(is_before ? w->at : w->spare, w->count, &one->request, 1, &w->rng, &node) == 1) {
            if (!is_before) {
                policy_take(w->at[node - 1], &one->request);
                policy_take(w->shadow[node - 1], &one->request);
            }
            one->on = node;
            one->began_ms = now_ms;
        } else if (!is_on) {
            struct policy_bundle bundle = {&one->request, 0};
            is_on = reserve(w, releases, releases_of(all, count, releases), &bundle, 1, out);
            *out_first = i;
        }
    }
    return is_on;
}

static uint32_t run_case(uint64_t seed)
{
    struct world              w;
    struct one                all[WAIT_MAX];
    struct policy_reservation promise = {0};
    uint32_t                  first = 0, promised = UINT32_MAX, kept = 0;
    uint64_t                  by_ms = 0, last_ms = 0;
    world_init(&w, NODES, 4000, seed);
    for (uint32_t i = 0; i < WAIT_MAX; i++) {
        uint64_t limit = 10 + mt_rng_below(&w.rng, 200);
        all[i] = (struct one){.amount = 500 * (int64_t)(1 + mt_rng_below(&w.rng, 8)), .ran_ms = 1 + mt_rng_below(&w.rng, limit)};
        all[i].limit_ms = mt_rng_below(&w.rng, 4) ? limit : 0;
        all[i].request = cpus(all[i].amount);
    }
    for (uint64_t now = 1; now < 6000; now++) {
        for (uint32_t i = 0; i < WAIT_MAX; i++)
            if (all[i].on && now >= all[i].began_ms + all[i].ran_ms) {
                policy_give(w.at[all[i].on - 1], &all[i].request);
                all[i].on = 0;
                last_ms = now;
            }
        bool is_on = round_of(&w, all, WAIT_MAX, now, &first, &promise);
        if (promised != UINT32_MAX && all[promised].began_ms) {
            assert_true(all[promised].began_ms <= by_ms);
            kept++;
            promised = UINT32_MAX;
        }
        if (promised != UINT32_MAX && now > by_ms)
            fail_msg("seed %llu: %u was promised room at %llu", (unsigned long long)seed, promised, (unsigned long long)by_ms);
        if (is_on && promise.at_ms != POLICY_UNKNOWN_MS && (promised != first || promise.at_ms < by_ms)) {
            promised = first;
            by_ms = promise.at_ms;
        }
    }
    for (uint32_t i = 0; i < WAIT_MAX; i++)
        assert_true(all[i].began_ms && !all[i].on); /* none starves */
    assert_true(last_ms < 6000);
    return kept;
}

static void what_is_promised_is_kept(void **unused)
{
    uint32_t kept = 0;
    (void)unused;
    for (uint64_t seed = 1; seed <= CASES; seed++)
        kept += run_case(seed);
    assert_true(kept > CASES);
}

/* ---- room that is made ---- */

static void the_least_is_sent_away(void **unused)
{
    struct world                w;
    const struct policy_request one = cpus(1000), two = cpus(2000), three = cpus(3000), five = cpus(5000);
    struct policy_victim        v[] = {{.node = 1, .priority = -1, .began_ms = 10, .request = &one},
                                       {.node = 1, .priority = -1, .began_ms = 20, .request = &two},
                                       {.node = 1, .priority = -5, .began_ms = 5, .request = &one},
                                       {.node = 2, .priority = 3, .began_ms = 9, .request = &three}};
    (void)unused;
    world_init(&w, 2, 4000, 1);
    w.nodes[0].resources[0].free = 0;
    w.nodes[1].resources[0].free = 1000;
    assert_true(policy_preempt(w.at, 2, &two, v, 4));
    assert_true(v[1].is_chosen && !v[0].is_chosen && !v[2].is_chosen && !v[3].is_chosen); /* the lowest alone would not be enough */
    assert_int_equal(w.nodes[0].resources[0].free, 0);
    v[1].is_chosen = false;
    assert_true(policy_preempt(w.at, 2, &one, v, 3));
    assert_true(v[2].is_chosen && !v[0].is_chosen && !v[1].is_chosen);
    v[2].is_chosen = false;
    assert_false(policy_preempt(w.at, 2, &five, v, 4));
    assert_false(v[0].is_chosen || v[1].is_chosen || v[2].is_chosen || v[3].is_chosen);
    w.nodes[0].state = POLICY_DRAINING;
    assert_true(policy_preempt(w.at, 2, &two, v, 4));
    assert_true(v[3].is_chosen);
}

static void none_goes_for_nothing(void **unused)
{
    mt_rng rng = {3};
    (void)unused;
    for (int i = 0; i < 2000; i++) {
        struct world          w;
        struct policy_request wants = cpus(500 * (int64_t)(1 + mt_rng_below(&rng, 8))), sizes[16];
        struct policy_victim  v[16];
        uint32_t              on = 0;
        bool                  could = false;
        world_init(&w, NODES, 4000, 1);
        for (uint32_t k = 0; k < 16; k++) {
            sizes[k] = cpus(500 * (int64_t)(1 + mt_rng_below(&rng, 3)));
            v[k] = (struct policy_victim){.node = 1 + k % NODES, .priority = -(int32_t)mt_rng_below(&rng, 3), .request = &sizes[k]};
            v[k].began_ms = mt_rng_below(&rng, 100);
            policy_take(w.at[k % NODES], &sizes[k]);
        }
        for (uint32_t n = 0; n < NODES; n++) {
            if (w.nodes[n].resources[0].free < 0)
                w.nodes[n].resources[0].total = 4000 - w.nodes[n].resources[0].free, w.nodes[n].resources[0].free = 0;
            could |= !policy_fits_free(w.at[n], &wants);
        }
        if (policy_preempt(w.at, NODES, &wants, v, 16)) {
            for (uint32_t k = 0; k < 16; k++)
                if (v[k].is_chosen) {
                    assert_true(on == 0 || on == v[k].node);
                    on = v[k].node;
                    policy_give(w.at[on - 1], v[k].request);
                }
            assert_true(on && policy_fits_free(w.at[on - 1], &wants));
            for (uint32_t k = 0; k < 16; k++)
                if (v[k].is_chosen) {
                    policy_take(w.at[on - 1], v[k].request);
                    assert_false(policy_fits_free(w.at[on - 1], &wants)); /* each of them is needed */
                    policy_give(w.at[on - 1], v[k].request);
                }
        } else {
            assert_false(could);
        }
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_promise_is_for_the_first_end_that_is_enough),
        cmocka_unit_test(a_gang_is_promised_all_of_its_room),
        cmocka_unit_test(what_is_promised_is_kept),
        cmocka_unit_test(the_least_is_sent_away),
        cmocka_unit_test(none_goes_for_nothing),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
