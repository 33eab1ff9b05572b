/* SPDX-License-Identifier: Apache-2.0
 *
 * tree.c - folders of files that others have sent: where they lie, how a file gets into one, how one goes.
 *
 * Owns: nothing. Thread: any. Always: nothing is ever made outside the folder that is named, and no link is followed.
 */
#include "raylet/files/tree.h"

#include "core/base/limits/env.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <unistd.h>

static void give_in(int at, uint32_t uid, uint32_t gid, int depth)
{
    DIR           *folder = fdopendir(at); /* which owns it now */
    struct dirent *entry;
    while (folder && (entry = readdir(folder))) {
        struct stat st;
        if (!strcmp(entry->d_name, ".") || !strcmp(entry->d_name, "..") || fstatat(at, entry->d_name, &st, AT_SYMLINK_NOFOLLOW) < 0)
            continue;
        (void)!fchownat(at, entry->d_name, uid, gid, AT_SYMLINK_NOFOLLOW);
        int next = S_ISDIR(st.st_mode) && depth ? openat(at, entry->d_name, O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC) : -1;
        if (next >= 0)
            give_in(next, uid, gid, depth - 1);
    }
    if (folder)
        closedir(folder);
    else
        close(at);
}

void rlt_tree_give(const char *path, uint32_t uid, uint32_t gid)
{
    int at = open(path, O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
    if (at < 0)
        return;
    (void)!fchown(at, uid, gid);
    give_in(at, uid, gid, MT_ENV_FOLDERS_DEEP_MAX);
}

/* The runtime folder, unless its file system runs no programs (/run on many machines), or others have to get there. */
mt_status rlt_tree_base(const char *dir, const char *name, bool is_open, char *out, size_t size)
{
    struct statvfs fs;
    const char    *tmp = getenv("TMPDIR");
    snprintf(out, size, "%s/%s", dir, name);
    if (!is_open && statvfs(dir, &fs) == 0 && !(fs.f_flag & ST_NOEXEC)) {
        if (mkdir(out, 0700) == 0 || errno == EEXIST)
            return mt_ok();
    } else {
        snprintf(out, size, "%.150s/manta-%.40s-XXXXXX", tmp && tmp[0] == '/' ? tmp : "/tmp", name);
        if (mkdtemp(out) && (!is_open || chmod(out, 0711) == 0))
            return mt_ok();
    }
    out[0] = 0;
    return mt_error(MT_ESYS, errno, "make a folder");
}

int rlt_tree_parent(const char *folder, const char **path)
{
    char        part[256];
    int         at = open(folder, O_DIRECTORY | O_CLOEXEC), next;
    const char *slash;
    for (; at >= 0 && (slash = strchr(*path, '/')); *path = slash + 1) {
        size_t size = (size_t)(slash - *path);
        if (size >= sizeof part) {
            close(at);
            errno = ENAMETOOLONG;
            return -1;
        }
        memcpy(part, *path, size);
        part[size] = 0;
        next = mkdirat(at, part, 0700) < 0 && errno != EEXIST ? -1 : openat(at, part, O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
        int err = errno;
        close(at);
        errno = err;
        at = next;
    }
    return at;
}

int rlt_tree_create(const char *folder, const char *path, uint32_t mode)
{
    int at = rlt_tree_parent(folder, &path);
    if (at < 0)
        return -1;
    int fd = openat(at, path, O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, mode & 0100 ? 0700 : 0600);
    int err = errno;
    close(at);
    errno = err;
    return fd;
}
