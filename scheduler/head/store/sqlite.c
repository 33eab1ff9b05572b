/* SPDX-License-Identifier: Apache-2.0
 *
 * sqlite.c - the head's store in one SQLite file: write-ahead log, full synchronisation, one table of records.
 *
 *   state.db   store(key, value)                        schema, cluster, release
 *              kv(tbl, key, value, version, sum)        one row a record; sum covers table, key and value
 *
 * Owns:    the database, and by an exclusive lock the state folder: a second head is refused as long as this one lives.
 * Always:  a commit is on the disk before `apply` returns success; after any failure nothing is applied any more.
 */
#include "core/base/hash.h"
#include "core/base/plant.h"
#include "core/base/release.h"
#include "core/db/db.h"
#include "core/io/private.h"
#include "scheduler/head/store/schema.h"
#include "scheduler/head/store/store.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <unistd.h>

enum { VALUE_VERSION = 1, PATH_SIZE = HEAD_STORE_PATH_SIZE, CHECKPOINT_PAGES = 1000 };

struct sqlite_store {
    struct head_store store;
    struct db         db;
    struct db_query   put, drop;
    uint32_t          needs;     /* the schema that its readers must know */
    bool              is_signed; /* by this release */
    uint64_t          log_end;   /* with what is set aside behind it */
    mt_status         broken;    /* the failure after which nothing is applied */
    char              path[PATH_SIZE];
};

static mt_status                   sqlite_load(struct head_store *store, struct head_store_reader *reader);
static mt_status                   sqlite_apply(struct head_store *store, const struct head_store_batch *batches, size_t count);
static mt_status                   sqlite_look(struct head_store *store, struct head_store_room *out);
static void                        sqlite_close(struct head_store *store);
static const struct head_store_ops sqlite_ops = {sqlite_load, sqlite_load,  sqlite_apply,   sqlite_look,
                                                 NULL,        sqlite_close, MT_HEAD_ROOM_MS};

/* ---- failures ---- */

static const char *advice(int32_t code)
{
    switch (code) {
    case MT_EDISK_FULL: return "the disk is full: make room; what the head has acknowledged is kept";
    case MT_ECORRUPT: return "the file is damaged: restore it from a copy, or move it away to begin with an empty cluster";
    case MT_EEXIST: return "another head uses this state folder: stop it, or choose another --state";
    case MT_EAUTH: return "the file can't be written: it and its folder must belong to this user";
    case MT_ENOMEM: return "there is not enough memory; what the head has acknowledged is kept";
    default: return "the disk failed: look at the system's log; what the head has acknowledged is kept";
    }
}

/* Passes a status of the database on, a failure with what to do about it. */
static mt_status told(struct sqlite_store *s, mt_status st)
{
    if (st.code == 0)
        return st;
    int32_t code = st.code == MT_EAGAIN ? MT_EEXIST : st.code; /* who is in it keeps it as long as it lives */
    snprintf(s->store.text, sizeof s->store.text, "%.250s: %.160s: %s", s->path, s->db.text, advice(code));
    return mt_error(code, st.sys, "use the head's store");
}

static uint64_t sum_of(int table, const void *key, size_t key_size, const void *value, size_t value_size)
{
    uint64_t sum = mt_hash_bytes(MT_HASH_START ^ (uint64_t)table, key, key_size);
    return mt_hash_bytes(mt_hash_mix(sum, key_size), value, value_size);
}

/* ---- opening ---- */

/* A folder whose cluster is in another store would begin an empty one here. */
static mt_status check_mark(struct sqlite_store *s, const char *dir)
{
    char        path[PATH_SIZE];
    struct stat st;
    snprintf(path, sizeof path, "%.4000s/" HEAD_STORE_MARK, dir);
    if (stat(path, &st) != 0 || st.st_size == 0)
        return mt_ok();
    snprintf(s->store.text, sizeof s->store.text,
             "%.300s: this folder's cluster is in another store (its file \"" HEAD_STORE_MARK
             "\" says which): name that by --store, or "
             "choose another --state",
             dir);
    return mt_error(MT_EFENCED, 0, "open the head's store");
}

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
    snprintf(s->store.text, sizeof s->store.text, "%.300s: %s: the state folder must be this user's own", s->path, strerror(sys));
    return mt_error(sys == ENOSPC ? MT_EDISK_FULL : MT_ESYS, sys, "make the head's store");
}

static mt_status prepare(struct sqlite_store *s)
{
    static const char put[] = "INSERT INTO kv(tbl, key, value, version, sum) VALUES(?1, ?2, ?3, ?4, ?5) "
                              "ON CONFLICT(tbl, key) DO UPDATE SET value = ?3, version = ?4, sum = ?5";
    MT_TRY(told(s, db_prepare(&s->db, &s->put, put, "write")));
    return told(s, db_prepare(&s->db, &s->drop, "DELETE FROM kv WHERE tbl = ?1 AND key = ?2", "write"));
}

/* The value of a setting; "" where there is none. */
static mt_status setting(struct sqlite_store *s, const char *key, char *out, size_t size)
{
    struct db_query q;
    bool            has_row = false;
    out[0] = '\0';
    mt_status st = db_prepare(&s->db, &q, "SELECT value FROM store WHERE key = ?1", "read the settings");
    if (st.code == 0) {
        db_bind_text(&q, 1, key);
        st = db_next(&q, &has_row);
    }
    if (has_row)
        snprintf(out, size, "%s", db_text(&q, 0));
    db_finish(&q);
    return told(s, st);
}

static mt_status name_cluster(struct sqlite_store *s, const char *cluster)
{
    struct db_query q;
    MT_TRY(db_prepare(&s->db, &q, "INSERT INTO store VALUES('cluster', ?1)", "name the cluster"));
    db_bind_text(&q, 1, cluster);
    mt_status st = db_do(&q);
    db_finish(&q);
    return st;
}

/* Who has written here, and which schema its readers must know: in the commit that begins with it. */
static mt_status sign(struct sqlite_store *s)
{
    struct db_query q;
    char            schema[16];
    snprintf(schema, sizeof schema, "%u", head_schema_after(s->needs));
    MT_TRY(db_prepare(&s->db, &q, "INSERT OR REPLACE INTO store VALUES('schema', ?1), ('release', ?2)", "sign the store"));
    db_bind_text(&q, 1, schema);
    db_bind_text(&q, 2, mt_release.name);
    mt_status st = db_do(&q);
    db_finish(&q);
    return st;
}

static mt_status set_up(struct sqlite_store *s, const char *cluster)
{
    MT_TRY(db_begin(&s->db));
    MT_TRY(db_run(&s->db,
                  "CREATE TABLE store(key TEXT PRIMARY KEY, value TEXT NOT NULL) WITHOUT ROWID;"
                  "CREATE TABLE kv(tbl INTEGER NOT NULL, key BLOB NOT NULL, value BLOB NOT NULL,"
                  " version INTEGER NOT NULL, sum INTEGER NOT NULL, PRIMARY KEY(tbl, key)) WITHOUT ROWID;",
                  "make the tables"));
    MT_TRY(name_cluster(s, cluster));
    MT_TRY(sign(s));
    return db_commit(&s->db);
}

static mt_status check_owner(struct sqlite_store *s, const char *cluster, bool must_match)
{
    char schema[16], release[HEAD_RELEASE_SIZE];
    MT_TRY(setting(s, "schema", schema, sizeof schema));
    MT_TRY(setting(s, "release", release, sizeof release));
    MT_TRY(setting(s, "cluster", s->store.cluster, sizeof s->store.cluster));
    s->needs = (uint32_t)strtoul(schema, NULL, 10);
    MT_TRY(head_schema_check(s->path, s->needs, release, s->store.text, sizeof s->store.text));
    if (must_match && strcmp(cluster, s->store.cluster) != 0) {
        snprintf(s->store.text, sizeof s->store.text, "%.300s belongs to cluster %s, not to %.36s: choose another --state", s->path,
                 s->store.cluster, cluster);
        return mt_error(MT_EFENCED, 0, "open the head's store");
    }
    return mt_ok();
}

static mt_status has_tables(struct sqlite_store *s, bool *out_has)
{
    struct db_query q;
    bool            has_row = false;
    mt_status       st = db_prepare(&s->db, &q, "SELECT count(*) FROM sqlite_master WHERE name IN ('store', 'kv')",
                                    "look for the tables");
    if (st.code == 0)
        st = db_next(&q, &has_row);
    int64_t count = has_row ? db_int(&q, 0) : 0;
    db_finish(&q);
    if (st.code == 0 && count == 1) {
        snprintf(s->db.text, sizeof s->db.text, "one of its tables is missing");
        st = mt_error(MT_ECORRUPT, 0, "look for the tables");
    }
    *out_has = count == 2;
    return told(s, st);
}

static mt_status open_db(struct sqlite_store *s, const char *cluster, bool must_match, bool is_durable)
{
    struct db_options options = {
        .is_exclusive = true, .checkpoint_pages = CHECKPOINT_PAGES, .is_durable = is_durable && !MT_PLANT(MT_PLANT_NO_FSYNC)};
    bool is_old;
    MT_TRY(told(s, db_open(&s->db, s->path, &options)));
    MT_TRY(told(s, db_check(&s->db)));
    MT_TRY(has_tables(s, &is_old));
    if (!is_old)
        MT_TRY(told(s, set_up(s, cluster)));
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
    if (st.code == 0 && snprintf(s->path, sizeof s->path, "%s/" HEAD_STORE_FILE, dir) >= PATH_SIZE)
        st = mt_error(MT_EINVAL, 0, "the state folder's path is too long");
    if (st.code == 0)
        st = check_mark(s, dir);
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
    db_finish(&s->put);
    db_finish(&s->drop);
    db_close(&s->db);
    free(s);
}

/* ---- reading and writing ---- */

static mt_status load_row(struct sqlite_store *s, struct db_query *q, struct head_store_reader *reader)
{
    int     table = (int)db_int(q, 0);
    mt_view key = db_bytes(q, 1), value = db_bytes(q, 2);
    if (db_int(q, 3) > VALUE_VERSION) {
        snprintf(s->store.text, sizeof s->store.text, "%.300s was written by a newer head: use that release", s->path);
        return mt_error(MT_EVERSION, 0, "load the head's store");
    }
    if ((uint64_t)db_int(q, 4) != sum_of(table, key.data, key.size, value.data, value.size)) {
        snprintf(s->store.text, sizeof s->store.text, "%.300s: a record of table %d has changed on the disk: %s", s->path, table,
                 advice(MT_ECORRUPT));
        return mt_error(MT_ECORRUPT, 0, "load the head's store");
    }
    return reader->record(reader, (enum head_table)table, key.data, key.size, value.data, value.size);
}

static mt_status sqlite_load(struct head_store *store, struct head_store_reader *reader)
{
    struct sqlite_store *s = mt_container_of(store, struct sqlite_store, store);
    struct db_query      q;
    bool                 has_row = true;
    mt_status            st = mt_ok();
    MT_TRY(told(s, db_prepare(&s->db, &q, "SELECT tbl, key, value, version, sum FROM kv ORDER BY tbl, key", "load")));
    while (st.code == 0 && (st = told(s, db_next(&q, &has_row))).code == 0 && has_row)
        st = load_row(s, &q, reader);
    db_finish(&q);
    return st;
}

static mt_status change(struct sqlite_store *s, const struct head_record *r)
{
    struct db_query *q = r->value ? &s->put : &s->drop;
    db_bind_int(q, 1, (int)r->table);
    db_bind_bytes(q, 2, r->key, r->key_size);
    if (r->value) {
        db_bind_bytes(q, 3, r->value, r->value_size);
        db_bind_int(q, 4, VALUE_VERSION);
        db_bind_int(q, 5, (int64_t)sum_of((int)r->table, r->key, r->key_size, r->value, r->value_size));
    }
    return db_do(q);
}

static mt_status apply(struct sqlite_store *s, const struct head_store_batch *batches, size_t count)
{
    MT_TRY(db_begin(&s->db));
    if (!s->is_signed)
        MT_TRY(sign(s));
    for (size_t i = 0; i < count; i++)
        for (size_t j = 0; j < batches[i].count; j++)
            MT_TRY(change(s, &batches[i].records[j]));
    MT_TRY(db_commit(&s->db));
    s->is_signed = true;
    return mt_ok();
}

/* A log that has grown long is copied into the database and begins anew: that may be all the room that is missing. */
static mt_status apply_or_roll_back(struct sqlite_store *s, const struct head_store_batch *batches, size_t count)
{
    char      text[DB_TEXT_SIZE];
    mt_status st = apply(s, batches, count);
    if (st.code != MT_EDISK_FULL)
        return st;
    db_rollback(&s->db);
    memcpy(text, s->db.text, sizeof text);
    if (db_restart_log(&s->db).code == 0)
        st = apply(s, batches, count);
    else
        memcpy(s->db.text, text, sizeof text);
    if (st.code == MT_EDISK_FULL)
        db_rollback(&s->db);
    return st;
}

static mt_status sqlite_apply(struct head_store *store, const struct head_store_batch *batches, size_t count)
{
    struct sqlite_store *s = mt_container_of(store, struct sqlite_store, store);
    if (s->broken.code != 0)
        return s->broken;
    mt_status st = told(s, apply_or_roll_back(s, batches, count));
    if (st.code != MT_EDISK_FULL)
        s->broken = st;
    return st;
}

/* ---- space set aside ----
 *
 * Changes go to the write-ahead log, and from there into the database when it has grown long. For both the file system is asked for
 * blocks behind their ends, which others can't have then. */

static uint64_t reserve_bytes(const struct statvfs *fs)
{
    uint64_t share = (uint64_t)fs->f_blocks * fs->f_frsize / MT_HEAD_RESERVE_SHARE;
    return share < MT_HEAD_RESERVE_BYTES ? share : MT_HEAD_RESERVE_BYTES;
}

/* SQLite does not see what lies behind the end of its log. Asked for in large steps: there is a commit each time. */
static bool reserve_log(struct sqlite_store *s, int fd, uint64_t bytes)
{
    struct stat st;
    if (fstat(fd, &st) != 0 || (uint64_t)st.st_size + bytes <= s->log_end)
        return true;
    if (fallocate(fd, FALLOC_FL_KEEP_SIZE, st.st_size, (off_t)(2 * bytes)) == 0)
        s->log_end = (uint64_t)st.st_size + 2 * bytes;
    else if (fallocate(fd, FALLOC_FL_KEEP_SIZE, st.st_size, (off_t)bytes) != 0)
        return errno != ENOSPC && errno != EDQUOT && errno != EFBIG; /* else it can't be done here: what is tried shows */
    return true;
}

static mt_status sqlite_look(struct head_store *store, struct head_store_room *out)
{
    struct sqlite_store *s = mt_container_of(store, struct sqlite_store, store);
    char                 log[PATH_SIZE + 8];
    struct statvfs       fs;
    *out = (struct head_store_room){true, UINT64_MAX};
    snprintf(log, sizeof log, "%s-wal", s->path);
    int fd = open(log, O_WRONLY | O_NOFOLLOW | O_CLOEXEC);
    if (fd >= 0 && fstatvfs(fd, &fs) == 0) {
        out->has_reserve = reserve_log(s, fd, reserve_bytes(&fs)) && db_reserve(&s->db, reserve_bytes(&fs)).code == 0;
        out->bytes = (uint64_t)fs.f_bavail * fs.f_frsize / MT_HEAD_RESERVE_COPIES;
    }
    if (fd >= 0)
        close(fd);
    if (!out->has_reserve) /* so that the log does not grow */
        (void)db_restart_log(&s->db).code;
    return mt_ok();
}
