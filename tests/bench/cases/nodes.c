/* SPDX-License-Identifier: Apache-2.0
 *
 * nodes.c - a head and two raylets on this machine that talk to each other as if they were far away.
 *
 * Owns:   the three daemons, which die with this thread, and their folder.
 * Thread: the main one.
 */
#include "tests/bench/bench.h"

#include <fcntl.h>
#include <ftw.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

enum { READY_MS = 20 * 1000, END_MS = 5 * 1000, READY_FD = 3 };

/* In the child of a fork: system calls only. */
static void daemon_exec(const char *path, char *const argv[], int ready, pid_t parent)
{
    int null = open("/dev/null", O_RDWR);
    dup2(null, 0);
    dup2(null, 1);
    dup2(null, 2);
    if (ready == READY_FD)
        fcntl(ready, F_SETFD, 0);
    else
        dup2(ready, READY_FD);
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    if (getppid() == parent)
        execv(path, argv);
    _exit(127);
}

/* A daemon that has said that it is ready; 0 where it does not. */
static pid_t daemon_start(const struct bench *b, char *const argv[])
{
    char  path[4160], line[256];
    int   ready[2];
    pid_t parent = getpid();
    if (!bench_program(b, argv[0], path, sizeof path) || pipe2(ready, O_CLOEXEC) != 0)
        return 0;
    pid_t child = fork();
    if (child == 0)
        daemon_exec(path, argv, ready[1], parent);
    close(ready[1]);
    struct pollfd p = {ready[0], POLLIN, 0};
    bool          ok = child > 0 && poll(&p, 1, READY_MS) == 1 && read(ready[0], line, sizeof line) > 0;
    close(ready[0]);
    if (!ok && child > 0) {
        kill(child, SIGKILL);
        waitpid(child, NULL, 0);
    }
    if (!ok)
        fprintf(stderr, "manta-bench: %s does not start\n", argv[0]);
    return ok ? child : 0;
}

static bool raylet_start(const struct bench *b, struct bench_nodes *n, int number, int cpus)
{
    char dir[sizeof n->dirs[0]], head_file[128], token[128], name[16], count[16];
    snprintf(dir, sizeof dir, "%s/n%d", n->folder, number);
    memcpy(n->dirs[number], dir, sizeof dir);
    snprintf(head_file, sizeof head_file, "%s/head.addr", n->folder);
    snprintf(token, sizeof token, "%s/token", n->folder);
    snprintf(name, sizeof name, "n%d", number);
    snprintf(count, sizeof count, "%d", cpus);
    char *argv[] = {"manta-raylet", "--dir", dir,          "--node-name", name,         "--head-file", head_file,
                    "--token-file", token,   "--num-cpus", count,         "--ready-fd", "3",           NULL};
    return mkdir(dir, 0700) == 0 && (n->daemons[1 + number] = daemon_start(b, argv)) > 0;
}

bool bench_nodes_start(const struct bench *b, struct bench_nodes *n, int cpus)
{
    memset(n, 0, sizeof *n);
    snprintf(n->folder, sizeof n->folder, "/tmp/manta-bench-XXXXXX");
    if (!mkdtemp(n->folder))
        return perror("manta-bench: a folder in /tmp"), false;
    char *argv[] = {"manta-head", "--dir", n->folder, "--ready-fd", "3", NULL};
    bool  ok = (n->daemons[0] = daemon_start(b, argv)) > 0 && raylet_start(b, n, 0, 1) && raylet_start(b, n, 1, cpus);
    if (!ok)
        bench_nodes_stop(n);
    return ok;
}

static int entry_remove(const char *path, const struct stat *st, int type, struct FTW *walk)
{
    (void)st, (void)type, (void)walk;
    return remove(path);
}

void bench_nodes_stop(struct bench_nodes *n)
{
    for (int i = BENCH_DAEMONS - 1; i >= 0; i--) {
        uint64_t limit = bench_now_ns() + END_MS * 1000000ull;
        if (n->daemons[i] <= 0)
            continue;
        kill(n->daemons[i], SIGTERM);
        while (waitpid(n->daemons[i], NULL, WNOHANG) == 0) {
            if (bench_now_ns() > limit)
                kill(n->daemons[i], SIGKILL);
            bench_sleep_us(1000);
        }
        n->daemons[i] = 0;
    }
    nftw(n->folder, entry_remove, 8, FTW_DEPTH | FTW_PHYS);
}
