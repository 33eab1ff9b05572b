/* SPDX-License-Identifier: Apache-2.0
 *
 * drain.h - a node that leaves while it works, and while it has values: the drain rows of manta-bench-cluster.
 */
#ifndef BENCH_CLUSTER_DRAIN_H
#define BENCH_CLUSTER_DRAIN_H

#include "tests/bench/bench.h"

/* Prints the rows; needs manta-head and manta-raylet beside this program. Blocks for some 20 s. False: something failed or was
 * lost, and why was said on stderr. */
bool bench_drain(struct bench *b);

#endif
