/* SPDX-License-Identifier: Apache-2.0
 *
 * stand_in.h - what a node that is none says to a head: that it comes, and that it lives. 64 CPUs, all free.
 */
#ifndef BENCH_CLUSTER_STAND_IN_H
#define BENCH_CLUSTER_STAND_IN_H

#include "core/proto/manta.pb-c.h"

#include <stdint.h>

struct stand_in_says { /* a message, and what it points to: not to be moved */
    Manta__V1__NodeToHead message;
    Manta__V1__Register   coming;
    Manta__V1__Report     report;
    Manta__V1__Resource   items[2], *list[2];
    char                  name[32], address[32], data[32];
};

void stand_in_comes(struct stand_in_says *s, uint32_t number, uint64_t boot);
void stand_in_reports(struct stand_in_says *s, uint64_t version); /* version: of its report, each time a higher one */

#endif
