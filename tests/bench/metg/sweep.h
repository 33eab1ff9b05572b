/* SPDX-License-Identifier: Apache-2.0
 *
 * sweep.h - METG(50 %) of whatever runs a graph: a falling series of task sizes until efficiency crosses one half.
 *
 * Efficiency is the work done a second, as a share of what the cores do alone. Granularity is cores x wall time / tasks. METG is
 * the granularity where efficiency crosses one half, between two sizes of the series (in the logarithm). Shared with the MPI
 * program of scripts/peers.sh --metg.
 */
#ifndef BENCH_METG_SWEEP_H
#define BENCH_METG_SWEEP_H

#include "tests/bench/metg/graph.h"

#include <math.h>
#include <stdint.h>
#include <stdlib.h>

enum {
    METG_LONGEST_US = 4096,
    METG_SIZES = 40, /* of a series, each 0.71 of the one before */
    METG_ROUNDS_MAX = 25,
    METG_REPEATS = 3, /* of a size: the median counts, since a graph of short tasks takes less than a time slice */
};

struct metg_sweep {
    double (*run)(void *arg, int64_t iterations); /* the graph once: seconds; < 0: failed */
    void    *arg;
    int      width, cores;
    double   rate;  /* iterations a second of these cores */
    uint64_t tasks; /* that have run */
};

static inline int metg_by_value(const void *a, const void *b)
{
    double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

static inline int metg_point(struct metg_sweep *s, double us, double *granularity, double *efficiency)
{
    double  count = (double)GRAPH_STEPS * s->width, seconds[METG_REPEATS];
    int64_t iterations = (int64_t)(us * 1e-6 * s->rate / s->cores) + 1;
    for (int i = 0; i < METG_REPEATS; i++)
        if ((seconds[i] = s->run(s->arg, iterations)) < 0)
            return 0;
    qsort(seconds, METG_REPEATS, sizeof seconds[0], metg_by_value);
    *granularity = s->cores * seconds[METG_REPEATS / 2] / count * 1e6;
    *efficiency = count * (double)iterations / seconds[METG_REPEATS / 2] / s->rate;
    s->tasks += METG_REPEATS * (uint64_t)count;
    return 1;
}

/* Where a series begins: four times the shortest size of a doubling one that reaches one half. 0: none does; < 0: failed. */
static inline double metg_first(struct metg_sweep *s)
{
    double granularity, efficiency;
    for (double us = 0.25; us <= METG_LONGEST_US; us *= 2) {
        if (!metg_point(s, us, &granularity, &efficiency))
            return -1;
        if (efficiency >= 0.5)
            return 4 * us;
    }
    return 0;
}

/* One series. us; 0: it did not cross one half (too much else runs here); < 0: failed. */
static inline double metg_series(struct metg_sweep *s, double us)
{
    double granularity, efficiency, granularity_before = 0, efficiency_before = 0;
    for (int i = 0; i < METG_SIZES; i++, us *= 0.7071) {
        if (!metg_point(s, us, &granularity, &efficiency))
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

/* The median of some series, in us, and their deviation; 0: no size reaches one half; < 0: failed. */
static inline double metg_median(struct metg_sweep *s, int rounds, double *out_sd)
{
    double found[METG_ROUNDS_MAX], us = metg_first(s), squares = 0;
    *out_sd = 0;
    if (us <= 0)
        return us;
    for (int i = 0; i < rounds; i++)
        if ((found[i] = metg_series(s, us)) < 0)
            return -1;
    qsort(found, (size_t)rounds, sizeof found[0], metg_by_value);
    for (int i = 0; i < rounds; i++)
        squares += (found[i] - found[rounds / 2]) * (found[i] - found[rounds / 2]);
    *out_sd = sqrt(squares / rounds);
    return found[rounds / 2];
}

#endif
