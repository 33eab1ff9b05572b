/* SPDX-License-Identifier: Apache-2.0
 *
 * gp_test.c - the Gaussian process against its definition: loss, derivatives, predictions, expected improvement and kernel of
 * Optuna 4.9.0 on the same observations; numbers that make matrices singular; and that it finds minima.
 *
 * Optuna's numbers: GPRegressor, default_log_prior, LogEI and fit_kernel_params(..., gtol=1e-7) of optuna._gp, for the observations
 * and the kernel below.
 */
#include "tests/unit/sweep/test.h"

#include "sweep/sample/gp/gp.h"
#include "sweep/math/lbfgs.h"
#include "sweep/space/layout.h"

enum { ROWS = 24, DIMS = 6 };
static const double theta[DIMS + 2] = {0.3, -0.2, 0.1, 0.5, -0.4, 0.2, 0.7, -2.0};

static struct swp_space *mixed_space(void)
{
    return SPACE_OF(
        {.name = "u", .kind = SWP_UNIFORM, .low = -1, .high = 2}, {.name = "l", .kind = SWP_LOG_UNIFORM, .low = 1e-4, .high = 1e-1},
        {.name = "q", .kind = SWP_UNIFORM, .low = 0, .high = 1, .step = 0.25},
        {.name = "i", .kind = SWP_INT, .low = 1, .high = 9, .step = 2}, {.name = "li", .kind = SWP_LOG_INT, .low = 1, .high = 64},
        {.name = "c", .kind = SWP_CATEGORICAL, CHOICES(TEXT("a"), TEXT("b"), TEXT("c"))}, );
}

static struct swp_point values_of(int k)
{
    return (struct swp_point){{-1 + 3 * ((k * 37 + 11) % 100 + 0.5) / 100, 1e-4 * pow(1000, (k * 61 + 5) % 97 / 97.0),
                               0.25 * (k * 3 % 5), 1 + 2 * (k * 7 % 5), 1 + k * 29 % 64, (k * k + k) % 3}};
}

static double mixed_loss(const struct swp_point *p)
{
    const double *x = p->values;
    return (x[0] - 0.5) * (x[0] - 0.5) + 0.3 * fabs(log10(x[1]) + 3) + x[2] * 0.2 + 0.1 * fabs(x[3] - 5) + 0.02 * x[4] +
           (x[5] == 1 ? 0.5 : 0);
}

static struct swp_sampler *sampler_of(struct swp_sampler_opts opts, const struct swp_space *space, uint64_t seed)
{
    struct swp_problem  problem = {{0}, {0}};
    struct swp_sampler *s;
    opts.kind = SWP_SAMPLER_GP;
    assert_ok(swp_sampler_new(&opts, space, seed, &s, &problem));
    return s;
}

/* A sampler that knows the observations, and whose model holds them. */
static struct swp_sampler *told(const struct swp_space *space)
{
    struct swp_sampler *s = sampler_of((struct swp_sampler_opts){0}, space, 1);
    struct swp_point    p;
    for (int k = 0; k < ROWS; k++) {
        p = values_of(k);
        struct swp_outcome outcome = {.kind = SWP_COMPLETE, .value = mixed_loss(&p)};
        assert_ok(swp_sampler_know(s, &p, &outcome));
    }
    assert_ok(swp_sampler_suggest(s, 0, &p));
    struct swp_outcome failed = {.kind = SWP_FAILED};
    assert_ok(swp_sampler_tell(s, 0, &failed));
    return s;
}

#define NEAR(a, b, e) assert_true(fabs((a) - (b)) <= (e)*fmax(1, fabs(b)))

/* ---- the definition ---- */

static void likelihood_and_priors_are_optunas(void **state)
{
    (void)state;
    static const double wanted[DIMS + 2] = {-4.439427301965606,  -2.6530911591832736, 0.8342201968539508, 1.6046199242638493,
                                            -1.5100737297187061, 1.3291412815780588,  -3.501136339927537, 3.149316888263448};
    struct swp_space   *space = mixed_space();
    struct swp_sampler *s = told(space);
    double              gradient[DIMS + 2];
    NEAR(swp_gp_loss(s->model, theta, gradient), 20.69854645975491, 1e-11);
    for (int i = 0; i < DIMS + 2; i++)
        NEAR(gradient[i], wanted[i], 1e-10);
    swp_sampler_free(s);
    swp_space_free(space);
}

static void the_kernel_is_as_likely_as_optunas(void **state)
{
    (void)state;
    struct swp_space   *space = mixed_space();
    struct swp_sampler *s = told(space);
    struct swp_gp      *m = s->model;
    double              found[DIMS + 2], gradient[DIMS + 2];
    for (int d = 0; d < DIMS; d++)
        found[d] = log(m->weight[d]);
    found[DIMS] = log(m->data.scale);
    found[DIMS + 1] = log(m->data.noise - 1e-6);
    NEAR(swp_gp_loss(m, found, gradient), 4.549786870845963, 1e-3);
    swp_sampler_free(s);
    swp_space_free(space);
}

/* log of the expected improvement of a point, and the gradient by the units. */
static double improvement_at(struct swp_gp *m, const struct swp_point *p, double *gradient)
{
    double points[SWP_GP_LANES * DIMS], mean[SWP_GP_LANES], variance[SWP_GP_LANES], slopes[2 * DIMS], by_mean, by_variance;
    for (int d = 0; d < DIMS; d++)
        for (int lane = 0; lane < SWP_GP_LANES; lane++)
            points[d * SWP_GP_LANES + lane] = swp_axis_unit(&m->axes[d].a, p->values[d]);
    m->loops->predict(&m->data, m->l_inv, m->alpha, points, mean, variance, slopes);
    double score = swp_gp_log_improvement(mean[0], variance[0], m->best, &by_mean, &by_variance);
    for (int d = 0; d < DIMS; d++)
        gradient[d] = by_mean * slopes[d] + by_variance * slopes[DIMS + d];
    return score;
}

static double log_improvement(struct swp_gp *m, int k, double *gradient)
{
    struct swp_point p = values_of(k);
    return improvement_at(m, &p, gradient);
}

static void expected_improvement_is_optunas(void **state)
{
    (void)state;
    static const int    asked[4] = {1000, 1003, 1017, 5};
    static const double scores[2][4] = {{-2.7113782315479558, -5.056308312559528, -16.9883399719629, -37.4004450388682},
                                        {-1.87441156380799, -4.3698711996587205, -13.535293603409565, -37.805950176002376}};
    static const double slopes[2][DIMS] = {
        {2.9304724569056706, 7.069451037669177, 1.3783825903655056, -5.200499286221566, -4.435318540059337, 0},
        {2.3578344827721693, 7.050410126939123, -0.2571123858207218, -6.052337474091083, -4.228669793844447, 0}};
    struct swp_space *space = mixed_space();
    for (int with_running = 0; with_running < 2; with_running++) {
        struct swp_sampler *s = told(space);
        struct swp_gp      *m = s->model;
        double              gradient[DIMS + 2];
        struct swp_point    running[2] = {values_of(100), values_of(107)}, p;
        for (uint64_t t = 0; t < 2 && with_running; t++)
            assert_ok(swp_sampler_restore(s, 100 + t, &running[t]));
        assert_ok(swp_sampler_suggest(s, 7, &p)); /* so that those that run stand behind the others */
        assert_false(isnan(swp_gp_loss(m, theta, gradient)));
        assert_true(swp_gp_factor(m, ROWS + (with_running ? 2 : 0)));
        for (int i = 0; i < 4; i++)
            NEAR(log_improvement(m, asked[i], gradient), scores[with_running][i], 1e-9);
        log_improvement(m, asked[1], gradient);
        for (int d = 0; d < DIMS; d++)
            NEAR(gradient[d], slopes[with_running][d], 1e-9);
        swp_sampler_free(s);
    }
    swp_space_free(space);
}

/* What a point promises rises nowhere beside it, but for beyond a bound: the local search ends at a slope of 0.01 at most. */
static void assert_flat(const struct swp_gp *m, const struct swp_point *p, int d, const double *gradient)
{
    double unit = swp_axis_unit(&m->axes[d].a, p->values[d]), slope = gradient[d] / sqrt(m->weight[d]); /* in units of its length */
    bool   is_at_bound = (unit < 1e-9 && slope < 0) || (unit > 1 - 1e-9 && slope > 0);
    assert_true(is_at_bound || fabs(slope) < 0.02);
}

/* What is suggested is the best on each of its axes: another category, or what is beside it, promises no more. */
static void no_value_beside_a_suggestion_promises_more(void **state)
{
    (void)state;
    struct swp_space   *space = SPACE_OF({.name = "u", .kind = SWP_UNIFORM, .low = -1, .high = 2},
                                         {.name = "l", .kind = SWP_LOG_UNIFORM, .low = 1e-4, .high = 1e-1},
                                         {.name = "q", .kind = SWP_UNIFORM, .low = 0, .high = 1, .step = 0.001},
                                         {.name = "i", .kind = SWP_INT, .low = 0, .high = 100000},
                                         {.name = "j", .kind = SWP_INT, .low = -5000, .high = 5000, .step = 2},
                                         {.name = "c", .kind = SWP_CATEGORICAL, CHOICES(TEXT("a"), TEXT("b"), TEXT("c"))}, );
    static const double step[DIMS] = {0, 0, 0.001, 1, 2, 1}, low[DIMS] = {0, 0, 0, 0, -5000, 0},
                        high[DIMS] = {0, 0, 1, 1e5, 5000, 2};
    struct swp_sampler *s = sampler_of((struct swp_sampler_opts){0}, space, 1);
    double              gradient[DIMS];
    struct swp_point    p;
    for (uint64_t t = 0; t < 40; t++) {
        assert_ok(swp_sampler_suggest(s, t, &p));
        double score = t >= 20 ? improvement_at(s->model, &p, gradient) : 0;
        for (int d = 0; t >= 20 && d < 2; d++)
            assert_flat(s->model, &p, d, gradient);
        for (int d = 2; t >= 20 && d < DIMS; d++) {
            for (int by = d == DIMS - 1 ? -2 : -1; by <= (d == DIMS - 1 ? 2 : 1); by++) {
                struct swp_point beside = p;
                beside.values[d] += by * step[d];
                if (beside.values[d] >= low[d] && beside.values[d] <= high[d])
                    assert_true(improvement_at(s->model, &beside, gradient) <= score + 1e-9);
            }
        }
        struct swp_outcome outcome = {.kind = SWP_COMPLETE,
                                      .value = fabs(p.values[2] - 0.3) + fabs(p.values[3] - 70000) / 1e5 +
                                               fabs(p.values[4] - 1234) / 5e3 + p.values[0] * p.values[0] +
                                               (p.values[5] == 1 ? 0.5 : 0)};
        assert_ok(swp_sampler_tell(s, t, &outcome));
    }
    swp_sampler_free(s);
    swp_space_free(space);
}

static void improvement_is_exact_far_from_the_best(void **state)
{
    (void)state;
    static const double wanted[][2] = {{2, 0.6973835457882284},    {0, -0.9189385332046727},  {-3, -7.869686059603014},
                                       {-20, -206.91783850941914}, {-26, -345.4395467223178}, {-100, -5010.129578800247}};
    double              by_mean, by_variance, ignored[2];
    for (unsigned i = 0; i < COUNT(wanted); i++) {
        double z = wanted[i][0], h = 1e-5;
        NEAR(swp_gp_log_improvement(z, 1, 0, &by_mean, &by_variance), wanted[i][1], 1e-9);
        double up = swp_gp_log_improvement(z + h, 1, 0, &ignored[0], &ignored[1]);
        double down = swp_gp_log_improvement(z - h, 1, 0, &ignored[0], &ignored[1]);
        NEAR(by_mean, (up - down) / (2 * h), 1e-5);
        up = swp_gp_log_improvement(z, 1 + h, 0, &ignored[0], &ignored[1]);
        down = swp_gp_log_improvement(z, 1 - h, 0, &ignored[0], &ignored[1]);
        NEAR(by_variance, (up - down) / (2 * h), 1e-5);
    }
    assert_true(isfinite(swp_gp_log_improvement(-1e6, -1e-9, 1, &by_mean, &by_variance)));
}

/* ---- loops ---- */

static void all_builds_of_the_loops_have_the_same_bits(void **state)
{
    (void)state;
    enum { N = 43, STRIDE = 48 };
    const struct swp_gp_loops *loops[3] = {&swp_gp_loops_plain};
    static double              x[3][STRIDE], y[STRIDE], scratch[18 * STRIDE];
    static double              u[STRIDE * STRIDE], l_inv[STRIDE * STRIDE], slope[STRIDE * STRIDE];
    static struct {
        double alpha[STRIDE], by_weight[3], trace, mean[8], variance[8], gradient[6];
    } results[3];
    const double      *columns[3] = {x[0], x[1], x[2]}, weight[3] = {2, 0.5, 1};
    const bool         is_category[3] = {false, false, true};
    struct swp_gp_data d = {N, STRIDE, 3, columns, is_category, weight, 1.5, 1e-3, scratch};
    double             points[24];
    mt_rng             rng = {9};
    uint32_t           count = 1;
#if defined(__x86_64__)
    if (__builtin_cpu_supports("avx2"))
        loops[count++] = &swp_gp_loops_avx2;
    if (__builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512dq"))
        loops[count++] = &swp_gp_loops_avx512;
#endif
    for (int i = 0; i < N; i++) {
        x[0][i] = swp_rng_real(&rng);
        x[1][i] = swp_rng_real(&rng);
        x[2][i] = (double)mt_rng_below(&rng, 3);
        y[i] = swp_rng_normal(&rng);
    }
    for (int i = 0; i < 24; i++)
        points[i] = i < 16 ? swp_rng_real(&rng) : i % 3;
    for (uint32_t k = 0; k < count; k++) {
        assert_true(loops[k]->factor(&d, u, l_inv, slope));
        loops[k]->solve(&d, l_inv, y, results[k].alpha);
        results[k].trace = loops[k]->gradient(&d, l_inv, slope, results[k].alpha, results[k].by_weight);
        loops[k]->predict(&d, l_inv, results[k].alpha, points, results[k].mean, results[k].variance, results[k].gradient);
        assert_memory_equal(&results[k], &results[0], sizeof results[0]);
    }
    for (int i = 0; i < N; i++) { /* the covariance times alpha is y */
        double sum = d.noise * results[0].alpha[i];
        for (int j = 0; j < N; j++) {
            double square = 0;
            for (int k = 0; k < 3; k++)
                square += weight[k] * (k == 2 ? x[k][i] != x[k][j] : (x[k][i] - x[k][j]) * (x[k][i] - x[k][j]));
            double a = sqrt(5 * square);
            sum += d.scale * (1 + a + a * a / 3) * exp(-a) * results[0].alpha[j];
        }
        NEAR(sum, y[i], 1e-9);
    }
}

static double valley(void *user, const double *x, double *gradient)
{
    double a = 1 - x[0], b = x[1] - x[0] * x[0];
    gradient[0] = -2 * a - 400 * b * x[0];
    gradient[1] = 200 * b;
    *(int *)user += 1;
    return x[0] > 3 ? NAN : a * a + 100 * b * b;
}

static void the_least_value_is_found_between_bounds(void **state)
{
    (void)state;
    static const double low[2] = {-2, -1}, high[2] = {0.5, 2};
    int                 calls = 0;
    double              x[2] = {-1.2, 1}, value;
    struct swp_lbfgs    problem = {.dims = 2, .gradient_least = 1e-6, .steps_max = 200, .at = valley, .user = &calls};
    assert_true(swp_lbfgs_least(&problem, x, &value));
    assert_true(fabs(x[0] - 1) < 1e-4 && fabs(x[1] - 1) < 1e-4 && calls < 100);
    problem.low = low, problem.high = high;
    x[0] = -1.2, x[1] = 1;
    assert_true(swp_lbfgs_least(&problem, x, &value));
    assert_true(x[0] == 0.5 && fabs(x[1] - 0.25) < 1e-4 && fabs(value - 0.25) < 1e-6);
    problem.low = problem.high = NULL;
    x[0] = 4;
    assert_false(swp_lbfgs_least(&problem, x, &value));
    assert_true(x[0] == 4);
}

/* ---- rows ---- */

/* Trials with these outcomes, then ten more suggestions: all of them of the space. */
static void suggest_after(const struct swp_space *space, const struct swp_point *points, const struct swp_outcome *outcomes,
                          uint32_t count)
{
    struct swp_sampler *s = sampler_of((struct swp_sampler_opts){0}, space, 3);
    struct swp_point    p;
    for (uint32_t i = 0; i < count; i++)
        assert_ok(swp_sampler_know(s, &points[i], &outcomes[i]));
    for (uint64_t t = 0; t < 10; t++) {
        struct swp_problem problem = {{0}, {0}};
        assert_ok(swp_sampler_suggest(s, t, &p));
        assert_ok(swp_point_check(space, &p, &problem));
    }
    const struct swp_gp *m = s->model;
    assert_true(isfinite(m->best) && isfinite(m->data.scale) && isfinite(m->data.noise) && m->observed <= count);
    swp_sampler_free(s);
}

static void odd_numbers_do_no_harm(void **state)
{
    (void)state;
    enum { N = 12 };
    static const double values[][4] = {{1, 1, 1, 1},
                                       {INFINITY, 1, 2, 3},
                                       {1e308, -1e308, 1e308, 0},
                                       {1e-300, 2e-300, 0, 0},
                                       {1, 1 + 1e-15, 1, 1},
                                       {NAN, 1, 2, -INFINITY},
                                       {INFINITY, INFINITY, INFINITY, INFINITY},
                                       {0, 1e200, 1, 2}};
    struct swp_space   *space = cube(2, 0, 1);
    for (unsigned i = 0; i < COUNT(values); i++)
        for (int same = 0; same < 2; same++) { /* all at one place: a singular matrix but for the noise */
            struct swp_point   points[N] = {0};
            struct swp_outcome outcomes[N];
            for (int k = 0; k < N; k++) {
                points[k] = (struct swp_point){{same ? 0.5 : (k + 0.5) / N, 0.25}};
                enum swp_outcome_kind kind = i % 2 && k % 3 == 0 ? SWP_PRUNED : SWP_COMPLETE;
                outcomes[k] = (struct swp_outcome){.kind = kind, .value = values[i][k % 4]};
            }
            suggest_after(space, points, outcomes, N);
            for (int k = 0; k < N; k++) /* nothing but pruned trials */
                outcomes[k].kind = SWP_PRUNED;
            suggest_after(space, points, outcomes, N);
        }
    swp_space_free(space);
}

/* Beyond the bound: the best half of it, and the newest of the others. */
static void many_rows_are_too_many(void **state)
{
    (void)state;
    enum { MANY = MT_SWEEP_GP_ROWS_MAX + 200 };
    struct swp_space    *space = cube(1, 0, 1);
    struct swp_sampler  *s = sampler_of((struct swp_sampler_opts){0}, space, 1);
    const struct swp_gp *m = s->model;
    struct swp_point     p = {{0}};
    bool                 has_best = false, has_newest = false, has_middle = false;
    for (int k = 0; k < MANY; k++) { /* the older the better */
        p.values[0] = (k + 0.5) / MANY;
        struct swp_outcome outcome = {.kind = SWP_COMPLETE, .value = p.values[0]};
        assert_ok(swp_sampler_know(s, &p, &outcome));
    }
    assert_ok(swp_sampler_suggest(s, 0, &p));
    assert_int_equal(m->observed, MT_SWEEP_GP_ROWS_MAX);
    for (size_t i = 0; i < m->observed; i++) {
        double k = m->columns[0][i] * MANY - 0.5;
        has_best |= fabs(k) < 0.1;
        has_newest |= fabs(k - (MANY - 1)) < 0.1;
        has_middle |= fabs(k - MT_SWEEP_GP_ROWS_MAX / 2) < 0.1;
    }
    assert_true(has_best && has_newest && !has_middle);
    assert_true(m->best_row == 0 && p.values[0] < 0.1);
    swp_sampler_free(s);
    swp_space_free(space);
}

/* The liar: suggestions in a row are different places; without it nothing has changed, and they are nearly one. */
static void running_trials_are_kept_apart(void **state)
{
    (void)state;
    struct swp_space *space = cube(2, -1, 1);
    double            mean[2] = {0}, least = INFINITY;
    for (int no_liar = 0; no_liar < 2; no_liar++) {
        struct swp_sampler *s = sampler_of((struct swp_sampler_opts){.no_liar = no_liar}, space, 4);
        struct swp_point    p[18];
        for (uint64_t t = 0; t < 18; t++) {
            assert_ok(swp_sampler_suggest(s, t, &p[t]));
            double             value = cos(5 * p[t].values[0]) + cos(7 * p[t].values[1]);
            struct swp_outcome outcome = {.kind = SWP_COMPLETE, .value = value};
            if (t < 12)
                assert_ok(swp_sampler_tell(s, t, &outcome));
        }
        for (int i = 12; i < 18; i++)
            for (int k = 12; k < i; k++) {
                double apart = hypot(p[i].values[0] - p[k].values[0], p[i].values[1] - p[k].values[1]);
                mean[no_liar] += apart / 15;
                least = no_liar ? least : fmin(least, apart);
            }
        swp_sampler_free(s);
    }
    assert_true(least > 0 && mean[0] > 5 * mean[1]);
    swp_space_free(space);
}

/* ---- finding ---- */

static double best_of(const struct swp_space *space, enum swp_sampler_kind kind, double (*loss)(const struct swp_point *p),
                      uint64_t trials, uint64_t seed)
{
    struct swp_sampler_opts opts = {.kind = kind};
    struct swp_problem      problem = {{0}, {0}};
    struct swp_sampler     *s;
    struct swp_point        p;
    double                  best = INFINITY;
    assert_ok(swp_sampler_new(&opts, space, seed, &s, &problem));
    for (uint64_t t = 0; t < trials; t++) {
        assert_ok(swp_sampler_suggest(s, t, &p));
        if (swp_point_check(space, &p, &problem).code != 0)
            fail_msg("trial %u: %s", (unsigned)t, problem.text);
        struct swp_outcome outcome = {.kind = SWP_COMPLETE, .value = loss(&p)};
        assert_ok(swp_sampler_tell(s, t, &outcome));
        best = fmin(best, outcome.value);
    }
    swp_sampler_free(s);
    return best;
}

static void it_finds_the_bottom_of_a_mixed_space(void **state)
{
    (void)state;
    struct swp_space *space = mixed_space();
    double            random = 0, gp = 0;
    for (uint64_t seed = 0; seed < 3; seed++) {
        random += best_of(space, SWP_SAMPLER_RANDOM, mixed_loss, 50, seed);
        gp += best_of(space, SWP_SAMPLER_GP, mixed_loss, 50, seed);
    }
    assert_true(gp / 3 < 0.06 && gp < 0.3 * random); /* the bottom: 0.02 */
    swp_space_free(space);
}

/* A branch each for two optimisers; only one's parameter gets to the bottom. */
static double branched_loss(const struct swp_point *p)
{
    bool is_adam = p->values[0] == 1;
    return is_adam ? fabs(p->values[2] - 0.3) : 0.5 + fabs(p->values[1] - 0.7);
}

static void branches_are_learnt(void **state)
{
    (void)state;
    struct swp_space *space = SPACE_OF({.name = "opt", .kind = SWP_CATEGORICAL, CHOICES(TEXT("sgd"), TEXT("adam"))},
                                       {.name = "momentum", .kind = SWP_UNIFORM, .high = 1, WHEN("opt", TEXT("sgd"))},
                                       {.name = "beta", .kind = SWP_UNIFORM, .high = 1, WHEN("opt", TEXT("adam"))},
                                       {.name = "far", .kind = SWP_INT, .low = 0, .high = 1e6, WHEN("opt", TEXT("sgd"))}, );
    for (uint64_t seed = 0; seed < 3; seed++)
        assert_true(best_of(space, SWP_SAMPLER_GP, branched_loss, 40, seed) < 0.01);
    swp_space_free(space);
}

static double distance_to_one(const struct swp_point *p)
{
    return hypot(p->values[0] - 1, p->values[1] - 1);
}

/* The bottom lies where the constraint forbids it; the nearest allowed point is on the line. */
static void constraints_hold_at_the_bottom(void **state)
{
    (void)state;
    static const struct swp_term       terms[] = {{"x0", 1}, {"x1", 1}};
    static const struct swp_constraint constraint = {terms, 2, 1};
    const struct swp_param             params[] = {{.name = "x0", .kind = SWP_UNIFORM, .high = 1},
                                                   {.name = "x1", .kind = SWP_UNIFORM, .high = 1}};
    struct swp_space_def def = {.params = params, .param_count = 2, .constraints = &constraint, .constraint_count = 1};
    struct swp_problem   problem = {{0}, {0}};
    struct swp_space    *space;
    assert_ok(swp_space_new(&def, &space, &problem));
    for (uint64_t seed = 0; seed < 3; seed++)
        assert_true(best_of(space, SWP_SAMPLER_GP, distance_to_one, 40, seed) < sqrt(0.5) + 0.02);
    swp_space_free(space);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(likelihood_and_priors_are_optunas),
        cmocka_unit_test(the_kernel_is_as_likely_as_optunas),
        cmocka_unit_test(expected_improvement_is_optunas),
        cmocka_unit_test(no_value_beside_a_suggestion_promises_more),
        cmocka_unit_test(improvement_is_exact_far_from_the_best),
        cmocka_unit_test(all_builds_of_the_loops_have_the_same_bits),
        cmocka_unit_test(the_least_value_is_found_between_bounds),
        cmocka_unit_test(odd_numbers_do_no_harm),
        cmocka_unit_test(many_rows_are_too_many),
        cmocka_unit_test(running_trials_are_kept_apart),
        cmocka_unit_test(it_finds_the_bottom_of_a_mixed_space),
        cmocka_unit_test(branches_are_learnt),
        cmocka_unit_test(constraints_hold_at_the_bottom),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
