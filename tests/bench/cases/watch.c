/* SPDX-License-Identifier: Apache-2.0
 *
 * watch.c - what it costs to see what a cluster does: events on against off, and listing a million tasks.
 *
 * Each sample is this program again, as a child with a cluster of its own: MANTA_EVENTS is read when a cluster starts.
 */
#include "tests/bench/functions.h"

#include "core/base/status.h"

#include <fcntl.h>
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

/* Tasks that `manta list tasks -o json` has printed into `file`; -1: it cannot be read. */
static long tasks_printed(FILE *file)
{
    char line[4096];
    long tasks = 0;
    rewind(file);
    while (fgets(line, sizeof line, file))
        tasks += strstr(line, "\"task\": ") != NULL;
    return ferror(file) ? -1 : tasks;
}

/* Milliseconds of one `manta list tasks`, start of the program included; what it prints goes to `out`. */
static double list_once(const char *program, char *folder, bool all, int out)
{
    char                      *failed[] = {"manta", "list", "tasks", "--filter", "state=FAILED", "--address", folder, NULL};
    char                      *every[] = {"manta", "list", "tasks", "--limit", "1000000", "-o", "json", "--address", folder, NULL};
    uint64_t                   start = bench_now_ns();
    pid_t                      child;
    int                        status = -1;
    posix_spawn_file_actions_t actions;
    posix_spawn_file_actions_init(&actions);
    posix_spawn_file_actions_adddup2(&actions, out, 1);
    bool ok = posix_spawn(&child, program, &actions, NULL, all ? every : failed, environ) == 0 &&
              waitpid(child, &status, 0) == child;
    posix_spawn_file_actions_destroy(&actions);
    return ok && status == 0 ? (double)(bench_now_ns() - start) / 1e6 : -1;
}

/* Whether the whole list has a million tasks. */
static bool lists_all(const char *program, char *folder)
{
    FILE *file = tmpfile();
    bool  ok = file && list_once(program, folder, true, fileno(file)) >= 0 && tasks_printed(file) == MILLION;
    if (file)
        fclose(file);
    return ok;
}

double bench_child_list(struct bench *b, bool all)
{
    char    program[4096], folder[1024], *slash;
    int     nowhere = open("/dev/null", O_WRONLY | O_CLOEXEC);
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
    if (nowhere < 0 || (all && !lists_all(program, folder)))
        return -1;
    for (int i = 0; i < LISTS; i++) {
        double ms = list_once(program, folder, all, nowhere);
        if (ms < 0)
            return -1;
        best = best < 0 || ms < best ? ms : best;
    }
    close(nowhere);
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

static double step_filter(struct bench_step *step)
{
    double ms;
    return child_with_events(step->b, "list", "1048576", &ms) ? ms : -1;
}

static double step_all(struct bench_step *step)
{
    double ms;
    return child_with_events(step->b, "list_all", "1048576", &ms) ? ms : -1;
}

/* A filter that none of a million tasks passes. */
static bool run_filter(struct bench *b, struct bench_row *row)
{
    struct bench_step step = {step_filter, b};
    return bench_latency(&step, row, 0.5, 1);
}

/* All of a million tasks, as JSON. */
static bool run_all(struct bench *b, struct bench_row *row)
{
    struct bench_step step = {step_all, b};
    return bench_latency(&step, row, 0.5, 1);
}

const struct bench_case bench_watch_cases[] = {
    {"events_on", "x", FLOOR_NONE, false, run_events_on},
    {"list_tasks_filter", "ms", FLOOR_FORK, false, run_filter},
    {"list_all", "ms", FLOOR_FORK, false, run_all},
    {NULL, NULL, FLOOR_NONE, false, NULL},
};
