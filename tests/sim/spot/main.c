/* SPDX-License-Identifier: Apache-2.0
 *
 * main.c - sim_spot: a day in virtual time. One job with a deadline, spot nodes in two zones that come and go by a trace, sure
 *          nodes at three times the price, and the scaler's core between them. What it costs is held against the cheapest plan of
 *          somebody who knows the day.
 *
 *   sim_spot [--days A-B] [--trace FILE FILE] [--each] [--over]
 *
 * --over: what the job has done is lost where its node is taken away. S2 does not hold then: the plan never starts over.
 *
 * What must hold: S1 no deadline is missed. S2 on average over the days it costs no more than 1.25 times the cheapest plan.
 *
 * Owns: the world. Thread: one.
 */
#include "core/base/plant.h"
#include "core/ds/vec.h"
#include "scheduler/scaler/scaler.h"
#include "tests/sim/spot/day.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { STEP_MS = 5000, START_MS = 1000, SURE = ZONES, TYPES = ZONES + 1, THINGS_MAX = 512, ANSWER_MS = 2000, GATE_PERCENT = 125 };

struct thing {
    uint64_t number, began_ms, joins_ms, kill_ms;
    uint32_t type, node;
    bool     runs, is_draining;
};
struct answer {
    struct scl_event event;
    uint64_t         at_ms;
};
struct world {
    const struct day  *day;
    struct scl        *scl;
    struct scl_actions actions;
    struct scl_type    types[TYPES];
    struct thing       things[THINGS_MAX];
    uint32_t           count, next_node;
    MT_VEC(struct answer) answers;
    uint64_t now;
    bool     starts_over;
    uint32_t on;                        /* the job's thing + 1; 0: nowhere */
    uint64_t done_ms, warm_ms, ends_ms; /* worked; it goes on from then on; 0: it has not ended */
    double   cost;                      /* hours times price */
};

#ifdef MANTA_PLANTS
int mt_plant;
#endif
static const char *const kinds[] = {"CPU"};

static bool is_there(const struct world *w, uint32_t type)
{
    uint64_t tick = (w->now - START_MS) / (TICK_S * 1000);
    return type == SURE || (tick < DAY_TICKS && w->day->can_be_had[type][tick]);
}

static void step(struct world *w, struct scl_event e)
{
    e.now_ms = w->now;
    e.kinds = kinds;
    if (scl_step(w->scl, &e, &w->actions).code || scl_check(w->scl))
        abort();
}

/* ---- the provider ---- */

static void answer(struct world *w, struct scl_event e)
{
    struct answer a = {.event = e, .at_ms = w->now + ANSWER_MS};
    if (mt_vec_push(&w->answers, a).code)
        abort();
}

static void launch(struct world *w, const struct scl_instance *i)
{
    uint32_t type = !i->zone[0] ? SURE : (uint32_t)(i->zone[0] - 'a');
    bool     is = is_there(w, type);
    answer(w, (struct scl_event){.kind = SCL_EV_LAUNCHED,
                                 .answer = {i->number, is ? SCL_DONE : SCL_REFUSED, "", is ? "" : "no capacity"}});
    if (!is)
        return;
    if (w->count == THINGS_MAX)
        abort();
    w->things[w->count++] = (struct thing){
        .number = i->number, .type = type, .runs = true, .began_ms = w->now, .joins_ms = w->now + w->day->boot_s * 1000};
}

static void thing_end(struct world *w, struct thing *t)
{
    t->runs = false;
    w->cost += (t->type == SURE ? 1 : w->day->price[t->type]) * (double)(w->now - t->began_ms) / 3600e3;
    if (w->on == (uint32_t)(t - w->things) + 1) {
        w->on = 0;
        w->done_ms = w->starts_over ? 0 : w->done_ms;
    }
    if (t->node)
        step(w, (struct scl_event){.kind = SCL_EV_NODE_GONE, .gone = {t->node}});
}

static void carry_out(struct world *w)
{
    for (size_t k = 0; k < w->actions.list.count; k++) {
        struct scl_action a = w->actions.list.data[k];
        if (a.kind == SCL_ACT_LAUNCH)
            launch(w, &a.instance);
        if (a.kind == SCL_ACT_LIST)
            answer(w, (struct scl_event){.kind = SCL_EV_LISTED, .listed = {.sequence = a.sequence, .is_good = true}});
        for (uint32_t t = 0; t < w->count; t++) {
            struct thing *thing = &w->things[t];
            if (a.kind == SCL_ACT_DRAIN && thing->runs && thing->node == a.instance.node) {
                thing->is_draining = true;
                thing->kill_ms = w->now + a.limit_ms;
            }
            if (a.kind == SCL_ACT_TERMINATE && thing->runs && thing->number == a.instance.number)
                thing->kill_ms = w->now;
        }
    }
    w->actions.list.count = 0;
}

static void answers_give(struct world *w)
{
    static struct scl_listed list[THINGS_MAX];
    for (size_t k = 0; k < w->answers.count;) {
        struct answer a = w->answers.data[k];
        if (w->now < a.at_ms) {
            k++;
            continue;
        }
        mt_vec_remove(&w->answers, k);
        for (uint32_t t = 0; a.event.kind == SCL_EV_LISTED && t < w->count; t++)
            if (w->things[t].runs)
                list[a.event.listed.count++] = (struct scl_listed){.instance = w->things[t].number};
        a.event.listed.items = a.event.kind == SCL_EV_LISTED ? list : a.event.listed.items;
        step(w, a.event);
    }
}

/* ---- nodes, and the job ---- */

static void things_run(struct world *w)
{
    for (uint32_t t = 0; t < w->count; t++) {
        struct thing *thing = &w->things[t];
        bool          is_used = w->on == t + 1;
        if (thing->runs && !thing->node && w->now >= thing->joins_ms)
            thing->node = ++w->next_node;
        if (thing->runs &&
            (!is_there(w, thing->type) || (thing->kill_ms && w->now >= thing->kill_ms) || (thing->is_draining && !is_used)))
            thing_end(w, thing);
    }
}

/* As a head would: on the first node that has room. Its last checkpoint is as old as the last step. */
static void job_run(struct world *w)
{
    uint64_t work = (uint64_t)w->day->work_ticks * TICK_S * 1000;
    if (w->ends_ms)
        return;
    for (uint32_t t = 0; t < w->count && !w->on; t++)
        if (w->things[t].runs && w->things[t].node && !w->things[t].is_draining) {
            w->on = t + 1;
            w->warm_ms = w->now + (uint64_t)w->day->change_ticks * TICK_S * 1000;
        }
    if (w->on && w->now >= w->warm_ms)
        w->done_ms += STEP_MS;
    if (w->done_ms >= work) {
        w->ends_ms = w->now;
        w->on = 0;
    }
}

static void tell(struct world *w)
{
    struct policy_request request = {.amount_count = 1, .amounts = {{0, 1000}}};
    struct scl_pace       pace = {.deadline_ms = START_MS + (uint64_t)w->day->deadline_ticks * TICK_S * 1000,
                                  .change_ms = (uint64_t)w->day->change_ticks * TICK_S * 1000,
                                  .left_ms = (uint64_t)w->day->work_ticks * TICK_S * 1000 - w->done_ms,
                                  .risk_ms = w->starts_over ? (uint64_t)w->day->work_ticks * TICK_S * 1000 : 0,
                                  .stays = w->starts_over};
    struct scl_demand     demand = {.kind = SCL_LEASES, .count = 1, .requests = &request, .pace = &pace, .name = "job"};
    for (uint32_t t = 0; t < w->count; t++) {
        struct thing      *thing = &w->things[t];
        struct policy_node node = w->types[thing->type].place;
        struct scl_event   e = {.kind = SCL_EV_NODE};
        if (!thing->runs || !thing->node)
            continue;
        node.id = thing->node;
        node.state = thing->is_draining ? POLICY_DRAINING : POLICY_ALIVE;
        node.resources[0].free = w->on == t + 1 ? 0 : node.resources[0].total;
        e.node = (struct scl_node){&node, w->on == t + 1, false, thing->number, "", NULL};
        step(w, e);
    }
    pace.node = w->on ? w->things[w->on - 1].node : 0;
    if (w->on && w->now < w->warm_ms)
        pace.left_ms += w->warm_ms - w->now;
    step(w, (struct scl_event){.kind = SCL_EV_DEMANDS, .demands = {&demand, w->ends_ms ? 0 : 1}});
}

/* ---- one day ---- */

static void world_make(struct world *w, const struct day *day)
{
    struct scl_config config = {.types = w->types, .count = TYPES};
    *w = (struct world){.day = day, .now = START_MS};
    for (uint32_t t = 0; t < TYPES; t++) {
        struct scl_type *type = &w->types[t];
        *type = (struct scl_type){.max = 4, .idle_ms = 2000, .boot_ms = 300000, .is_spot = t != SURE};
        type->price = t == SURE ? 1000 : (int64_t)(day->price[t] * 1000);
        snprintf(type->name, sizeof type->name, "%s", t == SURE ? "sure" : "spot");
        snprintf(type->zone, sizeof type->zone, "%s", t == SURE ? "" : t ? "b" : "a");
        type->place.resource_count = 1;
        type->place.resources[0] = (struct policy_resource){0, 1000, 1000};
        snprintf(type->place.labels, sizeof type->place.labels, "%s", t == SURE ? "" : "manta.spot=true");
    }
    if (scl_new(w->now, &w->scl).code || scl_configure(w->scl, &config).code)
        abort();
}

/* The cost; `out_late` whether it ended too late. */
static double day_run(const struct day *day, bool starts_over, bool *out_late)
{
    static struct world w;
    uint64_t            deadline = START_MS + (uint64_t)day->deadline_ticks * TICK_S * 1000;
    world_make(&w, day);
    w.starts_over = starts_over;
    while (w.now < START_MS + 2ull * DAY_TICKS * TICK_S * 1000 && !w.ends_ms) {
        w.now += STEP_MS;
        things_run(&w);
        job_run(&w);
        answers_give(&w);
        tell(&w);
        step(&w, (struct scl_event){.kind = SCL_EV_TICK});
        carry_out(&w);
    }
    *out_late = !w.ends_ms || w.ends_ms > deadline;
    for (uint32_t t = 0; t < w.count; t++)
        if (w.things[t].runs)
            thing_end(&w, &w.things[t]);
    scl_free(w.scl);
    mt_vec_fini(&w.actions.list);
    mt_vec_fini(&w.answers);
    return w.cost;
}

struct sum {
    bool     is_each, starts_over; /* as was asked for */
    double   cost, least, sure, worst, ratios;
    uint64_t days, late;
};

static bool day_add(struct sum *sum, uint64_t seed, const char *const *files)
{
    static struct day day;
    char              text[256];
    bool              is_late = false;
    day_make(seed, &day);
    day_job(seed, &day);
    for (int z = 0; z < ZONES && files[z]; z++)
        if (!day_read(files[z], seed * 397, day.can_be_had[z], text, sizeof text))
            return fprintf(stderr, "sim_spot: %s\n", text), false;
    double cost = day_run(&day, sum->starts_over, &is_late), least = day_least(&day);
    if (least <= 0)
        return fprintf(stderr, "sim_spot: no memory\n"), false;
    if (sum->is_each || is_late)
        printf("day %" PRIu64 ": %.2f against %.2f = %.3fx, work %u of %u min%s\n", seed, cost, least, cost / least, day.work_ticks,
               day.deadline_ticks, is_late ? "; S1: it ended too late" : "");
    sum->cost += cost;
    sum->least += least;
    sum->sure += (day.work_ticks + day.change_ticks + day.boot_s / 60.0) / 60;
    sum->ratios += cost / least;
    sum->worst = cost / least > sum->worst ? cost / least : sum->worst;
    sum->late += is_late;
    sum->days++;
    return true;
}

int main(int argc, char **argv)
{
    const char *files[ZONES] = {NULL};
    uint64_t    first = 1, last = 20;
    struct sum  sum = {0};
    for (int i = 1; i < argc; i++) {
        if (strcmp(argv[i], "--days") == 0 && i + 1 < argc && sscanf(argv[i + 1], "%" SCNu64 "-%" SCNu64, &first, &last) == 2)
            i++;
        else if (strcmp(argv[i], "--trace") == 0 && i + ZONES < argc)
            for (int z = 0; z < ZONES; z++)
                files[z] = argv[++i];
#ifdef MANTA_PLANTS
        else if (strcmp(argv[i], "--plant") == 0 && i + 1 < argc)
            mt_plant = (int)strtol(argv[++i], NULL, 10);
#endif
        else if (strcmp(argv[i], "--each") == 0)
            sum.is_each = true;
        else if (strcmp(argv[i], "--over") == 0)
            sum.starts_over = true;
        else
            return fprintf(stderr, "usage: sim_spot [--days A-B] [--trace FILE FILE] [--each] [--over]\n"), 2;
    }
    for (uint64_t seed = first; seed <= last; seed++)
        if (!day_add(&sum, seed, files))
            return 2;
    double ratio = sum.cost / sum.least;
    bool   is_dear = ratio * 100 > GATE_PERCENT && !sum.starts_over;
    printf("%s: %" PRIu64 " days: %.3fx the cheapest plan (mean of days %.3f, worst %.3f); all on sure nodes %.3fx; %" PRIu64
           " late%s\n",
           sum.late || is_dear ? "FAILED" : "ok", sum.days, ratio, sum.ratios / (double)sum.days, sum.worst, sum.sure / sum.least,
           sum.late, is_dear ? "; S2: it costs too much" : "");
    return sum.late || is_dear;
}
