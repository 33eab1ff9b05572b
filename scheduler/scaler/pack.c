/* SPDX-License-Identifier: Apache-2.0
 *
 * pack.c - puts all demands into what is free, what comes, and what can be had. Nodes that are equal are one slot with a count,
 *          and a demand of many is divided into slots: it costs demands times (slots + types), however many tasks there are.
 *
 * Order: what somebody has requested (against all that nodes have), gangs, leases, each the large ones first; then wishes, what is
 * worth most first. A slot that is in use
 * already comes before one that is idle, then what comes, then new nodes. So what is idle stays so, and can be given back.
 *
 * New nodes for leases are filled with several shapes that go well together: a node is filled once, and bought as often as there
 * is enough of each of its shapes. What is taken next is what leaves the least, by the squares of what would be left of each
 * resource, weighed by what all that waits wants of it (the norm-based greedy of Panigrahy, Talwar, Uyeda, Wieder, "Heuristics for
 * Vector Bin Packing", 2011).
 */
#include "scheduler/scaler/private.h"

#include "core/base/plant.h"
#include "core/text/labels.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>

enum slot_kind { SLOT_BUSY, SLOT_IDLE, SLOT_COMING, SLOT_NEW, SLOT_KINDS };

struct slot {
    const struct policy_node *like; /* total, labels */
    int64_t                   free[POLICY_RESOURCES_MAX];
    uint32_t                  count;
    struct scl_bucket        *bucket; /* of nodes that are there */
    uint32_t                  type;   /* of those that are not */
    uint32_t                  gang;   /* a strict gang has a bundle there, by its place in the list + 1 */
    bool                      is_used;
};

struct shape { /* leases of one demand that wait for new nodes */
    struct held_demand *demand;
    uint32_t            type;                        /* that is best for them alone; SCL_NO_TYPE: none can be had */
    uint32_t            times;                       /* on a node that is being filled */
    bool                is_able;                     /* a node of the type that is being filled can hold one */
    double              share[POLICY_RESOURCES_MAX]; /* of each of that node's resources that one takes */
};

struct pack {
    struct scl *s;
    MT_VEC(struct slot) slots[SLOT_KINDS];
    MT_VEC(struct shape) shapes;
    struct plan *plan;
};

/* ---- what a slot can take ---- */

static uint32_t fits(const struct slot *slot, const struct policy_request *r, uint32_t most)
{
    for (uint32_t i = 0; i < r->amount_count; i++) {
        uint32_t at = 0;
        if (r->amounts[i].amount == 0)
            continue;
        while (at < slot->like->resource_count && slot->like->resources[at].kind != r->amounts[i].kind)
            at++;
        int64_t room = at < slot->like->resource_count ? slot->free[at] : 0;
        if (room < r->amounts[i].amount)
            return 0;
        int64_t n = room / r->amounts[i].amount;
        most = n < most ? (uint32_t)n : most;
    }
    return r->labels[0] && !mt_selector_match(r->labels, slot->like->labels) ? 0 : most;
}

static void take(struct slot *slot, const struct policy_request *r, uint32_t times)
{
    slot->is_used = true;
    for (uint32_t i = 0; i < r->amount_count; i++)
        for (uint32_t at = 0; at < slot->like->resource_count; at++)
            if (slot->like->resources[at].kind == r->amounts[i].kind)
                slot->free[at] -= r->amounts[i].amount * times;
}

/* Cuts `nodes` of a slot's off; the rest is a slot of its own. */
static void cut(struct pack *p, enum slot_kind kind, size_t at, uint32_t nodes)
{
    struct slot rest = p->slots[kind].data[at];
    if (nodes == rest.count)
        return;
    rest.count -= nodes;
    p->slots[kind].data[at].count = nodes;
    SCL_TRY(p->s, mt_vec_push(&p->slots[kind], rest));
}

/* Up to `wanted` of it into one slot's nodes. */
static uint32_t fill(struct pack *p, enum slot_kind kind, size_t at, const struct policy_request *r, uint32_t wanted)
{
    uint32_t each = fits(&p->slots[kind].data[at], r, wanted);
    if (each == 0)
        return 0;
    uint32_t whole = wanted / each, nodes = p->slots[kind].data[at].count;
    nodes = whole < nodes ? whole : nodes;
    cut(p, kind, at, nodes);
    take(&p->slots[kind].data[at], r, each);
    return nodes * each;
}

/* One, on a node where the gang has none yet. */
static uint32_t fill_apart(struct pack *p, enum slot_kind kind, size_t at, const struct policy_request *r, uint32_t gang)
{
    if (p->slots[kind].data[at].gang == gang || !fits(&p->slots[kind].data[at], r, 1))
        return 0;
    cut(p, kind, at, 1);
    take(&p->slots[kind].data[at], r, 1);
    p->slots[kind].data[at].gang = gang;
    return 1;
}

/* Into all slots of one kind. `gang`: each on a node of its own. */
static uint32_t fill_kind(struct pack *p, enum slot_kind kind, const struct policy_request *r, uint32_t wanted, uint32_t gang)
{
    uint32_t placed = 0;
    for (size_t at = 0; at < p->slots[kind].count && placed < wanted; at++) {
        if (gang)
            placed += fill_apart(p, kind, at, r, gang);
        else
            for (uint32_t n; placed < wanted && (n = fill(p, kind, at, r, wanted - placed)) > 0;)
                placed += n;
    }
    return placed;
}

/* ---- new nodes ---- */

struct offer {
    unsigned alternative; /* of the selector; the first is the best */
    bool     is_loose;    /* a spot node, where there are fewer others than there must be */
    bool     is_avoided;  /* one of it was taken away just now */
    bool     wastes_gpu;
    int64_t  price;  /* of one of it, times 1000 */
    int64_t  use;    /* the largest share of the node that is used, in thousandths */
    uint32_t beside; /* nodes of the type in that zone already, where it is spread */
};

static bool has_gpu(const struct scl *s, const struct policy_node *n)
{
    for (uint32_t i = 0; i < n->resource_count; i++)
        if (n->resources[i].total > 0 && strcmp(s->kinds[n->resources[i].kind], "GPU") == 0)
            return true;
    return false;
}

static bool wants_gpu(const struct scl *s, const struct policy_request *r)
{
    for (uint32_t i = 0; i < r->amount_count; i++)
        if (strcmp(s->kinds[r->amounts[i].kind], "GPU") == 0)
            return true;
    return false;
}

static int64_t use_of(const struct policy_node *n, const struct policy_request *r, uint32_t times)
{
    int64_t most = 0;
    for (uint32_t i = 0; i < r->amount_count; i++)
        for (uint32_t at = 0; at < n->resource_count; at++)
            if (n->resources[at].kind == r->amounts[i].kind && n->resources[at].total > 0) {
                int64_t share = r->amounts[i].amount * times * 1000 / n->resources[at].total;
                most = share > most ? share : most;
            }
    return most;
}

static bool is_better(const struct offer *a, const struct offer *b)
{
    if (a->alternative != b->alternative)
        return a->alternative < b->alternative;
    if (a->is_loose != b->is_loose)
        return b->is_loose;
    if (a->is_avoided != b->is_avoided)
        return b->is_avoided;
    if (a->wastes_gpu != b->wastes_gpu)
        return b->wastes_gpu;
    if (a->price != b->price)
        return a->price < b->price;
    return a->use != b->use ? a->use > b->use : a->beside < b->beside;
}

static struct slot slot_of_type(const struct scl *s, uint32_t type, uint32_t count)
{
    struct slot slot = {.like = &s->types[type].place, .count = count, .type = type};
    for (uint32_t i = 0; i < slot.like->resource_count; i++)
        slot.free[i] = slot.like->resources[i].total;
    return slot;
}

uint32_t scl_fit_new(const struct scl *s, uint32_t type, const struct policy_request *r, uint32_t most)
{
    struct slot slot = slot_of_type(s, type, 1);
    return fits(&slot, r, most);
}

static uint32_t room_of(const struct pack *p, uint32_t type)
{
    const struct scl *s = p->s;
    uint32_t          first = s->state[type].first, has = s->state[first].all + p->plan->zones[first];
    uint32_t          all = s->live + p->plan->all;
    uint32_t          room = has < s->types[type].max ? s->types[type].max - has : 0;
    uint32_t          left = !s->config.max ? UINT32_MAX : all < s->config.max ? s->config.max - all : 0;
    if (s->config.is_down || s->now_ms < s->state[type].back_ms)
        return 0;
    return room < left ? room : left;
}

/* Nodes that are no spot nodes still have to come before such. */
static uint32_t floor_left(const struct pack *p)
{
    uint32_t has = p->s->live_on_demand + p->plan->on_demand;
    return has < p->s->config.on_demand_min && !MT_PLANT(MT_PLANT_SPOT_FLOOR) ? p->s->config.on_demand_min - has : 0;
}

static uint32_t beside(const struct pack *p, uint32_t type)
{
    return p->s->types[type].is_spread ? p->s->state[type].live + p->plan->start[type] : 0;
}

/* Of `nodes` so many at a time: after them another zone may be better. */
static uint32_t spread_at_once(const struct pack *p, uint32_t type, uint32_t nodes)
{
    const struct scl *s = p->s;
    uint32_t          others = 0, least = UINT32_MAX, mine = beside(p, type);
    for (uint32_t z = s->state[type].first; z < s->config.count && s->state[z].first == s->state[type].first; z++)
        if (z != type && room_of(p, z) && s->now_ms >= s->state[z].avoid_ms) {
            least = beside(p, z) < least ? beside(p, z) : least;
            others++;
        }
    uint32_t some = others && least > mine ? least - mine : (nodes + others) / (others + 1);
    return some < nodes ? some : nodes;
}

/* ... or another type. */
static uint32_t at_once(const struct pack *p, uint32_t type, uint32_t nodes)
{
    uint32_t left = floor_left(p), room = room_of(p, type);
    if (left && left < room && !p->s->types[type].is_spot)
        room = left;
    nodes = nodes < room ? nodes : room;
    return nodes && p->s->types[type].is_spread ? spread_at_once(p, type, nodes) : nodes;
}

static uint32_t type_best(struct pack *p, const struct policy_request *r, uint32_t wanted)
{
    const struct scl *s = p->s;
    struct offer      best = {0};
    uint32_t          found = SCL_NO_TYPE;
    for (uint32_t t = 0; t < s->config.count; t++) {
        if (room_of(p, t) == 0)
            continue;
        struct slot  slot = slot_of_type(s, t, 1);
        uint32_t     each = fits(&slot, r, wanted);
        struct offer offer = {.alternative = r->labels[0] ? mt_selector_match(r->labels, slot.like->labels) : 1};
        if (each == 0)
            continue;
        offer.wastes_gpu = has_gpu(s, slot.like) && !wants_gpu(s, r);
        offer.price = (s->types[t].price ? s->types[t].price : 1000) * 1000 / each;
        offer.use = use_of(slot.like, r, each);
        offer.is_loose = s->types[t].is_spot && floor_left(p) > 0;
        offer.is_avoided = s->now_ms < s->state[t].avoid_ms;
        offer.beside = beside(p, t);
        if (found == SCL_NO_TYPE || is_better(&offer, &best)) {
            best = offer;
            found = t;
        }
    }
    return found;
}

static void start(struct pack *p, uint32_t type, uint32_t count, const char *cause)
{
    struct slot slot = slot_of_type(p->s, type, count);
    if (p->plan->start[type] == 0)
        snprintf(p->plan->cause[type], sizeof p->plan->cause[type], "%s", cause);
    p->plan->start[type] += count;
    p->plan->zones[p->s->state[type].first] += count;
    p->plan->all += count;
    p->plan->on_demand += p->s->types[type].is_spot ? 0 : count;
    SCL_TRY(p->s, mt_vec_push(&p->slots[SLOT_NEW], slot));
}

static uint32_t fill_new(struct pack *p, const struct policy_request *r, uint32_t wanted, uint32_t gang, const char *cause)
{
    uint32_t placed = fill_kind(p, SLOT_NEW, r, wanted, gang);
    while (placed < wanted && p->s->broken.code == 0) {
        uint32_t left = wanted - placed, type = type_best(p, r, gang ? 1 : left);
        if (type == SCL_NO_TYPE)
            break;
        struct slot slot = slot_of_type(p->s, type, 1);
        uint32_t    each = gang ? 1 : fits(&slot, r, left);
        start(p, type, at_once(p, type, left / each), cause);
        placed += fill_kind(p, SLOT_NEW, r, left, gang);
    }
    return placed;
}

/* ---- one demand ---- */

void scl_shape_text(const char *const *kinds, const struct policy_request *r, char *out, size_t size)
{
    size_t used = (size_t)snprintf(out, size, "{");
    for (uint32_t i = 0; i < r->amount_count && used < size; i++) {
        const char *name = kinds[r->amounts[i].kind];
        if (strcmp(name, "memory") == 0)
            used += (size_t)snprintf(out + used, size - used, "%smemory: %" PRId64, i ? ", " : "", r->amounts[i].amount);
        else
            used += (size_t)snprintf(out + used, size - used, "%s%s: %g", i ? ", " : "", name, (double)r->amounts[i].amount / 1000);
    }
    if (used < size && r->labels[0])
        used += (size_t)snprintf(out + used, size - used, "%slabels: %.40s", r->amount_count ? ", " : "", r->labels);
    if (used < size)
        snprintf(out + used, size - used, "}");
}

static void say_cause(const struct scl *s, const struct held_demand *d, char *out, size_t size)
{
    char shape[MT_SCL_NAME_SIZE * 2];
    scl_shape_text(s->kinds, d->requests, shape, sizeof shape);
    snprintf(out, size, "%s%s%u x %.100s", d->demand.name, d->demand.name[0] ? ": " : "", d->demand.count, shape);
}

/* On what is there or comes. How many have no place yet. */
static uint32_t place_there(struct pack *p, struct held_demand *d, const struct policy_request *r, uint32_t wanted, uint32_t gang)
{
    uint32_t here = fill_kind(p, SLOT_BUSY, r, wanted, gang);
    here += fill_kind(p, SLOT_IDLE, r, wanted - here, gang);
    uint32_t coming = fill_kind(p, SLOT_COMING, r, wanted - here, gang);
    d->here += here;
    d->coming += coming;
    return wanted - here - coming;
}

static void place(struct pack *p, struct held_demand *d, const struct policy_request *r, uint32_t wanted, uint32_t gang)
{
    char     cause[MT_SCL_WHY_SIZE];
    uint32_t left = place_there(p, d, r, wanted, gang), started = 0;
    if (left) {
        say_cause(p->s, d, cause, sizeof cause);
        started = fill_new(p, r, left, gang, cause);
    }
    d->started += started;
    d->unmet += left - started;
}

/* The nodes where its other bundles stand hold no second one of a strict gang. */
static void mark_held(struct pack *p, const struct held_demand *d, uint32_t gang)
{
    for (uint32_t i = 0; i < d->demand.held_count; i++) {
        const struct scl_known *n = mt_map_ptr(&p->s->nodes, mt_map_key(d->held[i]));
        enum slot_kind          kind = n && !n->is_busy ? SLOT_IDLE : SLOT_BUSY;
        for (size_t at = 0; n && at < p->slots[kind].count; at++) {
            const struct slot *slot = &p->slots[kind].data[at];
            if (slot->bucket != n->bucket || slot->gang == gang)
                continue;
            cut(p, kind, at, 1);
            p->slots[kind].data[at].gang = gang;
            break;
        }
    }
}

void scl_gang_sum(const struct held_demand *d, struct policy_request *out)
{
    *out = d->requests[0];
    for (uint32_t b = 1; b < d->demand.count; b++)
        for (uint32_t i = 0; i < d->requests[b].amount_count; i++) {
            uint32_t at = 0;
            while (at < out->amount_count && out->amounts[at].kind != d->requests[b].amounts[i].kind)
                at++;
            if (at == POLICY_RESOURCES_MAX)
                continue;
            if (at == out->amount_count)
                out->amounts[out->amount_count++] = (struct policy_amount){d->requests[b].amounts[i].kind, 0};
            out->amounts[at].amount += d->requests[b].amounts[i].amount;
        }
}

/* What a gang that can't be whole gives back. */
struct saved {
    struct slot *data[SLOT_KINDS];
    size_t       count[SLOT_KINDS];
    struct plan  plan;
};

static void save(struct pack *p, struct saved *out)
{
    out->plan = *p->plan;
    for (int kind = 0; kind < SLOT_KINDS; kind++) {
        size_t count = out->count[kind] = p->slots[kind].count;
        out->data[kind] = malloc((count + 1) * sizeof *out->data[kind]);
        if (!out->data[kind])
            SCL_TRY(p->s, mt_error(MT_ENOMEM, 0, "pack a gang"));
        else if (count)
            memcpy(out->data[kind], p->slots[kind].data, count * sizeof *out->data[kind]);
    }
}

static void put_back(struct pack *p, const struct saved *was)
{
    *p->plan = was->plan;
    for (int kind = 0; kind < SLOT_KINDS; kind++) {
        size_t count = p->slots[kind].count = was->count[kind];
        if (count) /* a vector never shrinks: there is room */
            memcpy(p->slots[kind].data, was->data[kind], count * sizeof *was->data[kind]);
    }
}

/* All of its bundles or none. What was planned for a gang that can't be whole is taken back. */
static void place_gang(struct pack *p, struct held_demand *d, uint32_t gang)
{
    struct saved          was;
    struct policy_request sum;
    bool                  is_apart = d->demand.strategy == POLICY_GROUP_STRICT_SPREAD;
    save(p, &was);
    if (is_apart)
        mark_held(p, d, gang);
    if (d->demand.strategy == POLICY_GROUP_STRICT_PACK) {
        scl_gang_sum(d, &sum);
        place(p, d, &sum, 1, 0);
    } else {
        for (uint32_t b = 0; b < d->demand.count && d->unmet == 0; b++)
            place(p, d, &d->requests[b], 1, is_apart ? gang : 0);
    }
    if (d->unmet && p->s->broken.code == 0) {
        put_back(p, &was);
        d->here = d->coming = d->started = 0;
        d->unmet = d->demand.count;
    }
    for (int kind = 0; kind < SLOT_KINDS; kind++)
        free(was.data[kind]);
}

/* ---- leases on new nodes: several shapes on one ---- */

/* What one of each shape takes of a node of `type`, and which can be there at all. */
static void measure(struct pack *p, uint32_t type)
{
    const struct policy_node *node = &p->s->types[type].place;
    struct slot               empty = slot_of_type(p->s, type, 1);
    for (size_t i = 0; i < p->shapes.count; i++) {
        struct shape                *shape = &p->shapes.data[i];
        const struct policy_request *r = shape->demand->requests;
        shape->times = 0;
        shape->is_able = shape->demand->unmet > 0 && fits(&empty, r, 1) > 0;
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
    return shape->is_able ? fits(node, shape->demand->requests, shape->demand->unmet - shape->times) : 0;
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
        take(node, shape->demand->requests, times);
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
    struct slot node = slot_of_type(p->s, type, 1);
    fill_one(p, &node, lead, type);
    for (size_t i = 0; i < p->shapes.count; i++) {
        const struct shape *shape = &p->shapes.data[i];
        uint32_t            most = shape->times ? shape->demand->unmet / shape->times : nodes;
        nodes = most < nodes ? most : nodes;
    }
    nodes = at_once(p, type, nodes);
    say_cause(p->s, lead->demand, cause, sizeof cause);
    start(p, type, nodes, cause);
    for (size_t i = 0; i < p->shapes.count; i++) {
        struct shape *shape = &p->shapes.data[i];
        shape->demand->started += shape->times * nodes;
        shape->demand->unmet -= shape->times * nodes;
    }
    node.count = nodes;
    p->slots[SLOT_NEW].data[p->slots[SLOT_NEW].count - 1] = node;
}

static bool choose_types(struct pack *p)
{
    bool has = false;
    for (size_t i = 0; i < p->shapes.count; i++) {
        struct shape *shape = &p->shapes.data[i];
        uint32_t      left = shape->demand->unmet;
        shape->type = left ? type_best(p, shape->demand->requests, left) : SCL_NO_TYPE;
        has = has || shape->type != SCL_NO_TYPE;
    }
    return has;
}

/* Until another type may be better than those that were chosen. */
static void buy_some(struct pack *p)
{
    bool has_floor = floor_left(p) > 0;
    for (size_t i = 0; i < p->shapes.count; i++) {
        struct shape *lead = &p->shapes.data[i];
        while (lead->type != SCL_NO_TYPE && lead->demand->unmet && room_of(p, lead->type) && p->s->broken.code == 0) {
            buy(p, lead);
            if (p->s->types[lead->type].is_spread || has_floor != (floor_left(p) > 0))
                return;
        }
    }
}

static void pack_leases(struct pack *p)
{
    struct scl *s = p->s;
    for (size_t i = 0; i < s->demands.count; i++) {
        struct held_demand *d = &s->demands.data[i];
        if (d->demand.kind != SCL_LEASES)
            continue;
        uint32_t left = place_there(p, d, d->requests, d->demand.count, 0);
        d->started = fill_kind(p, SLOT_NEW, d->requests, left, 0);
        d->unmet = left - d->started;
        if (d->unmet)
            SCL_TRY(s, mt_vec_push(&p->shapes, (struct shape){.demand = d}));
    }
    while (s->broken.code == 0 && choose_types(p))
        buy_some(p);
}

/* ---- wishes ---- */

/* On what is there, comes, or is started for others. How many have no place. */
static uint32_t wishes_place(struct pack *p, uint32_t *out_here)
{
    uint32_t lacking = 0;
    *out_here = 0;
    for (size_t i = 0; i < p->s->demands.count; i++) {
        struct held_demand *d = &p->s->demands.data[i];
        if (d->demand.kind != SCL_WISH)
            continue;
        d->unmet = place_there(p, d, d->requests, d->demand.count, 0);
        d->started = fill_kind(p, SLOT_NEW, d->requests, d->unmet, 0);
        d->unmet -= d->started;
        lacking += d->unmet;
        *out_here += d->here;
    }
    return lacking;
}

static void wishes_buy(struct pack *p, uint32_t most)
{
    char cause[MT_SCL_WHY_SIZE];
    for (size_t i = 0; i < p->s->demands.count && most > 0; i++) {
        struct held_demand *d = &p->s->demands.data[i];
        uint32_t            wanted = d->unmet < most ? d->unmet : most;
        if (d->demand.kind != SCL_WISH || wanted == 0)
            continue;
        say_cause(p->s, d, cause, sizeof cause);
        uint32_t started = fill_new(p, d->requests, wanted, 0, cause);
        d->started += started;
        d->unmet -= started;
        most -= wanted;
    }
}

static void wishes_watch(struct scl *s, uint32_t lacking, uint32_t here)
{
    s->wish_ms = lacking ? s->now_ms : 0;
    s->wish_least = lacking;
    s->wish_here = here;
}

/* They come last. Nodes are started only for as many as have had no place all the time for a while, in which nothing else had nodes
 * started: who takes what it wished for says so on another way than the node that it takes, and it may have been the place of
 * somebody else. What was taken in that time may be what is still wished for. */
static void pack_wishes(struct pack *p)
{
    struct scl *s = p->s;
    uint32_t    here, lacking = wishes_place(p, &here), bought = p->plan->all;
    if (MT_PLANT(MT_PLANT_WISH_HASTY))
        wishes_buy(p, lacking);
    if (!lacking || !s->wish_ms || bought)
        wishes_watch(s, lacking, here);
    s->wish_least = lacking < s->wish_least ? lacking : s->wish_least;
    s->wish_here = here > s->wish_here ? here : s->wish_here;
    if (s->wish_ms && s->now_ms - s->wish_ms >= MT_SCL_WISH_MS) {
        uint32_t taken = s->wish_here - here, sure = lacking > taken ? lacking - taken : 0;
        wishes_buy(p, sure < s->wish_least ? sure : s->wish_least);
        if (p->plan->all > bought || taken)
            wishes_watch(s, lacking, here);
        s->wish_least = lacking;
    }
    if (s->wish_ms && s->now_ms - s->wish_ms < MT_SCL_WISH_MS)
        scl_due(s, s->wish_ms + MT_SCL_WISH_MS);
}

/* ---- all of it ---- */

/* One slot for all nodes that are equal. Requests count what those have in all. */
static void add_nodes(struct pack *p, bool wants_totals)
{
    MT_MAP_EACH(&p->s->buckets, entry) {
        struct scl_bucket *b = entry->value.ptr;
        struct slot        slot = {.like = &b->like, .count = b->count, .bucket = b};
        for (uint32_t i = 0; i < b->like.resource_count; i++)
            slot.free[i] = wants_totals ? b->like.resources[i].total : b->like.resources[i].free;
        SCL_TRY(p->s, mt_vec_push(&p->slots[b->is_busy ? SLOT_BUSY : SLOT_IDLE], slot));
    }
}

static void add_types(struct pack *p)
{
    struct scl *s = p->s;
    for (uint32_t t = 0; t < s->config.count; t++) {
        if (s->state[t].coming)
            SCL_TRY(s, mt_vec_push(&p->slots[SLOT_COMING], slot_of_type(s, t, s->state[t].coming)));
        if (p->plan->start[t])
            SCL_TRY(s, mt_vec_push(&p->slots[SLOT_NEW], slot_of_type(s, t, p->plan->start[t])));
    }
}

/* What this packing uses of what is there and comes. */
static void note_use(struct pack *p, bool is_requested)
{
    uint32_t coming[MT_SCL_TYPES_MAX] = {0};
    for (int kind = SLOT_BUSY; kind <= SLOT_IDLE; kind++)
        for (size_t at = 0; at < p->slots[kind].count; at++) {
            const struct slot *slot = &p->slots[kind].data[at];
            uint32_t          *used = is_requested ? &slot->bucket->requested : &slot->bucket->waited_for;
            *used += slot->is_used ? slot->count : 0;
        }
    for (size_t at = 0; at < p->slots[SLOT_COMING].count; at++) {
        const struct slot *slot = &p->slots[SLOT_COMING].data[at];
        coming[slot->type] += slot->is_used ? slot->count : 0;
    }
    for (uint32_t t = 0; t < p->s->config.count; t++)
        p->plan->coming_needed[t] = coming[t] > p->plan->coming_needed[t] ? coming[t] : p->plan->coming_needed[t];
}

static void slots_clear(struct pack *p)
{
    for (int kind = 0; kind < SLOT_KINDS; kind++)
        p->slots[kind].count = 0;
}

/* Of a type's zones; SCL_NO_TYPE: none can be had. */
static uint32_t zone_best(const struct pack *p, uint32_t t)
{
    const struct scl *s = p->s;
    uint32_t          best = SCL_NO_TYPE, least = 0;
    for (uint32_t z = s->state[t].first; z < s->config.count && s->state[z].first == s->state[t].first; z++) {
        uint32_t has = s->now_ms < s->state[z].avoid_ms ? UINT32_MAX : beside(p, z);
        if (room_of(p, z) && (best == SCL_NO_TYPE || has < least)) {
            best = z;
            least = has;
        }
    }
    return best;
}

static void pack_minima(struct scl *s, struct pack *p)
{
    for (uint32_t t = 0; t < s->config.count; t++) {
        uint32_t first = s->state[t].first, has = s->state[first].all, zone;
        while (has + p->plan->zones[first] < s->types[t].min && (zone = zone_best(p, t)) != SCL_NO_TYPE)
            start(p, zone, at_once(p, zone, s->types[t].min - has - p->plan->zones[first]), "the minimum of its type");
    }
    slots_clear(p);
}

static bool has_requests(const struct scl *s)
{
    for (size_t i = 0; i < s->demands.count; i++)
        if (s->demands.data[i].demand.kind == SCL_REQUEST)
            return true;
    return false;
}

static void pack_requests(struct scl *s, struct pack *p)
{
    if (!has_requests(s))
        return;
    add_nodes(p, true);
    add_types(p);
    for (size_t i = 0; i < s->demands.count; i++)
        if (s->demands.data[i].demand.kind == SCL_REQUEST)
            place(p, &s->demands.data[i], s->demands.data[i].requests, s->demands.data[i].demand.count, 0);
    note_use(p, true);
    slots_clear(p);
}

/* The same nodes once more, by what is free. */
static void pack_waiting(struct scl *s, struct pack *p)
{
    add_nodes(p, false);
    add_types(p);
    for (size_t i = 0; i < s->demands.count; i++)
        if (s->demands.data[i].demand.kind == SCL_GANG)
            place_gang(p, &s->demands.data[i], (uint32_t)i + 1);
    pack_leases(p);
    if (MT_PLANT(MT_PLANT_WISH_UNKEPT))
        note_use(p, false);
    pack_wishes(p);
    if (!MT_PLANT(MT_PLANT_WISH_UNKEPT))
        note_use(p, false);
}

void scl_pack(struct scl *s, struct plan *out)
{
    struct pack p = {.s = s, .plan = out};
    MT_MAP_EACH(&s->buckets, entry) {
        struct scl_bucket *b = entry->value.ptr;
        b->requested = b->waited_for = 0;
    }
    for (size_t i = 0; i < s->demands.count; i++) {
        struct held_demand *d = &s->demands.data[i];
        d->here = d->coming = d->started = d->unmet = 0;
        d->why[0] = '\0';
    }
    pack_minima(s, &p);
    pack_requests(s, &p);
    pack_waiting(s, &p);
    for (int kind = 0; kind < SLOT_KINDS; kind++)
        mt_vec_fini(&p.slots[kind]);
    mt_vec_fini(&p.shapes);
}
