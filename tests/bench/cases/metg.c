/* SPDX-License-Identifier: Apache-2.0
 *
 * metg.c - the smallest task that is still worth it: Task Bench's METG(50 %), one stencil.
 *
 * A graph of STEPS rows; each task needs the values of its three neighbours in the row before (the rows are rings). Its
 * body is a chain of multiplications, so long that it takes a given time; it returns a function of its place and of what
 * it was given, and the last row is compared with a serial run. Efficiency is the work done a second, as a share of what
 * all cores do without Manta; the driver has no core of its own. The granularity (cores x wall time / tasks) where
 * efficiency crosses one half, between two sizes of a falling series, is the row.
 *
 * Task Bench has one task a core in a row; here it is the fewest above two that each core gets the same number of, since a
 * ring of two would have two neighbours.
 *
 * Thread: the main one; bench_stencil runs in workers.
 */
#include "tests/bench/functions.h"

#include "core/base/status.h"

#include <math.h>
#include <stdio.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

enum {
    STEPS = 1000,
    WIDTH_MAX = 256,
    SWEEPS = 3,
    CALIBRATION_MS = 50,
    CALIBRATION_ROUNDS = 5,
    FIRST_US = 128, /* where the series begins; doubled until it reaches one half */
    LONGEST_US = 64 * 1024,
    SIZES = 24, /* each 0.71 of the one before */
};

/* ---- the body ---- */
static double work(int64_t iterations)
{
    double x = 1.0;
    for (int64_t i = 0; i < iterations; i++) {
        x = x * 0.999999 + 1e-6;
        __asm__ volatile("" : "+x"(x)); /* the chain stays one */
    }
    return x;
}

static int64_t joined(int64_t place, int64_t left, int64_t middle, int64_t right)
{
    return bench_mix(place ^ bench_mix(left ^ bench_mix(middle ^ bench_mix(right))));
}

MANTA_TASK(int64_t, bench_stencil, (int64_t, iterations), (int64_t, place), (int64_t, left), (int64_t, middle), (int64_t, right))
{
    return work(iterations) > 0 ? joined(place, left, middle, right) : 0;
}

/* ---- what the cores can do ---- */
/* Iterations a second of all cores together, each with a process of its own; the best of some rounds. */
static double cores_rate(int cores)
{
    enum { CHUNK = 10000 };
    double *rates = mmap(NULL, 4096, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    double  best = 0;
    if (rates == MAP_FAILED)
        return 0;
    for (int round = 0; round < CALIBRATION_ROUNDS; round++) {
        double sum = 0;
        for (int i = 0; i < cores; i++) {
            if (fork() != 0)
                continue;
            uint64_t start = bench_now_ns(), now = start, done = 0;
            for (; now - start < CALIBRATION_MS * 1000000ull; now = bench_now_ns(), done += CHUNK)
                (void)work(CHUNK);
            rates[i] = (double)done * 1e9 / (double)(now - start);
            _exit(0);
        }
        for (int i = 0; i < cores; i++)
            wait(NULL);
        for (int i = 0; i < cores; i++)
            sum += rates[i];
        best = sum > best ? sum : best;
    }
    munmap(rates, 4096);
    return best;
}

/* ---- the graph ---- */
struct metg {
    struct bench *b;
    int           width;
    int64_t       iterations;
    double        rate; /* iterations a second of all cores */
    uint64_t      tasks;
};

static void row_serial(const struct metg *m, int step, const int64_t *from, int64_t *to)
{
    int w = m->width;
    for (int i = 0; i < w; i++)
        to[i] = joined((int64_t)step * w + i, from[(i + w - 1) % w], from[i], from[(i + 1) % w]);
}

static bool last_row_is_right(const struct metg *m, manta_ref **take_row)
{
    int64_t rows[2][WIDTH_MAX] = {{0}};
    bool    ok = true;
    for (int step = 0; step < STEPS; step++)
        row_serial(m, step, rows[step & 1], rows[(step + 1) & 1]);
    for (int i = 0; i < m->width; i++)
        ok = bench_value(take_row[i], rows[STEPS & 1][i]) && ok;
    return ok;
}

/* Submits the whole graph, then waits for its last row. Returns the seconds; < 0: failed. */
static double graph_run(const struct metg *m)
{
    manta_ref *rows[2][WIDTH_MAX];
    int        w = m->width;
    uint64_t   start = bench_now_ns();
    for (int step = 0; step < STEPS; step++) {
        manta_ref **from = rows[step & 1], **to = rows[(step + 1) & 1];
        for (int i = 0; i < w; i++) {
            manta_arg place = manta_i64((int64_t)step * w + i), size = manta_i64(m->iterations), none = manta_i64(0);
            manta_arg left = step ? manta_ref_arg(from[(i + w - 1) % w]) : none;
            manta_arg middle = step ? manta_ref_arg(from[i]) : none, right = step ? manta_ref_arg(from[(i + 1) % w]) : none;
            to[i] = manta_call("bench_stencil", NULL, MANTA_ARGS(size, place, left, middle, right));
        }
        for (int i = 0; step && i < w; i++)
            manta_free(from[i]);
    }
    unsigned char ready[WIDTH_MAX];
    manta_ref   **last = rows[STEPS & 1];
    if (manta_wait(last, (size_t)w, (size_t)w, BENCH_WAIT_MS, ready, NULL) != w)
        fprintf(stderr, "manta-bench: metg: a graph is not done after %d s\n", BENCH_WAIT_MS / 1000);
    double seconds = (double)(bench_now_ns() - start) * 1e-9;
    return last_row_is_right(m, last) ? seconds : -1;
}

/* ---- the series ---- */
/* One graph of tasks of `us`: its granularity in us, and its efficiency. */
static bool point(struct metg *m, double us, double *granularity, double *efficiency)
{
    double count = (double)STEPS * m->width;
    m->iterations = (int64_t)(us * 1e-6 * m->rate / m->b->cpus) + 1;
    double seconds = graph_run(m);
    *granularity = m->b->cpus * seconds / count * 1e6;
    *efficiency = count * (double)m->iterations / seconds / m->rate;
    m->tasks += (uint64_t)count;
    return seconds > 0;
}

/* Granularity in us where the efficiency crosses one half; < 0: failed, 0: no size reaches it. */
static double sweep(struct metg *m, double us)
{
    double granularity, efficiency, granularity_before = 0, efficiency_before = 0;
    for (int i = 0; i < SIZES; i++, us *= 0.7071) {
        if (!point(m, us, &granularity, &efficiency))
            return -1;
        if (efficiency < 0.5 && efficiency_before >= 0.5) {
            double part = (efficiency_before - 0.5) / (efficiency_before - efficiency);
            return exp(log(granularity_before) + part * log(granularity / granularity_before));
        }
        granularity_before = granularity;
        efficiency_before = efficiency;
    }
    return 0;
}

/* The shortest size of a doubling series that reaches one half; 0: none does, or it failed. */
static double first_size(struct metg *m)
{
    double granularity, efficiency = 0;
    for (double us = FIRST_US; us <= LONGEST_US; us *= 2) {
        if (!point(m, us, &granularity, &efficiency))
            return 0;
        if (efficiency >= 0.5)
            return us;
    }
    fprintf(stderr, "manta-bench: metg: tasks of %d us reach %.2f\n", LONGEST_US, efficiency);
    return 0;
}

static bool run_metg(struct bench *b, struct bench_row *row)
{
    struct metg m = {.b = b, .rate = cores_rate(b->cpus)};
    double      found[SWEEPS], squares = 0;
    m.width = b->cpus < 3 ? 2 * b->cpus : b->cpus;
    m.width = m.width < 3 ? 3 : m.width > WIDTH_MAX ? WIDTH_MAX : m.width;
    double us = m.rate > 0 ? first_size(&m) : 0;
    if (us == 0 || !bench_check_worker(NULL))
        return false;
    for (int i = 0; i < SWEEPS; i++) {
        found[i] = sweep(&m, us);
        if (found[i] == 0)
            fprintf(stderr, "manta-bench: metg: the series did not cross one half: too much else runs here\n");
        if (found[i] <= 0)
            return false;
        row->value += found[i] / SWEEPS;
    }
    for (int i = 0; i < SWEEPS; i++)
        squares += (found[i] - row->value) * (found[i] - row->value);
    row->sd = sqrt(squares / SWEEPS);
    row->n = m.tasks;
    return true;
}

const struct bench_case bench_metg_cases[] = {
    {"metg", "us", FLOOR_RING_RTT, true, run_metg},
    {.id = NULL},
};
