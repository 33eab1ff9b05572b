/* SPDX-License-Identifier: Apache-2.0
 *
 * gang.h - `manta run` in numbers: the gang rows of manta-bench-cluster.
 */
#ifndef BENCH_CLUSTER_GANG_H
#define BENCH_CLUSTER_GANG_H

#include "tests/bench/bench.h"

/* Each prints its rows; needs manta-run, manta-head and manta-raylet beside this program. Blocks for up to a minute. False:
 * something failed, and why was said on stderr. */
bool bench_gang_1000(struct bench *b);
bool bench_gang_mpi(struct bench *b);
bool bench_gang_recover(struct bench *b);
bool bench_gang_chaos(struct bench *b);

/* A rank of gang_mpi: so many barriers of PMI-1; rank 0 prints what one took, in us. Its exit status. */
int bench_gang_barriers(int count);

#endif
