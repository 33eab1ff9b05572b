/* SPDX-License-Identifier: Apache-2.0
 *
 * store.c - batches to the store's thread, as many in one commit as have come in meanwhile.
 *
 * Owns:    the batches from the core's action until the store has them.
 * Thread:  the loop's; commit_work on the store's.
 * Always:  at most one commit and one look are under way; batches are confirmed in order.
 *
 * A commit that finds the disk full, or a store that is not there, is tried again until it succeeds; what comes meanwhile
 * waits behind it, and the core is told.
 */
#include "core/base/log.h"
#include "core/base/rng.h"
#include "core/io/listener.h" /* io_is_loopback */
#include "scheduler/head/shell/shell.h"

#include <stdio.h>
#include <stdlib.h>
#include <sys/stat.h>

struct commit {
    struct io_job            job;
    struct shell            *sh;
    struct head_store_batch *batches;
    uint64_t                *tokens;
    size_t                   count;
    mt_status                status;
    bool                     is_waiting; /* for room, or for the store; else it is under way */
    uint64_t                 begun_ms;
    struct head_store_room   seen; /* after it */
    mt_status                looked;
};

/* ---- room on the disk ---- */

static void look_work(struct io_job *job)
{
    struct shell *sh = mt_container_of(job, struct shell, look);
    sh->looked = sh->store->ops->look(sh->store, &sh->seen);
}

static void room_set(struct shell *sh, enum head_room room, uint64_t bytes)
{
    static const char *const words[] = {"enough", "short", "none", "away"};
    struct head_event        event = {.kind = HEAD_EV_ROOM, .room = {room, bytes}};
    if (room != sh->room)
        mt_log(room == HEAD_ROOM_ENOUGH ? MT_LOG_INFO : MT_LOG_WARN, "disk", "room=%s folder=%s", words[room], sh->state);
    sh->room = room;
    sh->is_tight = room != HEAD_ROOM_ENOUGH || bytes < MT_HEAD_RESERVE_BYTES;
    head_shell_step(sh, &event);
}

static void room_seen(struct shell *sh, const struct head_store_room *seen)
{
    sh->away_ms = 0;
    room_set(sh, seen->has_reserve ? HEAD_ROOM_ENOUGH : HEAD_ROOM_SHORT, seen->bytes);
}

static void commit_submit(struct shell *sh);
static bool commit_is_waiting(const struct shell *sh);

static void room_later(struct shell *sh)
{
    if (!sh->is_ending)
        io_timer_start(sh->loop, &sh->room_timer, sh->is_tight || sh->away_ms ? MT_HEAD_FULL_MS : sh->store->ops->look_ms);
}

/* What waits for it waits, for a while without a word; then whoever asks is told. */
static void store_away(struct shell *sh)
{
    if (sh->away_ms == 0)
        mt_log(MT_LOG_WARN, "store_away", "%s", sh->store->text);
    if (sh->away_ms == 0)
        sh->away_ms = io_now_ms();
    if (sh->room != HEAD_ROOM_AWAY && io_now_ms() - sh->away_ms >= MT_HEAD_STORE_AWAY_MS)
        room_set(sh, HEAD_ROOM_AWAY, 0);
}

/* Another head leads, or the disk has failed: what this one says now is nobody's. */
static void store_lost(struct shell *sh, mt_status st)
{
    mt_log(MT_LOG_ERROR, "store", "%s", sh->store->text);
    head_shell_end(sh, st);
}

/* The store has answered to what was asked then, and not by the name of another leader. One that does not answer takes nothing from
 * anybody: what is known goes on to be told. */
static void trusted(struct shell *sh, uint64_t asked_ms)
{
    if (sh->doubt_ms && asked_ms >= sh->doubt_ms)
        sh->doubt_ms = 0;
}

static void look_done(struct io_job *job)
{
    struct shell *sh = mt_container_of(job, struct shell, look);
    sh->is_looking = false;
    trusted(sh, sh->look_ms);
    if (sh->looked.code == MT_EAGAIN)
        store_away(sh);
    else if (sh->looked.code != 0 && sh->looked.code != MT_EDISK_FULL)
        store_lost(sh, sh->looked);
    else if (sh->room != HEAD_ROOM_NONE && !sh->commit) /* then only a commit that succeeds says that there is room again */
        room_seen(sh, &sh->seen);
    room_later(sh);
}

/* A look that is due while another one is under way is left out: the end of that one says when the next is. */
static void look(struct shell *sh)
{
    if (sh->is_looking)
        return;
    sh->look_ms = io_now_ms();
    sh->look = (struct io_job){.work = look_work, .done = look_done};
    sh->is_looking = io_worker_submit(sh->store_worker, &sh->look).code == 0;
    if (!sh->is_looking)
        room_later(sh);
}

void head_shell_store_ask(struct shell *sh)
{
    if (!sh->commit)
        look(sh);
}

static void room_due(struct io_timer *timer)
{
    struct shell *sh = mt_container_of(timer, struct shell, room_timer);
    if (commit_is_waiting(sh))
        commit_submit(sh);
    else
        look(sh);
}

/* ---- commits ---- */

static void commit_work(struct io_job *job)
{
    struct commit *c = mt_container_of(job, struct commit, job);
    struct shell  *sh = c->sh;
    c->status = sh->store->ops->apply(sh->store, c->batches, c->count);
    if (c->status.code == 0)
        c->looked = sh->store->ops->look(sh->store, &c->seen);
}

static bool commit_is_waiting(const struct shell *sh)
{
    return sh->commit && sh->commit->is_waiting;
}

static void commit_free(struct commit *c)
{
    for (size_t i = 0; i < c->count; i++)
        head_records_free(c->batches[i].records, c->batches[i].count);
    free(c->batches);
    free(c->tokens);
    free(c);
}

static void commit_begin(struct shell *sh);

/* The head has promised nothing of it. Before it serves it does not wait: who starts it is told. */
static void commit_waits(struct shell *sh, mt_status why)
{
    sh->commit->is_waiting = true;
    if (why.code == MT_EAGAIN) {
        store_away(sh);
        room_later(sh);
        return;
    }
    if (sh->room != HEAD_ROOM_NONE)
        mt_log(MT_LOG_WARN, "store", "%s", sh->store->text);
    room_set(sh, HEAD_ROOM_NONE, 0);
    room_later(sh);
}

static void commit_done(struct io_job *job)
{
    struct commit *c = mt_container_of(job, struct commit, job);
    struct shell  *sh = c->sh;
    MT_ASSERT(sh->commit == c && !c->is_waiting); /* the only one, and under way */
    if (c->status.code == 0 || c->status.code == MT_EAGAIN)
        trusted(sh, c->begun_ms);
    if ((c->status.code == MT_EDISK_FULL || c->status.code == MT_EAGAIN) && sh->is_stored) {
        commit_waits(sh, c->status);
        return;
    }
    sh->commit = NULL;
    if (c->status.code != 0)
        mt_log(MT_LOG_ERROR, "store", "%s", sh->store->text);
    for (size_t i = 0; i < c->count; i++) {
        struct head_event event = {.kind = HEAD_EV_STORED, .stored = {c->tokens[i], c->status}};
        head_shell_step(sh, &event);
    }
    if (c->status.code == 0 && sh->away_ms)
        mt_log(MT_LOG_INFO, "store_back", "after_ms=%llu", (unsigned long long)(io_now_ms() - sh->away_ms));
    if (c->status.code == 0 && c->looked.code == 0)
        room_seen(sh, &c->seen);
    room_later(sh); /* what that look failed by, the next one says */
    commit_free(c);
    commit_begin(sh);
}

static void commit_submit(struct shell *sh)
{
    MT_ASSERT(sh->commit->is_waiting);
    sh->commit->is_waiting = false;
    sh->commit->begun_ms = io_now_ms();
    mt_status st = io_worker_submit(sh->store_worker, &sh->commit->job);
    if (st.code != 0)
        head_shell_end(sh, st);
}

static void commit_begin(struct shell *sh)
{
    if (sh->commit || sh->batches.count == 0 || sh->is_ending)
        return; /* at the end: nobody was told of what still waits, so who asked asks the next head */
    struct commit *c = calloc(1, sizeof *c);
    size_t         count = sh->batches.count;
    if (c) {
        c->batches = calloc(count, sizeof *c->batches);
        c->tokens = calloc(count, sizeof *c->tokens);
    }
    if (!c || !c->batches || !c->tokens) {
        if (c)
            commit_free(c);
        head_shell_end(sh, mt_error(MT_ENOMEM, 0, "commit to the store"));
        return;
    }
    c->job = (struct io_job){.work = commit_work, .done = commit_done};
    c->sh = sh;
    c->count = count;
    c->is_waiting = true;
    for (size_t i = 0; i < count; i++) {
        c->batches[i] = (struct head_store_batch){sh->batches.data[i].store.records, sh->batches.data[i].store.count};
        c->tokens[i] = sh->batches.data[i].store.token;
    }
    sh->batches.count = 0;
    sh->commit = c;
    commit_submit(sh);
}

void head_shell_store_batch(struct shell *sh, struct head_action *action)
{
    mt_status st = mt_vec_push(&sh->batches, *action);
    if (st.code != 0) {
        head_shell_end(sh, st);
        return;
    }
    action->store.records = NULL;
    action->store.count = 0;
    commit_begin(sh);
}

/* ---- opening ---- */

struct loader {
    struct head_store_reader reader;
    struct shell            *sh;
};

static mt_status load_record(struct head_store_reader *reader, enum head_table table, const uint8_t *key, size_t key_size,
                             const uint8_t *value, size_t value_size)
{
    struct loader *l = mt_container_of(reader, struct loader, reader);
    return head_load(l->sh->head, table, key, key_size, value, value_size);
}

static mt_status new_cluster_id(char out[HEAD_CLUSTER_SIZE])
{
    uint8_t bytes[16];
    MT_TRY(mt_random_bytes(bytes, sizeof bytes));
    for (size_t i = 0; i < sizeof bytes; i++)
        snprintf(out + 2 * i, 3, "%02x", bytes[i]);
    return mt_ok();
}

static mt_status make_core(struct shell *sh)
{
    struct head_config config = {.now_ms = io_now_ms(),
                                 .blob_bytes_max = sh->options.blob_bytes_max,
                                 .runs_as_root = sh->runs_as_root,
                                 .is_insecure = sh->options.is_insecure && !io_is_loopback(sh->options.host),
                                 .epoch_min = sh->store->fence,
                                 .first_node = sh->is_private ? 2 : 1};
    MT_TRY(mt_random_bytes(&config.seed, sizeof config.seed));
    memcpy(config.cluster, sh->store->cluster, sizeof config.cluster);
    return head_new(&config, &sh->head);
}

/* The mark of a store that was led from this folder. */
bool head_shell_has_led(const struct shell *sh)
{
    char        path[SHELL_PATH_SIZE];
    struct stat info;
    head_shell_path(sh, "", HEAD_STORE_MARK, path);
    return stat(path, &info) == 0 && info.st_size > 0;
}

static mt_status open_kind(struct shell *sh, const char *cluster, char *text)
{
    const struct head_options *o = &sh->options;
    struct head_store_redis    redis = {.url = o->store,
                                        .auth_file = o->store_auth,
                                        .dir = sh->state,
                                        .cluster = cluster,
                                        .must_match = o->cluster != NULL,
                                        .may_lose = o->store_may_lose};
    return o->store ? head_store_redis_open(&redis, text, &sh->store)
                    : head_store_sqlite_open(sh->state, cluster, o->cluster != NULL, !sh->is_private, text, &sh->store);
}

mt_status head_shell_store_take(struct shell *sh, struct head_store *take_store)
{
    struct loader loader = {.reader.record = load_record, .sh = sh};
    sh->store = take_store;
    snprintf(sh->store->place, sizeof sh->store->place, "%s", sh->address);
    mt_status st = make_core(sh);
    if (st.code == 0 && (st = sh->store->ops->load(sh->store, &loader.reader)).code != 0)
        fprintf(stderr, "manta-head: %s\n", sh->store->text[0] ? sh->store->text : st.what);
    if (st.code == 0 && !sh->store_worker)
        st = io_worker_new(sh->loop, MT_HEAD_COMMITS_MAX, &sh->store_worker);
    sh->room_timer.fire = room_due;
    if (st.code == 0)
        room_later(sh);
    return st;
}

mt_status head_shell_store_open(struct shell *sh)
{
    char        text[HEAD_STORE_TEXT_SIZE] = "", cluster[HEAD_CLUSTER_SIZE];
    const char *wanted = sh->options.cluster;
    MT_TRY(new_cluster_id(cluster));
    mt_status st = open_kind(sh, wanted ? wanted : cluster, text);
    if (st.code == 0)
        return head_shell_store_take(sh, sh->store);
    if (st.code != MT_ENOTLEADER || !head_shell_has_led(sh))
        fprintf(stderr, "manta-head: %s\n", text[0] ? text : st.what);
    return st;
}
void head_shell_store_finish(struct shell *sh)
{
    io_timer_stop(&sh->room_timer);
    if (sh->store_worker)
        io_worker_free(sh->store_worker);
    sh->store_worker = NULL;
    if (sh->store && sh->store->ops->leave)
        sh->store->ops->leave(sh->store);
}

void head_shell_store_close(struct shell *sh)
{
    if (sh->commit)
        commit_free(sh->commit); /* there was no room for it to the end */
    for (size_t i = 0; i < sh->batches.count; i++)
        head_records_free(sh->batches.data[i].store.records, sh->batches.data[i].store.count);
    mt_vec_fini(&sh->batches);
    if (sh->store)
        sh->store->ops->close(sh->store);
}
