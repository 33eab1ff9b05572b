/* SPDX-License-Identifier: Apache-2.0
 *
 * share_test.c - usage that decays: the sums that only grow order users as sums that are made smaller do, at any later time.
 */
#include "core/base/rng.h"
#include "scheduler/policy/queue.h"
#include "scheduler/policy/share.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
/* cmocka.h needs the three above. */
#include <cmocka.h>

enum { HALF = 1000000, USERS = 8 };

static bool is_near(double a, double b)
{
    double apart = a > b ? a - b : b - a;
    return apart <= 1e-9 * (a > b ? a : b);
}

static void a_half_life_halves(void **state)
{
    (void)state;
    assert_true(policy_share_scale(0, HALF) == 1);
    assert_true(is_near(policy_share_scale(HALF, HALF), 2) && is_near(policy_share_scale(-2 * HALF, HALF), 0.25));
    assert_true(is_near(policy_share_scale(HALF / 2, HALF) * policy_share_scale(HALF / 2, HALF), 2));
    assert_true(policy_share_scale(INT64_MAX, HALF) < 1e300 &&
                policy_share_scale(-INT64_MAX, HALF) > 0); /* whatever the clock says */
    for (int64_t ms = -3 * HALF; ms < 3 * HALF; ms += 1013)
        assert_true(policy_share_scale(ms, HALF) < policy_share_scale(ms + 1013, HALF));
}

static void the_order_changes_only_by_charges(void **state)
{
    mt_rng  rng = {7};
    double  grown[USERS] = {0}, decayed[USERS] = {0};
    int64_t at = 0;
    (void)state;
    for (int round = 0; round < 3000; round++) {
        int64_t passed = (int64_t)mt_rng_below(&rng, HALF / 20);
        int     who = (int)mt_rng_below(&rng, USERS);
        double  cost = 1 + (double)mt_rng_below(&rng, 1000);
        for (int i = 0; i < USERS; i++)
            decayed[i] *= policy_share_scale(-passed, HALF);
        at += passed;
        decayed[who] += cost;
        grown[who] += cost * policy_share_scale(at, HALF);
        for (int i = 0; i < USERS; i++)
            for (int k = 0; k < USERS; k++) {
                double a = policy_share_of(grown[i], 1000 + (uint64_t)i), b = policy_share_of(grown[k], 1000 + (uint64_t)k);
                double c = policy_share_of(decayed[i], 1000 + (uint64_t)i), d = policy_share_of(decayed[k], 1000 + (uint64_t)k);
                assert_true((a < b) == (c < d) || is_near(c, d));
            }
    }
}

static void turns_are_by_priority_then_share_then_age(void **state)
{
    (void)state;
    const struct policy_turn rich = {.priority = 0, .share = 5, .order = 1}, poor = {.priority = 0, .share = 4, .order = 9},
                             high = {.priority = 1, .share = 9, .order = 20}, next = {.priority = 0, .share = 4, .order = 10};
    assert_true(policy_turn_compare(&poor, &rich) < 0 && policy_turn_compare(&rich, &poor) > 0);
    assert_true(policy_turn_compare(&high, &poor) < 0);
    assert_true(policy_turn_compare(&poor, &next) < 0);
    assert_int_equal(policy_turn_compare(&poor, &poor), 0);
    assert_true(policy_share_of(0, 0) > policy_share_of(1e300, 1)); /* without a weight: behind all */
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_half_life_halves),
        cmocka_unit_test(the_order_changes_only_by_charges),
        cmocka_unit_test(turns_are_by_priority_then_share_then_age),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
