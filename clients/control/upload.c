/* SPDX-License-Identifier: Apache-2.0
 *
 * upload.c - the content of files to the head: only what it does not have, each checked there against its SHA-256.
 *
 * Thread: the caller sends and sleeps; gRPC's thread wakes it (drained, answered, closed).
 */
#include "clients/control/control.h"
#include "core/base/cond.h"

#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

struct put {
    struct rpc_stream_handler handler;
    struct rpc_stream        *stream;
    pthread_mutex_t           lock;
    pthread_cond_t            changed;
    uint64_t                  progress; /* how often the queue was drained */
    bool                      is_closed, is_answered;
    int32_t                   code; /* of the answer */
    char                      text[MT_ERROR_BYTES_MAX];
    mt_status                 status; /* of the stream */
};

static void put_message(struct rpc_stream_handler *handler, struct rpc_stream *stream, mt_view message)
{
    struct put       *p = mt_container_of(handler, struct put, handler);
    ProtobufCMessage *reply;
    (void)stream;
    if (rpc_unpack(&manta__v1__put_blob_reply__descriptor, message, MT_CONTROL_BYTES_MAX, &reply).code != 0)
        return;
    pthread_mutex_lock(&p->lock);
    p->is_answered = true;
    p->code = ((Manta__V1__PutBlobReply *)reply)->code;
    snprintf(p->text, sizeof p->text, "%s", ((Manta__V1__PutBlobReply *)reply)->text);
    pthread_mutex_unlock(&p->lock);
    rpc_unpack_free(reply);
}

static void put_drained(struct rpc_stream_handler *handler, struct rpc_stream *stream)
{
    struct put *p = mt_container_of(handler, struct put, handler);
    (void)stream;
    pthread_mutex_lock(&p->lock);
    p->progress++;
    pthread_cond_signal(&p->changed);
    pthread_mutex_unlock(&p->lock);
}

static void put_closed(struct rpc_stream_handler *handler, struct rpc_stream *stream, const struct rpc_result *result)
{
    struct put *p = mt_container_of(handler, struct put, handler);
    (void)stream;
    pthread_mutex_lock(&p->lock);
    p->is_closed = true;
    p->status = result->status;
    if (!p->is_answered)
        snprintf(p->text, sizeof p->text, "%s", result->detail);
    pthread_cond_signal(&p->changed);
    pthread_mutex_unlock(&p->lock);
}

/* Waits for more progress than `seen`, or the end; false: nothing for MT_CTL_UPLOAD_MS. */
static bool put_wait(struct put *p, uint64_t seen)
{
    struct timespec end = mt_cond_until(MT_CTL_UPLOAD_MS);
    int             rc = 0;
    pthread_mutex_lock(&p->lock);
    while (p->progress == seen && !p->is_closed && rc == 0)
        rc = pthread_cond_timedwait(&p->changed, &p->lock, &end);
    pthread_mutex_unlock(&p->lock);
    return rc == 0;
}

static uint64_t put_progress(struct put *p, bool *out_is_closed)
{
    pthread_mutex_lock(&p->lock);
    uint64_t seen = p->progress;
    *out_is_closed = p->is_closed;
    pthread_mutex_unlock(&p->lock);
    return seen;
}

/* The end always comes: a stream that is cancelled ends, and gRPC's keepalive ends what is dead. */
static void put_wait_closed(struct put *p, bool is_patient)
{
    bool is_closed;
    for (uint64_t seen; seen = put_progress(p, &is_closed), !is_closed;) {
        if (!is_patient)
            rpc_stream_cancel(p->stream);
        is_patient = put_wait(p, seen) && is_patient;
    }
    rpc_stream_free(p->stream);
}

static mt_status put_send(struct put *p, const Manta__V1__BlobChunk *chunk)
{
    mt_buf    bytes = {0};
    mt_status st = rpc_pack(&chunk->base, &bytes);
    while (st.code == 0) {
        bool     is_closed;
        uint64_t seen = put_progress(p, &is_closed);
        st = rpc_stream_send(p->stream, mt_buf_view(&bytes));
        if (st.code != MT_EAGAIN)
            break;
        st = put_wait(p, seen) ? mt_ok() : mt_error(MT_ETIMEDOUT, 0, "the head does not take the upload");
    }
    mt_buf_fini(&bytes);
    return st;
}

/* Sends the whole file. A stream that has ended in between is no failure here: its answer says why. */
static mt_status put_file(struct put *p, const struct ctl_file *file, int fd, uint8_t *piece)
{
    Manta__V1__BlobChunk chunk = MANTA__V1__BLOB_CHUNK__INIT;
    mt_status            st = mt_ok();
    chunk.sha256 = (ProtobufCBinaryData){MT_SHA256_SIZE, (uint8_t *)file->sha256};
    chunk.size = file->size;
    for (bool is_first = true; st.code == 0; is_first = false) {
        ssize_t n = read(fd, piece, MT_CTL_PIECE_BYTES);
        if (n < 0 && errno == EINTR)
            continue;
        if (n < 0)
            return mt_error(MT_ESYS, errno, "read a file");
        if (n == 0 && !is_first)
            break;
        chunk.data = (ProtobufCBinaryData){(size_t)n, piece};
        st = put_send(p, &chunk);
        chunk.offset += (uint64_t)n;
        if (n == 0)
            break; /* an empty file is one empty piece */
    }
    if (st.code == 0)
        rpc_stream_end(p->stream);
    return st.code == MT_ECONN ? mt_ok() : st;
}

/* One try. Its outcome is in p. */
static mt_status put_once(struct ctl_client *c, const struct ctl_file *file, struct put *p)
{
    struct rpc_stream_config config = {.method = "/manta.v1.Head/PutBlob", .flags = RPC_DIRECT};
    uint8_t                 *piece = malloc(MT_CTL_PIECE_BYTES);
    int                      fd = piece ? open(file->source, O_RDONLY | O_CLOEXEC) : -1;
    if (fd < 0) {
        mt_status st = mt_error(piece ? MT_ESYS : MT_ENOMEM, errno, "open a file");
        free(piece);
        return st;
    }
    p->handler = (struct rpc_stream_handler){put_message, put_drained, NULL, put_closed};
    mt_status st = rpc_stream_open(c->channel, &config, &p->handler, &p->stream);
    if (st.code == 0) {
        st = put_file(p, file, fd, piece);
        put_wait_closed(p, st.code == 0);
    }
    close(fd);
    free(piece);
    return st;
}

static mt_status put_try(struct ctl_client *c, const struct ctl_file *file, char text[MT_ERROR_BYTES_MAX])
{
    struct put p = {0};
    pthread_mutex_init(&p.lock, NULL);
    mt_cond_init(&p.changed);
    mt_status st = put_once(c, file, &p);
    if (st.code == 0 && p.is_answered)
        st = p.code == MT_OK ? mt_ok() : mt_error(p.code, 0, "upload");
    else if (st.code == 0)
        st = p.status.code ? p.status : mt_error(MT_ECONN, 0, "the head did not answer");
    snprintf(text, MT_ERROR_BYTES_MAX, "%s", p.text[0] ? p.text : st.what ? st.what : "");
    pthread_cond_destroy(&p.changed);
    pthread_mutex_destroy(&p.lock);
    return st;
}

static manta_status put(struct ctl_client *c, const struct ctl_file *file, manta_error *e)
{
    char                text[MT_ERROR_BYTES_MAX];
    struct ctl_patience patience = ctl_patience_of(c->timeout_ms);
    mt_status           st;
    for (;;) {
        (void)ctl_try_begin(&patience, ctl_half_of(c->timeout_ms)); /* it takes as long as something gets through */
        st = put_try(c, file, text);
        if (!ctl_try_end(&patience) || !ctl_may_retry(st))
            break;
        ctl_reconnect(c, st.code, text);
        if (!ctl_try_pause(&patience))
            break;
    }
    if (st.code == MT_ECORRUPT)
        return ctl_fail(e, st.code, MANTA_NOT_DONE, "file %.200s changed while it was uploaded: submit again", file->source);
    return st.code == 0 ? MANTA_OK : ctl_fail(e, st.code, MANTA_NOT_DONE, "upload of %.200s: %s", file->source, text);
}

/* Asks about files[from..from+count) and uploads the missing ones; equal files once. */
static manta_status upload_some(struct ctl_client *c, const struct ctl_file *files, size_t count, manta_error *e)
{
    Manta__V1__HasBlobsRequest request = MANTA__V1__HAS_BLOBS_REQUEST__INIT;
    ProtobufCBinaryData        sums[MT_CTL_HAS_MAX];
    ProtobufCMessage          *message;
    for (size_t i = 0; i < count; i++)
        sums[i] = (ProtobufCBinaryData){MT_SHA256_SIZE, (uint8_t *)files[i].sha256};
    request.sha256 = sums;
    request.n_sha256 = count;
    manta_status st = ctl_call(c, "/manta.v1.Head/HasBlobs", &request.base, &manta__v1__has_blobs_reply__descriptor, c->timeout_ms,
                               MT_CALL_MS, &message, e);
    if (st != MANTA_OK)
        return st;
    const Manta__V1__HasBlobsReply *reply = (const Manta__V1__HasBlobsReply *)message;
    for (size_t i = 0; i < reply->n_missing && st == MANTA_OK; i++)
        for (size_t j = 0; j < count; j++)
            if (reply->missing[i].len == MT_SHA256_SIZE && memcmp(reply->missing[i].data, files[j].sha256, MT_SHA256_SIZE) == 0) {
                st = put(c, &files[j], e);
                break;
            }
    rpc_unpack_free(message);
    return st;
}

manta_status ctl_upload(struct ctl_client *c, const struct ctl_files *files, manta_error *e)
{
    manta_status st = MANTA_OK;
    for (size_t at = 0, count; at < files->items.count && st == MANTA_OK; at += count) {
        count = files->items.count - at < MT_CTL_HAS_MAX ? files->items.count - at : MT_CTL_HAS_MAX;
        st = upload_some(c, files->items.data + at, count, e);
    }
    return st;
}
