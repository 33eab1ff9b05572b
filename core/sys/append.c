/* SPDX-License-Identifier: Apache-2.0
 *
 * append.c - see append.h. Owns nothing.
 */
#include "core/sys/append.h"

#include "core/base/limits/lib.h"
#include "core/sys/file.h"

#include <errno.h>
#include <unistd.h>

int mt_append(struct mt_append *a, const void *data, size_t size)
{
    if (a->waiting.size + size > MT_APPEND_WAIT_BYTES)
        return ENOSPC;
    if (size && mt_buf_append(&a->waiting, data, size).code)
        return ENOMEM;
    int err = mt_pwrite_all(a->fd, a->waiting.data, a->waiting.size, (uint64_t)a->end);
    if (err) {
        (void)!ftruncate(a->fd, a->end);
        return err == ENOSPC || err == EDQUOT ? EAGAIN : err;
    }
    a->end += (off_t)a->waiting.size;
    a->waiting.size = 0;
    return 0;
}
