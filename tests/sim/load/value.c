/* SPDX-License-Identifier: Apache-2.0
 *
 * value.c - the record of all values in the object store, and what must hold for their bytes.
 *
 * Owns: every struct sim_value. Thread: one.
 */
#include "tests/sim/load/object.h"

#include "tests/sim/shells/node.h"
#include "tests/sim/shells/proc.h"
#include "tests/sim/shells/store.h"
#include "tests/sim/twins/net.h"

#include "raylet/store/known.h"

enum { STEP_SMALL = 64, STEP_LARGE = 1024, SMALL = 16 * 1024, TROUBLE_S = 30 };

void sim_values_free(struct sim *s)
{
    MT_MAP_EACH(&s->values, entry)
        free(entry->value.ptr);
    mt_map_fini(&s->values);
    mt_vec_fini(&s->pinned);
}

static uint64_t size_of(const struct sim *s, int64_t value)
{
    uint64_t x = (uint64_t)value * UINT64_C(0x9e3779b97f4a7c15) >> 20;
    if (x % (s->config.is_short ? 3 : 8) == 0) /* a run of chunks */
        return 22000 + x / 8 % 100000;
    if (x % 8 >= 5) /* small ones, which share a connection */
        return SIM_VALUE_SMALL_MIN + x / 8 % (SIM_CHUNK - SIM_VALUE_SMALL_MIN);
    return SIM_VALUE_MIN + x / 8 % 12000;
}

bool sim_value_is_small(const struct sim *s, int64_t value)
{
    return size_of(s, value) <= SIM_CHUNK;
}

struct sim_value *sim_value_of(struct sim *s, mt_id id)
{
    return mt_map_ptr(&s->values, id);
}

struct sim_value *sim_value_new(struct sim *s, mt_id id, int64_t value)
{
    struct sim_value *v = sim_value_of(s, id);
    if (v) {
        SIM_REQUIRE(s, v->value == value, "I5: two attempts make two values of one id");
        return v;
    }
    v = sim_alloc(sizeof *v);
    v->id = id;
    v->value = value;
    v->size = size_of(s, value);
    if (mt_map_put_ptr(&s->values, id, v).code)
        abort();
    return v;
}

void sim_value_published(struct sim_value *v, uint32_t node, uint64_t raylet)
{
    v->node[v->written % SIM_WRITERS_MAX] = node;
    v->raylet[v->written % SIM_WRITERS_MAX] = raylet;
    v->written++;
}

/* ---- bytes -------------------------------------------------------------------------------------------------------- */

static uint64_t word_at(const struct sim_value *v, uint64_t offset)
{
    if (offset == 0)
        return (uint64_t)v->value;
    return (v->id.process ^ v->id.counter_index * UINT64_C(0x9e3779b97f4a7c15)) + offset * UINT64_C(0xd6e8feb86659fd93);
}

static uint64_t step_of(const struct sim_value *v)
{
    return v->size <= SMALL ? STEP_SMALL : STEP_LARGE;
}

void sim_value_fill(const struct sim_value *v, uint8_t *data, uint64_t from, uint64_t to)
{
    uint64_t step = step_of(v);
    for (uint64_t at = (from + step - 1) / step * step; at < to && at + 8 <= v->size; at += step) {
        uint64_t word = word_at(v, at);
        memcpy(data + at, &word, sizeof word);
    }
}

/* The first offset from which on something else stands there; v->size: all is right. */
static uint64_t differs_at(const struct sim_value *v, const uint8_t *data, uint64_t step)
{
    for (uint64_t at = 0; at + 8 <= v->size; at += step) {
        uint64_t word;
        memcpy(&word, data + at, sizeof word);
        if (word != word_at(v, at))
            return at;
    }
    return v->size;
}

static void require_whole(struct sim *s, const struct sim_reading *r, uint64_t step, const char *when)
{
    uint64_t at = differs_at(r->v, r->data, step);
    SIM_REQUIRE(s, at == r->v->size, "I5: a pinned value is not what was written, %s: byte %llu of %llu, of %llx.%llu", when,
                (unsigned long long)at, (unsigned long long)r->v->size, (unsigned long long)r->v->id.process,
                (unsigned long long)mt_id_counter(r->v->id));
}

/* ---- pins --------------------------------------------------------------------------------------------------------- */

void sim_value_pinned(struct sim *s, struct sim_reading *r)
{
    r->v = sim_value_of(s, r->asked.id);
    SIM_REQUIRE(s, r->v && r->at.size == r->v->size, "I5: a value is pinned that nobody wrote");
    require_whole(s, r, step_of(r->v), "at first sight");
    s->counters.value_pinned++;
    if (!r->p->objects.is_disowned && mt_vec_push(&s->pinned, r).code)
        abort();
}

void sim_value_unpinned(struct sim *s, struct sim_reading *r)
{
    for (size_t i = 0; i < s->pinned.count; i++)
        if (s->pinned.data[i] == r) {
            mt_vec_remove_swap(&s->pinned, i);
            require_whole(s, r, step_of(r->v), "when it is let go");
            return;
        }
}

/* Some of the bytes, for this is done after every event. */
void sim_values_check(struct sim *s)
{
    for (size_t i = 0; i < s->pinned.count; i++) {
        const struct sim_reading *r = s->pinned.data[i];
        require_whole(s, r, (r->v->size / 3 / STEP_LARGE + 1) * STEP_LARGE, "after an event");
    }
}

void sim_values_written(struct sim *s, uint64_t raylet, const struct os_place *place, uint64_t size)
{
    for (size_t i = 0; i < s->pinned.count; i++) {
        const struct sim_reading *r = s->pinned.data[i];
        if (sim_node_serial(r->p->n) == raylet && r->at.segment == place->segment)
            SIM_REQUIRE(s, r->at.offset + r->at.size + OS_HEADER_SIZE <= place->offset || r->at.offset >= place->offset + size,
                        "I5: a place is written that somebody pins");
    }
}

void sim_values_hand_back(struct sim *s, uint64_t raylet, uint32_t segment, uint64_t offset)
{
    for (size_t i = 0; i < s->pinned.count; i++) {
        const struct sim_reading *r = s->pinned.data[i];
        SIM_REQUIRE(s, sim_node_serial(r->p->n) != raylet || r->at.segment != segment || r->at.offset != offset,
                    "I5: a place of segment %u is handed back that process %llu pins, of %llx.%llu", segment,
                    (unsigned long long)r->p->process, (unsigned long long)r->v->id.process,
                    (unsigned long long)mt_id_counter(r->v->id));
    }
}

/* ---- reads that failed -------------------------------------------------------------------------------------------- */

/* The raylet that keeps the value has restarted since, or nobody knows which one that was. */
static bool is_home_gone(struct sim *s, const struct sim_value *v, uint32_t node)
{
    for (uint32_t i = v->written > SIM_WRITERS_MAX ? v->written - SIM_WRITERS_MAX : 0; i < v->written; i++)
        if (v->node[i % SIM_WRITERS_MAX] == node && sim_node_of(s, v->raylet[i % SIM_WRITERS_MAX]))
            return false;
    return true;
}

static struct sim_proc *living(struct sim *s, uint64_t process)
{
    MT_MAP_EACH(&s->procs, entry)
        if (((struct sim_proc *)entry->value.ptr)->process == process)
            return entry->value.ptr;
    return NULL;
}

static bool has_lost(const struct sim_node *n, uint32_t node)
{
    return n && n->lost >> node % 64 & 1;
}

/* Two nodes that can't reach each other for long hold each other dead, though the head hears both: what the processes of
 * the one kept on the other, or held of it, is gone when the link is back. */
static bool is_parted(struct sim *s, const struct sim_value *v, const struct sim_proc *owner, const struct sim_proc *reader)
{
    for (uint32_t i = v->written > SIM_WRITERS_MAX ? v->written - SIM_WRITERS_MAX : 0; i < v->written; i++)
        if (has_lost(sim_node_of(s, v->raylet[i % SIM_WRITERS_MAX]), owner->own.node))
            return true;
    return has_lost(owner->n, reader->own.node);
}

/* The actor of a call is dead, or nobody has it any more. */
static bool is_actor_over(const struct sim_proc *owner, const struct sim_task *call)
{
    const struct own_actor *actor = mt_map_ptr(&owner->own.actors, call->actor);
    return !actor || actor->state == OWN_ACTOR_DEAD || actor->is_ending;
}

/* A task's result that its owner can't make again: freed, or its retries are used up, or its actor is dead, or that is so of its
 * argument. A run that was claimed and did not begin is a retry too: one of them is allowed for. */
static bool may_be_lost(struct sim *s, const struct sim_proc *owner, mt_id id)
{
    for (int depth = 0; !mt_id_is_zero(id) && depth < 100; depth++) {
        const struct sim_value *v = sim_value_of(s, id);
        const struct sim_task  *t = sim_oracle_task(s, v && !mt_id_is_zero(v->maker) ? v->maker : mt_id_with_index(id, 0));
        if (v && v->is_freed)
            return true;
        if (!t)
            return depth == 0; /* what was put is its owner's to keep, as an argument too */
        if (v && t->retries >= 0 && t->executions + 1 > (uint32_t)t->retries)
            return true;
        if ((t->kind == SIM_CALL && is_actor_over(owner, t)) || (!mt_id_is_zero(v ? v->maker : (mt_id){0, 0}) && t->has_failed))
            return true;
        id = t->argument;
    }
    return false;
}

/* ---- values of nodes that leave ----------------------------------------------------------------------------------- */

void sim_value_adopted(struct sim *s, const struct sim_node *n, const struct ctl_moved *word)
{
    const struct sim_proc *owner = living(s, word->from.id.process);
    const struct own_ref  *ref = owner ? mt_map_ptr(&owner->own.refs, word->from.id) : NULL;
    struct sim_value      *v = sim_value_of(s, word->from.id);
    SIM_REQUIRE(s, v, "I18: a value is adopted that nobody wrote");
    SIM_REQUIRE(s,
                !ref || ref->state != OWN_REF_PLACE || !own_ref_has_place(ref) ||
                    own_ref_place((struct own *)&owner->own, ref)->node != word->from.node || owner->objects.is_disowned,
                "I18: the value %llx.%llu counts as adopted, and its owner looks for it at its former place",
                (unsigned long long)v->id.process, (unsigned long long)mt_id_counter(v->id));
    sim_value_published(v, n->sh->node, n->serial);
    s->counters.value_adopted++;
}

/* The node with that number, if its raylet is the one that counts as a home of the value. */
static struct sim_node *home_of(struct sim *s, const struct sim_value *v, uint32_t node)
{
    for (uint32_t i = v->written > SIM_WRITERS_MAX ? v->written - SIM_WRITERS_MAX : 0; i < v->written; i++)
        if (v->node[i % SIM_WRITERS_MAX] == node)
            return sim_node_of(s, v->raylet[i % SIM_WRITERS_MAX]);
    return NULL;
}

void sim_values_check_adopted(struct sim *s)
{
    MT_MAP_EACH(&s->procs, at) {
        struct sim_proc *owner = at->value.ptr;
        if (!owner->own.process || owner->objects.is_disowned)
            continue;
        MT_MAP_EACH(&owner->own.refs, entry) {
            const struct own_ref   *ref = entry->value.ptr;
            const struct sim_value *v = sim_value_of(s, ref->id);
            if (!v || ref->state != OWN_REF_PLACE || ref->again != OWN_AGAIN_MOVED ||
                ref->flags & (OWN_REF_BORROWED | OWN_REF_FREED))
                continue;
            const struct lane_ref *place = own_ref_place(&owner->own, ref);
            const struct sim_node *n = home_of(s, v, place->node);
            bool is_apart = !n || has_lost(n, owner->own.node) || has_lost(owner->n, place->node) || n->sh->node != place->node;
            SIM_REQUIRE(s, is_apart || sim_store_holds(n, place),
                        "I18: the value %llx.%llu is not on node %u, where its owner looks for it",
                        (unsigned long long)v->id.process, (unsigned long long)mt_id_counter(v->id), place->node);
        }
    }
}

/* ---- copies ------------------------------------------------------------------------------------------------------- */

struct copy {
    uint64_t        raylet;
    uint64_t        made_at;
    struct lane_ref ref;
};

/* Neither stood still, and nothing was in the way between them. */
static bool is_quiet_since(struct sim *s, const struct sim_node *a, const struct sim_node *b, uint64_t since)
{
    return a->paused_until <= since && b->paused_until <= since && sim_net_cut_until(s, a->index, b->index) <= since &&
           sim_net_cut_until(s, b->index, a->index) <= since && !has_lost(a, b->sh->node) && !has_lost(b, a->sh->node);
}

static void copy_check(struct sim *s, struct sim_event *e)
{
    struct copy c;
    memcpy(&c, e->bytes, sizeof c);
    const struct sim_node  *n = sim_node_of(s, c.raylet);
    const struct sim_proc  *owner = living(s, c.ref.id.process);
    const struct own_ref   *ref = owner && !owner->objects.is_disowned ? mt_map_ptr(&owner->own.refs, c.ref.id) : NULL;
    const struct sim_value *v = sim_value_of(s, c.ref.id);
    struct lane_ref         here;
    if (!n || !ref || v->is_freed || v->is_dropped || ref->state != OWN_REF_PLACE || !own_ref_has_place(ref) ||
        !own_place_is(own_ref_place((struct own *)&owner->own, ref), &c.ref) || has_lost(owner->n, c.ref.node))
        return;
    if (os_store_copy_find(sh_store_of(n->sh), c.ref.id, &here).code || here.attempt != c.ref.attempt ||
        !is_quiet_since(s, n, owner->n, c.made_at))
        return;
    s->counters.copy_checked++;
    SIM_REQUIRE(s, sh_known_has(owner->n->sh, c.ref.id), "I19: node %u has a copy of %llx.%llu, and its owner's node does not know",
                n->sh->node, (unsigned long long)c.ref.id.process, (unsigned long long)mt_id_counter(c.ref.id));
}

void sim_copy_made(struct sim *s, const struct sim_node *n, const struct lane_ref *ref)
{
    struct copy       c = {.raylet = n->serial, .made_at = s->now, .ref = *ref};
    struct sim_event *e;
    if (ref->node == ref->owner_node)
        return; /* it is lost only with its owner */
    e = sim_after(s, 2 * SIM_S, "copy", copy_check, 0);
    e->bytes = sim_alloc(e->size = sizeof c);
    memcpy(e->bytes, &c, sizeof c);
}

/* Some node holds the owner's dead, or did: it can't fetch what stands there. */
static bool is_anyone_parted(struct sim *s, const struct sim_proc *owner)
{
    for (int i = 0; i < s->config.nodes; i++)
        if (has_lost(s->nodes[i], owner->own.node))
            return true;
    return false;
}

void sim_value_lost(struct sim *s, const struct sim_reading *r)
{
    const struct sim_value *v = sim_value_of(s, r->asked.id);
    struct sim_proc        *owner = v ? living(s, v->id.process) : NULL;
    bool                    is_troubled = s->now < s->config.faults_until + TROUBLE_S * SIM_S;
    SIM_REQUIRE(s, v, "I5: a value that nobody wrote is asked for");
    s->counters.value_lost += r->code == MT_EOBJ_LOST;
    s->counters.value_orphaned += r->code == MT_EOWNER_DIED;
    const mt_map_entry *died = mt_map_find(&s->died_at, mt_map_key(r->asked.id.process));
    SIM_REQUIRE(s, r->code != MT_EOBJ_LOST || !died || died->value.num > r->doubted_at,
                "I5: a borrower hears that a value is lost, not that its owner had died");
    SIM_REQUIRE(s, r->code != MT_EOWNER_DIED || !owner, "I5: a borrower is told that a living owner has died");
    SIM_REQUIRE(s,
                (r->code != MT_EOBJ_LOST && r->code != MT_ENODE_DIED) || !owner || may_be_lost(s, owner, v->id) ||
                    (v->is_dropped && !r->is_borrowed && !r->mine) || is_anyone_parted(s, owner),
                "I14: the result %llx.%llu of a living owner, which can be made again, is lost (%s): %s",
                (unsigned long long)v->id.process, (unsigned long long)mt_id_counter(v->id), mt_code_name(r->code),
                r->doubt.why.message);
    if (v->is_freed || (v->is_dropped && !r->is_borrowed) || !owner || is_home_gone(s, v, r->asked.node) ||
        is_parted(s, v, owner, r->p)) {
        SIM_REQUIRE(s,
                    r->code == MT_EOBJ_LOST || r->code == MT_ENODE_DIED || r->code == MT_ECANCELLED || is_troubled ||
                        (r->code == MT_EOWNER_DIED && !owner),
                    "I5: a value that is gone fails with %s", mt_code_name(r->code));
        return;
    }
    SIM_REQUIRE(s, r->code != MT_EOBJ_LOST || r->doubted_for != MT_EOBJ_LOST,
                "I5: the value %llx.%llu of a living owner is lost on node %d: dropped %d, borrowed %d, read by process %d",
                (unsigned long long)v->id.process, (unsigned long long)mt_id_counter(v->id), sim_node_index(r->p->n), v->is_dropped,
                r->is_borrowed, (int)r->p->serial);
    SIM_REQUIRE(s, is_troubled || s->config.is_short, "I10: a value can't be read long after the last fault: %s",
                mt_code_name(r->code));
}
