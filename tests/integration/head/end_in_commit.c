/* SPDX-License-Identifier: Apache-2.0
 *
 * end_in_commit.c - a library to preload into manta-head: it is told to end (SIGTERM) while commit number
 * COMMIT of its store's thread is under way, and that commit takes until the loop has stopped.
 *
 * Thread: any. The main thread's own writes, while the store is opened, do not count.
 */
#include <fcntl.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/syscall.h>
#include <unistd.h>

enum { PAUSE_US = 300 * 1000, LOOK_US = 1000, LOOKS_MAX = 30 * 1000, IN_A_ROW = 30 };

/* The main thread waits for another one, and not for events: it does so for long only when its loop has stopped. */
static bool main_thread_waits(void)
{
    char path[64], text[64] = "";
    snprintf(path, sizeof path, "/proc/self/task/%d/syscall", (int)getpid());
    int fd = open(path, O_RDONLY | O_CLOEXEC);
    if (fd >= 0) {
        (void)!read(fd, text, sizeof text - 1);
        close(fd);
    }
    return strtol(text, NULL, 10) == SYS_futex;
}

__attribute__((visibility("default"))) int fdatasync(int fd)
{
    static _Atomic long commits;
    const char         *chosen = getenv("COMMIT");
    if (chosen && gettid() != getpid() && atomic_fetch_add(&commits, 1) + 1 == strtol(chosen, NULL, 10)) {
        usleep(PAUSE_US); /* others ask meanwhile: their changes wait for the next commit */
        kill(getpid(), SIGTERM);
        for (int i = 0, in_a_row = 0; i < LOOKS_MAX && in_a_row < IN_A_ROW; i++) {
            usleep(LOOK_US);
            in_a_row = main_thread_waits() ? in_a_row + 1 : 0;
        }
    }
    return (int)syscall(SYS_fdatasync, fd);
}
