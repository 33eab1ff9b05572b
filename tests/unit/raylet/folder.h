/* SPDX-License-Identifier: Apache-2.0
 *
 * folder.h - removing a test's own folder with all that is in it.
 */
#ifndef TESTS_RAYLET_FOLDER_H
#define TESTS_RAYLET_FOLDER_H

#include <spawn.h>
#include <stdio.h>
#include <sys/wait.h>

/* Whether it is gone. */
static inline int folder_remove(const char *path)
{
    char  folder[4096];
    char *argv[] = {(char[]){"rm"}, (char[]){"-rf"}, folder, NULL};
    pid_t pid;
    int   status;
    snprintf(folder, sizeof folder, "%s", path);
    return posix_spawnp(&pid, "rm", NULL, NULL, argv, NULL) == 0 && waitpid(pid, &status, 0) == pid && status == 0;
}

#endif
