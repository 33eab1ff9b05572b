/* SPDX-License-Identifier: Apache-2.0
 *
 * peers_metg.c - METG(50 %) of MPI's point-to-point calls, for scripts/peers.sh --metg: "mpi.PATTERN.WIDTH microseconds" a line.
 *
 * Each rank has the same number of neighbouring places. A row: receives and sends are posted (MPI_Irecv, MPI_Isend), one for each
 * number that another rank's place needs; what comes is checked; then the tasks of the row run. The graphs and the series
 * are those of `manta bench --metg`.
 */
#include "tests/bench/metg/sweep.h"

#include <mpi.h>
#include <stdio.h>

enum { CALIBRATION_S_100 = 20, ROUNDS = 3, MESSAGES_MAX = GRAPH_WIDTH_MAX * GRAPH_WIDTH_MAX };

static int rank, ranks;

struct graph {
    enum graph_pattern pattern;
    int                width;
};

static int owner(const struct graph *g, int place)
{
    return place * ranks / g->width;
}

/* Receives what own places need in this row from others, sends what others need from us, checks all. */
static int exchange(const struct graph *g, int step, const int64_t *before)
{
    static int64_t     came[MESSAGES_MAX];
    static int         from_place[MESSAGES_MAX];
    static MPI_Request requests[2 * MESSAGES_MAX];
    int                count = 0, received, needs[GRAPH_NEEDS_MAX], good = 1;
    for (int place = 0; place < g->width; place++)
        for (int i = 0, n = graph_needs(g->pattern, g->width, step, place, needs); owner(g, place) == rank && i < n; i++) {
            if (owner(g, needs[i]) == rank) {
                good = good && before[needs[i]] == graph_value(step - 1, needs[i]);
                continue;
            }
            from_place[count] = needs[i];
            MPI_Irecv(&came[count], 1, MPI_INT64_T, owner(g, needs[i]), needs[i] * g->width + place, MPI_COMM_WORLD,
                      &requests[count]);
            count++;
        }
    received = count;
    for (int place = 0; place < g->width; place++)
        for (int i = 0, n = graph_needs(g->pattern, g->width, step, place, needs); owner(g, place) != rank && i < n; i++)
            if (owner(g, needs[i]) == rank)
                MPI_Isend(&before[needs[i]], 1, MPI_INT64_T, owner(g, place), needs[i] * g->width + place, MPI_COMM_WORLD,
                          &requests[count++]);
    MPI_Waitall(count, requests, MPI_STATUSES_IGNORE);
    for (int i = 0; i < received; i++)
        good = good && came[i] == graph_value(step - 1, from_place[i]);
    return good;
}

static double run(void *arg, int64_t iterations)
{
    const struct graph *g = arg;
    int64_t             rows[2][GRAPH_WIDTH_MAX] = {{0}};
    int                 good = 1, all;
    double              longest;
    MPI_Bcast(&iterations, 1, MPI_INT64_T, 0, MPI_COMM_WORLD);
    MPI_Barrier(MPI_COMM_WORLD);
    double start = MPI_Wtime();
    for (int step = 0; step < GRAPH_STEPS; step++) {
        good = exchange(g, step, rows[(step + 1) & 1]) && good;
        for (int place = 0; place < g->width; place++)
            if (owner(g, place) == rank)
                rows[step & 1][place] = graph_work(iterations) > 0 ? graph_value(step, place) : 0;
    }
    double took = MPI_Wtime() - start;
    MPI_Allreduce(&took, &longest, 1, MPI_DOUBLE, MPI_MAX, MPI_COMM_WORLD);
    MPI_Allreduce(&good, &all, 1, MPI_INT, MPI_MIN, MPI_COMM_WORLD);
    return all ? longest : -1;
}

/* Iterations a second of all ranks at once. */
static double all_rate(void)
{
    int64_t done = 0;
    double  mine, sum;
    MPI_Barrier(MPI_COMM_WORLD);
    double start = MPI_Wtime();
    for (; MPI_Wtime() - start < CALIBRATION_S_100 / 100.0; done += 10000)
        (void)graph_work(10000);
    mine = (double)done / (MPI_Wtime() - start);
    MPI_Allreduce(&mine, &sum, 1, MPI_DOUBLE, MPI_SUM, MPI_COMM_WORLD);
    return sum;
}

int main(int argc, char **argv)
{
    static const int widths[] = {2, 4, 16};
    MPI_Init(&argc, &argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_size(MPI_COMM_WORLD, &ranks);
    double rate = all_rate();
    for (int w = 0; w < 3; w++)
        for (int p = 0; p < GRAPH_PATTERNS; p++) {
            struct graph      g = {(enum graph_pattern)p, widths[w]};
            struct metg_sweep s = {.run = run, .arg = &g, .width = g.width, .cores = ranks, .rate = rate};
            double            sd, us = metg_median(&s, ROUNDS, &sd);
            if (rank == 0)
                printf("mpi.%s.%d %.3f\n", graph_names[p], g.width, us);
        }
    MPI_Finalize();
    return 0;
}
