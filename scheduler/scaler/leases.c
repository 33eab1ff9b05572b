/* SPDX-License-Identifier: Apache-2.0
 *
 * leases.c - leases on new nodes, several shapes on one.
 *
 * A node is filled once with shapes that go well together, and bought as often as there is enough of each of them. What is taken
 * next is what leaves the least, by the squares of what would be left of each resource, weighed by what all that waits wants of it
 * (the norm-based greedy of Panigrahy, Talwar, Uyeda, Wieder, "Heuristics for Vector Bin Packing", 2011).
 */
#include "scheduler/scaler/pack.h"

/* What one of each shape takes of a node of `type`, and which can be there at all. */
static void measure(struct pack *p, uint32_t type)
{
    const struct policy_node *node = &p->s->types[type].place;
    struct slot               empty = scl_slot_of_type(p->s, type, 1);
    for (size_t i = 0; i < p->shapes.count; i++) {
        struct shape                *shape = &p->shapes.data[i];
        const struct policy_request *r = shape->demand->requests;
        shape->times = 0;
        shape->is_able = shape->demand->unmet > 0 && scl_slot_fits(&empty, r, 1) > 0;
        for (uint32_t at = 0; shape->is_able && at < node->resource_count; at++) {
            shape->share[at] = 0;
            for (uint32_t k = 0; k < r->amount_count; k++)
                if (r->amounts[k].kind == node->resources[at].kind && r->amounts[k].amount > 0)
                    shape->share[at] = (double)r->amounts[k].amount / (double)node->resources[at].total;
        }
    }
}

/* A resource that is wanted more is dearer. */
static void weigh(const struct pack *p, uint32_t resources, double *weight)
{
    memset(weight, 0, POLICY_RESOURCES_MAX * sizeof *weight);
    for (size_t i = 0; i < p->shapes.count; i++)
        for (uint32_t at = 0; p->shapes.data[i].is_able && at < resources; at++)
            weight[at] += p->shapes.data[i].share[at] * p->shapes.data[i].demand->unmet;
}

static uint32_t times_more(const struct shape *shape, const struct slot *node)
{
    return shape->is_able ? scl_slot_fits(node, shape->demand->requests, shape->demand->unmet - shape->times) : 0;
}

/* Of the shapes for which this type is the best (or, `any`, of all) the one that leaves the least. */
static struct shape *goes_best(struct pack *p, const struct slot *node, const double *weight, uint32_t type, bool any)
{
    struct shape *best = NULL;
    double        least = 0, left[POLICY_RESOURCES_MAX];
    for (uint32_t at = 0; at < node->like->resource_count; at++)
        left[at] = node->like->resources[at].total > 0 ? (double)node->free[at] / (double)node->like->resources[at].total : 0;
    for (size_t i = 0; i < p->shapes.count; i++) {
        struct shape *shape = &p->shapes.data[i];
        double        sum = 0;
        if ((!any && shape->type != type) || !times_more(shape, node))
            continue;
        for (uint32_t at = 0; at < node->like->resource_count; at++)
            sum += weight[at] * (left[at] - shape->share[at]) * (left[at] - shape->share[at]);
        if (!best || sum < least) {
            best = shape;
            least = sum;
        }
    }
    return best;
}

/* One node of `type` is filled, the first shape by one of `lead` at least. */
static void fill_one(struct pack *p, struct slot *node, struct shape *lead, uint32_t type)
{
    double weight[POLICY_RESOURCES_MAX];
    measure(p, type);
    weigh(p, node->like->resource_count, weight);
    for (struct shape *shape = lead; shape;) {
        uint32_t most = times_more(shape, node), times = shape == lead && most <= 4 ? 1 : (most + 3) / 4;
        scl_slot_take(node, shape->demand->requests, times);
        shape->times += times;
        shape = goes_best(p, node, weight, type, false);
        if (!shape)
            shape = goes_best(p, node, weight, type, true);
    }
}

/* Nodes for some of what `lead` lacks, and what else has room there. */
static void buy(struct pack *p, struct shape *lead)
{
    char        cause[MT_SCL_WHY_SIZE];
    uint32_t    type = lead->type, nodes = UINT32_MAX;
    struct slot node = scl_slot_of_type(p->s, type, 1);
    fill_one(p, &node, lead, type);
    for (size_t i = 0; i < p->shapes.count; i++) {
        const struct shape *shape = &p->shapes.data[i];
        uint32_t            most = shape->times ? shape->demand->unmet / shape->times : nodes;
        nodes = most < nodes ? most : nodes;
    }
    nodes = scl_at_once(p, type, nodes);
    scl_say_cause(p->s, lead->demand, cause, sizeof cause);
    scl_plan_start(p, type, nodes, cause);
    for (size_t i = 0; i < p->shapes.count; i++) {
        struct shape *shape = &p->shapes.data[i];
        shape->demand->started += shape->times * nodes;
        shape->demand->unmet -= shape->times * nodes;
    }
    node.count = nodes;
    p->slots[SLOT_NEW].data[p->slots[SLOT_NEW].count - 1] = node;
}

static bool has_room(const struct pack *p)
{
    for (uint32_t t = 0; t < p->s->config.count; t++)
        if (scl_room_of(p, t))
            return true;
    return false;
}

static bool choose_types(struct pack *p)
{
    bool has = false;
    if (!has_room(p)) /* no shape needs to ask */
        return false;
    for (size_t i = 0; i < p->shapes.count; i++) {
        struct shape *shape = &p->shapes.data[i];
        uint32_t      left = shape->demand->unmet;
        shape->type = left ? scl_type_best(p, shape->demand->requests, left) : SCL_NO_TYPE;
        has = has || shape->type != SCL_NO_TYPE;
    }
    return has;
}

/* Until another type may be better than those that were chosen. */
static void buy_some(struct pack *p)
{
    bool has_floor = scl_floor_left(p) > 0;
    for (size_t i = 0; i < p->shapes.count; i++) {
        struct shape *lead = &p->shapes.data[i];
        while (lead->type != SCL_NO_TYPE && lead->demand->unmet && scl_room_of(p, lead->type) && p->s->broken.code == 0) {
            buy(p, lead);
            if (p->s->types[lead->type].is_spread || has_floor != (scl_floor_left(p) > 0))
                return;
        }
    }
}

void scl_pack_leases(struct pack *p)
{
    struct scl *s = p->s;
    for (size_t i = 0; i < s->demands.count; i++) {
        struct held_demand *d = &s->demands.data[i];
        if (d->demand.kind != SCL_LEASES || d->demand.pace)
            continue;
        uint32_t left = scl_place_there(p, d, d->requests, d->demand.count, 0);
        d->started = scl_fill_kind(p, SLOT_NEW, d->requests, left, 0);
        d->unmet = left - d->started;
        if (d->unmet)
            SCL_TRY(s, mt_vec_push(&p->shapes, (struct shape){.demand = d}));
    }
    while (s->broken.code == 0 && choose_types(p))
        buy_some(p);
}
