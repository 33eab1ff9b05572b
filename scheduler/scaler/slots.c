/* SPDX-License-Identifier: Apache-2.0
 *
 * slots.c - nodes that are equal, as one slot with a count: what of a request fits there, and filling it.
 */
#include "scheduler/scaler/pack.h"

#include "core/text/labels.h"

uint32_t scl_slot_fits(const struct slot *slot, const struct policy_request *r, uint32_t most)
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

void scl_slot_take(struct slot *slot, const struct policy_request *r, uint32_t times)
{
    slot->is_used = true;
    for (uint32_t i = 0; i < r->amount_count; i++)
        for (uint32_t at = 0; at < slot->like->resource_count; at++)
            if (slot->like->resources[at].kind == r->amounts[i].kind)
                slot->free[at] -= r->amounts[i].amount * times;
}

/* Cuts `nodes` of a slot's off; the rest is a slot of its own. */
void scl_slot_cut(struct pack *p, enum slot_kind kind, size_t at, uint32_t nodes)
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
    uint32_t each = scl_slot_fits(&p->slots[kind].data[at], r, wanted);
    if (each == 0)
        return 0;
    uint32_t whole = wanted / each, nodes = p->slots[kind].data[at].count;
    nodes = whole < nodes ? whole : nodes;
    scl_slot_cut(p, kind, at, nodes);
    scl_slot_take(&p->slots[kind].data[at], r, each);
    return nodes * each;
}

/* One, on a node where the gang has none yet. */
static uint32_t fill_apart(struct pack *p, enum slot_kind kind, size_t at, const struct policy_request *r, uint32_t gang)
{
    if (p->slots[kind].data[at].gang == gang || !scl_slot_fits(&p->slots[kind].data[at], r, 1))
        return 0;
    scl_slot_cut(p, kind, at, 1);
    scl_slot_take(&p->slots[kind].data[at], r, 1);
    p->slots[kind].data[at].gang = gang;
    return 1;
}

static void most_find(struct pack *p, enum slot_kind kind)
{
    memset(p->most[kind], 0, sizeof p->most[kind]);
    for (size_t at = 0; at < p->slots[kind].count; at++) {
        const struct slot *slot = &p->slots[kind].data[at];
        for (uint32_t i = 0; i < slot->like->resource_count; i++) {
            int64_t *most = &p->most[kind][slot->like->resources[i].kind % SLOT_HASHES];
            *most = slot->free[i] > *most ? slot->free[i] : *most;
        }
    }
    p->is_most[kind] = true;
}

/* Whether it fits nowhere, without a look at each slot. What is free only gets less, so what was found once stays a bound, until a
 * slot is added or something is taken back. */
static bool fits_none(const struct pack *p, enum slot_kind kind, const struct policy_request *r)
{
    for (uint32_t i = 0; i < r->amount_count && p->is_most[kind]; i++)
        if (r->amounts[i].amount > p->most[kind][r->amounts[i].kind % SLOT_HASHES])
            return true;
    return p->slots[kind].count == 0;
}

/* Into all slots of one kind. `gang`: each on a node of its own. */
uint32_t scl_fill_kind(struct pack *p, enum slot_kind kind, const struct policy_request *r, uint32_t wanted, uint32_t gang)
{
    uint32_t placed = 0;
    if (fits_none(p, kind, r))
        return 0;
    for (size_t at = 0; at < p->slots[kind].count && placed < wanted; at++) {
        if (gang)
            placed += fill_apart(p, kind, at, r, gang);
        else
            for (uint32_t n; placed < wanted && (n = fill(p, kind, at, r, wanted - placed)) > 0;)
                placed += n;
    }
    if (placed < wanted && !gang && (placed || !p->is_most[kind])) /* the next one may be spared the same */
        most_find(p, kind);
    return placed;
}

/* On what is there or comes. How many have no place yet. */
uint32_t scl_place_there(struct pack *p, struct held_demand *d, const struct policy_request *r, uint32_t wanted, uint32_t gang)
{
    uint32_t here = scl_fill_kind(p, SLOT_BUSY, r, wanted, gang);
    here += scl_fill_kind(p, SLOT_IDLE, r, wanted - here, gang);
    uint32_t coming = scl_fill_kind(p, SLOT_COMING, r, wanted - here, gang);
    d->here += here;
    d->coming += coming;
    return wanted - here - coming;
}
