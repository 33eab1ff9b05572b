/* SPDX-License-Identifier: Apache-2.0
 *
 * private.h - files that hold a secret: made with mode 0600 in a folder of mode 0700, and refused where anybody else could
 * have read or written them. Blocks (disk). Any thread.
 */
#ifndef MT_IO_PRIVATE_H
#define MT_IO_PRIVATE_H

#include "core/base/buf.h"

/* Is `dir` an own folder that nobody else can look into? ENOENT, EAUTH where not, ESYS. */
MT_MUST_USE mt_status io_check_private_dir(const char *dir);
/* Makes the folder that `path` lies in (mode 0700) if it is missing, and checks it as above; its parents must exist. EINVAL:
 * the path names no folder and file. */
MT_MUST_USE mt_status io_make_private_parent(const char *path);
/* The file whole, ended by a NUL that does not count; size_max bounds it. ENOENT; EAUTH where it is another user's, others can
 * read it, or it is a link; ECORRUPT where it is longer; ENOMEM, ESYS. Wipe it by io_private_wipe. */
MT_MUST_USE mt_status io_private_read(const char *path, size_t size_max, mt_buf *out);
/* Makes the file with this content, synced; where that fails there is none. EEXIST: there is one already. With `replace` it takes
 * that one's place, whole, and one process at a time may do so. EDISK_FULL, ESYS. */
MT_MUST_USE mt_status io_private_write(const char *path, mt_view content, bool replace);
/* Overwrites and frees; the compiler does not leave this out. */
void io_private_wipe(mt_buf *buf);

#endif
