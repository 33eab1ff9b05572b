/* SPDX-License-Identifier: Apache-2.0
 *
 * broadcast.h - a large value that several nodes want: row broadcast.
 */
#ifndef BENCH_CLUSTER_VALUES_BROADCAST_H
#define BENCH_CLUSTER_VALUES_BROADCAST_H

#include "tests/bench/bench.h"

bool bench_broadcast(struct bench *b);

#endif
