/* SPDX-License-Identifier: Apache-2.0
 *
 * whole.c - a whole store, read without leading it, and made of records by one commit: for backups, and for moving a cluster.
 *
 * Owns nothing between calls. Thread: one at a time.
 */
#include "core/base/rng.h"
#include "scheduler/head/store/link.h"
#include "scheduler/head/store/store.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

enum { TRIES = 5 }; /* another leader may come between two questions */

static mt_status refuse(char *text, int32_t code, const char *where, const char *said)
{
    snprintf(text, HEAD_STORE_TEXT_SIZE, "%.250s: %.300s", where, said);
    return mt_error(code, 0, "use a store as a whole");
}

/* ---- SQLite ---- */

/* Nobody's store begins by looking at it. */
static bool has_file(const char *dir)
{
    char        path[HEAD_STORE_PATH_SIZE];
    struct stat st;
    snprintf(path, sizeof path, "%.4000s/" HEAD_STORE_FILE, dir);
    return stat(path, &st) == 0 && st.st_size > 0;
}

static mt_status sqlite_read(const struct head_store_redis *o, char cluster[HEAD_CLUSTER_SIZE], struct head_store_reader *reader,
                             char *text)
{
    struct head_store *store;
    if (!has_file(o->dir))
        return refuse(text, MT_ENOENT, o->dir, "there is no store in this state folder");
    MT_TRY(head_store_sqlite_open(o->dir, "", false, true, text, &store));
    memcpy(cluster, store->cluster, HEAD_CLUSTER_SIZE);
    mt_status st = store->ops->load(store, reader);
    if (st.code != 0 && store->text[0])
        snprintf(text, HEAD_STORE_TEXT_SIZE, "%s", store->text);
    store->ops->close(store);
    return st;
}

static mt_status sqlite_fill(const struct head_store_redis *o, const struct head_store_batch *records, char *text)
{
    struct head_store *store;
    if (has_file(o->dir))
        return refuse(text, MT_EEXIST, o->dir, "there is a store in this folder already");
    MT_TRY(head_store_sqlite_open(o->dir, o->cluster, true, true, text, &store));
    mt_status st = store->ops->apply(store, records, 1);
    if (st.code != 0)
        snprintf(text, HEAD_STORE_TEXT_SIZE, "%s", store->text);
    store->ops->close(store);
    return st;
}

/* ---- Redis ---- */

static mt_status link_open(struct head_link *link, const struct head_store_redis *o, char *text)
{
    mt_status st = head_link_open(link, o->url, o->auth_file, o->may_lose);
    snprintf(link->me, sizeof link->me, "backup");
    snprintf(text, HEAD_STORE_TEXT_SIZE, "%s", link->text);
    return st;
}

/* A connection that was lost is dialled anew; what the server says is said. */
static mt_status ask(struct head_link *link, const struct head_ask *question, struct head_said *said,
                     struct head_link_reader *reader, char *text)
{
    mt_status st = head_link_ask(link, question, said, reader);
    if (st.code == MT_ECONN && !reader)
        st = head_link_ask(link, question, said, NULL);
    if (st.code != 0)
        snprintf(text, HEAD_STORE_TEXT_SIZE, "%s", link->text[0] ? link->text : st.what);
    return st;
}

static mt_status word_refused(const struct head_link *link, enum head_word word, char *text)
{
    static const int32_t codes[] = {[HEAD_WORD_EMPTY] = MT_ENOENT,
                                    [HEAD_WORD_FOREIGN] = MT_EFENCED,
                                    [HEAD_WORD_OTHER] = MT_EFENCED,
                                    [HEAD_WORD_FENCED] = MT_EAGAIN,
                                    [HEAD_WORD_BROKEN] = MT_ECORRUPT};
    int32_t              code = (size_t)word < sizeof codes / sizeof *codes && codes[word] ? codes[word] : MT_EINTERNAL;
    char                 where[HEAD_LINK_TEXT_SIZE];
    snprintf(where, sizeof where, "%.200s, cluster name \"%s\"", link->place.shown, link->place.cluster);
    return refuse(text, code, where, head_word_text(word));
}

struct filler {
    struct head_link_reader reader;
    struct head_shelf       shelf;
};

static mt_status fill(struct head_link_reader *reader, mt_view field, mt_view value)
{
    return head_shelf_put(&mt_container_of(reader, struct filler, reader)->shelf, head_item_new(field, value));
}

static void past_nothing(struct head_link_reader *reader, uint64_t seq, uint64_t digest)
{
    (void)reader, (void)seq, (void)digest;
}

/* A LOAD in the name of whoever leads. */
static mt_status load(struct head_link *link, struct filler *f, struct head_said *said, char *text)
{
    for (int i = 0; i < TRIES; i++) {
        MT_TRY(ask(link, &(struct head_ask){.kind = HEAD_ASK_LOOK}, said, NULL, text));
        if (said->word != HEAD_WORD_OK)
            break;
        struct head_ask all = {.kind = HEAD_ASK_LOAD, .at = said->at};
        head_shelf_fini(&f->shelf);
        MT_TRY(ask(link, &all, said, &f->reader, text));
        if (said->word != HEAD_WORD_FENCED)
            break;
    }
    return said->word == HEAD_WORD_OK ? mt_ok() : word_refused(link, said->word, text);
}

static mt_status give(const struct head_shelf *shelf, struct head_store_reader *reader, char *text)
{
    const struct head_item **all;
    mt_status                st = mt_ok();
    MT_TRY(head_shelf_sorted(shelf, &all));
    for (size_t i = 0; all[i] && st.code == 0; i++) {
        struct head_record r;
        st = head_item_unpack(all[i]->field, all[i]->value, &r);
        if (st.code != 0)
            snprintf(text, HEAD_STORE_TEXT_SIZE, "%s", st.what);
        else
            st = reader->record(reader, r.table, r.key, r.key_size, r.value, r.value_size);
    }
    free(all);
    return st;
}

static mt_status redis_read(const struct head_store_redis *o, char cluster[HEAD_CLUSTER_SIZE], struct head_store_reader *reader,
                            char *text)
{
    struct head_link link = {0};
    struct filler    f = {.reader = {fill, past_nothing}};
    struct head_said said = {0};
    MT_TRY(link_open(&link, o, text));
    mt_status st = load(&link, &f, &said, text);
    if (st.code == 0) {
        memcpy(cluster, said.cluster, HEAD_CLUSTER_SIZE);
        st = give(&f.shelf, reader, text);
    }
    head_shelf_fini(&f.shelf);
    rds_hang_up(&link.rds);
    return st;
}

static mt_status pack(const struct head_store_batch *records, struct head_shelf *out)
{
    for (size_t i = 0; i < records->count; i++)
        MT_TRY(head_shelf_put(out, head_item_pack(&records->records[i])));
    return mt_ok();
}

/* REWRITE of a place where nothing is. The answer to a first try may have been lost: then our run stands there. */
static mt_status rewrite(struct head_link *link, const struct head_ask *all, char *text)
{
    struct head_said said;
    MT_TRY(ask(link, all, &said, NULL, text));
    if (said.word != HEAD_WORD_OK && said.at.run != all->at.run)
        return refuse(text, MT_EEXIST, link->place.shown,
                      "something is there already under this cluster's name: give the cluster another name");
    struct head_ask go = {.kind = HEAD_ASK_LEAVE, .at = all->at, .was = all->at};
    return ask(link, &go, &said, NULL, text); /* so that the head that comes need not wait */
}

static mt_status redis_fill(const struct head_store_redis *o, uint64_t epoch, const struct head_store_batch *records, char *text)
{
    struct head_link  link = {0};
    struct head_shelf shelf = {0};
    struct head_ask   all = {.kind = HEAD_ASK_REWRITE, .cluster = o->cluster, .at = {.fence = epoch, .seq = 1}, .all = &shelf};
    MT_TRY(link_open(&link, o, text));
    MT_TRY(mt_random_bytes(&all.at.run, sizeof all.at.run));
    all.at.run |= 1;
    all.at.digest = all.at.run; /* a history of its own */
    mt_status st = pack(records, &shelf);
    if (st.code == 0)
        st = rewrite(&link, &all, text);
    head_shelf_fini(&shelf);
    rds_hang_up(&link.rds);
    return st;
}

/* ---- both ---- */

mt_status head_store_read(const struct head_store_redis *options, char cluster[HEAD_CLUSTER_SIZE], struct head_store_reader *reader,
                          char *text)
{
    text[0] = '\0';
    return options->url ? redis_read(options, cluster, reader, text) : sqlite_read(options, cluster, reader, text);
}

mt_status head_store_fill(const struct head_store_redis *options, uint64_t epoch, const struct head_store_batch *records,
                          char *text)
{
    text[0] = '\0';
    return options->url ? redis_fill(options, epoch, records, text) : sqlite_fill(options, records, text);
}
