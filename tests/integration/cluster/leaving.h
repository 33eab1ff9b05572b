/* SPDX-License-Identifier: Apache-2.0
 *
 * leaving.h - what tests of nodes that leave share: asking the head about them, and waiting for their end.
 *
 * Thread: the driver's main one.
 */
#ifndef TEST_CLUSTER_LEAVING_H
#define TEST_CLUSTER_LEAVING_H

#include "tests/integration/cluster/nodes.h"

#include <manta_client.h>

/* manta_client_close is the caller's. */
manta_client *leaving_client(const struct nodes *n);
/* What the head says of node i. */
manta_cluster_node leaving_node(const struct nodes *n, int i);
/* It ends by itself, with status 0, and the head says that it has left. When that was (test_now_ms). */
int64_t leaving_wait(struct nodes *n, int i);

#endif
