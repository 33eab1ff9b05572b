/* SPDX-License-Identifier: Apache-2.0
 *
 * sim_net.c - streams between raylets and to the head.
 */
#include "tests/sim/sim_node.h"

void sim_net_act(struct sim *s, struct sim_node *n, const struct rlt_action *a)
{
    SIM_REQUIRE(s, false, "node %d: action %d", n->index, a->kind);
}
void sim_net_node_up(struct sim *s, struct sim_node *n)
{
    (void)s;
    (void)n;
}
void sim_net_node_down(struct sim *s, struct sim_node *n)
{
    (void)s;
    (void)n;
}
