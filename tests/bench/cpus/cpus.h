/* SPDX-License-Identifier: Apache-2.0
 *
 * cpus.h - work that keeps the CPUs of one node busy, and how many tasks run at once.
 */
#ifndef BENCH_CPUS_H
#define BENCH_CPUS_H

#include "tests/bench/bench.h"

/* ---- count.c: the page that this program and its workers share ---- */
/* In the driver, once. False: no page. */
bool count_begin(void);
/* What a task gets as its argument, to find the page. */
int64_t count_number(void);
/* A task begins; waits inside; goes on; ends. In workers, with what count_number gave the driver. */
enum count_event { COUNT_BEGINS, COUNT_WAITS, COUNT_GOES_ON, COUNT_ENDS };
void count_task(int64_t number, int cpus, enum count_event what);
/* Tasks that began while as many ran as there are CPUs, since the last call; the most at once in *most. */
int64_t count_over(int64_t *most);

/* ---- the kinds of work; seconds, or < 0: it failed and said why ---- */
/* Cholesky of a matrix of 4096 x 4096 doubles in tiles of 256, each step of each tile a task. GFLOP/s in the end. */
double cholesky_run(const struct bench *b);
/* The same by OpenBLAS with a thread for each CPU, in this process. */
double cholesky_openblas(const struct bench *b);
double cholesky_gflop(void);
/* A tree of arity 10 with so many leaves: each task calls its children and adds up what they return. */
double tree_run(const struct bench *b, int64_t leaves);

#endif
