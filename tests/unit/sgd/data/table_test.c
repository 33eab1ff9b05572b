/* SPDX-License-Identifier: Apache-2.0
 *
 * table_test.c - CSV files and arrays of NumPy, right ones and wrong ones; elements as inputs; records that are read ahead.
 */
#include "tests/unit/base/says.h"
#include "tests/unit/sgd/temp.h"

#include "sgd/data/feed.h"
#include "sgd/data/table.h"

#include <stdlib.h>

static char        path[TEMP_PATH], other[TEMP_PATH], where[SGD_WHERE_BYTES];
static const char *faulty; /* the file or the name that an error is about */

static void bytes_put(const char *name, const void *bytes, size_t size)
{
    FILE *f = fopen(name, "wbe");
    assert_non_null(f);
    assert_true(size == 0 || fwrite(bytes, size, 1, f) == 1);
    assert_int_equal(fclose(f), 0);
}

/* ---- CSV ---- */

static mt_status csv(const char *text, int64_t label, uint32_t classes, struct sgd_dataset *set)
{
    bytes_put(path, text, strlen(text));
    return sgd_csv_load(&(struct sgd_csv){.path = path, .label = label, .classes = classes}, &faulty, where, set);
}

static mt_status csv_named(const char *text, const char *label, struct sgd_dataset *set)
{
    bytes_put(path, text, strlen(text));
    return sgd_csv_load(&(struct sgd_csv){.path = path, .label_name = label}, &faulty, where, set);
}

static void csv_is_read(void **state)
{
    struct sgd_dataset set;
    temp_path(state, "a.csv", path);
    assert_int_equal(csv("x,y,class\n1,2.5,0\r\n\n -3 , 4e2 ,7\n0,0,1", -1, 10, &set).code, MT_OK);
    assert_int_equal(set.count, 3);
    assert_int_equal(set.record_size, 2 * sizeof(float));
    assert_int_equal(set.classes, 8);
    const float wanted[] = {1, 2.5f, -3, 400, 0, 0};
    assert_memory_equal(set.records, wanted, sizeof wanted);
    assert_memory_equal(set.labels, "\0\7\1", 3);
    sgd_dataset_fini(&set);
    assert_int_equal(csv("5,1\n6,2\n", 1, 0, &set).code, MT_OK); /* no head; the first column is the label */
    assert_int_equal(set.record_size, sizeof(float));
    assert_int_equal(set.labels[1], 6);
    sgd_dataset_fini(&set);
    assert_int_equal(csv("5,1\n6,2\n", 0, 0, &set).code, MT_OK);
    assert_null(set.labels);
    sgd_dataset_fini(&set);
    assert_int_equal(csv("\xef\xbb\xbf"
                         "5,1\n6,2\n",
                         2, 0, &set)
                         .code,
                     MT_OK); /* a mark before a number is no head */
    assert_int_equal(set.count, 2);
    sgd_dataset_fini(&set);
    assert_int_equal(csv("nan_count,class\n5,255\n6,2.000\n", 2, 0, &set).code, MT_OK); /* strtof reads "nan" there */
    assert_memory_equal(set.labels, "\377\2", 2);
    sgd_dataset_fini(&set);
}

static void csv_label_is_named(void **state)
{
    static const char  text[] = " a ,\"class, or kind\",3\r\n1,2,4\n1.5,0,6\n";
    struct sgd_dataset set;
    temp_path(state, "a.csv", path);
    assert_int_equal(csv_named(text, "class, or kind", &set).code, MT_OK);
    assert_memory_equal(set.labels, "\2\0", 2);
    assert_int_equal(set.record_size, 2 * sizeof(float));
    sgd_dataset_fini(&set);
    assert_int_equal(csv_named(text, "-1", &set).code, MT_OK);
    assert_memory_equal(set.labels, "\4\6", 2);
    sgd_dataset_fini(&set);
    assert_int_equal(csv_named(text, "2", &set).code, MT_OK);
    assert_memory_equal(set.labels, "\2\0", 2);
    sgd_dataset_fini(&set);
    assert_int_equal(csv_named("5,1\n6,2\n", "1", &set).code, MT_OK);
    assert_memory_equal(set.labels, "\5\6", 2);
    sgd_dataset_fini(&set);
    const char *const wrong[] = {"4", "0", "-2", "clas", "1.5", ""};
    for (size_t i = 0; i < sizeof wrong / sizeof *wrong; i++) {
        assert_int_equal(csv_named(text, wrong[i], &set).code, MT_EINVAL);
        assert_ptr_equal(faulty, wrong[i]);
    }
    assert_int_equal(csv_named("1,2\n", "class", &set).code, MT_EINVAL);
    assert_int_equal(csv_named("a,class\n1,2,3\n", "class", &set).code, MT_ECORRUPT);
    assert_ptr_equal(faulty, path);
    assert_string_equal(where, "line 2");
}

static void csv_is_wrong(void **state)
{
    static const struct {
        const char *text;
        int64_t     label;
        int         code;
        const char *where, *says;
    } cases[] = {
        {"1,2\n3\n", 0, MT_ECORRUPT, "line 2, column 1", "fewer"},
        {"a,b\n1,2\n3,4,5\n", 0, MT_ECORRUPT, "line 3, column 2 (b)", "more"},
        {"1,2\n3,x\n", 0, MT_ECORRUPT, "line 2, column 2", "no number"},
        {"a,\"b c\"\n3,x\n", 0, MT_ECORRUPT, "line 2, column 2 (b c)", "no number"},
        {"1,2\n3,\n", 0, MT_ECORRUPT, "line 2, column 2", "no number"},
        {"1,2\n,3\n", 0, MT_ECORRUPT, "line 2, column 1", "no number"},
        {"1,2\n3 4,5\n", 0, MT_ECORRUPT, "line 2, column 1", "no number"},
        {"1,2\n3,4z\n", 0, MT_ECORRUPT, "line 2, column 2", "no number"},
        {"1,2\n3,nan\n", 0, MT_ECORRUPT, "line 2, column 2", "no number"},
        {"1,2\n3,1e39\n", 0, MT_ECORRUPT, "line 2, column 2", "float32"},
        {"1,2\n3,10\n", 2, MT_ECORRUPT, "line 2, column 2", "label is out"},
        {"1,2\n3,-1\n", 2, MT_ECORRUPT, "line 2, column 2", "label is out"},
        {"1,2\n3,99999999999999999999\n", 2, MT_ECORRUPT, "line 2, column 2", "label is out"},
        {"1,2\n3,1.5\n", 2, MT_ECORRUPT, "line 2, column 2", "a label is"},
        {"1,2\n3,1.00000000000000000001\n", 2, MT_ECORRUPT, "line 2, column 2", "a label is"},
        {"1,2\n3,1e0\n", 2, MT_ECORRUPT, "line 2, column 2", "a label is"},
        {"1,2\n3,nan\n", 2, MT_ECORRUPT, "line 2, column 2", "a label is"},
        {"1,2\n3,\n", 2, MT_ECORRUPT, "line 2, column 2", "a label is"},
        {"1,2\n", 3, MT_EINVAL, "line 1", "column"},
        {"1\n", 1, MT_EINVAL, "line 1", "beside"},
        {"a,b\n", 0, MT_ECORRUPT, "", "no line"},
        {"", 0, MT_ECORRUPT, "", "no line"},
    };
    struct sgd_dataset set;
    temp_path(state, "a.csv", path);
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        mt_status st = csv(cases[i].text, cases[i].label, 10, &set);
        assert_int_equal(st.code, cases[i].code);
        assert_string_equal(where, cases[i].where);
        assert_non_null(strstr(st.what, cases[i].says));
    }
    assert_int_equal(sgd_csv_load(&(struct sgd_csv){.path = "/nowhere/at.csv"}, &faulty, where, &set).code, MT_ENOENT);
}

/* ---- npy ---- */

static size_t npy_make(char *out, const char *descr, const char *order, const char *shape, const void *data, size_t size)
{
    char head[256];
    int  n = snprintf(head, sizeof head, "{'descr': '%s', 'fortran_order': %s, 'shape': %s, }", descr, order, shape);
    while ((10 + n + 1) % 16)
        head[n++] = ' ';
    head[n++] = '\n';
    memcpy(out, "\x93NUMPY\1\0", 8);
    out[8] = (char)(n & 255), out[9] = (char)(n >> 8);
    memcpy(out + 10, head, (size_t)n);
    memcpy(out + 10 + n, data, size);
    return 10 + (size_t)n + size;
}

static void npy_is_mapped(void **state)
{
    const float        points[] = {1, 2, 3, 4, 5, 6};
    const int64_t      tags[] = {2, 0, 1};
    char               file[1024];
    struct sgd_dataset set;
    temp_path(state, "x.npy", path);
    temp_path(state, "y.npy", other);
    bytes_put(path, file, npy_make(file, "<f4", "False", "(3, 2)", points, sizeof points));
    bytes_put(other, file, npy_make(file, "<i8", "False", "(3,)", tags, sizeof tags));
    assert_int_equal(sgd_npy_map(path, other, 3, &faulty, where, &set).code, MT_OK);
    assert_int_equal(set.count, 3);
    assert_int_equal(set.record_size, 8);
    assert_int_equal(set.classes, 3);
    assert_memory_equal(set.records, points, sizeof points);
    assert_memory_equal(set.labels, "\2\0\1", 3);
    sgd_dataset_fini(&set);
    assert_int_equal(sgd_npy_map(path, NULL, 0, &faulty, where, &set).code, MT_OK);
    assert_null(set.labels);
    sgd_dataset_fini(&set);
    assert_int_equal(sgd_npy_map(path, other, 2, &faulty, where, &set).code, MT_ECORRUPT); /* a label is 2 */
    assert_string_equal(where, "record 0, byte 80");
    assert_ptr_equal(faulty, other);
    assert_int_equal(sgd_npy_map(other, path, 0, &faulty, where, &set).code, MT_ECORRUPT); /* labels of two floats */
    const int8_t negative[] = {2, -1, 1};
    bytes_put(other, file, npy_make(file, "|i1", "False", "(3,)", negative, sizeof negative));
    assert_int_equal(sgd_npy_map(path, other, 0, &faulty, where, &set).code, MT_ECORRUPT);
    assert_non_null(strstr(where, "record 1, "));
    bytes_put(other, file, npy_make(file, "|i1", "False", "(2,)", negative, 2));
    mt_status st = sgd_npy_map(path, other, 0, &faulty, where, &set);
    assert_int_equal(st.code, MT_ECORRUPT);
    assert_string_equal(where, "2 labels for 3 records");
    bytes_put(other, file, npy_make(file, "|i1", "False", "(3, 1)", (const int8_t[]){2, 0, 1}, 3)); /* a list, too */
    assert_int_equal(sgd_npy_map(path, other, 0, &faulty, where, &set).code, MT_OK);
    sgd_dataset_fini(&set);
}

static void npy_is_wrong(void **state)
{
    static const struct {
        const char *descr, *order, *shape;
        int         code;
    } cases[] = {
        {">f4", "False", "(3, 2)", MT_EUNSUPPORTED}, {"<f4", "True", "(3, 2)", MT_EUNSUPPORTED},
        {"<U4", "False", "(3, 2)", MT_EUNSUPPORTED}, {"<f16", "False", "(3, 2)", MT_EUNSUPPORTED},
        {"<f4", "False", "(4, 2)", MT_ECORRUPT},     {"<f4", "False", "(2, 2)", MT_ECORRUPT},
        {"<f4", "False", "(0, 2)", MT_ECORRUPT},     {"<f4", "False", "(x)", MT_ECORRUPT},
        {"<f4", "False", "()", MT_ECORRUPT},         {"<f4", "False", "(3, 99999999999, 99999999999)", MT_ECORRUPT},
    };
    const float        points[] = {1, 2, 3, 4, 5, 6};
    char               file[1024];
    struct sgd_dataset set;
    temp_path(state, "x.npy", path);
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        bytes_put(path, file, npy_make(file, cases[i].descr, cases[i].order, cases[i].shape, points, sizeof points));
        assert_int_equal(sgd_npy_map(path, NULL, 0, &faulty, where, &set).code, cases[i].code);
    }
    size_t size = npy_make(file, "<f4", "False", "(3, 2)", points, sizeof points);
    for (size_t cut = 0; cut < size; cut++) {
        bytes_put(path, file, cut);
        assert_int_equal(sgd_npy_map(path, NULL, 0, &faulty, where, &set).code, MT_ECORRUPT);
    }
    assert_int_equal(sgd_npy_map("/nowhere/at.npy", NULL, 0, &faulty, where, &set).code, MT_ENOENT);
}

/* ---- elements to inputs ---- */

static void elements_are_cast(void **state)
{
    const struct {
        char        kind;
        uint32_t    width;
        const void *bytes;
    } cases[] = {
        {'u', 1, (uint8_t[]){3, 5}}, {'u', 2, (uint16_t[]){3, 5}}, {'u', 4, (uint32_t[]){3, 5}}, {'u', 8, (uint64_t[]){3, 5}},
        {'i', 1, (int8_t[]){3, 5}},  {'i', 2, (int16_t[]){3, 5}},  {'i', 4, (int32_t[]){3, 5}},  {'i', 8, (int64_t[]){3, 5}},
        {'f', 4, (float[]){3, 5}},   {'f', 8, (double[]){3, 5}},
    };
    uint8_t odd[17];
    float   out[2];
    (void)state;
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        struct sgd_cast cast = {{cases[i].kind, cases[i].width}, 1, 0.5};
        assert_true(sgd_cast_is_known(cast.element));
        memcpy(odd + 1, cases[i].bytes, 2 * cases[i].width); /* where no such number may stand by itself */
        cast = sgd_cast_resolve(&cast);
        sgd_cast_run(&cast, odd + 1, 2, out);
        assert_true(out[0] == 4 && out[1] == 8);
    }
    assert_false(sgd_cast_is_known((struct sgd_element){'f', 2}) || sgd_cast_is_known((struct sgd_element){'u', 3}));
    int64_t         times[] = {1700000000000001, 1700000000000002};
    struct sgd_cast cast = {{'i', 8}, 1700000000000000, 1}, plain = {{'f', 4}, 0, 0};
    sgd_cast_run(&cast, (const uint8_t *)times, 2, out);
    assert_true(out[0] == 1 && out[1] == 2);
    plain = sgd_cast_resolve(&plain);
    sgd_cast_run(&plain, (const uint8_t *)(float[]){0.1f, -1e-40f}, 2, out);
    assert_true(out[0] == 0.1f && out[1] == -1e-40f);
}

/* ---- reading ahead ---- */

static void the_feed_gives_what_the_sampler_says(void **state)
{
    enum { RECORDS = 50, WIDTH = 5, MICRO = 3, VRANKS = 4 };
    uint8_t            bytes[RECORDS * WIDTH];
    struct sgd_dataset set;
    struct sgd_feed    feed;
    struct sgd_sampler sampler = {.seed = 5, .records = RECORDS, .vranks = VRANKS, .micro_batch = MICRO};
    temp_path(state, "records", path);
    for (size_t i = 0; i < sizeof bytes; i++)
        bytes[i] = (uint8_t)(i * 11 + i / 7);
    bytes_put(path, bytes, sizeof bytes);
    assert_int_equal(sgd_dataset_map(path, WIDTH, 0, &set).code, MT_OK);
    for (int is_mapped = 0; is_mapped < 2; is_mapped++) {
        struct sgd_dataset one = set;
        one.mapped = is_mapped ? set.mapped : NULL;
        assert_int_equal(sgd_feed_init(&feed, &sampler, &one).code, MT_OK);
        uint64_t samples = 0;
        uint32_t round = 0, begun_anew = 0;
        for (int step = 0; step < 400; step++) {
            uint32_t first = step / 50 % 2 ? 1 : 0, last = step / 100 % 2 ? 2 : VRANKS; /* other shares of the ranks */
            samples = step % 37 == 36 ? samples - VRANKS * MICRO : samples;             /* a step is repeated */
            struct sgd_lane lane = {first, last, step / 200 % 2 ? last : first};
            sgd_feed_share(&feed, lane);
            for (uint32_t done = 0; done < sgd_lane_length(&lane); done++) {
                uint32_t                  v = sgd_lane_vrank(&lane, done);
                uint64_t                  wanted[MICRO];
                const struct sgd_portion *got = sgd_feed_take(&feed, &(struct sgd_feed_at){samples, v});
                begun_anew += done > 0 && feed.round != round; /* what was gathered ahead was for nothing */
                round = feed.round;
                sgd_sampler_batch(&sampler, samples, v, wanted);
                assert_memory_equal(got->indices, wanted, sizeof wanted);
                for (int i = 0; i < MICRO; i++)
                    assert_memory_equal(got->records + i * WIDTH, bytes + wanted[i] * WIDTH, WIDTH);
            }
            samples += VRANKS * MICRO;
        }
        assert_int_equal(begun_anew, 0);
        sgd_feed_fini(&feed);
        sgd_feed_fini(&feed); /* twice is nothing */
    }
    sgd_dataset_fini(&set);
}

/* More was handed out than is filled: as if the thread had been passed. */
static void a_feed_that_is_ahead_of_itself_is_told(void **state)
{
    struct sgd_dataset set;
    struct sgd_feed    feed;
    struct sgd_sampler sampler = {.seed = 5, .records = 4, .vranks = 1, .micro_batch = 1};
    temp_path(state, "records", path);
    bytes_put(path, "abcd", 4);
    assert_int_equal(sgd_dataset_map(path, 1, 0, &set).code, MT_OK);
    assert_int_equal(sgd_feed_init(&feed, &sampler, &set).code, MT_OK);
    feed.has_thread = true; /* there is none: nothing is filled */
    feed.taken = 1;
    assert_string_not_equal(SAYS((void)sgd_feed_take(&feed, &feed.next_take)), "");
    pthread_mutex_unlock(&feed.lock);
    feed.has_thread = false;
    sgd_feed_fini(&feed);
    sgd_dataset_fini(&set);
}

int main(void)
{
#define TEST(f) cmocka_unit_test_setup_teardown(f, temp_make, temp_remove)
    const struct CMUnitTest tests[] = {
        TEST(csv_is_read),
        TEST(csv_label_is_named),
        TEST(csv_is_wrong),
        TEST(npy_is_mapped),
        TEST(npy_is_wrong),
        TEST(elements_are_cast),
        TEST(the_feed_gives_what_the_sampler_says),
        TEST(a_feed_that_is_ahead_of_itself_is_told),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
