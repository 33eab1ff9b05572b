/* SPDX-License-Identifier: Apache-2.0
 *
 * floor.h - what a process needs that only receives and answers as many datagrams as a head of so many quiet nodes.
 */
#ifndef BENCH_CLUSTER_CROWD_FLOOR_H
#define BENCH_CLUSTER_CROWD_FLOOR_H

#include <stdint.h>

/* Per cent of a CPU, at `count` datagrams a second; takes 3 s. -1: it can't be measured. */
double crowd_floor(uint32_t count);

#endif
