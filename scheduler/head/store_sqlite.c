/* SPDX-License-Identifier: Apache-2.0
 *
 * store_sqlite.c - the head's store in one SQLite file: write-ahead log, full synchronisation, one table of records.
 *
 *   state.db   store(key, value)                        schema, cluster
 *              kv(tbl, key, value, version, sum)        one row a record; sum covers table, key and value
 *
 * Owns:    the database, and by an exclusive lock the state folder: a second head is refused as long as this one lives.
 * Always:  a commit is on the disk before `apply` returns success; after any failure nothing is applied any more.
 */
#include "core/base/id.h"
#include "core/base/plant.h"
#include "core/io/listener.h"
#include "scheduler/head/store.h"

#include <sqlite3.h>

#include <errno.h>
#include <fcntl.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

enum { SCHEMA = 1, VALUE_VERSION = 1, PATH_SIZE = 4096 };
static const char FILE_NAME[] = "state.db";

struct sqlite_store {
    struct head_store store;
    sqlite3          *db;
    sqlite3_stmt     *put, *drop;
    mt_status         broken; /* the failure after which nothing is applied */
    char              path[PATH_SIZE];
};

static mt_status sqlite_load(struct head_store *store, struct head_store_reader *reader);
static mt_status sqlite_apply(struct head_store *store, const struct head_store_batch *batches, size_t count);
static void sqlite_close(struct head_store *store);
static const struct head_store_ops sqlite_ops = {sqlite_load, sqlite_apply, sqlite_close};

/* ---- failures ---- */

static int32_t code_of(int rc)
{
    switch (rc & 0xff) {
    case SQLITE_FULL:
        return MT_EDISK_FULL;
    case SQLITE_CORRUPT:
    case SQLITE_NOTADB:
        return MT_ECORRUPT;
    case SQLITE_BUSY:
    case SQLITE_LOCKED:
        return MT_EEXIST;
    case SQLITE_NOMEM:
        return MT_ENOMEM;
    case SQLITE_PERM:
    case SQLITE_READONLY:
    case SQLITE_AUTH:
        return MT_EAUTH;
    default:
        return MT_ESYS;
    }
}

static const char *advice(int32_t code)
{
    switch (code) {
    case MT_EDISK_FULL:
        return "the disk is full: make room and start the head again; what it has acknowledged is kept";
    case MT_ECORRUPT:
        return "the file is damaged: restore it from a copy, or move it away to begin with an empty cluster";
    case MT_EEXIST:
        return "another head uses this state folder: stop it, or choose another --state";
    case MT_EAUTH:
        return "the file can't be written: it and its folder must belong to this user";
    case MT_ENOMEM:
        return "there is not enough memory; what the head has acknowledged is kept";
    default:
        return "the disk failed: look at the system's log; what the head has acknowledged is kept";
    }
}

static mt_status fail(struct sqlite_store *s, int rc, const char *step)
{
    int32_t code = code_of(rc);
    snprintf(s->store.text, sizeof s->store.text, "%.300s: %s (%s): %s", s->path, step, sqlite3_errmsg(s->db),
             advice(code));
    return mt_error(code, s->db ? sqlite3_system_errno(s->db) : 0, "use the head's store");
}

static mt_status run(struct sqlite_store *s, const char *sql, const char *step)
{
    int rc = sqlite3_exec(s->db, sql, NULL, NULL, NULL);
    return rc == SQLITE_OK ? mt_ok() : fail(s, rc, step);
}

static uint64_t sum_of(int table, const void *key, size_t key_size, const void *value, size_t value_size)
{
    uint64_t sum = 0xcbf29ce484222325u ^ (uint64_t)table;
    for (size_t i = 0; i < key_size; i++)
        sum = (sum ^ ((const uint8_t *)key)[i]) * 0x100000001b3u;
    sum = (sum ^ key_size) * 0x100000001b3u;
    for (size_t i = 0; i < value_size; i++)
        sum = (sum ^ ((const uint8_t *)value)[i]) * 0x100000001b3u;
    return sum;
}

/* ---- opening ---- */

/* SQLite would make the file with the umask's mode; its log takes the mode of the file. */
static mt_status make_file(struct sqlite_store *s)
{
    int fd = open(s->path, O_RDWR | O_CREAT | O_NOFOLLOW | O_CLOEXEC, 0600);
    if (fd >= 0) {
        int rc = fchmod(fd, 0600);
        close(fd);
        if (rc == 0)
            return mt_ok();
    }
    int sys = errno;
    snprintf(s->store.text, sizeof s->store.text, "%.300s: %s: the state folder must be this user's own", s->path,
             strerror(sys));
    return mt_error(sys == ENOSPC ? MT_EDISK_FULL : MT_ESYS, sys, "make the head's store");
}

static mt_status check_integrity(struct sqlite_store *s)
{
    sqlite3_stmt *q = NULL;
    int           rc = sqlite3_prepare_v2(s->db, "PRAGMA quick_check(1)", -1, &q, NULL);
    if (rc == SQLITE_OK)
        rc = sqlite3_step(q);
    bool is_fine = rc == SQLITE_ROW && strcmp((const char *)sqlite3_column_text(q, 0), "ok") == 0;
    sqlite3_finalize(q);
    if (is_fine)
        return mt_ok();
    return fail(s, rc == SQLITE_ROW ? SQLITE_CORRUPT : rc, "check the database");
}

static mt_status prepare(struct sqlite_store *s)
{
    static const char put[] = "INSERT INTO kv(tbl, key, value, version, sum) VALUES(?1, ?2, ?3, ?4, ?5) "
                              "ON CONFLICT(tbl, key) DO UPDATE SET value = ?3, version = ?4, sum = ?5";
    int rc = sqlite3_prepare_v2(s->db, put, -1, &s->put, NULL);
    if (rc == SQLITE_OK)
        rc = sqlite3_prepare_v2(s->db, "DELETE FROM kv WHERE tbl = ?1 AND key = ?2", -1, &s->drop, NULL);
    return rc == SQLITE_OK ? mt_ok() : fail(s, rc, "prepare");
}

/* The value of a setting; "" where there is none. */
static mt_status setting(struct sqlite_store *s, const char *key, char *out, size_t size)
{
    sqlite3_stmt *q = NULL;
    int           rc = sqlite3_prepare_v2(s->db, "SELECT value FROM store WHERE key = ?1", -1, &q, NULL);
    if (rc == SQLITE_OK)
        rc = sqlite3_bind_text(q, 1, key, -1, SQLITE_STATIC);
    if (rc == SQLITE_OK)
        rc = sqlite3_step(q);
    out[0] = '\0';
    if (rc == SQLITE_ROW)
        snprintf(out, size, "%s", (const char *)sqlite3_column_text(q, 0));
    sqlite3_finalize(q);
    return rc == SQLITE_ROW || rc == SQLITE_DONE ? mt_ok() : fail(s, rc, "read the settings");
}

static mt_status set_up(struct sqlite_store *s, const char *cluster)
{
    MT_TRY(run(s, "BEGIN IMMEDIATE;"
                  "CREATE TABLE store(key TEXT PRIMARY KEY, value TEXT NOT NULL) WITHOUT ROWID;"
                  "CREATE TABLE kv(tbl INTEGER NOT NULL, key BLOB NOT NULL, value BLOB NOT NULL,"
                  " version INTEGER NOT NULL, sum INTEGER NOT NULL, PRIMARY KEY(tbl, key)) WITHOUT ROWID;",
               "make the tables"));
    char *sql = sqlite3_mprintf("INSERT INTO store VALUES('schema', '%d'), ('cluster', %Q); COMMIT", SCHEMA, cluster);
    if (!sql)
        return fail(s, SQLITE_NOMEM, "name the cluster");
    mt_status st = run(s, sql, "name the cluster");
    sqlite3_free(sql);
    return st;
}

static mt_status check_owner(struct sqlite_store *s, const char *cluster, bool must_match)
{
    char schema[16];
    MT_TRY(setting(s, "schema", schema, sizeof schema));
    MT_TRY(setting(s, "cluster", s->store.cluster, sizeof s->store.cluster));
    if (strcmp(schema, "1") != 0) {
        snprintf(s->store.text, sizeof s->store.text, "%.300s has format %.8s, this head knows %d: use the release that "
                 "wrote it", s->path, schema, SCHEMA);
        return mt_error(MT_EVERSION, 0, "open the head's store");
    }
    if (must_match && strcmp(cluster, s->store.cluster) != 0) {
        snprintf(s->store.text, sizeof s->store.text, "%.300s belongs to cluster %s, not to %.36s: choose another --state",
                 s->path, s->store.cluster, cluster);
        return mt_error(MT_EFENCED, 0, "open the head's store");
    }
    return mt_ok();
}

static mt_status has_tables(struct sqlite_store *s, bool *out_has)
{
    sqlite3_stmt *q = NULL;
    int rc = sqlite3_prepare_v2(s->db, "SELECT count(*) FROM sqlite_master WHERE name IN ('store', 'kv')", -1, &q, NULL);
    if (rc == SQLITE_OK)
        rc = sqlite3_step(q);
    int count = rc == SQLITE_ROW ? sqlite3_column_int(q, 0) : 0;
    sqlite3_finalize(q);
    *out_has = count == 2;
    if (rc != SQLITE_ROW || count == 1)
        return fail(s, rc == SQLITE_ROW ? SQLITE_CORRUPT : rc, "look for the tables");
    return mt_ok();
}

/* The lock is taken by the first access in exclusive mode, and kept until the process ends. */
static mt_status open_db(struct sqlite_store *s, const char *cluster, bool must_match, bool is_durable)
{
    bool is_old;
    int  flags = SQLITE_OPEN_READWRITE | SQLITE_OPEN_NOMUTEX | SQLITE_OPEN_EXRESCODE;
    int  rc = sqlite3_open_v2(s->path, &s->db, flags, NULL);
    if (rc != SQLITE_OK)
        return fail(s, rc, "open");
    MT_TRY(run(s, "PRAGMA locking_mode = EXCLUSIVE; PRAGMA journal_mode = WAL;"
                  "PRAGMA trusted_schema = OFF; PRAGMA wal_autocheckpoint = 1000;",
               "set up"));
    MT_TRY(run(s, is_durable && !MT_PLANT(MT_PLANT_NO_FSYNC) ? "PRAGMA synchronous = FULL" : "PRAGMA synchronous = OFF", "set up"));
    MT_TRY(run(s, "BEGIN IMMEDIATE; COMMIT", "lock"));
    MT_TRY(check_integrity(s));
    MT_TRY(has_tables(s, &is_old));
    if (!is_old)
        MT_TRY(set_up(s, cluster));
    MT_TRY(check_owner(s, cluster, must_match && is_old));
    return prepare(s);
}

mt_status head_store_sqlite_open(const char *dir, const char *cluster, bool must_match, bool is_durable, char *text,
                                 struct head_store **out_store)
{
    struct sqlite_store *s = calloc(1, sizeof *s);
    text[0] = '\0';
    if (!s)
        return mt_error(MT_ENOMEM, 0, "open the head's store");
    s->store.ops = &sqlite_ops;
    mt_status st = io_check_private_dir(dir);
    if (st.code != 0)
        snprintf(s->store.text, sizeof s->store.text, "%.300s: the state folder must be this user's own, mode 0700", dir);
    if (st.code == 0 && snprintf(s->path, sizeof s->path, "%s/%s", dir, FILE_NAME) >= PATH_SIZE)
        st = mt_error(MT_EINVAL, 0, "the state folder's path is too long");
    if (st.code == 0)
        st = make_file(s);
    if (st.code == 0)
        st = open_db(s, cluster, must_match, is_durable);
    if (st.code != 0) {
        snprintf(text, HEAD_STORE_TEXT_SIZE, "%s", s->store.text[0] ? s->store.text : st.what);
        sqlite_close(&s->store);
        return st;
    }
    *out_store = &s->store;
    return mt_ok();
}

static void sqlite_close(struct head_store *store)
{
    struct sqlite_store *s = mt_container_of(store, struct sqlite_store, store);
    sqlite3_finalize(s->put);
    sqlite3_finalize(s->drop);
    sqlite3_close(s->db);
    free(s);
}

/* ---- reading and writing ---- */

static mt_status load_row(struct sqlite_store *s, sqlite3_stmt *q, struct head_store_reader *reader)
{
    int            table = sqlite3_column_int(q, 0);
    const uint8_t *key = sqlite3_column_blob(q, 1), *value = sqlite3_column_blob(q, 2);
    size_t         key_size = (size_t)sqlite3_column_bytes(q, 1), value_size = (size_t)sqlite3_column_bytes(q, 2);
    if (sqlite3_column_int(q, 3) > VALUE_VERSION) {
        snprintf(s->store.text, sizeof s->store.text, "%.300s was written by a newer head: use that release", s->path);
        return mt_error(MT_EVERSION, 0, "load the head's store");
    }
    if ((uint64_t)sqlite3_column_int64(q, 4) != sum_of(table, key, key_size, value, value_size)) {
        snprintf(s->store.text, sizeof s->store.text, "%.300s: a record of table %d has changed on the disk: %s", s->path,
                 table, advice(MT_ECORRUPT));
        return mt_error(MT_ECORRUPT, 0, "load the head's store");
    }
    return reader->record(reader, (enum head_table)table, key, key_size, value, value_size);
}

static mt_status sqlite_load(struct head_store *store, struct head_store_reader *reader)
{
    struct sqlite_store *s = mt_container_of(store, struct sqlite_store, store);
    sqlite3_stmt        *q = NULL;
    mt_status            st = mt_ok();
    int rc = sqlite3_prepare_v2(s->db, "SELECT tbl, key, value, version, sum FROM kv ORDER BY tbl, key", -1, &q, NULL);
    if (rc != SQLITE_OK)
        return fail(s, rc, "load");
    while (st.code == 0 && (rc = sqlite3_step(q)) == SQLITE_ROW)
        st = load_row(s, q, reader);
    sqlite3_finalize(q);
    return st.code != 0 || rc == SQLITE_DONE ? st : fail(s, rc, "load");
}

static mt_status change(struct sqlite_store *s, const struct head_record *r)
{
    sqlite3_stmt *q = r->value ? s->put : s->drop;
    sqlite3_bind_int(q, 1, (int)r->table);
    sqlite3_bind_blob64(q, 2, r->key, r->key_size, SQLITE_STATIC);
    if (r->value) {
        sqlite3_bind_blob64(q, 3, r->value, r->value_size, SQLITE_STATIC);
        sqlite3_bind_int(q, 4, VALUE_VERSION);
        sqlite3_bind_int64(q, 5, (int64_t)sum_of((int)r->table, r->key, r->key_size, r->value, r->value_size));
    }
    int rc = sqlite3_step(q);
    sqlite3_reset(q);
    sqlite3_clear_bindings(q);
    return rc == SQLITE_DONE ? mt_ok() : fail(s, rc, "write");
}

static mt_status apply(struct sqlite_store *s, const struct head_store_batch *batches, size_t count)
{
    MT_TRY(run(s, "BEGIN IMMEDIATE", "begin"));
    for (size_t i = 0; i < count; i++)
        for (size_t j = 0; j < batches[i].count; j++)
            MT_TRY(change(s, &batches[i].records[j]));
    return run(s, "COMMIT", "commit");
}

static mt_status sqlite_apply(struct head_store *store, const struct head_store_batch *batches, size_t count)
{
    struct sqlite_store *s = mt_container_of(store, struct sqlite_store, store);
    if (s->broken.code == 0)
        s->broken = apply(s, batches, count);
    return s->broken;
}
