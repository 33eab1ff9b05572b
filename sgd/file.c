/* SPDX-License-Identifier: Apache-2.0
 *
 * file.c - whole writes, reads and syncs with typed errors. Owns nothing. Thread: any.
 */
#include "sgd/file.h"

#include <errno.h>
#include <fcntl.h>
#include <unistd.h>

mt_status sgd_file_error(int sys, const char *what)
{
    bool is_full = sys == ENOSPC || sys == EDQUOT || sys == EFBIG;
    return mt_error(is_full ? MT_EDISK_FULL : MT_ESYS, sys, what);
}

mt_status sgd_file_write(int fd, const void *data, size_t size)
{
    const unsigned char *p = data;
    while (size) {
        ssize_t n = write(fd, p, size < MT_FILE_STEP_BYTES ? size : MT_FILE_STEP_BYTES);
        if (n < 0 && errno == EINTR)
            continue;
        if (n < 0)
            return sgd_file_error(errno, "write file");
        p += n;
        size -= (size_t)n;
    }
    return mt_ok();
}

mt_status sgd_file_read(int fd, void *out, size_t size, uint64_t offset)
{
    unsigned char *p = out;
    while (size) {
        ssize_t n = pread(fd, p, size < MT_FILE_STEP_BYTES ? size : MT_FILE_STEP_BYTES, (off_t)offset);
        if (n < 0 && errno == EINTR)
            continue;
        if (n < 0)
            return mt_error(MT_ESYS, errno, "read file");
        if (n == 0)
            return mt_error(MT_ECORRUPT, 0, "read file: truncated");
        p += n;
        size -= (size_t)n;
        offset += (uint64_t)n;
    }
    return mt_ok();
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
