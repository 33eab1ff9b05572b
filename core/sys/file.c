/* SPDX-License-Identifier: Apache-2.0
 *
 * file.c - see file.h. Owns nothing. Thread: any.
 */
#include "core/sys/file.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
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

int mt_name_sync(const char *path)
{
    size_t size = strlen(path);
    while (size > 1 && path[size - 1] == '/') /* of "a/b/" the folder above is a as well */
        size--;
    while (size > 0 && path[size - 1] != '/')
        size--;
    char *above = size ? strndup(path, size) : strdup(".");
    if (!above)
        return ENOMEM;
    int fd = open(above, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    int sys = fd < 0 || fsync(fd) != 0 ? errno : 0;
    if (fd >= 0)
        close(fd);
    free(above);
    return sys;
}
