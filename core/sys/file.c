/* SPDX-License-Identifier: Apache-2.0
 *
 * file.c - see file.h. Owns nothing. Thread: any.
 */
#include "core/sys/file.h"

#include <errno.h>
#include <fcntl.h>
#include <ftw.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

int mt_private_open(const char *path)
{
    struct stat st;
    int         fd = open(path, O_RDONLY | O_NOFOLLOW | O_CLOEXEC | O_NONBLOCK | O_NOCTTY);
    if (fd < 0 || (fstat(fd, &st) == 0 && S_ISREG(st.st_mode) && st.st_uid == geteuid() && !(st.st_mode & 077)))
        return fd;
    close(fd);
    errno = EPERM;
    return -1;
}

ssize_t mt_file_read(const char *path, char *out, size_t size)
{
    int     fd = open(path, O_RDONLY | O_CLOEXEC);
    size_t  got = 0;
    ssize_t n = -1;
    while (fd >= 0 && got + 1 < size && (n = read(fd, out + got, size - 1 - got)) > 0)
        got += (size_t)n;
    if (fd >= 0)
        close(fd);
    out[got] = '\0';
    return n < 0 ? -1 : (ssize_t)got;
}

/* What one write came to, into *done. 0 or an errno. */
static int wrote(ssize_t n, size_t *done)
{
    *done += n > 0 ? (size_t)n : 0;
    return n > 0 || (n < 0 && errno == EINTR) ? 0 : n < 0 ? errno : ENOSPC;
}

int mt_write_all(int fd, const void *data, size_t size)
{
    int err = 0;
    for (size_t done = 0; done < size && !err;)
        err = wrote(write(fd, (const char *)data + done, size - done), &done);
    return err;
}

int mt_pwrite_all(int fd, const void *data, size_t size, uint64_t at)
{
    int err = 0;
    for (size_t done = 0; done < size && !err;)
        err = wrote(pwrite(fd, (const char *)data + done, size - done, (off_t)(at + done)), &done);
    return err;
}

ssize_t mt_read_all(int fd, void *out, size_t size)
{
    size_t  done = 0;
    ssize_t n = 1;
    while (done < size && (n > 0 || (n < 0 && errno == EINTR))) {
        n = read(fd, (char *)out + done, size - done);
        done += n > 0 ? (size_t)n : 0;
    }
    return n < 0 ? -1 : (ssize_t)done;
}

ssize_t mt_pread_all(int fd, void *out, size_t size, uint64_t at)
{
    size_t  done = 0;
    ssize_t n = 1;
    while (done < size && (n > 0 || (n < 0 && errno == EINTR))) {
        n = pread(fd, (char *)out + done, size - done, (off_t)(at + done));
        done += n > 0 ? (size_t)n : 0;
    }
    return n < 0 ? -1 : (ssize_t)done;
}

static int remove_one(const char *path, const struct stat *st, int type, struct FTW *at)
{
    (void)st, (void)type, (void)at;
    (void)remove(path);
    return 0;
}

static int open_up(const char *path, const struct stat *st, int type, struct FTW *at)
{
    (void)st, (void)at;
    if (type == FTW_D || type == FTW_DNR)
        (void)!chmod(path, 0700);
    return 0;
}

/* Root needs no right to remove something, and must not change those of what another user may put in a folder's place meanwhile. */
void mt_tree_remove(const char *path)
{
    struct stat st;
    (void)!nftw(path, remove_one, 16, FTW_DEPTH | FTW_PHYS); /* which itself needs memory, and up to 16 descriptors */
    if (geteuid() == 0 || lstat(path, &st) != 0)
        return;
    (void)!nftw(path, open_up, 16, FTW_PHYS);
    (void)!nftw(path, remove_one, 16, FTW_DEPTH | FTW_PHYS);
}

int mt_name_sync(const char *path)
{
    size_t size = strlen(path);
    while (size > 1 && path[size - 1] == '/') /* of "a/b/" the folder above is a as well */
        size--;
    while (size > 0 && path[size - 1] != '/')
        size--;
    char *above = size ? strndup(path, size) : strdup(".");
    if (!above)
        return ENOMEM;
    int fd = open(above, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    int sys = fd < 0 || fsync(fd) != 0 ? errno : 0;
    if (fd >= 0)
        close(fd);
    free(above);
    return sys;
}
