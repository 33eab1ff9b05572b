/* SPDX-License-Identifier: Apache-2.0
 *
 * cases_cluster.c - the embedded cluster as a whole: how soon it works, how much memory it holds when idle.
 *
 * Each sample is this program again, as a child that starts a cluster of its own.
 */
#include "tests/bench/functions.h"

#include "core/base/status.h"

#include <errno.h>
#include <poll.h>
#include <signal.h>
#include <spawn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

extern char **environ;

enum { IDLE_US = 3 * 1000 * 1000, CHILD_LIMIT_MS = 60 * 1000 };

struct child_report { /* through a pipe */
    uint64_t ready_ns;
    double   pss;
    int32_t  heads, raylets;
};

/* ---- in the child ---- */
int bench_child(const char *what, int fd)
{
    struct child_report report = {0};
    int64_t             x = 12345;
    if (!bench_value(bench_task(NULL, x), bench_mix(x)))
        return 1;
    report.ready_ns = bench_now_ns();
    if (strcmp(what, "idle") == 0) {
        if (!bench_check_worker(NULL))
            return 1;
        bench_sleep_us(IDLE_US);
        report.pss = bench_pss(getpid(), "manta-head", &report.heads);
        report.pss += bench_pss(getpid(), "manta-raylet", &report.raylets);
    }
    return write(fd, &report, sizeof report) == sizeof report ? 0 : 1;
}

/* ---- here ---- */
struct cluster_step {
    struct bench_step step;
    const char       *what;
};

static bool report_read(int fd, struct child_report *report)
{
    struct pollfd p = {fd, POLLIN, 0};
    return poll(&p, 1, CHILD_LIMIT_MS) == 1 && read(fd, report, sizeof *report) == sizeof *report;
}

/* Runs one child; *ns is from its start to its first result. */
static bool child_run(struct bench *b, const char *what, struct child_report *report, uint64_t *ns)
{
    int   out[2], status = -1;
    char  number[16];
    pid_t child;
    if (pipe(out) != 0)
        return false;
    snprintf(number, sizeof number, "%d", 3);
    posix_spawn_file_actions_t actions;
    posix_spawn_file_actions_init(&actions);
    posix_spawn_file_actions_adddup2(&actions, out[1], 3);
    if (out[0] != 3)
        posix_spawn_file_actions_addclose(&actions, out[0]);
    char *argv[] = {b->program, "--child", (char *)what, number, NULL};
    uint64_t start = bench_now_ns();
    bool     ok = posix_spawn(&child, b->program, &actions, NULL, argv, environ) == 0;
    posix_spawn_file_actions_destroy(&actions);
    close(out[1]);
    if (ok) {
        ok = report_read(out[0], report);
        if (!ok)
            kill(child, SIGKILL);
        ok = waitpid(child, &status, 0) == child && ok && status == 0;
    }
    close(out[0]);
    *ns = report->ready_ns - start;
    if (!ok)
        fprintf(stderr, "manta-bench: a program with a cluster of its own failed (wait status %#x)\n",
                (unsigned)status);
    return ok;
}

static double step_start(struct bench_step *step)
{
    struct child_report report = {0};
    uint64_t            ns;
    return child_run(step->b, "start", &report, &ns) ? (double)ns / 1e6 : -1;
}

static bool run_start(struct bench *b, struct bench_row *row)
{
    struct cluster_step c = {.step = {step_start, b}};
    return bench_latency(&c.step, row, 0.5, 40);
}

static double step_idle(struct bench_step *step)
{
    struct child_report report = {0};
    uint64_t            ns;
    if (!child_run(step->b, "idle", &report, &ns))
        return -1;
    if (report.heads != 1 || report.raylets != 1) {
        fprintf(stderr, "manta-bench: found %d heads and %d raylets below the driver\n", report.heads, report.raylets);
        return -1;
    }
    return report.pss / 1e6;
}

static bool run_idle(struct bench *b, struct bench_row *row)
{
    struct cluster_step c = {.step = {step_idle, b}};
    return bench_latency(&c.step, row, 0.5, 2);
}

const struct bench_case bench_cluster_cases[] = {
    {"start_embedded", "ms", FLOOR_FORK, false, run_start},
    {"idle_memory", "MB", FLOOR_NONE, false, run_idle},
    {.id = NULL},
};
