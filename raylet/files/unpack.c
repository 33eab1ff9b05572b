/* SPDX-License-Identifier: Apache-2.0
 *
 * unpack.c - an archive (core/sys/archive.h) into a folder of its own.
 *
 * Owns: nothing after the call. Thread: any; blocks on the disk.
 * Always: nothing is made outside the folder, whatever the archive says; after a failure the folder is gone.
 */
#include "raylet/files/tree.h"

#include "core/sys/archive.h"
#include "core/base/limits/env.h"
#include "core/sha/sha256.h"
#include "core/sys/file.h"

#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

struct unpack {
    int         fd;
    const char *folder;
    uint64_t    left;
    char       *text; /* what went wrong */
    size_t      text_size;
    mt_sha256   sha;
    uint8_t     bytes[MT_ENV_READ_BYTES];
};

/* False, always: so that a failure can be told and passed on in one line. */
MT_PRINTF(2, 3) static bool failed(struct unpack *u, const char *format, ...)
{
    va_list args;
    va_start(args, format);
    vsnprintf(u->text, u->text_size, format, args);
    va_end(args);
    return false;
}

static bool take(struct unpack *u, void *to, size_t size)
{
    if (size > u->left)
        return failed(u, "its archive is cut short");
    ssize_t n = mt_read_all(u->fd, to, size);
    if (n < 0 || (size_t)n < size)
        return failed(u, "its archive cannot be read: %s", n < 0 ? strerrordesc_np(errno) : "it is cut short");
    mt_sha256_add(&u->sha, to, size);
    u->left -= size;
    return true;
}

static bool unpack_file(struct unpack *u, const struct mt_archive_entry *entry, const char *path)
{
    int fd = rlt_tree_create(u->folder, path, entry->mode);
    if (fd < 0)
        return failed(u, "make \"%.200s\": %s", path, strerrordesc_np(errno));
    for (uint64_t left = entry->size; left;) {
        size_t piece = left < sizeof u->bytes ? (size_t)left : sizeof u->bytes;
        if (!take(u, u->bytes, piece))
            break;
        int err = mt_write_all(fd, u->bytes, piece);
        if (err) {
            close(fd);
            return failed(u, "write \"%.200s\": %s", path, strerrordesc_np(err));
        }
        left -= piece;
    }
    close(fd);
    return !u->text[0];
}

static bool unpack_other(struct unpack *u, const struct mt_archive_entry *entry, const char *path)
{
    char        target[MT_ARCHIVE_PATH_MAX] = "";
    const char *last = path, *wrong;
    if (!take(u, target, (size_t)entry->size))
        return false;
    if (entry->kind == MT_ARCHIVE_LINK && (wrong = mt_archive_link_wrong(path, target)))
        return failed(u, "\"%.200s\" %s", path, wrong);
    int at = rlt_tree_parent(u->folder, &last), code = -1;
    if (at >= 0 && entry->kind == MT_ARCHIVE_LINK)
        code = symlinkat(target, at, last);
    else if (at >= 0)
        code = mkdirat(at, last, 0700);
    int err = errno;
    if (at >= 0)
        close(at);
    return code == 0 || failed(u, "make \"%.200s\": %s", path, strerrordesc_np(err));
}

static bool unpack_entry(struct unpack *u)
{
    struct mt_archive_entry entry;
    char                    path[MT_ARCHIVE_PATH_MAX];
    const char             *wrong;
    if (!take(u, &entry, sizeof entry))
        return false;
    if (mt_archive_entry_check(&entry, u->left, &wrong).code)
        return failed(u, "%s", wrong);
    if (!take(u, path, entry.path_size))
        return false;
    path[entry.path_size] = 0;
    if (strlen(path) != entry.path_size || (wrong = mt_archive_path_wrong(path)))
        return failed(u, "the path \"%.200s\" %s", path, strlen(path) != entry.path_size ? "has a zero byte" : wrong);
    return entry.kind == MT_ARCHIVE_FILE ? unpack_file(u, &entry, path) : unpack_other(u, &entry, path);
}

static bool unpack_all(struct unpack *u, const uint8_t sha256[MT_SHA256_SIZE])
{
    struct mt_archive_head head;
    const char            *wrong;
    uint8_t                sum[MT_SHA256_SIZE];
    if (lseek(u->fd, 0, SEEK_SET) < 0)
        return failed(u, "its archive cannot be read: %s", strerrordesc_np(errno));
    if (mkdir(u->folder, 0700) < 0)
        return failed(u, "make its folder: %s", strerrordesc_np(errno));
    if (!take(u, &head, sizeof head))
        return false;
    if (mt_archive_head_check(&head, &wrong).code)
        return failed(u, "%s", wrong);
    for (uint32_t i = 0; i < head.entries; i++)
        if (!unpack_entry(u))
            return false;
    mt_sha256_end(&u->sha, sum);
    if (u->left || memcmp(sum, sha256, sizeof sum))
        return failed(u, "its files are not what their SHA-256 says");
    return true;
}

bool rlt_unpack(int fd, uint64_t size, const uint8_t sha256[MT_SHA256_SIZE], const char *folder, char *text, size_t text_size)
{
    struct unpack *u = calloc(1, sizeof *u);
    bool           is_done;
    snprintf(text, text_size, "%s", u ? "" : "no memory to unpack it");
    if (!u)
        return false;
    u->fd = fd;
    u->folder = folder;
    u->left = size;
    u->text = text;
    u->text_size = text_size;
    mt_sha256_init(&u->sha);
    is_done = unpack_all(u, sha256);
    if (!is_done)
        mt_tree_remove(folder);
    free(u);
    return is_done;
}
