/* SPDX-License-Identifier: Apache-2.0
 *
 * program.c - see program.h. Owns: nothing outside of the call. Thread: the one that calls manta_init.
 */
#include "clients/lib/shell/program/program.h"
#include "clients/lib/shell/socket/socket.h"

#include "core/base/limits/env.h"
#include "core/ds/vec.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <link.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/* The executable first, then what it has mapped; full paths, the folders without links. */
struct files {
    MT_VEC(char *) paths;
    bool has_failed;
};

static bool begins_with(const char *path, const char *folder)
{
    return strncmp(path, folder, strlen(folder)) == 0;
}

/* Every machine has its own. */
static bool is_system(const char *path)
{
    return begins_with(path, "/lib/") || begins_with(path, "/lib64/") || begins_with(path, "/lib32/") ||
           begins_with(path, "/usr/lib/") || begins_with(path, "/usr/lib64/") || begins_with(path, "/usr/lib32/") ||
           begins_with(path, "/etc/"); /* ld.so.preload's way */
}

/* The name that the loader looked for, in the folder where it is: links between a library's versions are not followed. */
static void path_add(struct files *files, const char *path)
{
    char        folder[PATH_MAX], real[PATH_MAX], *full = NULL;
    const char *slash = strrchr(path, '/');
    if (!slash || slash - path >= PATH_MAX)
        return; /* the kernel's own */
    snprintf(folder, sizeof folder, "%.*s", slash == path ? 1 : (int)(slash - path), path);
    if (!realpath(folder, real) || asprintf(&full, "%s%s", strcmp(real, "/") ? real : "", slash) < 0)
        return; /* it is gone: nobody could read it */
    if ((files->paths.count && is_system(full)) || files->paths.count > MT_PROGRAM_LIBRARIES_MAX)
        free(full);
    else if (mt_vec_push(&files->paths, full).code) {
        free(full);
        files->has_failed = true;
    }
}

static int add_mapped(struct dl_phdr_info *info, size_t size, void *files)
{
    (void)size;
    if (info->dlpi_name)
        path_add(files, info->dlpi_name);
    return 0;
}

/* Bytes of the folder that they all have in common, its slash included. */
static size_t common_size(const struct files *files)
{
    const char *first = files->paths.data[0];
    size_t      size = (size_t)(strrchr(first, '/') - first) + 1;
    for (size_t i = 1; i < files->paths.count; i++) {
        const char *path = files->paths.data[i];
        while (strncmp(first, path, size) != 0) {
            for (size--; first[size - 1] != '/'; size--)
                ;
        }
    }
    return size;
}

static mt_status tell(int socket, const char *path, int fd)
{
    struct ctl_program_file file = {.path = ""};
    snprintf(file.path, sizeof file.path, "%s", path);
    return lib_socket_send(socket, CTL_PROGRAM_FILE, (mt_id){0, 0}, &file, sizeof file, NULL, 0, fd);
}

static mt_status tell_library(int socket, const char *path, size_t common)
{
    int fd = strlen(path + common) < CTL_PROGRAM_PATH_SIZE ? open(path, O_RDONLY | O_CLOEXEC) : -1;
    if (fd < 0)
        return mt_ok(); /* a node that needs it will say so */
    mt_status st = tell(socket, path + common, fd);
    close(fd);
    return st;
}

mt_status lib_program_tell(int socket)
{
    struct files files = {.has_failed = false};
    char         own[PATH_MAX];
    mt_status    st = mt_ok();
    ssize_t      size = readlink("/proc/self/exe", own, sizeof own - 1);
    if (size <= 0)
        return mt_error(MT_ESYS, errno, "own executable");
    own[size] = 0;
    path_add(&files, own);
    if (files.paths.count)
        dl_iterate_phdr(add_mapped, &files);
    size_t common = files.paths.count ? common_size(&files) : 0;
    if (files.has_failed)
        st = mt_error(MT_ENOMEM, 0, "the list of own libraries");
    else if (common && strlen(files.paths.data[0] + common) < CTL_PROGRAM_PATH_SIZE)
        st = tell(socket, files.paths.data[0] + common, -1);
    else
        common = 0; /* its folder is gone, or too deep: it is run without what stands beside it */
    for (size_t i = 1; common && i < files.paths.count && !st.code; i++)
        st = tell_library(socket, files.paths.data[i], common);
    for (size_t i = 0; i < files.paths.count; i++)
        free(files.paths.data[i]);
    mt_vec_fini(&files.paths);
    return st;
}
