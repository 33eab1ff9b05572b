/* SPDX-License-Identifier: Apache-2.0
 *
 * disk.h - values in files: written once, compressed where that pays, checked when they are read.
 *
 * A file has no name: it is gone with its last descriptor, so nothing is left behind, however the raylet ends. What
 * stands where is the caller's to remember. Every call blocks on the disk. Thread: any, one at a time per item; several
 * may read one file.
 */
#ifndef OS_DISK_H
#define OS_DISK_H

#include "core/base/status.h"

#include <stdbool.h>

/* One value in a file. */
struct os_disk_item {
    uint64_t size;     /* of the value */
    uint64_t offset;   /* in the file, set by write, as the rest */
    uint64_t stored;   /* bytes in the file */
    uint64_t checksum; /* of the value */
    bool     is_compressed;
};

/* A new file in `folder`. ESYS (no such folder, no permission, no descriptor left); EDISK_FULL. */
MT_MUST_USE mt_status os_disk_open(const char *folder, int *out_fd);

/* The file goes with its last byte. */
void os_disk_close(int fd);

/* Appends item->size bytes of `data` at *at, which moves on. The bytes may change while they are written: then the item is
 * worth nothing, and no more than that. EDISK_FULL; ESYS; ENOMEM. On failure *at has not moved. */
MT_MUST_USE mt_status os_disk_write(int fd, uint64_t *at, struct os_disk_item *item, const void *data);

/* Reads the value back into `to` (item->size bytes). ECORRUPT: it is not what was written. ESYS; ENOMEM. */
MT_MUST_USE mt_status os_disk_read(int fd, const struct os_disk_item *item, void *to);

#endif
