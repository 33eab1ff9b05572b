/* SPDX-License-Identifier: Apache-2.0
 *
 * file.h - small files, above all those that the kernel makes up (/proc, control groups), and names on the disk.
 *
 * Thread: any.
 */
#ifndef MT_BASE_FILE_H
#define MT_BASE_FILE_H

#include <stddef.h>
#include <sys/types.h>

/* Reads a file whole, as far as it fits; ended by NUL. How many bytes that are; -1: it can't be read (errno). */
ssize_t mt_file_read(const char *path, char *out, size_t size);

/* Puts the name of a file or folder that was made or renamed on the disk: what was synced in it may be gone after a power cut
 * without that. Blocks (fsync). 0 or an errno; a file system that can't sync folders says EINVAL. */
int mt_name_sync(const char *path);

#endif
