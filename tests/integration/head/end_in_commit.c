/* SPDX-License-Identifier: Apache-2.0
 *
 * end_in_commit.c - a library to preload into manta-head: it is told to end (SIGTERM) while commit number
 * COMMIT of its store's thread is under way, and that commit takes long enough for the loop to stop first.
 *
 * Thread: any. The main thread's own writes, while the store is opened, do not count.
 */
#include <signal.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <sys/syscall.h>
#include <unistd.h>

enum { PAUSE_US = 300 * 1000 };

__attribute__((visibility("default"))) int fdatasync(int fd)
{
    static _Atomic long commits;
    const char         *chosen = getenv("COMMIT");
    if (chosen && gettid() != getpid() && atomic_fetch_add(&commits, 1) + 1 == strtol(chosen, NULL, 10)) {
        usleep(PAUSE_US); /* others ask meanwhile: their changes wait for the next commit */
        kill(getpid(), SIGTERM);
        usleep(PAUSE_US);
    }
    return (int)syscall(SYS_fdatasync, fd);
}
