/* SPDX-License-Identifier: Apache-2.0
 *
 * data_test.c - IDX files as they are, missing, truncated, damaged and lying; data sets in memory.
 */
#include "tests/unit/sgd/temp.h"

#include "sgd/data/data.h"
#include "sgd/data/idx.h"

#include <sys/stat.h>
#include <zlib.h>

enum { IMAGES = 50, SIDE = 6, RECORD = SIDE * SIDE };

static void gz_put(const char *path, const void *data, size_t size)
{
    gzFile f = gzopen(path, "wb");
    assert_non_null(f);
    assert_int_equal(gzwrite(f, data, (unsigned)size), (int)size);
    assert_int_equal(gzclose(f), Z_OK);
}

/* Builds an IDX file in memory and gives its size. */
static size_t idx_build(unsigned char *out, unsigned type, const uint32_t *dims, uint32_t ndim, size_t size)
{
    size_t n = 0;
    out[n++] = 0, out[n++] = 0, out[n++] = (unsigned char)type, out[n++] = (unsigned char)ndim;
    for (uint32_t d = 0; d < ndim; d++)
        for (int shift = 24; shift >= 0; shift -= 8)
            out[n++] = (unsigned char)(dims[d] >> shift);
    for (size_t i = 0; i < size; i++)
        out[n++] = (unsigned char)(i * 7 % 10);
    return n;
}

static void small_set_put(void **state, uint32_t labels)
{
    unsigned char bytes[IMAGES * RECORD + 64];
    char          path[TEMP_PATH];
    uint32_t      dims[3] = {IMAGES, SIDE, SIDE};
    gz_put(temp_path(state, "train-images-idx3-ubyte.gz", path), bytes, idx_build(bytes, 8, dims, 3, IMAGES * RECORD));
    gz_put(temp_path(state, "train-labels-idx1-ubyte.gz", path), bytes, idx_build(bytes, 8, &labels, 1, labels));
}

static void a_set_is_read_from_its_files(void **state)
{
    struct sgd_dataset set;
    uint64_t           picks[2] = {3, 49};
    uint8_t            records[2 * RECORD], labels[2];
    small_set_put(state, IMAGES);
    assert_int_equal(sgd_dataset_load_fashion(*state, true, &set).code, MT_OK);
    assert_int_equal(set.count, IMAGES);
    assert_int_equal(set.record_size, RECORD);
    assert_int_equal(set.classes, 10);
    sgd_dataset_gather(&set, picks, 2, records, labels);
    assert_memory_equal(records, set.records + 3 * RECORD, RECORD);
    assert_memory_equal(records + RECORD, set.records + 49 * RECORD, RECORD);
    assert_int_equal(labels[1], 49 * 7 % 10);
    sgd_dataset_fini(&set);
}

static void a_missing_set_names_the_package(void **state)
{
    struct sgd_dataset set;
    mt_status          st = sgd_dataset_load_fashion(*state, false, &set);
    assert_int_equal(st.code, MT_ENOENT);
    assert_non_null(strstr(st.what, "dataset-fashion-mnist"));
}

static void images_and_labels_must_belong_together(void **state)
{
    struct sgd_dataset set;
    small_set_put(state, IMAGES - 1);
    assert_int_equal(sgd_dataset_load_fashion(*state, true, &set).code, MT_ECORRUPT);
}

/* Every prefix of a gzipped file is refused, and so is every file with one byte changed (or it reads the
 * same). */
static void truncation_and_damage_are_found(void **state)
{
    unsigned char  bytes[IMAGES * RECORD + 64];
    char           path[TEMP_PATH];
    uint32_t       dims[3] = {IMAGES, SIDE, SIDE};
    struct sgd_idx idx, whole;
    size_t         size;

    gz_put(temp_path(state, "x.gz", path), bytes, idx_build(bytes, 8, dims, 3, IMAGES * RECORD));
    assert_int_equal(sgd_idx_read(path, &whole).code, MT_OK);
    unsigned char *file = file_get(path, &size);
    for (size_t cut = 0; cut < size; cut++) {
        file_put(path, file, cut);
        mt_status st = sgd_idx_read(path, &idx);
        if (st.code != MT_ECORRUPT)
            fail_msg("cut at %zu of %zu: %s", cut, size, mt_code_name(st.code));
    }
    size_t harmless = 0;
    for (size_t i = 0; i < size; i++) {
        file[i] ^= 0x10;
        file_put(path, file, size);
        file[i] ^= 0x10;
        mt_status st = sgd_idx_read(path, &idx);
        if (st.code != 0) {
            assert_int_equal(st.code, MT_ECORRUPT);
            continue;
        }
        /* Only gzip's own remarks (time, system) may change without notice. */
        assert_int_equal(idx.size, whole.size);
        assert_memory_equal(idx.data, whole.data, whole.size);
        free(idx.data);
        harmless++;
    }
    assert_true(harmless <= 8);
    free(file);
    free(whole.data);
}

static void headers_that_lie_are_refused(void **state)
{
    static const struct {
        unsigned type;
        uint32_t ndim, dims[4];
        size_t   size;
    } cases[] = {
        {0x0d, 1, {4, 0, 0, 0}, 16},                                    /* floats */
        {0x08, 0, {0, 0, 0, 0}, 4},                                     /* no dimension */
        {0x08, 1, {0, 0, 0, 0}, 0},                                     /* nothing in it */
        {0x08, 1, {5, 0, 0, 0}, 4},                                     /* claims one more */
        {0x08, 1, {3, 0, 0, 0}, 4},                                     /* claims one less */
        {0x08, 3, {60000, 28, 28, 0}, 4},                               /* claims what the file can't hold */
        {0x08, 4, {0xffffffff, 0xffffffff, 0xffffffff, 0xffffffff}, 4}, /* overflows */
    };
    unsigned char  bytes[256];
    char           path[TEMP_PATH];
    struct sgd_idx idx;
    temp_path(state, "x", path);
    for (size_t c = 0; c < sizeof cases / sizeof *cases; c++) {
        file_put(path, bytes, idx_build(bytes, cases[c].type, cases[c].dims, cases[c].ndim, cases[c].size));
        assert_int_equal(sgd_idx_read(path, &idx).code, MT_ECORRUPT);
    }
    memset(bytes, 0x5a, sizeof bytes);
    file_put(path, bytes, sizeof bytes);
    assert_int_equal(sgd_idx_read(path, &idx).code, MT_ECORRUPT);
    assert_int_equal(sgd_idx_read(*state, &idx).code, MT_ECORRUPT); /* a folder */
    uint32_t four = 4;
    file_put(path, bytes, idx_build(bytes, 8, &four, 1, 4)); /* not gzipped: fine */
    assert_int_equal(sgd_idx_read(path, &idx).code, MT_OK);
    free(idx.data);
}

static void borrowed_memory_is_not_copied(void **state)
{
    static const uint8_t records[6] = {1, 2, 3, 4, 5, 6}, labels[3] = {0, 4, 2};
    struct sgd_dataset   set;
    (void)state;
    assert_int_equal(sgd_dataset_borrow(records, labels, 3, 2, &set).code, MT_OK);
    assert_ptr_equal(set.records, records);
    assert_int_equal(set.classes, 5);
    sgd_dataset_fini(&set);
    assert_int_equal(sgd_dataset_borrow(records, labels, 0, 2, &set).code, MT_EINVAL);
}

static void the_real_set_is_as_published(void **state)
{
    struct sgd_dataset set;
    uint64_t           per_class[10] = {0};
    (void)state;
    mt_status st = sgd_dataset_load_fashion(NULL, true, &set);
    if (st.code != 0)
        fail_msg("%s", st.what);
    assert_int_equal(set.count, 60000);
    assert_int_equal(set.record_size, 784);
    for (uint64_t i = 0; i < set.count; i++)
        per_class[set.labels[i]]++;
    for (int c = 0; c < 10; c++)
        assert_int_equal(per_class[c], 6000);
    sgd_dataset_fini(&set);
    assert_int_equal(sgd_dataset_load_fashion(NULL, false, &set).code, MT_OK);
    assert_int_equal(set.count, 10000);
    sgd_dataset_fini(&set);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(a_set_is_read_from_its_files, temp_make, temp_remove),
        cmocka_unit_test_setup_teardown(a_missing_set_names_the_package, temp_make, temp_remove),
        cmocka_unit_test_setup_teardown(images_and_labels_must_belong_together, temp_make, temp_remove),
        cmocka_unit_test_setup_teardown(truncation_and_damage_are_found, temp_make, temp_remove),
        cmocka_unit_test_setup_teardown(headers_that_lie_are_refused, temp_make, temp_remove),
        cmocka_unit_test(borrowed_memory_is_not_copied),
        cmocka_unit_test(the_real_set_is_as_published),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
