/* SPDX-License-Identifier: Apache-2.0
 *
 * tpe_test.c - TPE against its definition: the scores of Optuna 5.0.0's Parzen estimators on the same observations, the exact
 * normal distribution for the loops, which rows are good, constant liar; and that it finds a minimum.
 *
 * The numbers were printed by _ParzenEstimator(observations, space, _ParzenEstimatorParameters(1.0, True, False, default_weights,
 * True)).log_pdf(), good minus rest, for the observations of values_of below, with numpy.argsort made a stable sort: which of two
 * equal values has the wider kernel depends on it.
 */
#include "tests/unit/sweep/test.h"

#include "sweep/math/normal.h"
#include "sweep/sample/tpe/tpe.h"

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

static double result_of(int k)
{
    return k * 53 % 101 / 7.0;
}

static struct swp_sampler *told(const struct swp_space *space, struct swp_sampler_opts opts, int rows)
{
    struct swp_problem  problem;
    struct swp_sampler *s;
    opts.kind = SWP_SAMPLER_TPE;
    assert_ok(swp_sampler_new(&opts, space, 1, &s, &problem));
    for (int k = 0; k < rows; k++) {
        struct swp_point   p = values_of(k);
        struct swp_outcome outcome = {.kind = SWP_COMPLETE, .value = opts.maximize ? -result_of(k) : result_of(k)};
        assert_ok(swp_sampler_know(s, &p, &outcome));
    }
    return s;
}

static const int asked[3] = {1000, 1003, 1017};
#define CLOSE(a, b) assert_true(fabs((a) - (b)) < 1e-5)

static void joint_scores_are_optunas(void **state)
{
    (void)state;
    static const double wanted[2][3] = {{1.26334321596, -2.81102633717, 0.616436838153},
                                        {1.60186174168, -2.22096588473, -0.964189809902}};
    struct swp_space   *space = mixed_space();
    for (int i = 0; i < 2; i++) {
        struct swp_sampler *s = told(space, (struct swp_sampler_opts){.maximize = i}, i ? 15 : 11);
        for (int k = 0; k < 3; k++) {
            struct swp_point p = values_of(asked[k]);
            CLOSE(swp_tpe_joint_score(s, &p), wanted[i][k]);
        }
        swp_sampler_free(s);
    }
    swp_space_free(space);
}

/* (Beyond 25 rows of a set the weights of equal values depend on how numpy sorts them.) */
static void scores_of_one_axis_are_optunas(void **state)
{
    (void)state;
    static const double wanted[2][6][3] = {{{0.265935557723, 0.101222614408, -0.206862192552},
                                            {-0.991024944389, -1.01652842818, -0.50997076749},
                                            {0.442645214402, -1.12138692646, 0.547028578707},
                                            {-0.159896231714, -0.0548457045162, 0.311481223377},
                                            {0.289646405445, -1.05480217447, -0.891474231754},
                                            {-0.613104472886, -0.613104472886, 0.131336002061}},
                                           {{0.1252879115, -0.478987501976, -0.272801188803},
                                            {-1.41584491518, -1.24258369337, -0.689944000755},
                                            {0.218864534054, -0.506774302452, 0.429770363083},
                                            {-0.168279313114, 0.0414145251042, 0.0356530093651},
                                            {0.683386122084, -0.476622198411, -1.0219568721},
                                            {-0.661398482245, -0.661398482245, 0.0594234204708}}};
    struct swp_space   *space = mixed_space();
    for (int i = 0; i < 2; i++) {
        struct swp_sampler *s = told(space, (struct swp_sampler_opts){.independent = true}, i ? 27 : 11);
        for (uint32_t axis = 0; axis < 6; axis++)
            for (int k = 0; k < 3; k++)
                CLOSE(swp_tpe_axis_score(s, axis, values_of(asked[k]).values[axis]), wanted[i][axis][k]);
        swp_sampler_free(s);
    }
    swp_space_free(space);
}

/* ---- loops ---- */

enum { N = 64 };

static void loops_agree_with_the_exact_functions(void **state)
{
    (void)state;
    const struct swp_tpe_loops *loops = swp_tpe_loops_best();
    double                      x[N], inv[N], weight[N], kept[N];
    mt_rng                      rng = {3};
    for (int i = 0; i < N; i++) {
        x[i] = swp_rng_real(&rng);
        inv[i] = 1 + 100 * swp_rng_real(&rng);
        weight[i] = kept[i] = swp_rng_real(&rng);
    }
    loops->cut(x, inv, weight, N);
    for (int i = 0; i < N; i++) {
        double mass = swp_normal_below((1 - x[i]) * inv[i]) - swp_normal_below(-x[i] * inv[i]);
        assert_true(fabs(weight[i] / (kept[i] / mass) - 1) < 1e-6);
    }
    for (double h = 1e-6; h < 0.3; h *= 3) {
        memcpy(weight, kept, sizeof kept);
        loops->step(x, inv, 0.4, 0.4 + h, weight, N);
        for (int i = 0; i < N; i++) {
            double below = swp_normal_below((0.4 - x[i]) * inv[i]);
            double exact = kept[i] * (swp_normal_below((0.4 + h - x[i]) * inv[i]) - below);
            assert_true(fabs(weight[i] - exact) < 1e-5 * exact + (h * inv[i] < 0.1 ? 1e-15 : 3e-7));
        }
    }
    double        linear[N], square[N], rest[N] = {0}, sum = 0, sum_one = 0;
    const double *columns[2] = {linear, square}, at[2] = {0.3, -0.5 * 0.3 * 0.3};
    memcpy(weight, kept, sizeof kept);
    loops->part(x, inv, linear, square, rest, weight, N);
    for (int i = 0; i < N; i++) {
        double each = exp(-0.5 * (x[i] - 0.3) * (x[i] - 0.3) * inv[i] * inv[i]);
        sum += kept[i] * each * inv[i] / sqrt(2 * 3.14159265358979323846);
        sum_one += kept[i] * each;
    }
    assert_true(fabs(loops->mix(columns, rest, at, 2, weight, N) / sum - 1) < 1e-9);
    assert_true(fabs(loops->mix_one(x, inv, 0.3, kept, N) / sum_one - 1) < 1e-9);
}

static void all_builds_of_the_loops_have_the_same_bits(void **state)
{
    (void)state;
    const struct swp_tpe_loops *loops[3] = {&swp_tpe_loops_plain};
    double                      results[3][4 * N + 2], x[N], inv[N], at = 0.37;
    uint32_t                    count = 1;
#if defined(__x86_64__)
    if (__builtin_cpu_supports("avx2"))
        loops[count++] = &swp_tpe_loops_avx2;
    if (__builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512dq"))
        loops[count++] = &swp_tpe_loops_avx512;
#endif
    for (uint32_t k = 0; k < count; k++) {
        mt_rng rng = {4};
        for (int i = 0; i < N; i++) {
            x[i] = swp_rng_real(&rng);
            inv[i] = 1 + 100 * swp_rng_real(&rng);
            results[k][i] = swp_rng_real(&rng);
        }
        loops[k]->cut(x, inv, results[k], N);
        loops[k]->step(x, inv, 0.3, 0.31, results[k], N);
        memset(results[k] + N + 2, 0, 3 * N * sizeof(double));
        double *linear = results[k] + N + 2, *square = linear + N, *rest = square + N;
        loops[k]->part(x, inv, linear, square, rest, results[k], N);
        results[k][N] = loops[k]->mix((const double *const[]){linear}, rest, &at, 1, inv, N);
        results[k][N + 1] = loops[k]->mix_one(x, inv, at, results[k], N);
        assert_memory_equal(results[k], results[0], sizeof results[0]);
    }
}

/* ---- rows ---- */

static void good_rows_are_complete_ones_by_value_then_pruned_ones_by_step(void **state)
{
    (void)state;
    static const struct swp_outcome outcomes[] = {
        {SWP_PRUNED, 0.1, 3},         {SWP_COMPLETE, 2, 0},   {SWP_PRUNED, 0.5, 9}, {SWP_COMPLETE, 1, 0},
        {SWP_FAILED, 0, 0},           {SWP_PRUNED, 0.4, 9},   {SWP_COMPLETE, 2, 0}, {SWP_COMPLETE, INFINITY, 0},
        {SWP_COMPLETE, -INFINITY, 0}, {SWP_COMPLETE, NAN, 0},
    };
    static const uint32_t   order[] = {3, 1, 6, 7, 5, 2, 0};
    struct swp_space       *space = cube(1, 0, 1);
    struct swp_sampler_opts opts = {.kind = SWP_SAMPLER_TPE};
    struct swp_problem      problem;
    struct swp_sampler     *s;
    struct swp_point        p;
    assert_ok(swp_sampler_new(&opts, space, 1, &s, &problem));
    for (uint64_t t = 0; t < COUNT(outcomes); t++)
        assert_ok(swp_sampler_suggest(s, t, &p));
    for (uint64_t t = COUNT(outcomes); t-- > 0;) /* told in another order */
        assert_ok(swp_sampler_tell(s, t, &outcomes[t]));
    const struct swp_tpe *m = s->model;
    assert_int_equal(m->best.count, COUNT(order));
    for (unsigned i = 0; i < COUNT(order); i++)
        assert_int_equal(m->best.data[i], order[i]);
    swp_sampler_free(s);
    swp_space_free(space);
}

/* Running trials count as bad ones, so that many suggestions in a row keep their distance from each other. */
static void the_liar_keeps_running_trials_apart(void **state)
{
    (void)state;
    struct swp_space *space = mixed_space();
    struct swp_point  p = values_of(1000), running = values_of(1000);
    double            with[2];
    for (int no_liar = 0; no_liar < 2; no_liar++) {
        struct swp_sampler *s = told(space, (struct swp_sampler_opts){.no_liar = no_liar}, 60);
        double              before = swp_tpe_joint_score(s, &p);
        for (uint64_t t = 0; t < 5; t++)
            assert_ok(swp_sampler_restore(s, t, &running));
        with[no_liar] = swp_tpe_joint_score(s, &p) - before;
        swp_sampler_free(s);
    }
    assert_true(with[0] < -0.1); /* five kernels more in the denominator at this very point */
    assert_true(with[1] == 0);
    swp_space_free(space);
}

static double sphere(const struct swp_point *p, uint32_t dims)
{
    double sum = 0;
    for (uint32_t d = 0; d < dims; d++)
        sum += (p->values[d] - 0.3) * (p->values[d] - 0.3);
    return sum;
}

static double best_of(struct swp_sampler_opts opts, uint32_t dims, uint64_t trials, uint64_t seed)
{
    struct swp_space   *space = cube(dims, -1, 1);
    struct swp_problem  problem;
    struct swp_sampler *s;
    struct swp_point    p;
    double              best = INFINITY;
    assert_ok(swp_sampler_new(&opts, space, seed, &s, &problem));
    for (uint64_t t = 0; t < trials; t++) {
        assert_ok(swp_sampler_suggest(s, t, &p));
        double             value = sphere(&p, dims);
        struct swp_outcome outcome = {.kind = SWP_COMPLETE, .value = opts.maximize ? -value : value};
        assert_ok(swp_sampler_tell(s, t, &outcome));
        best = fmin(best, value);
    }
    swp_sampler_free(s);
    swp_space_free(space);
    return best;
}

static void it_beats_random_search(void **state)
{
    (void)state;
    double random = 0, tpe[4] = {0};
    for (uint64_t seed = 0; seed < 5; seed++) {
        random += best_of((struct swp_sampler_opts){.kind = SWP_SAMPLER_RANDOM}, 5, 150, seed);
        tpe[0] += best_of((struct swp_sampler_opts){.kind = SWP_SAMPLER_TPE}, 5, 150, seed);
        tpe[1] += best_of((struct swp_sampler_opts){.kind = SWP_SAMPLER_TPE, .independent = true}, 5, 150, seed);
        tpe[2] += best_of((struct swp_sampler_opts){.kind = SWP_SAMPLER_TPE, .hyperopt = true}, 5, 150, seed);
        tpe[3] += best_of((struct swp_sampler_opts){.kind = SWP_SAMPLER_TPE, .maximize = true}, 5, 150, seed);
    }
    for (int i = 0; i < 4; i++)
        assert_true(tpe[i] < 0.6 * random);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(joint_scores_are_optunas),
        cmocka_unit_test(scores_of_one_axis_are_optunas),
        cmocka_unit_test(loops_agree_with_the_exact_functions),
        cmocka_unit_test(all_builds_of_the_loops_have_the_same_bits),
        cmocka_unit_test(good_rows_are_complete_ones_by_value_then_pruned_ones_by_step),
        cmocka_unit_test(the_liar_keeps_running_trials_apart),
        cmocka_unit_test(it_beats_random_search),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
