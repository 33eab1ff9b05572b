/* SPDX-License-Identifier: Apache-2.0
 *
 * hold.c - values that a process keeps: it puts them, looks at them again and again, lets them go.
 *
 * Whoever holds a ref, its owner or a borrower, finds the value behind it as long as both live.
 *
 * Owns: struct sim_hold; refs and values are the halves'. Thread: one.
 */
#include "tests/sim/shells/proc.h"

enum { HELD_MAX = 10 };

void sim_hold_add(struct sim_proc *p, struct own_ref *take_ref, int64_t value, struct sim_reading *take_read)
{
    struct sim_held held = {.ref = take_ref, .value = value, .read = take_read, .look_at = UINT64_MAX};
    if (take_read)
        take_read->until = p->s->now + sim_between(p->s, 0, 30 * SIM_MS);
    if (mt_vec_push(&p->hold.held, held).code)
        abort();
}

void sim_hold_keep(struct sim_proc *p, struct own_ref *take_ref, int64_t value)
{
    sim_hold_add(p, take_ref, value, NULL);
    p->hold.held.data[p->hold.held.count - 1].look_at = p->s->now + sim_between(p->s, SIM_MS, 400 * SIM_MS);
    p->s->counters.value_kept++;
}

struct own_ref *sim_hold_any(struct sim_proc *p)
{
    size_t           count = p->hold.held.count;
    struct sim_held *held = count ? &p->hold.held.data[sim_random(p->s, count)] : NULL;
    return held && !(held->ref->flags & OWN_REF_FREED) ? held->ref : NULL;
}

/* ---- what a driver does -------------------------------------------------------------------------------------------- */

static void let_go(struct sim_proc *p, size_t i)
{
    struct sim_held held = p->hold.held.data[i];
    if (held.read)
        sim_read_end(held.read);
    mt_vec_remove_swap(&p->hold.held, i);
    own_ref_drop(&p->own, held.ref);
}

void sim_hold_drop(struct sim_proc *p, const struct own_ref *ref)
{
    for (size_t i = 0; i < p->hold.held.count; i++) {
        const struct sim_held *held = &p->hold.held.data[i];
        if (held->ref == ref && (!held->read || held->read->is_over)) {
            let_go(p, i);
            return;
        }
    }
}

static void op_drop(struct sim_proc *p)
{
    size_t           i = sim_random(p->s, p->hold.held.count);
    struct sim_held *held = &p->hold.held.data[i];
    if (sim_chance(p->s, 300000)) { /* the value goes, whoever reads it */
        p->s->counters.value_freed_pinned += held->read && held->read->is_pinned;
        sim_value_of(p->s, held->ref->id)->is_freed = true;
        (void)own_ref_free_now(&p->own, held->ref);
    } else if (!held->read || held->read->is_over) {
        let_go(p, i);
    }
}

static void op_look(struct sim_proc *p)
{
    struct sim_held *held = NULL;
    for (int i = 0; i < 3 && (!held || held->ref->value.place.node == p->own.node); i++) /* rather one that may be out of reach */
        held = &p->hold.held.data[sim_random(p->s, p->hold.held.count)];
    if (!held->read && !(held->ref->flags & OWN_REF_FREED))
        held->read = sim_read(p, held->ref);
}

void sim_hold_op(struct sim_proc *p)
{
    uint64_t kind = sim_random(p->s, 8);
    if (kind < 3 && !p->hold.putting && p->hold.held.count < HELD_MAX) {
        int64_t value = (int64_t)(mt_rng_next(&p->s->rng) >> 16);
        p->hold.put = (struct sim_writing){0};
        p->hold.putting = sim_value_new(p->s, mt_id_with_index(own_id_next(&p->own), 1), value);
    } else if (p->hold.held.count && (kind == 7 || p->hold.held.count >= HELD_MAX)) {
        op_drop(p);
    } else if (p->hold.held.count) {
        op_look(p);
    }
}

static void put_go(struct sim_proc *p)
{
    struct sim_hold *h = &p->hold;
    struct lane_ref  place;
    if (!sim_write_go(p, &h->put, h->putting))
        return;
    if (!h->put.code) {
        if (!sim_write_publish(p, &h->put, h->putting, p->own.node, &place))
            return;
        struct own_ref *ref = own_ref_new(&p->own, h->putting->id);
        SIM_REQUIRE(p->s, ref, "a ref found no memory");
        own_ref_set_place(&p->own, ref, &place);
        sim_hold_add(p, ref, h->putting->value, NULL);
    }
    h->putting = NULL;
}

void sim_hold_look_soon(struct sim_proc *p, struct sim_held *held)
{
    if (!held->read && !(held->ref->flags & OWN_REF_FREED))
        held->look_at = p->s->now + sim_between(p->s, SIM_MS, 2 * SIM_S);
}

/* ---- at any time ---------------------------------------------------------------------------------------------------- */

/* A look is over. */
static void looked(struct sim_proc *p, struct sim_held *held)
{
    struct sim_reading *r = held->read;
    SIM_REQUIRE(p->s, r->code || r->v->value == held->value, "I2: a value, looked at again, is another");
    if (r->code == MT_OK && !r->until) {
        r->until = p->s->now + sim_between(p->s, 0, 20 * SIM_MS);
        p->s->counters.value_kept_read += p->role == CTL_WORKER;
    }
    if (p->s->now < r->until)
        return;
    sim_read_end(r);
    held->read = NULL;
}

void sim_hold_work(struct sim_proc *p)
{
    if (p->hold.putting)
        put_go(p);
    for (size_t i = 0; i < p->hold.held.count && !p->killed_in_turn;) {
        struct sim_held *held = &p->hold.held.data[i];
        bool             is_last = p->role == CTL_WORKER && held->look_at == UINT64_MAX;
        if (!held->read && is_last) {
            let_go(p, i);
            continue;
        }
        if (!held->read && p->s->now >= held->look_at) {
            held->read = sim_read(p, held->ref);
            held->read->is_borrowed = p->role == CTL_WORKER;
            held->look_at = UINT64_MAX;
        }
        if (held->read && sim_read_go(held->read))
            looked(p, held);
        i++;
    }
}

uint64_t sim_hold_due(const struct sim_proc *p)
{
    uint64_t due = p->hold.putting && p->hold.put.has_room ? p->hold.put.ready_at : UINT64_MAX;
    for (size_t i = 0; i < p->hold.held.count; i++) {
        const struct sim_held *held = &p->hold.held.data[i];
        uint64_t               at = held->read ? held->read->is_pinned ? held->read->until : UINT64_MAX : held->look_at;
        if (!held->read && p->role == CTL_WORKER && held->look_at == UINT64_MAX)
            at = p->s->now;
        if (at < due)
            due = at;
    }
    return due;
}

bool sim_hold_leave(struct sim_proc *p)
{
    for (size_t i = 0; i < p->hold.held.count;) {
        const struct sim_held *held = &p->hold.held.data[i];
        if (held->read && !held->read->is_over)
            i++;
        else
            let_go(p, i);
    }
    return !p->hold.held.count && !p->hold.putting;
}

void sim_hold_gone(struct sim_proc *p)
{
    mt_vec_fini(&p->hold.held);
}
