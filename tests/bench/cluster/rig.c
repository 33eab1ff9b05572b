/* SPDX-License-Identifier: Apache-2.0
 *
 * rig.c - see rig.h.
 *
 * Owns: nothing; the callers own the children and the folder. Thread: the main one.
 */
#include "tests/bench/cluster/rig.h"

#include <fcntl.h>
#include <ftw.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

double rig_now_ms(void)
{
    return (double)bench_now_ns() / 1e6;
}

bool rig_folder_make(struct rig_folder *f)
{
    snprintf(f->dir, sizeof f->dir, "/tmp/manta-bench-XXXXXX");
    ssize_t n = readlink("/proc/self/exe", f->bin, sizeof f->bin - 1);
    if (n <= 0 || !mkdtemp(f->dir))
        return false;
    f->bin[n] = '\0';
    *strrchr(f->bin, '/') = '\0';
    return true;
}

static int remove_one(const char *path, const struct stat *st, int type, struct FTW *at)
{
    (void)st, (void)type, (void)at;
    (void)remove(path);
    return 0;
}

/* What a daemon that ends still writes may come after the first walk. */
void rig_folder_remove(const struct rig_folder *f)
{
    for (int i = 0; i < 100 && access(f->dir, F_OK) == 0; i++) {
        nftw(f->dir, remove_one, 16, FTW_DEPTH | FTW_PHYS);
        bench_sleep_us(i * 1000);
    }
}

pid_t rig_spawn(const struct rig_folder *f, const char *log, int ready, char *const *argv)
{
    char  path[RIG_PATH + 64];
    pid_t pid = fork();
    if (pid != 0)
        return pid;
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    snprintf(path, sizeof path, "%s/%s", f->dir, log);
    int fd = open(path, O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0600);
    dup2(fd, 1);
    dup2(fd, 2);
    if (ready >= 0)
        dup2(ready, 3);
    execvp(argv[0], argv);
    _exit(127);
}

pid_t rig_spawn_ready(const struct rig_folder *f, const char *log, char *const *argv, char *line, size_t size)
{
    int ready[2];
    if (pipe2(ready, O_CLOEXEC) != 0)
        return -1;
    pid_t         pid = rig_spawn(f, log, ready[1], argv);
    struct pollfd wait = {ready[0], POLLIN, 0};
    close(ready[1]);
    ssize_t n = poll(&wait, 1, RIG_PATIENCE_MS) == 1 ? read(ready[0], line, size - 1) : -1;
    close(ready[0]);
    line[n > 0 ? n : 0] = '\0';
    line[strcspn(line, "\n")] = '\0';
    if (n > 0)
        return pid;
    fprintf(stderr, "%s does not start: see %s/%s\n", argv[0], f->dir, log);
    return -1;
}

pid_t rig_head(const struct rig_folder *f)
{
    char  program[RIG_PATH + 32], line[128], tls[RIG_PATH];
    char *argv[] = {program, "--dir", (char *)(uintptr_t)f->dir, "--ready-fd", "3", f->is_tls ? "--tls-dir" : NULL, tls, NULL};
    snprintf(program, sizeof program, "%s/manta-head", f->bin);
    snprintf(tls, sizeof tls, "%s/tls", f->dir);
    return rig_spawn_ready(f, "head.log", argv, line, sizeof line);
}

pid_t rig_raylet(const struct rig_folder *f, const struct rig_raylet *of, int ready)
{
    char        program[RIG_PATH + 32], dir[RIG_PATH], head[RIG_PATH], pem[RIG_PATH], log[64], line[128];
    const char *cpus = of->cpus ? of->cpus : "1", *store = of->store ? of->store : "67108864",
               *labels = of->labels ? of->labels : "";
    const char *argv[20] = {program, "--dir",          dir,   "--ready-fd", "3",   "--head-file", head, "--num-cpus",
                            cpus,    "--store-memory", store, "--labels",   labels};
    int         argc = 13;
    if (of->gpus)
        argv[argc++] = "--num-gpus", argv[argc++] = of->gpus;
    if (f->is_tls)
        argv[argc++] = "--tls-file", argv[argc++] = pem;
    snprintf(pem, sizeof pem, "%s/tls/node.pem", f->dir);
    snprintf(program, sizeof program, "%s/manta-raylet", f->bin);
    snprintf(dir, sizeof dir, "%s/%s", f->dir, of->name);
    snprintf(head, sizeof head, "%s/head.addr", f->dir);
    snprintf(log, sizeof log, "%s.log", of->name);
    char *const *words = (char *const *)(uintptr_t)argv;
    return ready < 0 ? rig_spawn_ready(f, log, words, line, sizeof line) : rig_spawn(f, log, ready, words);
}

void rig_end(pid_t *pid, int signal_number)
{
    if (*pid <= 0)
        return;
    kill(*pid, signal_number);
    waitpid(*pid, NULL, 0);
    *pid = 0;
}
