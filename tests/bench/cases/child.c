/* SPDX-License-Identifier: Apache-2.0
 *
 * child.c - this program as its own child: a driver with a cluster of its own that does one thing and reports it.
 *
 * Thread: the main one.
 */
#include "tests/bench/bench.h"

#include <poll.h>
#include <signal.h>
#include <spawn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

extern char **environ;

enum { IDLE_US = 3 * 1000 * 1000, CHILD_LIMIT_MS = 60 * 1000, REPORT_FD = 3 };

/* ---- in the child ---- */
static bool measure(struct bench *b, const char *what, struct bench_report *report)
{
    if (strcmp(what, "remote") == 0)
        return bench_tasks_remote(b, &report->row);
    if (strcmp(what, "rtt_task") == 0 || strcmp(what, "rtt_call") == 0)
        return bench_rtt_remote(b, &report->row, strcmp(what, "rtt_call") == 0);
    if (strcmp(what, "rate") == 0)
        return (report->row.value = bench_child_rate(b)) >= 0;
    if (strcmp(what, "list") == 0)
        return (report->row.value = bench_child_list(b, false)) >= 0;
    if (strcmp(what, "list_all") == 0)
        return (report->row.value = bench_child_list(b, true)) >= 0;
    if (strcmp(what, "idle") != 0)
        return true;
    if (!bench_check_worker(NULL))
        return false;
    bench_sleep_us(IDLE_US);
    report->pss = bench_pss(getpid(), "manta-head", &report->heads);
    report->pss += bench_pss(getpid(), "manta-raylet", &report->raylets);
    return true;
}

int bench_child(struct bench *b, const char *what, int fd)
{
    struct bench_report report = {0};
    int64_t             x = 12345;
    if (!bench_value(bench_task(NULL, x), bench_mix(x)))
        return 1;
    report.ready_ns = bench_now_ns();
    return measure(b, what, &report) && write(fd, &report, sizeof report) == sizeof report ? 0 : 1;
}

/* ---- here ---- */
static bool report_read(int fd, struct bench_report *report)
{
    struct pollfd p = {fd, POLLIN, 0};
    return poll(&p, 1, CHILD_LIMIT_MS) == 1 && read(fd, report, sizeof *report) == sizeof *report;
}

bool bench_child_run(struct bench *b, const char *what, const char *address, struct bench_report *report)
{
    int   out[2], status = -1;
    char  fd[16], seconds[32];
    pid_t child;
    if (pipe(out) != 0)
        return false;
    snprintf(fd, sizeof fd, "%d", REPORT_FD);
    snprintf(seconds, sizeof seconds, "%g", b->options.seconds);
    posix_spawn_file_actions_t actions;
    posix_spawn_file_actions_init(&actions);
    posix_spawn_file_actions_adddup2(&actions, out[1], REPORT_FD);
    if (out[0] != REPORT_FD)
        posix_spawn_file_actions_addclose(&actions, out[0]);
    char *argv[] = {b->program, "--child", (char *)what, fd, seconds, (char *)address, NULL};
    bool  ok = posix_spawn(&child, b->program, &actions, NULL, argv, environ) == 0;
    posix_spawn_file_actions_destroy(&actions);
    close(out[1]);
    if (ok) {
        ok = report_read(out[0], report);
        if (!ok)
            kill(child, SIGKILL);
        ok = waitpid(child, &status, 0) == child && ok && status == 0;
    }
    close(out[0]);
    if (!ok)
        fprintf(stderr, "manta-bench: a program with a cluster of its own failed (wait status %#x)\n", (unsigned)status);
    return ok;
}
