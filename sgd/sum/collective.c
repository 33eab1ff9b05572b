/* SPDX-License-Identifier: Apache-2.0
 *
 * collective.c - reduce, broadcast and agreement, made of arrivals and plain copies; between nodes, by their leaders.
 *
 * Owns: nothing. Thread: the group's; a sum may be cut among those of its team.
 */
#include "sgd/sum/collective.h"

#include "sgd/coll/tcp/move.h"
#include "sgd/sum/wide.h"

#include <string.h>

/* ---- sums ---- */

/* What this member adds of a part: whole lines. */
struct share {
    size_t begin, end;
};

static struct share share_of(const struct sgd_group *group, size_t begin, size_t end)
{
    size_t       lines = (end - begin + 15) / 16, rank = group->shm.rank, members = group->shm.members;
    struct share share = {begin + lines * rank / members * 16, begin + lines * (rank + 1) / members * 16};
    share.end = share.end < end ? share.end : end;
    share.begin = share.begin < end ? share.begin : end;
    return share;
}

struct addition {
    const struct k_ops      *ops;
    const struct sgd_addend *addends;
    size_t                   count;
    struct share             share;
    uint32_t                 parts;
    float                   *out;
    size_t                   mean_end; /* floats before it are divided by the number of virtual ranks */
    float                    mean;
};

static mt_status part_add(void *user, uint32_t index)
{
    const struct addition *a = user;
    size_t                 lines = (a->share.end - a->share.begin + 15) / 16;
    size_t                 begin = a->share.begin + lines * index / a->parts * 16;
    size_t                 end = index + 1 == a->parts ? a->share.end : a->share.begin + lines * (index + 1) / a->parts * 16;
    return sgd_tree_join(a->ops, a->addends, a->count, (struct sgd_range){begin, end}, a->mean_end, a->mean, a->out);
}

/* What stands in the slots of this node's virtual ranks from `piece` on, as far as it goes. */
static size_t addends_find(struct sgd_group *group, struct sgd_piece piece)
{
    size_t count = 0;
    for (uint32_t l = 0; l < group->lanes_count; l++) {
        const struct sgd_group_lane *at = &group->lanes[l];
        struct sgd_left              left[SGD_PIECES_MAX];
        uint32_t                     slots = sgd_lane_left(&at->lane, left);
        for (uint32_t i = 0; i < slots; i++)
            if (left[i].piece.first >= piece.first && left[i].piece.first - piece.first < 1u << piece.level)
                group->addends[count++] = (struct sgd_addend){left[i].piece,
                                                              group->slots + (at->slot + left[i].buffer) * group->stride};
    }
    return count;
}

static mt_status slots_add(struct sgd_group *group, const struct k_ops *ops, struct sgd_piece piece, const struct share *share,
                           float *out, size_t mean_end)
{
    struct addition a = {.ops = ops,
                         .addends = group->addends,
                         .count = addends_find(group, piece),
                         .share = *share,
                         .parts = 1,
                         .out = out,
                         .mean_end = mean_end,
                         .mean = 1.0f / (float)group->plan.vranks};
    size_t          worth = (share->end - share->begin) * a.count / MT_TRAIN_PART_FLOATS; /* parts */
    if (!group->team || worth < 2)
        return part_add(&a, 0);
    a.parts = sgd_team_members(group->team) < worth ? sgd_team_members(group->team) : (uint32_t)worth;
    return sgd_team_run(group->team, a.parts, part_add, &a);
}

static mt_status sum_here(struct sgd_group *group, const struct k_ops *ops, struct sgd_range range)
{
    static const struct sgd_piece all = {0, 31};
    struct share                  share = share_of(group, range.begin, range.end);
    return slots_add(group, ops, all, &share, group->sum, group->plan.mean_floats);
}

/* The members of a node of several add its pieces; then its leader has the rest to do. */
static mt_status pieces_add(struct sgd_group *group, const struct k_ops *ops, struct sgd_range range)
{
    struct sgd_piece pieces[SGD_PIECES_MAX];
    uint32_t         count = sgd_group_pieces(group, group->net.node, pieces);
    struct share     share = share_of(group, range.begin, range.end);
    for (uint32_t i = 0; i < count; i++)
        MT_TRY(slots_add(group, ops, pieces[i], &share, sgd_group_partial(group, i), 0));
    return mt_ok();
}

static uint64_t shape_of(const struct sgd_range *ranges, size_t count)
{
    uint64_t hash = count;
    for (size_t i = 0; i < count; i++)
        hash = (hash ^ ranges[i].begin * 31 ^ ranges[i].end) * 0x9e3779b97f4a7c15u;
    return hash;
}

/* Slots are complete before anybody adds; the sum is complete before anybody reads it. One more meeting is not needed: the
 * next sum is written only after the next reduction's first one, which a member enters when it is done with this. */
mt_status sgd_group_reduce_ranges(struct sgd_group *group, const struct k_ops *ops, const struct sgd_range *ranges, size_t count)
{
    struct coll_call call = {.kind = COLL_BARRIER, .shape = shape_of(ranges, count)};
    MT_TRY(coll_shm_arrive(&group->shm, &call));
    for (size_t i = 0; i < count; i++)
        MT_TRY(group->is_wide ? pieces_add(group, ops, ranges[i]) : sum_here(group, ops, ranges[i]));
    if (group->is_wide)
        MT_TRY(sgd_group_meet(group));
    if (group->is_leader)
        MT_TRY(sgd_group_led(group, sgd_group_sum_nodes(group, ranges, count, call.shape)));
    return sgd_group_meet(group);
}

mt_status sgd_group_reduce(struct sgd_group *group, const struct k_ops *ops, const float **out_sum)
{
    struct sgd_range all = {0, group->plan.slot_floats};
    MT_TRY(sgd_group_reduce_ranges(group, ops, &all, 1));
    *out_sum = group->sum;
    return mt_ok();
}

/* ---- broadcast ---- */

static uint32_t node_of(const struct sgd_group *group, uint32_t rank)
{
    uint32_t node = 0;
    while (group->is_wide && rank >= group->net.first[node + 1])
        node++;
    return node;
}

/* A chunk that stands in the slots of the root's node, into those of the others. */
static mt_status chunk_pass(struct sgd_group *group, uint32_t root, size_t size)
{
    struct coll_call call = {.kind = COLL_BROADCAST,
                             .type = COLL_U8,
                             .root = node_of(group, root),
                             .count = size,
                             .in = group->slots,
                             .out = group->slots};
    if (group->is_leader)
        MT_TRY(sgd_group_led(group, coll_tcp_run(&group->tcp, &call)));
    return sgd_group_meet(group);
}

mt_status sgd_group_broadcast(struct sgd_group *group, uint32_t root, void *data, size_t size)
{
    size_t         chunk_max = group->slots_count * group->stride * sizeof(float);
    unsigned char *p = data;
    bool           is_root = group->rank == root;

    if (root >= group->members || (is_root && !data && size))
        return mt_error(MT_EINVAL, 0, "broadcast: no such rank, or no data");
    for (size_t done = 0; done < size;) {
        size_t chunk = size - done < chunk_max ? size - done : chunk_max;
        /* Also tells that everybody is done with the chunk before. */
        MT_TRY(sgd_group_meet(group));
        if (is_root)
            memcpy(group->slots, p + done, chunk);
        MT_TRY(sgd_group_meet(group));
        if (group->is_wide)
            MT_TRY(chunk_pass(group, root, chunk));
        if (!is_root && p)
            memcpy(p + done, group->slots, chunk);
        done += chunk;
    }
    /* So that the slots may be written again. */
    return sgd_group_meet(group);
}

/* ---- to those who lack it ---- */

/* Who passes it on. Of the leaders that have it the first sends it to those nodes where nobody does. */
struct passing {
    struct sgd_group *group;
    uint64_t          holders;     /* bit r: rank r has it */
    uint32_t          first, last; /* ranks of this node */
    uint32_t          sender;      /* node; net.nodes: no leader has it */
};

static uint64_t ranks_mask(uint32_t first, uint32_t last)
{
    return (last == 64 ? UINT64_MAX : (UINT64_C(1) << last) - 1) & ~((UINT64_C(1) << first) - 1);
}

static uint64_t holders_of_node(const struct passing *p, uint32_t node)
{
    const struct sgd_group *group = p->group;
    return p->holders &
           (group->is_wide ? ranks_mask(group->net.first[node], group->net.first[node + 1]) : ranks_mask(0, group->members));
}

static struct passing passing_of(struct sgd_group *group, uint64_t holders)
{
    struct passing p = {.group = group, .holders = holders, .last = group->members};
    if (!group->is_wide)
        return p;
    p.first = group->net.first[group->net.node];
    p.last = group->net.first[group->net.node + 1];
    while (p.sender < group->net.nodes && !(holders >> group->net.first[p.sender] & 1))
        p.sender++;
    return p;
}

/* Between leaders, from where it stands to where it belongs. */
static mt_status leaders_pass(const struct passing *p, void *data, size_t size)
{
    struct sgd_group *group = p->group;
    struct coll_flow  flows[MT_GROUP_MEMBERS_MAX];
    uint32_t          count = 0;
    for (uint32_t n = 0; n < group->net.nodes && group->net.node == p->sender; n++)
        if (!holders_of_node(p, n))
            flows[count++] = (struct coll_flow){.peer = n, .out = {data}, .out_size = {size}};
    if (!holders_of_node(p, group->net.node))
        flows[count++] = (struct coll_flow){.peer = p->sender, .in = data, .in_size = size};
    return count ? coll_tcp_move(&group->tcp, flows, count) : mt_ok();
}

/* On one node, by way of the slots: from the first that has it by now. */
static mt_status members_pass(const struct passing *p, void *data, size_t size)
{
    struct sgd_group *group = p->group;
    uint64_t          here = holders_of_node(p, group->is_wide ? group->net.node : 0);
    uint32_t          from = here ? (uint32_t)__builtin_ctzll(here) : p->first;
    bool              lacks = group->rank != from && !(p->holders >> group->rank & 1);
    size_t            chunk_max = group->slots_count * group->stride * sizeof(float);
    if (p->last - p->first == (uint32_t)__builtin_popcountll(here | UINT64_C(1) << from))
        return mt_ok(); /* nobody lacks it */
    for (size_t done = 0, chunk; done < size; done += chunk) {
        chunk = size - done < chunk_max ? size - done : chunk_max;
        MT_TRY(sgd_group_meet(group));
        if (group->rank == from)
            memcpy(group->slots, (char *)data + done, chunk);
        MT_TRY(sgd_group_meet(group));
        if (lacks)
            memcpy((char *)data + done, group->slots, chunk);
    }
    return sgd_group_meet(group); /* so that the slots may be written again */
}

mt_status sgd_group_pass(struct sgd_group *group, uint64_t holders, void *data, size_t size)
{
    struct passing p = passing_of(group, holders);
    if (group->is_wide && p.sender == group->net.nodes) {
        uint32_t root = (uint32_t)__builtin_ctzll(holders);
        bool     keeps = holders >> group->rank & 1 && group->rank != root;
        return sgd_group_broadcast(group, root, keeps ? NULL : data, size);
    }
    if (group->is_leader)
        MT_TRY(sgd_group_led(group, leaders_pass(&p, data, size)));
    return members_pass(&p, data, size);
}

/* ---- agreement ---- */

/* The votes of all nodes into this one's. */
static mt_status votes_gather(struct sgd_group *group)
{
    uint64_t         mine[MT_GROUP_MEMBERS_MAX], all[MT_GROUP_MEMBERS_MAX][MT_GROUP_MEMBERS_MAX];
    struct coll_call call = {.kind = COLL_ALL_GATHER, .type = COLL_I64, .count = MT_GROUP_MEMBERS_MAX, .in = mine, .out = all};
    memcpy(mine, group->votes, sizeof mine);
    MT_TRY(coll_tcp_run(&group->tcp, &call));
    for (uint32_t rank = 0; rank < group->members; rank++)
        group->votes[rank] = all[node_of(group, rank)][rank];
    return mt_ok();
}

static void vote_count(uint64_t vote, uint32_t rank, struct sgd_agreement *result)
{
    if (vote == 0) {
        result->is_equal = false;
        return;
    }
    if (!result->has_state || vote - 1 < result->step_min)
        result->step_min = vote - 1;
    if (!result->has_state || vote - 1 > result->step_max) {
        result->step_max = vote - 1;
        result->root = rank;
        result->furthest = 0;
    }
    result->furthest |= vote - 1 == result->step_max ? UINT64_C(1) << rank : 0;
    result->has_state = true;
}

mt_status sgd_group_exchange(struct sgd_group *group, uint64_t mine, uint64_t out_all[MT_GROUP_MEMBERS_MAX])
{
    group->votes[group->rank] = mine;
    MT_TRY(sgd_group_meet(group));
    if (group->is_leader)
        MT_TRY(sgd_group_led(group, votes_gather(group)));
    if (group->is_wide)
        MT_TRY(sgd_group_meet(group));
    memcpy(out_all, group->votes, group->members * sizeof *out_all);
    /* So that nobody votes again before all have read. */
    return sgd_group_meet(group);
}

mt_status sgd_group_agree(struct sgd_group *group, bool has_state, uint64_t step, struct sgd_agreement *out_agreement)
{
    struct sgd_agreement result = {.is_equal = true};
    uint64_t             votes[MT_GROUP_MEMBERS_MAX];

    MT_ASSERT(step != UINT64_MAX);
    MT_TRY(sgd_group_exchange(group, has_state ? step + 1 : 0, votes));
    for (uint32_t rank = 0; rank < group->members; rank++)
        vote_count(votes[rank], rank, &result);
    result.is_equal = result.is_equal && result.step_min == result.step_max;
    *out_agreement = result;
    return mt_ok();
}
