/* SPDX-License-Identifier: Apache-2.0
 *
 * busy.c - see busy.h. Owns: the processes that it starts, until it returns.
 */
#include "tests/integration/sgd/busy.h"

#include "tests/integration/harness.h"

#include <sched.h>
#include <signal.h>
#include <spawn.h>
#include <sys/wait.h>

extern char **environ;

enum { OTHERS_MAX = 64 };

void busy_spin(int ms)
{
    for (int64_t end = test_now_ms() + ms; test_now_ms() < end;)
        ;
}

void busy_await(pid_t child)
{
    pid_t ended;
    while ((ended = waitpid(child, NULL, WNOHANG)) == 0)
        ;
    CHECK_EQ(ended, child);
}

void busy_starve(int others, int ms)
{
    pid_t       pids[OTHERS_MAX];
    cpu_set_t   before, one;
    char *const argv[] = {"sh", "-c", "while :; do :; done", NULL};
    CHECK(others <= OTHERS_MAX);
    CHECK_EQ(sched_getaffinity(0, sizeof before, &before), 0);
    CPU_ZERO(&one);
    CPU_SET(sched_getcpu(), &one);
    CHECK_EQ(sched_setaffinity(0, sizeof one, &one), 0);
    for (int i = 0; i < others; i++)
        CHECK_EQ(posix_spawnp(&pids[i], argv[0], NULL, NULL, argv, environ), 0);
    busy_spin(ms);
    for (int i = 0; i < others; i++)
        CHECK_EQ(kill(pids[i], SIGKILL), 0);
    for (int i = 0; i < others; i++)
        busy_await(pids[i]);
    CHECK_EQ(sched_setaffinity(0, sizeof before, &before), 0);
}
