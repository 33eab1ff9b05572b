/* SPDX-License-Identifier: Apache-2.0
 *
 * slow.c - loaded into a head before libc: each of its syncs takes SLOW_SYNC_MS longer. In other programs it does nothing.
 */
#include <dlfcn.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

static int slowly(const char *call, int fd)
{
    const char *ms = getenv("SLOW_SYNC_MS");
    int (*real)(int);
    *(void **)&real = dlsym(RTLD_NEXT, call);
    if (ms && strcmp(program_invocation_short_name, "manta-head") == 0) {
        long            limit = strtol(ms, NULL, 10);
        struct timespec pause = {limit / 1000, limit % 1000 * 1000000};
        nanosleep(&pause, NULL);
    }
    return real ? real(fd) : -1;
}

__attribute__((visibility("default"))) int fsync(int fd)
{
    return slowly("fsync", fd);
}

__attribute__((visibility("default"))) int fdatasync(int fd)
{
    return slowly("fdatasync", fd);
}
