/* SPDX-License-Identifier: Apache-2.0
 *
 * account.h - what jobs are charged for, beside what somebody saw who looked at them: the row `account` of manta-bench-cluster.
 */
#ifndef BENCH_CLUSTER_JOBS_ACCOUNT_H
#define BENCH_CLUSTER_JOBS_ACCOUNT_H

#include "tests/bench/bench.h"

/* Prints the rows; needs manta-head and manta-raylet beside this program. Blocks for some 25 s. False: something failed, and why
 * was said on stderr. */
bool bench_account(struct bench *b);

#endif
