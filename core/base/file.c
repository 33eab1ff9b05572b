/* SPDX-License-Identifier: Apache-2.0
 *
 * file.c - see file.h. Owns nothing. Thread: any.
 */
#include "core/base/file.h"

#include <fcntl.h>
#include <unistd.h>

ssize_t mt_file_read(const char *path, char *out, size_t size)
{
    int     fd = open(path, O_RDONLY | O_CLOEXEC);
    size_t  got = 0;
    ssize_t n = -1;
    while (fd >= 0 && got + 1 < size && (n = read(fd, out + got, size - 1 - got)) > 0)
        got += (size_t)n;
    if (fd >= 0)
        close(fd);
    out[got] = '\0';
    return n < 0 ? -1 : (ssize_t)got;
}
