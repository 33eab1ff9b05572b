/* SPDX-License-Identifier: Apache-2.0
 *
 * real.h - many real raylets on this machine.
 */
#ifndef BENCH_CLUSTER_REAL_H
#define BENCH_CLUSTER_REAL_H

#include "tests/bench/bench.h"

bool bench_real_500(struct bench *b);

#endif
