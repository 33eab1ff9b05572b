/* SPDX-License-Identifier: Apache-2.0
 *
 * cases_watch.c - what it costs to see what a cluster does: events on against off, and listing a million tasks.
 *
 * Each sample is this program again, as a child with a cluster of its own: MANTA_EVENTS is read when a cluster starts.
 */
#include "tests/bench/functions.h"

#include "core/base/status.h"

#include <spawn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

extern char **environ;

enum { PAIRS = 9, STEPS = 100, MILLION = 1000000, LISTS = 5 };

/* ---- in the child ---- */

/* The best step counts: others on the machine can only make one slower. */
double bench_child_rate(struct bench *b)
{
    double best = -1;
    for (int i = 0; i < STEPS; i++) {
        uint64_t start = bench_now_ns();
        if (bench_tasks(b, NULL, BENCH_DEEP) < 0)
            return -1;
        double rate = BENCH_DEEP * 1e9 / (double)(bench_now_ns() - start);
        if (rate > best)
            best = rate;
    }
    return best;
}

/* Milliseconds of one `manta list tasks`, start of the program included. */
static double list_once(const char *program, char *folder)
{
    char    *argv[] = {"manta", "list", "tasks", "--filter", "state=FAILED", "--address", folder, NULL};
    uint64_t start = bench_now_ns();
    pid_t    child;
    int      status = -1;
    posix_spawn_file_actions_t actions;
    posix_spawn_file_actions_init(&actions);
    posix_spawn_file_actions_addopen(&actions, 1, "/dev/null", 1, 0);
    bool ok = posix_spawn(&child, program, &actions, NULL, argv, environ) == 0 && waitpid(child, &status, 0) == child;
    posix_spawn_file_actions_destroy(&actions);
    return ok && status == 0 ? (double)(bench_now_ns() - start) / 1e6 : -1;
}

double bench_child_list(struct bench *b)
{
    char    program[4096], folder[1024], *slash;
    ssize_t size = readlink("/proc/self/exe", program, sizeof program - 1);
    double  best = -1;
    for (int done = 0; done < MILLION; done += BENCH_DEEP)
        if (bench_tasks(b, NULL, BENCH_DEEP) < 0)
            return -1;
    program[size > 0 ? size : 0] = 0;
    slash = strrchr(program, '/');
    if (!slash || (size_t)(slash - program) + 7 > sizeof program || !bench_cluster_folder(folder, sizeof folder))
        return -1;
    memcpy(slash + 1, "manta", 6);
    for (int i = 0; i < LISTS; i++) {
        double ms = list_once(program, folder);
        if (ms < 0)
            return -1;
        best = best < 0 || ms < best ? ms : best;
    }
    return best;
}

/* ---- here ---- */

static bool child_with_events(struct bench *b, const char *what, const char *events, double *out)
{
    struct bench_report report = {0};
    setenv("MANTA_EVENTS", events, 1);
    bool ok = bench_child_run(b, what, NULL, &report);
    unsetenv("MANTA_EVENTS");
    *out = report.row.value;
    return ok;
}

/* Pairs of children, in turn; the median of their ratios. */
static bool run_events_on(struct bench *b, struct bench_row *row)
{
    struct bench_samples ratios;
    bool                 ok = bench_samples_init(&ratios);
    for (int i = 0; i < PAIRS && ok; i++) {
        double on = 0, off = 0;
        ok = i % 2 ? child_with_events(b, "rate", "32768", &on) && child_with_events(b, "rate", "0", &off)
                   : child_with_events(b, "rate", "0", &off) && child_with_events(b, "rate", "32768", &on);
        if (ok)
            bench_samples_add(&ratios, on / off);
    }
    return bench_samples_row(&ratios, 0.5, row) && ok;
}

static double step_list(struct bench_step *step)
{
    double ms;
    return child_with_events(step->b, "list", "1048576", &ms) ? ms : -1;
}

static bool run_list(struct bench *b, struct bench_row *row)
{
    struct bench_step step = {step_list, b};
    return bench_latency(&step, row, 0.5, 1);
}

const struct bench_case bench_watch_cases[] = {
    {"events_on", "x", FLOOR_NONE, false, run_events_on},
    {"list_tasks", "ms", FLOOR_FORK, false, run_list},
    {NULL, NULL, FLOOR_NONE, false, NULL},
};
