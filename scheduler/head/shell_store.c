/* SPDX-License-Identifier: Apache-2.0
 *
 * shell_store.c - batches to the store's thread, as many in one commit as have come in meanwhile.
 *
 * Owns:    the batches from the core's action until the store has them.
 * Thread:  the loop's; commit_work on the store's.
 * Always:  at most one commit is under way; batches are confirmed in order.
 */
#include "core/base/log.h"
#include "core/io/listener.h" /* io_is_loopback */
#include "scheduler/head/shell.h"

#include <stdio.h>
#include <stdlib.h>

struct commit {
    struct io_job            job;
    struct shell            *sh;
    struct head_store_batch *batches;
    uint64_t                *tokens;
    size_t                   count;
    mt_status                status;
};

static void commit_work(struct io_job *job)
{
    struct commit *c = mt_container_of(job, struct commit, job);
    c->status = c->sh->store->ops->apply(c->sh->store, c->batches, c->count);
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

static void commit_done(struct io_job *job)
{
    struct commit *c = mt_container_of(job, struct commit, job);
    struct shell  *sh = c->sh;
    sh->commit = NULL;
    if (c->status.code != 0)
        mt_log(MT_LOG_ERROR, "store", "%s", sh->store->text);
    for (size_t i = 0; i < c->count; i++) {
        struct head_event event = {.kind = HEAD_EV_STORED, .token = c->tokens[i], .status = c->status};
        shell_step(sh, &event);
    }
    commit_free(c);
    commit_begin(sh);
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
        shell_end(sh, mt_error(MT_ENOMEM, 0, "commit to the store"));
        return;
    }
    c->job = (struct io_job){.work = commit_work, .done = commit_done};
    c->sh = sh;
    c->count = count;
    for (size_t i = 0; i < count; i++) {
        c->batches[i] = (struct head_store_batch){sh->batches.data[i].records, sh->batches.data[i].record_count};
        c->tokens[i] = sh->batches.data[i].token;
    }
    sh->batches.count = 0;
    mt_status st = io_worker_submit(sh->store_worker, &c->job);
    if (st.code != 0) {
        commit_free(c);
        shell_end(sh, st);
        return;
    }
    sh->commit = c;
}

void shell_store_batch(struct shell *sh, struct head_action *action)
{
    mt_status st = mt_vec_push(&sh->batches, *action);
    if (st.code != 0) {
        shell_end(sh, st);
        return;
    }
    action->records = NULL;
    action->record_count = 0;
    commit_begin(sh);
}

/* ---- opening ---- */

struct loader {
    struct head_store_reader reader;
    struct shell            *sh;
};

static mt_status load_record(struct head_store_reader *reader, enum head_table table, const uint8_t *key,
                             size_t key_size, const uint8_t *value, size_t value_size)
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
    struct head_config config = {.now_ms = io_now_ms(), .blob_bytes_max = sh->options.blob_bytes_max,
                                 .runs_as_root = sh->runs_as_root,
                                 .is_insecure = sh->options.is_insecure && !io_is_loopback(sh->options.host),
                                 .first_node = sh->is_private ? 2 : 1};
    MT_TRY(mt_random_bytes(&config.seed, sizeof config.seed));
    memcpy(config.cluster, sh->store->cluster, sizeof config.cluster);
    return head_new(&config, &sh->head);
}

mt_status shell_store_open(struct shell *sh)
{
    char          text[HEAD_STORE_TEXT_SIZE] = "", cluster[HEAD_CLUSTER_SIZE];
    struct loader loader = {.reader.record = load_record, .sh = sh};
    const char   *wanted = sh->options.cluster;
    MT_TRY(new_cluster_id(cluster));
    mt_status st = head_store_sqlite_open(sh->state, wanted ? wanted : cluster, wanted != NULL, !sh->is_private, text,
                                          &sh->store);
    if (st.code == 0)
        st = make_core(sh);
    if (st.code == 0 && (st = sh->store->ops->load(sh->store, &loader.reader)).code != 0)
        snprintf(text, sizeof text, "%s", sh->store->text[0] ? sh->store->text : st.what);
    if (st.code == 0)
        st = io_worker_new(sh->loop, MT_HEAD_COMMITS_MAX, &sh->store_worker);
    if (st.code != 0)
        fprintf(stderr, "manta-head: %s\n", text[0] ? text : st.what);
    return st;
}

void shell_store_finish(struct shell *sh)
{
    if (sh->store_worker)
        io_worker_free(sh->store_worker);
    sh->store_worker = NULL;
}

void shell_store_close(struct shell *sh)
{
    for (size_t i = 0; i < sh->batches.count; i++)
        head_records_free(sh->batches.data[i].records, sh->batches.data[i].record_count);
    mt_vec_fini(&sh->batches);
    if (sh->store)
        sh->store->ops->close(sh->store);
}
