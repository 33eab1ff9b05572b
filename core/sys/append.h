/* SPDX-License-Identifier: Apache-2.0
 *
 * append.h - a log on a disk that may be full for a while: what finds no room waits in memory, and is written by the
 * next call that finds some. The file holds whole pieces only, in their order: a torn one is taken back.
 *
 * Thread: one at a time. Blocks on the disk.
 */
#ifndef MT_BASE_APPEND_H
#define MT_BASE_APPEND_H

#include "core/base/buf.h"

#include <sys/types.h>

struct mt_append {
    int    fd;      /* the caller's, open for writing */
    off_t  end;     /* of what is in the file */
    mt_buf waiting; /* what has found no room; mt_buf_fini is the caller's */
};

/* Writes what waits and then these bytes (size 0: none). 0: all is written. EAGAIN: the disk is full, what is not written waits.
 * Another errno: it can't be written, the file is as before; ENOSPC: MT_APPEND_WAIT_BYTES wait already, ENOMEM. */
int mt_append(struct mt_append *a, const void *data, size_t size);

#endif
