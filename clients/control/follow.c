/* SPDX-License-Identifier: Apache-2.0
 *
 * follow.c - a job's log as it grows, each byte once, whatever happens to the connection.
 */
#include "clients/control/control.h"

#include <string.h>

enum { NEXT_MS = 1000 };

struct follow {
    struct ctl_client *client;
    const char        *id;
    uint64_t           offset; /* of the next byte that the caller has not seen */
    int (*line)(void *user, const manta_log *log);
    void *user;
    bool  is_cancelled;
};

static mt_status give(struct follow *f, const mt_buf *bytes)
{
    ProtobufCMessage *message;
    MT_TRY(rpc_unpack(&manta__v1__log_chunk__descriptor, mt_buf_view(bytes), MT_CONTROL_BYTES_MAX, &message));
    const Manta__V1__LogChunk *chunk = (const Manta__V1__LogChunk *)message;
    uint64_t                   end = chunk->offset + chunk->text.len;
    if (end > f->offset && chunk->offset <= f->offset) {
        size_t    skip = (size_t)(f->offset - chunk->offset);
        manta_log log = {.text = (const char *)chunk->text.data + skip,
                         .len = chunk->text.len - skip,
                         .offset = f->offset,
                         .attempt = chunk->attempt};
        f->offset = end;
        f->is_cancelled = f->line(f->user, &log) != 0;
    }
    rpc_unpack_free(message);
    return f->is_cancelled ? mt_error(MT_ECANCELLED, 0, "follow") : mt_ok();
}

/* Reads from one stream until it ends; how it ended. `detail` has MT_ERROR_BYTES_MAX bytes. */
static mt_status read_stream(struct follow *f, char *detail)
{
    Manta__V1__FollowRequest request = MANTA__V1__FOLLOW_REQUEST__INIT;
    struct rpc_stream_config config = {.method = "/manta.v1.Head/FollowJob"};
    struct rpc_reader       *reader;
    mt_buf                   bytes = {0}, message = {0};
    request.id = (char *)f->id;
    request.offset = f->offset;
    MT_TRY(rpc_pack(&request.base, &bytes));
    mt_status st = rpc_reader_open(f->client->channel, &config, mt_buf_view(&bytes), &reader);
    mt_buf_fini(&bytes);
    if (st.code != 0)
        return st;
    do {
        st = rpc_reader_next(reader, NEXT_MS, &message, detail);
        if (st.code == 0) {
            st = give(f, &message);
            mt_buf_fini(&message);
        } else if (st.code == MT_ETIMEDOUT) {
            st = mt_ok(); /* a quiet job */
        }
    } while (st.code == 0);
    rpc_reader_close(reader);
    return st;
}

/* Whether all has been seen: asked of the job itself, since a stream may end early with its head. */
static manta_status check_end(struct follow *f, bool *out_is_end, manta_error *e)
{
    manta_job_info info;
    manta_status   st = ctl_job_get(f->client, f->id, &info, e);
    if (st != MANTA_OK)
        return st;
    *out_is_end = strcmp(info.state, "PENDING") != 0 && strcmp(info.state, "RUNNING") != 0 && f->offset >= info.log_size;
    return MANTA_OK;
}

static manta_status follow_from(struct ctl_client *c, const char *id, uint64_t offset,
                                int (*line)(void *user, const manta_log *log), void *user, manta_error *e)
{
    struct follow f = {c, id, offset, line, user, false};
    bool          is_end = false;
    manta_status  st = check_end(&f, &is_end, e); /* an unknown id is an error at once */
    for (unsigned idle = 0; st == MANTA_OK && !is_end; idle++) {
        char      detail[MT_ERROR_BYTES_MAX] = "";
        uint64_t  before = f.offset;
        mt_status end = read_stream(&f, detail);
        if (f.is_cancelled)
            return ctl_fail(e, MT_ECANCELLED, MANTA_NOT_DONE, "the callback ended the reading of job %.64s at byte %llu", id,
                            (unsigned long long)f.offset);
        if (end.code != MT_ENOENT && !ctl_may_retry(end))
            return ctl_fail(e, end.code, MANTA_NOT_DONE, "log of job %.64s: %s", id, detail[0] ? detail : end.what);
        st = check_end(&f, &is_end, e);
        idle = f.offset > before ? 0 : idle;
        if (st == MANTA_OK && !is_end) {
            ctl_reconnect(c, end.code, detail);
            ctl_pause(idle);
        }
    }
    return st;
}

manta_status manta_job_follow_from(manta_client *client, const char *id, uint64_t offset,
                                   int (*line)(void *user, const manta_log *log), void *user, manta_error *e)
{
    struct ctl_client *c;
    manta_status       st = ctl_enter_given(client, "manta_job_follow_from", id && line, "id and line", &c, e);
    return st != MANTA_OK ? st : ctl_leave(client, follow_from(c, id, offset, line, user, e));
}

manta_status manta_job_follow(manta_client *client, const char *id, int (*line)(void *user, const manta_log *log), void *user,
                              manta_error *e)
{
    return manta_job_follow_from(client, id, 0, line, user, e);
}
