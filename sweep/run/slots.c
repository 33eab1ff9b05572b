/* SPDX-License-Identifier: Apache-2.0
 *
 * slots.c - how many slots there are: by the trials that wait, and by the nodes that come and go.
 *
 * Owns: room, and who leaves. Thread: the driver's.
 */
#include "sweep/run/driver.h"

#include <limits.h>

mt_status swp_slot_kill(struct swp_driver *d, int index, const char *why)
{
    struct swp_slot *slot = &d->slots[index];
    if (slot->state == SWP_SLOT_NONE || slot->state == SWP_SLOT_DYING)
        return mt_ok();
    swp_slot_set_state(d, index, SWP_SLOT_DYING);
    slot->killed = why;
    return mt_vec_push(&d->orders, (struct swp_order){.kind = SWP_ORDER_KILL, .slot = index});
}

/* Trials that wait or run. */
int64_t swp_driver_in_flight(const struct swp_driver *d)
{
    return (int64_t)(d->ready.count - d->ready_head) + (int64_t)d->running;
}

/* It runs to its end what it has begun; the rest comes back. */
mt_status swp_slot_leaves(struct swp_driver *d, int index)
{
    struct swp_slot *slot = &d->slots[index];
    if ((slot->state != SWP_SLOT_STARTING && slot->state != SWP_SLOT_UP) || slot->is_leaving)
        return mt_ok();
    slot->is_leaving = true;
    d->leaving++;
    if (slot->count < 2 || slot->is_returning)
        return mt_ok();
    slot->is_returning = true;
    return mt_vec_push(&d->orders, (struct swp_order){.kind = SWP_ORDER_RETURN, .slot = index});
}

void swp_slots_room(struct swp_driver *d, int room)
{
    d->room = room < 1 ? 1 : room > d->config.slots_max ? d->config.slots_max : room;
    int slots = d->room + d->leaving < d->config.slots_max ? d->room + d->leaving : d->config.slots_max;
    d->config.slots = slots > d->config.slots ? slots : d->config.slots;
}

/* Slots that have something to do. A sweep that pauses holds no nodes. */
static int slots_wanted(const struct swp_driver *d)
{
    int64_t wanted = d->is_paused || d->is_over ? (int64_t)d->running : swp_driver_in_flight(d);
    return wanted < d->room ? (int)wanted : d->room;
}

mt_status swp_slots_hire(struct swp_driver *d)
{
    int wanted = slots_wanted(d);
    for (int i = 0; i < d->config.slots && d->live - d->leaving < wanted; i++) {
        if (d->slots[i].state != SWP_SLOT_NONE)
            continue;
        swp_slot_set_state(d, i, SWP_SLOT_STARTING);
        d->slots[i].began_ns = d->now_ns;
        MT_TRY(mt_vec_push(&d->orders, (struct swp_order){.kind = SWP_ORDER_HIRE, .slot = i}));
    }
    return mt_ok();
}

/* Those of nodes that leave, when nothing runs there; and what is more than wanted, when it has had nothing for a while: a slot
 * that waits for room holds a place in the queue, and might have a node started for it. */
mt_status swp_slots_let_go(struct swp_driver *d)
{
    int surplus = d->live - d->leaving - slots_wanted(d);
    for (int i = 0; i < d->config.slots; i++) {
        const struct swp_slot *slot = &d->slots[i];
        if ((slot->state != SWP_SLOT_STARTING && slot->state != SWP_SLOT_UP) || slot->count > 0)
            continue;
        bool is_unused = surplus > 0 && d->now_ns - slot->began_ns > MT_SWEEP_IDLE_MS * 1000000ll;
        if (!is_unused && !slot->is_leaving)
            continue;
        surplus -= !slot->is_leaving;
        MT_TRY(swp_slot_kill(d, i, slot->is_leaving ? "its node leaves" : "nothing waits for it"));
    }
    return mt_ok();
}

int swp_driver_waiting(const struct swp_driver *d)
{
    uint64_t limit = swp_driver_limit(d), drawn = d->trials.count;
    limit = limit < d->config.points ? limit : d->config.points;
    uint64_t waiting = (d->ready.count - d->ready_head) + (limit > drawn ? limit - drawn : 0) + d->running;
    if (d->is_over || d->is_paused || d->state != SWP_DRIVER_OPEN || waiting < (uint64_t)d->live)
        return 0;
    waiting -= (uint64_t)d->live;
    return waiting < INT_MAX ? (int)waiting : INT_MAX;
}
