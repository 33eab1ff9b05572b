/* SPDX-License-Identifier: Apache-2.0
 *
 * append.c - see append.h. Owns nothing.
 */
#include "core/sys/append.h"

#include "core/base/limits/lib.h"

#include <errno.h>
#include <unistd.h>

int mt_append(struct mt_append *a, const void *data, size_t size)
{
    if (a->waiting.size + size > MT_APPEND_WAIT_BYTES)
        return ENOSPC;
    if (size && mt_buf_append(&a->waiting, data, size).code)
        return ENOMEM;
    for (size_t done = 0; done < a->waiting.size;) {
        ssize_t n = pwrite(a->fd, a->waiting.data + done, a->waiting.size - done, a->end + (off_t)done);
        if (n < 0 && errno != EINTR) {
            int err = errno;
            (void)!ftruncate(a->fd, a->end);
            return err == ENOSPC || err == EDQUOT ? EAGAIN : err;
        }
        done += n > 0 ? (size_t)n : 0;
    }
    a->end += (off_t)a->waiting.size;
    a->waiting.size = 0;
    return 0;
}
