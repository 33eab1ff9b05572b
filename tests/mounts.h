/* SPDX-License-Identifier: Apache-2.0
 *
 * mounts.h - mounts of this process and its children alone, for a test that needs a small disk. Who is not root has them in a user
 * namespace, where that is allowed.
 */
#ifndef TESTS_MOUNTS_H
#define TESTS_MOUNTS_H

#include <fcntl.h>
#include <sched.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>
#include <sys/mount.h>
#include <unistd.h>

static inline void mounts_put(const char *path, const char *text)
{
    int fd = open(path, O_WRONLY | O_CLOEXEC);
    if (fd >= 0) {
        (void)!write(fd, text, strlen(text));
        close(fd);
    }
}

/* False: it may not; nothing has changed but, maybe, the namespaces. Needs _GNU_SOURCE, and that this process has one thread. */
static inline bool mounts_apart(void)
{
    char     user[64], group[64];
    unsigned uid = geteuid(), gid = getegid();
    if (unshare(CLONE_NEWNS) != 0) {
        if (unshare(CLONE_NEWUSER | CLONE_NEWNS) != 0)
            return false;
        snprintf(user, sizeof user, "%u %u 1", uid, uid);
        snprintf(group, sizeof group, "%u %u 1", gid, gid); /* a file is made where both are known */
        mounts_put("/proc/self/uid_map", user);
        mounts_put("/proc/self/setgroups", "deny");
        mounts_put("/proc/self/gid_map", group);
    }
    return mount(NULL, "/", NULL, MS_REC | MS_PRIVATE, NULL) == 0;
}

#endif
