/* SPDX-License-Identifier: Apache-2.0
 *
 * tree.h - folders of files that others have sent: made and filled, never left. Any thread; blocks on the disk.
 */
#ifndef RLT_TREE_H
#define RLT_TREE_H

#include "core/base/status.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* Makes the folder in which trees called `name` lie, in `dir` or where programs can be run: its path into `out`, "" on
 * failure (ESYS). is_open: where other users can get to what they may read, too. */
MT_MUST_USE mt_status rlt_tree_base(const char *dir, const char *name, bool is_open, char *out, size_t size);
/* A folder and all in it become that user's; links are not followed. */
void rlt_tree_give(const char *path, uint32_t uid, uint32_t gid);
/* The folder below `folder` in which the last part of *path goes, made as needed; *path then is that part. < 0: errno. */
int rlt_tree_parent(const char *folder, const char **path);
/* A new file, for writing. < 0: errno. */
int rlt_tree_create(const char *folder, const char *path, uint32_t mode);
/* The archive in `fd`, `size` bytes from its begin, into the new folder. False: `text` says why, and nothing stays. */
bool rlt_unpack(int fd, uint64_t size, const uint8_t sha256[32], const char *folder, char *text, size_t text_size);

#endif
