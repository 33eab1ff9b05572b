/* SPDX-License-Identifier: Apache-2.0
 *
 * pack.c - puts all demands into what is free, what comes, and what can be had. Nodes that are equal are one slot with a count,
 *          and a demand of many is divided into slots: it costs demands times (slots + types), however many tasks there are.
 *
 * Order: what somebody has requested (against all that nodes have), gangs, leases, each the large ones first; then wishes, what is
 * worth most first. A slot that is in use already comes before one that is idle, then what comes, then new nodes. So what is idle
 * stays so, and can be given back.
 */
#include "scheduler/scaler/pack.h"

#include "core/base/plant.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>

/* ---- one demand ---- */

static void place(struct pack *p, struct held_demand *d, const struct policy_request *r, uint32_t wanted, uint32_t gang)
{
    char     cause[MT_SCL_WHY_SIZE];
    uint32_t left = scl_place_there(p, d, r, wanted, gang), started = 0;
    if (left) {
        scl_say_cause(p->s, d, cause, sizeof cause);
        started = scl_fill_new(p, r, left, gang, cause);
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
            scl_slot_cut(p, kind, at, 1);
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
    memset(p->is_most, 0, sizeof p->is_most);
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
        d->unmet = scl_place_there(p, d, d->requests, d->demand.count, 0);
        d->started = scl_fill_kind(p, SLOT_NEW, d->requests, d->unmet, 0);
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
        scl_say_cause(p->s, d, cause, sizeof cause);
        uint32_t started = scl_fill_new(p, d->requests, wanted, 0, cause);
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
            SCL_TRY(s, mt_vec_push(&p->slots[SLOT_COMING], scl_slot_of_type(s, t, s->state[t].coming)));
        if (p->plan->start[t])
            SCL_TRY(s, mt_vec_push(&p->slots[SLOT_NEW], scl_slot_of_type(s, t, p->plan->start[t])));
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
    memset(p->is_most, 0, sizeof p->is_most);
    for (int kind = 0; kind < SLOT_KINDS; kind++)
        p->slots[kind].count = 0;
}

/* Of a type's zones; SCL_NO_TYPE: none can be had. */
static uint32_t zone_best(const struct pack *p, uint32_t t)
{
    const struct scl *s = p->s;
    uint32_t          best = SCL_NO_TYPE, least = 0;
    for (uint32_t z = s->state[t].first; z < s->config.count && s->state[z].first == s->state[t].first; z++) {
        uint32_t has = s->now_ms < s->state[z].avoid_ms ? UINT32_MAX : scl_beside(p, z);
        if (scl_room_of(p, z) && (best == SCL_NO_TYPE || has < least)) {
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
            scl_plan_start(p, zone, scl_at_once(p, zone, s->types[t].min - has - p->plan->zones[first]), "the minimum of its type");
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

/* A job with a deadline: on nodes as its pace asks for. Where it runs on a sure node and could be on a spot node, it moves. */
static void place_paced(struct pack *p, struct held_demand *d)
{
    struct policy_request request;
    d->choice = scl_pace_choose(p->s, &d->pace, d->requests, p->s->now_ms);
    if (d->choice.wants == SCL_WANTS_NOTHING)
        return;
    scl_pace_request(d->requests, d->choice.wants, &request);
    place(p, d, &request, 1, 0);
    if (d->choice.place == SCL_ON_SURE && (d->here || d->choice.leaves) && p->plan->leave_count < MT_SCL_PACED_MAX)
        p->plan->leaves[p->plan->leave_count++] = d->pace.node;
    if (d->choice.late_ms > p->s->now_ms)
        scl_due(p->s, d->choice.late_ms);
    if (d->choice.place == SCL_ON_SURE)
        d->unmet = 0; /* it has what it needs */
}

static void pack_paced(struct pack *p)
{
    for (size_t i = 0; i < p->s->demands.count; i++)
        if (p->s->demands.data[i].demand.pace)
            place_paced(p, &p->s->demands.data[i]);
}

/* The same nodes once more, by what is free. */
static void pack_waiting(struct scl *s, struct pack *p)
{
    add_nodes(p, false);
    add_types(p);
    for (size_t i = 0; i < s->demands.count; i++)
        if (s->demands.data[i].demand.kind == SCL_GANG)
            place_gang(p, &s->demands.data[i], (uint32_t)i + 1);
    pack_paced(p);
    scl_pack_leases(p);
    if (MT_PLANT(MT_PLANT_WISH_UNKEPT))
        note_use(p, false);
    pack_wishes(p);
    if (!MT_PLANT(MT_PLANT_WISH_UNKEPT))
        note_use(p, false);
    scl_spare(p);
}

/* One node of a type tells what such nodes have: it is started for what has no place on any known one, and might have one there. */
static bool might_hold(const struct scl *s, uint32_t type, const struct held_demand *d)
{
    bool is_young = d->demand.kind == SCL_WISH && (!s->wish_ms || s->now_ms - s->wish_ms < MT_SCL_WISH_MS);
    return d->unmet && !is_young && s->types[type].is_unknown && scl_labels_fit(s, type, d->requests);
}

static void pack_scouts(struct scl *s, struct pack *p)
{
    char cause[MT_SCL_WHY_SIZE], why[MT_SCL_WHY_SIZE + 64];
    for (size_t i = 0; i < s->demands.count; i++)
        for (uint32_t t = 0; t < s->config.count; t++) {
            if (!might_hold(s, t, &s->demands.data[i]))
                continue;
            if (s->state[t].coming)
                p->plan->coming_needed[t] = s->state[t].coming;
            else if (p->plan->start[t] == 0 && scl_room_of(p, t) == 0)
                continue; /* the next type may be had */
            scl_say_cause(s, &s->demands.data[i], cause, sizeof cause);
            snprintf(why, sizeof why, "%.180s, and to learn what it has", cause);
            if (s->state[t].coming == 0 && p->plan->start[t] == 0)
                scl_plan_start(p, t, 1, why);
            break;
        }
}

void scl_pack(struct scl *s, struct plan *out)
{
    struct pack p = {.s = s, .plan = out};
    scl_pace_look(s);
    MT_MAP_EACH(&s->buckets, entry) {
        struct scl_bucket *b = entry->value.ptr;
        b->requested = b->waited_for = 0;
    }
    for (size_t i = 0; i < s->demands.count; i++) {
        struct held_demand *d = &s->demands.data[i];
        d->here = d->coming = d->started = d->unmet = 0;
    }
    pack_minima(s, &p);
    pack_requests(s, &p);
    pack_waiting(s, &p);
    pack_scouts(s, &p);
    for (int kind = 0; kind < SLOT_KINDS; kind++)
        mt_vec_fini(&p.slots[kind]);
    mt_vec_fini(&p.shapes);
}
