/* SPDX-License-Identifier: Apache-2.0
 *
 * file.h - writing files that must be whole or absent. Calls block and repeat after EINTR. Thread: any.
 *
 * A full disk (ENOSPC, EDQUOT, EFBIG) is EDISK_FULL; everything else that fails is ESYS, with errno in .sys.
 */
#ifndef SGD_FILE_H
#define SGD_FILE_H

#include "core/base/limits.h"
#include "core/base/status.h"

#include <stdbool.h>

/* The status for errno `sys`, found while doing `what` (a literal). */
mt_status sgd_file_error(int sys, const char *what);

MT_MUST_USE mt_status sgd_file_write(int fd, const void *data, size_t size);
/* ECORRUPT where the file ends before `size` bytes. */
MT_MUST_USE mt_status sgd_file_read(int fd, void *out, size_t size, uint64_t offset);
MT_MUST_USE mt_status sgd_file_sync(int fd);
/* Creates `name` in a folder; EEXIST where it is there. */
MT_MUST_USE mt_status sgd_file_create(int dir, const char *name, int *out_fd);
/* Opens a folder that is there. ENOENT where it is not. */
MT_MUST_USE mt_status sgd_file_open_dir(int dir, const char *name, int *out_fd);
/* fsync and close: what a file owes before it may be called written. Closes in any case. */
MT_MUST_USE mt_status sgd_file_finish(int fd);

#endif
