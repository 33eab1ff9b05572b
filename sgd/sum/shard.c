/* SPDX-License-Identifier: Apache-2.0
 *
 * shard.c - what the members have made of their shards, to all nodes.
 *
 * Owns: nothing. Thread: the group's.
 */
#include "sgd/sum/shard.h"

#include "sgd/coll/tcp/move.h"

/* The bytes of a node's shards in a vector that has `unit` bytes for a block and `size` in all. */
static size_t node_begin(const struct sgd_group *group, uint32_t node, size_t unit, size_t size)
{
    size_t floats = group->plan.mean_floats;
    size_t at = sgd_shard_blocks(sgd_shard_begin(floats, group->net.first[node], group->members)) * unit;
    return at < size ? at : size;
}

/* A leader's: its node's part to each other node, theirs from them. */
static mt_status nodes_share(struct sgd_group *group, char *base, size_t unit, size_t size)
{
    struct coll_flow flows[MT_GROUP_MEMBERS_MAX];
    uint32_t         count = 0, me = group->net.node;
    size_t           mine = node_begin(group, me, unit, size);
    MT_TRY(coll_tcp_alive(&group->tcp));
    for (uint32_t n = 0; n < group->net.nodes; n++) {
        if (n == me)
            continue;
        struct coll_flow *f = &flows[count++];
        size_t            at = node_begin(group, n, unit, size);
        *f = (struct coll_flow){.peer = n};
        f->out[0] = base + mine, f->out_size[0] = node_begin(group, me + 1, unit, size) - mine;
        f->in = base + at, f->in_size = node_begin(group, n + 1, unit, size) - at;
    }
    return coll_tcp_move(&group->tcp, flows, count);
}

static mt_status share(struct sgd_group *group, void *base, size_t unit, size_t size)
{
    MT_TRY(sgd_group_meet(group));
    if (!group->is_wide)
        return mt_ok();
    if (group->is_leader)
        MT_TRY(sgd_group_led(group, nodes_share(group, base, unit, size)));
    return sgd_group_meet(group);
}

mt_status sgd_group_share_squares(struct sgd_group *group)
{
    return share(group, group->squares, sizeof(double), sgd_shard_blocks(group->plan.mean_floats) * sizeof(double));
}

mt_status sgd_group_share_fresh(struct sgd_group *group)
{
    return share(group, group->fresh, SGD_SHARD_BLOCK * sizeof(float), group->plan.mean_floats * sizeof(float));
}
