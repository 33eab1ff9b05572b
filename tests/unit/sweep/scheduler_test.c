/* SPDX-License-Identifier: Apache-2.0
 *
 * scheduler_test.c - each scheduler against its definition, in cases computed by hand; what all of them promise.
 */
#include "tests/unit/sweep/test.h"

#include "sweep/decide/scheduler.h"

static struct swp_space *space;

static struct swp_scheduler *scheduler_of(const char *text, bool maximize)
{
    struct swp_scheduler_opts opts;
    struct swp_problem        problem = {{0}, {0}};
    struct swp_scheduler     *s = NULL;
    mt_status                 st = swp_scheduler_opts_parse(text, &opts, &problem);
    opts.maximize = maximize;
    if (st.code == 0)
        st = swp_scheduler_new(&opts, space, 1, &s, &problem);
    if (st.code != 0)
        print_error("%s\n", problem.text);
    assert_ok(st);
    return s;
}

static const struct swp_point somewhere = {{0.5, 3, 1}};

static void add(struct swp_scheduler *s, uint64_t trial)
{
    assert_ok(swp_scheduler_add(s, trial, &somewhere));
}

static enum swp_decision report(struct swp_scheduler *s, uint64_t trial, double t, double value)
{
    struct swp_verdict verdict;
    assert_ok(swp_scheduler_report(s, trial, t, value, &verdict));
    return verdict.decision;
}

static void assert_next(const struct swp_scheduler *s, bool has_place, enum swp_action_kind kind, uint64_t trial)
{
    struct swp_action action = swp_scheduler_next(s, has_place);
    assert_int_equal(action.kind, kind);
    if (kind != SWP_WAIT && kind != SWP_START)
        assert_int_equal(action.trial, trial);
}

static int make_space(void **state)
{
    (void)state;
    space = SPACE_OF({.name = "x", .kind = SWP_UNIFORM, .low = 0, .high = 1}, {.name = "n", .kind = SWP_INT, .low = 1, .high = 9},
                     {.name = "c", .kind = SWP_ORDINAL, CHOICES(WHOLE(1), WHOLE(2), WHOLE(3))}, );
    return 0;
}

static int free_space(void **state)
{
    (void)state;
    swp_space_free(space);
    return 0;
}

/* ---- all of them ---- */

static void bad_calls_are_refused(void **state)
{
    (void)state;
    struct swp_verdict        verdict;
    struct swp_problem        problem;
    struct swp_scheduler_opts opts;
    for (int kind = 0; kind < SWP_SCHEDULER_COUNT; kind++) {
        struct swp_scheduler *s = scheduler_of(swp_scheduler_text((enum swp_scheduler_kind)kind), false);
        assert_code(swp_scheduler_report(s, 1, 1, 1, &verdict), MT_ENOENT);
        assert_code(swp_scheduler_end(s, 1, false), MT_ENOENT);
        assert_code(swp_scheduler_resume(s, 1), MT_ENOENT);
        assert_code(swp_scheduler_cloned(s, 1, true), MT_ENOENT);
        add(s, 1);
        assert_code(swp_scheduler_add(s, 1, &somewhere), MT_EEXIST);
        assert_code(swp_scheduler_report(s, 1, NAN, 1, &verdict), MT_EINVAL);
        assert_code(swp_scheduler_report(s, 1, INFINITY, 1, &verdict), MT_EINVAL);
        assert_code(swp_scheduler_report(s, 1, -1, 1, &verdict), MT_EINVAL);
        assert_int_equal(report(s, 1, 0, NAN), SWP_CONTINUE);
        assert_int_equal(report(s, 1, 0, INFINITY), SWP_CONTINUE); /* the same step again, after a retry */
        assert_ok(swp_scheduler_end(s, 1, true));
        assert_code(swp_scheduler_end(s, 1, true), MT_ENOENT);
        swp_scheduler_free(s);
    }
    static const char *const bad[][2] = {{"hyper", "hyper"},
                                         {"asha,eta=1", "eta"},
                                         {"asha,max_t=-1", "max_t"},
                                         {"asha,grace=200", "grace"},
                                         {"asha,brackets=9", "brackets"},
                                         {"asha,eta=1.01", "eta"},
                                         {"pbt,quantile=0.6", "quantile"},
                                         {"pbt,resample=2", "resample"},
                                         {"pbt,interval=-1", "interval"},
                                         {"fifo,rungs=3", "rungs"},
                                         {"asha_promote,brackets=2", "brackets"},
                                         {"hyperband,max_t=0.5", "max_t"}};
    for (unsigned i = 0; i < COUNT(bad); i++) {
        struct swp_scheduler *s;
        mt_status             st = swp_scheduler_opts_parse(bad[i][0], &opts, &problem);
        assert_code(st.code ? st : swp_scheduler_new(&opts, space, 1, &s, &problem), MT_EINVAL);
        assert_string_equal(problem.param, bad[i][1]);
    }
}

static void fifo_stops_at_max_t_only(void **state)
{
    (void)state;
    struct swp_scheduler *s = scheduler_of("fifo,max_t=10", false);
    assert_next(s, true, SWP_START, 0);
    assert_next(s, false, SWP_WAIT, 0);
    add(s, 0);
    assert_true(swp_scheduler_next_t(s, 0) == 10);
    assert_int_equal(report(s, 0, 9, 1e9), SWP_CONTINUE);
    assert_int_equal(report(s, 0, 10, 0), SWP_STOP);
    swp_scheduler_supply(s, false);
    assert_next(s, true, SWP_WAIT, 0);
    swp_scheduler_free(s);
}

/* ---- ASHA ---- */

/* Tune's defaults: rungs 1, 4, 16, 64. Cutoffs by numpy.nanpercentile(values, 75), of values told before. */
static void asha_stops_below_the_quantile_of_a_rung(void **state)
{
    (void)state;
    struct swp_scheduler *s = scheduler_of("asha", true);
    for (uint64_t t = 0; t < 8; t++)
        add(s, t);
    assert_true(swp_scheduler_next_t(s, 0) == 1);
    assert_int_equal(report(s, 0, 1, 10), SWP_CONTINUE); /* the first */
    assert_true(swp_scheduler_next_t(s, 0) == 4);
    assert_int_equal(report(s, 1, 1, 9.99), SWP_STOP);   /* cutoff 10 */
    assert_int_equal(report(s, 2, 1, 10), SWP_CONTINUE); /* {10, 9.99}: 75 % is 9.9975 */
    assert_int_equal(report(s, 3, 1, 9.999), SWP_STOP);  /* {9.99, 10, 10}: 10 */
    assert_int_equal(report(s, 4, 1, NAN), SWP_STOP);
    assert_int_equal(report(s, 5, 3, 20), SWP_CONTINUE); /* between two rungs: at rung 1 */
    assert_int_equal(report(s, 0, 2, -5), SWP_CONTINUE); /* no rung of its own here */
    assert_int_equal(report(s, 0, 4, 1), SWP_CONTINUE);  /* the first at rung 4 */
    assert_int_equal(report(s, 5, 4, 0.5), SWP_STOP);
    assert_int_equal(report(s, 6, 17, 1), SWP_CONTINUE); /* the highest rung that it has reached */
    assert_int_equal(report(s, 2, 100, 1e9), SWP_STOP);  /* max_t */
    swp_scheduler_free(s);
}

static void asha_draws_brackets_by_their_rungs(void **state)
{
    (void)state;
    struct swp_scheduler *s = scheduler_of("asha,max_t=64,brackets=3", false);
    int                   counts[3] = {0};
    for (uint64_t t = 0; t < 3000; t++) {
        add(s, t);
        double first = swp_scheduler_next_t(s, t);
        counts[first == 1 ? 0 : first == 4 ? 1 : 2]++;
    }
    assert_in_range(counts[0], 1850, 2150); /* e^0, e^-1, e^-2 of 1.503: 0.665, 0.245, 0.090 */
    assert_in_range(counts[1], 640, 830);
    swp_scheduler_free(s);
}

/* Three trials a rung with eta = 3, rungs 1, 3, 9. */
static void asha_promotes_the_best_third(void **state)
{
    (void)state;
    struct swp_scheduler *s = scheduler_of("asha_promote,max_t=9,eta=3", false);
    for (uint64_t t = 0; t < 6; t++) {
        assert_next(s, true, SWP_START, 0);
        add(s, t);
        assert_int_equal(report(s, t, 1, t == 1 ? -1 : (double)t), SWP_PAUSE);
        if (t == 2) { /* floor(3 / 3): one may go on, and it is the best */
            assert_next(s, true, SWP_RESUME, 1);
            assert_next(s, false, SWP_WAIT, 0);
            assert_ok(swp_scheduler_resume(s, 1));
            assert_true(swp_scheduler_next_t(s, 1) == 3);
        }
    }
    assert_next(s, true, SWP_RESUME, 0); /* floor(6 / 3): the second best is 0 */
    assert_int_equal(report(s, 1, 2, 0.1), SWP_CONTINUE);
    assert_int_equal(report(s, 1, 3, 0.1), SWP_PAUSE);
    assert_ok(swp_scheduler_resume(s, 0));
    assert_int_equal(report(s, 0, 3, 0.2), SWP_PAUSE);
    add(s, 6);
    assert_int_equal(report(s, 6, 3, 0.05), SWP_PAUSE); /* a jump over rung 3 is one to rung 1 */
    assert_int_equal(swp_scheduler_resume(s, 6).code, 0);
    assert_int_equal(report(s, 6, 3.5, 0.05), SWP_PAUSE);
    assert_next(s, true, SWP_RESUME, 6); /* the highest rung first */
    assert_ok(swp_scheduler_resume(s, 6));
    assert_int_equal(report(s, 6, 9, 0.01), SWP_STOP);
    assert_ok(swp_scheduler_end(s, 6, false));
    swp_scheduler_supply(s, false);
    assert_next(s, true, SWP_DROP, 0); /* nothing can be promoted any more */
    swp_scheduler_free(s);
}

/* ---- median ---- */

static void median_stops_what_is_worse_than_the_others_means(void **state)
{
    (void)state;
    struct swp_scheduler *s = scheduler_of("median,grace=2,min_samples=2", true);
    for (uint64_t t = 0; t < 4; t++)
        add(s, t);
    assert_true(swp_scheduler_next_t(s, 0) == 2);
    static const double curves[3][4] = {{100, 1, 2, 3}, {0, 4, 4, 4}, {0, 8, 8, 2}};
    for (int t = 0; t < 4; t++)
        for (uint64_t i = 0; i < 2; i++)
            assert_int_equal(report(s, i, t + 1, curves[i][t]), SWP_CONTINUE); /* one other is too few */
    assert_int_equal(report(s, 2, 1, 0), SWP_CONTINUE);                        /* before grace */
    assert_int_equal(report(s, 2, 2, 2.5), SWP_CONTINUE); /* means from 2 to 2: 1 and 4; 2.5 is not less than 2.5 */
    assert_ok(swp_scheduler_end(s, 0, false));            /* what has ended still counts */
    assert_int_equal(report(s, 3, 2, 2.4), SWP_STOP);     /* others: 1, 4, 2.5 */
    assert_int_equal(report(s, 2, 4, 2.9), SWP_STOP);     /* means to 4: 2 and 4; best 2.9 < 3 */
    swp_scheduler_free(s);
}

static void median_may_pause_instead(void **state)
{
    (void)state;
    struct swp_scheduler *s = scheduler_of("median,grace=1,min_samples=1,pauses", false);
    swp_scheduler_supply(s, false);
    assert_true(swp_scheduler_needs_saves(s));
    add(s, 0);
    add(s, 1);
    assert_int_equal(report(s, 0, 1, 1), SWP_CONTINUE);
    assert_int_equal(report(s, 1, 1, 2), SWP_PAUSE);
    assert_next(s, true, SWP_WAIT, 0);
    assert_ok(swp_scheduler_end(s, 0, false));
    assert_next(s, true, SWP_RESUME, 1);
    assert_ok(swp_scheduler_resume(s, 1));
    assert_int_equal(report(s, 1, 2, 9), SWP_CONTINUE); /* to its end now */
    swp_scheduler_free(s);
}

/* ---- HyperBand ---- */

/* Sizes and first milestones of max_t = 81, eta = 3: 5, 8, 15, 34, 81 and 81, 27, 9, 3, 1; then the next band. */
static void hyperband_fills_the_brackets_of_the_paper(void **state)
{
    (void)state;
    static const struct {
        uint32_t size;
        double   first;
    } wanted[] = {{5, 81}, {8, 27}, {15, 9}, {34, 3}, {81, 1}, {5, 81}};
    struct swp_scheduler *s = scheduler_of("hyperband", false);
    uint64_t              trial = 0;
    for (unsigned b = 0; b < COUNT(wanted); b++)
        for (uint32_t i = 0; i < wanted[b].size; i++, trial++) {
            assert_next(s, true, SWP_START, 0);
            add(s, trial);
            assert_true(swp_scheduler_next_t(s, trial) == wanted[b].first);
        }
    swp_scheduler_free(s);
}

/* max_t = 4, eta = 2: brackets of 3 (to 4), 3 (2, 4) and 4 (1, 2, 4). */
static void hyperband_halves_when_all_have_come(void **state)
{
    (void)state;
    struct swp_scheduler *s = scheduler_of("hyperband,max_t=4,eta=2", false);
    for (uint64_t t = 0; t < 10; t++)
        add(s, t);
    assert_int_equal(report(s, 0, 3, 1), SWP_CONTINUE);
    assert_int_equal(report(s, 0, 4, 1), SWP_STOP);
    assert_int_equal(report(s, 6, 1, 6), SWP_PAUSE);
    assert_int_equal(report(s, 7, 1, 7), SWP_PAUSE);
    assert_int_equal(report(s, 8, 1, 9), SWP_PAUSE);
    assert_next(s, false, SWP_WAIT, 0);
    assert_int_equal(report(s, 9, 1, 5), SWP_CONTINUE); /* the last to come, and the best: 9 and 6 of four go on */
    assert_next(s, false, SWP_DROP, 8);
    assert_ok(swp_scheduler_end(s, 8, false));
    assert_next(s, false, SWP_DROP, 7);
    assert_ok(swp_scheduler_end(s, 7, false));
    assert_next(s, true, SWP_RESUME, 6);
    assert_ok(swp_scheduler_resume(s, 6));
    assert_int_equal(report(s, 9, 2, 5), SWP_PAUSE);
    assert_ok(swp_scheduler_end(s, 6, true)); /* a death is an arrival */
    assert_next(s, true, SWP_RESUME, 9);
    assert_ok(swp_scheduler_resume(s, 9));
    assert_int_equal(report(s, 9, 4, 5), SWP_STOP);
    assert_int_equal(report(s, 3, 2, 1), SWP_PAUSE);
    assert_int_equal(report(s, 4, 2, 3), SWP_PAUSE);
    assert_int_equal(report(s, 5, 2, 4), SWP_STOP); /* the last to come, and the worst of three: ceil(3 / 2) go on */
    swp_scheduler_free(s);
}

static void hyperband_goes_on_with_a_bracket_that_is_not_full(void **state)
{
    (void)state;
    struct swp_scheduler *s = scheduler_of("hyperband,max_t=4,eta=2", false);
    for (uint64_t t = 0; t < 5; t++)
        add(s, t);
    assert_int_equal(report(s, 3, 2, 1), SWP_PAUSE);
    assert_int_equal(report(s, 4, 2, 2), SWP_PAUSE);
    assert_next(s, true, SWP_START, 0);
    swp_scheduler_supply(s, false);
    assert_next(s, true, SWP_DROP, 4);
    assert_ok(swp_scheduler_end(s, 4, false));
    assert_next(s, true, SWP_RESUME, 3);
    swp_scheduler_supply(s, true); /* the budget was extended */
    add(s, 5);
    assert_true(swp_scheduler_next_t(s, 5) == 1); /* a bracket of its own */
    swp_scheduler_free(s);
}

/* ---- PBT ---- */

static void pbt_copies_the_best_into_the_worst(void **state)
{
    (void)state;
    struct swp_scheduler *s = scheduler_of("pbt,interval=10,resample=-1", true);
    struct swp_verdict    verdict;
    struct swp_problem    problem;
    for (uint64_t t = 0; t < 4; t++)
        add(s, t);
    swp_scheduler_supply(s, false);
    assert_true(swp_scheduler_next_t(s, 0) == 10);
    assert_int_equal(report(s, 0, 9, 0), SWP_CONTINUE);
    assert_ok(swp_scheduler_report(s, 0, 10, 4, &verdict)); /* alone: no quantiles yet */
    assert_true(verdict.decision == SWP_CONTINUE && !verdict.save);
    assert_ok(swp_scheduler_report(s, 1, 10, 5, &verdict)); /* the better of two: ceil(2 / 4) = 1 at each end */
    assert_true(verdict.decision == SWP_CONTINUE && verdict.save);
    assert_int_equal(report(s, 2, 10, 3), SWP_PAUSE); /* the worst of three */
    assert_next(s, true, SWP_CLONE, 2);
    struct swp_action action = swp_scheduler_next(s, false);
    assert_int_equal(action.from, 1);
    assert_ok(swp_point_check(space, &action.point, &problem));
    assert_true(fabs(action.point.values[0] - 0.6) < 1e-12 || fabs(action.point.values[0] - 0.4) < 1e-12);
    assert_true(action.point.values[1] == 4 || action.point.values[1] == 2); /* 3.6 and 2.4 */
    assert_true(action.point.values[2] == 0 || action.point.values[2] == 2);
    assert_ok(swp_scheduler_cloned(s, 2, true));
    assert_code(swp_scheduler_cloned(s, 2, true), MT_ENOENT);
    assert_next(s, true, SWP_RESUME, 2);
    assert_ok(swp_scheduler_resume(s, 2));
    assert_true(swp_scheduler_next_t(s, 2) == 20);
    assert_ok(swp_scheduler_report(s, 3, 10, 4.5, &verdict)); /* in the middle */
    assert_true(verdict.decision == SWP_CONTINUE && !verdict.save);
    swp_scheduler_free(s);
}

static void pbt_gives_the_least_trained_their_turn(void **state)
{
    (void)state;
    struct swp_scheduler *s = scheduler_of("pbt,interval=10", false);
    add(s, 0);
    assert_int_equal(report(s, 0, 10, 1), SWP_PAUSE); /* others are still to be made */
    assert_next(s, true, SWP_START, 0);
    add(s, 1);
    swp_scheduler_supply(s, false);
    assert_int_equal(report(s, 1, 12, 2), SWP_PAUSE);
    assert_next(s, true, SWP_RESUME, 0); /* 0 had not saved when it was compared: no copy */
    assert_ok(swp_scheduler_resume(s, 0));
    assert_next(s, true, SWP_RESUME, 1);
    swp_scheduler_free(s);
}

static void pbt_in_step_waits_for_all(void **state)
{
    (void)state;
    struct swp_scheduler *s = scheduler_of("pbt,interval=5,in_step", false);
    for (uint64_t t = 0; t < 4; t++)
        add(s, t);
    for (uint64_t t = 0; t < 3; t++) {
        assert_int_equal(report(s, t, 5, (double)t), SWP_PAUSE);
        assert_next(s, false, SWP_WAIT, 0);
    }
    swp_scheduler_supply(s, false);
    assert_next(s, true, SWP_WAIT, 0);
    assert_ok(swp_scheduler_end(s, 3, true)); /* the last one dies: the others are all there are */
    assert_next(s, true, SWP_CLONE, 2);
    assert_int_equal(swp_scheduler_next(s, true).from, 0);
    assert_ok(swp_scheduler_cloned(s, 2, false)); /* the checkpoint is lost: it keeps its own */
    for (uint64_t t = 0; t < 3; t++) {
        assert_next(s, true, SWP_RESUME, t);
        assert_ok(swp_scheduler_resume(s, t));
    }
    assert_next(s, true, SWP_WAIT, 0);
    swp_scheduler_free(s);
}

/* ---- replay ---- */

/* A whole sweep with three places against a toy objective; each event and answer goes into a hash. */
static uint64_t play(const char *text, bool with_queries)
{
    struct swp_scheduler *s = scheduler_of(text, false);
    enum { TRIALS = 40 };
    double   steps[TRIALS] = {0};
    bool     runs[TRIALS] = {false};
    uint64_t made = 0, hash = 1;
    int      running = 0, rounds = 0;
    for (bool busy = true; busy && rounds < 20000; rounds++) {
        busy = false;
        struct swp_action a = swp_scheduler_next(s, running < 3);
        for (int i = 0; with_queries && i < 3; i++)
            (void)swp_scheduler_next(s, i & 1);
        hash = hash * 31 + a.kind * 7 + a.trial;
        if (a.kind == SWP_START) {
            add(s, made);
            runs[made++] = true;
            swp_scheduler_supply(s, made < TRIALS);
        } else if (a.kind == SWP_RESUME) {
            assert_ok(swp_scheduler_resume(s, a.trial));
            runs[a.trial] = true;
        } else if (a.kind == SWP_DROP) {
            assert_ok(swp_scheduler_end(s, a.trial, false));
        } else if (a.kind == SWP_CLONE) {
            assert_ok(swp_scheduler_cloned(s, a.trial, true));
            steps[a.trial] = steps[a.from];
        }
        busy = a.kind != SWP_WAIT;
        running += a.kind == SWP_START || a.kind == SWP_RESUME;
        for (uint64_t t = 0; t < made && a.kind == SWP_WAIT; t++) {
            if (!runs[t])
                continue;
            busy = true;
            steps[t]++;
            double            value = (double)(t * 7 % 13) + 10 / steps[t];
            enum swp_decision decision = report(s, t, steps[t], value);
            assert_true(steps[t] >= 0);
            hash = hash * 31 + (uint64_t)decision;
            runs[t] = decision == SWP_CONTINUE;
            running -= !runs[t];
            if (decision == SWP_STOP)
                assert_ok(swp_scheduler_end(s, t, false));
        }
    }
    assert_true(rounds < 20000);
    assert_int_equal(running, 0); /* every sweep comes to its end, nothing stays paused */
    for (uint64_t t = 0; t < TRIALS; t++)
        assert_code(swp_scheduler_end(s, t, false), MT_ENOENT);
    swp_scheduler_free(s);
    return hash;
}

static void whole_sweeps_end_and_replay_the_same(void **state)
{
    (void)state;
    static const char *const texts[] = {
        "fifo,max_t=30",           "median,grace=3,max_t=30",         "median,grace=3,max_t=30,pauses",
        "asha,max_t=27,eta=3",     "asha_promote,max_t=27,eta=3",     "hyperband,max_t=27",
        "pbt,interval=5,max_t=30", "pbt,interval=5,max_t=30,in_step", "asha,max_t=27,eta=3,brackets=2"};
    for (unsigned i = 0; i < COUNT(texts); i++)
        assert_int_equal(play(texts[i], false), play(texts[i], true));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(bad_calls_are_refused),
        cmocka_unit_test(fifo_stops_at_max_t_only),
        cmocka_unit_test(asha_stops_below_the_quantile_of_a_rung),
        cmocka_unit_test(asha_draws_brackets_by_their_rungs),
        cmocka_unit_test(asha_promotes_the_best_third),
        cmocka_unit_test(median_stops_what_is_worse_than_the_others_means),
        cmocka_unit_test(median_may_pause_instead),
        cmocka_unit_test(hyperband_fills_the_brackets_of_the_paper),
        cmocka_unit_test(hyperband_halves_when_all_have_come),
        cmocka_unit_test(hyperband_goes_on_with_a_bracket_that_is_not_full),
        cmocka_unit_test(pbt_copies_the_best_into_the_worst),
        cmocka_unit_test(pbt_gives_the_least_trained_their_turn),
        cmocka_unit_test(pbt_in_step_waits_for_all),
        cmocka_unit_test(whole_sweeps_end_and_replay_the_same),
    };
    return cmocka_run_group_tests(tests, make_space, free_space);
}
