/* SPDX-License-Identifier: Apache-2.0
 *
 * heads.h - two heads over one Redis, as processes of this machine: the rows ha_redis, handover and blackout_head of
 * manta-bench-cluster.
 */
#ifndef BENCH_CLUSTER_HEADS_H
#define BENCH_CLUSTER_HEADS_H

#include "tests/bench/bench.h"

/* Print the rows; need redis-server, and manta-head and manta-raylet beside this program. Block for some 10 s each. False: one
 * failed, and why was said on stderr. */
bool bench_ha_redis(struct bench *b);
bool bench_handover(struct bench *b);
bool bench_blackout(struct bench *b); /* some 80 s */

#endif
