/* SPDX-License-Identifier: Apache-2.0
 *
 * cluster.c - the embedded cluster as a whole: how soon it works, how much memory it holds when idle.
 *
 * Thread: the main one. Each sample is a child that starts a cluster of its own.
 */
#include "tests/bench/bench.h"

#include <stdio.h>

static double step_start(struct bench_step *step)
{
    struct bench_report report = {0};
    uint64_t            start = bench_now_ns();
    return bench_child_run(step->b, "start", NULL, &report) ? (double)(report.ready_ns - start) / 1e6 : -1;
}

static bool run_start(struct bench *b, struct bench_row *row)
{
    struct bench_step step = {step_start, b};
    row->more = BENCH_AND_P99;
    return bench_latency(&step, row, 0.5, 40);
}

static double step_idle(struct bench_step *step)
{
    struct bench_report report = {0};
    if (!bench_child_run(step->b, "idle", NULL, &report))
        return -1;
    if (report.heads != 1 || report.raylets != 1) {
        fprintf(stderr, "manta-bench: found %d heads and %d raylets below the driver\n", report.heads, report.raylets);
        return -1;
    }
    return report.pss / 1e6;
}

static bool run_idle(struct bench *b, struct bench_row *row)
{
    struct bench_step step = {step_idle, b};
    return bench_latency(&step, row, 0.5, 2);
}

const struct bench_case bench_cluster_cases[] = {
    {"start_embedded", "ms", FLOOR_FORK, false, run_start},
    {"idle_memory", "MB", FLOOR_NONE, false, run_idle},
    {.id = NULL},
};
