/* SPDX-License-Identifier: Apache-2.0
 *
 * backup.c - the head's state to a client, while the head goes on: Backup.
 *
 * Owns:    each struct backup, from its stream's begin until both the stream and the work have ended.
 * Thread:  the loop's; read_work on the store's, between two commits.
 *
 *   wait for request --> read all records into memory --> send a piece --> send ... --> end
 *                                                            '-- queue full: wait for `drained`
 */
#include "core/proto/manta.pb-c.h"
#include "core/rpc/codec.h"
#include "scheduler/head/shell/backup.h"

#include <stdio.h>
#include <stdlib.h>

struct backup {
    struct rpc_stream_handler handler;
    struct shell             *sh;
    struct rpc_stream        *stream;
    struct io_job             job;
    bool                      is_reading, is_read, is_closed, is_finished;
    struct head_copy          copy;
    mt_status                 status; /* of the reading */
    char                      text[HEAD_STORE_TEXT_SIZE];
    uint8_t                   sha256[MT_SHA256_SIZE]; /* of the whole file */
    size_t                    offset;
};

static void backup_free(struct backup *b)
{
    b->sh->backups--;
    head_copy_fini(&b->copy);
    free(b);
}

static void backup_finish(struct backup *b, mt_status st, const char *text)
{
    if (!b->is_finished)
        rpc_stream_finish(b->stream, st, text);
    b->is_finished = true;
}

static void backup_closed(struct rpc_stream_handler *handler, struct rpc_stream *stream, const struct rpc_result *result)
{
    struct backup *b = mt_container_of(handler, struct backup, handler);
    (void)result;
    rpc_stream_free(stream);
    b->is_closed = true;
    if (!b->is_reading)
        backup_free(b);
}

/* ---- reading ---- */

static void read_work(struct io_job *job)
{
    struct backup        *b = mt_container_of(job, struct backup, job);
    struct head_store    *store = b->sh->store;
    struct head_copy_info info;
    mt_sha256             sha;
    b->status = head_copy_begin(&b->copy, store->cluster);
    if (b->status.code == 0)
        b->status = store->ops->each(store, &b->copy.reader);
    if (b->status.code != 0)
        snprintf(b->text, sizeof b->text, "%s", store->text[0] ? store->text : b->status.what);
    if (b->status.code == 0)
        b->status = head_copy_end(&b->copy, &info);
    mt_sha256_init(&sha);
    mt_sha256_add(&sha, b->copy.bytes.data, b->copy.bytes.size);
    mt_sha256_end(&sha, b->sha256);
}

static mt_status send_piece(struct backup *b, size_t size)
{
    Manta__V1__BlobChunk chunk = MANTA__V1__BLOB_CHUNK__INIT;
    mt_buf               packed = {0};
    chunk.sha256 = (ProtobufCBinaryData){sizeof b->sha256, b->sha256};
    chunk.offset = b->offset;
    chunk.size = b->copy.bytes.size;
    chunk.data = (ProtobufCBinaryData){size, b->copy.bytes.data + b->offset};
    mt_status st = rpc_pack(&chunk.base, &packed);
    if (st.code == 0)
        st = rpc_stream_send(b->stream, mt_buf_view(&packed));
    mt_buf_fini(&packed);
    return st;
}

/* As much as the queue takes; `drained` goes on. */
static void send_more(struct backup *b)
{
    mt_status st = mt_ok();
    while (st.code == 0 && b->offset < b->copy.bytes.size) {
        size_t left = b->copy.bytes.size - b->offset, size = left < MT_HEAD_PIECE_BYTES ? left : MT_HEAD_PIECE_BYTES;
        st = send_piece(b, size);
        if (st.code == 0)
            b->offset += size;
    }
    if (st.code == 0 || st.code != MT_EAGAIN)
        backup_finish(b, st, st.code ? st.what : NULL);
}

static void read_done(struct io_job *job)
{
    struct backup *b = mt_container_of(job, struct backup, job);
    b->is_reading = false;
    b->is_read = true;
    if (b->is_closed)
        backup_free(b);
    else if (b->status.code != 0)
        backup_finish(b, b->status, b->text);
    else if (!b->is_finished)
        send_more(b);
}

static void backup_drained(struct rpc_stream_handler *handler, struct rpc_stream *stream)
{
    struct backup *b = mt_container_of(handler, struct backup, handler);
    (void)stream;
    if (b->is_read && !b->is_finished)
        send_more(b);
}

/* ---- requests ---- */

static void backup_message(struct rpc_stream_handler *handler, struct rpc_stream *stream, mt_view message)
{
    struct backup *b = mt_container_of(handler, struct backup, handler);
    (void)stream, (void)message; /* it asks for nothing but this */
    if (b->is_reading || b->is_read || b->is_finished)
        return;
    b->job = (struct io_job){.work = read_work, .done = read_done};
    b->is_reading = b->sh->is_ready && io_worker_submit(b->sh->store_worker, &b->job).code == 0;
    if (!b->is_reading)
        backup_finish(b, mt_error(MT_EAGAIN, 0, "the head's store is busy: ask again"), "the head's store is busy: ask again");
}

static void backup_ended(struct rpc_stream_handler *handler, struct rpc_stream *stream)
{
    struct backup *b = mt_container_of(handler, struct backup, handler);
    (void)stream;
    if (!b->is_reading && !b->is_read)
        backup_finish(b, mt_error(MT_EPROTO, 0, "the request is missing"), "the request is missing");
}

struct rpc_stream_handler *head_shell_backup(struct rpc_service *service, struct rpc_stream *stream)
{
    struct shell  *sh = mt_container_of(service, struct shell, service);
    struct backup *b = sh->backups < MT_HEAD_BACKUPS_MAX ? calloc(1, sizeof *b) : NULL;
    if (!b)
        return NULL;
    b->handler = (struct rpc_stream_handler){backup_message, backup_drained, backup_ended, backup_closed};
    b->sh = sh;
    b->stream = stream;
    sh->backups++;
    rpc_stream_set_queue(stream, 4 * MT_HEAD_PIECE_BYTES);
    return &b->handler;
}
