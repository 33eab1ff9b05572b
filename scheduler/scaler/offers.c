/* SPDX-License-Identifier: Apache-2.0
 *
 * offers.c - which type a new node is of, in which zone, and how many at a time.
 */
#include "scheduler/scaler/pack.h"

#include "core/base/plant.h"
#include "core/text/labels.h"

#include <inttypes.h>
#include <stdio.h>

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

struct slot scl_slot_of_type(const struct scl *s, uint32_t type, uint32_t count)
{
    struct slot slot = {.like = &s->types[type].place, .count = count, .type = type};
    for (uint32_t i = 0; i < slot.like->resource_count; i++)
        slot.free[i] = slot.like->resources[i].total;
    return slot;
}

uint32_t scl_fit_new(const struct scl *s, uint32_t type, const struct policy_request *r, uint32_t most)
{
    struct slot slot = scl_slot_of_type(s, type, 1);
    return scl_slot_fits(&slot, r, most);
}

bool scl_labels_fit(const struct scl *s, uint32_t type, const struct policy_request *r)
{
    return !r->labels[0] || mt_selector_match(r->labels, s->types[type].place.labels);
}

uint32_t scl_room_of(const struct pack *p, uint32_t type)
{
    const struct scl *s = p->s;
    uint32_t          first = s->state[type].first, has = s->state[first].all + p->plan->zones[first];
    uint32_t          all = s->live + p->plan->all;
    uint32_t          most = s->types[type].max;
    if (s->types[type].is_unknown && most > 1 && !MT_PLANT(MT_PLANT_SCALE_UNKNOWN))
        most = 1;
    uint32_t room = has < most ? most - has : 0;
    uint32_t left = !s->config.max ? UINT32_MAX : all < s->config.max ? s->config.max - all : 0;
    if (s->config.is_down || s->now_ms < s->state[type].back_ms)
        return 0;
    return room < left ? room : left;
}

/* Nodes that are no spot nodes still have to come before such. */
uint32_t scl_floor_left(const struct pack *p)
{
    uint32_t has = p->s->live_on_demand + p->plan->on_demand;
    return has < p->s->config.on_demand_min && !MT_PLANT(MT_PLANT_SPOT_FLOOR) ? p->s->config.on_demand_min - has : 0;
}

uint32_t scl_beside(const struct pack *p, uint32_t type)
{
    return p->s->types[type].is_spread ? p->s->state[type].live + p->plan->start[type] : 0;
}

/* Of `nodes` so many at a time: after them another zone may be better. */
static uint32_t spread_at_once(const struct pack *p, uint32_t type, uint32_t nodes)
{
    const struct scl *s = p->s;
    uint32_t          others = 0, least = UINT32_MAX, mine = scl_beside(p, type);
    for (uint32_t z = s->state[type].first; z < s->config.count && s->state[z].first == s->state[type].first; z++)
        if (z != type && scl_room_of(p, z) && s->now_ms >= s->state[z].avoid_ms) {
            least = scl_beside(p, z) < least ? scl_beside(p, z) : least;
            others++;
        }
    uint32_t some = others && least > mine ? least - mine : (nodes + others) / (others + 1);
    return some < nodes ? some : nodes;
}

/* ... or another type. */
uint32_t scl_at_once(const struct pack *p, uint32_t type, uint32_t nodes)
{
    uint32_t left = scl_floor_left(p), room = scl_room_of(p, type);
    if (left && left < room && !p->s->types[type].is_spot)
        room = left;
    nodes = nodes < room ? nodes : room;
    return nodes && p->s->types[type].is_spread ? spread_at_once(p, type, nodes) : nodes;
}

uint32_t scl_type_best(struct pack *p, const struct policy_request *r, uint32_t wanted)
{
    const struct scl *s = p->s;
    struct offer      best = {0};
    uint32_t          found = SCL_NO_TYPE;
    for (uint32_t t = 0; t < s->config.count; t++) {
        if (scl_room_of(p, t) == 0)
            continue;
        struct slot  slot = scl_slot_of_type(s, t, 1);
        uint32_t     each = scl_slot_fits(&slot, r, wanted);
        struct offer offer = {.alternative = r->labels[0] ? mt_selector_match(r->labels, slot.like->labels) : 1};
        if (each == 0)
            continue;
        offer.wastes_gpu = has_gpu(s, slot.like) && !wants_gpu(s, r);
        offer.price = (s->types[t].price ? s->types[t].price : 1000) * 1000 / each;
        offer.use = use_of(slot.like, r, each);
        offer.is_loose = s->types[t].is_spot && scl_floor_left(p) > 0;
        offer.is_avoided = s->now_ms < s->state[t].avoid_ms;
        offer.beside = scl_beside(p, t);
        if (found == SCL_NO_TYPE || is_better(&offer, &best)) {
            best = offer;
            found = t;
        }
    }
    return found;
}

void scl_plan_start(struct pack *p, uint32_t type, uint32_t count, const char *cause)
{
    struct slot slot = scl_slot_of_type(p->s, type, count);
    if (p->plan->start[type] == 0)
        snprintf(p->plan->cause[type], sizeof p->plan->cause[type], "%s", cause);
    p->plan->start[type] += count;
    p->plan->zones[p->s->state[type].first] += count;
    p->plan->all += count;
    p->plan->on_demand += p->s->types[type].is_spot ? 0 : count;
    SCL_TRY(p->s, mt_vec_push(&p->slots[SLOT_NEW], slot));
    p->is_most[SLOT_NEW] = false;
}

uint32_t scl_fill_new(struct pack *p, const struct policy_request *r, uint32_t wanted, uint32_t gang, const char *cause)
{
    uint32_t placed = scl_fill_kind(p, SLOT_NEW, r, wanted, gang);
    while (placed < wanted && p->s->broken.code == 0) {
        uint32_t left = wanted - placed, type = scl_type_best(p, r, gang ? 1 : left);
        if (type == SCL_NO_TYPE)
            break;
        struct slot slot = scl_slot_of_type(p->s, type, 1);
        uint32_t    each = gang ? 1 : scl_slot_fits(&slot, r, left);
        scl_plan_start(p, type, scl_at_once(p, type, left / each), cause);
        placed += scl_fill_kind(p, SLOT_NEW, r, left, gang);
    }
    return placed;
}

/* ---- for people ---- */

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

void scl_say_cause(const struct scl *s, const struct held_demand *d, char *out, size_t size)
{
    char shape[MT_SCL_NAME_SIZE * 2];
    scl_shape_text(s->kinds, d->requests, shape, sizeof shape);
    snprintf(out, size, "%s%s%u x %.100s", d->demand.name, d->demand.name[0] ? ": " : "", d->demand.count, shape);
}
