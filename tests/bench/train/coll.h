/* SPDX-License-Identifier: Apache-2.0
 *
 * coll.h - the rows of manta-bench-train about collectives.
 */
#ifndef BENCH_TRAIN_COLL_H
#define BENCH_TRAIN_COLL_H

#include "tests/bench/bench.h"

/* Prints the rows; counts what failed in b->failures. */
void bench_collectives(struct bench *b);

#endif
