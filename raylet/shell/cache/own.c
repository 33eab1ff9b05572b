/* SPDX-License-Identifier: Apache-2.0
 *
 * own.c - see own.h. Owns nothing. Thread: any.
 *
 * Programs of Manta's own stand beside each raylet, and most others bring libraries of Manta along, which most nodes have in lib/
 * beside the folder of their raylet. What is there need not be sent, nor written. Here names and sizes are compared; that the
 * bytes are the right ones is found out before each zygote, as of all files.
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

static bool is_like(const char *path, const struct peer_program_file *file)
{
    struct stat st;
    int         fd = open(path, O_RDONLY | O_NONBLOCK | O_CLOEXEC);
    bool        is = fd >= 0 && sh_sum_is_safe(fd, true) && fstat(fd, &st) == 0 && (uint64_t)st.st_size == file->size;
    if (fd >= 0)
        close(fd);
    return is;
}

/* The folder from which the program's path ends beside this raylet; not the root of all, which is no installation. */
static bool root_of(const char *program, char *out, size_t size)
{
    const char *slash = strrchr(program, '/');
    size_t      tail = slash ? (size_t)(slash - program) + 1 : 0; /* "bin/" */
    const char *beside = mt_process_beside("", out, size);
    size_t      length = strlen(beside);
    if (beside != out || length < tail + 2 || out[length - tail - 1] != '/' || memcmp(out + length - tail, program, tail) != 0)
        return false;
    out[length - tail - 1] = 0; /* without the slash */
    return true;
}

bool sh_own_tree(const struct peer_program_file *files, uint32_t count, char *out, size_t size)
{
    char path[PATH_MAX];
    bool is = root_of(files[0].path, out, size);
    for (uint32_t i = 0; is && i < count; i++)
        is = snprintf(path, sizeof path, "%s/%s", out, files[i].path) < (int)sizeof path && is_like(path, &files[i]);
    return is;
}

/* The link names the file itself, not another link that an upgrade turns elsewhere. */
bool sh_own_link(const char *folder, const struct peer_program_file *file)
{
    char        name[CTL_PROGRAM_PATH_SIZE + 16], beside[PATH_MAX], real[PATH_MAX];
    const char *slash = strrchr(file->path, '/'), *path = file->path;
    snprintf(name, sizeof name, "../lib/%s", slash ? slash + 1 : path);
    if (!realpath(mt_process_beside(name, beside, sizeof beside), real) || !is_like(real, file))
        return false;
    int at = rlt_tree_parent(folder, &path);
    if (at < 0)
        return false;
    bool is_made = symlinkat(real, at, path) == 0;
    close(at);
    return is_made;
}
