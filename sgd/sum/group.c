/* SPDX-License-Identifier: Apache-2.0
 *
 * group.c - joining a group on one node or several, and its barrier.
 *
 * Owns: a member's pidfds of the others; a leader's connections and scratch. The region and the door are the caller's.
 */
#include "sgd/sum/group.h"

#include "sgd/sum/shard.h"
#include "sgd/sum/wide.h"

#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

enum { FLOATS_PER_LINE = 16, VOTES_BYTES = 4096 };
static_assert(MT_GROUP_MEMBERS_MAX * sizeof(uint64_t) <= VOTES_BYTES, "a vote of each member");

static uint64_t hash_add(uint64_t hash, uint64_t value)
{
    hash = (hash ^ value) * 0x9e3779b97f4a7c15u;
    return hash ^ hash >> 29;
}

static size_t slot_stride(const struct sgd_group_plan *plan)
{
    return (plan->slot_floats + FLOATS_PER_LINE - 1) / FLOATS_PER_LINE * FLOATS_PER_LINE;
}

/* The most complete subtrees of two leaves and more that a node's virtual ranks can make: two of each size. */
static uint32_t partials_max(const struct sgd_group_plan *plan)
{
    return plan->is_wide ? 2 * (32 - (uint32_t)__builtin_clz(plan->vranks)) : 0;
}

static uint32_t members_max(const struct sgd_group_plan *plan)
{
    uint32_t most = plan->vranks < MT_GROUP_MEMBERS_MAX ? plan->vranks : MT_GROUP_MEMBERS_MAX;
    return plan->members_max && plan->members_max < most ? plan->members_max : most;
}

static uint32_t lanes_max(const struct sgd_group_plan *plan)
{
    return plan->lanes ? plan->lanes : 1;
}

static uint32_t slots_max(const struct sgd_group_plan *plan)
{
    return sgd_tree_buffers(plan->vranks, members_max(plan), lanes_max(plan));
}

/* Vectors of a slot's size that stand before the squares. */
static size_t vectors_count(const struct sgd_group_plan *plan)
{
    return (size_t)slots_max(plan) + 1 + partials_max(plan) + plan->is_sharded;
}

static mt_status plan_cut(const struct sgd_group_plan *plan, struct coll_shm_plan *out)
{
    size_t size, squares = plan->is_sharded ? sgd_shard_blocks(plan->mean_floats) * sizeof(double) : 0;
    if (plan->vranks == 0 || plan->vranks > MT_VRANKS_MAX || plan->slot_floats == 0 || plan->slot_floats > SIZE_MAX / 64)
        return mt_error(MT_EINVAL, 0, "group: plan out of range");
    if (__builtin_mul_overflow(slot_stride(plan) * sizeof(float), vectors_count(plan), &size))
        return mt_error(MT_EINVAL, 0, "group: plan too large");
    *out = (struct coll_shm_plan){.members_max = members_max(plan), .heap_size = VOTES_BYTES + size + squares, .is_bare = true};
    return mt_ok();
}

mt_status sgd_group_region_size(const struct sgd_group_plan *plan, size_t *out_size)
{
    struct coll_shm_plan cut;
    MT_TRY(plan_cut(plan, &cut));
    return coll_shm_size(&cut, out_size);
}

/* ---- barrier ---- */

mt_status sgd_group_meet(struct sgd_group *group)
{
    return coll_shm_arrive(&group->shm, &(struct coll_call){.kind = COLL_BARRIER});
}

mt_status sgd_group_led(struct sgd_group *group, mt_status st)
{
    if (st.code != MT_OK)
        coll_shm_abort(group->shm.shared, group->generation, (enum mt_code)st.code, MT_GROUP_MEMBERS_MAX);
    return st;
}

/* A barrier in which everybody also says what it believes. */
static mt_status barrier_of(struct sgd_group *group, uint64_t shape)
{
    struct coll_call call = {.kind = COLL_BARRIER, .shape = shape};
    MT_TRY(coll_shm_arrive(&group->shm, &call));
    if (!group->is_wide)
        return mt_ok();
    if (group->is_leader)
        MT_TRY(sgd_group_led(group, coll_tcp_run(&group->tcp, &call)));
    return sgd_group_meet(group);
}

mt_status sgd_group_barrier(struct sgd_group *group)
{
    return barrier_of(group, 0);
}

/* ---- join ---- */

static mt_status config_check(const struct sgd_group_config *config)
{
    const struct sgd_group_net *net = config->net;
    if (config->generation == 0 || config->members == 0 || config->members > members_max(&config->plan) ||
        config->rank >= config->members)
        return mt_error(MT_EINVAL, 0, "group: generation, rank or number of members out of range");
    if (!net)
        return mt_ok();
    if (!config->plan.is_wide || net->nodes == 0 || net->nodes > MT_GROUP_MEMBERS_MAX || net->node >= net->nodes ||
        net->first[0] != 0 || net->first[net->nodes] != config->members || config->rank < net->first[net->node] ||
        config->rank >= net->first[net->node + 1])
        return mt_error(MT_EINVAL, 0, "group: the nodes do not fit the members");
    for (uint32_t n = 0; n < net->nodes; n++)
        if (net->first[n] >= net->first[n + 1])
            return mt_error(MT_EINVAL, 0, "group: a node without members");
    return mt_ok();
}

/* Where everything is in the region's heap. */
static void heap_lay(struct sgd_group *group)
{
    char *heap = coll_shm_heap(&group->shm);
    group->votes = (uint64_t *)(void *)heap;
    group->sum = (float *)(void *)(heap + VOTES_BYTES);
    group->slots = group->sum + group->stride;
    group->slots_count = slots_max(&group->plan);
    group->partials = group->slots + group->slots_count * group->stride;
    group->fresh = group->plan.is_sharded ? group->partials + partials_max(&group->plan) * group->stride : NULL;
    group->squares = group->plan.is_sharded ? (double *)(void *)(group->fresh + group->stride) : NULL;
}

static mt_status shm_join(struct sgd_group *group, const struct sgd_group_config *config)
{
    const struct sgd_group_net *net = config->net;
    struct coll_shm_config      c = {.region = config->region,
                                     .region_size = config->region_size,
                                     .generation = config->generation,
                                     .rank = net ? config->rank - net->first[net->node] : config->rank,
                                     .members = config->members,
                                     .wait_limit_ms = config->wait_limit_ms ? config->wait_limit_ms : MT_GROUP_WAIT_MS,
                                     .name = "training",
                                     .is_crowded = true};
    if (net)
        c.members = (uint32_t)(net->first[net->node + 1] - net->first[net->node]);
    MT_TRY(plan_cut(&config->plan, &c.plan));
    if ((uintptr_t)config->region % 64 != 0 || config->region_size < sizeof(uint64_t))
        return mt_error(MT_EINVAL, 0, "group: region too small or not aligned");
    coll_shm_lay(config->region, &c.plan);
    MT_TRY(coll_shm_join(&group->shm, &c));
    heap_lay(group);
    return mt_ok();
}

/* ---- lanes ---- */

static void vranks_of(const struct sgd_group *group, uint32_t rank, uint32_t *out_first, uint32_t *out_last)
{
    *out_first = sgd_share_first(group->plan.vranks, group->members, rank);
    *out_last = sgd_share_first(group->plan.vranks, group->members, rank + 1);
}

static uint32_t lanes_of(const struct sgd_group *group, uint32_t rank)
{
    uint32_t first, last, lanes = lanes_max(&group->plan);
    vranks_of(group, rank, &first, &last);
    return lanes < last - first ? lanes : last - first;
}

/* Of the members of this node, rank after rank. */
static mt_status lanes_lay(struct sgd_group *group)
{
    uint32_t begin = group->is_wide ? group->net.first[group->net.node] : 0, end = begin + group->shm.members, slot = 0;
    for (uint32_t r = begin; r < end; r++)
        group->lanes_count += lanes_of(group, r);
    group->lanes = calloc(group->lanes_count, sizeof *group->lanes);
    group->addends = calloc((size_t)group->lanes_count * SGD_PIECES_MAX, sizeof *group->addends);
    if (!group->lanes || !group->addends)
        return mt_error(MT_ENOMEM, 0, "group: no memory for its lanes");
    struct sgd_group_lane *at = group->lanes;
    for (uint32_t r = begin; r < end; r++) {
        uint32_t first, last, count = lanes_of(group, r);
        vranks_of(group, r, &first, &last);
        group->own = r == group->rank ? (uint32_t)(at - group->lanes) : group->own;
        for (uint32_t i = 0; i < count; i++, at++) {
            *at = (struct sgd_group_lane){sgd_lane_of(first, last, i, count), slot};
            slot += sgd_lane_buffers(&at->lane);
        }
    }
    MT_ASSERT(slot <= group->slots_count);
    return mt_ok();
}

const struct sgd_lane *sgd_group_lane(const struct sgd_group *group, uint32_t lane)
{
    MT_ASSERT(lane < lanes_of(group, group->rank));
    return &group->lanes[group->own + lane].lane;
}

float *sgd_group_bottom(const struct sgd_group *group)
{
    return group->slots + group->lanes[group->own].slot * group->stride;
}

mt_status sgd_group_room(struct sgd_group *group, const struct k_ops *ops, uint32_t lane, uint32_t done, struct sgd_range range,
                         float **out_room)
{
    const struct sgd_lane *l = sgd_group_lane(group, lane);
    float                 *bottom = group->slots + group->lanes[group->own + lane].slot * group->stride;
    uint32_t               now = sgd_lane_height(l, done);
    MT_ASSERT(done < sgd_lane_length(l));
    for (uint32_t top = done ? sgd_lane_height(l, done - 1) : 0; done && top >= now; top--)
        MT_TRY(sgd_tree_add(ops, bottom + (top - 1) * group->stride, bottom + top * group->stride, range));
    *out_room = bottom + now * group->stride;
    return mt_ok();
}

/* Asked by the leader's waits: whether its own node has given up. */
static bool is_over_here(void *user, enum mt_code *reason, uint32_t *rank)
{
    const struct sgd_group *group = user;
    struct coll_abort       why = coll_shm_why(group->shm.shared);
    *reason = why.generation > group->generation ? MT_EFENCED : (enum mt_code)why.reason;
    *rank = MT_GROUP_MEMBERS_MAX;
    return why.generation >= group->generation;
}

struct coll_tcp_config sgd_group_tcp_config(const struct sgd_group_config *config)
{
    return (struct coll_tcp_config){.group = config->net->group,
                                    .generation = config->generation,
                                    .rank = config->net->node,
                                    .members = config->net->nodes,
                                    .wait_limit_ms = config->wait_limit_ms,
                                    .name = "training",
                                    .secret = config->net->secret,
                                    .ask_ms = MT_GROUP_ASK_MS,
                                    .direct_max = MT_GROUP_MEMBERS_MAX, /* wide.c sends pieces to every other node */
                                    .door = config->door,
                                    .pace = config->pace,
                                    .is_crowded = true};
}

/* Who is asked for an end is this group from now on. */
static void made_take(struct sgd_group *group, const struct sgd_group_config *config)
{
    group->tcp = config->made->tcp;
    group->scratch = config->made->scratch;
    group->scratch_floats = config->made->scratch_floats;
    *config->made = (struct sgd_group_made){0};
    group->tcp.config = sgd_group_tcp_config(config);
    group->tcp.config.wait_limit_ms = config->wait_limit_ms ? config->wait_limit_ms : MT_GROUP_WAIT_MS;
    group->tcp.config.secret = group->net.secret;
    group->tcp.config.is_aborted = is_over_here;
    group->tcp.config.user = group;
}

static mt_status tcp_join(struct sgd_group *group, const struct sgd_group_config *config)
{
    struct coll_tcp_config c = sgd_group_tcp_config(config);
    struct coll_at         at;
    c.secret = group->net.secret;
    c.is_aborted = is_over_here;
    c.user = group;
    MT_TRY(coll_tcp_open(&group->tcp, &c, &at));
    mt_status st = coll_tcp_join(&group->tcp, group->net.at);
    if (st.code == MT_ECONN || st.code == MT_EAUTH) /* it is not there any more */
        return mt_error(MT_EWORKER_DIED, st.sys, "group: the first member of a node is gone");
    return st;
}

static void group_describe(struct sgd_group *group, const struct sgd_group_config *config)
{
    group->plan = config->plan;
    group->stride = slot_stride(&config->plan);
    group->generation = config->generation;
    group->rank = config->rank;
    group->members = config->members;
    group->is_wide = config->net && config->net->nodes > 1;
    if (config->net)
        group->net = *config->net;
    group->is_leader = group->is_wide && config->rank == group->net.first[group->net.node];
}

mt_status sgd_group_join(struct sgd_group *group, const struct sgd_group_config *config)
{
    memset(group, 0, sizeof *group);
    MT_TRY(config_check(config));
    group_describe(group, config);
    bool is_connected = config->made && config->made->tcp.state == COLL_TCP_JOINED;
    MT_ASSERT(!is_connected || group->is_leader);
    if (is_connected)
        made_take(group, config);
    MT_TRY(shm_join(group, config));
    MT_TRY(lanes_lay(group));
    if (group->is_leader && !is_connected)
        MT_TRY(sgd_group_led(group, tcp_join(group, config)));
    uint64_t shards = config->plan.is_sharded * 2u + config->plan.is_mirrored, lanes = lanes_max(&config->plan);
    return barrier_of(group, hash_add(hash_add(hash_add(1 + shards + 4 * lanes, config->members), config->plan.slot_floats),
                                      config->plan.fingerprint));
}

/* ---- ahead of a generation ---- */

/* What can't be touched now is touched later. */
static void pages_touch(void *at, size_t size)
{
    enum { PAGE = 4096 };
#ifdef MADV_POPULATE_WRITE
    uintptr_t begin = (uintptr_t)at & ~(uintptr_t)(PAGE - 1), end = ((uintptr_t)at + size + PAGE - 1) & ~(uintptr_t)(PAGE - 1);
    (void)madvise((void *)begin, end - begin, MADV_POPULATE_WRITE);
#else
    (void)at, (void)size;
#endif
}

mt_status sgd_group_touch(const struct sgd_group_config *config, bool is_leader, struct sgd_group_made *made)
{
    struct sgd_group group = {0};
    struct sgd_piece pieces[SGD_PIECES_MAX];
    size_t           vector;
    MT_TRY(config_check(config));
    group_describe(&group, config);
    group.shm.shared = config->region;
    group.shm.members = config->net ? (uint32_t)(group.net.first[group.net.node + 1] - group.net.first[group.net.node])
                                    : config->members;
    MT_TRY(plan_cut(&config->plan, &group.shm.plan));
    heap_lay(&group);
    mt_status st = lanes_lay(&group);
    vector = group.stride * sizeof(float);
    if (st.code == MT_OK) {
        const struct sgd_group_lane *last = &group.lanes[group.own + lanes_of(&group, group.rank) - 1];
        pages_touch(group.sum, vector);
        pages_touch(sgd_group_bottom(&group), (last->slot + sgd_lane_buffers(&last->lane) - group.lanes[group.own].slot) * vector);
        if (group.is_wide)
            pages_touch(group.partials, sgd_group_pieces(&group, group.net.node, pieces) * vector);
    }
    if (st.code == MT_OK && is_leader)
        st = sgd_group_scratch(&group);
    if (st.code == MT_OK && is_leader)
        pages_touch(group.scratch, group.scratch_floats * sizeof(float));
    made->scratch = group.scratch;
    made->scratch_floats = group.scratch_floats;
    free(group.lanes);
    free(group.addends);
    return st;
}

void sgd_group_leave(struct sgd_group *group)
{
    if (group->is_leader) {
        enum mt_code reason;
        uint32_t     rank;
        if ((group->tcp.state == COLL_TCP_JOINING || group->tcp.state == COLL_TCP_JOINED) && is_over_here(group, &reason, &rank))
            coll_tcp_give_up(&group->tcp, reason);
        coll_tcp_fini(&group->tcp);
    }
    coll_shm_fini(&group->shm);
    free(group->scratch);
    free(group->lanes);
    free(group->addends);
    memset(group, 0, sizeof *group);
}

/* ---- virtual ranks ---- */

void sgd_group_vranks(const struct sgd_group *group, uint32_t *out_first, uint32_t *out_last)
{
    vranks_of(group, group->rank, out_first, out_last);
}
