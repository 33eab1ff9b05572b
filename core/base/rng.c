/* SPDX-License-Identifier: Apache-2.0
 *
 * rng.c - the kernel's random source, for ids, tokens and seeds. Thread: any; owns nothing.
 */
#include "core/base/rng.h"

#include <errno.h>
#include <sys/random.h>

mt_status mt_random_bytes(void *out, size_t size)
{
    unsigned char *p = out;
    while (size) {
        ssize_t n = getrandom(p, size, 0);
        if (n < 0) {
            if (errno == EINTR)
                continue;
            return mt_error(MT_ESYS, errno, "getrandom");
        }
        p += n;
        size -= (size_t)n;
    }
    return mt_ok();
}
