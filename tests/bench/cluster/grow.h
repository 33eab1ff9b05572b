/* SPDX-License-Identifier: Apache-2.0
 *
 * grow.h - the scale_local rows of manta-bench-cluster: a node is started for what waits.
 */
#ifndef BENCH_CLUSTER_GROW_H
#define BENCH_CLUSTER_GROW_H

#include "tests/bench/bench.h"

/* Prints the rows; needs manta-head, manta-raylet and manta-provider beside this program. Blocks for some 10 s. False: it failed,
 * and why was said on stderr. */
bool bench_scale_local(struct bench *b);

#endif
