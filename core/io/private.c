/* SPDX-License-Identifier: Apache-2.0
 *
 * private.c - see private.h. Owns nothing; any thread.
 */
#include "core/io/private.h"

#include "core/sys/file.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

mt_status io_check_private_dir(const char *dir)
{
    struct stat st;
    if (stat(dir, &st) < 0)
        return mt_error(errno == ENOENT ? MT_ENOENT : MT_ESYS, errno, "stat the folder of a private file");
    if (!S_ISDIR(st.st_mode) || st.st_uid != geteuid() || (st.st_mode & 077))
        return mt_error(MT_EAUTH, EPERM, "the folder must be owned by this user and have mode 0700");
    return mt_ok();
}

mt_status io_make_private_parent(const char *path)
{
    char        dir[PATH_MAX];
    const char *slash = strrchr(path, '/');
    size_t      length = slash ? (size_t)(slash - path) : 0;
    if (!slash || length == 0 || length >= sizeof dir)
        return mt_error(MT_EINVAL, 0, "the path of a private file must name a folder and a file");
    memcpy(dir, path, length);
    dir[length] = '\0';
    if (mkdir(dir, 0700) < 0 && errno != EEXIST)
        return mt_error(MT_ESYS, errno, "make the folder of a private file");
    return io_check_private_dir(dir);
}

static mt_status content_read(int fd, size_t size_max, mt_buf *out)
{
    MT_TRY(mt_buf_reserve(out, size_max + 1));
    ssize_t n = mt_read_all(fd, out->data, size_max + 1);
    if (n < 0)
        return mt_error(MT_ESYS, errno, "read a private file");
    out->size = (size_t)n;
    if (out->size > size_max)
        return mt_error(MT_ECORRUPT, 0, "a private file is longer than it may be");
    return mt_buf_terminate(out);
}

mt_status io_private_read(const char *path, size_t size_max, mt_buf *out)
{
    int fd = mt_private_open(path);
    if (fd < 0 && errno == EPERM)
        return mt_error(MT_EAUTH, EPERM, "it must be a file of this user with mode 0600");
    if (fd < 0) {
        int code = errno == ENOENT ? MT_ENOENT : errno == ELOOP || errno == EACCES ? MT_EAUTH : MT_ESYS;
        return mt_error(code, errno, "open a private file");
    }
    mt_buf    text = {0};
    mt_status got = content_read(fd, size_max, &text);
    close(fd);
    if (got.code)
        io_private_wipe(&text);
    else
        *out = mt_buf_move(&text);
    return got;
}

static mt_status content_write(int fd, mt_view content)
{
    int err = mt_write_all(fd, content.data, content.size);
    if (!err && fsync(fd) == 0)
        return mt_ok();
    err = err ? err : errno;
    bool is_full = err == ENOSPC || err == EDQUOT || err == EFBIG; /* the disk, a quota, or a limit of file sizes */
    return mt_error(is_full ? MT_EDISK_FULL : MT_ESYS, err, "write a private file");
}

/* One that is replaced gets another name first: whoever reads it sees the old content or the new one. */
mt_status io_private_write(const char *path, mt_view content, bool replace)
{
    char name[PATH_MAX];
    if (snprintf(name, sizeof name, "%s%s", path, replace ? ".new" : "") >= (int)sizeof name)
        return mt_error(MT_EINVAL, ENAMETOOLONG, "the path of a private file is too long");
    if (replace)
        unlink(name); /* of one that was killed */
    int fd = open(name, O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, 0600);
    if (fd < 0)
        return mt_error(errno == EEXIST ? MT_EEXIST : MT_ESYS, errno, "make a private file");
    mt_status st = content_write(fd, content);
    close(fd);
    if (!st.code && replace && rename(name, path) < 0)
        st = mt_error(MT_ESYS, errno, "make a private file");
    if (!st.code && replace)
        (void)mt_name_sync(path); /* as good as the file system can */
    if (st.code)
        unlink(name);
    return st;
}

void io_private_wipe(mt_buf *buf)
{
    if (buf->data)
        explicit_bzero(buf->data, buf->capacity);
    mt_buf_fini(buf);
}
