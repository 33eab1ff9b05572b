/* SPDX-License-Identifier: Apache-2.0
 *
 * optimizer_test.c - updates and rates, step by step, against the formulas of the papers written down once
 * more, in double: AdamW (Loshchilov, Hutter 2019, algorithm 2), SGD with momentum as torch has it, warm-up
 * and the three schedules.
 */
#include "sgd/model/optimizer.h"

#include <stdarg.h>
#include <stddef.h>
#include <setjmp.h>
#include <cmocka.h>
#include <math.h>
#include <string.h>

enum { COUNT = 3, STEPS = 40 };

static const struct k_ops *kernels(void)
{
    const struct k_ops *ops = NULL;
    assert_int_equal(k_ops_choose(&(struct k_config){0}, &ops).code, MT_OK);
    return ops;
}

static struct sgd_optimizer resolved(struct sgd_optimizer o)
{
    assert_int_equal(sgd_optimizer_resolve(&o).code, MT_OK);
    return o;
}

/* Small at first and larger later, of both signs: a step that is counted wrongly has another mean. */
static double gradient_of(int step, int i)
{
    return (step % 3 == 0 ? -1.0 : 1.0) * (i + 1) * (step + 1) / 8.0;
}

static void check_close(float got, double want, int step)
{
    if (!(fabs((double)got - want) <= 2e-6 * fmax(1.0, fabs(want))))
        fail_msg("step %d: %.9g instead of %.9g", step, (double)got, want);
}

static void adamw_is_the_formula(void **state)
{
    const struct sgd_optimizer o = resolved(
        (struct sgd_optimizer){.kind = SGD_ADAMW, .beta1 = 0.8f, .beta2 = 0.95f, .decay = 0.1f});
    const double beta1 = 0.8, beta2 = 0.95, rate = 0.01, epsilon = 1e-8, decay = 0.1;
    float        params[COUNT] = {0.5f, -1.0f, 2.0f}, mean[COUNT] = {0}, square[COUNT] = {0}, gradient[COUNT];
    double       want[COUNT] = {0.5, -1.0, 2.0}, m[COUNT] = {0}, v[COUNT] = {0};
    float *const moments[SGD_MOMENTS_MAX] = {mean, square};
    (void)state;
    for (int t = 1; t <= STEPS; t++) { /* the paper's t: 1 in the first step, after which t - 1 are completed */
        for (int i = 0; i < COUNT; i++)
            gradient[i] = (float)gradient_of(t - 1, i);
        assert_int_equal(sgd_optimizer_update(&o, kernels(), 0.01f, (uint64_t)(t - 1), gradient, COUNT, params, moments).code,
                         MT_OK);
        for (int i = 0; i < COUNT; i++) {
            double g = gradient_of(t - 1, i);
            m[i] = beta1 * m[i] + (1 - beta1) * g;
            v[i] = beta2 * v[i] + (1 - beta2) * g * g;
            double mean_hat = m[i] / (1 - pow(beta1, t)), square_hat = v[i] / (1 - pow(beta2, t));
            want[i] -= rate * (mean_hat / (sqrt(square_hat) + epsilon) + decay * want[i]);
            check_close(params[i], want[i], t);
        }
    }
}

static void momentum_is_the_formula(void **state)
{
    const struct sgd_optimizer o = resolved((struct sgd_optimizer){.kind = SGD_MOMENTUM, .momentum = 0.7f, .decay = 0.01f});
    float                      params[COUNT] = {0.5f, -1.0f, 2.0f}, velocity[COUNT] = {0}, gradient[COUNT];
    double                     want[COUNT] = {0.5, -1.0, 2.0}, v[COUNT] = {0};
    float *const               moments[SGD_MOMENTS_MAX] = {velocity};
    (void)state;
    for (int step = 0; step < STEPS; step++) {
        for (int i = 0; i < COUNT; i++)
            gradient[i] = (float)gradient_of(step, i);
        assert_int_equal(sgd_optimizer_update(&o, kernels(), 0.05f, (uint64_t)step, gradient, COUNT, params, moments).code, MT_OK);
        for (int i = 0; i < COUNT; i++) {
            v[i] = 0.7 * v[i] + gradient_of(step, i) + 0.01 * want[i];
            want[i] -= 0.05 * v[i];
            check_close(params[i], want[i], step);
        }
    }
}

/* Of `warmup` steps the first has a share of 1 / warmup of the rate, the last all of it; the schedule begins
 * behind them. */
static void rates_are_the_formula(void **state)
{
    enum { WARMUP = 8, TOTAL = 48, EPOCH = 10 };
    struct sgd_optimizer o = resolved((struct sgd_optimizer){.rate = 0.4f, .warmup = WARMUP, .step_gamma = 0.5f, .step_epochs = 2});
    (void)state;
    for (uint32_t schedule = SGD_COSINE; schedule <= SGD_STEP; schedule++) {
        o.schedule = schedule;
        for (int step = 0; step < WARMUP; step++)
            check_close(sgd_optimizer_rate(&o, (uint64_t)step, TOTAL, EPOCH), 0.4 * (step + 1) / WARMUP, step);
        for (int step = WARMUP; step < TOTAL; step++) {
            double cosine = 0.2 * (1 + cos(acos(-1.0) * (step - WARMUP) / (TOTAL - WARMUP)));
            double want = schedule == SGD_CONSTANT ? 0.4 : schedule == SGD_COSINE ? cosine : 0.4 * pow(0.5, step / (2 * EPOCH));
            check_close(sgd_optimizer_rate(&o, (uint64_t)step, TOTAL, EPOCH), want, step);
        }
    }
    o.schedule = SGD_COSINE;
    assert_true(sgd_optimizer_rate(&o, TOTAL, TOTAL, EPOCH) == 0.0f);
    assert_true(sgd_optimizer_rate(&o, WARMUP, WARMUP, EPOCH) == 0.0f); /* a run that is warm-up and nothing else */
    o.warmup = 0;
    assert_true(sgd_optimizer_rate(&o, 0, TOTAL, EPOCH) == 0.4f);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(adamw_is_the_formula),
        cmocka_unit_test(momentum_is_the_formula),
        cmocka_unit_test(rates_are_the_formula),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
