/* SPDX-License-Identifier: Apache-2.0
 *
 * archive.h - the files of a runtime environment in one stream: what may stand in it, and what may not.
 *
 *   head    8 bytes "MANTAENV", u32 version, u32 number of entries
 *   entry   struct mt_archive_entry, then the path (path_size bytes, no NUL), then the data (size bytes)
 *
 * Folders stand before what is in them. The order of entries is that of their paths, so the same files make the same
 * bytes, and with them the same SHA-256: the name of the archive. Numbers are little-endian (as all of Manta's).
 * Paths are relative and stay in their folder; so do links. Whoever unpacks asks these functions for every entry,
 * however the archive came to be.
 *
 * Thread: any; nothing is allocated.
 */
#ifndef MT_BASE_ARCHIVE_H
#define MT_BASE_ARCHIVE_H

#include "core/base/status.h"

#include <stdbool.h>
#include <stddef.h>

#define MT_ARCHIVE_MAGIC "MANTAENV"

enum { MT_ARCHIVE_VERSION = 1, MT_ARCHIVE_PATH_MAX = 1024 /* with its end */ };

struct mt_archive_head {
    char     magic[8];
    uint32_t version;
    uint32_t entries;
};

enum mt_archive_kind { MT_ARCHIVE_FILE = 1, MT_ARCHIVE_FOLDER = 2, MT_ARCHIVE_LINK = 3 };

struct mt_archive_entry {
    uint32_t kind; /* enum mt_archive_kind */
    uint32_t mode; /* of a file: only whether its owner may run it counts */
    uint64_t size; /* of the data: a file's content, a link's target, 0 */
    uint32_t path_size;
    uint32_t reserved;
};
static_assert(sizeof(struct mt_archive_entry) == 24, "no padding on the wire");

/* NULL: the path is relative and has no empty, "." or ".." part. Else what is wrong with it, as a part of a sentence. */
const char *mt_archive_path_wrong(const char *path);
/* NULL: a link at `path` with this target stays inside, whatever other links of the archive it leads over. Only leading
 * ".." are allowed, as many as there are folders above: a later one could step out of what a link leads to. */
const char *mt_archive_link_wrong(const char *path, const char *target);
/* EPROTO, with the words of *out_why: it is no archive, of another version, or has more entries than allowed. */
MT_MUST_USE mt_status mt_archive_head_check(const struct mt_archive_head *head, const char **out_why);
/* The entry's own numbers (its path is checked when it has been read). `left`: bytes of the archive after the entry. */
MT_MUST_USE mt_status mt_archive_entry_check(const struct mt_archive_entry *entry, uint64_t left, const char **out_why);

#endif
