/* SPDX-License-Identifier: Apache-2.0
 *
 * sampler_test.c - what all samplers promise (determinism, replay, bad input), the random, grid and Sobol samplers.
 */
#include "tests/unit/sweep/test.h"

#include "sweep/sample/sampler.h"

enum { SEED = 5 };

static struct swp_sampler *sampler_of(struct swp_sampler_opts opts, const struct swp_space *space)
{
    struct swp_problem  problem = {{0}, {0}};
    struct swp_sampler *s = NULL;
    mt_status           st = swp_sampler_new(&opts, space, SEED, &s, &problem);
    if (st.code != 0)
        print_error("%s\n", problem.text);
    assert_ok(st);
    return s;
}

/* A space with every kind of parameter, conditions and a constraint. */
static struct swp_space *rich_space(void)
{
    const struct swp_param params[] = {
        {.name = "lr", .kind = SWP_LOG_UNIFORM, .low = 1e-5, .high = 1e-1},
        {.name = "drop", .kind = SWP_UNIFORM, .low = 0, .high = 0.5, .step = 0.1},
        {.name = "opt", .kind = SWP_CATEGORICAL, CHOICES(TEXT("sgd"), TEXT("adam"))},
        {.name = "momentum", .kind = SWP_UNIFORM, .high = 1, WHEN("opt", TEXT("sgd"))},
        {.name = "beta", .kind = SWP_ORDINAL, CHOICES(REAL(0.9), REAL(0.99), REAL(0.999)), WHEN("opt", TEXT("adam"))},
        {.name = "width", .kind = SWP_LOG_INT, .low = 1, .high = 64},
        {.name = "depth", .kind = SWP_INT, .low = 1, .high = 9, .step = 2},
        {.name = "noise", .kind = SWP_NORMAL, .mean = 1, .sd = 2},
        {.name = "scale", .kind = SWP_LOG_NORMAL, .mean = 0, .sd = 1, .step = 0.5},
        {.name = "fold", .kind = SWP_GRID, CHOICES(WHOLE(0), WHOLE(1), WHOLE(2))},
        {.name = "fixed", .kind = SWP_CONSTANT, CHOICES(TEXT("x"))},
    };
    static const struct swp_term       terms[] = {{"width", 1}, {"depth", 8}};
    static const struct swp_constraint constraint = {terms, 2, 100};
    struct swp_space_def def = {.params = params, .param_count = COUNT(params), .constraints = &constraint, .constraint_count = 1};
    struct swp_problem   problem;
    struct swp_space    *space;
    assert_ok(swp_space_new(&def, &space, &problem));
    return space;
}

static double loss_of(const struct swp_point *p)
{
    return fabs(log10(p->values[0]) + 3) + p->values[1] + (p->values[2] == 0 ? p->values[3] : 0.3) + p->values[5] / 64;
}

/* What happens to trial k: a mix of everything. */
static struct swp_outcome outcome_of(uint64_t trial, const struct swp_point *p)
{
    struct swp_outcome outcome = {.kind = trial % 7 == 3    ? SWP_PRUNED
                                          : trial % 11 == 5 ? SWP_FAILED
                                                            : SWP_COMPLETE,
                                  .value = loss_of(p),
                                  .step = (double)(trial % 4)};
    return outcome;
}

/* Trials with three running at a time; the points into `points`. With `replay` the points are restored up to `known`. */
static void run_trials(struct swp_sampler *s, const struct swp_space *space, struct swp_point *points, uint64_t count,
                       uint64_t known)
{
    for (uint64_t t = 0; t < count; t++) {
        struct swp_problem problem = {{0}, {0}};
        if (t < known)
            assert_ok(swp_sampler_restore(s, t, &points[t]));
        else
            assert_ok(swp_sampler_suggest(s, t, &points[t]));
        if (swp_point_check(space, &points[t], &problem).code != 0)
            fail_msg("trial %u: %s", (unsigned)t, problem.text);
        if (t >= 3) {
            struct swp_outcome outcome = outcome_of(t - 3, &points[t - 3]);
            assert_ok(swp_sampler_tell(s, t - 3, &outcome));
        }
    }
}

enum { TRIALS = 60 };

static void every_kind_stays_in_the_space_and_replays(void **state)
{
    (void)state;
    struct swp_space       *space = rich_space();
    static struct swp_point a[TRIALS], b[TRIALS];
    for (int kind = 0; kind < SWP_SAMPLER_COUNT; kind++) {
        if (kind == SWP_SAMPLER_GRID)
            continue;
        struct swp_sampler_opts opts = {.kind = (enum swp_sampler_kind)kind};
        struct swp_sampler *first = sampler_of(opts, space), *again = sampler_of(opts, space), *resumed = sampler_of(opts, space);
        run_trials(first, space, a, TRIALS, 0);
        run_trials(again, space, b, TRIALS, 0);
        for (int t = 0; t < TRIALS; t++) {
            assert_true(swp_point_equal(space, &a[t], &b[t]));
            assert_true(a[t].values[9] == t % 3); /* the grid parameter, in turn */
        }
        run_trials(resumed, space, b, TRIALS, TRIALS / 2); /* the first half from a journal */
        for (int t = 0; t < TRIALS; t++)
            assert_true(swp_point_equal(space, &a[t], &b[t]));
        swp_sampler_free(first);
        swp_sampler_free(again);
        swp_sampler_free(resumed);
    }
    swp_space_free(space);
}

static void seeds_and_trials_have_their_own_draws(void **state)
{
    (void)state;
    struct swp_space *space = cube(2, 0, 1);
    for (int kind = 0; kind < SWP_SAMPLER_COUNT; kind++) {
        if (kind == SWP_SAMPLER_GRID)
            continue;
        struct swp_sampler_opts opts = {.kind = (enum swp_sampler_kind)kind};
        struct swp_sampler     *a, *b;
        struct swp_problem      problem;
        struct swp_point        p, q, r;
        assert_ok(swp_sampler_new(&opts, space, 1, &a, &problem));
        assert_ok(swp_sampler_new(&opts, space, 2, &b, &problem));
        assert_ok(swp_sampler_suggest(a, 0, &p));
        assert_ok(swp_sampler_suggest(a, 1, &q));
        assert_ok(swp_sampler_suggest(b, 0, &r));
        assert_false(swp_point_equal(space, &p, &q));
        assert_false(swp_point_equal(space, &p, &r));
        swp_sampler_free(a);
        swp_sampler_free(b);
    }
    swp_space_free(space);
}

static void bad_calls_are_refused(void **state)
{
    (void)state;
    struct swp_space   *space = cube(1, 0, 1);
    struct swp_sampler *s = sampler_of((struct swp_sampler_opts){.kind = SWP_SAMPLER_TPE}, space);
    struct swp_outcome  fine = {.kind = SWP_COMPLETE, .value = 1};
    struct swp_point    p, outside = {{2}}, nothing = {{NAN}};
    assert_code(swp_sampler_tell(s, 0, &fine), MT_ENOENT);
    assert_ok(swp_sampler_suggest(s, 0, &p));
    assert_code(swp_sampler_suggest(s, 0, &p), MT_EEXIST);
    assert_code(swp_sampler_restore(s, 0, &p), MT_EEXIST);
    assert_code(swp_sampler_restore(s, 1, &outside), MT_EINVAL);
    assert_code(swp_sampler_know(s, &nothing, &fine), MT_EINVAL);
    assert_ok(swp_sampler_tell(s, 0, &fine));
    assert_code(swp_sampler_tell(s, 0, &fine), MT_ENOENT);
    swp_sampler_free(s);
    struct swp_sampler_opts bad[] = {{.kind = SWP_SAMPLER_COUNT},
                                     {.kind = SWP_SAMPLER_TPE, .prior_weight = NAN},
                                     {.kind = SWP_SAMPLER_TPE, .candidates = 1 << 20},
                                     {.kind = SWP_SAMPLER_RANDOM, .first = &outside, .first_count = 1}};
    for (unsigned i = 0; i < COUNT(bad); i++) {
        struct swp_problem problem = {{0}, {0}};
        assert_code(swp_sampler_new(&bad[i], space, 0, &s, &problem), MT_EINVAL);
        assert_int_not_equal(strlen(problem.text), 0);
    }
    swp_space_free(space);
}

static void options_are_read_from_a_text(void **state)
{
    (void)state;
    struct swp_sampler_opts o;
    struct swp_problem      problem;
    assert_ok(swp_sampler_opts_parse("tpe", &o, &problem));
    assert_int_equal(o.kind, SWP_SAMPLER_TPE);
    assert_ok(swp_sampler_opts_parse(" tpe , startup=20,independent, prior_weight=0.5,no_liar=false", &o, &problem));
    assert_true(o.startup == 20 && o.independent && !o.no_liar && o.prior_weight == 0.5);
    static const char *const bad[][2] = {{"", ""},
                                         {",tpe", ""},
                                         {"tpe,,x", ""},
                                         {"bayes", "bayes"},
                                         {"tpe,depth=1", "depth"},
                                         {"tpe,startup", "startup"},
                                         {"tpe,startup=-1", "startup"},
                                         {"tpe,startup=1.5", "startup"},
                                         {"tpe,startup=x", "startup"},
                                         {"tpe,independent=1", "independent"},
                                         {"tpe,prior_weight=NaN", "prior_weight"}};
    for (unsigned i = 0; i < COUNT(bad); i++) {
        assert_code(swp_sampler_opts_parse(bad[i][0], &o, &problem), MT_EINVAL);
        assert_string_equal(problem.param, bad[i][1]);
    }
}

static void first_points_come_first(void **state)
{
    (void)state;
    struct swp_space      *space = cube(2, 0, 1);
    const struct swp_point first[] = {{{0.25, 0.5}}, {{0.75, 0.125}}};
    struct swp_sampler    *s = sampler_of(
           (struct swp_sampler_opts){.kind = SWP_SAMPLER_SOBOL, .plain = true, .first = first, .first_count = 2}, space);
    struct swp_point p;
    for (uint64_t t = 0; t < 2; t++) {
        assert_ok(swp_sampler_suggest(s, t, &p));
        assert_true(swp_point_equal(space, &p, &first[t]));
    }
    assert_ok(swp_sampler_suggest(s, 2, &p));
    assert_true(p.values[0] == 0 && p.values[1] == 0); /* the sequence begins */
    swp_sampler_free(s);
    swp_space_free(space);
}

/* ---- warm start ---- */

static const double bottom[3] = {0.2, 0.7, 0.4};

static double distance_to_bottom(const struct swp_point *p)
{
    double sum = 0;
    for (int d = 0; d < 3; d++)
        sum += (p->values[d] - bottom[d]) * (p->values[d] - bottom[d]);
    return sqrt(sum);
}

/* Tells what an earlier sweep by random search found. */
static void tell_earlier(struct swp_sampler *s, const struct swp_space *space, bool maximize)
{
    mt_rng rng = {77};
    for (int i = 0; i < 80; i++) {
        struct swp_point p;
        assert_ok(swp_space_draw(space, &rng, &p));
        struct swp_outcome outcome = {.kind = i % 9 == 4 ? SWP_FAILED : SWP_COMPLETE, .value = distance_to_bottom(&p)};
        outcome.value *= maximize ? -1 : 1;
        assert_ok(swp_sampler_know(s, &p, &outcome));
    }
}

/* Mean distance of the first suggestions from the bottom, while none of them has ended. */
static double first_distance(enum swp_sampler_kind kind, const struct swp_space *space, bool is_warm, bool maximize)
{
    enum { FIRST = 8 };
    double              sum = 0;
    struct swp_sampler *s = sampler_of((struct swp_sampler_opts){.kind = kind, .maximize = maximize, .sigma0 = 0.05}, space);
    if (is_warm)
        tell_earlier(s, space, maximize);
    for (uint64_t t = 0; t < FIRST; t++) {
        struct swp_point p;
        assert_ok(swp_sampler_suggest(s, t, &p));
        sum += distance_to_bottom(&p) / FIRST;
    }
    swp_sampler_free(s);
    return sum;
}

static void earlier_results_show_the_way(void **state)
{
    (void)state;
    static const enum swp_sampler_kind kinds[] = {SWP_SAMPLER_TPE, SWP_SAMPLER_CMAES, SWP_SAMPLER_GP};
    struct swp_space                  *space = cube(3, 0, 1);
    for (unsigned i = 0; i < COUNT(kinds); i++)
        for (int maximize = 0; maximize < 2; maximize++) {
            double warm = first_distance(kinds[i], space, true, maximize), cold = first_distance(kinds[i], space, false, maximize);
            if (!(warm < 0.6 * cold))
                fail_msg("%s: %g beside %g", swp_sampler_text(kinds[i]), warm, cold);
        }
    swp_space_free(space);
}

/* What does not look at results draws the same points after them. */
static void earlier_results_move_no_sequence(void **state)
{
    (void)state;
    static const enum swp_sampler_kind kinds[] = {SWP_SAMPLER_RANDOM, SWP_SAMPLER_SOBOL, SWP_SAMPLER_GRID};
    struct swp_space                  *space = SPACE_OF({.name = "a", .kind = SWP_UNIFORM, .high = 1, .points = 3},
                                                        {.name = "b", .kind = SWP_UNIFORM, .high = 1, .points = 3},
                                                        {.name = "c", .kind = SWP_UNIFORM, .high = 1, .points = 3}, );
    for (unsigned i = 0; i < COUNT(kinds); i++) {
        struct swp_sampler *cold = sampler_of((struct swp_sampler_opts){.kind = kinds[i]}, space);
        struct swp_sampler *warm = sampler_of((struct swp_sampler_opts){.kind = kinds[i]}, space);
        tell_earlier(warm, space, false);
        for (uint64_t t = 0; t < 27; t++) {
            struct swp_point p, q;
            assert_ok(swp_sampler_suggest(cold, t, &p));
            assert_ok(swp_sampler_suggest(warm, t, &q));
            assert_true(swp_point_equal(space, &p, &q));
        }
        swp_sampler_free(cold);
        swp_sampler_free(warm);
    }
    swp_space_free(space);
}

/* Killed and resumed: the earlier results are told again, then the journal. */
static void a_warm_sweep_replays(void **state)
{
    (void)state;
    struct swp_space       *space = rich_space();
    static struct swp_point a[TRIALS], b[TRIALS];
    for (int kind = 0; kind < SWP_SAMPLER_COUNT; kind++) {
        struct swp_sampler *s[2];
        if (kind == SWP_SAMPLER_GRID)
            continue;
        for (int i = 0; i < 2; i++) {
            mt_rng rng = {5};
            s[i] = sampler_of((struct swp_sampler_opts){.kind = (enum swp_sampler_kind)kind}, space);
            for (int k = 0; k < 30; k++) {
                struct swp_point p = {{0}};
                swp_space_grid_at(space, (uint64_t)k, &p);
                assert_ok(swp_space_draw(space, &rng, &p));
                struct swp_outcome outcome = outcome_of((uint64_t)k, &p);
                assert_ok(swp_sampler_know(s[i], &p, &outcome));
            }
        }
        run_trials(s[0], space, a, TRIALS / 2, 0);
        memcpy(b, a, sizeof b);
        run_trials(s[1], space, b, TRIALS / 2, TRIALS / 4);
        for (int t = 0; t < TRIALS / 2; t++)
            assert_true(swp_point_equal(space, &a[t], &b[t]));
        swp_sampler_free(s[0]);
        swp_sampler_free(s[1]);
    }
    swp_space_free(space);
}

/* ---- grid ---- */

static void a_grid_gives_each_combination_once(void **state)
{
    (void)state;
    struct swp_space *space = SPACE_OF(
        {.name = "opt", .kind = SWP_CATEGORICAL, CHOICES(TEXT("sgd"), TEXT("adam"))},
        {.name = "momentum", .kind = SWP_UNIFORM, .low = 0, .high = 1, .points = 3, WHEN("opt", TEXT("sgd"))},
        {.name = "lr", .kind = SWP_LOG_UNIFORM, .low = 1e-3, .high = 1e-1, .points = 2},
        {.name = "n", .kind = SWP_INT, .low = 1, .high = 5, .step = 4}, );
    struct swp_sampler *s = sampler_of((struct swp_sampler_opts){.kind = SWP_SAMPLER_GRID}, space), *again;
    struct swp_point    p[16], extra = {{0, 0.3, 0.05, 1}};
    uint64_t            count = 0;
    assert_int_equal(swp_sampler_trials(s), (3 + 1) * 2 * 2);
    for (; swp_sampler_suggest(s, count, &p[count % 16]).code == 0; count++)
        for (uint64_t k = 0; k < count; k++)
            assert_false(swp_point_equal(space, &p[k], &p[count]));
    assert_int_equal(count, 16);
    assert_code(swp_sampler_suggest(s, 99, &extra), MT_EEND);
    assert_true(fabs(p[0].values[2] - 1e-3) < 1e-15 && p[1].values[3] == 5 && p[4].values[1] == 0.5);
    again = sampler_of((struct swp_sampler_opts){.kind = SWP_SAMPLER_GRID}, space);
    extra = (struct swp_point){{0, 0.3, 0.05, 1}};
    assert_ok(swp_sampler_restore(again, 1000, &extra)); /* added by the user: takes no place */
    for (uint64_t t = 0; t < 7; t++)
        assert_ok(swp_sampler_restore(again, t, &p[t]));
    assert_ok(swp_sampler_suggest(again, 7, &extra));
    assert_true(swp_point_equal(space, &extra, &p[7]));
    swp_sampler_free(s);
    swp_sampler_free(again);
    swp_space_free(space);
}

static void a_grid_over_a_continuum_is_refused(void **state)
{
    (void)state;
    struct swp_space *space = cube(1, 0, 1);
    struct swp_space *huge = SPACE_OF({.name = "a", .kind = SWP_INT, .high = 1e6}, {.name = "b", .kind = SWP_INT, .high = 1e6}, );
    struct swp_sampler_opts opts = {.kind = SWP_SAMPLER_GRID};
    struct swp_problem      problem;
    struct swp_sampler     *s;
    assert_code(swp_sampler_new(&opts, space, 0, &s, &problem), MT_EINVAL);
    assert_string_equal(problem.param, "x0");
    assert_code(swp_sampler_new(&opts, huge, 0, &s, &problem), MT_EINVAL);
    assert_string_equal(problem.param, "b");
    swp_space_free(space);
    swp_space_free(huge);
}

/* ---- Sobol ---- */

/* The first points of the sequence in five dimensions, by hand from the published direction numbers (binary order). */
static void plain_sobol_is_the_sequence(void **state)
{
    (void)state;
    static const double wanted[8][5] = {
        {0, 0, 0, 0, 0},
        {0.5, 0.5, 0.5, 0.5, 0.5},
        {0.25, 0.75, 0.75, 0.75, 0.25},
        {0.75, 0.25, 0.25, 0.25, 0.75},
        {0.125, 0.625, 0.375, 0.125, 0.125},
        {0.625, 0.125, 0.875, 0.625, 0.625},
        {0.375, 0.375, 0.625, 0.875, 0.375},
        {0.875, 0.875, 0.125, 0.375, 0.875},
    };
    struct swp_space   *space = cube(5, 0, 1);
    struct swp_sampler *s = sampler_of((struct swp_sampler_opts){.kind = SWP_SAMPLER_SOBOL, .plain = true}, space);
    struct swp_point    p;
    for (uint64_t t = 0; t < 8; t++) {
        assert_ok(swp_sampler_suggest(s, t, &p));
        for (int d = 0; d < 5; d++)
            assert_true(p.values[d] == wanted[t][d]);
    }
    swp_sampler_free(s);
    swp_space_free(space);
}

/* Of 2^k points each interval of length 2^-k has one, in every dimension, scrambled or not. */
static void sobol_fills_every_interval_in_every_dimension(void **state)
{
    (void)state;
    enum { POINTS = 256 };
    struct swp_space *space = cube(MT_SWEEP_PARAMS_MAX, 0, 1);
    for (int plain = 0; plain < 2; plain++) {
        struct swp_sampler *s = sampler_of((struct swp_sampler_opts){.kind = SWP_SAMPLER_SOBOL, .plain = plain}, space);
        static uint8_t      seen[MT_SWEEP_PARAMS_MAX][POINTS];
        struct swp_point    p;
        memset(seen, 0, sizeof seen);
        for (uint64_t t = 0; t < POINTS; t++) {
            assert_ok(swp_sampler_suggest(s, t, &p));
            for (int d = 0; d < MT_SWEEP_PARAMS_MAX; d++)
                seen[d][(int)(p.values[d] * POINTS)]++;
        }
        for (int d = 0; d < MT_SWEEP_PARAMS_MAX; d++)
            for (int i = 0; i < POINTS; i++)
                assert_int_equal(seen[d][i], 1);
        swp_sampler_free(s);
    }
    swp_space_free(space);
}

/* Neighbouring dimensions keep their two-dimensional stratification under the scrambling: 16 x 16 boxes, one point each. */
static void scrambling_keeps_the_net(void **state)
{
    (void)state;
    struct swp_space   *space = cube(2, 0, 1);
    struct swp_sampler *s = sampler_of((struct swp_sampler_opts){.kind = SWP_SAMPLER_SOBOL}, space);
    uint8_t             seen[16][16] = {{0}};
    struct swp_point    p;
    for (uint64_t t = 0; t < 256; t++) {
        assert_ok(swp_sampler_suggest(s, t, &p));
        seen[(int)(p.values[0] * 16)][(int)(p.values[1] * 16)]++;
    }
    for (int i = 0; i < 256; i++)
        assert_int_equal(seen[i / 16][i % 16], 1);
    swp_sampler_free(s);
    swp_space_free(space);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_kind_stays_in_the_space_and_replays),
        cmocka_unit_test(seeds_and_trials_have_their_own_draws),
        cmocka_unit_test(bad_calls_are_refused),
        cmocka_unit_test(options_are_read_from_a_text),
        cmocka_unit_test(first_points_come_first),
        cmocka_unit_test(earlier_results_show_the_way),
        cmocka_unit_test(earlier_results_move_no_sequence),
        cmocka_unit_test(a_warm_sweep_replays),
        cmocka_unit_test(a_grid_gives_each_combination_once),
        cmocka_unit_test(a_grid_over_a_continuum_is_refused),
        cmocka_unit_test(plain_sobol_is_the_sequence),
        cmocka_unit_test(sobol_fills_every_interval_in_every_dimension),
        cmocka_unit_test(scrambling_keeps_the_net),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
