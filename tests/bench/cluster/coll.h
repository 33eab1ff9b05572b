/* SPDX-License-Identifier: Apache-2.0
 *
 * coll.h - collectives between two processes as between two machines, over TLS: the coll_tls rows of manta-bench-cluster.
 */
#ifndef BENCH_CLUSTER_COLL_H
#define BENCH_CLUSTER_COLL_H

#include "tests/bench/bench.h"

/* Prints the rows; blocks for some seconds. False: one failed, and why was said on stderr. */
bool bench_coll_tls(struct bench *b);
/* Sums of up to 64 members, each taken as a machine of its own. */
bool bench_coll_many(struct bench *b);

#endif
