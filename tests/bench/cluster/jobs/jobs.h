/* SPDX-License-Identifier: Apache-2.0
 *
 * jobs.h - jobs, from submit to end: the rows `jobs` of manta-bench-cluster.
 */
#ifndef BENCH_CLUSTER_JOBS_JOBS_H
#define BENCH_CLUSTER_JOBS_JOBS_H

#include "tests/bench/bench.h"

/* Prints the rows; needs manta-head and manta-raylet beside this program. Blocks for some 30 s. False: something failed, and why
 * was said on stderr. */
bool bench_jobs(struct bench *b);

#endif
