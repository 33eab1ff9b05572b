/* SPDX-License-Identifier: Apache-2.0
 *
 * backing.c - the memory behind a segment. Thread: any; owns nothing.
 */
#include "objectstore/system/backing.h"

#include <unistd.h>

mt_status os_backing_make(uint64_t size, struct os_backing *out)
{
    struct os_backing b = {.data_rw = -1, .data_ro = -1, .generations_ro = -1};
    uint64_t          generations = os_generations_bytes(size);
    int               generations_rw = -1;
    mt_status         st;
    MT_TRY_GOTO(st, os_memory_create("manta-segment", size, &b.data_rw, &b.data_ro), err);
    MT_TRY_GOTO(st, os_memory_create("manta-generations", generations, &generations_rw, &b.generations_ro), err);
    MT_TRY_GOTO(st, os_memory_map(b.data_rw, size, true, &b.data), err);
    MT_TRY_GOTO(st, os_memory_map(generations_rw, generations, true, &b.generations), err);
    close(generations_rw); /* the mapping is enough, and nobody else gets it */
    *out = b;
    return mt_ok();

err:
    if (generations_rw >= 0)
        close(generations_rw);
    os_backing_close(&b, size);
    return st;
}

void os_backing_close(const struct os_backing *backing, uint64_t size)
{
    if (backing->data_rw >= 0)
        (void)os_memory_punch(backing->data_rw, 0, size).code; /* the last unmap gives the pages back as well */
    os_memory_unmap(backing->data, size);
    os_memory_unmap(backing->generations, os_generations_bytes(size));
    for (int i = 0; i < 3; i++) {
        int fd = i == 0 ? backing->data_rw : i == 1 ? backing->data_ro : backing->generations_ro;
        if (fd >= 0)
            close(fd);
    }
}
