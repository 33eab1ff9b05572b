/* SPDX-License-Identifier: Apache-2.0
 *
 * file.h - small files, above all those that the kernel makes up (/proc, control groups).
 *
 * Thread: any.
 */
#ifndef MT_BASE_FILE_H
#define MT_BASE_FILE_H

#include <stddef.h>
#include <sys/types.h>

/* Reads a file whole, as far as it fits; ended by NUL. How many bytes that are; -1: it can't be read (errno). */
ssize_t mt_file_read(const char *path, char *out, size_t size);

#endif
