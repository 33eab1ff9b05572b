/* SPDX-License-Identifier: Apache-2.0
 *
 * pull.h - values of another node: row pull_tls.
 */
#ifndef BENCH_CLUSTER_VALUES_PULL_H
#define BENCH_CLUSTER_VALUES_PULL_H

#include "tests/bench/bench.h"

bool bench_pull_tls(struct bench *b);

#endif
