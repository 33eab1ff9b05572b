/* SPDX-License-Identifier: Apache-2.0
 *
 * main.c - sim_scaler: the scaler's core against a provider that lies, nodes that come late or never, and a head that is killed
 *          at its store writes. Virtual time, one seed a run; what breaks is printed with its seed.
 *
 *   sim_scaler [--seeds A-B] [--plant N] [--first] [--trace]
 *
 * Owns: the world. Thread: one.
 *
 * What must hold:
 *   E1  an instance has its record before the provider is asked, whatever happens between
 *   E2  never more instances of a type than its maximum
 *   E3  when the faults end: nothing runs without a record, nothing twice, no record without what it is about
 *   E4  what waits and could run does run in the end
 *   E5  where nothing fails: no node is started that nothing ever runs on, also where a boot is longer than the idle limit
 *   E9  what is wished for, and can be had, comes
 *   E10 where nothing fails: no spot node without so many others as there must be
 *   E12 where nothing fails: no node is started again for the work of one that was given back while it was little used
 *   E13 only what can move is on a node that is given back while it is in use
 *   E11 a zone that has taken a node away just now is not chosen where another can be had
 *   E7  where nothing waits any more, no more than the minimum is left
 *   E8  what the provider says will never be a node is not waited for
 *   E14 a provider that starts several at once waits for none that does not come
 *   E15 of a type of which nobody has told yet what one has, no more than one is started
 *   E6  after `down` nothing runs, and no record is left; nothing that ran ended before its time but by a death
 */
#include "core/base/plant.h"
#include "tests/sim/scaler/world.h"

#ifdef MANTA_PLANTS
int mt_plant;
#endif
static const char *const kinds[] = {"CPU", "GPU"};
static bool              is_traced;

void breach(struct world *w, const char *what, uint64_t a, uint64_t b)
{
    if (w->breach)
        return;
    snprintf(w->text, sizeof w->text, "%s (%" PRIu64 ", %" PRIu64 ") at %" PRIu64 " ms", what, a, b, w->now);
    w->breach = w->text;
}

void note(const struct world *w, const char *what, uint64_t a, uint64_t b)
{
    if (is_traced)
        printf("%7" PRIu64 " %-28s %" PRIu64 " %" PRIu64 "\n", w->now, what, a, b);
}

/* ---- the store ---- */

static struct scl_instance *record_find(struct world *w, uint64_t number)
{
    for (uint32_t i = 0; i < w->record_count; i++)
        if (w->records[i].number == number)
            return &w->records[i];
    return NULL;
}

static void record_write(struct world *w, const struct scl_instance *i)
{
    struct scl_instance *at = record_find(w, i->number);
    w->stored_next = scl_next_number(w->scl) > w->stored_next ? scl_next_number(w->scl) : w->stored_next;
    if (i->state == SCL_GONE) {
        if (at)
            *at = w->records[--w->record_count];
        return;
    }
    if (!at && w->record_count == RECORDS_MAX)
        abort();
    if (!at)
        at = &w->records[w->record_count++];
    *at = *i;
}

static uint32_t type_of(const struct world *w, const struct scl_instance *i)
{
    for (uint32_t t = 0; t < w->type_count; t++)
        if (strcmp(w->types[t].name, i->type) == 0 && strcmp(w->types[t].zone, i->zone) == 0)
            return t;
    abort();
}

/* ---- the provider ---- */

static void answer_later(struct world *w, enum scl_event_kind kind, uint64_t number, uint64_t sequence, enum scl_outcome outcome,
                         const char *handle, uint64_t after_ms)
{
    for (int i = 0; i < ANSWERS_MAX; i++)
        if (!w->answers[i].is_on) {
            w->answers[i] = (struct answer){true, kind, w->now + after_ms, number, sequence, outcome, ""};
            snprintf(w->answers[i].handle, sizeof w->answers[i].handle, "%s", handle);
            return;
        }
    abort();
}

/* Several that started at once wait in a queue, begin and end together; 0: no end. */
struct together {
    uint64_t starts_ms, dies_ms;
};

static struct together together_make(struct world *w)
{
    struct together all = {.starts_ms = w->now};
    bool            is_bad = w->now < FAULTS_END_MS;
    if (!w->together)
        return all;
    all.starts_ms += mt_rng_below(&w->rng, is_bad && chance(w, w->slow) ? 80000 : 2000);
    if (is_bad && chance(w, w->dies))
        all.dies_ms = all.starts_ms + mt_rng_below(&w->rng, 2 * w->boot_ms);
    return all;
}

static struct thing *thing_start(struct world *w, uint64_t number, uint32_t type, const struct together *all)
{
    if (w->thing_count == THINGS_MAX)
        abort();
    struct thing *t = &w->things[w->thing_count++];
    *t = (struct thing){.number = number, .type = type, .runs = true, .starts_ms = all->starts_ms, .dies_ms = all->dies_ms};
    snprintf(t->handle, sizeof t->handle, "h%u", w->thing_count);
    t->joins_ms = t->starts_ms + w->boot_ms / 2 + mt_rng_below(&w->rng, w->boot_ms);
    if (w->now < FAULTS_END_MS && chance(w, w->never))
        t->joins_ms = 0;
    if (!t->joins_ms && chance(w, w->fails))
        t->has_failed = true; /* as a container whose image is not there */
    if (w->now < FAULTS_END_MS && chance(w, w->dies))
        t->dies_ms = t->starts_ms + mt_rng_below(&w->rng, 2 * w->boot_ms);
    t->cpus = w->is[type].resources[0].total;
    t->gpus = w->is[type].resources[1].total;
    return t;
}

/* Where nothing but outages fails: another zone that has had none is as good, and has as much room. */
static void check_zone(struct world *w, uint32_t type)
{
    bool is_fresh = w->taken_ms[type] > w->head_ms && w->now - w->taken_ms[type] < MT_SCL_AVOID_MS / 2;
    for (uint32_t o = 0; o < w->type_count; o++)
        if (is_fresh && w->has_outages_only && o != type && strcmp(w->types[o].name, w->types[type].name) == 0 && !w->out_until[o])
            breach(w, "E11: started where one was taken away just now", type, w->taken_ms[type]);
}

static struct thing *thing_of(struct world *w, uint64_t number)
{
    struct thing *t = NULL;
    for (uint32_t k = 0; k < w->thing_count; k++)
        if (w->things[k].runs && w->things[k].number == number)
            t = &w->things[k];
    return t;
}

/* Carries out what has been gathered; its faults are those of all. */
static void launch_gathered(struct world *w)
{
    uint32_t        type = w->gathered_count ? type_of(w, &w->gathered[0]) : 0;
    bool            is_bad = w->now < FAULTS_END_MS, is_out = w->now < w->out_until[type];
    uint64_t        after = STEP_MS + (is_bad && chance(w, w->slow) ? mt_rng_below(&w->rng, 20000) : 0);
    bool            is_refused = is_bad && (is_out || chance(w, w->refuses));
    bool            is_twice = is_bad && chance(w, w->twice), is_lost = is_bad && chance(w, w->loses);
    struct together all = together_make(w);
    for (uint32_t k = 0; k < w->gathered_count; k++) {
        uint64_t      number = w->gathered[k].number;
        struct thing *t = thing_of(w, number);
        if (!t && is_refused) {
            answer_later(w, SCL_EV_LAUNCHED, number, 0, SCL_REFUSED, "", after);
            continue;
        }
        if (!t) /* the same again: no second one */
            t = thing_start(w, number, type, &all);
        if (is_twice)
            (void)thing_start(w, number, t->type, &all);
        answer_later(w, SCL_EV_LAUNCHED, number, 0, is_lost ? SCL_UNKNOWN : SCL_DONE, is_lost ? "" : t->handle,
                     is_lost ? 60000 : after);
    }
    w->gathered_count = 0;
}

static void check_unknown(struct world *w, uint32_t type)
{
    uint32_t live = 0;
    for (uint32_t i = 0; i < w->record_count; i++)
        live += strcmp(w->records[i].type, w->types[type].name) == 0 && w->records[i].state <= SCL_JOINED;
    if (w->types[type].is_unknown && live > 1)
        breach(w, "E15: several of what is not known are started", type, live);
}

static void launch(struct world *w, const struct scl_action *a)
{
    const struct scl_instance *i = &a->instance;
    struct scl_instance       *record = record_find(w, i->number);
    note(w, "launch", i->number, a->more);
    w->launches++;
    if (!record || record->state != SCL_LAUNCHING)
        breach(w, "E1: an instance is launched that has no record of it", i->number, 0);
    check_zone(w, type_of(w, i));
    check_unknown(w, type_of(w, i));
    if (w->is_calm && w->spared_ms && w->now - w->spared_ms < 2 * w->consolidate_ms && w->arrived <= w->spared)
        breach(w, "E12: one was given back, and is started again", i->number, w->spared_ms);
    if (w->gathered_count && type_of(w, &w->gathered[0]) != type_of(w, i))
        launch_gathered(w);
    w->gathered[w->gathered_count++] = *i;
    if (w->gathered_count >= w->together || a->more == 0)
        launch_gathered(w);
}

static void thing_end(struct world *w, struct thing *t)
{
    note(w, "ends", t->number, t->node);
    t->runs = false;
    if (t->node && w->scl) {
        struct scl_event e = {.kind = SCL_EV_NODE_GONE, .now_ms = w->now, .kinds = kinds, .gone = {t->node}};
        if (scl_step(w->scl, &e, &w->actions).code)
            abort();
    }
    uint32_t me = (uint32_t)(t - w->things) + 1;
    if (load_wishers_on(w, me) && t->was_drained && !w->is_down && !(t->dies_ms && w->now >= t->dies_ms))
        breach(w, "E6: a node that was in use was given back", t->node, 0);
    load_wishers_lose(w, me);
    for (uint32_t j = 0; j < w->job_count; j++)
        for (uint32_t b = 0; b < w->jobs[j].bundles; b++)
            if (w->jobs[j].is_there && w->jobs[j].places[b] == me) {
                if (t->was_drained && !w->is_down && !(t->dies_ms && w->now >= t->dies_ms))
                    breach(w, "E6: a node that was in use was given back", t->node, j);
                w->jobs[j].places[b] = 0;
                w->jobs[j].ends_ms = 0;
            }
}

static void terminate(struct world *w, const struct scl_instance *i)
{
    note(w, "terminate", i->number, 0);
    for (uint32_t k = 0; k < w->thing_count; k++) {
        struct thing *t = &w->things[k];
        if (t->runs && t->number == i->number && (!i->handle[0] || strcmp(i->handle, t->handle) == 0) && !t->kill_ms)
            t->kill_ms = w->now + STEP_MS;
    }
    answer_later(w, SCL_EV_TERMINATED, i->number, 0, SCL_DONE, "", STEP_MS);
}

/* A node in use is given back. */
static void spared(struct world *w, uint32_t place)
{
    const struct thing *t = &w->things[place - 1];
    if (!load_can_move(w, place))
        breach(w, "E13: what can't move is on a node that is given back", t->number, t->node);
    w->spared = w->is[t->type].resources[0].total - t->cpus;
    w->spared_ms = w->now;
    w->arrived = 0;
    w->spares++;
}

static void drain(struct world *w, const struct scl_action *a)
{
    w->drains++;
    note(w, "drain", a->instance.number, a->instance.node);
    for (uint32_t k = 0; k < w->thing_count; k++)
        if (w->things[k].runs && w->things[k].node == a->instance.node) {
            w->things[k].is_draining = true;
            w->things[k].was_drained = strncmp(a->instance.why, "idle", 4) == 0;
            if (strncmp(a->instance.why, "little", 6) == 0)
                spared(w, k + 1);
            if (w->is_down)
                w->things[k].kill_ms = w->now + a->limit_ms;
            w->wants_tell = true;
        }
}

/* ---- the head: carries out what the core says, and is killed at a store write ---- */

static void check_maximum(struct world *w)
{
    for (uint32_t t = 0; t < w->type_count; t++) {
        uint32_t live = 0;
        for (uint32_t i = 0; i < w->record_count; i++)
            live += strcmp(w->records[i].type, w->types[t].name) == 0 && w->records[i].state <= SCL_JOINED;
        if (live > w->types[t].max)
            breach(w, "E2: more instances than the maximum", live, w->types[t].max);
    }
}

static void check_floor(struct world *w)
{
    uint32_t spot = 0, others = 0;
    for (uint32_t i = 0; i < w->record_count; i++)
        if (w->records[i].state <= SCL_JOINED)
            *(w->types[type_of(w, &w->records[i])].is_spot ? &spot : &others) += 1;
    if (spot > 0 && others < w->floor)
        breach(w, "E10: spot nodes, and fewer others than there must be", others, w->floor);
}

/* False: the head was killed here. */
static bool write_survives(struct world *w, const struct scl_instance *i)
{
    bool is_last = w->crash_in && --w->crash_in == 0;
    if (!is_last || w->is_after)
        record_write(w, i);
    check_maximum(w);
    return !is_last;
}

static void carry_out(struct world *w)
{
    for (size_t k = 0; k < w->actions.list.count && !w->has_crashed; k++) {
        const struct scl_action a = w->actions.list.data[k];
        switch (a.kind) {
        case SCL_ACT_STORE: w->has_crashed = !write_survives(w, &a.instance); break;
        case SCL_ACT_LAUNCH: launch(w, &a); break;
        case SCL_ACT_TERMINATE: terminate(w, &a.instance); break;
        case SCL_ACT_DRAIN: drain(w, &a); break;
        case SCL_ACT_LIST:
            answer_later(w, SCL_EV_LISTED, 0, a.sequence,
                         w->now < FAULTS_END_MS && chance(w, w->bad_lists) ? SCL_UNKNOWN : SCL_DONE, "", STEP_MS);
            break;
        }
    }
    w->actions.list.count = 0;
    if (w->gathered_count && !w->has_crashed)
        breach(w, "E14: the provider waits for a launch that does not come", w->gathered[0].number, w->gathered_count);
    if (w->is_calm && !w->is_down)
        check_floor(w);
}

static void feed(struct world *w, struct scl_event *e)
{
    e->now_ms = w->now;
    e->kinds = kinds;
    if (scl_step(w->scl, e, &w->actions).code)
        abort();
    const char *why = scl_check(w->scl);
    if (why)
        breach(w, why, 0, 0);
    carry_out(w);
}

static void configure(struct world *w)
{
    struct scl_config c = {.types = w->types,
                           .count = w->type_count,
                           .on_demand_min = w->floor,
                           .is_down = w->is_down,
                           .consolidate_ms = w->consolidate_ms};
    if (scl_configure(w->scl, &c).code)
        abort();
}

static void head_start(struct world *w)
{
    scl_free(w->scl);
    w->actions.list.count = 0;
    memset(w->answers, 0, sizeof w->answers); /* its provider's program ends with it */
    if (scl_new(w->now, &w->scl).code)
        abort();
    configure(w);
    for (uint32_t i = 0; i < w->record_count; i++)
        if (scl_load(w->scl, &w->records[i]).code)
            abort();
    scl_load_next(w->scl, w->stored_next);
    for (uint32_t k = 0; k < w->thing_count; k++)
        w->things[k].shown_failed = 0;
    w->has_crashed = false;
    w->gathered_count = 0; /* its provider ends with a head */
    w->wants_tell = true;
    w->crashes++;
    w->head_ms = w->now;
    note(w, "head starts", w->crashes, w->record_count);
    w->crash_in = w->kills && w->now < FAULTS_END_MS ? 1 + (uint32_t)mt_rng_below(&w->rng, 40) : 0;
    w->is_after = chance(w, 50);
}

/* ---- the cluster ---- */

/* A node that is there tells what those of its type have: the head stores it, and may be killed there. */
static void learn(struct world *w, uint32_t type)
{
    bool is_less = w->is[type].resources[0].total < w->types[type].place.resources[0].total, is_last;
    if (!w->types[type].is_unknown && !is_less)
        return;
    note(w, "learns", type, w->is[type].resources[0].total);
    is_last = w->crash_in && --w->crash_in == 0;
    for (uint32_t z = 0; z < w->type_count && (!is_last || w->is_after); z++)
        if (strcmp(w->types[z].name, w->types[type].name) == 0) {
            w->types[z].place = w->is[z];
            w->types[z].is_unknown = false;
            w->types[z].is_learnt = true;
        }
    w->has_crashed = is_last;
    if (!is_last)
        configure(w);
}

static void tell_node(struct world *w, struct thing *t)
{
    struct policy_node node = w->is[t->type];
    learn(w, t->type);
    if (w->has_crashed)
        return;
    node.id = t->node;
    node.state = t->is_draining ? POLICY_DRAINING : POLICY_ALIVE;
    node.resources[0].free = t->cpus;
    node.resources[1].free = t->gpus;
    struct scl_event e = {.kind = SCL_EV_NODE};
    e.node.place = &node;
    e.node.is_busy = t->cpus < node.resources[0].total;
    e.node.can_move = load_can_move(w, (uint32_t)(t - w->things) + 1);
    e.node.instance = t->number;
    e.node.handle = t->handle;
    feed(w, &e);
}

static void tell(struct world *w)
{
    static struct scl_demand     demands[JOBS_MAX + WISHERS_MAX];
    static struct policy_request requests[JOBS_MAX * GANG_MAX + WISHERS_MAX];
    static uint32_t              held[JOBS_MAX * GANG_MAX];
    uint32_t                     n = 0, r = 0, h = 0;
    memset(demands, 0, sizeof demands);
    memset(requests, 0, sizeof requests);
    for (uint32_t k = 0; k < w->thing_count && !w->has_crashed; k++)
        if (w->things[k].runs && w->things[k].node)
            tell_node(w, &w->things[k]);
    for (uint32_t j = 0; j < w->job_count; j++) {
        struct job *job = &w->jobs[j];
        uint32_t    missing = 0;
        for (uint32_t b = 0; job->is_there && b < job->bundles; b++)
            missing += job->places[b] == 0;
        if (!missing)
            continue;
        demands[n] = (struct scl_demand){.kind = job->bundles > 1 ? SCL_GANG : SCL_LEASES,
                                         .count = missing,
                                         .strategy = POLICY_GROUP_STRICT_SPREAD,
                                         .requests = &requests[r],
                                         .held = &held[h]};
        for (uint32_t b = 0; b < job->bundles; b++) {
            if (job->places[b]) {
                held[h++] = w->things[job->places[b] - 1].node;
                demands[n].held_count++;
                continue;
            }
            requests[r].amount_count = 1;
            requests[r++].amounts[0] = (struct policy_amount){0, job->cpus};
        }
        n++;
    }
    for (uint32_t i = 0; i < w->wisher_count; i++) {
        const struct wisher *one = &w->wishers[i];
        if (!one->is_there || one->told == 0)
            continue;
        demands[n++] = (struct scl_demand){
            .kind = SCL_WISH, .count = one->told, .worth = 1000 / (one->has + 1), .requests = &requests[r], .held = held};
        requests[r].amount_count = 1;
        requests[r++].amounts[0] = (struct policy_amount){0, 2000};
    }
    if (w->has_crashed)
        return;
    struct scl_event e = {.kind = SCL_EV_DEMANDS, .demands = {demands, n}};
    feed(w, &e);
    w->wants_tell = false;
}

static void things_run(struct world *w)
{
    for (uint32_t k = 0; k < w->thing_count; k++) {
        struct thing *t = &w->things[k];
        uint32_t      me = k + 1;
        if (!t->runs)
            continue;
        bool is_used = load_is_on(w, me);
        if (!t->node && t->joins_ms && w->now >= t->joins_ms && !t->kill_ms) {
            t->node = ++w->next_node;
            note(w, "joins", t->number, t->node);
            w->wants_tell = true;
        }
        if ((t->kill_ms && w->now >= t->kill_ms) || (t->dies_ms && w->now >= t->dies_ms) || (t->is_draining && !is_used)) {
            if (w->is_calm && !t->was_used && !w->is_down)
                breach(w, "E5: a node was started that nothing ran on", t->number, t->node);
            thing_end(w, t);
            w->wants_tell = true;
        }
    }
}

/* All of a zone that are there go, with a notice or without, and none can be had for a while. */
static void zone_goes(struct world *w, uint32_t type)
{
    w->out_until[type] = w->now + 2000 + mt_rng_below(&w->rng, 20000);
    note(w, "zone goes", type, w->out_until[type]);
    for (uint32_t k = 0; k < w->thing_count; k++) {
        struct thing *t = &w->things[k];
        bool          is_noticed = chance(w, 50);
        if (!t->runs || t->type != type)
            continue;
        if (t->node && !t->is_draining && !w->is_down)
            w->taken_ms[type] = w->now;
        t->dies_ms = w->now + (is_noticed ? 1000 + mt_rng_below(&w->rng, 4000) : 0);
        t->is_draining = t->is_draining || (is_noticed && t->node);
        w->wants_tell = true;
    }
}

static void zones_run(struct world *w)
{
    for (uint32_t t = 0; t < w->type_count; t++)
        if (w->types[t].is_spot && w->now < FAULTS_END_MS && w->now >= w->out_until[t] && mt_rng_below(&w->rng, 1000) < w->outages)
            zone_goes(w, t);
}

static struct scl_listed show(struct world *w, struct thing *t, bool is_good)
{
    const struct scl_instance *record = record_find(w, t->number);
    struct scl_listed          item = {.instance = t->number, .is_waiting = w->now < t->starts_ms};
    snprintf(item.handle, sizeof item.handle, "%s", t->handle);
    if (t->has_failed)
        snprintf(item.failed, sizeof item.failed, "its image is not there");
    bool boots = record && record->state == SCL_BOOTING && strcmp(record->handle, t->handle) == 0;
    /* A bad listing says nothing, and neither does one that began before the launch was answered. */
    t->shown_failed = t->has_failed && boots ? t->shown_failed + is_good : 0;
    if (t->shown_failed > 3)
        breach(w, "E8: it is waited for although it has failed", t->number, t->shown_failed);
    return item;
}

static void answers_give(struct world *w)
{
    static struct scl_listed list[THINGS_MAX];
    for (int i = 0; i < ANSWERS_MAX && !w->has_crashed; i++) {
        struct answer *a = &w->answers[i];
        if (!a->is_on || w->now < a->at_ms)
            continue;
        struct scl_event e = {.kind = a->kind};
        struct answer    said = *a;
        a->is_on = false;
        if (said.kind == SCL_EV_LISTED) {
            e.listed.sequence = said.sequence;
            e.listed.is_good = said.outcome == SCL_DONE;
            e.listed.items = list;
            for (uint32_t k = 0; k < w->thing_count; k++)
                if (w->things[k].runs)
                    list[e.listed.count++] = show(w, &w->things[k], e.listed.is_good);
        } else {
            e.answer.instance = said.number;
            e.answer.outcome = said.outcome;
            e.answer.handle = said.handle;
            e.answer.text = "a fault of the simulation";
        }
        feed(w, &e);
    }
}

/* ---- what must hold at the end ---- */

static void check_settled(struct world *w)
{
    for (uint32_t k = 0; k < w->thing_count; k++) {
        const struct thing *t = &w->things[k];
        if (t->runs && !record_find(w, t->number))
            breach(w, "E3: it runs without a record", t->number, t->node);
        for (uint32_t o = 0; o < k; o++)
            if (t->runs && w->things[o].runs && w->things[o].number == t->number)
                breach(w, "E3: it runs twice", t->number, t->node);
    }
    for (uint32_t i = 0; i < w->record_count; i++) {
        bool runs = false;
        for (uint32_t k = 0; k < w->thing_count; k++)
            runs = runs || (w->things[k].runs && w->things[k].number == w->records[i].number);
        if (!runs)
            breach(w, "E3: a record is about nothing", w->records[i].number, w->records[i].state);
    }
    for (uint32_t t = 0; t < w->type_count; t++) {
        uint32_t runs = 0;
        for (uint32_t k = 0; k < w->thing_count; k++)
            runs += w->things[k].runs && strcmp(w->types[w->things[k].type].name, w->types[t].name) == 0;
        if (runs > w->types[t].min)
            breach(w, "E7: nobody uses it and it is not given back", runs, w->types[t].min);
    }
    for (uint32_t j = 0; j < w->job_count; j++)
        if (w->jobs[j].is_there)
            breach(w, "E4: it could run and does not", j, w->jobs[j].bundles);
}

static void check_down(struct world *w)
{
    for (uint32_t k = 0; k < w->thing_count; k++)
        if (w->things[k].runs)
            breach(w, "E6: it runs after all went down", w->things[k].number, w->things[k].node);
    if (w->record_count)
        breach(w, "E6: a record is left after all went down", w->records[0].number, w->records[0].state);
    if (!scl_is_down(w->scl) && !w->breach)
        breach(w, "E6: it is not down", 0, 0);
}

/* ---- one run ---- */

static void type_make(struct world *w, const char *name, int64_t cpus, int64_t gpus, uint32_t min, uint32_t max)
{
    struct scl_type *t = &w->types[w->type_count++];
    *t = (struct scl_type){.min = min, .max = max, .boot_ms = 60000};
    snprintf(t->name, sizeof t->name, "%s", name);
    t->idle_ms = 500 + mt_rng_below(&w->rng, 8000);
    t->place.resource_count = 2;
    t->place.resources[0] = (struct policy_resource){0, cpus * 1000, cpus * 1000};
    t->place.resources[1] = (struct policy_resource){1, gpus * 1000, gpus * 1000};
    w->is[w->type_count - 1] = t->place;
}

/* The head does not know what a node of it has, or believes that it has more. */
static void type_hide(struct world *w, uint32_t type, bool is_wrong)
{
    struct scl_type *t = &w->types[type];
    if (is_wrong) {
        t->place.resources[0].total = t->place.resources[0].free = 2 * w->is[type].resources[0].total;
        return;
    }
    t->is_unknown = true;
    t->place.resource_count = 0;
    t->place.resources[0].total = t->place.resources[1].total = 0;
    t->min = t->min ? t->min : (uint32_t)mt_rng_below(&w->rng, 3);
}

/* Cheap, in two zones, and taken away again. */
static void spot_make(struct world *w, uint32_t max)
{
    bool     is_spread = chance(w, 50);
    uint64_t idle_ms = 500 + mt_rng_below(&w->rng, 8000);
    for (int z = 0; z < 2; z++) {
        type_make(w, "spot", 2, 0, 0, max);
        struct scl_type *t = &w->types[w->type_count - 1];
        t->is_spot = true;
        t->is_spread = is_spread;
        t->price = 300;
        t->idle_ms = idle_ms;
        snprintf(t->zone, sizeof t->zone, "%c", 'a' + z);
    }
    w->floor = (uint32_t)mt_rng_below(&w->rng, 4);
    w->outages = w->is_calm ? 0 : w->has_outages_only ? 2 : (uint32_t)mt_rng_below(&w->rng, 12);
}

static void world_make(struct world *w, uint64_t seed)
{
    *w = (struct world){.seed = seed, .rng = {seed * 0xd1342543de82ef95u}, .now = 1000};
    w->is_calm = seed % 4 == 0;
    w->boot_ms = 500 + mt_rng_below(&w->rng, 15000);
    if (w->is_calm) {
        type_make(w, "small", 2, 0, 0,
                  JOBS_MAX * GANG_MAX); /* room for all: else what waits may have taken the room of what comes */
    } else if (seed % 12 == 6) {
        w->has_outages_only = true;
        type_make(w, "small", 2, 0, 0, 8);
        type_make(w, "big", 8, 1, 0, 6);
    } else {
        type_make(w, "small", 2, 0, (uint32_t)mt_rng_below(&w->rng, 2), 8);
        type_make(w, "big", 8, 1, 0, 6);
        w->refuses = (uint32_t)mt_rng_below(&w->rng, 30);
        w->twice = (uint32_t)mt_rng_below(&w->rng, 20);
        w->loses = (uint32_t)mt_rng_below(&w->rng, 20);
        w->never = (uint32_t)mt_rng_below(&w->rng, 20);
        w->fails = 50;
        w->dies = (uint32_t)mt_rng_below(&w->rng, 20);
        w->bad_lists = (uint32_t)mt_rng_below(&w->rng, 50);
        w->slow = (uint32_t)mt_rng_below(&w->rng, 40);
        w->kills = chance(w, 70);
    }
    w->together = seed % 5 < 2 ? 2 + (uint32_t)mt_rng_below(&w->rng, TOGETHER_MAX - 1) : 0;
    if (chance(w, 50))
        w->consolidate_ms = 1000 + mt_rng_below(&w->rng, 10000);
    if (seed % 3 == 0)
        spot_make(w, w->is_calm ? JOBS_MAX * GANG_MAX : 8);
    for (uint32_t t = 0; t < w->type_count && seed % 7 < 3; t++)
        if (!w->types[t].is_spot && !(w->is_calm && w->floor)) /* the one that may be started is fewer than there must be */
            type_hide(w, t, seed % 7 == 2 && !w->is_calm);
    head_start(w);
}

static void step(struct world *w)
{
    struct scl_event tick = {.kind = SCL_EV_TICK};
    w->now += STEP_MS;
    if (w->now < FAULTS_END_MS && w->job_count < JOBS_MAX && chance(w, w->is_calm ? 2 : 4))
        job_new(w);
    if (w->now / STEP_MS == DOWN_MS / STEP_MS) {
        w->is_down = true;
        configure(w);
    }
    if (w->now < FAULTS_END_MS && w->wisher_count < WISHERS_MAX && chance(w, 1))
        wisher_new(w);
    if (w->now / STEP_MS == (FAULTS_END_MS + 55000) / STEP_MS)
        load_check(w);
    zones_run(w);
    things_run(w);
    load_run(w);
    answers_give(w);
    if (w->wants_tell && !w->has_crashed)
        tell(w);
    if (!w->has_crashed)
        feed(w, &tick);
    if (w->has_crashed)
        head_start(w);
    if (w->now / STEP_MS == JOBS_END_MS / STEP_MS)
        check_settled(w);
}

static bool run(uint64_t seed, struct world *w)
{
    world_make(w, seed);
    while (w->now < END_MS && !w->breach)
        step(w);
    if (!w->breach)
        check_down(w);
    if (w->breach)
        printf("seed %" PRIu64 ": %s\n", seed, w->breach);
    scl_free(w->scl);
    mt_vec_fini(&w->actions.list);
    return !w->breach;
}

int main(int argc, char **argv)
{
    static struct world w;
    uint64_t            first = 1, last = 100, failed = 0, launches = 0, crashes = 0, drains = 0, spares = 0;
    bool                is_first = false;
    for (int i = 1; i < argc; i++) {
        if (strcmp(argv[i], "--seeds") == 0 && i + 1 < argc && sscanf(argv[i + 1], "%" SCNu64 "-%" SCNu64, &first, &last) == 2)
            i++;
#ifdef MANTA_PLANTS
        else if (strcmp(argv[i], "--plant") == 0 && i + 1 < argc)
            mt_plant = (int)strtol(argv[++i], NULL, 10);
#endif
        else if (strcmp(argv[i], "--first") == 0)
            is_first = true;
        else if (strcmp(argv[i], "--trace") == 0)
            is_traced = true;
        else
            return fprintf(stderr, "usage: sim_scaler [--seeds A-B] [--plant N] [--first] [--trace]\n"), 2;
    }
    for (uint64_t seed = first; seed <= last && !(is_first && failed); seed++) {
        failed += !run(seed, &w);
        launches += w.launches;
        crashes += w.crashes - 1;
        drains += w.drains;
        spares += w.spares;
    }
    printf("%s: seeds %" PRIu64 "-%" PRIu64 ", %" PRIu64 " failed; %" PRIu64 " launches, %" PRIu64 " drains (%" PRIu64
           " in use), %" PRIu64 " heads killed\n",
           failed ? "FAILED" : "ok", first, last, failed, launches, drains, spares, crashes);
    return failed ? 1 : 0;
}
