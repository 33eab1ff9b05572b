/* SPDX-License-Identifier: Apache-2.0
 *
 * backup.c - the head's state as a file: all of it comes first, then the file is written, whole or not at all.
 */
#include "clients/control/control.h"

#include "core/io/private.h"
#include "core/sys/file.h"

#include <string.h>

enum { NEXT_MS = 10000 };

struct arrival {
    mt_buf   bytes;
    uint64_t size; /* of all */
    uint8_t  sha256[MT_SHA256_SIZE];
};

static mt_status take(struct arrival *a, mt_view message)
{
    ProtobufCMessage *unpacked;
    MT_TRY(rpc_unpack(&manta__v1__blob_chunk__descriptor, message, MT_CONTROL_BYTES_MAX, &unpacked));
    const Manta__V1__BlobChunk *chunk = (const Manta__V1__BlobChunk *)unpacked;
    mt_status                   st = mt_error(MT_EPROTO, 0, "a piece of the head's state does not fit");
    if (chunk->offset == a->bytes.size && chunk->sha256.len == MT_SHA256_SIZE && (a->size == 0 || chunk->size == a->size)) {
        a->size = chunk->size;
        memcpy(a->sha256, chunk->sha256.data, MT_SHA256_SIZE);
        st = mt_buf_append(&a->bytes, chunk->data.data, chunk->data.len);
    }
    rpc_unpack_free(unpacked);
    return st;
}

static mt_status arrived(const struct arrival *a)
{
    mt_sha256 sha;
    uint8_t   sum[MT_SHA256_SIZE];
    mt_sha256_init(&sha);
    mt_sha256_add(&sha, a->bytes.data, a->bytes.size);
    mt_sha256_end(&sha, sum);
    return a->size > 0 && a->bytes.size == a->size && memcmp(sum, a->sha256, sizeof sum) == 0
               ? mt_ok()
               : mt_error(MT_EPROTO, 0, "the head's state has not come whole");
}

/* `detail` has MT_ERROR_BYTES_MAX bytes. */
static mt_status fetch(struct ctl_client *c, struct arrival *a, char *detail)
{
    Manta__V1__BackupRequest request = MANTA__V1__BACKUP_REQUEST__INIT;
    struct rpc_stream_config config = {.method = "/manta.v1.Head/Backup"};
    struct rpc_reader       *reader = NULL;
    mt_buf                   bytes = {0}, message = {0};
    MT_TRY(rpc_pack(&request.base, &bytes));
    mt_status st = rpc_reader_open(c->channel, &config, mt_buf_view(&bytes), &reader);
    mt_buf_fini(&bytes);
    while (st.code == 0 && (st = rpc_reader_next(reader, NEXT_MS, &message, detail)).code == 0) {
        st = take(a, mt_buf_view(&message));
        mt_buf_fini(&message);
    }
    if (reader)
        rpc_reader_close(reader);
    return st.code == MT_ENOENT ? arrived(a) : st;
}

static manta_status write_file(const char *path, mt_view bytes, manta_error *e)
{
    mt_status st = io_private_write(path, bytes, false);
    if (st.code == MT_EEXIST)
        return ctl_fail(e, st.code, MANTA_NOT_DONE, "%.500s: there is such a file already: name another one", path);
    if (st.code != 0)
        return ctl_fail(e, st.code, MANTA_NOT_DONE, "%.500s can't be written: %s", path, st.sys ? strerror(st.sys) : st.what);
    (void)mt_name_sync(path); /* as good as the file system can */
    return MANTA_OK;
}

static manta_status backup(struct ctl_client *c, const char *file, manta_error *e)
{
    struct arrival      a = {0};
    char                detail[MT_ERROR_BYTES_MAX] = "";
    struct ctl_patience patience = ctl_patience_of(c->timeout_ms);
    mt_status           st;
    for (;;) {
        (void)ctl_try_begin(&patience, ctl_half_of(c->timeout_ms)); /* it takes as long as pieces come */
        a.bytes.size = a.size = 0;
        st = fetch(c, &a, detail);
        if (!ctl_try_end(&patience) || !ctl_may_retry(st))
            break;
        ctl_reconnect(c, st.code, detail);
        if (!ctl_try_pause(&patience))
            break;
    }
    manta_status done = st.code == 0 ? write_file(file, mt_buf_view(&a.bytes), e)
                                     : ctl_fail(e, st.code, MANTA_NOT_DONE, "the state of the head at %s: %s", c->place.address,
                                                detail[0] ? detail : st.what);
    mt_buf_fini(&a.bytes);
    return done;
}

manta_status manta_cluster_backup(manta_client *client, const char *file, manta_error *e)
{
    struct ctl_client *c;
    manta_status       st = ctl_enter(client, "manta_cluster_backup", &c, e);
    if (st != MANTA_OK)
        return st;
    return ctl_leave(client,
                     file ? backup(c, file, e) : ctl_fail(e, MT_EINVAL, MANTA_NOT_DONE, "manta_cluster_backup: file is NULL"));
}
