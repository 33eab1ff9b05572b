/* SPDX-License-Identifier: Apache-2.0
 *
 * copy_test.c - the state as a file: it comes back as it was, and a file that is torn, changed, newer or something else is refused.
 */
#include "scheduler/head/copy/copy.h"

#include <stdarg.h>
#include <setjmp.h>
#include <cmocka.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

struct row {
    enum head_table table;
    const char     *key, *value;
};
static const struct row rows[] = {
    {HEAD_TABLE_META, "", "meta"}, {HEAD_TABLE_NAMES, "a", "one"}, {HEAD_TABLE_NAMES, "ab", ""}, {HEAD_TABLE_JOBS, "a", "two"}};
enum { ROWS = sizeof rows / sizeof *rows };

static mt_status give(struct head_copy *c, const struct row *r)
{
    return c->reader.record(&c->reader, r->table, (const uint8_t *)r->key, strlen(r->key), (const uint8_t *)r->value,
                            strlen(r->value));
}

static struct head_copy_info make(struct head_copy *c, size_t count)
{
    struct head_copy_info info;
    assert_int_equal(head_copy_begin(c, "me").code, MT_OK);
    for (size_t i = 0; i < count; i++)
        assert_int_equal(give(c, &rows[i]).code, MT_OK);
    assert_int_equal(head_copy_end(c, &info).code, MT_OK);
    return info;
}

struct finder {
    struct head_store_reader reader;
    size_t                   count;
};

static mt_status find(struct head_store_reader *reader, enum head_table table, const uint8_t *key, size_t key_size,
                      const uint8_t *value, size_t value_size)
{
    struct finder    *f = mt_container_of(reader, struct finder, reader);
    const struct row *r = &rows[f->count++];
    assert_int_equal(table, r->table);
    assert_true(mt_view_equal(mt_view_of(key, key_size), mt_view_text(r->key)));
    assert_true(mt_view_equal(mt_view_of(value, value_size), mt_view_text(r->value)));
    return mt_ok();
}

static void all_comes_back(void **unused)
{
    (void)unused;
    for (size_t count = 0; count <= ROWS; count++) {
        struct head_copy      c;
        struct finder         f = {.reader.record = find};
        struct head_copy_info info, made = make(&c, count);
        assert_int_equal(head_copy_read(mt_buf_view(&c.bytes), &info, &f.reader).code, MT_OK);
        assert_string_equal(info.cluster, "me");
        assert_int_equal(info.count, count);
        assert_int_equal(f.count, count);
        assert_memory_equal(&info, &made, sizeof info);
        head_copy_fini(&c);
    }
}

/* Read into memory of exactly that size, so that a sanitizer sees every byte beyond. */
static mt_status read_exact(const uint8_t *bytes, size_t size)
{
    struct head_copy_info info;
    uint8_t              *exact = malloc(size ? size : 1);
    memcpy(exact, bytes, size);
    mt_status st = head_copy_read(mt_view_of(exact, size), &info, NULL);
    free(exact);
    return st;
}

static void a_torn_file_is_refused_wherever_it_ends(void **unused)
{
    struct head_copy c;
    (void)unused;
    (void)make(&c, ROWS);
    for (size_t size = 0; size < c.bytes.size; size++) {
        mt_status st = read_exact(c.bytes.data, size);
        assert_int_equal(st.code, MT_ECORRUPT);
        assert_non_null(strstr(st.what, size < 16 ? "no backup" : "torn"));
    }
    assert_int_equal(mt_buf_append(&c.bytes, "x", 1).code, MT_OK);
    assert_int_equal(read_exact(c.bytes.data, c.bytes.size).code, MT_ECORRUPT);
    head_copy_fini(&c);
}

static void a_changed_byte_is_noticed_wherever_it_is(void **unused)
{
    struct head_copy c;
    (void)unused;
    (void)make(&c, ROWS);
    for (size_t i = 0; i < c.bytes.size; i++)
        for (int bit = 0; bit < 8; bit++) {
            c.bytes.data[i] ^= (uint8_t)(1 << bit);
            int code = read_exact(c.bytes.data, c.bytes.size).code;
            assert_true(code == MT_ECORRUPT || (code == MT_EVERSION && i >= 16 && i < 20)); /* the format */
            c.bytes.data[i] ^= (uint8_t)(1 << bit);
        }
    assert_int_equal(read_exact(c.bytes.data, c.bytes.size).code, MT_OK);
    head_copy_fini(&c);
}

/* Equal states have equal files: so a record stands at one place only, and once. */
static void records_out_of_order_are_no_file(void **unused)
{
    static const size_t orders[][2] = {{1, 0}, {2, 1}, {3, 2}, {1, 1}};
    (void)unused;
    for (size_t i = 0; i < sizeof orders / sizeof *orders; i++) {
        struct head_copy      c;
        struct head_copy_info info;
        assert_int_equal(head_copy_begin(&c, "me").code, MT_OK);
        assert_int_equal(give(&c, &rows[orders[i][0]]).code, MT_OK);
        assert_int_equal(give(&c, &rows[orders[i][1]]).code, MT_OK);
        assert_int_equal(head_copy_end(&c, &info).code, MT_ECORRUPT);
        head_copy_fini(&c);
    }
}

static void a_digest_is_of_the_cluster_too(void **unused)
{
    struct head_copy      a, b;
    struct head_copy_info of_a = make(&a, ROWS), of_b;
    (void)unused;
    assert_int_equal(head_copy_begin(&b, "you").code, MT_OK);
    for (size_t i = 0; i < ROWS; i++)
        assert_int_equal(give(&b, &rows[i]).code, MT_OK);
    assert_int_equal(head_copy_end(&b, &of_b).code, MT_OK);
    assert_memory_not_equal(of_a.digest, of_b.digest, sizeof of_a.digest);
    head_copy_fini(&a);
    head_copy_fini(&b);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(all_comes_back),
        cmocka_unit_test(a_torn_file_is_refused_wherever_it_ends),
        cmocka_unit_test(a_changed_byte_is_noticed_wherever_it_is),
        cmocka_unit_test(records_out_of_order_are_no_file),
        cmocka_unit_test(a_digest_is_of_the_cluster_too),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
