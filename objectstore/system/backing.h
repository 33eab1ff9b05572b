/* SPDX-License-Identifier: Apache-2.0
 *
 * backing.h - makes and ends what stands behind a segment: two memfds and the raylet's mappings of them.
 */
#ifndef OS_BACKING_H
#define OS_BACKING_H

#include "objectstore/layout/layout.h"
#include "objectstore/system/memory.h"

/* What the shell made for one segment. Descriptors are the shell's until OS_CLOSE returns them. */
struct os_backing {
    int   data_rw, data_ro, generations_ro;
    int   reserved;
    void *data;        /* mapped by the raylet, writable */
    void *generations; /* mapped by the raylet, writable; os_generations_bytes(size), all zero at first */
};

/* The memory of a segment of `size` bytes, for os_store_add_segment. ESYS; nothing is left on failure. */
MT_MUST_USE mt_status os_backing_make(uint64_t size, struct os_backing *out);
/* OS_CLOSE: gives all pages back (whoever still maps them reads zeros), unmaps, closes. */
void os_backing_close(const struct os_backing *backing, uint64_t size);

#endif
