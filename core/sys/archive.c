/* SPDX-License-Identifier: Apache-2.0
 *
 * archive.c - the rules of archive.h.
 *
 * Owns: nothing. Thread: any.
 */
#include "core/sys/archive.h"

#include "core/base/limits/env.h"

#include <string.h>

static bool is_dots(const char *part, size_t size, size_t dots)
{
    return size == dots && strncmp(part, "..", dots) == 0;
}

/* The parts from `path` on: what is wrong with the first bad one; NULL: none is. */
static const char *parts_wrong(const char *path)
{
    for (const char *part = path;; part++) {
        size_t size = strcspn(part, "/");
        if (size == 0 || is_dots(part, size, 1))
            return "has an empty or a \".\" part";
        if (is_dots(part, size, 2))
            return "leads out of its folder (\"..\")";
        if (size > 255)
            return "has a part of more than 255 letters";
        part += size;
        if (!*part)
            return NULL;
    }
}

const char *mt_archive_path_wrong(const char *path)
{
    if (path[0] == '/')
        return "is absolute";
    if (strlen(path) >= MT_ARCHIVE_PATH_MAX)
        return "is too long";
    return parts_wrong(path);
}

const char *mt_archive_link_wrong(const char *path, const char *target)
{
    size_t above = 0;
    if (target[0] == '/')
        return "is a link to an absolute path";
    if (!target[0])
        return "is a link to nothing";
    for (const char *c = path; *c; c++)
        above += *c == '/';
    while (strncmp(target, "..", 2) == 0 && (target[2] == '/' || !target[2])) {
        if (above-- == 0)
            return "is a link that leads out of its folder";
        target += target[2] ? 3 : 2;
    }
    return *target && parts_wrong(target) ? "is a link with an empty, \".\" or \"..\" part in the middle" : NULL;
}

mt_status mt_archive_head_check(const struct mt_archive_head *head, const char **out_why)
{
    *out_why = memcmp(head->magic, MT_ARCHIVE_MAGIC, sizeof head->magic) ? "it is no archive of Manta"
               : head->version != MT_ARCHIVE_VERSION                     ? "it is an archive of another version"
               : head->entries > MT_ENV_FILES_MAX                        ? "it has too many files"
                                                                         : NULL;
    return *out_why ? mt_error(MT_EPROTO, 0, "head of an archive") : mt_ok();
}

mt_status mt_archive_entry_check(const struct mt_archive_entry *entry, uint64_t left, const char **out_why)
{
    uint64_t limit = entry->kind == MT_ARCHIVE_FILE ? UINT64_MAX : entry->kind == MT_ARCHIVE_LINK ? MT_ARCHIVE_PATH_MAX - 1 : 0;
    *out_why = entry->kind < MT_ARCHIVE_FILE || entry->kind > MT_ARCHIVE_LINK ? "an entry is of an unknown kind"
               : !entry->path_size || entry->path_size >= MT_ARCHIVE_PATH_MAX ? "a path is empty or too long"
               : entry->path_size > left || entry->size > left - entry->path_size || entry->size > limit
                   ? "an entry is larger than the archive"
                   : NULL;
    return *out_why ? mt_error(MT_EPROTO, 0, "entry of an archive") : mt_ok();
}
