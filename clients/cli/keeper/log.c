/* SPDX-License-Identifier: Apache-2.0
 *
 * log.c - a daemon's log is bounded: see keeper.h.
 *
 * Copied and then cut, not renamed: daemon, keeper and workers have it open, and write on at its end wherever that is.
 *
 * Owns: nothing. Thread: main.
 */
#include "clients/cli/keeper/keeper.h"

#include "core/sys/file.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <sys/stat.h>
#include <unistd.h>

enum { PIECE_SIZE = 64 * 1024 };

/* The file that `fd` writes to, opened to be read. -1: it is no file of this name any more. */
static int open_again(int fd, char path[CLI_RECORD_PATH_SIZE])
{
    char        link[32];
    struct stat ours, named;
    snprintf(link, sizeof link, "/proc/self/fd/%d", fd);
    ssize_t n = readlink(link, path, CLI_RECORD_PATH_SIZE - 1);
    if (n <= 0 || fstat(fd, &ours) != 0)
        return -1;
    path[n] = '\0';
    int from = open(path, O_RDONLY | O_NOFOLLOW | O_CLOEXEC);
    if (from >= 0 && fstat(from, &named) == 0 && named.st_dev == ours.st_dev && named.st_ino == ours.st_ino)
        return from;
    if (from >= 0)
        close(from);
    return -1;
}

static int copy(int from, int to)
{
    char    piece[PIECE_SIZE];
    ssize_t n;
    int     err = 0;
    while (!err && (n = mt_read_all(from, piece, sizeof piece)) > 0)
        err = mt_write_all(to, piece, (size_t)n);
    return err ? err : n < 0 ? errno : 0;
}

int cli_log_turn(int fd, uint64_t max)
{
    char        path[CLI_RECORD_PATH_SIZE], next[CLI_RECORD_PATH_SIZE + 4], kept[CLI_RECORD_PATH_SIZE + 4];
    struct stat st;
    if (fstat(fd, &st) != 0 || !S_ISREG(st.st_mode) || (uint64_t)st.st_size <= max)
        return 0;
    int from = open_again(fd, path);
    if (from < 0)
        return 0;
    snprintf(next, sizeof next, "%s.new", path);
    snprintf(kept, sizeof kept, "%s.1", path);
    unlink(next); /* of a keeper that was killed */
    int to = open(next, O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, 0600);
    int err = to < 0 ? errno : copy(from, to);
    if (!err && (rename(next, kept) != 0 || ftruncate(fd, 0) != 0))
        err = errno;
    if (err)
        unlink(next);
    if (to >= 0)
        close(to);
    close(from);
    return err;
}
