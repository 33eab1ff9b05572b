/* SPDX-License-Identifier: Apache-2.0
 *
 * model_test.c - the perceptron's gradient against differences, its table of parameters, and what it refuses.
 */
#include "sgd/model/mlp.h"

#include "core/base/rng.h"

#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

enum { INPUTS = 9, CLASSES = 4, RECORDS = 6 };

static struct sgd_model *small_model(enum k_kind kind)
{
    struct k_config       kernels = {.kind = kind};
    struct sgd_mlp_config config = {.inputs = INPUTS, .outputs = CLASSES, .hidden = {7, 5}, .batch_max = RECORDS};
    struct sgd_model     *model = NULL;
    assert_int_equal(k_ops_choose(&kernels, &config.ops).code, MT_OK);
    assert_int_equal(sgd_mlp_new(&config, &model).code, MT_OK);
    return model;
}

static struct sgd_batch small_batch(uint8_t *records, uint8_t *labels)
{
    mt_rng rng = {11};
    for (int i = 0; i < RECORDS * INPUTS; i++)
        records[i] = (uint8_t)mt_rng_next(&rng);
    for (int i = 0; i < RECORDS; i++)
        labels[i] = (uint8_t)mt_rng_below(&rng, CLASSES);
    return (struct sgd_batch){.records = records, .labels = labels, .count = RECORDS, .record_size = INPUTS};
}

static double loss_at(struct sgd_model *model, const float *params, const struct sgd_batch *batch)
{
    float metrics[SGD_METRICS];
    assert_int_equal(model->ops->evaluate(model, params, batch, metrics).code, MT_OK);
    return (double)metrics[SGD_METRIC_LOSS];
}

static void the_gradient_is_that_of_the_loss(void **state)
{
    uint8_t          records[RECORDS * INPUTS], labels[RECORDS];
    struct sgd_batch batch = small_batch(records, labels);
    (void)state;
    for (int kind = 0; kind < 2; kind++) {
        struct sgd_model *model = small_model(kind ? K_REFERENCE : K_CPU);
        size_t            n = model->params.floats;
        float            *params = malloc(n * sizeof *params), *grads = malloc(n * sizeof *grads), metrics[SGD_METRICS];
        assert_true(params && grads);
        memset(grads, 0xff, n * sizeof *grads); /* set, not added to */
        model->ops->init(model, 5, params);
        assert_int_equal(model->ops->gradient(model, params, &batch, 0.5f, grads, metrics).code, MT_OK);
        assert_true(metrics[SGD_METRIC_SAMPLES] == RECORDS);
        for (size_t i = 0; i < n; i++) {
            float keep = params[i], step = 1e-3f;
            params[i] = keep + step;
            double up = loss_at(model, params, &batch);
            params[i] = keep - step;
            double down = loss_at(model, params, &batch);
            params[i] = keep;
            double want = 0.5 * (up - down) / (2 * (double)step);
            /* A ReLU between the two points bends the line; 2e-2 still catches any wrong index or missing
             * term. */
            if (fabs(want - (double)grads[i]) > 2e-2 * (1 + fabs(want)))
                fail_msg("gradient %zu: want %g, got %g", i, want, (double)grads[i]);
        }
        free(params), free(grads);
        model->ops->free(model);
    }
}

static void parameters_are_named_and_shaped(void **state)
{
    struct sgd_model       *model = small_model(K_CPU);
    const struct sgd_param *items = model->params.items;
    (void)state;
    assert_int_equal(model->params.items_count, 6);
    assert_string_equal(items[0].name, "layers.0.weight");
    assert_int_equal(items[0].shape[0], 7);
    assert_int_equal(items[0].shape[1], INPUTS);
    assert_string_equal(items[5].name, "layers.2.bias");
    assert_int_equal(items[5].shape[0], CLASSES);
    size_t next = 0;
    for (size_t i = 0; i < 6; i++) {
        assert_int_equal(items[i].offset, next);
        next += items[i].count;
    }
    assert_int_equal(model->params.floats, next);
    model->ops->free(model);
}

static void initial_values_follow_the_seed(void **state)
{
    struct sgd_model *model = small_model(K_CPU);
    size_t            size = model->params.floats * sizeof(float);
    float            *a = malloc(size), *b = malloc(size);
    (void)state;
    assert_true(a && b);
    model->ops->init(model, 1, a);
    model->ops->init(model, 1, b);
    assert_memory_equal(a, b, size);
    model->ops->init(model, 2, b);
    assert_memory_not_equal(a, b, size);
    free(a), free(b);
    model->ops->free(model);
}

static void what_does_not_fit_is_refused(void **state)
{
    uint8_t           records[RECORDS * INPUTS], labels[RECORDS];
    struct sgd_batch  good = small_batch(records, labels), bad;
    struct sgd_model *model = small_model(K_CPU);
    float            *params = calloc(model->params.floats, sizeof *params), metrics[SGD_METRICS];
    (void)state;
    assert_non_null(params);
    bad = good, bad.count = 0;
    assert_int_equal(model->ops->evaluate(model, params, &bad, metrics).code, MT_EINVAL);
    bad = good, bad.count = RECORDS + 1;
    assert_int_equal(model->ops->evaluate(model, params, &bad, metrics).code, MT_EINVAL);
    bad = good, bad.record_size = INPUTS + 1;
    assert_int_equal(model->ops->evaluate(model, params, &bad, metrics).code, MT_EINVAL);
    labels[RECORDS - 1] = CLASSES;
    assert_int_equal(model->ops->evaluate(model, params, &good, metrics).code, MT_EINVAL);
    free(params);
    model->ops->free(model);

    struct k_config       kernels = {.kind = K_CPU};
    struct sgd_mlp_config config = {.outputs = 257, .batch_max = 1}, empty = {.batch_max = 0};
    assert_int_equal(k_ops_choose(&kernels, &config.ops).code, MT_OK);
    empty.ops = config.ops;
    assert_int_equal(sgd_mlp_new(&config, &model).code, MT_EINVAL);
    assert_int_equal(sgd_mlp_new(&empty, &model).code, MT_EINVAL);
}

/* The same numbers as bytes, floats and large whole numbers give the same network; a cast that nobody knows gives none. */
static void elements_of_any_type_are_taken(void **state)
{
    uint8_t          records[RECORDS * INPUTS], labels[RECORDS];
    int64_t          large[RECORDS * INPUTS];
    float            floats[RECORDS * INPUTS], params[4096], of_bytes[4096], of_others[4096], metrics[SGD_METRICS];
    struct k_config  kernels = {.kind = K_CPU};
    struct sgd_batch batch = small_batch(records, labels);
    struct sgd_cast  casts[] = {{{0, 0}, 128, 64}, {{'f', 4}, 128, 64}, {{'i', 8}, 128e6, 64e6}};
    const void      *bytes[] = {records, floats, large};
    (void)state;
    for (int i = 0; i < RECORDS * INPUTS; i++)
        floats[i] = records[i], large[i] = records[i] * INT64_C(1000000);
    for (int i = 0; i < 3; i++) {
        struct sgd_mlp_config config = {
            .inputs = INPUTS, .outputs = CLASSES, .hidden = {7}, .batch_max = RECORDS, .cast = casts[i]};
        struct sgd_model *model;
        assert_int_equal(k_ops_choose(&kernels, &config.ops).code, MT_OK);
        assert_int_equal(sgd_mlp_new(&config, &model).code, MT_OK);
        assert_true(model->params.floats <= 4096);
        model->ops->init(model, 5, params);
        batch.records = bytes[i];
        batch.record_size = model->record_size;
        assert_int_equal(model->ops->gradient(model, params, &batch, 1, i ? of_others : of_bytes, metrics).code, MT_OK);
        for (size_t g = 0; i && g < model->params.floats; g++)
            assert_true(fabsf(of_others[g] - of_bytes[g]) <= 1e-5f * (1 + fabsf(of_bytes[g])));
        model->ops->free(model);
        config.cast.element = (struct sgd_element){'f', 2};
        assert_int_equal(sgd_mlp_new(&config, &model).code, MT_EINVAL);
    }
}

static void bad_parameters_are_refused(void **state)
{
    struct sgd_params params = {0};
    uint64_t          shape[2] = {2, 3}, empty[1] = {0}, large[2] = {UINT64_C(1) << 40, UINT64_C(1) << 40};
    char              long_name[MT_NAME_BYTES_MAX + 1];
    size_t            offset;
    (void)state;
    memset(long_name, 'x', MT_NAME_BYTES_MAX), long_name[MT_NAME_BYTES_MAX] = '\0';
    assert_int_equal(sgd_params_add(&params, "w", 2, shape, &offset).code, MT_OK);
    assert_int_equal(sgd_params_add(&params, "w", 2, shape, &offset).code, MT_EEXIST);
    assert_int_equal(sgd_params_add(&params, "", 2, shape, &offset).code, MT_EINVAL);
    assert_int_equal(sgd_params_add(&params, "a\"b", 2, shape, &offset).code, MT_EINVAL);
    assert_int_equal(sgd_params_add(&params, "__metadata__", 2, shape, &offset).code, MT_EINVAL);
    assert_int_equal(sgd_params_add(&params, long_name, 2, shape, &offset).code, MT_EINVAL);
    assert_int_equal(sgd_params_add(&params, "e", 1, empty, &offset).code, MT_EINVAL);
    assert_int_equal(sgd_params_add(&params, "l", 2, large, &offset).code, MT_EINVAL);
    assert_int_equal(sgd_params_add(&params, "d", MT_TENSOR_DIMS_MAX + 1, shape, &offset).code, MT_EINVAL);
    assert_int_equal(sgd_params_add(&params, "scalar", 0, NULL, &offset).code, MT_OK);
    assert_int_equal(offset, 6);
    assert_int_equal(params.floats, 7);
    sgd_params_fini(&params);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_gradient_is_that_of_the_loss), cmocka_unit_test(elements_of_any_type_are_taken),
        cmocka_unit_test(parameters_are_named_and_shaped),  cmocka_unit_test(initial_values_follow_the_seed),
        cmocka_unit_test(what_does_not_fit_is_refused),     cmocka_unit_test(bad_parameters_are_refused),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
