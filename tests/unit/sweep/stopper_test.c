/* SPDX-License-Identifier: Apache-2.0
 *
 * stopper_test.c - thresholds, plateaus, time and steps, alone and combined; bad rules.
 */
#include "tests/unit/sweep/test.h"

#include "sweep/decide/stopper.h"

static struct swp_stopper *stopper_of(const struct swp_stop *rules, uint32_t count, bool all, bool maximize)
{
    struct swp_problem  problem = {{0}, {0}};
    struct swp_stopper *s = NULL;
    assert_ok(swp_stopper_new(rules, count, all, maximize, &s, &problem));
    return s;
}

static enum swp_stop_what say(struct swp_stopper *s, uint64_t trial, double step, double value, double trial_s, double sweep_s)
{
    enum swp_stop_what what;
    assert_ok(swp_stopper_report(s, trial, step, value, trial_s, sweep_s, &what));
    return what;
}

static void steps_time_and_thresholds(void **state)
{
    (void)state;
    const struct swp_stop rules[] = {{.kind = SWP_STOP_STEPS, .limit = 10},
                                     {.kind = SWP_STOP_THRESHOLD, .value = 0.9},
                                     {.kind = SWP_STOP_THRESHOLD, .value = 0.1, .worse = true},
                                     {.kind = SWP_STOP_TRIAL_TIME, .limit = 60},
                                     {.kind = SWP_STOP_SWEEP_TIME, .limit = 600},
                                     {.kind = SWP_STOP_SWEEP_THRESHOLD, .value = 0.99}};
    struct swp_stopper   *s = stopper_of(rules, COUNT(rules), false, true);
    assert_int_equal(say(s, 1, 9, 0.5, 59, 599), SWP_STOP_NOTHING);
    assert_int_equal(say(s, 1, 10, 0.5, 59, 599), SWP_STOP_TRIAL);
    assert_int_equal(say(s, 1, 9, 0.9, 59, 599), SWP_STOP_TRIAL);
    assert_int_equal(say(s, 1, 9, 0.1, 59, 599), SWP_STOP_TRIAL);
    assert_int_equal(say(s, 1, 9, NAN, 59, 599), SWP_STOP_NOTHING);
    assert_int_equal(say(s, 1, 9, 0.5, 60, 599), SWP_STOP_TRIAL);
    assert_int_equal(say(s, 1, 9, 0.5, 59, 600), SWP_STOP_SWEEP);
    assert_int_equal(swp_stopper_tick(s, 59, 599), SWP_STOP_NOTHING);
    assert_int_equal(swp_stopper_tick(s, 60, 599), SWP_STOP_TRIAL);
    assert_int_equal(swp_stopper_tick(s, 60, 600), SWP_STOP_SWEEP);
    assert_int_equal(say(s, 1, 1, 0.99, 1, 1), SWP_STOP_SWEEP);
    assert_int_equal(swp_stopper_tick(s, 0, 0), SWP_STOP_SWEEP); /* once reached, it stays so */
    swp_stopper_free(s);
}

/* Tune: deviation of the last 4 values <= 0.01, after 4 reports. */
static void a_trial_plateau_is_its_own(void **state)
{
    (void)state;
    const struct swp_stop rule = {.kind = SWP_STOP_TRIAL_PLATEAU};
    const struct swp_stop bounded = {.kind = SWP_STOP_TRIAL_PLATEAU, .value = 0.5, .has_value = true, .window = 2, .grace = 6};
    struct swp_stopper   *s = stopper_of(&rule, 1, false, false), *b = stopper_of(&bounded, 1, false, false);
    for (int i = 0; i < 3; i++) {
        assert_int_equal(say(s, 1, i, 1, 0, 0), SWP_STOP_NOTHING);
        assert_int_equal(say(s, 2, i, i, 0, 0), SWP_STOP_NOTHING);
    }
    assert_int_equal(say(s, 2, 3, 3, 0, 0), SWP_STOP_NOTHING);
    assert_int_equal(say(s, 1, 3, 1.02, 0, 0), SWP_STOP_TRIAL); /* deviation 0.00866 */
    swp_stopper_end(s, 1);
    assert_int_equal(say(s, 1, 0, 1, 0, 0), SWP_STOP_NOTHING); /* forgotten */
    for (int i = 0; i < 6; i++)
        assert_int_equal(say(b, 1, i, 0.6, 0, 0), SWP_STOP_NOTHING); /* not good enough to stop */
    assert_int_equal(say(b, 1, 6, 0.5, 0, 0), SWP_STOP_NOTHING);
    assert_int_equal(say(b, 1, 7, 0.5, 0, 0), SWP_STOP_TRIAL);
    assert_int_equal(say(b, 1, 8, NAN, 0, 0), SWP_STOP_NOTHING);
    swp_stopper_free(s);
    swp_stopper_free(b);
}

static void a_sweep_plateau_is_of_the_best_values(void **state)
{
    (void)state;
    const struct swp_stop           rule = {.kind = SWP_STOP_SWEEP_PLATEAU, .window = 3, .tolerance = 0.1, .patience = 2};
    struct swp_stopper             *s = stopper_of(&rule, 1, false, true);
    static const double             values[] = {1, 0.5, 1, 0.2, 1.05, 0.1};
    static const enum swp_stop_what wanted[] = {SWP_STOP_NOTHING, SWP_STOP_NOTHING, SWP_STOP_NOTHING,
                                                SWP_STOP_NOTHING, SWP_STOP_NOTHING, SWP_STOP_SWEEP};
    for (unsigned i = 0; i < COUNT(values); i++) /* the best three are flat from the fifth on, twice at the sixth */
        assert_int_equal(say(s, i, 1, values[i], 0, 0), wanted[i]);
    swp_stopper_free(s);
}

static void rules_may_have_to_agree(void **state)
{
    (void)state;
    const struct swp_stop rules[] = {
        {.kind = SWP_STOP_STEPS, .limit = 10}, {.kind = SWP_STOP_THRESHOLD, .value = 1}, {.kind = SWP_STOP_SWEEP_TIME, .limit = 5}};
    struct swp_stopper *s = stopper_of(rules, COUNT(rules), true, false);
    assert_int_equal(say(s, 1, 10, 2, 0, 0), SWP_STOP_NOTHING);
    assert_int_equal(say(s, 1, 9, 1, 0, 0), SWP_STOP_NOTHING);
    assert_int_equal(say(s, 1, 10, 1, 0, 0), SWP_STOP_TRIAL);
    assert_int_equal(say(s, 1, 1, 2, 0, 5), SWP_STOP_SWEEP); /* the only rule about the sweep */
    swp_stopper_free(s);
    s = stopper_of(NULL, 0, true, false);
    assert_int_equal(say(s, 1, 1e9, -1e9, 1e9, 1e9), SWP_STOP_NOTHING);
    swp_stopper_free(s);
}

static void rules_are_read_from_a_text(void **state)
{
    (void)state;
    struct swp_stop     r;
    struct swp_problem  problem;
    struct swp_stopper *s;
    assert_ok(swp_stop_opts_parse("trial_plateau,window=6,value=0.5", &r, &problem));
    assert_true(r.kind == SWP_STOP_TRIAL_PLATEAU && r.window == 6 && r.has_value && r.value == 0.5);
    static const char *const bad[][2] = {{"never", "never"},
                                         {"steps", "steps"},
                                         {"steps,limit=-1", "steps"},
                                         {"threshold", "threshold"},
                                         {"trial_plateau,tolerance=-1", "trial_plateau"},
                                         {"sweep_plateau,window=1", "sweep_plateau"},
                                         {"steps,limit=NaN", "limit"}};
    for (unsigned i = 0; i < COUNT(bad); i++) {
        mt_status st = swp_stop_opts_parse(bad[i][0], &r, &problem);
        assert_code(st.code ? st : swp_stopper_new(&r, 1, false, false, &s, &problem), MT_EINVAL);
        assert_string_equal(problem.param, bad[i][1]);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(steps_time_and_thresholds),
        cmocka_unit_test(a_trial_plateau_is_its_own),
        cmocka_unit_test(a_sweep_plateau_is_of_the_best_values),
        cmocka_unit_test(rules_may_have_to_agree),
        cmocka_unit_test(rules_are_read_from_a_text),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
