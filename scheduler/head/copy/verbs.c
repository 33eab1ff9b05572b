/* SPDX-License-Identifier: Apache-2.0
 *
 * verbs.c - backup, restore and check of a state that no head of this process leads. Owns what it reads, as long as a verb lasts.
 *
 *   restore into SQLite    STATE/restore.new/state.db --read again, equal--> STATE/state.db
 *   restore into Redis     an empty place --one commit--> filled --read again, equal--> done
 */
#include "core/ds/vec.h"
#include "core/io/private.h"
#include "core/sys/file.h"
#include "scheduler/head/copy/copy.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

enum { PATH_SIZE = HEAD_STORE_PATH_SIZE };
#define MAKING "restore.new" /* in the state folder */

struct whole {                   /* a state in memory */
    mt_buf                bytes; /* as a file */
    struct head_copy_info info;
    uint64_t              epoch;
};

static char said[HEAD_STORE_TEXT_SIZE]; /* of the last failure */

static mt_status refuse(int32_t code, const char *where, const char *text)
{
    snprintf(said, sizeof said, "%.300s: %.400s", where, text);
    return mt_error(code, 0, "copy the head's state");
}

static mt_status passed(mt_status st, const char *where)
{
    if (st.code == 0)
        return st;
    const char *why = st.code == MT_EEXIST ? "there is such a file already: name another one" : st.sys ? strerror(st.sys) : st.what;
    return refuse(st.code, where, why);
}

/* ---- a state as a whole ---- */

struct judge {
    struct head_store_reader reader;
    struct head             *head;
};

static mt_status judge_record(struct head_store_reader *reader, enum head_table table, const uint8_t *key, size_t key_size,
                              const uint8_t *value, size_t value_size)
{
    return head_load(mt_container_of(reader, struct judge, reader)->head, table, key, key_size, value, value_size);
}

/* A head takes it: its records are loaded, as at a start. */
static mt_status judged(struct whole *w, const char *where)
{
    struct judge       j = {.reader.record = judge_record};
    struct head_config config = {0};
    MT_TRY(passed(head_copy_read(mt_buf_view(&w->bytes), &w->info, NULL), where));
    memcpy(config.cluster, w->info.cluster, sizeof config.cluster);
    MT_TRY(head_new(&config, &j.head));
    mt_status st = passed(head_copy_read(mt_buf_view(&w->bytes), &w->info, &j.reader), where);
    w->epoch = head_epoch(j.head);
    if (st.code == 0 && strcmp(head_cluster(j.head), w->info.cluster) != 0)
        st = refuse(MT_ECORRUPT, where, "its records are another cluster's");
    head_free(j.head);
    return st;
}

static mt_status file_read(const char *path, struct whole *out)
{
    struct stat info;
    int         fd = open(path, O_RDONLY | O_CLOEXEC);
    mt_status   st = fd < 0 || fstat(fd, &info) != 0 ? mt_error(errno == ENOENT ? MT_ENOENT : MT_ESYS, errno, "open") : mt_ok();
    if (st.code == 0 && !S_ISREG(info.st_mode))
        st = mt_error(MT_EINVAL, 0, "that is no file");
    if (st.code == 0)
        st = mt_buf_reserve(&out->bytes, (size_t)info.st_size + 1);
    ssize_t size = st.code == 0 ? mt_read_all(fd, out->bytes.data, (size_t)info.st_size) : 0;
    if (size < 0)
        st = mt_error(MT_ESYS, errno, "read");
    if (fd >= 0)
        close(fd);
    out->bytes.size = size > 0 ? (size_t)size : 0;
    MT_TRY(passed(st, path));
    return judged(out, path);
}

/* The cluster's id is known when the first record comes. */
struct collector {
    struct head_store_reader reader;
    struct head_copy         copy;
    char                     cluster[HEAD_CLUSTER_SIZE];
    bool                     has_begun;
};

static mt_status collector_begin(struct collector *c)
{
    bool is_first = !c->has_begun;
    c->has_begun = true;
    return is_first ? head_copy_begin(&c->copy, c->cluster) : mt_ok();
}

static mt_status collect(struct head_store_reader *reader, enum head_table table, const uint8_t *key, size_t key_size,
                         const uint8_t *value, size_t value_size)
{
    struct collector *c = mt_container_of(reader, struct collector, reader);
    MT_TRY(collector_begin(c));
    return c->copy.reader.record(&c->copy.reader, table, key, key_size, value, value_size);
}

static mt_status store_read(const struct head_store_redis *place, struct whole *out)
{
    struct collector c = {.reader.record = collect};
    said[0] = '\0';
    mt_status st = head_store_read(place, c.cluster, &c.reader, said);
    if (st.code == 0)
        st = collector_begin(&c);
    if (st.code == 0)
        st = head_copy_end(&c.copy, &out->info);
    out->bytes = mt_buf_move(&c.copy.bytes);
    return st.code != 0 || out->info.count == 0 ? st : judged(out, place->url ? "the store" : place->dir);
}

static bool is_equal(const struct whole *a, const struct whole *b)
{
    return memcmp(a->info.digest, b->info.digest, sizeof a->info.digest) == 0;
}

static mt_status check_cluster(const char *where, const char *is, const char *wanted)
{
    char text[160];
    if (!wanted || strcmp(is, wanted) == 0)
        return mt_ok();
    snprintf(text, sizeof text, "it is the state of cluster %s, not of %.39s", is, wanted);
    return refuse(MT_EFENCED, where, text);
}

/* ---- what a state folder has ---- */

static void path_in(char out[PATH_SIZE], const char *dir, const char *name)
{
    snprintf(out, PATH_SIZE, "%.4000s/%s", dir, name);
}

static bool is_there(const char *dir, const char *name)
{
    char        path[PATH_SIZE];
    struct stat info;
    path_in(path, dir, name);
    return stat(path, &info) == 0 && info.st_size > 0;
}

static mt_status folder_make(const char *dir)
{
    if (mkdir(dir, 0700) != 0 && errno != EEXIST)
        return passed(mt_error(errno == ENOSPC ? MT_EDISK_FULL : MT_ESYS, errno, "make the state folder"), dir);
    mt_status st = io_check_private_dir(dir);
    return st.code == 0 ? st : refuse(st.code, dir, "the state folder must be this user's own, mode 0700");
}

/* Of the cluster whose head has the folder; a damaged file says nothing, and is replaced all the same. */
static mt_status check_old(const char *dir, const char *cluster)
{
    char               path[PATH_SIZE], text[512] = "", old[HEAD_CLUSTER_SIZE] = "";
    struct head_store *store = NULL;
    if (is_there(dir, HEAD_STORE_FILE)) {
        mt_status st = head_store_sqlite_open(dir, "", false, true, said, &store);
        if (st.code != 0 && st.code != MT_ECORRUPT && st.code != MT_EFENCED)
            return st; /* EEXIST: a head runs there */
        if (st.code == 0) {
            snprintf(old, sizeof old, "%s", store->cluster);
            store->ops->close(store);
        }
    }
    path_in(path, dir, HEAD_STORE_MARK);
    if (!old[0] && mt_file_read(path, text, sizeof text) > 0)
        (void)sscanf(text, "cluster=%39s", old);
    return old[0] ? check_cluster(dir, cluster, old) : mt_ok();
}

static mt_status aside(const char *dir, const char *name)
{
    char from[PATH_SIZE], to[PATH_SIZE], old[64];
    snprintf(old, sizeof old, "%s.old", name);
    path_in(from, dir, name);
    path_in(to, dir, old);
    if (!is_there(dir, name))
        return mt_ok();
    if (access(to, F_OK) == 0)
        return refuse(MT_EEXIST, to, "there is one already: move it away first");
    return rename(from, to) == 0 ? mt_ok() : passed(mt_error(MT_ESYS, errno, "keep the old state"), from);
}

static mt_status check_free(const struct head_copy_order *o, const char *cluster)
{
    static const char *const names[] = {HEAD_STORE_FILE, HEAD_STORE_MARK};
    const char              *dir = o->store.dir;
    for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
        char old[64];
        snprintf(old, sizeof old, "%s.old", names[i]);
        if (is_there(dir, names[i]) && !o->may_replace)
            return refuse(MT_EEXIST, dir, "this state folder has a cluster already: name another one, or say --replace");
        if (is_there(dir, names[i]) && is_there(dir, old))
            return refuse(MT_EEXIST, dir, "it has the state of an earlier --replace too (*.old): move that away first");
    }
    return o->may_replace ? check_old(dir, cluster) : mt_ok();
}

/* ---- restore ---- */

struct list {
    struct head_store_reader reader;
    MT_VEC(struct head_record) records;
};

static mt_status list_record(struct head_store_reader *reader, enum head_table table, const uint8_t *key, size_t key_size,
                             const uint8_t *value, size_t value_size)
{
    struct list       *l = mt_container_of(reader, struct list, reader);
    struct head_record r = {table, (uint8_t *)(uintptr_t)key, key_size, (uint8_t *)(uintptr_t)value, value_size};
    return mt_vec_push(&l->records, r);
}

/* Makes the store and reads it again. */
static mt_status fill(const struct head_store_redis *place, const struct whole *from)
{
    struct list           l = {.reader.record = list_record};
    struct whole          again = {0};
    struct head_copy_info info;
    mt_status             st = head_copy_read(mt_buf_view(&from->bytes), &info, &l.reader);
    if (st.code == 0)
        st = head_store_fill(place, from->epoch, &(struct head_store_batch){l.records.data, l.records.count}, said);
    mt_vec_fini(&l.records);
    if (st.code == 0)
        st = store_read(place, &again);
    if (st.code == 0 && !is_equal(from, &again))
        st = refuse(MT_ECORRUPT, place->url ? "the store" : place->dir, "what it holds now is not what the file says");
    mt_buf_fini(&again.bytes);
    return st;
}

/* The old one goes aside as another name of the same file, so that there is a store at every moment. */
static mt_status swap_in(const char *dir, const char *made)
{
    char at[PATH_SIZE], old[PATH_SIZE], new[PATH_SIZE];
    path_in(at, dir, HEAD_STORE_FILE);
    path_in(old, dir, HEAD_STORE_FILE ".old");
    path_in(new, made, HEAD_STORE_FILE);
    if (is_there(dir, HEAD_STORE_FILE) && link(at, old) != 0)
        return passed(mt_error(MT_ESYS, errno, "keep the old state"), old);
    MT_TRY(aside(dir, HEAD_STORE_FILE "-wal")); /* of a damaged one: it was not copied into it */
    if (rename(new, at) != 0)
        return passed(mt_error(MT_ESYS, errno, "put the state in its place"), at);
    (void)mt_name_sync(at); /* as good as the file system can */
    return aside(dir, HEAD_STORE_MARK);
}

static mt_status restore_sqlite(const struct head_copy_order *o, const struct whole *w)
{
    char                    made[PATH_SIZE];
    struct head_store_redis place = {.dir = made, .cluster = w->info.cluster};
    path_in(made, o->store.dir, MAKING);
    mt_tree_remove(made); /* of one that was killed */
    MT_TRY(folder_make(made));
    mt_status st = fill(&place, w);
    if (st.code == 0)
        st = swap_in(o->store.dir, made);
    mt_tree_remove(made);
    return st;
}

static mt_status restore_redis(const struct head_copy_order *o, const struct whole *w)
{
    struct head_store_redis place = o->store;
    place.cluster = w->info.cluster;
    MT_TRY(fill(&place, w));
    MT_TRY(aside(o->store.dir, HEAD_STORE_FILE));
    MT_TRY(aside(o->store.dir, HEAD_STORE_FILE "-wal"));
    return aside(o->store.dir, HEAD_STORE_MARK);
}

static mt_status restore(const struct head_copy_order *o, struct whole *w)
{
    MT_TRY(file_read(o->file, w));
    MT_TRY(check_cluster(o->file, w->info.cluster, o->store.cluster));
    MT_TRY(folder_make(o->store.dir));
    MT_TRY(check_free(o, w->info.cluster));
    return o->store.url ? restore_redis(o, w) : restore_sqlite(o, w);
}

/* ---- the others ---- */

static mt_status backup(const struct head_copy_order *o, struct whole *w)
{
    MT_TRY(store_read(&o->store, w));
    MT_TRY(check_cluster("the store", w->info.cluster, o->store.cluster));
    MT_TRY(passed(io_private_write(o->file, mt_buf_view(&w->bytes), false), o->file));
    (void)mt_name_sync(o->file);
    return mt_ok();
}

static mt_status check(const struct head_copy_order *o, struct whole *w)
{
    struct whole store = {0};
    char         text[160];
    MT_TRY(file_read(o->file, w));
    MT_TRY(check_cluster(o->file, w->info.cluster, o->store.cluster));
    if (!o->store.url && !o->store.dir)
        return mt_ok();
    mt_status st = store_read(&o->store, &store);
    if (st.code == 0)
        st = check_cluster("the store", store.info.cluster, w->info.cluster);
    if (st.code == 0 && !is_equal(w, &store)) {
        snprintf(text, sizeof text,
                 "the store differs: it has %" PRIu64 " records as of epoch %" PRIu64 ", the file %" PRIu64 " as of epoch %" PRIu64,
                 store.info.count, store.epoch, w->info.count, w->epoch);
        st = refuse(MT_ECORRUPT, o->file, text);
    }
    mt_buf_fini(&store.bytes);
    return st;
}

/* What such a file can't know is said to whoever lets it speak again. */
struct doors {
    struct head_store_reader reader;
    bool                     has_any;
};

static mt_status look_for_doors(struct head_store_reader *reader, enum head_table table, const uint8_t *key, size_t key_size,
                                const uint8_t *value, size_t value_size)
{
    (void)key, (void)key_size, (void)value, (void)value_size;
    mt_container_of(reader, struct doors, reader)->has_any |= table == HEAD_TABLE_TOKENS || table == HEAD_TABLE_TICKETS;
    return mt_ok();
}

static void warn_of_doors(const struct whole *w)
{
    struct doors          doors = {.reader.record = look_for_doors};
    struct head_copy_info info;
    if (head_copy_read(mt_buf_view(&w->bytes), &info, &doors.reader).code == 0 && doors.has_any)
        fprintf(stderr,
                "manta-head: tokens, tickets and nodes that were revoked since this backup are let in again: look at `manta token "
                "list`, and revoke them once more\n");
}

int head_copy_run(const struct head_copy_order *o)
{
    static mt_status (*const verbs[])(const struct head_copy_order *, struct whole *) = {
        [HEAD_COPY_BACKUP] = backup, [HEAD_COPY_RESTORE] = restore, [HEAD_COPY_CHECK] = check};
    struct whole w = {0};
    char         hex[MT_SHA256_HEX_SIZE];
    mt_status    st = verbs[o->verb](o, &w);
    if (st.code == 0)
        printf("%s: cluster %s, epoch %" PRIu64 ", %" PRIu64 " records, digest %s\n", o->file, w.info.cluster, w.epoch,
               w.info.count, mt_sha256_hex(w.info.digest, hex));
    else
        fprintf(stderr, "manta-head: %s: %s\n", mt_code_name(st.code), said[0] ? said : st.what);
    if (st.code == 0 && o->verb == HEAD_COPY_RESTORE)
        warn_of_doors(&w);
    mt_buf_fini(&w.bytes);
    return st.code == 0 && fflush(stdout) == 0 ? 0 : 1;
}
