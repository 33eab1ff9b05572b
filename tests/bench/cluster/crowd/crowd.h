/* SPDX-License-Identifier: Apache-2.0
 *
 * crowd.h - many nodes join a real head at once: row head_10k.
 */
#ifndef BENCH_CLUSTER_CROWD_H
#define BENCH_CLUSTER_CROWD_H

#include "tests/bench/bench.h"

bool bench_head_1k(struct bench *b);
bool bench_head_3k(struct bench *b);
bool bench_head_10k(struct bench *b);

#endif
