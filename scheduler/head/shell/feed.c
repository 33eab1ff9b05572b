/* SPDX-License-Identifier: Apache-2.0
 *
 * feed.c - files to clients, piece by piece, no faster than they read: FollowJob and GetBlob.
 *
 * Owns:    every struct feed, from its stream's begin until both the stream and the read under way have ended.
 * Thread:  the loop's; read_work on the files' thread.
 *
 *   wait for request --> read a piece --> send it --> read ... --> end of file: a blob ends; a log waits for more,
 *                            ^   queue full: wait for `drained`        and ends when its job has ended
 *                            '----------- woken: the log has grown, or the job has ended
 */
#include "core/base/log.h"
#include "core/proto/manta.pb-c.h"
#include "core/rpc/codec.h"
#include "scheduler/head/shell/shell.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

struct feed {
    struct rpc_stream_handler handler;
    struct shell             *sh;
    struct rpc_stream        *stream;
    struct feed              *next, **back;
    bool                      is_blob, has_request, is_reading, is_woken, is_closed, is_finished;
    char                      job[HEAD_JOB_ID_SIZE];
    uint8_t                   sha256[HEAD_SHA_SIZE];
    char                      path[SHELL_PATH_SIZE];
    uint64_t                  offset, size; /* size: of a blob, known after the first read */
    struct io_job             read;
    uint8_t                  *piece;
    size_t                    piece_size;
    int                       sys;
    mt_buf                    held; /* a packed piece that the queue did not take */
};

static void feed_read(struct feed *f);

/* ---- ends ---- */

static void feed_free(struct feed *f)
{
    *f->back = f->next;
    if (f->next)
        f->next->back = f->back;
    f->sh->feed_count--;
    mt_buf_fini(&f->held);
    free(f->piece);
    free(f);
}

static void feed_finish(struct feed *f, int32_t code, const char *text)
{
    if (f->is_finished)
        return;
    f->is_finished = true;
    rpc_stream_finish(f->stream, code == MT_OK ? mt_ok() : mt_error(code, 0, "send a file"), text);
}

static void feed_closed(struct rpc_stream_handler *handler, struct rpc_stream *stream, const struct rpc_result *result)
{
    struct feed *f = mt_container_of(handler, struct feed, handler);
    (void)result;
    rpc_stream_free(stream);
    f->is_closed = true;
    if (!f->is_reading)
        feed_free(f);
}

/* ---- reading ---- */

static void read_work(struct io_job *job)
{
    struct feed *f = mt_container_of(job, struct feed, read);
    struct stat  info;
    ssize_t      n = -1;
    f->piece_size = 0;
    int fd = open(f->path, O_RDONLY | O_NOFOLLOW | O_CLOEXEC);
    f->sys = fd < 0 || fstat(fd, &info) != 0 ? errno : 0;
    if (fd < 0)
        return;
    if (f->sys == 0) {
        f->size = (uint64_t)info.st_size;
        n = pread(fd, f->piece, MT_HEAD_PIECE_BYTES, (off_t)f->offset);
        f->sys = n < 0 ? errno : 0;
    }
    f->piece_size = n > 0 ? (size_t)n : 0;
    close(fd);
}

static mt_status pack_piece(struct feed *f)
{
    Manta__V1__LogChunk  log = MANTA__V1__LOG_CHUNK__INIT;
    Manta__V1__BlobChunk blob = MANTA__V1__BLOB_CHUNK__INIT;
    struct head_job_view view = {0};
    ProtobufCBinaryData  data = {f->piece_size, f->piece};
    if (f->is_blob) {
        blob.sha256 = (ProtobufCBinaryData){HEAD_SHA_SIZE, f->sha256};
        blob.offset = f->offset;
        blob.size = f->size;
        blob.data = data;
        return rpc_pack(&blob.base, &f->held);
    }
    MT_TRY(head_job_look(f->sh->head, f->job, &view));
    log.id = f->job;
    log.offset = f->offset;
    log.attempt = view.attempt;
    log.text = data;
    return rpc_pack(&log.base, &f->held);
}

/* False: the queue is full, `drained` will go on. */
static bool send_held(struct feed *f)
{
    mt_status st = rpc_stream_send(f->stream, mt_buf_view(&f->held));
    if (st.code == MT_EAGAIN)
        return false;
    mt_buf_fini(&f->held);
    f->held = (mt_buf){0};
    if (st.code != 0) {
        rpc_stream_cancel(f->stream);
        f->is_finished = true;
    }
    return true;
}

static void log_at_end(struct feed *f)
{
    bool                 has_noted = head_shell_has_noted(f->sh); /* a piece of this log may be among it */
    struct head_job_view view;
    if (head_job_look(f->sh->head, f->job, &view).code != 0)
        feed_finish(f, MT_ENOENT, "the job is not kept any more");
    else if (view.is_ended && f->offset >= view.log_size)
        feed_finish(f, MT_OK, NULL);
    else if (view.is_ended && !has_noted && f->sh->log_bytes == 0)
        feed_finish(f, MT_ESYS, "a part of the log could not be written");
    else if (f->is_woken || (view.is_ended && has_noted))
        feed_read(f);
}

static void read_failed(struct feed *f)
{
    if (!f->is_blob && f->sys == ENOENT) {
        log_at_end(f); /* nothing was written yet */
        return;
    }
    mt_log(MT_LOG_ERROR, "read_file", "path=%s error=\"%s\"", f->path, strerror(f->sys));
    feed_finish(f, f->sys == ENOENT ? MT_ENOENT : MT_ESYS,
                f->sys == ENOENT ? "the head does not have this file: upload it" : "the head can't read the file");
}

static void read_done(struct io_job *job)
{
    struct feed *f = mt_container_of(job, struct feed, read);
    bool         is_first_of_blob = f->is_blob && f->offset == 0;
    f->is_reading = false;
    if (f->is_closed) {
        feed_free(f);
        return;
    }
    if (f->is_finished)
        return;
    if (f->sys != 0) {
        read_failed(f);
        return;
    }
    if (f->piece_size == 0 && !is_first_of_blob) {
        if (f->is_blob)
            feed_finish(f, MT_OK, NULL);
        else
            log_at_end(f);
        return;
    }
    mt_status st = pack_piece(f);
    if (st.code != 0) {
        feed_finish(f, st.code, st.what);
        return;
    }
    f->offset += f->piece_size;
    if (f->is_blob && f->piece_size == 0) { /* an empty file is one empty piece */
        (void)send_held(f);
        feed_finish(f, MT_OK, NULL);
    } else if (send_held(f)) {
        feed_read(f);
    }
}

static void feed_read(struct feed *f)
{
    if (f->is_reading || f->is_finished || f->is_closed || f->held.data)
        return;
    f->is_woken = false;
    f->is_reading = true;
    f->read = (struct io_job){.work = read_work, .done = read_done};
    mt_status st = io_worker_submit(f->sh->files, &f->read);
    if (st.code != 0) {
        f->is_reading = false;
        feed_finish(f, MT_EAGAIN, "the head's disk is busy: ask again");
    }
}

static void feed_drained(struct rpc_stream_handler *handler, struct rpc_stream *stream)
{
    struct feed *f = mt_container_of(handler, struct feed, handler);
    (void)stream;
    if (!f->held.data || send_held(f))
        feed_read(f);
}

void head_shell_feed_wake(struct shell *sh, const char *job)
{
    for (struct feed *f = sh->feeds, *next; f; f = next) {
        next = f->next;
        if (f->is_blob || !f->has_request || strcmp(f->job, job) != 0)
            continue;
        f->is_woken = true; /* a read under way may have come too early */
        feed_read(f);
    }
}

/* ---- requests ---- */

static void begin_log(struct feed *f, const Manta__V1__FollowRequest *r)
{
    struct head_job_view view;
    if (strlen(r->id) >= sizeof f->job || head_job_look(f->sh->head, r->id, &view).code != 0) {
        feed_finish(f, MT_ENOENT, "no job has this id");
        return;
    }
    snprintf(f->job, sizeof f->job, "%s", r->id);
    f->offset = r->offset;
    head_shell_path(f->sh, "logs", f->job, f->path);
    feed_read(f);
}

static void begin_blob(struct feed *f, const Manta__V1__GetBlobRequest *r)
{
    char hex[MT_SHA256_HEX_SIZE];
    if (r->sha256.len != HEAD_SHA_SIZE) {
        feed_finish(f, MT_EINVAL, "a SHA-256 has 32 bytes");
        return;
    }
    memcpy(f->sha256, r->sha256.data, HEAD_SHA_SIZE);
    head_shell_path(f->sh, "blobs", mt_sha256_hex(f->sha256, hex), f->path);
    feed_read(f);
}

static void feed_message(struct rpc_stream_handler *handler, struct rpc_stream *stream, mt_view message)
{
    struct feed      *f = mt_container_of(handler, struct feed, handler);
    ProtobufCMessage *request = NULL;
    (void)stream;
    if (f->has_request || f->is_finished)
        return;
    f->has_request = true;
    const ProtobufCMessageDescriptor *type = f->is_blob ? &manta__v1__get_blob_request__descriptor
                                                        : &manta__v1__follow_request__descriptor;
    if (rpc_unpack(type, message, MT_CONTROL_BYTES_MAX, &request).code != 0) {
        feed_finish(f, MT_EPROTO, "the request can't be read");
        return;
    }
    if (f->is_blob)
        begin_blob(f, (const Manta__V1__GetBlobRequest *)request);
    else
        begin_log(f, (const Manta__V1__FollowRequest *)request);
    rpc_unpack_free(request);
}

static void feed_ended(struct rpc_stream_handler *handler, struct rpc_stream *stream)
{
    struct feed *f = mt_container_of(handler, struct feed, handler);
    (void)stream;
    if (!f->has_request)
        feed_finish(f, MT_EPROTO, "the request is missing");
}

static struct rpc_stream_handler *feed_new(struct rpc_service *service, struct rpc_stream *stream, bool is_blob)
{
    struct shell *sh = mt_container_of(service, struct shell, service);
    struct feed  *f = sh->feed_count < MT_HEAD_FEEDS_MAX ? calloc(1, sizeof *f) : NULL;
    if (!f || !(f->piece = malloc(MT_HEAD_PIECE_BYTES))) {
        free(f);
        return NULL;
    }
    f->handler = (struct rpc_stream_handler){feed_message, feed_drained, feed_ended, feed_closed};
    f->sh = sh;
    f->stream = stream;
    f->is_blob = is_blob;
    f->next = sh->feeds;
    f->back = &sh->feeds;
    if (f->next)
        f->next->back = &f->next;
    sh->feeds = f;
    sh->feed_count++;
    rpc_stream_set_queue(stream, 4 * MT_HEAD_PIECE_BYTES);
    return &f->handler;
}

struct rpc_stream_handler *head_shell_follow(struct rpc_service *service, struct rpc_stream *stream)
{
    return feed_new(service, stream, false);
}

struct rpc_stream_handler *head_shell_get_blob(struct rpc_service *service, struct rpc_stream *stream)
{
    return feed_new(service, stream, true);
}
