/* SPDX-License-Identifier: Apache-2.0
 *
 * generation_test.c - what becomes of a generation, whatever comes first; and what can't, which is refused by name.
 */
#include "tests/unit/base/test.h"

#include "core/base/machine.h"
#include "sgd/run/fit.h"

#include <stdio.h>
#include <stdlib.h>

static struct sgd_fit *fit;
static char            told[160];

static void note(const char *expr, const char *file, int line)
{
    (void)file, (void)line;
    if (!told[0])
        snprintf(told, sizeof told, "%s", expr);
}

static int fit_new(void **state)
{
    (void)state;
    told[0] = 0;
    fit = calloc(1, sizeof *fit);
    if (!fit)
        return -1;
    fit->generation = 1;
    fit->workers = 2;
    mt_assert_set_hook(note);
    sgd_generation_ordered(fit);
    return 0;
}

static int fit_end(void **state)
{
    (void)state;
    mt_assert_set_hook(NULL);
    free(fit);
    return 0;
}

static void expect(enum sgd_generation state, bool lives, bool has_stepped)
{
    assert_int_equal(fit->state, state);
    assert_int_equal(sgd_generation_lives(fit), lives);
    assert_int_equal(sgd_generation_has_stepped(fit), has_stepped);
    assert_string_equal(told, "");
}

static void a_death_before_and_after_the_first_step(void **state)
{
    (void)state;
    expect(SGD_GEN_ORDERED, true, false);
    sgd_generation_over(fit);
    expect(SGD_GEN_FAILED, false, false);
    sgd_generation_over(fit); /* another death */
    expect(SGD_GEN_FAILED, false, false);
    sgd_generation_ordered(fit);
    sgd_generation_stepped(fit);
    sgd_generation_stepped(fit);
    expect(SGD_GEN_GOING, true, true);
    sgd_generation_over(fit);
    expect(SGD_GEN_ENDED, false, true);
    sgd_generation_ordered(fit);
    expect(SGD_GEN_ORDERED, true, false);
}

static void a_step_that_is_heard_of_late_counts(void **state)
{
    (void)state;
    sgd_generation_over(fit);
    sgd_generation_stepped(fit);
    expect(SGD_GEN_ENDED, false, true);
}

static void a_death_while_it_is_resized_is_a_death(void **state)
{
    (void)state;
    sgd_generation_stepped(fit);
    sgd_generation_resize(fit);
    expect(SGD_GEN_RESIZED, false, true);
    sgd_generation_stepped(fit); /* its present step */
    expect(SGD_GEN_RESIZED, false, true);
    sgd_generation_over(fit);
    expect(SGD_GEN_ENDED, false, true);
}

static void what_the_table_has_not_is_refused_by_name(void **state)
{
    (void)state;
    sgd_generation_resize(fit); /* without a step there is nothing to keep */
    assert_string_equal(told, "generation: ORDERED -> RESIZED is no transition");
    told[0] = 0;
    fit->state = SGD_GEN_GOING;
    sgd_generation_ordered(fit); /* its members are still at it */
    assert_string_equal(told, "generation: GOING -> ORDERED is no transition");
    told[0] = 0;
    fit->state = SGD_GEN_ENDED;
    fit->workers = 0;
    sgd_generation_ordered(fit);
    assert_string_equal(told, "fit->generation > 0 && fit->workers > 0");
}

int main(void)
{
#define TEST(f) cmocka_unit_test_setup_teardown(f, fit_new, fit_end)
    const struct CMUnitTest tests[] = {
        TEST(a_death_before_and_after_the_first_step),
        TEST(a_step_that_is_heard_of_late_counts),
        TEST(a_death_while_it_is_resized_is_a_death),
        TEST(what_the_table_has_not_is_refused_by_name),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
