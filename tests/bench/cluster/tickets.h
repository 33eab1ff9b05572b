/* SPDX-License-Identifier: Apache-2.0
 *
 * tickets.h - a head with TLS and nodes that join by tickets, as processes of this machine: the tickets rows of
 * manta-bench-cluster.
 */
#ifndef BENCH_CLUSTER_TICKETS_H
#define BENCH_CLUSTER_TICKETS_H

#include "tests/bench/bench.h"

/* Prints the rows; needs manta-head and manta-raylet beside this program. Blocks for some 5 s. False: one failed, and why was said
 * on stderr. */
bool bench_tickets(struct bench *b);

#endif
