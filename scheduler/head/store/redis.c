/* SPDX-License-Identifier: Apache-2.0
 *
 * redis.c - the head's store in a Redis server: what leader.c wants to ask, over link.c's connection.
 *
 *   STATE/store   512 bytes of text: the cluster, whose lock it is, the last fence, where the state is. Locked while a head
 *                 lives, so that the folder is one head's. By it a store that is empty, another's or older is told from ours.
 *
 * Owns:    the connection, the leader, the lock on that file.
 * Always:  a commit that is confirmed stands in the store, in a history that is ours alone. Where nobody knows, `apply` says so.
 */
#include "core/base/clock.h"
#include "core/base/log.h"
#include "core/base/rng.h"
#include "core/io/private.h"
#include "scheduler/head/store/leader.h"
#include "scheduler/head/store/link.h"
#include "scheduler/head/store/store.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

enum { MARK_SIZE = 512, ASKS_MAX = 8, OPENING_MS = 10000, OPENING_STEP_MS = 100 };

struct mark {
    char     cluster[HEAD_CLUSTER_SIZE];
    char     holder[33];
    uint64_t fence;
};

struct redis_store {
    struct head_store      store;
    struct head_link       link;
    struct head_leader     leader;
    bool                   leads; /* leader is initialised */
    int                    mark_fd;
    struct mark            mark;
    uint64_t               rewritten;  /* that was logged */
    int64_t                settled_ms; /* when the store was last known to be ours */
    int64_t                looked_ms;  /* when its room was */
    struct head_store_room room;
    mt_status              broken;
};

static mt_status                   redis_load(struct head_store *store, struct head_store_reader *reader);
static mt_status                   redis_each(struct head_store *store, struct head_store_reader *reader);
static mt_status                   redis_apply(struct head_store *store, const struct head_store_batch *batches, size_t count);
static mt_status                   redis_look(struct head_store *store, struct head_store_room *out);
static void                        redis_leave(struct head_store *store);
static void                        redis_close(struct head_store *store);
static const struct head_store_ops redis_ops = {redis_load,  redis_each,  redis_apply,          redis_look,
                                                redis_leave, redis_close, MT_HEAD_STORE_LOOK_MS};

/* ---- failures ---- */

static mt_status refuse(struct redis_store *s, int32_t code, const char *said, const char *advice)
{
    snprintf(s->store.text, sizeof s->store.text, "%.200s, cluster name \"%s\": %.150s%s%.120s", s->link.place.shown,
             s->link.place.cluster, said, advice[0] ? ": " : "", advice);
    return mt_error(code, 0, "use the head's store");
}

static mt_status told(struct redis_store *s, mt_status st)
{
    if (st.code != 0)
        snprintf(s->store.text, sizeof s->store.text, "%s", s->link.text[0] ? s->link.text : st.what);
    return st;
}

/* ---- the mark in the state folder ---- */

static mt_status mark_refuse(struct redis_store *s, const char *dir, int32_t code, const char *said)
{
    snprintf(s->store.text, sizeof s->store.text, "%.300s: %s", dir, said);
    return mt_error(code, errno, "use the state folder");
}

static mt_status mark_read(struct redis_store *s, const char *dir)
{
    char path[HEAD_STORE_PATH_SIZE], text[MARK_SIZE + 1];
    if (snprintf(path, sizeof path, "%s/" HEAD_STORE_FILE, dir) >= (int)sizeof path)
        return mark_refuse(s, dir, MT_EINVAL, "the state folder's path is too long");
    if (access(path, F_OK) == 0)
        return mark_refuse(s, dir, MT_EFENCED,
                           "a store of SQLite (" HEAD_STORE_FILE ") holds this folder's cluster: choose another --state");
    snprintf(path, sizeof path, "%s/" HEAD_STORE_MARK, dir);
    s->mark_fd = open(path, O_RDWR | O_CREAT | O_NOFOLLOW | O_CLOEXEC, 0600);
    if (s->mark_fd < 0)
        return mark_refuse(s, dir, MT_ESYS, "the state folder must be this user's own, and not full");
    if (flock(s->mark_fd, LOCK_EX | LOCK_NB) != 0)
        return mark_refuse(s, dir, MT_EEXIST, "another head uses this state folder: stop it, or choose another --state");
    ssize_t size = pread(s->mark_fd, text, MARK_SIZE, 0);
    text[size > 0 ? size : 0] = '\0';
    if (size > 0 && sscanf(text, "cluster=%39s\nholder=%32s\nfence=%" SCNu64, s->mark.cluster, s->mark.holder, &s->mark.fence) != 3)
        return mark_refuse(s, dir, MT_ECORRUPT,
                           "its file \"" HEAD_STORE_MARK "\" is damaged: remove it to take what the store has");
    return mt_ok();
}

/* Before anything follows from the lead: the next start tells by it whether the store is older. */
static mt_status mark_write(struct redis_store *s)
{
    char text[MARK_SIZE + 1];
    int  size = snprintf(text, sizeof text, "cluster=%s\nholder=%s\nfence=%" PRIu64 "\nplace=%.200s\nname=%s\n", s->leader.cluster,
                         s->mark.holder, s->leader.at.fence, s->link.place.shown, s->link.place.cluster);
    memset(text + size, '\n', (size_t)(MARK_SIZE - size));
    if (pwrite(s->mark_fd, text, MARK_SIZE, 0) == MARK_SIZE && fdatasync(s->mark_fd) == 0)
        return mt_ok();
    int sys = errno;
    snprintf(s->store.text, sizeof s->store.text, "the state folder can't be written: %s", strerror(sys));
    return mt_error(sys == ENOSPC ? MT_EDISK_FULL : MT_ESYS, sys, "write the state folder");
}

static mt_status draw_holder(struct redis_store *s)
{
    uint8_t bytes[8];
    char    host[30] = "";
    if (s->mark.holder[0] == '\0') {
        MT_TRY(mt_random_bytes(bytes, sizeof bytes));
        for (size_t i = 0; i < sizeof bytes; i++)
            snprintf(s->mark.holder + 2 * i, 3, "%02x", bytes[i]);
    }
    (void)gethostname(host, sizeof host - 1);
    snprintf(s->link.me, sizeof s->link.me, "%s@%s", s->mark.holder, host);
    return mt_ok();
}

/* ---- taking the lead ---- */

static mt_status lead_refused(struct redis_store *s, const struct head_said *said, const char *ours)
{
    char text[160];
    switch (said->word) {
    case HEAD_WORD_BUSY:
        snprintf(text, sizeof text, "another head leads it, on %.60s",
                 strchr(said->holder, '@') ? strchr(said->holder, '@') + 1 : "?");
        return refuse(s, MT_ENOTLEADER, text, "stand by for it (--standby), stop that one, or give this cluster another name");
    case HEAD_WORD_EMPTY:
        return refuse(s, MT_ECORRUPT, "the store is empty, and this folder's cluster was in it",
                      "restore it, or choose another --state to begin with an empty cluster");
    case HEAD_WORD_OLDER:
        return refuse(s, MT_ECORRUPT, "the store is older than what this folder's head has led",
                      "restore a newer one, or remove the file \"" HEAD_STORE_MARK "\" of the state folder to go on with this one");
    case HEAD_WORD_BROKEN: return refuse(s, MT_ECORRUPT, head_word_text(said->word), "restore it from a copy");
    case HEAD_WORD_FOREIGN: return refuse(s, MT_EFENCED, head_word_text(said->word), "give this cluster another name");
    case HEAD_WORD_OTHER:
        snprintf(text, sizeof text, "it belongs to cluster %s, not to %.39s", said->cluster, ours);
        return refuse(s, MT_EFENCED, text, "give this cluster another name, or choose another --state");
    default: return refuse(s, MT_EINTERNAL, head_word_text(said->word), "");
    }
}

/* A server that reads its file, is about to come, or has no time to answer is waited for. */
static mt_status ask_patiently(struct redis_store *s, const struct head_ask *ask, struct head_said *said)
{
    int64_t end = mt_now_ms() + OPENING_MS;
    for (;; mt_sleep_ms(OPENING_STEP_MS)) {
        mt_status st = told(s, head_link_ask(&s->link, ask, said, NULL));
        if ((st.code != MT_EAGAIN && st.code != MT_ETIMEDOUT) || mt_now_ms() >= end)
            return st;
    }
}

static mt_status lead(struct redis_store *s, const struct head_store_redis *options)
{
    struct head_said said;
    const char      *ours = options->must_match ? options->cluster : s->mark.cluster;
    struct head_ask  ask = {.kind = HEAD_ASK_LEAD,
                            .cluster = ours,
                            .new_cluster = options->cluster,
                            .place = options->place,
                            .may_make = s->mark.fence == 0 && !options->is_follower,
                            .at = {.fence = s->mark.fence > options->seen ? s->mark.fence : options->seen},
                            .was = {.run = options->dead_run}};
    MT_TRY(mt_random_bytes(&ask.at.run, sizeof ask.at.run));
    ask.at.run |= 1;
    MT_TRY(ask_patiently(s, &ask, &said));
    if (said.word != HEAD_WORD_OK)
        return lead_refused(s, &said, ours);
    MT_TRY(head_leader_init(&s->leader, &said));
    s->leads = true;
    s->store.fence = said.at.fence;
    s->store.run = said.at.run;
    memcpy(s->store.cluster, said.cluster, sizeof s->store.cluster);
    return mark_write(s);
}

static mt_status opened(struct redis_store *s, const struct head_store_redis *options)
{
    mt_status st = head_link_open(&s->link, options->url, options->auth_file, options->may_lose);
    if (st.code != 0)
        return told(s, st);
    st = io_check_private_dir(options->dir);
    if (st.code != 0)
        return mark_refuse(s, options->dir, st.code, "the state folder must be this user's own, mode 0700");
    MT_TRY(mark_read(s, options->dir));
    MT_TRY(draw_holder(s));
    return lead(s, options);
}

mt_status head_store_redis_open(const struct head_store_redis *options, char *text, struct head_store **out_store)
{
    struct redis_store *s = calloc(1, sizeof *s);
    text[0] = '\0';
    if (!s)
        return mt_error(MT_ENOMEM, 0, "open the head's store");
    s->store.ops = &redis_ops;
    s->mark_fd = -1;
    s->link.rds = RDS_NONE;
    mt_status st = opened(s, options);
    if (st.code != 0) {
        snprintf(text, HEAD_STORE_TEXT_SIZE, "%s", s->store.text[0] ? s->store.text : st.what);
        redis_close(&s->store);
        return st;
    }
    *out_store = &s->store;
    return mt_ok();
}

static void redis_leave(struct head_store *store)
{
    struct redis_store *s = mt_container_of(store, struct redis_store, store);
    struct head_ask     ask = {.kind = HEAD_ASK_LEAVE, .at = s->leader.at, .was = s->leader.at};
    struct head_said    said;
    if (s->leads && s->broken.code == 0 && s->link.rds.fd >= 0) /* else the lock ends by itself */
        (void)head_link_ask(&s->link, &ask, &said, NULL).code;
    s->broken = mt_error(MT_EFENCED, 0, "the lead was let go");
}

static void redis_close(struct head_store *store)
{
    struct redis_store *s = mt_container_of(store, struct redis_store, store);
    if (s->leads && s->broken.code == 0)
        redis_leave(store);
    rds_hang_up(&s->link.rds);
    if (s->leads)
        head_leader_fini(&s->leader);
    if (s->mark_fd >= 0)
        close(s->mark_fd);
    free(s);
}

/* ---- reading ---- */

struct filler {
    struct head_link_reader reader;
    struct redis_store     *s;
};

static mt_status fill(struct head_link_reader *reader, mt_view field, mt_view value)
{
    return head_shelf_put(&mt_container_of(reader, struct filler, reader)->s->leader.shelf, head_item_new(field, value));
}

static void fill_past(struct head_link_reader *reader, uint64_t seq, uint64_t digest)
{
    head_leader_past(&mt_container_of(reader, struct filler, reader)->s->leader, seq, digest);
}

static mt_status give(struct redis_store *s, const struct head_item *item, struct head_store_reader *reader)
{
    struct head_record r;
    mt_status          st = head_item_unpack(item->field, item->value, &r);
    if (st.code != 0)
        return refuse(s, st.code, st.what, st.code == MT_EVERSION ? "use that release" : "restore the store from a copy");
    return reader->record(reader, r.table, r.key, r.key_size, r.value, r.value_size);
}

/* By table and key, as SQLite gives them. */
static mt_status give_all(struct redis_store *s, struct head_store_reader *reader)
{
    const struct head_item **all;
    MT_TRY(head_shelf_sorted(&s->leader.shelf, &all));
    mt_status st = mt_ok();
    for (size_t i = 0; all[i] && st.code == 0; i++)
        st = give(s, all[i], reader);
    free(all);
    return st;
}

static mt_status redis_load(struct head_store *store, struct head_store_reader *reader)
{
    struct redis_store *s = mt_container_of(store, struct redis_store, store);
    struct filler       f = {.reader = {fill, fill_past}, .s = s};
    struct head_ask     ask = {.kind = HEAD_ASK_LOAD, .cluster = s->leader.cluster, .at = s->leader.at};
    struct head_said    said;
    head_shelf_fini(&s->leader.shelf); /* of a load that broke off */
    MT_TRY(told(s, head_link_ask(&s->link, &ask, &said, &f.reader)));
    if (said.word != HEAD_WORD_OK)
        return refuse(s, MT_EFENCED, head_word_text(said.word), "start the head again");
    return give_all(s, reader);
}

/* ---- writing ---- */

static mt_status stopped(struct redis_store *s, const struct head_said *said)
{
    return refuse(s, MT_EAGAIN, head_word_text(said->word),
                  "the head acknowledges nothing more: restore what it had, or stop the head to go on with what is there");
}

static void say_rewritten(struct redis_store *s)
{
    if (s->leader.rewritten == s->rewritten)
        return;
    s->rewritten = s->leader.rewritten;
    mt_log(MT_LOG_WARN, "store_rewritten", "place=%s records=%" PRIu64 " seq=%" PRIu64 ": it had forgotten some",
           s->link.place.shown, s->leader.shelf.count, s->leader.at.seq);
}

/* Nothing of what the server may say ends the head, but that another leads: it is asked again, for ever. */
static mt_status later(struct redis_store *s, mt_status st)
{
    (void)told(s, st).code;
    return st.code == MT_EDISK_FULL ? st : mt_error(MT_EAGAIN, st.sys, "reach the head's store");
}

/* Asks until the leader is content. A connection that was lost is dialled anew once; then it is for the next try. */
static mt_status settle(struct redis_store *s)
{
    struct head_ask  ask;
    struct head_said said;
    bool             has_redialled = false;
    int64_t          begun_ms = mt_now_ms(); /* this head may stand still while the answer is under way */
    if (s->broken.code != 0)
        return s->broken;
    memcpy(s->leader.place, s->store.place, sizeof s->leader.place);
    for (int i = 0; i < ASKS_MAX; i++) {
        head_leader_ask(&s->leader, &ask);
        mt_status st = head_link_ask(&s->link, &ask, &said, NULL);
        if (st.code == MT_ECONN && !has_redialled) {
            has_redialled = true;
            continue;
        }
        if (st.code != 0)
            return later(s, st);
        enum head_verdict verdict = head_leader_told(&s->leader, &said);
        say_rewritten(s);
        if (verdict == HEAD_DONE) {
            s->settled_ms = begun_ms;
            return mt_ok();
        }
        if (verdict == HEAD_STOPPED)
            return stopped(s, &said);
        if (verdict == HEAD_FENCED)
            return s->broken = refuse(s, MT_EFENCED, head_word_text(said.word), "this head has ended");
    }
    return refuse(s, MT_EAGAIN, "it stands elsewhere each time it is looked at", "");
}

static mt_status redis_apply(struct head_store *store, const struct head_store_batch *batches, size_t count)
{
    struct redis_store *s = mt_container_of(store, struct redis_store, store);
    MT_VEC(const struct head_record *) records = {0};
    mt_status st = mt_ok();
    for (size_t i = 0; i < count; i++)
        for (size_t j = 0; j < batches[i].count && st.code == 0; j++)
            st = mt_vec_push(&records, &batches[i].records[j]);
    if (st.code == 0)
        st = head_leader_begin(&s->leader, records.data, records.count);
    mt_vec_fini(&records);
    if (st.code != 0)
        return later(s, st); /* no memory: nothing was begun */
    return settle(s);
}

/* After the store has said that this head leads: a copy of what another one's commits have followed is of no use. */
static mt_status redis_each(struct head_store *store, struct head_store_reader *reader)
{
    struct redis_store *s = mt_container_of(store, struct redis_store, store);
    MT_TRY(settle(s));
    return give_all(s, reader);
}

/* A commit has renewed the lock too: looking behind each one would cost as much as the commit. */
static mt_status redis_look(struct head_store *store, struct head_store_room *out)
{
    struct redis_store *s = mt_container_of(store, struct redis_store, store);
    int64_t             begun_ms = mt_now_ms();
    if (begun_ms - s->looked_ms >= MT_HEAD_STORE_LOOK_MS / 2) {
        if (mt_now_ms() - s->settled_ms >= MT_HEAD_STORE_LOOK_MS / 2)
            MT_TRY(settle(s));
        uint64_t room = head_link_room(&s->link);
        s->room = (struct head_store_room){room >= MT_HEAD_STORE_SPARE_BYTES, room / MT_HEAD_RESERVE_COPIES};
        s->looked_ms = begun_ms;
    }
    *out = s->room;
    return mt_ok();
}
