/* SPDX-License-Identifier: Apache-2.0
 *
 * cmaes_test.c - CMA-ES against its definition: three generations beside those of the cmaes package 0.13.1 (CMA(mean 0.5, sigma
 * 1/6, bounds 0 and 1) told the same points), eigenvalues, generations with stragglers; and that it finds a minimum.
 */
#include "tests/unit/sweep/test.h"

#include "sweep/sample/cmaes.h"
#include "sweep/math/linalg.h"

static struct swp_sampler *sampler_of(const struct swp_space *space, uint64_t seed)
{
    struct swp_sampler_opts opts = {.kind = SWP_SAMPLER_CMAES};
    struct swp_problem      problem;
    struct swp_sampler     *s;
    assert_ok(swp_sampler_new(&opts, space, seed, &s, &problem));
    return s;
}

static struct swp_point point_of(int k)
{
    return (struct swp_point){
        {0.05 + 0.9 * ((k * 37 + 11) % 101) / 101, 0.05 + 0.9 * ((k * 53 + 7) % 97) / 97, 0.05 + 0.9 * ((k * 71 + 3) % 89) / 89}};
}

static struct swp_outcome outcome_of(const struct swp_point *p)
{
    const double *v = p->values;
    double        value = (v[0] - 0.3) * (v[0] - 0.3) + 2 * (v[1] - 0.6) * (v[1] - 0.6) + v[0] * v[2];
    return (struct swp_outcome){.kind = SWP_COMPLETE, .value = value};
}

static void tell(struct swp_sampler *s, uint64_t trial, struct swp_point p)
{
    struct swp_outcome outcome = outcome_of(&p);
    assert_ok(swp_sampler_restore(s, trial, &p));
    assert_ok(swp_sampler_tell(s, trial, &outcome));
}

#define CLOSE(a, b) assert_true(fabs((a) - (b)) < 1e-12)

static void generations_are_those_of_the_tutorial(void **state)
{
    (void)state;
    static const double mean[3] = {0.259572691733045, 0.579229603922843, 0.206939727980426};
    static const double c[9] = {1.06460081122415,   -0.182062469076281,  -0.0835806061519479, -0.182062469076281, 0.752670565436571,
                                0.0311690016073633, -0.0835806061519478, 0.0311690016073633,  1.52242561431562};
    static const double p_c[3] = {-0.746241322144312, 0.486608014455021, -1.74658633470014};
    static const double p_sigma[3] = {-0.962900331957356, 0.546033302341014, -1.66435636066136};
    struct swp_space   *space = cube(3, 0, 1);
    struct swp_sampler *s = sampler_of(space, 1);
    const struct swp_cmaes *m = s->model;
    assert_int_equal(m->population, 7);
    tell(s, 100, point_of(50)); /* the random trial at the start: of no generation */
    for (int k = 0; k < 21; k++)
        tell(s, (uint64_t)k, point_of(k));
    assert_int_equal(m->generation, 3);
    CLOSE(m->sigma, 0.185259269143311);
    for (int i = 0; i < 3; i++) {
        CLOSE(m->mean[i], mean[i]);
        CLOSE(m->p_c[i], p_c[i]);
        CLOSE(m->p_sigma[i], p_sigma[i]);
    }
    for (int i = 0; i < 9; i++)
        CLOSE(m->c[i], c[i]);
    swp_sampler_free(s);
    swp_space_free(space);
}

static void stragglers_and_failures_move_nothing(void **state)
{
    (void)state;
    struct swp_space       *space = cube(3, 0, 1);
    struct swp_sampler     *s = sampler_of(space, 1);
    const struct swp_cmaes *m = s->model;
    struct swp_outcome      pruned = {.kind = SWP_PRUNED, .value = -1, .step = 1}, failed = {.kind = SWP_FAILED};
    struct swp_point        late = point_of(30), p;
    tell(s, 100, point_of(50));
    for (uint64_t t = 200; t < 203; t++)
        assert_ok(swp_sampler_restore(s, t, &late)); /* of the first generation */
    assert_ok(swp_sampler_tell(s, 200, &pruned));
    assert_ok(swp_sampler_tell(s, 201, &failed));
    for (int k = 0; k < 7; k++)
        tell(s, (uint64_t)k, point_of(k));
    assert_int_equal(m->generation, 1);
    struct swp_outcome outcome = outcome_of(&late);
    assert_ok(swp_sampler_tell(s, 202, &outcome));
    assert_int_equal(m->told_count, 0);
    for (uint64_t t = 300; t < 330; t++)
        assert_ok(swp_sampler_suggest(s, t, &p)); /* more at a time than a generation has */
    swp_sampler_free(s);
    swp_space_free(space);
}

static void known_results_set_the_first_mean(void **state)
{
    (void)state;
    struct swp_space       *space = cube(3, 0, 1);
    struct swp_sampler     *s = sampler_of(space, 1);
    const struct swp_cmaes *m = s->model;
    struct swp_point        good = {{0.2, 0.6, 0.1}}, bad = {{0.9, 0.9, 0.9}};
    struct swp_outcome      outcomes[2] = {outcome_of(&good), outcome_of(&bad)};
    assert_ok(swp_sampler_know(s, &good, &outcomes[0]));
    assert_ok(swp_sampler_know(s, &bad, &outcomes[1]));
    assert_true(m->mean[0] == 0.2 && m->mean[1] == 0.6 && m->mean[2] == 0.1);
    swp_sampler_free(s);
    swp_space_free(space);
}

static void eigenvectors_make_the_matrix_again(void **state)
{
    (void)state;
    enum { N = 20 };
    static double a[N * N], kept[N * N], b[N * N], values[N];
    mt_rng        rng = {9};
    for (int i = 0; i < N; i++)
        for (int j = 0; j <= i; j++)
            kept[i * N + j] = kept[j * N + i] = swp_rng_normal(&rng);
    memcpy(a, kept, sizeof a);
    swp_eigen(a, N, b, values);
    for (int i = 0; i < N; i++)
        for (int j = 0; j < N; j++) {
            double sum = 0, dot = 0;
            for (int k = 0; k < N; k++) {
                sum += b[i * N + k] * values[k] * b[j * N + k];
                dot += b[i * N + k] * b[j * N + k];
            }
            assert_true(fabs(sum - kept[i * N + j]) < 1e-12 && fabs(dot - (i == j)) < 1e-13);
        }
}

static void it_finds_the_bottom_of_a_valley(void **state)
{
    (void)state;
    struct swp_space *space = cube(4, -5, 5);
    for (uint64_t seed = 0; seed < 3; seed++) {
        struct swp_sampler *s = sampler_of(space, seed);
        double              best = INFINITY;
        for (uint64_t t = 0; t < 600; t++) {
            struct swp_point p;
            assert_ok(swp_sampler_suggest(s, t, &p));
            double value = 0; /* an ellipsoid turned by 45 degrees, its axes 1 : 10 */
            for (int i = 0; i < 4; i += 2) {
                double u = p.values[i] + p.values[i + 1] - 3, v = p.values[i] - p.values[i + 1];
                value += u * u + 100 * v * v;
            }
            struct swp_outcome outcome = {.kind = SWP_COMPLETE, .value = value};
            assert_ok(swp_sampler_tell(s, t, &outcome));
            best = fmin(best, value);
        }
        assert_true(best < 1e-3);
        swp_sampler_free(s);
    }
    swp_space_free(space);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(generations_are_those_of_the_tutorial), cmocka_unit_test(stragglers_and_failures_move_nothing),
        cmocka_unit_test(known_results_set_the_first_mean),      cmocka_unit_test(eigenvectors_make_the_matrix_again),
        cmocka_unit_test(it_finds_the_bottom_of_a_valley),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
