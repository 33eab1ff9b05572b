/* SPDX-License-Identifier: Apache-2.0
 *
 * rows_test.c - rows of texts: what was written is read, what changed is said, and foreign bytes are refused. Thread: one.
 */
#include "core/base/rng.h"
#include "core/ds/rows.h"
#include "tests/unit/base/test.h"

#include <stdio.h>
#include <stdlib.h>

enum { COLUMNS = 4, ROWS = 500 };

static void assert_row(struct mt_rows_reader *r, uint32_t changed, const char *const *cells)
{
    assert_int_equal(mt_rows_next(r).code, 0);
    assert_int_equal(r->changed, changed);
    for (size_t i = 0; i < r->columns; i++)
        assert_string_equal(r->cells[i], cells[i]);
}

static void says_what_changed(void **state)
{
    static const char *const rows[][COLUMNS] = {
        {"task-0001", "", "mix", "17"}, {"task-0002", "", "mix", "17"}, {"task-0002", "", "mix", "17"},
        {"task", "x", "", "170"},       {"task-0002", "", "y", "1"},
    };
    static const uint32_t changed[] = {0xd, 0x1, 0x0, 0xf, 0xf};
    struct mt_rows        out = {0};
    struct mt_rows_reader in;
    (void)state;
    for (size_t i = 0; i < 5; i++) {
        const char *cells[COLUMNS];
        memcpy(cells, rows[i], sizeof cells);
        for (size_t k = 0; k < COLUMNS; k++)
            cells[k] = cells[k][0] ? cells[k] : NULL;
        assert_int_equal(mt_rows_add(&out, COLUMNS, cells, 100).code, 0);
    }
    assert_int_equal(out.count, 5);
    assert_int_equal(mt_rows_read(&in, mt_buf_view(&out.bytes), COLUMNS, out.count).code, 0);
    for (size_t i = 0; i < 5; i++)
        assert_row(&in, changed[i], rows[i]);
    assert_int_equal(mt_rows_next(&in).code, MT_ENOENT);
    assert_int_equal(mt_rows_next(&in).code, MT_ENOENT);
    mt_rows_read_fini(&in);
    mt_rows_fini(&out);
}

/* Long cells, cells that begin alike for longer than a byte can say, and some that are cut. */
static void any_text(void **state)
{
    enum { MOST = 600, CUT = 500 };
    static char           texts[ROWS][COLUMNS][MOST];
    struct mt_rows        out = {0};
    struct mt_rows_reader in;
    mt_rng                rng = {.state = 5};
    (void)state;
    for (size_t r = 0; r < ROWS; r++) {
        const char *cells[COLUMNS];
        for (size_t c = 0; c < COLUMNS; c++) {
            size_t size = (size_t)mt_rng_below(&rng, MOST), at = (size_t)mt_rng_below(&rng, MOST);
            memcpy(texts[r][c], r ? texts[r - 1][c] : "", r ? MOST : 1);
            if (at < size)
                memset(texts[r][c], 'a' + (int)mt_rng_below(&rng, 2), size - at);
            texts[r][c][size] = 0;
            cells[c] = texts[r][c];
        }
        assert_int_equal(mt_rows_add(&out, COLUMNS, cells, CUT).code, 0);
    }
    assert_int_equal(mt_rows_read(&in, mt_buf_view(&out.bytes), COLUMNS, ROWS).code, 0);
    for (size_t r = 0; r < ROWS; r++) {
        assert_int_equal(mt_rows_next(&in).code, 0);
        for (size_t c = 0; c < COLUMNS; c++) {
            texts[r][c][CUT] = 0;
            assert_string_equal(in.cells[c], texts[r][c]);
        }
    }
    assert_int_equal(mt_rows_next(&in).code, MT_ENOENT);
    mt_rows_read_fini(&in);
    mt_rows_fini(&out);
}

static int32_t read_all(const void *bytes, size_t size, size_t columns, uint32_t count)
{
    void                 *exact = malloc(size ? size : 1); /* so that ASan sees a read behind it */
    struct mt_rows_reader in;
    mt_status             st;
    assert_non_null(exact);
    memcpy(exact, bytes, size);
    st = mt_rows_read(&in, mt_view_of(exact, size), columns, count);
    while (st.code == 0)
        st = mt_rows_next(&in);
    mt_rows_read_fini(&in);
    free(exact);
    return st.code;
}

static void foreign_bytes(void **state)
{
    static const char *const cells[COLUMNS] = {"one", "two", "", "three"};
    struct mt_rows           out = {0};
    (void)state;
    assert_int_equal(read_all("", 0, COLUMNS, 0), MT_ENOENT);
    assert_int_equal(read_all("", 0, COLUMNS, 1), MT_EPROTO);
    assert_int_equal(read_all("", 0, MT_ROWS_COLUMNS_MAX + 1, 0), MT_EPROTO);
    assert_int_equal(read_all("\1\0\0ab", 5, COLUMNS, 1), MT_EPROTO);         /* no NUL */
    assert_int_equal(read_all("\1\0\1ab", 6, COLUMNS, 1), MT_EPROTO);         /* more than is above */
    assert_int_equal(read_all("\1\0", 2, COLUMNS, 1), MT_EPROTO);             /* a cell is missing */
    assert_int_equal(read_all("\20\0\0ab", 6, COLUMNS, 1), MT_EPROTO);        /* a column that is not */
    assert_int_equal(read_all("\1\0\0a\0\1\0\3b", 9, COLUMNS, 2), MT_EPROTO); /* more than is above, later */
    assert_int_equal(read_all("\1\0\0a\0\1\0\1b", 10, COLUMNS, 2), MT_ENOENT);
    assert_int_equal(read_all("\1\0\0a\0\0", 6, COLUMNS, 1), MT_EPROTO); /* bytes are left over */
    for (int i = 0; i < 3; i++)
        assert_int_equal(mt_rows_add(&out, COLUMNS, cells, 100).code, 0);
    for (size_t size = 0; size < out.bytes.size; size++)
        assert_int_equal(read_all(out.bytes.data, size, COLUMNS, 3), MT_EPROTO);
    for (size_t at = 0; at < out.bytes.size; at++) {
        for (unsigned bit = 0; bit < 8; bit++) {
            out.bytes.data[at] ^= (uint8_t)(1u << bit);
            (void)read_all(out.bytes.data, out.bytes.size, COLUMNS, 3); /* nothing but a refusal, or other texts */
            out.bytes.data[at] ^= (uint8_t)(1u << bit);
        }
    }
    mt_rows_fini(&out);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(says_what_changed),
        cmocka_unit_test(any_text),
        cmocka_unit_test(foreign_bytes),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
