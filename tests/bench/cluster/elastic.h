/* SPDX-License-Identifier: Apache-2.0
 *
 * elastic.h - the train_elastic rows of manta-bench-cluster: a training whose nodes come and go.
 */
#ifndef BENCH_CLUSTER_ELASTIC_H
#define BENCH_CLUSTER_ELASTIC_H

#include "tests/bench/bench.h"

/* Prints the rows; needs manta-head, manta-raylet and manta-provider beside this program. Blocks for a minute. False: it failed,
 * and why was said on stderr. */
bool bench_train_elastic(struct bench *b);

#endif
