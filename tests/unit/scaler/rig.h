/* SPDX-License-Identifier: Apache-2.0
 *
 * rig.h - nodes with CPUs and GPUs, for tests of the scaler.
 */
#ifndef TESTS_UNIT_SCALER_RIG_H
#define TESTS_UNIT_SCALER_RIG_H

#include "scheduler/scaler/scaler.h"

#include <stdio.h>

static const char *const kinds[] = {"CPU", "GPU"};

static inline struct policy_node place(int64_t cpus, int64_t gpus, const char *labels)
{
    struct policy_node n = {.state = POLICY_ALIVE, .resource_count = 2};
    n.resources[0] = (struct policy_resource){0, cpus * 1000, cpus * 1000};
    n.resources[1] = (struct policy_resource){1, gpus * 1000, gpus * 1000};
    snprintf(n.labels, sizeof n.labels, "%s", labels);
    return n;
}

#endif
