/* SPDX-License-Identifier: Apache-2.0
 *
 * mark.c - which folder this is: a random number in a file, and the number that the file system has for that file.
 *
 * Owns: nothing. Thread: any, of any process and machine at a time.
 */
#include "sgd/save/private.h"

#include "core/base/rng.h"
#include "sgd/ground/file.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#define MARK_FILE ".mark"

static mt_status parent_make(const char *folder)
{
    char  path[MT_PATH_BYTES_MAX];
    char *end;
    if ((size_t)snprintf(path, sizeof path, "%s", folder) >= sizeof path)
        return mt_error(MT_EINVAL, 0, "checkpoints: the folder's name is too long");
    end = strrchr(path, '/');
    if (!end || end == path)
        return mt_ok();
    *end = 0;
    return mkdir(path, 0755) == 0 || errno == EEXIST ? mt_ok() : sgd_file_error(errno, "make the parent of the checkpoint folder");
}

/* Whole or absent: it gets its name when it is written, and the first one stays. */
static mt_status mark_make(int dir)
{
    char     temp[64];
    uint64_t number;
    int      fd;
    MT_TRY(mt_random_bytes(&number, sizeof number));
    snprintf(temp, sizeof temp, MARK_FILE "-%016llx", (unsigned long long)number);
    MT_TRY(sgd_file_create(dir, temp, &fd));
    mt_status st = sgd_file_write(fd, &number, sizeof number);
    mt_status ended = sgd_file_finish(fd);
    st = st.code ? st : ended;
    if (st.code == MT_OK && linkat(dir, temp, dir, MARK_FILE, 0) != 0 && errno != EEXIST)
        st = sgd_file_error(errno, "mark the checkpoint folder");
    unlinkat(dir, temp, 0);
    return st;
}

static mt_status mark_read(int dir, uint64_t *out_mark)
{
    struct stat info;
    uint64_t    number;
    int         fd = openat(dir, MARK_FILE, O_RDONLY | O_CLOEXEC | O_NOFOLLOW);
    if (fd < 0)
        return errno == ENOENT ? mt_error(MT_ENOENT, errno, "the checkpoint folder has no mark")
                               : sgd_file_error(errno, "open the checkpoint folder's mark");
    mt_status st = fstat(fd, &info) == 0 ? sgd_file_read(fd, &number, sizeof number, 0)
                                         : sgd_file_error(errno, "look at the checkpoint folder's mark");
    close(fd);
    MT_TRY(st);
    number = (number ^ info.st_ino) * 0x9e3779b97f4a7c15u;
    *out_mark = number ? number : 1;
    return mt_ok();
}

mt_status sgd_checkpoint_folder_mark(const char *folder, uint64_t *out_mark)
{
    int dir;
    MT_TRY(parent_make(folder));
    MT_TRY(sgd_checkpoint_folder_open(folder, &dir));
    mt_status st = mark_read(dir, out_mark);
    if (st.code == MT_ENOENT)
        st = mark_make(dir);
    if (st.code == MT_OK)
        st = mark_read(dir, out_mark);
    close(dir);
    return st;
}
