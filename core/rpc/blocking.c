/* SPDX-License-Identifier: Apache-2.0
 *
 * blocking.c - calls for programs without a loop: the caller sleeps until the rpc thread has the answer.
 *
 * Thread: callbacks run on the rpc thread (RPC_DIRECT); the caller waits on a condition. Each wait has the
 * call's own deadline as its limit, since gRPC completes every call by then.
 */
#include "core/rpc/runtime.h"

#include "core/base/cond.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

struct rpc_asked {
    struct rpc_unary unary;
    pthread_mutex_t  lock;
    pthread_cond_t   changed;
    bool             is_done;
    mt_status        status;
    mt_buf           reply;
    char             detail[MT_ERROR_BYTES_MAX];
};

struct kept {
    struct kept *next;
    mt_buf       message;
};
struct rpc_reader {
    struct rpc_stream_handler handler;
    struct rpc_stream        *stream;
    pthread_mutex_t           lock;
    pthread_cond_t            changed;
    struct kept              *first, **end;
    size_t                    count;
    bool                      is_closed, is_broken; /* broken: a message could not be kept */
    mt_status                 status;
    char                      detail[MT_ERROR_BYTES_MAX];
};

static void asked_free(struct rpc_asked *asked);
static void call_done(struct rpc_unary *unary, const struct rpc_result *result, mt_view reply);
static void reader_message(struct rpc_stream_handler *handler, struct rpc_stream *stream, mt_view message);
static void reader_closed(struct rpc_stream_handler *handler, struct rpc_stream *stream, const struct rpc_result *result);

mt_status rpc_ask(struct rpc_channel *channel, const char *method, mt_view request, uint32_t timeout_ms, unsigned flags,
                  struct rpc_asked **out_asked)
{
    struct rpc_asked *asked = calloc(1, sizeof *asked);
    if (!asked)
        return mt_error(MT_ENOMEM, 0, "call");
    asked->unary.done = call_done;
    pthread_mutex_init(&asked->lock, NULL);
    mt_cond_init(&asked->changed);
    mt_status st = rpc_unary_start(channel, &asked->unary, method, request, timeout_ms, flags | RPC_DIRECT);
    if (st.code)
        asked_free(asked);
    else
        *out_asked = asked;
    return st;
}

mt_status rpc_answer(struct rpc_asked *take_asked, mt_buf *out_reply, char *detail)
{
    struct rpc_asked *asked = take_asked;
    pthread_mutex_lock(&asked->lock);
    while (!asked->is_done)
        pthread_cond_wait(&asked->changed, &asked->lock);
    pthread_mutex_unlock(&asked->lock);
    mt_status st = asked->status;
    if (!st.code)
        *out_reply = mt_buf_move(&asked->reply);
    else if (detail)
        memcpy(detail, asked->detail, MT_ERROR_BYTES_MAX);
    asked_free(asked);
    return st;
}

mt_status rpc_call_blocking(struct rpc_channel *channel, const char *method, mt_view request, uint32_t timeout_ms, unsigned flags,
                            mt_buf *out_reply, char *detail)
{
    struct rpc_asked *asked = NULL;
    mt_status         st = rpc_ask(channel, method, request, timeout_ms, flags, &asked);
    if (!st.code)
        return rpc_answer(asked, out_reply, detail);
    if (detail)
        rpc_detail_copy(detail, st.what ? st.what : "", st.what ? strlen(st.what) : 0);
    return st;
}

static void asked_free(struct rpc_asked *asked)
{
    mt_buf_fini(&asked->reply);
    pthread_cond_destroy(&asked->changed);
    pthread_mutex_destroy(&asked->lock);
    free(asked);
}

static void call_done(struct rpc_unary *unary, const struct rpc_result *result, mt_view reply)
{
    struct rpc_asked *asked = mt_container_of(unary, struct rpc_asked, unary);
    mt_status         st = result->status;
    if (!st.code && mt_buf_append(&asked->reply, reply.data, reply.size).code)
        st = mt_error(MT_ENOMEM, 0, "keep a reply");
    rpc_detail_copy(asked->detail, result->detail, strlen(result->detail));
    pthread_mutex_lock(&asked->lock);
    asked->status = st;
    asked->is_done = true;
    pthread_cond_signal(&asked->changed);
    pthread_mutex_unlock(&asked->lock); /* it may be gone after this line */
}

mt_status rpc_reader_open(struct rpc_channel *channel, const struct rpc_stream_config *config, mt_view request,
                          struct rpc_reader **out_reader)
{
    struct rpc_stream_config direct = *config;
    struct rpc_reader       *reader = calloc(1, sizeof *reader);
    if (!reader)
        return mt_error(MT_ENOMEM, 0, "stream reader");
    direct.flags |= RPC_DIRECT;
    reader->handler.message = reader_message;
    reader->handler.closed = reader_closed;
    reader->end = &reader->first;
    pthread_mutex_init(&reader->lock, NULL);
    mt_cond_init(&reader->changed);
    mt_status st = rpc_stream_open(channel, &direct, &reader->handler, &reader->stream);
    if (st.code) {
        pthread_cond_destroy(&reader->changed);
        pthread_mutex_destroy(&reader->lock);
        free(reader);
        return st;
    }
    st = rpc_stream_send(reader->stream, request);
    if (st.code && st.code != MT_ECONN) { /* a stream that is over already tells why through rpc_reader_next */
        rpc_reader_close(reader);
        return st;
    }
    rpc_stream_end(reader->stream);
    *out_reader = reader;
    return mt_ok();
}

mt_status rpc_reader_next(struct rpc_reader *reader, uint32_t timeout_ms, mt_buf *out_message, char *detail)
{
    struct timespec until = mt_cond_until(timeout_ms);
    mt_status       st = mt_ok();
    bool            is_room = false;
    int             err = 0;
    pthread_mutex_lock(&reader->lock);
    while (!reader->first && !reader->is_closed && err != ETIMEDOUT)
        err = pthread_cond_timedwait(&reader->changed, &reader->lock, &until);
    struct kept *kept = reader->first;
    if (kept) {
        reader->first = kept->next;
        if (!reader->first)
            reader->end = &reader->first;
        is_room = --reader->count == MT_READER_AHEAD_MAX / 2;
    } else if (!reader->is_closed) {
        st = mt_error(MT_ETIMEDOUT, 0, "no message within the limit");
    } else if (reader->is_broken) {
        st = mt_error(MT_ENOMEM, 0, "keep a message of a stream");
    } else {
        st = reader->status.code ? reader->status : mt_error(MT_ENOENT, 0, "the stream has ended");
        if (detail)
            memcpy(detail, reader->detail, MT_ERROR_BYTES_MAX);
    }
    pthread_mutex_unlock(&reader->lock);
    if (is_room)
        rpc_stream_resume(reader->stream);
    if (kept) {
        *out_message = kept->message;
        free(kept);
    }
    return st;
}

void rpc_reader_close(struct rpc_reader *reader)
{
    rpc_stream_cancel(reader->stream);
    pthread_mutex_lock(&reader->lock);
    while (!reader->is_closed)
        pthread_cond_wait(&reader->changed, &reader->lock);
    pthread_mutex_unlock(&reader->lock);
    rpc_stream_free(reader->stream);
    while (reader->first) {
        struct kept *kept = reader->first;
        reader->first = kept->next;
        mt_buf_fini(&kept->message);
        free(kept);
    }
    pthread_cond_destroy(&reader->changed);
    pthread_mutex_destroy(&reader->lock);
    free(reader);
}

static void reader_message(struct rpc_stream_handler *handler, struct rpc_stream *stream, mt_view message)
{
    struct rpc_reader *reader = mt_container_of(handler, struct rpc_reader, handler);
    struct kept       *kept = calloc(1, sizeof *kept);
    bool               is_kept = kept && !mt_buf_append(&kept->message, message.data, message.size).code;
    pthread_mutex_lock(&reader->lock);
    if (is_kept && !reader->is_broken) {
        *reader->end = kept;
        reader->end = &kept->next;
        kept = NULL;
        if (++reader->count >= MT_READER_AHEAD_MAX)
            rpc_stream_pause(stream);
    } else {
        reader->is_broken = true; /* nothing behind a gap is delivered */
    }
    pthread_cond_signal(&reader->changed);
    pthread_mutex_unlock(&reader->lock);
    if (kept) {
        mt_buf_fini(&kept->message);
        free(kept);
        rpc_stream_cancel(stream);
    }
}

static void reader_closed(struct rpc_stream_handler *handler, struct rpc_stream *stream, const struct rpc_result *result)
{
    struct rpc_reader *reader = mt_container_of(handler, struct rpc_reader, handler);
    (void)stream;
    pthread_mutex_lock(&reader->lock);
    reader->status = result->status;
    rpc_detail_copy(reader->detail, result->detail, strlen(result->detail));
    reader->is_closed = true;
    pthread_cond_signal(&reader->changed);
    pthread_mutex_unlock(&reader->lock);
}
