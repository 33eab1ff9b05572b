/* SPDX-License-Identifier: Apache-2.0
 *
 * tokens_test.c - texts, token files, windows; the text format of Debian's bible-kjv-text, and what is refused.
 */
#include "sgd/data/tokens.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

static char path[] = "/tmp/manta-tokens-XXXXXX";

static void file_write(const void *data, size_t size)
{
    FILE *file = fopen(path, "wb");
    assert_non_null(file);
    assert_int_equal(fwrite(data, 1, size, file), size);
    assert_int_equal(fclose(file), 0);
}

static void any_file_is_text(void **state)
{
    struct sgd_tokens  tokens;
    struct sgd_dataset train, test;
    char               text[100];
    (void)state;
    for (int i = 0; i < 100; i++)
        text[i] = (char)i;
    file_write(text, sizeof text);
    assert_int_equal(sgd_tokens_load(path, &tokens).code, MT_OK);
    assert_true(tokens.count == 100 && tokens.width == 1 && tokens.vocabulary == 256);
    assert_int_equal(sgd_dataset_windows(&tokens, 8, true, &train).code, MT_OK);
    assert_int_equal(sgd_dataset_windows(&tokens, 8, false, &test).code, MT_OK);
    /* 90 bytes: windows of 9 at 0, 8, .. 80; then 10 bytes: one window. */
    assert_true(train.count == 11 && train.record_size == 9 && test.count == 1);
    for (uint8_t w = 0; w < 11; w++)
        for (uint8_t i = 0; i < 9; i++)
            assert_int_equal(train.records[w * 9 + i], w * 8 + i);
    assert_int_equal(test.records[8], 98);
    sgd_dataset_fini(&train);
    sgd_dataset_fini(&test);
    assert_int_equal(sgd_dataset_windows(&tokens, 10, false, &test).code, MT_EINVAL);
    assert_int_equal(sgd_dataset_windows(&tokens, 0, true, &test).code, MT_EINVAL);
    sgd_tokens_fini(&tokens);
}

static void token_files_are_read_whole_or_refused(void **state)
{
    struct sgd_tokens  tokens;
    struct sgd_dataset set;
    int32_t            file[256 + 50] = {20240520, 1, 100};
    uint16_t           token = 50256;
    (void)state;
    memcpy((char *)file + 1024 + 2 * 99, &token, 2);
    file_write(file, sizeof file);
    assert_int_equal(sgd_tokens_load(path, &tokens).code, MT_OK);
    assert_true(tokens.count == 100 && tokens.width == 2 && tokens.vocabulary == 50257);
    assert_int_equal(sgd_dataset_windows(&tokens, 9, false, &set).code, MT_OK);
    assert_true(set.count == 1 && set.record_size == 20 && memcmp(set.records + 18, &token, 2) == 0);
    sgd_dataset_fini(&set);
    sgd_tokens_fini(&tokens);

    file_write(file, sizeof file - 1);
    assert_int_equal(sgd_tokens_load(path, &tokens).code, MT_ECORRUPT);
    file[1] = 7;
    file_write(file, sizeof file);
    assert_int_equal(sgd_tokens_load(path, &tokens).code, MT_ECORRUPT);
    file[1] = 1, file[2] = -1;
    file_write(file, sizeof file);
    assert_int_equal(sgd_tokens_load(path, &tokens).code, MT_ECORRUPT);
    file_write(file, 0);
    assert_int_equal(sgd_tokens_load(path, &tokens).code, MT_ECORRUPT);
}

/* ---- the package's format: "tobeornottobe" and so on, packed here ---- */

/* Appends codes of 9 bits, lowest bit first: enough for a block of less than 255 codes. */
static size_t codes_put(uint8_t *out, const uint16_t *codes, size_t count)
{
    size_t bits = 0;
    for (size_t i = 0; i < count; i++)
        for (int b = 0; b < 9; b++, bits++)
            out[bits / 8] = (uint8_t)(out[bits / 8] | (codes[i] >> b & 1) << bits % 8);
    return (bits + 7) / 8;
}

static void big_endian_put(uint8_t *out, uint32_t value)
{
    for (int i = 0; i < 4; i++)
        out[i] = (uint8_t)(value >> (24 - 8 * i));
}

/* Two blocks: "ababababa" (9 bytes) and "aaaa". Entry 257 is "ab", 258 "ba", 259 "aba". */
static size_t package_make(uint8_t file[256])
{
    static const uint16_t first[] = {'a', 'b', 257, 259, 258}, second[] = {'a', 257, 'a'};
    size_t                size = 100;
    memset(file, 0, 256);
    memcpy(file, "EC02Compressed Data File", 24);
    big_endian_put(file + 84, 9);
    big_endian_put(file + 88, 2);
    big_endian_put(file + 92, (uint32_t)size);
    size += codes_put(file + size, first, 5);
    big_endian_put(file + 96, (uint32_t)size);
    return size + codes_put(file + size, second, 3);
}

static void the_packages_format_is_unpacked(void **state)
{
    struct sgd_tokens tokens;
    uint8_t           file[256];
    size_t            size = package_make(file);
    (void)state;
    file_write(file, size);
    assert_int_equal(sgd_tokens_load(path, &tokens).code, MT_OK);
    assert_int_equal(tokens.count, 13);
    assert_memory_equal(tokens.data, "ababababaaaaa", 13);
    sgd_tokens_fini(&tokens);
}

static void damaged_packages_are_refused(void **state)
{
    struct sgd_tokens tokens;
    uint8_t           file[256], bad[256];
    size_t            size = package_make(file), refused = 0;
    (void)state;
    for (size_t cut = 93; cut < size; cut++) { /* never more than is there, whatever is cut off */
        file_write(file, cut);
        mt_status st = sgd_tokens_load(path, &tokens);
        refused += st.code == MT_ECORRUPT;
        if (st.code == 0)
            sgd_tokens_fini(&tokens);
    }
    assert_true(refused > 5);
    for (size_t bit = 84 * 8; bit < size * 8; bit++) {
        memcpy(bad, file, size);
        bad[bit / 8] = (uint8_t)(bad[bit / 8] ^ 1 << bit % 8);
        file_write(bad, size);
        mt_status st = sgd_tokens_load(path, &tokens);
        if (st.code == 0) {
            assert_true(tokens.count <= 1 << 20); /* another text, or the same */
            sgd_tokens_fini(&tokens);
        } else {
            assert_int_equal(st.code, MT_ECORRUPT);
        }
    }
}

static void what_is_missing_is_named(void **state)
{
    struct sgd_tokens tokens;
    (void)state;
    assert_int_equal(sgd_tokens_load("/nowhere/at/all", &tokens).code, MT_ENOENT);
    mt_status st = sgd_tokens_load(NULL, &tokens);
    if (st.code == 0) { /* it is installed */
        assert_true(tokens.count > 4000000);
        assert_memory_equal(tokens.data, "Holy Bible", 10);
        sgd_tokens_fini(&tokens);
    } else {
        assert_int_equal(st.code, MT_ENOENT);
        assert_non_null(strstr(st.what, "bible-kjv-text"));
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(any_file_is_text),
        cmocka_unit_test(token_files_are_read_whole_or_refused),
        cmocka_unit_test(the_packages_format_is_unpacked),
        cmocka_unit_test(damaged_packages_are_refused),
        cmocka_unit_test(what_is_missing_is_named),
    };
    int fd = mkstemp(path);
    if (fd < 0)
        return 1;
    close(fd);
    int failed = cmocka_run_group_tests(tests, NULL, NULL);
    unlink(path);
    return failed;
}
