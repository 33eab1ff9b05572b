/* SPDX-License-Identifier: Apache-2.0
 *
 * zero.h - the rows of manta-bench-train about the optimizer's state in shards, and products of bfloat16.
 */
#ifndef BENCH_TRAIN_ZERO_H
#define BENCH_TRAIN_ZERO_H

#include "tests/bench/bench.h"

/* The small GPT-2 with AdamW: a step's time and the bytes of state in a worker, whole, in shards, and in shards with a backup; then
 * tokens per second in float32 and with products of bfloat16. `folder`: for the text that it reads. 0: done. */
int bench_zero(struct bench *b, int workers, const char *folder);

#endif
