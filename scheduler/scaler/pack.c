/* SPDX-License-Identifier: Apache-2.0
 *
 * pack.c - puts all demands into what is free, what comes, and what can be had. Nodes that are equal are one slot with a count,
 *          and a demand of many is divided into slots: it costs demands times (slots + types), however many tasks there are.
 *
 * Order: what somebody has requested (against all that nodes have), gangs, leases; the large ones first. A slot that is in use
 * already comes before one that is idle, then what comes, then new nodes. So what is idle stays so, and can be given back.
 */
#include "scheduler/scaler/private.h"

#include "core/base/hash.h"
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
    enum slot_kind            kind;
    uint32_t                  bucket, type; /* of nodes that are there; of those that are not */
    uint32_t                  gang;         /* a strict gang has a bundle there, by its place in the list + 1 */
    bool                      is_used;
};

struct pack {
    struct scl *s;
    MT_VEC(struct slot) slots;
    struct plan *plan;
    uint32_t     planned; /* new nodes in all */
};

/* ---- what a slot can take ---- */

static uint32_t fits(const struct slot *slot, const struct policy_request *r, uint32_t most)
{
    for (uint32_t i = 0; i < r->amount_count; i++) {
        uint32_t at = 0;
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
static void cut(struct pack *p, size_t at, uint32_t nodes)
{
    struct slot rest = p->slots.data[at];
    if (nodes == rest.count)
        return;
    rest.count -= nodes;
    p->slots.data[at].count = nodes;
    SCL_TRY(p->s, mt_vec_push(&p->slots, rest));
}

/* Up to `wanted` of it into one slot's nodes. */
static uint32_t fill(struct pack *p, size_t at, const struct policy_request *r, uint32_t wanted)
{
    uint32_t each = fits(&p->slots.data[at], r, wanted);
    if (each == 0)
        return 0;
    uint32_t whole = wanted / each, nodes = p->slots.data[at].count;
    nodes = whole < nodes ? whole : nodes;
    cut(p, at, nodes);
    take(&p->slots.data[at], r, each);
    return nodes * each;
}

/* Into all slots of one kind. `gang`: not where that has a bundle already, and each on a node of its own. */
static uint32_t fill_kind(struct pack *p, enum slot_kind kind, const struct policy_request *r, uint32_t wanted, uint32_t gang)
{
    uint32_t placed = 0;
    for (size_t at = 0; at < p->slots.count && placed < wanted; at++) {
        if (p->slots.data[at].kind != kind || (gang && p->slots.data[at].gang == gang))
            continue;
        if (gang) {
            if (!fits(&p->slots.data[at], r, 1))
                continue;
            cut(p, at, 1);
            take(&p->slots.data[at], r, 1);
            p->slots.data[at].gang = gang;
            placed++;
            continue;
        }
        for (uint32_t n; placed < wanted && (n = fill(p, at, r, wanted - placed)) > 0;)
            placed += n;
    }
    return placed;
}

/* ---- new nodes ---- */

struct offer {
    unsigned alternative; /* of the selector; the first is the best */
    bool     wastes_gpu;
    int64_t  price; /* of one of it, times 1000 */
    int64_t  use;   /* the largest share of the node that is used, in thousandths */
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
    if (a->wastes_gpu != b->wastes_gpu)
        return b->wastes_gpu;
    return a->price != b->price ? a->price < b->price : a->use > b->use;
}

static struct slot slot_of_type(const struct scl *s, uint32_t type, enum slot_kind kind, uint32_t count)
{
    struct slot slot = {.like = &s->types[type].place, .count = count, .kind = kind, .type = type};
    for (uint32_t i = 0; i < slot.like->resource_count; i++)
        slot.free[i] = slot.like->resources[i].total;
    return slot;
}

static uint32_t room_of(const struct pack *p, uint32_t type)
{
    const struct scl *s = p->s;
    uint32_t          has = s->state[type].live + p->plan->start[type], all = s->live + p->planned;
    uint32_t          room = has < s->types[type].max ? s->types[type].max - has : 0;
    uint32_t          left = !s->config.max ? UINT32_MAX : all < s->config.max ? s->config.max - all : 0;
    if (s->config.is_down || s->now_ms < s->state[type].back_ms)
        return 0;
    return room < left ? room : left;
}

static uint32_t type_best(struct pack *p, const struct policy_request *r, uint32_t wanted)
{
    const struct scl *s = p->s;
    struct offer      best = {0};
    uint32_t          found = SCL_NO_TYPE;
    for (uint32_t t = 0; t < s->config.count; t++) {
        struct slot  slot = slot_of_type(s, t, SLOT_NEW, 1);
        uint32_t     each = room_of(p, t) ? fits(&slot, r, wanted) : 0;
        struct offer offer = {.alternative = r->labels[0] ? mt_selector_match(r->labels, slot.like->labels) : 1};
        if (each == 0)
            continue;
        offer.wastes_gpu = has_gpu(s, slot.like) && !wants_gpu(s, r);
        offer.price = (s->types[t].price ? s->types[t].price : 1000) * 1000 / each;
        offer.use = use_of(slot.like, r, each);
        if (found == SCL_NO_TYPE || is_better(&offer, &best)) {
            best = offer;
            found = t;
        }
    }
    return found;
}

static void start(struct pack *p, uint32_t type, uint32_t count, const char *cause)
{
    struct slot slot = slot_of_type(p->s, type, SLOT_NEW, count);
    if (p->plan->start[type] == 0)
        snprintf(p->plan->cause[type], sizeof p->plan->cause[type], "%s", cause);
    p->plan->start[type] += count;
    p->planned += count;
    SCL_TRY(p->s, mt_vec_push(&p->slots, slot));
}

static uint32_t fill_new(struct pack *p, const struct policy_request *r, uint32_t wanted, uint32_t gang, const char *cause)
{
    uint32_t placed = fill_kind(p, SLOT_NEW, r, wanted, gang);
    while (placed < wanted && p->s->broken.code == 0) {
        uint32_t left = wanted - placed, type = type_best(p, r, gang ? 1 : left);
        if (type == SCL_NO_TYPE)
            break;
        struct slot slot = slot_of_type(p->s, type, SLOT_NEW, 1);
        uint32_t    each = gang ? 1 : fits(&slot, r, left), count = left / each, room = room_of(p, type);
        start(p, type, count < room ? count : room, cause);
        placed += fill_kind(p, SLOT_NEW, r, left, gang);
    }
    return placed;
}

/* ---- one demand ---- */

static void say_cause(const struct scl *s, const struct held_demand *d, char *out, size_t size)
{
    char shape[MT_SCL_NAME_SIZE * 2];
    scl_shape_text(s->kinds, d->requests, shape, sizeof shape);
    snprintf(out, size, "%s%s%u x %.100s", d->demand.name, d->demand.name[0] ? ": " : "", d->demand.count, shape);
}

static void place(struct pack *p, struct held_demand *d, const struct policy_request *r, uint32_t wanted, uint32_t gang)
{
    char     cause[MT_SCL_WHY_SIZE];
    uint32_t here = fill_kind(p, SLOT_BUSY, r, wanted, gang);
    here += fill_kind(p, SLOT_IDLE, r, wanted - here, gang);
    uint32_t coming = fill_kind(p, SLOT_COMING, r, wanted - here, gang), started = 0;
    if (here + coming < wanted) {
        say_cause(p->s, d, cause, sizeof cause);
        started = fill_new(p, r, wanted - here - coming, gang, cause);
    }
    d->here += here;
    d->coming += coming;
    d->started += started;
    d->unmet += wanted - here - coming - started;
}

/* The nodes where its other bundles stand hold no second one of a strict gang. */
static void mark_held(struct pack *p, const struct held_demand *d, uint32_t gang)
{
    for (uint32_t i = 0; i < d->demand.held_count; i++) {
        const struct scl_known *n = mt_map_ptr(&p->s->nodes, mt_map_key(d->held[i]));
        for (size_t at = 0; n && at < p->slots.count; at++) {
            struct slot *slot = &p->slots.data[at];
            if (slot->kind > SLOT_IDLE || slot->bucket != n->bucket || slot->gang == gang)
                continue;
            cut(p, at, 1);
            p->slots.data[at].gang = gang;
            break;
        }
    }
}

static void sum_up(const struct held_demand *d, struct policy_request *out)
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

/* All of its bundles or none. What was planned for a gang that can't be whole is taken back. */
static void place_gang(struct pack *p, struct held_demand *d, uint32_t gang)
{
    struct plan  was = *p->plan; /* its vector is not touched here */
    uint32_t     planned = p->planned;
    size_t       count = p->slots.count;
    struct slot *copy = malloc((count + 1) * sizeof *copy);
    if (!copy) {
        SCL_TRY(p->s, mt_error(MT_ENOMEM, 0, "pack a gang"));
        return;
    }
    if (count)
        memcpy(copy, p->slots.data, count * sizeof *copy);
    bool is_apart = d->demand.strategy == POLICY_GROUP_STRICT_SPREAD;
    if (d->demand.strategy == POLICY_GROUP_STRICT_PACK) {
        struct policy_request sum;
        sum_up(d, &sum);
        place(p, d, &sum, 1, 0);
    } else {
        if (is_apart)
            mark_held(p, d, gang);
        for (uint32_t b = 0; b < d->demand.count && d->unmet == 0; b++)
            place(p, d, &d->requests[b], 1, is_apart ? gang : 0);
    }
    if (d->unmet) {
        if (count)
            memcpy(p->slots.data, copy, count * sizeof *copy); /* a vector never shrinks: there is room */
        p->slots.count = count;
        *p->plan = was;
        p->planned = planned;
        d->here = d->coming = d->started = 0;
        d->unmet = d->demand.count;
    }
    free(copy);
}

/* ---- why something is unmet ---- */

bool scl_could_hold(const struct scl *s, const struct policy_request *request)
{
    for (uint32_t t = 0; t < s->config.count && !s->config.is_down; t++)
        if (s->types[t].max > 0 && request->policy != POLICY_NODE && policy_fits_total(&s->types[t].place, request))
            return true;
    return false;
}

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

static void explain_none(struct scl *s, const struct policy_request *r, char *out, size_t size)
{
    const struct policy_node *places[MT_SCL_TYPES_MAX];
    char                      text[160];
    for (uint32_t t = 0; t < s->config.count; t++)
        places[t] = &s->types[t].place;
    if (s->config.count == 0) {
        snprintf(out, size, "nothing can be started: the cluster has no node types");
        return;
    }
    policy_explain(places, s->config.count, r, s->kinds, text, sizeof text);
    snprintf(out, size, "no node type can ever hold it: %s", text);
}

/* The first obstacle of the type that would be nearest. */
static void explain_unmet(struct scl *s, struct held_demand *d, const struct plan *plan, uint32_t planned)
{
    struct policy_request sum = d->requests[0];
    if (d->demand.kind == SCL_GANG && d->demand.strategy == POLICY_GROUP_STRICT_PACK)
        sum_up(d, &sum);
    for (uint32_t b = 0; d->demand.kind == SCL_GANG && d->demand.strategy != POLICY_GROUP_STRICT_PACK && b < d->demand.count; b++)
        if (!scl_could_hold(s, &d->requests[b]))
            sum = d->requests[b];
    bool is_full = s->config.max && s->live + planned >= s->config.max;
    for (uint32_t t = 0; t < s->config.count; t++) {
        const struct type_state *st = &s->state[t];
        if (!policy_fits_total(&s->types[t].place, &sum))
            continue;
        if (s->config.is_down)
            snprintf(d->why, sizeof d->why, "the cluster goes down");
        else if (s->now_ms < st->back_ms)
            snprintf(d->why, sizeof d->why, "type %.40s could not be started (%.90s); next try in %" PRIu64 " s", s->types[t].name,
                     st->why, (st->back_ms - s->now_ms + 999) / 1000);
        else if (st->live + plan->start[t] >= s->types[t].max)
            snprintf(d->why, sizeof d->why, "type %.40s has its maximum of %u nodes", s->types[t].name, s->types[t].max);
        else if (is_full)
            snprintf(d->why, sizeof d->why, "the cluster has its maximum of %u nodes", s->config.max);
        else if (d->demand.kind == SCL_GANG && s->types[t].max - st->live - plan->start[t] < d->demand.count)
            snprintf(d->why, sizeof d->why, "all or none: of type %.40s only %u more nodes may be had (its maximum is %u)",
                     s->types[t].name, s->types[t].max - st->live - plan->start[t], s->types[t].max);
        else
            snprintf(d->why, sizeof d->why, "all or none: not all of its bundles can be had at once");
        return;
    }
    explain_none(s, &sum, d->why, sizeof d->why);
}

/* ---- all of it ---- */

static uint64_t bucket_key(const struct scl_known *n)
{
    uint64_t hash = mt_hash_bytes(MT_HASH_START, n->place.labels, strlen(n->place.labels));
    for (uint32_t i = 0; i < n->place.resource_count; i++) {
        const struct policy_resource *r = &n->place.resources[i];
        int64_t                       words[3] = {r->kind, r->total, r->free};
        hash = mt_hash_bytes(hash, words, sizeof words);
    }
    return hash ^ (n->is_busy ? 0x9e3779b97f4a7c15u : 0);
}

/* One slot for all nodes that are equal. */
static void add_nodes(struct pack *p, bool wants_totals)
{
    mt_map buckets = {0};
    MT_MAP_EACH(&p->s->nodes, entry) {
        struct scl_known *n = entry->value.ptr;
        if (n->place.state != POLICY_ALIVE)
            continue;
        mt_id         key = {bucket_key(n), n->is_busy};
        mt_map_entry *found = mt_map_find(&buckets, key);
        if (found) {
            n->bucket = (uint32_t)found->value.num;
            p->slots.data[n->bucket].count++;
            continue;
        }
        n->bucket = (uint32_t)p->slots.count;
        struct slot slot = {.like = &n->place, .count = 1, .kind = n->is_busy ? SLOT_BUSY : SLOT_IDLE, .bucket = n->bucket};
        for (uint32_t i = 0; i < n->place.resource_count; i++)
            slot.free[i] = wants_totals ? n->place.resources[i].total : n->place.resources[i].free;
        SCL_TRY(p->s, mt_vec_push(&p->slots, slot));
        SCL_TRY(p->s, mt_map_put_num(&buckets, key, n->bucket));
    }
    mt_map_fini(&buckets);
}

static void add_coming(struct pack *p)
{
    uint32_t count[MT_SCL_TYPES_MAX] = {0};
    MT_MAP_EACH(&p->s->instances, entry) {
        const struct scl_instance *i = entry->value.ptr;
        if (scl_is_coming(p->s, i) && !(MT_PLANT(MT_PLANT_SCALE_TWICE) && i->state == SCL_BOOTING))
            count[i->type_index]++;
    }
    for (uint32_t t = 0; t < p->s->config.count; t++) {
        struct slot slot = slot_of_type(p->s, t, SLOT_COMING, count[t]);
        if (count[t])
            SCL_TRY(p->s, mt_vec_push(&p->slots, slot));
    }
}

/* What this packing uses of what is there, beside what an earlier one uses. */
static void note_use(struct pack *p, uint32_t *coming)
{
    for (size_t at = 0; at < p->slots.count; at++) {
        const struct slot *slot = &p->slots.data[at];
        if (!slot->is_used)
            continue;
        if (slot->kind == SLOT_COMING)
            coming[slot->type] += slot->count;
        while (slot->kind <= SLOT_IDLE && p->plan->needed.count <= slot->bucket && p->s->broken.code == 0)
            SCL_TRY(p->s, mt_vec_push(&p->plan->needed, 0));
        if (slot->kind <= SLOT_IDLE && slot->bucket < p->plan->needed.count)
            p->plan->needed.data[slot->bucket] += slot->count;
    }
}

/* Requests count what nodes have in all; the minimum of each type comes with them. */
static void pack_requests(struct scl *s, struct pack *p)
{
    bool has = false;
    for (uint32_t t = 0; t < s->config.count; t++) {
        uint32_t want = s->types[t].min > s->state[t].live ? s->types[t].min - s->state[t].live : 0, room = room_of(p, t);
        if (want && room)
            start(p, t, want < room ? want : room, "the minimum of its type");
    }
    for (size_t i = 0; i < s->demands.count; i++)
        has = has || s->demands.data[i].demand.kind == SCL_REQUEST;
    if (!has)
        return;
    add_nodes(p, true);
    add_coming(p);
    for (size_t i = 0; i < s->demands.count; i++)
        if (s->demands.data[i].demand.kind == SCL_REQUEST)
            place(p, &s->demands.data[i], s->demands.data[i].requests, s->demands.data[i].demand.count, 0);
    note_use(p, p->plan->coming_needed);
}

static void pack_waiting(struct scl *s, struct pack *p)
{
    uint32_t coming[MT_SCL_TYPES_MAX] = {0};
    add_nodes(p, false);
    add_coming(p);
    for (uint32_t t = 0; t < s->config.count; t++) {
        struct slot slot = slot_of_type(s, t, SLOT_NEW, p->plan->start[t]);
        if (slot.count)
            SCL_TRY(s, mt_vec_push(&p->slots, slot));
    }
    for (size_t i = 0; i < s->demands.count; i++)
        if (s->demands.data[i].demand.kind == SCL_GANG)
            place_gang(p, &s->demands.data[i], (uint32_t)i + 1);
    for (size_t i = 0; i < s->demands.count; i++)
        if (s->demands.data[i].demand.kind == SCL_LEASES)
            place(p, &s->demands.data[i], s->demands.data[i].requests, s->demands.data[i].demand.count, 0);
    note_use(p, coming);
    for (uint32_t t = 0; t < s->config.count; t++)
        p->plan->coming_needed[t] = coming[t] > p->plan->coming_needed[t] ? coming[t] : p->plan->coming_needed[t];
}

void scl_pack(struct scl *s, struct plan *out)
{
    struct pack p = {.s = s, .plan = out};
    for (size_t i = 0; i < s->demands.count; i++) {
        struct held_demand *d = &s->demands.data[i];
        d->here = d->coming = d->started = d->unmet = 0;
        d->why[0] = '\0';
    }
    pack_requests(s, &p);
    p.slots.count = 0; /* the same nodes again, by what is free: buckets have other numbers */
    MT_VEC(uint32_t) by_totals = {out->needed.data, out->needed.count, out->needed.capacity};
    MT_VEC(uint32_t) first = {0}; /* bucket by totals of each node, in the map's order */
    MT_MAP_EACH(&s->nodes, entry)
        SCL_TRY(s, mt_vec_push(&first, ((struct scl_known *)entry->value.ptr)->bucket));
    memset(&out->needed, 0, sizeof out->needed);
    pack_waiting(s, &p);
    /* a node that a request needs is needed, whatever bucket it stands in now */
    size_t k = 0;
    MT_MAP_EACH(&s->nodes, entry) {
        const struct scl_known *n = entry->value.ptr;
        uint32_t                was = k < first.count ? first.data[k++] : UINT32_MAX;
        if (was >= by_totals.count || by_totals.data[was] == 0 || n->place.state != POLICY_ALIVE)
            continue;
        by_totals.data[was]--;
        while (out->needed.count <= n->bucket && s->broken.code == 0)
            SCL_TRY(s, mt_vec_push(&out->needed, 0));
        if (n->bucket < out->needed.count)
            out->needed.data[n->bucket]++;
    }
    mt_vec_fini(&by_totals);
    mt_vec_fini(&first);
    for (size_t i = 0; i < s->demands.count; i++)
        if (s->demands.data[i].unmet)
            explain_unmet(s, &s->demands.data[i], out, p.planned);
    mt_vec_fini(&p.slots);
}

void scl_plan_fini(struct plan *plan)
{
    mt_vec_fini(&plan->needed);
}
