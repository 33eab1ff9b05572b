/* SPDX-License-Identifier: Apache-2.0
 *
 * instance.c - instances: their states, their records, and what is ordered about each.
 *
 *   WANTED --ordered--> LAUNCHING --runs, by an answer or a listing--> BOOTING --its node registers--> JOINED
 *   LAUNCHING --refused, or in no listing--> FAILED --a listing is without it--> GONE
 *   LAUNCHING --registers before the answer--> JOINED --is idle, or all go down--> DRAINING --its node has left--> STOPPING
 *   STOPPING --the provider, or a listing, is without it--> GONE
 *
 *   WANTED --needed no more--> GONE            LAUNCHING --all go down--> STOPPING      FAILED --is listed after all--> STOPPING
 *   BOOTING --never joins--> STOPPING          BOOTING --three listings without it--> FAILED
 *   LAUNCHING, BOOTING --listed as failed--> STOPPING
 *   JOINED --its node died--> STOPPING         FAILED --registers after all--> JOINED
 *   JOINED --three listings without it, and no node--> GONE      DRAINING --the same--> GONE
 *
 * Always:  a record is stored before the provider hears of the instance, and until a listing is without it.
 */
#include "scheduler/scaler/private.h"

#include "core/base/limits/net.h"
#include "core/base/machine.h"
#include "core/base/plant.h"

#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>

static const char *const names[] = {
    [SCL_WANTED] = "WANTED",     [SCL_LAUNCHING] = "LAUNCHING", [SCL_BOOTING] = "BOOTING", [SCL_JOINED] = "JOINED",
    [SCL_DRAINING] = "DRAINING", [SCL_STOPPING] = "STOPPING",   [SCL_GONE] = "GONE",       [SCL_FAILED] = "FAILED"};
static const uint32_t next[] = {
    [SCL_WANTED] = MT_STATE(SCL_LAUNCHING) | MT_STATE(SCL_GONE),
    [SCL_LAUNCHING] = MT_STATE(SCL_BOOTING) | MT_STATE(SCL_JOINED) | MT_STATE(SCL_STOPPING) | MT_STATE(SCL_FAILED),
    [SCL_BOOTING] = MT_STATE(SCL_JOINED) | MT_STATE(SCL_STOPPING) | MT_STATE(SCL_FAILED),
    [SCL_JOINED] = MT_STATE(SCL_DRAINING) | MT_STATE(SCL_STOPPING) | MT_STATE(SCL_GONE),
    [SCL_DRAINING] = MT_STATE(SCL_STOPPING) | MT_STATE(SCL_GONE),
    [SCL_STOPPING] = MT_STATE(SCL_GONE),
    [SCL_GONE] = 0,
    [SCL_FAILED] = MT_STATE(SCL_GONE) | MT_STATE(SCL_STOPPING) | MT_STATE(SCL_JOINED),
};
static const struct mt_machine machine = MT_MACHINE("instance", names, next);

const char *scl_state_text(enum scl_state state)
{
    return mt_machine_text(&machine, state);
}

bool scl_is_live(enum scl_state state)
{
    return state == SCL_WANTED || state == SCL_LAUNCHING || state == SCL_BOOTING || state == SCL_JOINED;
}

uint32_t scl_type_find(const struct scl_type *types, uint32_t count, const char *name, const char *zone)
{
    for (uint32_t t = 0; t < count; t++)
        if (strcmp(types[t].name, name) == 0 && strcmp(types[t].zone, zone) == 0)
            return t;
    return SCL_NO_TYPE;
}

bool scl_is_coming(const struct scl *s, const struct scl_instance *i)
{
    bool is_there = i->state == SCL_JOINED && mt_map_ptr(&s->nodes, mt_map_key(i->node));
    return scl_is_live(i->state) && !is_there && i->type_index != SCL_NO_TYPE;
}

struct scl_instance *scl_find(const struct scl *s, uint64_t number)
{
    return number ? mt_map_ptr(&s->instances, mt_map_key(number)) : NULL;
}

void scl_due(struct scl *s, uint64_t at_ms)
{
    if (at_ms < s->due_ms)
        s->due_ms = at_ms;
}

void scl_note(struct scl *s, const char *format, ...)
{
    struct decision *d = &s->history[s->decisions++ % MT_SCL_HISTORY];
    va_list          args;
    d->at_ms = s->now_ms;
    va_start(args, format);
    vsnprintf(d->text, sizeof d->text, format, args);
    va_end(args);
}

/* ---- limits ---- */

uint64_t scl_idle_least(const struct scl *s, uint32_t type)
{
    uint64_t twice = 2 * s->state[type].boot_ms;
    return twice > MT_SCL_IDLE_MS_MIN ? twice : MT_SCL_IDLE_MS_MIN;
}

uint64_t scl_spare_limit(const struct scl *s, uint32_t type)
{
    uint64_t idle = s->types[type].idle_ms, least = scl_idle_least(s, type);
    least = idle > least ? idle : least; /* what is idle is given back by then */
    return s->config.consolidate_ms > least ? s->config.consolidate_ms : least;
}

bool scl_is_least(const struct scl *s, const struct scl_instance *i)
{
    return i->type_index != SCL_NO_TYPE && s->state[s->state[i->type_index].first].all <= s->types[i->type_index].min;
}

bool scl_is_floor(const struct scl *s, const struct scl_instance *i)
{
    return i->type_index != SCL_NO_TYPE && !s->types[i->type_index].is_spot && s->live_spot > 0 &&
           s->live_on_demand <= s->config.on_demand_min;
}

/* ---- what is ordered ---- */

void scl_act(struct scl *s, enum scl_action_kind kind, const struct scl_instance *i)
{
    struct scl_action action = {.kind = kind};
    if (i)
        action.instance = *i;
    SCL_TRY(s, mt_vec_push(&s->out->list, action));
}

void scl_store(struct scl *s, const struct scl_instance *i)
{
    scl_act(s, SCL_ACT_STORE, i);
}

void scl_list_soon(struct scl *s)
{
    uint64_t soon = s->now_ms + MT_SCL_LIST_SOON_MS;
    if (soon < s->list_ms)
        s->list_ms = soon;
}

void scl_terminate(struct scl *s, struct scl_instance *i)
{
    i->asked_ms = s->now_ms;
    i->list_floor = s->list_sequence + 1;
    scl_act(s, SCL_ACT_TERMINATE, i);
    scl_list_soon(s);
}

/* So long, unless all go, that what has come by then ends in peace. */
void scl_drain_order(struct scl *s, const struct scl_instance *i)
{
    struct scl_action action = {.kind = SCL_ACT_DRAIN, .instance = *i};
    action.limit_ms = s->config.is_down ? MT_SCL_DOWN_MS : i->drain_ms ? i->drain_ms : MT_DRAIN_MS_MAX;
    SCL_TRY(s, mt_vec_push(&s->out->list, action));
}

void scl_launch(struct scl *s, struct scl_instance *i)
{
    if (MT_PLANT(MT_PLANT_SCALE_UNSTORED)) { /* the order leaves before its record */
        scl_act(s, SCL_ACT_LAUNCH, i);
        scl_set_state(s, i, SCL_LAUNCHING, i->why);
        return;
    }
    scl_set_state(s, i, SCL_LAUNCHING, i->why);
    i->launched_ms = i->asked_ms = s->now_ms;
    i->list_floor = s->list_sequence + 1;
    scl_act(s, SCL_ACT_LAUNCH, i);
}

void scl_type_failed(struct scl *s, uint32_t type, const char *why)
{
    if (type == SCL_NO_TYPE)
        return;
    struct type_state *t = &s->state[type];
    uint64_t           wait = MT_SCL_BACK_OFF_MS;
    for (uint32_t i = 0; i < t->failures && wait < MT_SCL_BACK_OFF_MS_MAX; i++)
        wait *= 2;
    t->failures++;
    t->back_ms = s->now_ms + (wait < MT_SCL_BACK_OFF_MS_MAX ? wait : MT_SCL_BACK_OFF_MS_MAX);
    snprintf(t->why, sizeof t->why, "%s", why);
    scl_due(s, t->back_ms);
    s->is_dirty = true;
}

void scl_type_avoid(struct scl *s, uint32_t type, const char *why)
{
    struct type_state *t = type == SCL_NO_TYPE ? NULL : &s->state[type];
    if (!t || !s->types[type].is_spot || MT_PLANT(MT_PLANT_SPOT_AGAIN))
        return;
    bool is_new = s->now_ms >= t->avoid_ms; /* of several that are taken at once, the first counts */
    if (is_new && t->avoid_ms && s->now_ms < t->avoid_ms + t->avoid_span_ms)
        t->avoid_span_ms = 2 * t->avoid_span_ms < MT_SCL_AVOID_MS_MAX ? 2 * t->avoid_span_ms : MT_SCL_AVOID_MS_MAX;
    else if (is_new)
        t->avoid_span_ms = MT_SCL_AVOID_MS;
    t->avoid_ms = s->now_ms + t->avoid_span_ms;
    snprintf(t->taken, sizeof t->taken, "%s", why);
    scl_due(s, t->avoid_ms);
    s->is_dirty = true;
    if (is_new)
        scl_note(s, "avoid type %s for %" PRIu64 " s: %.150s", t->text, t->avoid_span_ms / 1000, why);
}

/* ---- the table ---- */

static void count(struct scl *s, const struct scl_instance *i, int by)
{
    struct type_state *t = i->type_index == SCL_NO_TYPE ? NULL : &s->state[i->type_index];
    uint32_t           add = (uint32_t)by;
    s->live += scl_is_live(i->state) ? add : 0;
    s->wanted += i->state == SCL_WANTED ? add : 0;
    if (t) {
        t->live += scl_is_live(i->state) ? add : 0;
        t->launching += i->state == SCL_LAUNCHING ? add : 0;
        s->state[t->first].all += scl_is_live(i->state) ? add : 0;
        *(s->types[i->type_index].is_spot ? &s->live_spot : &s->live_on_demand) += scl_is_live(i->state) ? add : 0;
    }
}

void scl_set_state(struct scl *s, struct scl_instance *i, enum scl_state to, const char *why)
{
    MT_TRANSITION(&machine, i->state, to);
    count(s, i, -1);
    i->state = to;
    count(s, i, +1);
    i->since_ms = s->now_ms;
    i->missing = 0;
    if (why != i->why)
        scl_text(i->why, sizeof i->why, why);
    s->is_dirty = s->is_changed = true;
    scl_store(s, i);
    if (to != SCL_GONE)
        return;
    mt_map_remove(&s->instances, mt_map_key(i->number));
    free(i);
}

struct scl_instance *scl_instance_new(struct scl *s, uint32_t type, const char *why)
{
    struct scl_instance *i = s->instances.count < MT_SCL_INSTANCES_MAX ? calloc(1, sizeof *i) : NULL;
    if (!i)
        return NULL;
    *i = (struct scl_instance){.number = s->next_number++, .state = SCL_WANTED, .type_index = type, .since_ms = s->now_ms};
    scl_text(i->type, sizeof i->type, s->types[type].name);
    scl_text(i->zone, sizeof i->zone, s->types[type].zone);
    scl_text(i->why, sizeof i->why, why);
    mt_status st = mt_map_put_ptr(&s->instances, mt_map_key(i->number), i);
    if (st.code) {
        free(i);
        SCL_TRY(s, st);
        return NULL;
    }
    s->given = s->next_number;
    s->is_changed = true;
    count(s, i, +1);
    return i;
}

void scl_load_next(struct scl *s, uint64_t number)
{
    if (number > s->next_number)
        s->next_number = number;
    if (number > s->given)
        s->given = number;
}

mt_status scl_load(struct scl *s, const struct scl_instance *record)
{
    struct scl_instance *i = calloc(1, sizeof *i);
    if (!i)
        return mt_error(MT_ENOMEM, 0, "load an instance");
    *i = *record;
    i->type_index = scl_type_find(s->types, s->config.count, i->type, i->zone);
    i->is_unknown = i->state == SCL_LAUNCHING;
    i->since_ms = i->asked_ms = s->now_ms;
    i->list_floor = s->list_sequence + 1;
    scl_load_next(s, i->number + 1);
    mt_status st = mt_map_put_ptr(&s->instances, mt_map_key(i->number), i);
    if (st.code)
        free(i);
    else
        count(s, i, +1);
    s->is_changed = true;
    return st;
}

uint64_t scl_next_number(const struct scl *s)
{
    return s->next_number;
}

size_t scl_instances_each(const struct scl *s, void (*fn)(void *user, const struct scl_instance *instance), void *user)
{
    MT_MAP_EACH(&s->instances, entry)
        if (fn)
            fn(user, entry->value.ptr);
    return s->instances.count;
}
