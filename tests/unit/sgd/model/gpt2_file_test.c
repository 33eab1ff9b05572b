/* SPDX-License-Identifier: Apache-2.0
 *
 * gpt2_file_test.c - llm.c's model files: what is saved is read back, byte by byte as llm.c lays it out; damage is found.
 */
#include "sgd/model/gpt2.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cmocka.h>

static const struct sgd_gpt2_shape shape = {.layers = 2, .width = 8, .heads = 2, .context = 5, .vocabulary = 130};
static char                        folder[] = "/tmp/manta-gpt2-XXXXXX", path[64];

static struct sgd_model *model_make(struct sgd_gpt2_shape of)
{
    struct sgd_gpt2_config config = {.shape = of, .batch_max = 1};
    struct sgd_model      *model = NULL;
    assert_int_equal(k_ops_choose(&(struct k_config){.kind = K_CPU}, &config.ops).code, MT_OK);
    assert_int_equal(sgd_gpt2_new(&config, &model).code, MT_OK);
    return model;
}

static uint8_t *file_read(size_t *out_size)
{
    static uint8_t bytes[100000];
    FILE          *file = fopen(path, "rb");
    assert_non_null(file);
    *out_size = fread(bytes, 1, sizeof bytes, file);
    fclose(file);
    return bytes;
}

static void file_write(const void *data, size_t size)
{
    FILE *file = fopen(path, "wb");
    assert_non_null(file);
    assert_int_equal(fwrite(data, 1, size, file), size);
    assert_int_equal(fclose(file), 0);
}

static void a_model_comes_back(void **state)
{
    struct sgd_model     *model = model_make(shape);
    size_t                n = model->params.floats, size;
    float                *params = malloc(n * sizeof *params), *back = malloc(n * sizeof *back);
    struct sgd_gpt2_shape found;
    (void)state;
    assert_true(params && back);
    model->ops->init(model, 3, params);
    assert_int_equal(sgd_gpt2_file_save(path, model, params).code, MT_OK);
    assert_int_equal(sgd_gpt2_file_shape(path, &found).code, MT_OK);
    assert_memory_equal(&found, &shape, sizeof shape);
    assert_int_equal(sgd_gpt2_file_load(path, model, back).code, MT_OK);
    assert_memory_equal(params, back, n * sizeof *params);

    /* 256 rows of wte (padded), 5 of wpe, then ln1w of both layers, which are 1. */
    uint8_t *bytes = file_read(&size);
    int32_t  head[8];
    float    one;
    memcpy(head, bytes, sizeof head);
    assert_int_equal(size, 1024 + 4 * n);
    assert_true(head[0] == 20240326 && head[1] == 3 && head[2] == 5 && head[3] == 130 && head[4] == 2 && head[5] == 2 &&
                head[6] == 8 && head[7] == 256);
    for (size_t i = 0; i < 16; i++) {
        memcpy(&one, bytes + 1024 + 4 * (256 * 8 + 5 * 8 + i), sizeof one);
        assert_true(one == 1.0f);
    }
    model->ops->free(model);
    free(params), free(back);
}

static void halves_are_read_too(void **state)
{
    struct sgd_model *model = model_make(shape);
    size_t            n = model->params.floats, size;
    float            *params = malloc(n * sizeof *params);
    (void)state;
    assert_non_null(params);
    for (size_t i = 0; i < n; i++)
        params[i] = (float)(i % 128) - 64.0f; /* has no more than 8 significant bits */
    assert_int_equal(sgd_gpt2_file_save(path, model, params).code, MT_OK);
    uint8_t *bytes = file_read(&size);
    bytes[4] = 5;
    for (size_t i = 0; i < n; i++)
        memmove(bytes + 1024 + 2 * i, bytes + 1024 + 4 * i + 2, 2);
    file_write(bytes, 1024 + 2 * n);
    memset(params, 0, n * sizeof *params);
    assert_int_equal(sgd_gpt2_file_load(path, model, params).code, MT_OK);
    for (size_t i = 0; i < n; i++)
        assert_true(params[i] == (float)(i % 128) - 64.0f);
    model->ops->free(model);
    free(params);
}

static void damage_is_found(void **state)
{
    struct sgd_model     *model = model_make(shape);
    struct sgd_gpt2_shape other = shape, found;
    size_t                n = model->params.floats, size;
    float                *params = calloc(n, sizeof *params);
    static const int32_t  bad[][2] = {{0, 1}, {1, 1}, {2, 0}, {2, 6}, {3, -1}, {4, 1000000}, {5, 3}, {6, 9}, {7, 130}};
    (void)state;
    assert_non_null(params);
    assert_int_equal(sgd_gpt2_file_save(path, model, params).code, MT_OK);
    uint8_t *bytes = file_read(&size);
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
        int32_t keep;
        memcpy(&keep, bytes + 4 * bad[i][0], sizeof keep);
        memcpy(bytes + 4 * bad[i][0], &bad[i][1], sizeof keep);
        file_write(bytes, size);
        assert_int_equal(sgd_gpt2_file_load(path, model, params).code, MT_ECORRUPT);
        assert_int_equal(sgd_gpt2_file_shape(path, &found).code, MT_ECORRUPT);
        memcpy(bytes + 4 * bad[i][0], &keep, sizeof keep);
    }
    for (size_t cut = 0; cut < size; cut += cut < 1100 ? 1 : 977) {
        file_write(bytes, cut);
        assert_int_equal(sgd_gpt2_file_load(path, model, params).code, MT_ECORRUPT);
    }
    bytes[size] = 0;
    file_write(bytes, size + 1);
    assert_int_equal(sgd_gpt2_file_load(path, model, params).code, MT_ECORRUPT);
    model->ops->free(model);

    file_write(bytes, size);
    other.heads = 4;
    model = model_make(other);
    assert_int_equal(sgd_gpt2_file_load(path, model, params).code, MT_EINVAL);
    unlink(path);
    assert_int_equal(sgd_gpt2_file_load(path, model, params).code, MT_ENOENT);
    assert_int_equal(sgd_gpt2_file_save("/nowhere/at/all", model, params).code, MT_ESYS);
    model->ops->free(model);
    free(params);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_model_comes_back),
        cmocka_unit_test(halves_are_read_too),
        cmocka_unit_test(damage_is_found),
    };
    if (!mkdtemp(folder))
        return 1;
    snprintf(path, sizeof path, "%s/model.bin", folder);
    int failed = cmocka_run_group_tests(tests, NULL, NULL);
    unlink(path);
    rmdir(folder);
    return failed;
}
