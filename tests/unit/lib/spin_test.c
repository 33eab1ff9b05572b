/* SPDX-License-Identifier: Apache-2.0
 *
 * spin_test.c - who waits looks on, yields or sleeps: by who it is, where the others run, and how long yields take.
 */
#include "clients/lib/shell/wait/spin.h"

#include <setjmp.h>
#include <stdarg.h>
#include <cmocka.h>

enum { START = 1000 * 1000 };

/* So many looks that found nothing, `apart` ns from each other, with what was said in between; what was said last. */
static enum lib_spin_how looks(struct lib_spin *spin, int count, uint64_t apart, unsigned where, enum lib_waiter who)
{
    enum lib_spin_how how = LIB_SPIN_PAUSE;
    for (int i = 0; i < count; i++) {
        lib_spin_looked(spin, spin->looked_ns ? spin->looked_ns + apart : START, who);
        how = lib_spin_how(spin, where, who);
        spin->has_yielded = how == LIB_SPIN_YIELD;
    }
    return how;
}

static void test_beside_who_feeds(void **state)
{
    struct lib_spin outside = {0}, task = {0}, actor = {0};
    (void)state;
    assert_int_equal(looks(&outside, 1, 0, OWN_HERE, LIB_WAITS_OUTSIDE), LIB_SPIN_NOT);
    assert_int_equal(looks(&task, 1, 0, OWN_HERE, LIB_WAITS_TASK), LIB_SPIN_YIELD);
    assert_int_equal(looks(&actor, 1, 0, OWN_HERE, LIB_WAITS_ACTOR), LIB_SPIN_YIELD);
    assert_int_equal(looks(&actor, 5, 1000, OWN_HERE, LIB_WAITS_ACTOR), LIB_SPIN_YIELD);       /* short ones too */
    assert_int_equal(looks(&actor, 20, 10 * 1000, OWN_HERE, LIB_WAITS_ACTOR), LIB_SPIN_YIELD); /* others run, which costs nothing */
}

static void test_who_feeds_is_elsewhere(void **state)
{
    struct lib_spin actor = {0}, both = {0};
    (void)state;
    assert_int_equal(looks(&actor, 2, 1000, OWN_ELSEWHERE, LIB_WAITS_ACTOR), LIB_SPIN_PAUSE);
    assert_int_equal(looks(&actor, 5, 1000, OWN_ELSEWHERE, LIB_WAITS_ACTOR), LIB_SPIN_YIELD);
    assert_int_equal(looks(&both, 1, 0, OWN_HERE | OWN_ELSEWHERE, LIB_WAITS_OUTSIDE), LIB_SPIN_YIELD);
    assert_int_equal(looks(&both, 1, 1000, OWN_HERE | OWN_ELSEWHERE, LIB_WAITS_OUTSIDE), LIB_SPIN_NOT); /* it let nobody in */
}

/* All end: by the time of short looks, by the time in all, and by one yield that took long. */
static void test_ends(void **state)
{
    (void)state;
    for (enum lib_waiter who = LIB_WAITS_OUTSIDE; who <= LIB_WAITS_ACTOR; who++) {
        struct lib_spin by_looks = {0}, by_time = {0}, by_yield = {0};
        assert_int_equal(looks(&by_looks, 60, 1000, OWN_ELSEWHERE, who), LIB_SPIN_NOT);
        assert_int_equal(looks(&by_time, 40, 10 * 1000, OWN_ELSEWHERE, who), LIB_SPIN_NOT);
        assert_int_equal(looks(&by_yield, 1, 0, OWN_ELSEWHERE, who), LIB_SPIN_PAUSE);
        by_yield.has_yielded = true;
        assert_int_equal(looks(&by_yield, 1, MT_LIB_CROWDED_NS, OWN_HERE | OWN_ELSEWHERE, who), LIB_SPIN_NOT);
        assert_int_equal(looks(&by_yield, 1, 1000, OWN_ELSEWHERE, who), LIB_SPIN_NOT); /* and stays so, */
        by_yield.idle_since = 0;
        assert_int_equal(looks(&by_yield, 1, 1000, OWN_ELSEWHERE, who), LIB_SPIN_PAUSE); /* until something comes */
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_beside_who_feeds),
        cmocka_unit_test(test_who_feeds_is_elsewhere),
        cmocka_unit_test(test_ends),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
