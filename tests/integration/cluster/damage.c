/* SPDX-License-Identifier: Apache-2.0
 *
 * damage.c - loaded into a raylet before libc: some of the large messages that it sends leave with one bit changed.
 *
 * DAMAGE_FILE holds how many still are to; it is counted down there, under its lock. A file that is not there: none.
 */
#include <dlfcn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/socket.h>

enum { LARGE = 4096 };

static long left(const char *path, long take)
{
    char  text[32] = "";
    FILE *file = path ? fopen(path, "r+e") : NULL;
    if (!file || flock(fileno(file), LOCK_EX) != 0)
        return file ? fclose(file), 0 : 0;
    long count = fgets(text, sizeof text, file) ? strtol(text, NULL, 10) : 0;
    if (take && count > 0) {
        rewind(file);
        fprintf(file, "%ld\n", count - 1);
    }
    fclose(file);
    return count;
}

__attribute__((visibility("default"))) ssize_t sendmsg(int fd, const struct msghdr *message, int flags)
{
    static ssize_t (*real)(int, const struct msghdr *, int);
    static unsigned char copy[1 << 20];
    const struct iovec  *last = message->msg_iovlen ? &message->msg_iov[message->msg_iovlen - 1] : NULL;
    struct iovec         pieces[2];
    struct msghdr        damaged = *message;
    if (!real)
        *(void **)&real = dlsym(RTLD_NEXT, "sendmsg");
    if (!last || message->msg_iovlen > 2 || last->iov_len < LARGE || !left(getenv("DAMAGE_FILE"), 1))
        return real(fd, message, flags);
    memcpy(pieces, message->msg_iov, message->msg_iovlen * sizeof *pieces);
    struct iovec *end = &pieces[message->msg_iovlen - 1];
    end->iov_len = end->iov_len < sizeof copy ? end->iov_len : sizeof copy;
    memcpy(copy, end->iov_base, end->iov_len);
    copy[17] ^= 4;
    end->iov_base = copy;
    damaged.msg_iov = pieces;
    return real(fd, &damaged, flags);
}
