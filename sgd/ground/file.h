/* SPDX-License-Identifier: Apache-2.0
 *
 * file.h - writing files that must be whole or absent. Calls block and repeat after EINTR. Thread: any.
 *
 * A full disk (ENOSPC, EDQUOT, EFBIG) is EDISK_FULL; everything else that fails is ESYS, with errno in .sys.
 */
#ifndef SGD_FILE_H
#define SGD_FILE_H

#include "core/base/limits/train.h"
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

/* A large file written past the page cache, where the file system has that: no second copy of the bytes in the kernel, no
 * burst of write-back that takes the processors from those who train. Whole blocks go out unbuffered, the rest as usual. */
struct sgd_stream {
    int            fd;
    unsigned char *block; /* SGD_STREAM_BYTES, aligned to a page */
    size_t         used;
    bool           is_direct;
};
enum { SGD_STREAM_BYTES = MT_FILE_STEP_BYTES };

/* `size`: of all that will be written; little goes the usual way. `fd` stays the caller's. ENOMEM. */
MT_MUST_USE mt_status sgd_stream_init(struct sgd_stream *stream, int fd, uint64_t size);
MT_MUST_USE mt_status sgd_stream_write(struct sgd_stream *stream, const void *data, size_t size);
/* Writes what is left. Ends the stream in any case; sgd_stream_drop ends it without. */
MT_MUST_USE mt_status sgd_stream_end(struct sgd_stream *stream);
void                  sgd_stream_drop(struct sgd_stream *stream);

/* fsync and close: what a file owes before it may be called written. Closes in any case. */
MT_MUST_USE mt_status sgd_file_finish(int fd);

#endif
