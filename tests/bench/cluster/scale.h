/* SPDX-License-Identifier: Apache-2.0
 *
 * scale.h - the rows of nodes that are started and given back.
 */
#ifndef BENCH_CLUSTER_SCALE_H
#define BENCH_CLUSTER_SCALE_H

#include "tests/bench/bench.h"

/* Each prints its rows; false: what was measured is wrong. */
bool scale_decide(struct bench *bench);
bool scale_pack(struct bench *bench);

#endif
