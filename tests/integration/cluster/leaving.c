/* SPDX-License-Identifier: Apache-2.0
 *
 * leaving.c - see leaving.h.
 *
 * Owns: nothing. Thread: the driver's main one.
 */
#include "tests/integration/cluster/leaving.h"

#include <stdlib.h>
#include <sys/wait.h>

manta_client *leaving_client(const struct nodes *n)
{
    manta_error   e;
    manta_client *c = manta_client_open(&(manta_client_opts){.address = n->folder}, &e);
    if (!c)
        test_fail(__FILE__, __LINE__, "no client: %s", e.message);
    return c;
}

manta_cluster_node leaving_node(const struct nodes *n, int i)
{
    manta_error         e;
    manta_cluster_node *all, found = {0};
    size_t              count;
    manta_client       *c = leaving_client(n);
    CHECK_CODE(manta_nodes_list(c, &all, &count, NULL, &e), MANTA_OK, &e);
    for (size_t k = 0; k < count; k++)
        if (all[k].node == n->ids[i])
            found = all[k];
    free(all);
    manta_client_close(c);
    return found;
}

int64_t leaving_wait(struct nodes *n, int i)
{
    int status = 1;
    CHECK_SOON(waitpid(n->raylets[i], &status, WNOHANG) != 0);
    int64_t left_at = test_now_ms();
    CHECK_EQ(status, 0);
    n->raylets[i] = 0;
    manta_cluster_node node = leaving_node(n, i);
    CHECK_EQ(node.state, MANTA_NODE_DEAD);
    CHECK(node.has_left);
    CHECK_SAYS(node.reason, "drained");
    return left_at;
}
