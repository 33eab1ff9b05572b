/* SPDX-License-Identifier: Apache-2.0
 *
 * queue.h - jobs that queue: the rows queue_100k of manta-bench-cluster.
 */
#ifndef BENCH_CLUSTER_JOBS_QUEUE_H
#define BENCH_CLUSTER_JOBS_QUEUE_H

#include "tests/bench/bench.h"

/* Prints the rows; needs manta, manta-head and manta-raylet beside this program. Blocks for some 20 s. False: what was measured is
 * wrong, and why was said on stderr. */
bool bench_queue_100k(struct bench *b);

#endif
