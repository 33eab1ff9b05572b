/* SPDX-License-Identifier: Apache-2.0
 *
 * file.h - files read and written whole, above all those that the kernel makes up (/proc, control groups); names on the disk.
 *
 * Thread: any.
 */
#ifndef MT_BASE_FILE_H
#define MT_BASE_FILE_H

#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

/* Reads a file whole, as far as it fits; ended by NUL. How many bytes that are; -1: it can't be read (errno). */
ssize_t mt_file_read(const char *path, char *out, size_t size);

/* Opens a file that holds a secret, for reading. -1: errno says why; EPERM: it is another user's, others can read it, or it is no
 * file. A link is refused (ELOOP). */
int mt_private_open(const char *path);

/* Writes all of it, by as many writes as that takes; the second, from `at` on. 0 or an errno; some of it may be written then. */
int mt_write_all(int fd, const void *data, size_t size);
int mt_pwrite_all(int fd, const void *data, size_t size, uint64_t at);
/* Reads until `size` bytes are there, or the file ends. How many that are; -1: it can't be read (errno). */
ssize_t mt_read_all(int fd, void *out, size_t size);
ssize_t mt_pread_all(int fd, void *out, size_t size, uint64_t at);

/* Removes a folder with all that is in it, also from folders below that nobody may write to; links are not followed. What this user
 * may not remove stays. */
void mt_tree_remove(const char *path);

/* Puts the name of a file or folder that was made or renamed on the disk: what was synced in it may be gone after a power cut
 * without that. Blocks (fsync). 0 or an errno; a file system that can't sync folders says EINVAL. */
int mt_name_sync(const char *path);

#endif
