/* SPDX-License-Identifier: Apache-2.0
 *
 * files.c - which files a job brings: the list walked, each with its SHA-256, mode, and place in the job's folder.
 */
#include "clients/control/control.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

enum { READ_SIZE = 256 * 1024 };

static manta_status collect(struct ctl_files *files, const char *source, const char *path, int depth, manta_error *e);

void ctl_files_fini(struct ctl_files *files)
{
    for (size_t i = 0; i < files->items.count; i++) {
        free(files->items.data[i].source);
        free(files->items.data[i].path);
    }
    mt_vec_fini(&files->items);
}

static manta_status file_hash(const char *source, uint8_t sha256[MT_SHA256_SIZE], uint64_t *out_size, manta_error *e)
{
    uint8_t  *piece = malloc(READ_SIZE);
    int       fd = piece ? open(source, O_RDONLY | O_CLOEXEC) : -1;
    mt_sha256 sum;
    ssize_t   n = -1;
    *out_size = 0;
    mt_sha256_init(&sum);
    while (fd >= 0 && ((n = read(fd, piece, READ_SIZE)) > 0 || (n < 0 && errno == EINTR))) {
        if (n > 0) {
            mt_sha256_add(&sum, piece, (size_t)n);
            *out_size += (uint64_t)n;
        }
    }
    int sys = errno;
    if (fd >= 0)
        close(fd);
    free(piece);
    mt_sha256_end(&sum, sha256);
    return n == 0 ? MANTA_OK
                  : ctl_fail(e, sys == ENOENT ? MT_ENOENT : MT_ESYS, MANTA_NOT_DONE, "file %.300s: %s", source, strerror(sys));
}

static manta_status add_file(struct ctl_files *files, const char *source, const char *path, const struct stat *info, manta_error *e)
{
    struct ctl_file file = {.mode = info->st_mode & S_IXUSR ? 0755 : 0644};
    if (files->items.count >= MT_HEAD_JOB_FILES_MAX)
        return ctl_fail(e, MT_EINVAL, MANTA_NOT_DONE, "the job has more than %d files: pack them into an archive",
                        MT_HEAD_JOB_FILES_MAX);
    manta_status st = file_hash(source, file.sha256, &file.size, e);
    if (st != MANTA_OK)
        return st;
    file.source = strdup(source);
    file.path = strdup(path);
    if (file.source && file.path && mt_vec_push(&files->items, file).code == 0)
        return MANTA_OK;
    free(file.source);
    free(file.path);
    return ctl_fail(e, MT_ENOMEM, MANTA_NOT_DONE, "no memory for the list of files");
}

static int by_name(const struct dirent **a, const struct dirent **b)
{
    return strcmp((*a)->d_name, (*b)->d_name);
}
static int no_dots(const struct dirent *entry)
{
    return strcmp(entry->d_name, ".") != 0 && strcmp(entry->d_name, "..") != 0;
}

static manta_status collect_folder(struct ctl_files *files, const char *source, const char *path, int depth, manta_error *e)
{
    struct dirent **entries;
    char            inner_source[CTL_PATH_SIZE], inner_path[CTL_PATH_SIZE];
    manta_status    st = MANTA_OK;
    if (depth >= MT_CTL_FOLDERS_DEEP_MAX)
        return ctl_fail(e, MT_EINVAL, MANTA_NOT_DONE, "folder %.300s: more than %d folders deep", source, MT_CTL_FOLDERS_DEEP_MAX);
    int count = scandir(source, &entries, no_dots, by_name); /* the same list each time: one job */
    if (count < 0)
        return ctl_fail(e, MT_ESYS, MANTA_NOT_DONE, "folder %.300s: %s", source, strerror(errno));
    for (int i = 0; i < count; i++) {
        const char *name = entries[i]->d_name;
        bool        fits = snprintf(inner_source, sizeof inner_source, "%s/%s", source, name) < CTL_PATH_SIZE &&
                    snprintf(inner_path, sizeof inner_path, "%s%s%s", path, path[0] ? "/" : "", name) < CTL_PATH_SIZE;
        if (st == MANTA_OK && !fits)
            st = ctl_fail(e, MT_EINVAL, MANTA_NOT_DONE, "folder %.300s: a path in it is too long", source);
        if (st == MANTA_OK)
            st = collect(files, inner_source, inner_path, depth + 1, e);
        free(entries[i]);
    }
    free(entries);
    return st;
}

/* A link to a file brings the file's content. One to a folder is refused below the named one: it could lead anywhere,
 * in circles too. */
static manta_status collect(struct ctl_files *files, const char *source, const char *path, int depth, manta_error *e)
{
    struct stat info, link;
    if (stat(source, &info) != 0 || lstat(source, &link) != 0)
        return ctl_fail(e, errno == ENOENT ? MT_ENOENT : MT_ESYS, MANTA_NOT_DONE, "file %.300s: %s", source, strerror(errno));
    if (S_ISREG(info.st_mode))
        return add_file(files, source, path, &info, e);
    if (S_ISDIR(info.st_mode) && !(depth > 0 && S_ISLNK(link.st_mode)))
        return collect_folder(files, source, path, depth, e);
    return ctl_fail(e, MT_EINVAL, MANTA_NOT_DONE,
                    "%.300s is neither a file nor a folder (or a link to a folder inside another): "
                    "leave it out",
                    source);
}

/* "data/", "./data" -> "data"; "/opt/x/trainer", "../trainer" -> "trainer"; "." -> "". False: no name is left. */
static bool place_of(const char *name, char *source, char *path)
{
    size_t size = strlen(name);
    while (size > 1 && name[size - 1] == '/')
        size--;
    if (size == 0 || size >= CTL_PATH_SIZE)
        return false;
    memcpy(source, name, size);
    source[size] = '\0';
    const char *inside = source;
    while (strncmp(inside, "./", 2) == 0)
        inside += 2;
    const char *last = strrchr(source, '/');
    bool        leaves = inside[0] == '/' || strncmp(inside, "..", 2) == 0 || strstr(inside, "/../") || strstr(inside, "/./") ||
                  strstr(inside, "//");
    if (leaves && last)
        inside = last + 1;
    if (leaves && inside[0] == '\0')
        return false; /* "/" */
    if (strcmp(inside, ".") == 0)
        inside = "";
    snprintf(path, CTL_PATH_SIZE, "%s", inside);
    return strcmp(inside, "..") != 0 && inside[0] != '/';
}

static manta_status check_places(const struct ctl_files *files, manta_error *e)
{
    for (size_t i = 0; i < files->items.count; i++)
        for (size_t j = 0; j < i; j++)
            if (strcmp(files->items.data[i].path, files->items.data[j].path) == 0)
                return ctl_fail(e, MT_EINVAL, MANTA_NOT_DONE, "%.200s and %.200s would both be %.100s in the job's folder",
                                files->items.data[j].source, files->items.data[i].source, files->items.data[i].path);
    return MANTA_OK;
}

manta_status ctl_files_collect(const char *const *names, struct ctl_files *out, manta_error *e)
{
    char         source[CTL_PATH_SIZE], path[CTL_PATH_SIZE];
    manta_status st = MANTA_OK;
    memset(out, 0, sizeof *out);
    for (size_t i = 0; st == MANTA_OK && names && names[i]; i++)
        st = place_of(names[i], source, path)
                 ? collect(out, source, path, 0, e)
                 : ctl_fail(e, MT_EINVAL, MANTA_NOT_DONE, "\"%.300s\" does not name a file or folder", names[i]);
    if (st == MANTA_OK)
        st = check_places(out, e);
    if (st != MANTA_OK)
        ctl_files_fini(out);
    return st;
}
