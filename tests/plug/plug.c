/* SPDX-License-Identifier: Apache-2.0
 *
 * plug.c - notes what syncs make safe, and builds a folder from that. See plug.h.
 *
 * A note is named after what was synced (inode and time of birth, since numbers of inodes are used again):
 *     <key>         the content of a file
 *     <key>.names   the names in a folder, a line each: key, f (file) or d (folder), name
 *
 * Owns: the names of the two folders. Thread: any.
 */
#include "tests/plug/plug.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#define EXPORTED __attribute__((visibility("default")))
enum { PATH_SIZE = 4096, KEY_SIZE = 48 };

static char watched[PATH_SIZE], noted[PATH_SIZE - 256];

void plug_watch(const char *folder, const char *notes)
{
    snprintf(watched, sizeof watched, "%s", folder);
    snprintf(noted, sizeof noted, "%s", notes);
}

__attribute__((constructor)) static void watch_by_environment(void)
{
    const char *folder = getenv("PLUG_FOLDER"), *notes = getenv("PLUG_NOTES");
    if (folder && notes)
        plug_watch(folder, notes);
}

/* ---- names of notes ---- */

static bool key_of(int folder_fd, const char *name, char out[KEY_SIZE], bool *is_folder)
{
    struct statx info;
    if (statx(folder_fd, name, AT_EMPTY_PATH | AT_SYMLINK_NOFOLLOW, STATX_INO | STATX_TYPE | STATX_BTIME, &info) != 0)
        return false;
    snprintf(out, KEY_SIZE, "%llx-%llx-%x", (unsigned long long)info.stx_ino, (unsigned long long)info.stx_btime.tv_sec,
             info.stx_btime.tv_nsec);
    *is_folder = S_ISDIR(info.stx_mode);
    return *is_folder || S_ISREG(info.stx_mode);
}

/* ---- noting ---- */

/* Of a descriptor that reads from its begin by pread: the owner's place in the file stays where it is. */
static int content_copy(int from, int to)
{
    char    piece[65536];
    off_t   at = 0;
    ssize_t n;
    while ((n = pread(from, piece, sizeof piece, at)) > 0) {
        if (write(to, piece, (size_t)n) != n)
            return -1;
        at += n;
    }
    return (int)n;
}

static int content_note(int fd, int to)
{
    char path[64];
    snprintf(path, sizeof path, "/proc/self/fd/%d", fd);
    int readable = open(path, O_RDONLY | O_CLOEXEC); /* the owner may have it open for writing only */
    int rc = readable < 0 ? -1 : content_copy(readable, to);
    if (readable >= 0)
        close(readable);
    return rc;
}

static int names_note(int fd, int to)
{
    char key[KEY_SIZE];
    bool is_folder;
    int  copy = openat(fd, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    DIR *dir = copy < 0 ? NULL : fdopendir(copy);
    if (!dir)
        return -1;
    for (const struct dirent *entry; (entry = readdir(dir));)
        if (strcmp(entry->d_name, ".") != 0 && strcmp(entry->d_name, "..") != 0 && key_of(fd, entry->d_name, key, &is_folder))
            dprintf(to, "%s %c %s\n", key, is_folder ? 'd' : 'f', entry->d_name);
    closedir(dir);
    return 0;
}

/* Written aside, then named: a kill in between leaves the note before. */
static int note(int fd)
{
    char key[KEY_SIZE], path[PATH_SIZE], part[PATH_SIZE];
    bool is_folder;
    if (!key_of(fd, "", key, &is_folder))
        return 0; /* a pipe, a socket */
    snprintf(path, sizeof path, "%s/%s%s", noted, key, is_folder ? ".names" : "");
    snprintf(part, sizeof part, "%s/part-%ld", noted, (long)syscall(SYS_gettid));
    int to = open(part, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0600);
    if (to < 0)
        return -1;
    int rc = is_folder ? names_note(fd, to) : content_note(fd, to);
    close(to);
    return rc == 0 ? rename(part, path) : -1;
}

static bool is_watched(int fd)
{
    char   link[64], path[PATH_SIZE];
    size_t size = strlen(watched);
    snprintf(link, sizeof link, "/proc/self/fd/%d", fd);
    ssize_t n = readlink(link, path, sizeof path - 1);
    return size && n >= (ssize_t)size && memcmp(path, watched, size) == 0 && (n == (ssize_t)size || path[size] == '/');
}

/* A sync that can't be noted has failed: no test may go on as if it were noted. */
static int synced(int fd, int rc)
{
    int sys = errno;
    if (rc == 0 && is_watched(fd))
        return note(fd);
    errno = sys;
    return rc;
}

EXPORTED int fsync(int fd)
{
    return synced(fd, (int)syscall(SYS_fsync, fd));
}

EXPORTED int fdatasync(int fd)
{
    return synced(fd, (int)syscall(SYS_fdatasync, fd));
}

/* ---- building ---- */

/* As far as it was synced: one that never was has a name and nothing in it. */
static int file_build(const char *notes, const char *key, const char *to)
{
    char path[PATH_SIZE];
    snprintf(path, sizeof path, "%s/%s", notes, key);
    int out = open(to, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0600);
    int in = open(path, O_RDONLY | O_CLOEXEC);
    int rc = out < 0 ? -1 : in < 0 ? 0 : content_copy(in, out);
    if (in >= 0)
        close(in);
    if (out >= 0)
        close(out);
    return rc;
}

static int folder_build(const char *notes, const char *key, const char *to, int depth)
{
    char  path[PATH_SIZE], inner[KEY_SIZE], name[256], kind;
    int   rc = mkdir(to, 0700);
    FILE *names;
    snprintf(path, sizeof path, "%s/%s.names", notes, key);
    if (rc != 0 || depth > 8 || !(names = fopen(path, "re")))
        return rc;
    while (rc == 0 && fscanf(names, "%47s %c %255[^\n]", inner, &kind, name) == 3) {
        snprintf(path, sizeof path, "%s/%s", to, name);
        rc = kind == 'd' ? folder_build(notes, inner, path, depth + 1) : file_build(notes, inner, path);
    }
    fclose(names);
    return rc;
}

int plug_pull(const char *folder, const char *notes, const char *after)
{
    char key[KEY_SIZE];
    bool is_folder;
    return key_of(AT_FDCWD, folder, key, &is_folder) && is_folder ? folder_build(notes, key, after, 0) : -1;
}
