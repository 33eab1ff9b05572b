/* SPDX-License-Identifier: Apache-2.0
 *
 * file.c - whole writes, reads and syncs with typed errors. Owns nothing. Thread: any.
 */
#include "sgd/ground/file.h"

#include "core/sys/file.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static const size_t PAGE = 4096; /* what unbuffered writes are aligned to */

mt_status sgd_file_error(int sys, const char *what)
{
    bool is_full = sys == ENOSPC || sys == EDQUOT || sys == EFBIG;
    return mt_error(is_full ? MT_EDISK_FULL : MT_ESYS, sys, what);
}

mt_status sgd_file_write(int fd, const void *data, size_t size)
{
    int err = mt_write_all(fd, data, size);
    return err ? sgd_file_error(err, "write file") : mt_ok();
}

mt_status sgd_file_read(int fd, void *out, size_t size, uint64_t offset)
{
    ssize_t n = mt_pread_all(fd, out, size, offset);
    if (n < 0)
        return mt_error(MT_ESYS, errno, "read file");
    return (size_t)n == size ? mt_ok() : mt_error(MT_ECORRUPT, 0, "read file: truncated");
}

mt_status sgd_file_sync(int fd)
{
    while (fsync(fd) != 0)
        if (errno != EINTR)
            return sgd_file_error(errno, "sync file");
    return mt_ok();
}

mt_status sgd_file_create(int dir, const char *name, int *out_fd)
{
    int fd = openat(dir, name, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC | O_NOFOLLOW, 0644);
    if (fd < 0 && errno == EEXIST)
        return mt_error(MT_EEXIST, errno, "create file");
    if (fd < 0)
        return sgd_file_error(errno, "create file");
    *out_fd = fd;
    return mt_ok();
}

mt_status sgd_file_open_dir(int dir, const char *name, int *out_fd)
{
    int fd = openat(dir, name, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    if (fd < 0)
        return mt_error(errno == ENOENT ? MT_ENOENT : MT_ESYS, errno, "open folder");
    *out_fd = fd;
    return mt_ok();
}

mt_status sgd_file_finish(int fd)
{
    mt_status st = sgd_file_sync(fd);
    if (close(fd) != 0 && st.code == 0)
        st = sgd_file_error(errno, "close file");
    return st;
}

/* ---- streams ---- */

static bool direct_set(int fd, bool is_on)
{
    int flags = fcntl(fd, F_GETFL);
    return flags >= 0 && fcntl(fd, F_SETFL, is_on ? flags | O_DIRECT : flags & ~O_DIRECT) == 0;
}

mt_status sgd_stream_init(struct sgd_stream *stream, int fd, uint64_t size)
{
    *stream = (struct sgd_stream){.fd = fd, .block = aligned_alloc(PAGE, SGD_STREAM_BYTES)};
    if (!stream->block)
        return mt_error(MT_ENOMEM, 0, "write file");
    stream->is_direct = size >= MT_FILE_DIRECT_BYTES && direct_set(fd, true);
    return mt_ok();
}

/* A file system that takes the flag and not the writes, or that has written a part of a page (the disk is nearly full), gets
 * the rest through the page cache. */
static mt_status block_write(struct sgd_stream *stream)
{
    const unsigned char *p = stream->block;
    size_t               left = stream->used;
    while (left && stream->is_direct) {
        ssize_t n = left % PAGE || (uintptr_t)p % PAGE ? 0 : write(stream->fd, p, left);
        if (n < 0 && errno == EINTR)
            continue;
        if (n < 0 && errno != EINVAL)
            return sgd_file_error(errno, "write file");
        if (n <= 0)
            stream->is_direct = !direct_set(stream->fd, false);
        if (n <= 0 && stream->is_direct)
            return mt_error(MT_ESYS, errno, "write file");
        p += n > 0 ? n : 0;
        left -= n > 0 ? (size_t)n : 0;
    }
    stream->used = 0;
    return left ? sgd_file_write(stream->fd, p, left) : mt_ok();
}

mt_status sgd_stream_write(struct sgd_stream *stream, const void *data, size_t size)
{
    const unsigned char *p = data;
    while (size) {
        size_t part = SGD_STREAM_BYTES - stream->used;
        part = part < size ? part : size;
        memcpy(stream->block + stream->used, p, part);
        stream->used += part;
        p += part;
        size -= part;
        if (stream->used == SGD_STREAM_BYTES)
            MT_TRY(block_write(stream));
    }
    return mt_ok();
}

mt_status sgd_stream_end(struct sgd_stream *stream)
{
    mt_status st = block_write(stream);
    sgd_stream_drop(stream);
    return st;
}

void sgd_stream_drop(struct sgd_stream *stream)
{
    free(stream->block);
    stream->block = NULL;
}
