/* SPDX-License-Identifier: Apache-2.0
 *
 * overlap.h - the row of manta-bench-train about sums that go on beside backward.
 */
#ifndef BENCH_TRAIN_OVERLAP_H
#define BENCH_TRAIN_OVERLAP_H

#include "tests/bench/bench.h"

/* Prints the rows; counts what failed in b->failures. */
void bench_overlap(struct bench *b);

#endif
