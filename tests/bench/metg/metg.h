/* SPDX-License-Identifier: Apache-2.0
 *
 * metg.h - a task graph run by Manta, in three forms.
 */
#ifndef BENCH_METG_METG_H
#define BENCH_METG_METG_H

#include "tests/bench/bench.h"
#include "tests/bench/metg/graph.h"

struct metg {
    struct bench      *b;
    enum graph_pattern pattern;
    int                width;
    uint32_t           nodes[2];   /* places are on these in turn; 0: anywhere */
    int64_t            iterations; /* of each task's work */
};

/* A form: how tasks are said to Manta. */
struct metg_form {
    const char *name;
    /* Makes what lives longer than a graph (actors). False: said why on stderr. */
    bool (*begin)(struct metg *m);
    /* Runs the graph once. Returns the seconds; < 0: failed, or a task took a wrong number. */
    double (*run)(struct metg *m);
    void (*end)(struct metg *m);
};

extern const struct metg_form metg_tasks;  /* a task with refs for each place of each row */
extern const struct metg_form metg_actors; /* an actor for each place; the driver calls it with refs of the others' results */
extern const struct metg_form metg_peers;  /* an actor for each place; each sends its number to the actors that need it */

/* bare.c: the same graph by bare processes; an argument of struct metg_sweep's run. */
struct metg_bare {
    enum graph_pattern pattern;
    int                width, cores;
    bool               two_nodes, sleeps; /* two nodes: width 2, where each needs both */
};
double metg_bare_run(void *arg, int64_t iterations);
/* lanes.c: the same, on one node, with a record, a claim and an outcome of a lane for each number. */
double metg_lanes_run(void *arg, int64_t iterations);

/* together.c: so many bare processes, at most GRAPH_WIDTH_MAX, the second half of them on another core. */
struct metg_crew {
    int count;
    void (*open)(void *arg, int number); /* in each, before any of them begins; NULL: nothing */
    bool (*run)(void *arg, int number);  /* in each; false: it failed */
    void *arg;
};
/* The seconds from the begin of all to the end of the last; < 0: one has failed, or took a minute. */
double metg_together(const struct metg_crew *crew);

/* A graph's shape in one argument. */
int64_t metg_shape(const struct metg *m);
enum { METG_STEP_SHIFT = 16 }; /* (step, place) in one argument */
/* Does the work of a task whose shape, place and inputs (0: none) came as arguments; 0: an input was wrong. */
int64_t metg_task(int64_t shape, int64_t iterations, int64_t at, const int64_t inputs[GRAPH_NEEDS_MAX]);

#endif
