/* SPDX-License-Identifier: Apache-2.0
 *
 * disk.c - values in files. The one door to zstd; xxhash is header only. Thread: any; owns nothing.
 *
 * A value is compressed when a sample of it (its start, middle and end) becomes half as long or less: at level 1 zstd is
 * then about as fast as a good disk, and what is saved is written and read less. What saves less is stored as it is.
 */
#include "objectstore/system/disk.h"

#include "core/sys/file.h"

#define XXH_INLINE_ALL
#include <xxhash.h>
#include <zstd.h>

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum {
    DISK_LEVEL = 1,
    DISK_PIECE = 1 << 20,    /* bytes of one write or read */
    DISK_SAMPLE = 16 * 1024, /* three of these are tried ... */
    DISK_SAMPLES = 3,
    DISK_COMPRESS_MIN = 4096, /* ... of a value that is at least so long */
};

static mt_status disk_error(const char *what)
{
    bool full = errno == ENOSPC || errno == EDQUOT || errno == EFBIG;
    return mt_error(full ? MT_EDISK_FULL : MT_ESYS, errno, what);
}

mt_status os_disk_open(const char *folder, int *out_fd)
{
    char path[4096];
    int  fd = open(folder, O_TMPFILE | O_RDWR | O_CLOEXEC, 0600);
    if (fd < 0 && (errno == EOPNOTSUPP || errno == EISDIR || errno == EINVAL)) { /* this file system has none without name */
        if (snprintf(path, sizeof path, "%s/.manta-spill-XXXXXX", folder) >= (int)sizeof path)
            return mt_error(MT_EINVAL, 0, "the spill folder's path is too long");
        fd = mkostemp(path, O_CLOEXEC);
        if (fd >= 0)
            unlink(path);
    }
    if (fd < 0)
        return disk_error("open a spill file");
    *out_fd = fd;
    return mt_ok();
}

void os_disk_close(int fd)
{
    close(fd);
}

static mt_status write_at(int fd, uint64_t at, const void *data, size_t size)
{
    errno = mt_pwrite_all(fd, data, size, at);
    return errno ? disk_error("write a spill file") : mt_ok();
}

static mt_status read_at(int fd, uint64_t at, void *to, size_t size)
{
    ssize_t n = mt_pread_all(fd, to, size, at);
    if (n < 0)
        return disk_error("read a spill file");
    return (size_t)n == size ? mt_ok() : mt_error(MT_ECORRUPT, 0, "a spill file is shorter than what was written");
}

/* ---- compressed ---- */

static bool pays(const void *data, uint64_t size)
{
    char     in[DISK_SAMPLE], out[ZSTD_COMPRESSBOUND(DISK_SAMPLE)];
    uint64_t step = size > DISK_SAMPLE ? (size - DISK_SAMPLE) / (DISK_SAMPLES - 1) : 0, saved = 0, tried = 0;
    if (size < DISK_COMPRESS_MIN)
        return false;
    for (uint64_t at = 0, i = 0; i < (step ? DISK_SAMPLES : 1); i++, at += step) {
        size_t piece = size - at < DISK_SAMPLE ? (size_t)(size - at) : DISK_SAMPLE;
        memcpy(in, (const char *)data + at, piece);
        size_t n = ZSTD_compress(out, sizeof out, in, piece, DISK_LEVEL);
        tried += piece;
        saved += !ZSTD_isError(n) && n < piece ? piece - n : 0;
    }
    return saved * 2 >= tried;
}

struct packer {
    ZSTD_CCtx   *context;
    char        *in, *out; /* DISK_PIECE each; the input is copied first: it may change under way */
    XXH3_state_t sum;
};

static mt_status pack_piece(struct packer *p, int fd, uint64_t *at, size_t n, ZSTD_EndDirective end)
{
    ZSTD_inBuffer in = {p->in, n, 0};
    size_t        left;
    do {
        ZSTD_outBuffer out = {p->out, DISK_PIECE, 0};
        left = ZSTD_compressStream2(p->context, &out, &in, end);
        if (ZSTD_isError(left))
            return mt_error(MT_EINTERNAL, 0, "compress a value");
        MT_TRY(write_at(fd, *at, p->out, out.pos));
        *at += out.pos;
    } while (in.pos < in.size || (end == ZSTD_e_end && left));
    return mt_ok();
}

static mt_status write_compressed(int fd, struct os_disk_item *item, const void *data)
{
    struct packer p = {.context = ZSTD_createCCtx(), .in = malloc(DISK_PIECE), .out = malloc(DISK_PIECE)};
    mt_status     st = p.context && p.in && p.out ? mt_ok() : mt_error(MT_ENOMEM, 0, "compress a value");
    uint64_t      at = item->offset;
    XXH3_64bits_reset(&p.sum);
    if (st.code == 0)
        ZSTD_CCtx_setParameter(p.context, ZSTD_c_compressionLevel, DISK_LEVEL);
    for (uint64_t done = 0; st.code == 0 && done < item->size;) {
        size_t n = item->size - done < DISK_PIECE ? (size_t)(item->size - done) : DISK_PIECE;
        memcpy(p.in, (const char *)data + done, n);
        XXH3_64bits_update(&p.sum, p.in, n);
        done += n;
        st = pack_piece(&p, fd, &at, n, done == item->size ? ZSTD_e_end : ZSTD_e_continue);
    }
    item->stored = at - item->offset;
    item->checksum = XXH3_64bits_digest(&p.sum);
    free(p.in);
    free(p.out);
    ZSTD_freeCCtx(p.context);
    return st;
}

static mt_status read_compressed(int fd, const struct os_disk_item *item, void *to)
{
    ZSTD_DCtx     *context = ZSTD_createDCtx();
    char          *piece = malloc(DISK_PIECE);
    ZSTD_outBuffer out = {to, item->size, 0};
    mt_status      st = context && piece ? mt_ok() : mt_error(MT_ENOMEM, 0, "read a compressed value");
    for (uint64_t at = 0; st.code == 0 && at < item->stored;) {
        size_t        n = item->stored - at < DISK_PIECE ? (size_t)(item->stored - at) : DISK_PIECE;
        ZSTD_inBuffer in = {piece, n, 0};
        st = read_at(fd, item->offset + at, piece, n);
        while (st.code == 0 && in.pos < in.size) {
            size_t before = in.pos, left = ZSTD_decompressStream(context, &out, &in);
            if (ZSTD_isError(left) || (in.pos == before && out.pos == out.size))
                st = mt_error(MT_ECORRUPT, 0, "a compressed value on disk can't be read");
        }
        at += n;
    }
    if (st.code == 0 && out.pos != item->size)
        st = mt_error(MT_ECORRUPT, 0, "a compressed value on disk is too short");
    free(piece);
    ZSTD_freeDCtx(context);
    return st;
}

/* ---- values ---- */

static mt_status write_plain(int fd, struct os_disk_item *item, const void *data)
{
    XXH3_state_t sum;
    XXH3_64bits_reset(&sum);
    for (uint64_t done = 0; done < item->size;) {
        size_t n = item->size - done < DISK_PIECE ? (size_t)(item->size - done) : DISK_PIECE;
        XXH3_64bits_update(&sum, (const char *)data + done, n);
        MT_TRY(write_at(fd, item->offset + done, (const char *)data + done, n));
        done += n;
    }
    item->checksum = XXH3_64bits_digest(&sum);
    item->stored = item->size;
    return mt_ok();
}

mt_status os_disk_write(int fd, uint64_t *at, struct os_disk_item *item, const void *data)
{
    item->offset = *at;
    item->is_compressed = pays(data, item->size);
    MT_TRY(item->is_compressed ? write_compressed(fd, item, data) : write_plain(fd, item, data));
    *at += item->stored;
    return mt_ok();
}

mt_status os_disk_read(int fd, const struct os_disk_item *item, void *to)
{
    XXH3_state_t sum;
    XXH3_64bits_reset(&sum);
    if (item->is_compressed) {
        MT_TRY(read_compressed(fd, item, to));
        XXH3_64bits_update(&sum, to, item->size);
    }
    for (uint64_t done = 0; !item->is_compressed && done < item->size;) {
        size_t n = item->size - done < DISK_PIECE ? (size_t)(item->size - done) : DISK_PIECE;
        MT_TRY(read_at(fd, item->offset + done, (char *)to + done, n));
        XXH3_64bits_update(&sum, (char *)to + done, n);
        done += n;
    }
    if (XXH3_64bits_digest(&sum) != item->checksum)
        return mt_error(MT_ECORRUPT, 0, "a value on disk is not what was written");
    return mt_ok();
}
