/* SPDX-License-Identifier: Apache-2.0
 *
 * safetensors_test.c - what is written is read back; what lies, overlaps, or ends early is refused.
 */
#include "tests/unit/sgd/temp.h"

#include "sgd/save/safetensors.h"

#include <fcntl.h>
#include <sys/stat.h>

static const float   weights[6] = {1, 2, 3, 4, 5, 6};
static const int64_t counts[2] = {-1, 7};

static void two_tensors(struct sgd_tensor out[2])
{
    out[0] = (struct sgd_tensor){.name = "counts", .dtype = SGD_I64, .ndim = 1, .shape = {2}, .data = counts};
    out[1] = (struct sgd_tensor){.name = "w.0/x_y-z", .dtype = SGD_F32, .ndim = 2, .shape = {2, 3}, .data = weights};
}

static mt_status write_to(const char *path, struct sgd_tensor *tensors, size_t count)
{
    uint64_t sum;
    int      fd = open(path, O_WRONLY | O_CREAT | O_TRUNC, 0644);
    assert_true(fd >= 0);
    mt_status st = sgd_safetensors_write(fd, tensors, count, &sum);
    close(fd);
    return st;
}

static mt_status open_at(const char *path, struct sgd_safetensors *file)
{
    return sgd_safetensors_open(AT_FDCWD, path, file);
}

static void tensors_are_read_back(void **state)
{
    struct sgd_tensor      tensors[2];
    struct sgd_safetensors file;
    char                   path[TEMP_PATH];
    float                  back[6];
    two_tensors(tensors);
    temp_path(state, "x", path);
    assert_int_equal(write_to(path, tensors, 2).code, MT_OK);
    assert_int_equal(open_at(path, &file).code, MT_OK);
    assert_int_equal(file.count, 2);
    assert_int_equal(file.header_size % 8, 0);
    assert_string_equal(file.tensors[0].name, "counts");
    assert_int_equal(file.tensors[0].dtype, SGD_I64);
    assert_string_equal(file.tensors[1].name, "w.0/x_y-z");
    assert_int_equal(file.tensors[1].ndim, 2);
    assert_int_equal(file.tensors[1].shape[1], 3);
    assert_int_equal(sgd_safetensors_read(&file, file.tensors[1].begin, back, sizeof back).code, MT_OK);
    assert_memory_equal(back, weights, sizeof back);
    assert_int_equal(sgd_safetensors_read(&file, file.data_size - 3, back, 4).code, MT_EINVAL);
    assert_int_equal(sgd_safetensors_read(&file, UINT64_MAX, back, 4).code, MT_EINVAL);
    sgd_safetensors_close(&file);
    assert_int_equal(write_to(path, NULL, 0).code, MT_OK); /* no tensors at all is a file too */
    assert_int_equal(open_at(path, &file).code, MT_OK);
    assert_int_equal(file.count, 0);
    sgd_safetensors_close(&file);
}

static void what_cannot_be_written_well_is_refused(void **state)
{
    struct sgd_tensor tensors[2], bad[2];
    char              path[TEMP_PATH];
    float             one = 1;
    two_tensors(tensors);
    temp_path(state, "x", path);
    memcpy(bad, tensors, sizeof bad);
    memcpy(bad[0].name, "a\"b", sizeof "a\"b");
    assert_int_equal(write_to(path, bad, 2).code, MT_EINVAL);
    bad[0] = (struct sgd_tensor){.name = "f", .dtype = SGD_F32, .ndim = 0, .data = &one};
    bad[1] = tensors[0]; /* 8-byte elements at offset 4 */
    assert_int_equal(write_to(path, bad, 2).code, MT_EINVAL);
    bad[0] = tensors[0], bad[0].ndim = 3;
    for (int d = 0; d < 3; d++)
        bad[0].shape[d] = UINT64_C(1) << 30;
    assert_int_equal(write_to(path, bad, 1).code, MT_EINVAL);
    int      full = open("/dev/full", O_WRONLY);
    uint64_t sum;
    assert_true(full >= 0);
    assert_int_equal(sgd_safetensors_write(full, tensors, 2, &sum).code, MT_EDISK_FULL);
    close(full);
}

static void every_truncation_is_refused(void **state)
{
    struct sgd_tensor      tensors[2];
    struct sgd_safetensors file;
    char                   path[TEMP_PATH];
    size_t                 size;
    two_tensors(tensors);
    temp_path(state, "x", path);
    assert_int_equal(write_to(path, tensors, 2).code, MT_OK);
    unsigned char *bytes = file_get(path, &size);
    for (size_t cut = 0; cut < size; cut++) {
        file_put(path, bytes, cut);
        assert_int_equal(open_at(path, &file).code, MT_ECORRUPT);
    }
    unsigned char *longer = calloc(size + 1, 1);
    assert_non_null(longer);
    memcpy(longer, bytes, size);
    file_put(path, longer, size + 1);
    assert_int_equal(open_at(path, &file).code, MT_ECORRUPT);
    free(bytes), free(longer);
    assert_int_equal(open_at(*state, &file).code, MT_ECORRUPT); /* a folder */
    assert_int_equal(open_at(temp_path(state, "none", path), &file).code, MT_ENOENT);
}

/* A file with this header and so many bytes of data. */
static mt_status header_case(void **state, const char *json, size_t data)
{
    static unsigned char   bytes[4096];
    struct sgd_safetensors file;
    char                   path[TEMP_PATH];
    uint64_t               n = strlen(json);
    memcpy(bytes, &n, 8);
    memcpy(bytes + 8, json, n);
    memset(bytes + 8 + n, 0, data);
    file_put(temp_path(state, "h", path), bytes, 8 + n + data);
    mt_status st = open_at(path, &file);
    if (st.code == 0)
        sgd_safetensors_close(&file);
    return st;
}

#define T(type, shape, offsets) "{\"dtype\":\"" type "\",\"shape\":" shape ",\"data_offsets\":" offsets "}"

static void headers_by_others_are_accepted(void **state)
{
    static const struct {
        const char *json;
        size_t      data;
    } good[] = {
        {"{}", 0},
        {"{}      ", 0},
        {"{\"a\":" T("F32", "[2]", "[0,8]") "}  \n\t ", 8},
        {"{ \"a\" : { \"shape\" : [ 2 ] , \"data_offsets\" : [ 0 , 8 ] , \"dtype\" : \"F32\" } }", 8},
        {"{\"__metadata__\":{\"format\":\"pt\",\"x\":\"\\u00e4\\ud83d\\ude00\\n\"},\"a\":" T("U8", "[]", "[0,1]") "}", 1},
        {"{\"__metadata__\":{},\"b\":" T("BF16", "[1,2]", "[2,6]") ",\"a\":" T("F16", "[1]", "[0,2]") "}", 6},
        {"{\"empty\":" T("F64", "[3,0]", "[0,0]") ",\"a\":" T("I8", "[1]", "[0,1]") "}", 1},
        {"{\"a\\u002eb\":" T("BOOL", "[1]", "[0,1]") "}", 1},
    };
    for (size_t i = 0; i < sizeof good / sizeof *good; i++) {
        mt_status st = header_case(state, good[i].json, good[i].data);
        if (st.code != 0)
            fail_msg("refused: %s: %s", good[i].json, st.what);
    }
}

static void headers_that_lie_are_refused(void **state)
{
    static const struct {
        const char *json;
        size_t      data;
    } bad[] = {
        /* clang-format off */
        {"", 0},
        {"[]", 0},
        {" {}", 0},
        {"{", 0},
        {"{}x", 0},
        {"{\"a\":" T("F32", "[2]", "[0,8]") ",}", 8},
        {"{\"a\":" T("F32", "[2]", "[0,8]") "}", 9},                                              /* more data */
        {"{\"a\":" T("F32", "[2]", "[0,8]") "}", 7},                                              /* less */
        {"{\"a\":" T("F32", "[2]", "[0,12]") "}", 12},                                            /* size is not the shape's */
        {"{\"a\":" T("F32", "[2]", "[8,0]") "}", 8},                                              /* backwards */
        {"{\"a\":" T("F32", "[2]", "[4,12]") "}", 12},                                            /* hole at the start */
        {"{\"a\":" T("U8", "[2]", "[0,2]") ",\"b\":" T("U8", "[2]", "[3,5]") "}", 5},             /* hole between */
        {"{\"a\":" T("U8", "[2]", "[0,2]") ",\"b\":" T("U8", "[2]", "[1,3]") "}", 3},             /* overlap */
        {"{\"a\":" T("U8", "[2]", "[0,2]") ",\"b\":" T("U8", "[2]", "[0,2]") "}", 2},             /* the same bytes twice */
        {"{\"a\":" T("U8", "[1]", "[0,1]") ",\"a\":" T("U8", "[1]", "[1,2]") "}", 2},             /* the same name twice */
        {"{\"a\":" T("U8", "[1]", "[0,1]") ",\"\\u0061\":" T("U8", "[1]", "[1,2]") "}", 2},       /* even when escaped */
        {"{\"a\":{\"dtype\":\"U8\",\"shape\":[1]}}", 1},                                          /* a key is missing */
        {"{\"a\":{\"dtype\":\"U8\",\"dtype\":\"U8\",\"shape\":[1],\"data_offsets\":[0,1]}}", 1},  /* a key twice */
        {"{\"a\":{\"dtype\":\"U8\",\"shape\":[1],\"data_offsets\":[0,1],\"x\":1}}", 1},           /* another key */
        {"{\"a\":" T("U8", "[-1]", "[0,1]") "}", 1},
        {"{\"a\":" T("U8", "[1.0]", "[0,1]") "}", 1},
        {"{\"a\":" T("U8", "[01]", "[0,1]") "}", 1},
        {"{\"a\":" T("U8", "[99999999999999999999]", "[0,1]") "}", 1},
        {"{\"a\":" T("U8", "[4294967296,4294967296]", "[0,0]") "}", 0},                           /* overflows to 0 */
        {"{\"a\":" T("U8", "[1]", "[0,1,2]") "}", 1},
        {"{\"a\":null}", 0},
        {"{\"a\":true}", 0},
        {"{\"__metadata__\":{\"a\":1}}", 0},
        {"{\"__metadata__\":{},\"__metadata__\":{}}", 0},
        {"{\"a\\u0000\":" T("U8", "[1]", "[0,1]") "}", 1},
        {"{\"a\\ud800\":" T("U8", "[1]", "[0,1]") "}", 1},
        {"{\"a\\x\":" T("U8", "[1]", "[0,1]") "}", 1},
        {"{\"a\n\":" T("U8", "[1]", "[0,1]") "}", 1},
        {"{\"a", 0},
        {"{\"a\\", 0},
        {"{\"a\\u00", 0},
        /* clang-format on */
    };
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++)
        if (header_case(state, bad[i].json, bad[i].data).code != MT_ECORRUPT)
            fail_msg("not refused as corrupt: %s", bad[i].json);
    assert_int_equal(header_case(state, "{\"a\":" T("F4", "[2]", "[0,1]") "}", 1).code, MT_EUNSUPPORTED);
    assert_int_equal(header_case(state, "{\"a\":" T("U8", "[1,1,1,1,1,1,1,1,1]", "[0,1]") "}", 1).code, MT_EUNSUPPORTED);
}

static void a_header_size_is_not_believed(void **state)
{
    static const uint64_t  sizes[] = {3, 100000001, UINT64_C(1) << 40, UINT64_MAX, UINT64_MAX - 7};
    struct sgd_safetensors file;
    unsigned char          bytes[10] = "12345678{}";
    char                   path[TEMP_PATH];
    temp_path(state, "x", path);
    for (size_t i = 0; i < sizeof sizes / sizeof *sizes; i++) {
        memcpy(bytes, &sizes[i], 8);
        file_put(path, bytes, sizeof bytes);
        assert_int_equal(open_at(path, &file).code, MT_ECORRUPT);
    }
    /* A sparse file that really is that long: the limit of the format refuses it before memory is asked for.
     */
    memcpy(bytes, &sizes[1], 8);
    file_put(path, bytes, sizeof bytes);
    assert_int_equal(truncate(path, 200000000), 0);
    assert_int_equal(open_at(path, &file).code, MT_ECORRUPT);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(tensors_are_read_back, temp_make, temp_remove),
        cmocka_unit_test_setup_teardown(what_cannot_be_written_well_is_refused, temp_make, temp_remove),
        cmocka_unit_test_setup_teardown(every_truncation_is_refused, temp_make, temp_remove),
        cmocka_unit_test_setup_teardown(headers_by_others_are_accepted, temp_make, temp_remove),
        cmocka_unit_test_setup_teardown(headers_that_lie_are_refused, temp_make, temp_remove),
        cmocka_unit_test_setup_teardown(a_header_size_is_not_believed, temp_make, temp_remove),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
