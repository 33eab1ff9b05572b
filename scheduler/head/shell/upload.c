/* SPDX-License-Identifier: Apache-2.0
 *
 * upload.c - PutBlob: a file comes in pieces, is checked against its SHA-256, and only then gets its name.
 *
 * Owns:    every struct upload and its half-written file (blobs/upload-<n>).
 * Thread:  the loop's; piece_work and end_work on the files' thread. One of them at a time for each upload; meanwhile the
 *          stream is paused, so a client can be no faster than the disk.
 */
#include "core/sys/file.h"
#include "core/base/log.h"
#include "core/base/machine.h"
#include "core/proto/manta.pb-c.h"
#include "core/rpc/codec.h"
#include "scheduler/head/shell/shell.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/*   OPENED --first piece--> RECEIVING --the client has ended--> CHECKING --> ANSWERED
 *     '------refused, wrong, cut off or silent----'-----------------'-----------^
 */
enum upload_state { UPLOAD_OPENED, UPLOAD_RECEIVING, UPLOAD_CHECKING, UPLOAD_ANSWERED };
static const char *const       upload_names[] = {"OPENED", "RECEIVING", "CHECKING", "ANSWERED"};
static const uint32_t          upload_next[] = {[UPLOAD_OPENED] = MT_STATE(UPLOAD_RECEIVING) | MT_STATE(UPLOAD_ANSWERED),
                                                [UPLOAD_RECEIVING] = MT_STATE(UPLOAD_CHECKING) | MT_STATE(UPLOAD_ANSWERED),
                                                [UPLOAD_CHECKING] = MT_STATE(UPLOAD_ANSWERED),
                                                [UPLOAD_ANSWERED] = 0};
static const struct mt_machine upload_machine = MT_MACHINE("upload", upload_names, upload_next);

struct upload {
    struct rpc_stream_handler handler;
    struct shell             *sh;
    struct rpc_stream        *stream;
    struct io_timer           silence;
    struct io_job             job;
    Manta__V1__BlobChunk     *chunk; /* on its way to the disk */
    uint8_t                   sha256[HEAD_SHA_SIZE];
    mt_sha256                 sum;
    uint64_t                  size, received;
    enum upload_state         state;
    bool                      has_ended, is_working, is_closed; /* the client has sent all; on the disk; its stream is gone */
    int                       fd, sys;
    bool                      is_wrong; /* the content has another SHA-256 */
    char                      path[SHELL_PATH_SIZE];
};

static void upload_set_state(struct upload *u, enum upload_state state)
{
    MT_TRANSITION(&upload_machine, u->state, state);
    u->state = state;
}

/* ---- ends ---- */

/* What has no name by now is nothing. */
static void discard(struct upload *u)
{
    if (u->path[0])
        unlink(u->path);
    u->path[0] = '\0';
}

static void upload_free(struct upload *u)
{
    io_timer_stop(&u->silence);
    if (u->fd >= 0)
        close(u->fd);
    discard(u);
    if (u->chunk)
        manta__v1__blob_chunk__free_unpacked(u->chunk, NULL);
    u->sh->uploads--;
    free(u);
}

static void upload_closed(struct rpc_stream_handler *handler, struct rpc_stream *stream, const struct rpc_result *result)
{
    struct upload *u = mt_container_of(handler, struct upload, handler);
    (void)result;
    rpc_stream_free(stream);
    u->is_closed = true;
    io_timer_stop(&u->silence);
    if (!u->is_working)
        upload_free(u);
}

static void answer(struct upload *u, int32_t code, const char *text)
{
    Manta__V1__PutBlobReply reply = MANTA__V1__PUT_BLOB_REPLY__INIT;
    mt_buf                  bytes = {0};
    if (u->state == UPLOAD_ANSWERED || u->is_closed)
        return;
    upload_set_state(u, UPLOAD_ANSWERED);
    if (code != MT_OK && !u->is_working)
        discard(u); /* before the client hears of it */
    reply.code = code;
    reply.text = (char *)text;
    mt_status st = rpc_pack(&reply.base, &bytes);
    if (st.code == 0)
        st = rpc_stream_send(u->stream, mt_buf_view(&bytes));
    mt_buf_fini(&bytes);
    rpc_stream_finish(u->stream, st, st.what);
}

static void answer_sys(struct upload *u, int sys)
{
    mt_log(MT_LOG_ERROR, "upload", "path=%s error=\"%s\"", u->path, strerror(sys));
    if (sys == ENOSPC || sys == EDQUOT || sys == EFBIG)
        answer(u, MT_EDISK_FULL, "the head's disk is full: make room in its state folder");
    else
        answer(u, MT_ESYS, "the head can't write the file: see its log");
}

static void silent(struct io_timer *timer)
{
    struct upload *u = mt_container_of(timer, struct upload, silence);
    answer(u, MT_ETIMEDOUT, "nothing came for a minute");
}

/* ---- on the files' thread ---- */

static void piece_work(struct io_job *job)
{
    struct upload *u = mt_container_of(job, struct upload, job);
    const uint8_t *data = u->chunk->data.data;
    size_t         size = u->chunk->data.len;
    if (u->fd < 0)
        u->fd = open(u->path, O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, 0600);
    u->sys = u->fd < 0 ? errno : 0;
    mt_sha256_add(&u->sum, data, size);
    if (u->sys == 0)
        u->sys = mt_write_all(u->fd, data, size);
}

/* On the disk first, then under its name, then the name on the disk. */
static void end_work(struct io_job *job)
{
    struct upload *u = mt_container_of(job, struct upload, job);
    uint8_t        sum[HEAD_SHA_SIZE];
    char           final[SHELL_PATH_SIZE], hex[MT_SHA256_HEX_SIZE];
    mt_sha256_end(&u->sum, sum);
    u->is_wrong = u->received != u->size || memcmp(sum, u->sha256, sizeof sum) != 0;
    if (u->is_wrong)
        return;
    head_shell_path(u->sh, "blobs", mt_sha256_hex(u->sha256, hex), final);
    u->sys = fsync(u->fd) != 0 || rename(u->path, final) != 0 ? errno : 0;
    if (u->sys != 0)
        return;
    u->path[0] = '\0'; /* nothing is left to remove */
    u->sys = mt_name_sync(final);
}

/* ---- on the loop ---- */

static void end_done(struct io_job *job)
{
    struct upload *u = mt_container_of(job, struct upload, job);
    struct shell  *sh = u->sh;
    u->is_working = false;
    if (u->is_wrong) {
        answer(u, MT_ECORRUPT, "the content does not have the SHA-256 and size that were announced: upload it again");
    } else if (u->sys != 0) {
        answer_sys(u, u->sys);
    } else {
        struct head_event event = {.kind = HEAD_EV_BLOB_ADDED, .blob_added = {u->sha256, u->size}};
        head_shell_step(sh, &event);
        answer(u, MT_OK, "");
    }
    if (u->is_closed)
        upload_free(u);
}

static bool work(struct upload *u, void (*run)(struct io_job *), void (*done)(struct io_job *))
{
    u->job = (struct io_job){.work = run, .done = done};
    u->is_working = io_worker_submit(u->sh->files, &u->job).code == 0;
    if (!u->is_working)
        answer(u, MT_EAGAIN, "the head's disk is busy: upload it again later");
    return u->is_working;
}

static void upload_end(struct upload *u)
{
    if (u->state == UPLOAD_OPENED) {
        answer(u, MT_EPROTO, "the upload has no content");
    } else if (u->state == UPLOAD_RECEIVING) {
        upload_set_state(u, UPLOAD_CHECKING);
        (void)work(u, end_work, end_done);
    }
}

static void piece_done(struct io_job *job)
{
    struct upload *u = mt_container_of(job, struct upload, job);
    u->is_working = false;
    u->received += u->chunk->data.len;
    manta__v1__blob_chunk__free_unpacked(u->chunk, NULL);
    u->chunk = NULL;
    if (u->is_closed) {
        upload_free(u);
        return;
    }
    if (u->sys != 0)
        answer_sys(u, u->sys);
    else if (u->has_ended)
        upload_end(u);
    rpc_stream_resume(u->stream);
}

/* The first piece says what it will be. False: answered. */
static bool begin(struct upload *u, const Manta__V1__BlobChunk *chunk)
{
    char name[32];
    if (chunk->sha256.len != HEAD_SHA_SIZE) {
        answer(u, MT_EINVAL, "a SHA-256 has 32 bytes");
        return false;
    }
    mt_status st = head_blob_admit(u->sh->head, chunk->sha256.data, chunk->size);
    if (st.code != 0) {
        answer(u, st.code == MT_EEXIST ? MT_OK : st.code, st.code == MT_EEXIST ? "" : st.what);
        return false;
    }
    upload_set_state(u, UPLOAD_RECEIVING);
    memcpy(u->sha256, chunk->sha256.data, HEAD_SHA_SIZE);
    u->size = chunk->size;
    mt_sha256_init(&u->sum);
    snprintf(name, sizeof name, "upload-%" PRIu64, ++u->sh->next_upload);
    head_shell_path(u->sh, "blobs", name, u->path);
    return true;
}

static void upload_message(struct rpc_stream_handler *handler, struct rpc_stream *stream, mt_view message)
{
    struct upload    *u = mt_container_of(handler, struct upload, handler);
    ProtobufCMessage *chunk = NULL;
    io_timer_start(u->sh->loop, &u->silence, MT_HEAD_UPLOAD_MS);
    if (u->state == UPLOAD_ANSWERED)
        return;
    if (rpc_unpack(&manta__v1__blob_chunk__descriptor, message, MT_CONTROL_BYTES_MAX, &chunk).code != 0) {
        answer(u, MT_EPROTO, "a piece can't be read");
        return;
    }
    const Manta__V1__BlobChunk *c = (const Manta__V1__BlobChunk *)chunk;
    bool                        goes_on = u->state == UPLOAD_RECEIVING || begin(u, c);
    if (goes_on && (c->offset != u->received || c->data.len > u->size - u->received)) {
        answer(u, MT_EINVAL, "a piece is not where the last one ended, or the content is longer than announced");
        goes_on = false;
    }
    if (!goes_on) {
        rpc_unpack_free(chunk);
        return;
    }
    u->chunk = (Manta__V1__BlobChunk *)chunk;
    if (work(u, piece_work, piece_done))
        rpc_stream_pause(stream);
}

static void upload_ended(struct rpc_stream_handler *handler, struct rpc_stream *stream)
{
    struct upload *u = mt_container_of(handler, struct upload, handler);
    (void)stream;
    u->has_ended = true;
    io_timer_stop(&u->silence);
    if (!u->is_working)
        upload_end(u);
}

struct rpc_stream_handler *head_shell_put_blob(struct rpc_service *service, struct rpc_stream *stream)
{
    struct shell  *sh = mt_container_of(service, struct shell, service);
    struct upload *u = sh->uploads < MT_HEAD_UPLOADS_MAX ? calloc(1, sizeof *u) : NULL;
    if (!u)
        return NULL;
    u->handler = (struct rpc_stream_handler){upload_message, NULL, upload_ended, upload_closed};
    u->sh = sh;
    u->stream = stream;
    u->fd = -1;
    u->silence.fire = silent;
    sh->uploads++;
    io_timer_start(sh->loop, &u->silence, MT_HEAD_UPLOAD_MS);
    return &u->handler;
}
