/* SPDX-License-Identifier: Apache-2.0
 *
 * db_test.c - the SQLite door: values come back, a transaction is all or nothing, a query may be run again after it failed, and
 * what is wrong with a file is said by its code. (That commits survive SIGKILL: tests/unit/head/store/store_test.c.)
 */
#include "core/db/db.h"

#include <stdarg.h>
#include <setjmp.h>
#include <cmocka.h>
#include <fcntl.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static const struct db_options options = {.may_create = true, .is_durable = true, .checkpoint_pages = 100};

struct place {
    char folder[64], path[96];
};

static int setup(void **state)
{
    struct place *p = calloc(1, sizeof *p);
    snprintf(p->folder, sizeof p->folder, "/tmp/manta-db-XXXXXX");
    *state = p;
    if (!mkdtemp(p->folder))
        return -1;
    snprintf(p->path, sizeof p->path, "%s/some.db", p->folder);
    return 0;
}

static int teardown(void **state)
{
    static const char *const ends[] = {"", "-wal", "-shm"};
    struct place            *p = *state;
    char                     path[128];
    for (size_t i = 0; i < sizeof ends / sizeof *ends; i++) {
        snprintf(path, sizeof path, "%s%s", p->path, ends[i]);
        unlink(path);
    }
    int rc = rmdir(p->folder);
    free(p);
    return rc;
}

static void ok(struct db *db, mt_status st)
{
    if (st.code != MT_OK)
        fail_msg("%d: %s", st.code, db->text);
}

static void open_with_table(struct db *db, const struct place *p)
{
    ok(db, db_open(db, p->path, &options));
    ok(db, db_run(db, "CREATE TABLE IF NOT EXISTS t(k INTEGER PRIMARY KEY, r REAL, s TEXT, b BLOB)", "make the table"));
}

static void insert(struct db *db, int64_t k, double r, const char *s, mt_view b)
{
    struct db_query q;
    ok(db, db_prepare(db, &q, "INSERT INTO t VALUES(?1, ?2, ?3, ?4)", "insert"));
    db_bind_int(&q, 1, k);
    db_bind_real(&q, 2, r);
    db_bind_text(&q, 3, s);
    db_bind_bytes(&q, 4, b.data, b.size);
    ok(db, db_do(&q));
    db_finish(&q);
}

static int64_t rows(struct db *db)
{
    struct db_query q;
    bool            has_row;
    ok(db, db_prepare(db, &q, "SELECT count(*) FROM t", "count"));
    ok(db, db_next(&q, &has_row));
    assert_true(has_row);
    int64_t count = db_int(&q, 0);
    ok(db, db_next(&q, &has_row));
    assert_false(has_row);
    db_finish(&q);
    return count;
}

static void values_come_back(void **state)
{
    struct db       db;
    struct db_query q;
    bool            has_row;
    open_with_table(&db, *state);
    insert(&db, INT64_MIN, 0.1, "text", mt_view_of("\0\1", 2));
    insert(&db, 7, (double)NAN, NULL, mt_view_of("", 0));
    db_close(&db);
    open_with_table(&db, *state);
    ok(&db, db_check(&db));
    ok(&db, db_prepare(&db, &q, "SELECT k, r, s, b FROM t ORDER BY k", "read"));
    ok(&db, db_next(&q, &has_row));
    assert_true(has_row && db_int(&q, 0) == INT64_MIN && db_real(&q, 1) == 0.1);
    assert_string_equal(db_text(&q, 2), "text");
    assert_true(mt_view_equal(db_bytes(&q, 3), mt_view_of("\0\1", 2)));
    ok(&db, db_next(&q, &has_row));
    assert_true(has_row && db_int(&q, 0) == 7 && isnan(db_real(&q, 1)) && db_bytes(&q, 3).size == 0);
    assert_null(db_text(&q, 2));
    ok(&db, db_next(&q, &has_row));
    assert_false(has_row);
    db_finish(&q);
    db_close(&db);
}

static void a_transaction_is_all_or_nothing(void **state)
{
    struct db db;
    open_with_table(&db, *state);
    ok(&db, db_begin(&db));
    insert(&db, 1, 1, "a", mt_view_of("", 0));
    db_rollback(&db);
    assert_int_equal(rows(&db), 0);
    ok(&db, db_begin(&db));
    insert(&db, 1, 1, "a", mt_view_of("", 0));
    ok(&db, db_commit(&db));
    assert_int_equal(rows(&db), 1);
    db_close(&db);
}

static void a_query_that_failed_may_be_run_again(void **state)
{
    struct db       db;
    struct db_query q;
    open_with_table(&db, *state);
    ok(&db, db_prepare(&db, &q, "INSERT INTO t(k) VALUES(?1)", "insert a key"));
    db_bind_int(&q, 1, 1);
    ok(&db, db_do(&q));
    db_bind_int(&q, 1, 1);
    assert_int_equal(db_do(&q).code, MT_ESYS); /* it is there */
    assert_non_null(strstr(db.text, "insert a key (UNIQUE constraint failed"));
    db_bind_int(&q, 99, 2); /* no such parameter: the run tells */
    assert_int_equal(db_do(&q).code, MT_ESYS);
    db_bind_int(&q, 1, 2);
    ok(&db, db_do(&q));
    db_finish(&q);
    assert_int_equal(rows(&db), 2);
    assert_int_equal(db_prepare(&db, &q, "SELECT nothing FROM nowhere", "read").code, MT_ESYS);
    db_finish(&q);
    db_close(&db);
}

static void what_is_wrong_with_a_file_is_said(void **state)
{
    struct place     *p = *state;
    struct db         db, other;
    struct db_options missing = {.checkpoint_pages = 100}, alone = options;
    alone.is_exclusive = true;
    assert_int_equal(db_open(&db, p->path, &missing).code, MT_ESYS);
    assert_non_null(strstr(db.text, "unable to open"));
    db_close(&db);
    ok(&db, db_open(&db, p->path, &alone));
    assert_int_equal(db_open(&other, p->path, &alone).code, MT_EAGAIN); /* somebody else's */
    db_close(&other);
    db_close(&db);
    int fd = open(p->path, O_WRONLY | O_TRUNC);
    assert_true(fd >= 0 && write(fd, "this is no database, but a text that is long enough", 51) == 51);
    close(fd);
    assert_int_equal(db_open(&db, p->path, &alone).code, MT_ECORRUPT);
    db_close(&db);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(values_come_back, setup, teardown),
        cmocka_unit_test_setup_teardown(a_transaction_is_all_or_nothing, setup, teardown),
        cmocka_unit_test_setup_teardown(a_query_that_failed_may_be_run_again, setup, teardown),
        cmocka_unit_test_setup_teardown(what_is_wrong_with_a_file_is_said, setup, teardown),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
