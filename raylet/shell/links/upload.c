/* SPDX-License-Identifier: Apache-2.0
 *
 * upload.c - files of detached actors to the head, where their wardens get them: the program, large values, an
 * environment. By SHA-256, and only if the head does not have it.
 *
 * Owns: every struct sh_program_upload and its copy of the descriptor. Thread: the loop.
 *
 *   HasBlobs -> PutBlob, piece after piece as the stream takes them -> the core hears PROGRAM_SENT, once
 */
#include "raylet/shell/cache/cache.h"
#include "raylet/shell/links/links.h"

#include "core/base/limits/lib.h"
#include "core/base/limits/net.h"
#include "core/sha/sha256.h"
#include "core/rpc/codec.h"
#include "core/rpc/rpc.h"

#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

enum { PIECE_BYTES = 64 * 1024 };

struct sh_program_upload {
    struct sh_program_upload *next;
    struct sh                *sh;
    mt_id                     id;    /* of the request that it is for */
    uint64_t                  index; /* which of its files */
    int                       fd;
    uint64_t                  size, sent;
    bool                      is_read; /* all of it is on the stream */
    bool                      is_over; /* the raylet leaves: only the callback that is left is waited for */
    uint8_t                   sha256[MT_SHA256_SIZE];
    struct rpc_unary          ask;
    struct rpc_stream        *stream;
    struct rpc_stream_handler handler;
    bool                      is_answered;
    int32_t                   code; /* the head's answer */
};

static void upload_free(struct sh_program_upload *u)
{
    struct sh_program_upload **link = &u->sh->uploads;
    while (*link && *link != u)
        link = &(*link)->next;
    if (*link)
        *link = u->next;
    if (u->stream)
        rpc_stream_free(u->stream);
    if (u->fd >= 0)
        close(u->fd);
    free(u);
}

/* `why` is a literal; NULL: the head has it. */
static void upload_end(struct sh_program_upload *u, const char *why)
{
    struct sh       *sh = u->sh;
    struct rlt_event e;
    sh_event(&e, RLT_EV_PROGRAM_SENT);
    e.program_sent.id = u->id;
    e.program_sent.index = u->index;
    e.program_sent.total = u->size;
    e.program_sent.is_refused = why != NULL;
    e.program_sent.why = why;
    memcpy(e.program_sent.sha256, u->sha256, sizeof e.program_sent.sha256);
    upload_free(u);
    sh_post(sh, &e);
}

/* ---- sending ---- */

/* Until the stream's queue is full; `drained` goes on. False: the file can't be read. */
static bool upload_pump(struct sh_program_upload *u)
{
    uint8_t piece[PIECE_BYTES];
    while (!u->is_read) {
        Manta__V1__BlobChunk chunk = MANTA__V1__BLOB_CHUNK__INIT;
        mt_buf               bytes = {0};
        ssize_t              n = pread(u->fd, piece, sizeof piece, (off_t)u->sent);
        if (n <= 0)
            return false;
        chunk.sha256 = (ProtobufCBinaryData){sizeof u->sha256, u->sha256};
        chunk.offset = u->sent;
        chunk.size = u->size;
        chunk.data = (ProtobufCBinaryData){(size_t)n, piece};
        mt_status st = rpc_pack(&chunk.base, &bytes);
        if (!st.code)
            st = rpc_stream_send(u->stream, mt_buf_view(&bytes));
        mt_buf_fini(&bytes);
        if (st.code)
            return st.code == MT_EAGAIN || st.code == MT_ECONN; /* of a stream that is over `closed` tells */
        u->sent += (uint64_t)n;
        u->is_read = u->sent >= u->size;
    }
    rpc_stream_end(u->stream);
    return true;
}

static void put_drained(struct rpc_stream_handler *handler, struct rpc_stream *stream)
{
    (void)stream;
    struct sh_program_upload *u = mt_container_of(handler, struct sh_program_upload, handler);
    if (!u->is_read && !upload_pump(u))
        upload_end(u, "a file of the actor can't be read");
}

static void put_message(struct rpc_stream_handler *handler, struct rpc_stream *stream, mt_view message)
{
    struct sh_program_upload *u = mt_container_of(handler, struct sh_program_upload, handler);
    ProtobufCMessage         *reply;
    (void)stream;
    if (rpc_unpack(&manta__v1__put_blob_reply__descriptor, message, MT_CONTROL_BYTES_MAX, &reply).code)
        return;
    u->is_answered = true;
    u->code = ((const Manta__V1__PutBlobReply *)reply)->code;
    rpc_unpack_free(reply);
}

static void put_closed(struct rpc_stream_handler *handler, struct rpc_stream *stream, const struct rpc_result *result)
{
    struct sh_program_upload *u = mt_container_of(handler, struct sh_program_upload, handler);
    (void)stream, (void)result;
    upload_end(u, u->is_answered && u->code == MT_OK ? NULL : "the head did not take a file of the actor");
}

static void upload_put(struct sh_program_upload *u)
{
    struct rpc_stream_config config = {.method = "/manta.v1.Head/PutBlob"};
    u->handler = (struct rpc_stream_handler){put_message, put_drained, NULL, put_closed};
    if (!sh_head_channel(u->sh) || rpc_stream_open(sh_head_channel(u->sh), &config, &u->handler, &u->stream).code) {
        u->stream = NULL;
        upload_end(u, "the head can't be reached");
    } else if (!upload_pump(u)) {
        upload_end(u, "a file of the actor can't be read");
    }
}

/* ---- asking ---- */

static void has_done(struct rpc_unary *unary, const struct rpc_result *result, mt_view message)
{
    struct sh_program_upload *u = mt_container_of(unary, struct sh_program_upload, ask);
    ProtobufCMessage         *reply = NULL;
    bool                      is_there;
    if (u->is_over) {
        upload_free(u);
        return;
    }
    if (result->status.code || rpc_unpack(&manta__v1__has_blobs_reply__descriptor, message, MT_CONTROL_BYTES_MAX, &reply).code) {
        upload_end(u, "the head does not answer");
        return;
    }
    is_there = ((const Manta__V1__HasBlobsReply *)reply)->n_missing == 0;
    rpc_unpack_free(reply);
    if (is_there)
        upload_end(u, NULL);
    else
        upload_put(u);
}

static mt_status has_ask(struct sh_program_upload *u)
{
    Manta__V1__HasBlobsRequest request = MANTA__V1__HAS_BLOBS_REQUEST__INIT;
    ProtobufCBinaryData        sum = {sizeof u->sha256, u->sha256};
    mt_buf                     bytes = {0};
    mt_status                  st;
    request.sha256 = &sum;
    request.n_sha256 = 1;
    if (!sh_head_channel(u->sh))
        return mt_error(MT_ECONN, 0, "no head");
    MT_TRY(rpc_pack(&request.base, &bytes));
    u->ask.done = has_done;
    st = rpc_unary_start(sh_head_channel(u->sh), &u->ask, "/manta.v1.Head/HasBlobs", mt_buf_view(&bytes), MT_LIB_REQUEST_MS, 0);
    mt_buf_fini(&bytes);
    return st;
}

void sh_upload(struct sh *sh, const struct rlt_a_program_send *a)
{
    struct sh_program_upload *u = calloc(1, sizeof *u);
    struct stat               st;
    if (!u)
        abort();
    u->sh = sh;
    u->id = a->id;
    u->index = a->index;
    u->next = sh->uploads;
    sh->uploads = u;
    u->fd = a->fd < 0 ? sh_cache_file(sh, a->file.job, a->file.index)
                      : fcntl(a->fd, F_DUPFD_CLOEXEC, 3); /* the job may end first */
    if (u->fd < 0 || fstat(u->fd, &st) < 0 || st.st_size <= 0) {
        upload_end(u, "a file of the actor can't be read");
        return;
    }
    u->size = (uint64_t)st.st_size;
    memcpy(u->sha256, a->sha256, sizeof u->sha256);
    if (has_ask(u).code)
        upload_end(u, "the head can't be reached");
}

void sh_uploads_stop(struct sh *sh)
{
    for (struct sh_program_upload *u = sh->uploads, *next; u; u = next) {
        next = u->next;
        u->is_over = true;
        if (!u->ask.impl)
            upload_free(u);
    }
    mt_map_fini(&sh->users);
}
