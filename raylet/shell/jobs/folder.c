/* SPDX-License-Identifier: Apache-2.0
 *
 * folder.c - the private folder that a submitted job runs in; one that was left empty is given to a later job.
 *
 * Owns: struct sh_folders, the folders that wait for another job. Thread: the loop.
 * Always: a folder that is kept is empty, 0700 and ours, and nobody who was born in its job's part of the control group lives
 * any more: what a job leaves behind is gone.
 *
 * To make a folder and to remove it is most of what a job costs that does nothing: a file system looks for a free inode, and
 * ext4 without a journal passes over each that was freed in the last minute. To give one another name costs a tenth of that.
 */
#include "raylet/shell/jobs/jobs.h"
#include "raylet/shell/jobs/private.h"

#include "core/sys/file.h"

#include <dirent.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

enum { SPARES = 16, PATH_SIZE = 320 };

struct sh_folders {
    uint64_t spares[SPARES]; /* their names */
    uint32_t count;
    uint64_t next_number;
};

static void spare_path(const struct sh *sh, uint64_t number, char *out, size_t size)
{
    snprintf(out, size, "%s/.%llu", sh->job_folder, (unsigned long long)number); /* no job's id begins with a dot */
}

/* In it are itself and the one above; the room is for one name more, however long. */
static bool is_empty(int fd)
{
    _Alignas(struct dirent64) char entries[3 * sizeof(struct dirent64)];
    ssize_t                        size = getdents64(fd, entries, sizeof entries);
    int                            count = 0;
    for (ssize_t at = 0; at < size; at += ((const struct dirent64 *)(const void *)(entries + at))->d_reclen)
        count++;
    return count == 2;
}

static bool is_as_new(const char *path)
{
    struct stat st;
    int         fd = open(path, O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
    bool        ok = fd >= 0 && fstat(fd, &st) == 0 && (st.st_mode & 07777) == 0700 && st.st_uid == geteuid() && is_empty(fd);
    if (fd >= 0)
        close(fd);
    return ok;
}

static void folder_remove(const char *path)
{
    if (rmdir(path) < 0) /* most are empty */
        mt_tree_remove(path);
}

static bool spare_take(struct sh *sh, const char *path)
{
    char               from[PATH_SIZE];
    struct sh_folders *f = sh->folders;
    if (!f || !f->count)
        return false;
    spare_path(sh, f->spares[--f->count], from, sizeof from);
    if (rename(from, path) == 0)
        return true;
    folder_remove(from);
    return false;
}

bool sh_job_folder_make(struct sh *sh, const char *path)
{
    if (spare_take(sh, path) || mkdir(path, 0700) == 0)
        return true;
    mt_tree_remove(path); /* whatever stood there */
    return mkdir(path, 0700) == 0;
}

static bool spare_give(struct sh *sh, const char *path)
{
    char               to[PATH_SIZE];
    struct sh_folders *f = sh->folders;
    if (!f && !(f = sh->folders = calloc(1, sizeof *f)))
        return false;
    spare_path(sh, f->next_number, to, sizeof to);
    if (f->count == SPARES || !is_as_new(path) || rename(path, to) < 0)
        return false;
    f->spares[f->count++] = f->next_number++;
    return true;
}

void sh_job_folder_over(struct sh *sh, const char *path, bool is_left)
{
    if (!is_left || sh->options.users.count || !spare_give(sh, path))
        folder_remove(path);
}

void sh_job_folders_stop(struct sh *sh)
{
    char               path[PATH_SIZE];
    struct sh_folders *f = sh->folders;
    for (; f && f->count; f->count--) {
        spare_path(sh, f->spares[f->count - 1], path, sizeof path);
        folder_remove(path);
    }
    free(f);
    sh->folders = NULL;
    if (sh->job_folder[0])
        rmdir(sh->job_folder);
}
