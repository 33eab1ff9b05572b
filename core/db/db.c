/* SPDX-License-Identifier: Apache-2.0
 *
 * db.c - the calls of SQLite. See db.h.
 *
 * Owns:   the handle of a database, the statement of a query. Thread: the caller's.
 */
#include "core/db/db.h"

#include <sqlite3.h>

#include <errno.h>
#include <math.h>
#include <stdio.h>
#include <string.h>

/* ---- failures ---- */

static int32_t code_of(int rc, int sys)
{
    if (rc == SQLITE_IOERR_WRITE && sys != EIO)
        return MT_EDISK_FULL; /* a quota, or a limit of file sizes */
    switch (rc & 0xff) {
    case SQLITE_FULL: return MT_EDISK_FULL;
    case SQLITE_CORRUPT:
    case SQLITE_NOTADB: return MT_ECORRUPT;
    case SQLITE_BUSY:
    case SQLITE_LOCKED: return MT_EAGAIN;
    case SQLITE_NOMEM: return MT_ENOMEM;
    case SQLITE_PERM:
    case SQLITE_READONLY:
    case SQLITE_AUTH: return MT_EAUTH;
    default: return MT_ESYS;
    }
}

static mt_status fail(struct db *db, int rc, const char *step)
{
    int sys = db->handle ? sqlite3_system_errno(db->handle) : 0;
    snprintf(db->text, sizeof db->text, "%s (%s)", step, db->handle ? sqlite3_errmsg(db->handle) : sqlite3_errstr(rc));
    return mt_error(code_of(rc, sys), sys, step);
}

/* ---- a database ---- */

mt_status db_open(struct db *db, const char *path, const struct db_options *options)
{
    char sql[256];
    int  flags = SQLITE_OPEN_READWRITE | SQLITE_OPEN_NOMUTEX | SQLITE_OPEN_EXRESCODE;
    *db = (struct db){0};
    int rc = sqlite3_open_v2(path, &db->handle, flags | (options->may_create ? SQLITE_OPEN_CREATE : 0), NULL);
    if (rc != SQLITE_OK)
        return fail(db, rc, "open");
    sqlite3_busy_timeout(db->handle, options->wait_ms);
    snprintf(sql, sizeof sql,
             "PRAGMA locking_mode = %s; PRAGMA journal_mode = WAL; PRAGMA trusted_schema = OFF;"
             "PRAGMA wal_autocheckpoint = %d; PRAGMA synchronous = %s",
             options->is_exclusive ? "EXCLUSIVE" : "NORMAL", options->checkpoint_pages, options->is_durable ? "FULL" : "OFF");
    MT_TRY(db_run(db, sql, "set up"));
    if (options->is_exclusive) /* the first access takes the lock, which is then kept */
        MT_TRY(db_run(db, "BEGIN IMMEDIATE; COMMIT", "lock"));
    return mt_ok();
}

void db_close(struct db *db)
{
    sqlite3_finalize(db->pages);
    sqlite3_close(db->handle);
    db->handle = NULL;
    db->pages = NULL;
}

mt_status db_check(struct db *db)
{
    struct db_query q = {0};
    bool            has_row = false, is_fine = false;
    MT_TRY(db_prepare(db, &q, "PRAGMA quick_check(1)", "check"));
    mt_status st = db_next(&q, &has_row);
    if (st.code == 0 && has_row) {
        const char *said = db_text(&q, 0);
        is_fine = said && strcmp(said, "ok") == 0;
        if (!is_fine)
            snprintf(db->text, sizeof db->text, "check (%s)", said ? said : "no answer");
    }
    db_finish(&q);
    return st.code != 0 || is_fine ? st : mt_error(MT_ECORRUPT, 0, "check");
}

mt_status db_run(struct db *db, const char *sql, const char *step)
{
    int rc = sqlite3_exec(db->handle, sql, NULL, NULL, NULL);
    return rc == SQLITE_OK ? mt_ok() : fail(db, rc, step);
}

mt_status db_restart_log(struct db *db)
{
    return db_run(db, "PRAGMA wal_checkpoint(RESTART)", "copy the log");
}

/* Once: it is asked after each commit. */
static mt_status pages_prepare(struct db *db)
{
    struct db_query q = {0};
    bool            has_row = false;
    if (db->pages)
        return mt_ok();
    MT_TRY(db_prepare(db, &q, "PRAGMA page_size", "reserve"));
    mt_status st = db_next(&q, &has_row);
    db->page_bytes = has_row ? db_int(&q, 0) : 0;
    db_finish(&q);
    MT_TRY(st);
    MT_TRY(db_prepare(db, &q, "PRAGMA page_count", "reserve"));
    db->pages = q.stmt;
    return mt_ok();
}

/* SQLite asks the file system for more than it needs where it grows in chunks, and cuts that off again after a checkpoint. */
mt_status db_reserve(struct db *db, uint64_t bytes)
{
    enum { CHUNK_BYTES = 64 * 1024 };
    bool          has_row = false;
    int           chunk = CHUNK_BYTES;
    sqlite3_int64 size = 0;
    MT_TRY(pages_prepare(db));
    struct db_query q = {.db = db, .stmt = db->pages, .step = "reserve"};
    MT_TRY(db_next(&q, &has_row));
    if (has_row)
        size = db_int(&q, 0) * db->page_bytes + (sqlite3_int64)bytes;
    db_rewind(&q);
    int rc = sqlite3_file_control(db->handle, "main", SQLITE_FCNTL_CHUNK_SIZE, &chunk);
    if (rc == SQLITE_OK)
        rc = sqlite3_file_control(db->handle, "main", SQLITE_FCNTL_SIZE_HINT, &size);
    return rc == SQLITE_OK ? mt_ok() : mt_error(MT_EDISK_FULL, 0, "reserve");
}

mt_status db_begin(struct db *db)
{
    return db_run(db, "BEGIN IMMEDIATE", "begin");
}

mt_status db_commit(struct db *db)
{
    return db_run(db, "COMMIT", "commit");
}

void db_rollback(struct db *db)
{
    sqlite3_exec(db->handle, "ROLLBACK", NULL, NULL, NULL);
}

/* ---- a statement ---- */

mt_status db_prepare(struct db *db, struct db_query *query, const char *sql, const char *step)
{
    *query = (struct db_query){.db = db, .step = step};
    int rc = sqlite3_prepare_v2(db->handle, sql, -1, &query->stmt, NULL);
    return rc == SQLITE_OK ? mt_ok() : fail(db, rc, step);
}

void db_finish(struct db_query *query)
{
    sqlite3_finalize(query->stmt);
    *query = (struct db_query){0};
}

static void bound(struct db_query *query, int rc)
{
    if (query->bound == SQLITE_OK)
        query->bound = rc;
}

void db_bind_int(struct db_query *query, int index, int64_t value)
{
    bound(query, sqlite3_bind_int64(query->stmt, index, value));
}

void db_bind_real(struct db_query *query, int index, double value)
{
    bound(query, sqlite3_bind_double(query->stmt, index, value));
}

void db_bind_text(struct db_query *query, int index, const char *text)
{
    bound(query, sqlite3_bind_text(query->stmt, index, text, -1, SQLITE_STATIC));
}

void db_bind_bytes(struct db_query *query, int index, const void *bytes, size_t size)
{
    bound(query, sqlite3_bind_blob64(query->stmt, index, bytes, size, SQLITE_STATIC));
}

void db_rewind(struct db_query *query)
{
    sqlite3_reset(query->stmt);
    sqlite3_clear_bindings(query->stmt);
    query->bound = SQLITE_OK;
}

mt_status db_next(struct db_query *query, bool *out_has_row)
{
    int       rc = query->bound == SQLITE_OK ? sqlite3_step(query->stmt) : query->bound;
    mt_status st = rc == SQLITE_ROW || rc == SQLITE_DONE ? mt_ok() : fail(query->db, rc, query->step);
    *out_has_row = rc == SQLITE_ROW;
    if (!*out_has_row)
        db_rewind(query);
    return st;
}

mt_status db_do(struct db_query *query)
{
    bool      has_row;
    mt_status st = db_next(query, &has_row);
    MT_ASSERT(!has_row);
    return st;
}

/* ---- a row ---- */

int64_t db_int(struct db_query *query, int column)
{
    return sqlite3_column_int64(query->stmt, column);
}

double db_real(struct db_query *query, int column)
{
    bool is_null = sqlite3_column_type(query->stmt, column) == SQLITE_NULL;
    return is_null ? (double)NAN : sqlite3_column_double(query->stmt, column);
}

const char *db_text(struct db_query *query, int column)
{
    return (const char *)sqlite3_column_text(query->stmt, column);
}

mt_view db_bytes(struct db_query *query, int column)
{
    const void *bytes = sqlite3_column_blob(query->stmt, column);
    return (mt_view){bytes, (size_t)sqlite3_column_bytes(query->stmt, column)};
}
