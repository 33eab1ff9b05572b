/* SPDX-License-Identifier: Apache-2.0
 *
 * own.c - see own.h. Owns nothing. Thread: any.
 *
 * Most programs bring libraries of Manta along, and most nodes have the same ones in lib/ beside the folder of their raylet.
 * What is there need not be sent, nor written. The link names the file itself, not another link that an upgrade turns
 * elsewhere; that its bytes are the right ones is found out before each zygote, as of all files.
 */
#include "raylet/shell/cache/own.h"

#include "raylet/files/tree.h"
#include "raylet/shell/cache/sums.h"

#include "core/sys/process.h"

#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

static bool is_same(const char *path, const struct peer_program_file *file)
{
    struct stat st;
    int         fd = open(path, O_RDONLY | O_CLOEXEC);
    bool        is = fd >= 0 && fstat(fd, &st) == 0 && (uint64_t)st.st_size == file->size && !sh_sum_wrong(fd, file, true);
    if (fd >= 0)
        close(fd);
    return is;
}

bool sh_own_link(const char *folder, const struct peer_program_file *file)
{
    char        name[CTL_PROGRAM_PATH_SIZE + 16], beside[PATH_MAX], real[PATH_MAX];
    const char *slash = strrchr(file->path, '/'), *path = file->path;
    snprintf(name, sizeof name, "../lib/%s", slash ? slash + 1 : path);
    if (!realpath(mt_process_beside(name, beside, sizeof beside), real) || !is_same(real, file))
        return false;
    int at = rlt_tree_parent(folder, &path);
    if (at < 0)
        return false;
    bool is_made = symlinkat(real, at, path) == 0;
    close(at);
    return is_made;
}
