/* SPDX-License-Identifier: Apache-2.0
 *
 * stream.c - generators in the simulation: a worker yields, a driver takes, either may die or let go at any point.
 *
 * Item i of a generator called with x is f(x + i), and there are as many as x says; so an item that is lost, doubled or out
 * of order shows (I11), whatever attempt it comes from. Some stand in the store: those are held like other values (I14).
 *
 * Owns: nothing; streams are the owner half's. Thread: one.
 */
#include "clients/lib/owner/own.h"
#include "tests/sim/shells/proc.h"

enum { ITEMS_MAX = 60, YIELDS_PER_TURN = 2 };

static uint64_t items_of(int64_t x)
{
    return (uint64_t)x % ITEMS_MAX;
}

/* ---- the worker ---- */

/* Every few items are values of the store. */
static bool is_stored(const struct sim_run *r)
{
    return (r->x + (int64_t)r->yielded) % 4 == 3;
}

/* The next item: it stands in the store, its place in r->place. False: not yet, or the run has failed. */
static bool store_item(struct sim_proc *p)
{
    struct sim_run *r = &p->run;
    if (!r->written) {
        r->written = sim_value_new(p->s, own_stream_item_id(r->run.record.id, r->yielded), sim_f(r->x + (int64_t)r->yielded));
        r->written->maker = r->run.record.id;
        r->writing = (struct sim_writing){0};
    }
    if (sim_run_write(p, r->run.lane->owner_node, &r->place) != SIM_WRITTEN)
        return false;
    r->is_stored = true;
    p->s->counters.item_stored++;
    return true;
}

static bool report_item(struct sim_proc *p)
{
    struct sim_run   *r = &p->run;
    struct lane_value value = {
        .type = 'l', .flags = r->is_stored ? LANE_VALUE_SHARED : 0, .size = r->is_stored ? sizeof r->place : 8};
    int64_t item = sim_f(r->x + (int64_t)r->yielded);
    if (!wrk_report(&p->wrk, &r->run, LANE_ITEM, r->yielded, &value, sizeof value, r->is_stored ? (const void *)&r->place : &item,
                    value.size))
        return false;
    r->is_stored = false;
    r->written = NULL;
    p->s->counters.stream_again += r->yielded++ == 0 && r->run.record.attempt > 0;
    p->own.run.items = r->yielded;
    return true;
}

bool sim_stream_yield(struct sim_proc *p)
{
    struct sim_run       *r = &p->run;
    struct lane_call_head head;
    memcpy(&head, r->run.payload, sizeof head);
    SIM_REQUIRE(p->s, head.results & LANE_STREAM, "I5: a generator came as a plain task");
    for (int i = 0; i < YIELDS_PER_TURN && r->yielded < items_of(r->x); i++) {
        uint64_t used = wrk_used(&r->run);
        if (used == LANE_GONE && !r->is_stored && !r->written) {
            p->s->counters.stream_told_gone++;
            return true;
        }
        if (used != LANE_GONE && r->yielded >= used + (head.results & (LANE_STREAM - 1))) {
            p->s->counters.stream_blocked++;
            return false;
        }
        if (is_stored(r) && !r->is_stored && !store_item(p))
            return r->phase != SIM_RUN_YIELD; /* it has failed */
        if (!report_item(p) || sim_proc_step(p))
            return false;
    }
    return r->yielded == items_of(r->x);
}

/* ---- the driver ---- */

void sim_stream_open(struct sim_proc *p, struct own_stream *stream, struct own_ref *end, int64_t x)
{
    struct sim_taking s = {.stream = stream, .end = end, .x = x};
    own_ref_hold(end);
    p->s->counters.stream_made++;
    if (mt_vec_push(&p->script.streams, s).code)
        abort();
}

/* An item that stands in the store is held, and looked at some time. */
static int64_t take_stored(struct sim_proc *p, const struct sim_taking *s, const struct own_item *item)
{
    struct own_ref *ref = own_items_take(s->stream, item->index);
    SIM_REQUIRE(p->s, ref && mt_id_equal(ref->id, item->id), "I11: an item of the store has no reference");
    int64_t value = sim_value_of(p->s, ref->id)->value;
    if (p->hold.held.count < 2 * SIM_KEPT_MAX)
        sim_hold_add(p, ref, value, NULL);
    else
        own_ref_drop(&p->own, ref);
    return value;
}

static void take_items(struct sim_proc *p, struct sim_taking *s)
{
    struct own_item item;
    uint64_t        most = sim_between(p->s, 0, 8);
    for (uint64_t i = 0; i < most; i++, s->next++) {
        int64_t value = 0;
        if (!own_stream_next(s->stream, &item) && (!own_stream_take(s->stream) || !own_stream_next(s->stream, &item)))
            break;
        if (item.value.flags & LANE_VALUE_SHARED)
            value = take_stored(p, s, &item);
        else if (item.value.size == sizeof value)
            memcpy(&value, item.bytes, sizeof value);
        SIM_REQUIRE(p->s, s->next < items_of(s->x) && value == sim_f(s->x + (int64_t)s->next),
                    "I11: item %llu of a generator is not the one that stands there", (unsigned long long)s->next);
        p->s->counters.stream_item++;
    }
    own_stream_ack(s->stream, true);
}

/* Nothing is left, and none will come. */
static bool is_at_end(const struct sim_taking *s)
{
    return own_ref_is_ready(s->end) && !s->stream->in.size && s->stream->out_at == s->stream->out.size;
}

void sim_stream_work(struct sim_proc *p)
{
    for (size_t i = 0; i < p->script.streams.count;) {
        struct sim_taking *s = &p->script.streams.data[i];
        bool               lets_go = sim_chance(p->s, 5000);
        take_items(p, s);
        if (!lets_go && !is_at_end(s)) {
            i++;
            continue;
        }
        if (!lets_go && s->end->state != OWN_REF_FAILED)
            SIM_REQUIRE(p->s, s->next == items_of(s->x), "I11: a generator ended after %llu of its %llu items",
                        (unsigned long long)s->next, (unsigned long long)items_of(s->x));
        p->s->counters.stream_freed += lets_go;
        own_stream_free(s->stream);
        own_ref_drop(&p->own, s->end);
        mt_vec_remove_swap(&p->script.streams, i);
    }
}
