/* SPDX-License-Identifier: Apache-2.0
 *
 * db.h - the SQLite door: a database of one file with a write-ahead log, statements, transactions, failures as mt_status.
 *
 *     struct db       db = {0};
 *     struct db_query q = {0};
 *     MT_TRY(db_open(&db, path, &options));
 *     MT_TRY(db_prepare(&db, &q, "SELECT value FROM spec WHERE key = ?1", "read"));
 *     db_bind_text(&q, 1, "seed");
 *     for (bool has_row; (st = db_next(&q, &has_row)).code == 0 && has_row;)
 *         puts(db_text(&q, 0));
 *     db_finish(&q);
 *     db_close(&db);
 *
 * Every failure leaves its reason in `db.text`, as "step (SQLite's own words)", and is one of: EDISK_FULL (the disk, a quota or a
 * limit of file sizes), ECORRUPT, EAGAIN (another process is in it), EAUTH, ENOMEM, ESYS.
 *
 * Thread: one at a time. Everything blocks on the disk. Zeroed structs may be finished and closed.
 */
#ifndef DB_DB_H
#define DB_DB_H

#include "core/base/buf.h"
#include "core/base/status.h"

#include <stdbool.h>
#include <stdint.h>

enum { DB_TEXT_SIZE = 256 };

struct sqlite3;
struct sqlite3_stmt;

struct db {
    struct sqlite3      *handle;
    struct sqlite3_stmt *pages; /* asks how many it has; NULL: db_reserve was not called yet */
    int64_t              page_bytes;
    char                 text[DB_TEXT_SIZE]; /* of the last failure */
};

struct db_options {
    bool may_create;       /* the file, where there is none, with the umask's mode */
    bool is_exclusive;     /* no other process may have it open until this one has ended; EAGAIN where one has */
    bool is_durable;       /* a commit is on the disk when db_commit returns; else it survives this process, but not the machine */
    int  wait_ms;          /* for another process' transaction; 0: not at all */
    int  checkpoint_pages; /* of the log, which are then copied into the file */
};

/* Opens; also after a failure db_close is due, and `db->text` may be read before. */
MT_MUST_USE mt_status db_open(struct db *db, const char *path, const struct db_options *options);
/* All its queries have been finished. */
void db_close(struct db *db);
/* Reads the whole file: ECORRUPT where its pages do not fit together. (Changed bytes inside a value are not seen.) */
MT_MUST_USE mt_status db_check(struct db *db);

/* Runs statements that give no rows. `step` says what they do, for `text`: a literal, here and below. */
MT_MUST_USE mt_status db_run(struct db *db, const char *sql, const char *step);

/* Copies the log into the file, as far as there is room: the next commit begins it anew. */
MT_MUST_USE mt_status db_restart_log(struct db *db);
/* Makes the file longer than it needs to be, until the log is copied the next time: so much of it can be copied though others have
 * filled the disk meanwhile. EDISK_FULL. */
MT_MUST_USE mt_status db_reserve(struct db *db, uint64_t bytes);

/* All or nothing. The writer's lock is taken at the begin, so that no later statement finds it taken. After a failure between the
 * two, db_rollback. */
MT_MUST_USE mt_status db_begin(struct db *db);
MT_MUST_USE mt_status db_commit(struct db *db);
void                  db_rollback(struct db *db);

/* ---- one statement, with parameters ?1, ?2, ... */

struct db_query {
    struct db           *db;
    struct sqlite3_stmt *stmt;
    const char          *step;
    int                  bound; /* the first failure of a bind; the next call that returns a status tells it */
};

MT_MUST_USE mt_status db_prepare(struct db *db, struct db_query *query, const char *sql, const char *step);
void                  db_finish(struct db_query *query);

/* Texts and bytes are borrowed until the query has been run. NULL, a NaN and no bytes at NULL are stored as NULL. */
void db_bind_int(struct db_query *query, int index, int64_t value);
void db_bind_real(struct db_query *query, int index, double value);
void db_bind_text(struct db_query *query, int index, const char *text);
void db_bind_bytes(struct db_query *query, int index, const void *bytes, size_t size);

/* The next row. Where there is none, and after a failure, the query is as prepared: it may be bound and run again. */
MT_MUST_USE mt_status db_next(struct db_query *query, bool *out_has_row);
/* Runs a query that gives no rows, once. */
MT_MUST_USE mt_status db_do(struct db_query *query);
/* Leaves the rows that were not asked for. */
void db_rewind(struct db_query *query);

/* Columns of the row, from 0; texts and bytes are borrowed until the next db_next. */
int64_t     db_int(struct db_query *query, int column);
double      db_real(struct db_query *query, int column); /* NaN where it is NULL */
const char *db_text(struct db_query *query, int column); /* NULL where it is NULL */
mt_view     db_bytes(struct db_query *query, int column);

#endif
