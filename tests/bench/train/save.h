/* SPDX-License-Identifier: Apache-2.0
 *
 * save.h - the rows of manta-bench-train about checkpoints.
 */
#ifndef BENCH_TRAIN_SAVE_H
#define BENCH_TRAIN_SAVE_H

#include "tests/bench/bench.h"

/* Prints ckpt_stall and what belongs to it. `storage`: a folder on the disk that is measured. 0: done. */
int bench_checkpoints(struct bench *b, int workers, const char *storage);

#endif
