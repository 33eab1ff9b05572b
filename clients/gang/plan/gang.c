/* SPDX-License-Identifier: Apache-2.0
 *
 * gang.c - see gang.h. Owns: the members and the list of actions.
 */
#include "clients/gang/plan/gang.h"

#include "core/base/machine.h"
#include "core/base/plant.h"

#include <signal.h>

static const char *const gang_names[] = {[GNG_RESERVING] = "RESERVING",
                                         [GNG_GATHERING] = "GATHERING",
                                         [GNG_RUNNING] = "RUNNING",
                                         [GNG_STOPPING] = "STOPPING",
                                         [GNG_DONE] = "DONE"};
/* Drawn in gang.h. */
static const uint32_t gang_next[] = {
    [GNG_RESERVING] = MT_STATE(GNG_GATHERING) | MT_STATE(GNG_DONE),
    [GNG_GATHERING] = MT_STATE(GNG_RUNNING) | MT_STATE(GNG_RESERVING) | MT_STATE(GNG_DONE),
    [GNG_RUNNING] = MT_STATE(GNG_STOPPING) | MT_STATE(GNG_DONE),
    [GNG_STOPPING] = MT_STATE(GNG_GATHERING) | MT_STATE(GNG_RESERVING) | MT_STATE(GNG_DONE),
    [GNG_DONE] = 0,
};
static const struct mt_machine gang_machine = MT_MACHINE("gang", gang_names, gang_next);

static void gang_set_state(struct gng_gang *g, enum gng_state to)
{
    MT_TRANSITION(&gang_machine, g->state, to);
    g->state = to;
    g->limit_ns = 0;
}

static const char *const member_names[] = {[GNG_MEMBER_HIRED] = "HIRED",
                                           [GNG_MEMBER_READY] = "READY",
                                           [GNG_MEMBER_RUNNING] = "RUNNING",
                                           [GNG_MEMBER_ENDED] = "ENDED",
                                           [GNG_MEMBER_GONE] = "GONE"};
/* HIRED --> READY --> RUNNING --> ENDED --asked again--> HIRED; ENDED --alone--> RUNNING; any --> GONE */
static const uint32_t member_next[] = {
    [GNG_MEMBER_HIRED] = MT_STATE(GNG_MEMBER_READY) | MT_STATE(GNG_MEMBER_GONE),
    [GNG_MEMBER_READY] = MT_STATE(GNG_MEMBER_RUNNING) | MT_STATE(GNG_MEMBER_GONE),
    [GNG_MEMBER_RUNNING] = MT_STATE(GNG_MEMBER_ENDED) | MT_STATE(GNG_MEMBER_GONE),
    [GNG_MEMBER_ENDED] = MT_STATE(GNG_MEMBER_HIRED) | MT_STATE(GNG_MEMBER_RUNNING) | MT_STATE(GNG_MEMBER_GONE),
    [GNG_MEMBER_GONE] = 0,
};
static const struct mt_machine member_machine = MT_MACHINE("member", member_names, member_next);

static void member_set_state(struct gng_member *m, enum gng_member_state to)
{
    MT_TRANSITION(&member_machine, m->state, to);
    m->state = to;
}

static mt_status act(struct gng_gang *g, enum gng_action_kind kind)
{
    return mt_vec_push(&g->actions, (struct gng_action){.kind = kind});
}

void gng_init(struct gng_gang *g, int max_restarts, int64_t term_ns)
{
    *g = (struct gng_gang){.max_restarts = max_restarts, .term_ns = term_ns};
    (void)!act(g, GNG_DO_RESERVE).code; /* the first of a list that has room for it, or the shell has nothing to do at all */
}

void gng_fini(struct gng_gang *g)
{
    free(g->members);
    mt_vec_fini(&g->actions);
}

static int count_of(const struct gng_gang *g, enum gng_member_state state)
{
    int n = 0;
    for (int i = 0; i < g->count; i++)
        n += g->members[i].state == state;
    return n;
}

/* ---- beginnings and ends ---- */

static mt_status done(struct gng_gang *g)
{
    if (g->has_room)
        MT_TRY(act(g, GNG_DO_DISMISS));
    g->has_room = false;
    gang_set_state(g, GNG_DONE);
    return act(g, GNG_DO_DONE);
}

static mt_status reserve(struct gng_gang *g)
{
    if (g->has_room)
        MT_TRY(act(g, GNG_DO_DISMISS));
    g->has_room = false;
    g->count = 0;
    gang_set_state(g, GNG_RESERVING);
    return act(g, GNG_DO_RESERVE);
}

static mt_status signal_running(struct gng_gang *g, int number)
{
    for (int i = 0; i < g->count; i++)
        if (g->members[i].state == GNG_MEMBER_RUNNING)
            MT_TRY(mt_vec_push(&g->actions, (struct gng_action){.kind = GNG_DO_SIGNAL, .member = i, .number = number}));
    return mt_ok();
}

static bool has_tries(const struct gng_gang *g)
{
    return g->restarts < g->max_restarts || g->max_restarts < 0;
}

static bool may_restart(const struct gng_gang *g)
{
    return g->cause == GNG_CAUSE_LEAVING || g->cause == GNG_CAUSE_GROWING || (g->cause == GNG_CAUSE_FAILED && has_tries(g));
}

static mt_status begin_again(struct gng_gang *g, int64_t now_ns)
{
    bool is_whole = g->cause != GNG_CAUSE_GROWING;
    for (int i = 0; i < g->count; i++)
        is_whole = is_whole && g->members[i].state == GNG_MEMBER_ENDED && !g->members[i].is_leaving;
    g->restarts += g->cause == GNG_CAUSE_FAILED && !MT_PLANT(MT_PLANT_GANG_UNCOUNTED);
    MT_TRY(act(g, GNG_DO_AGAIN));
    if (!is_whole)
        return reserve(g);
    for (int i = 0; i < g->count; i++)
        member_set_state(&g->members[i], GNG_MEMBER_HIRED);
    gang_set_state(g, GNG_GATHERING);
    g->limit_ns = now_ns + MT_GANG_READY_MS * INT64_C(1000000);
    return act(g, GNG_DO_GATHER);
}

/* Nobody runs any more? */
static mt_status end_look(struct gng_gang *g, int64_t now_ns)
{
    if (count_of(g, GNG_MEMBER_RUNNING) > 0)
        return mt_ok();
    return g->state == GNG_STOPPING && may_restart(g) ? begin_again(g, now_ns) : done(g);
}

static mt_status stop(struct gng_gang *g, enum gng_cause cause, int number, int64_t now_ns)
{
    g->cause = cause;
    gang_set_state(g, GNG_STOPPING);
    g->is_killed = false;
    g->limit_ns = now_ns + g->term_ns;
    MT_TRY(signal_running(g, number));
    return end_look(g, now_ns);
}

static mt_status kill_all(struct gng_gang *g, int64_t now_ns)
{
    g->is_killed = true;
    g->limit_ns = now_ns + MT_GANG_LEAVE_MS * INT64_C(1000000);
    MT_TRY(signal_running(g, SIGKILL));
    for (int i = 0; MT_PLANT(MT_PLANT_GANG_KILLED_IS_ENDED) && i < g->count; i++)
        if (g->members[i].state == GNG_MEMBER_RUNNING)
            member_set_state(&g->members[i], GNG_MEMBER_ENDED);
    return end_look(g, now_ns);
}

/* Those who say nothing, even of SIGKILL: their node does not answer. Their processes end with them. */
static mt_status give_up(struct gng_gang *g, int64_t now_ns)
{
    for (int i = 0; i < g->count; i++)
        if (g->members[i].state == GNG_MEMBER_RUNNING)
            member_set_state(&g->members[i], GNG_MEMBER_GONE);
    return end_look(g, now_ns);
}

/* Supervisors that don't come. */
static mt_status gather_failed(struct gng_gang *g)
{
    g->cause = GNG_CAUSE_FAILED;
    return ++g->hires < MT_GANG_HIRES_MAX ? reserve(g) : done(g);
}

/* ---- events ---- */

static mt_status on_room(struct gng_gang *g, int count, int64_t now_ns)
{
    struct gng_member *members;
    if (g->state != GNG_RESERVING)
        return mt_ok();
    members = calloc((size_t)count, sizeof *members);
    if (!members)
        return mt_error(MT_ENOMEM, 0, "make a gang");
    free(g->members);
    g->members = members;
    g->count = count;
    g->has_room = true;
    gang_set_state(g, GNG_GATHERING);
    g->limit_ns = now_ns + MT_GANG_READY_MS * INT64_C(1000000);
    return act(g, GNG_DO_HIRE);
}

static mt_status on_ready(struct gng_gang *g, int member)
{
    if (g->state != GNG_GATHERING || g->members[member].state != GNG_MEMBER_HIRED)
        return mt_ok();
    member_set_state(&g->members[member], GNG_MEMBER_READY);
    if (count_of(g, GNG_MEMBER_READY) < g->count && !MT_PLANT(MT_PLANT_GANG_PART))
        return mt_ok();
    for (int i = 0; i < g->count; i++) {
        g->members[i].serves = false;
        if (g->members[i].state == GNG_MEMBER_READY)
            member_set_state(&g->members[i], GNG_MEMBER_RUNNING);
    }
    g->attempt++;
    g->hires = 0;
    g->cause = GNG_CAUSE_NONE;
    gang_set_state(g, GNG_RUNNING);
    return act(g, GNG_DO_START);
}

static mt_status failed(struct gng_gang *g, int64_t now_ns)
{
    if (g->state != GNG_RUNNING) /* what a signal or another's death has ended is no reason */
        return end_look(g, now_ns);
    return stop(g, GNG_CAUSE_FAILED, SIGTERM, now_ns);
}

/* ---- one rank alone ---- */

void gng_serves(struct gng_gang *g, int member)
{
    g->members[member].serves = true;
}

static bool may_renew(const struct gng_gang *g)
{
    return g->renews && g->state == GNG_RUNNING && has_tries(g);
}

static mt_status renew(struct gng_gang *g, int member)
{
    g->restarts++;
    if (g->members[member].state == GNG_MEMBER_ENDED)
        member_set_state(&g->members[member], GNG_MEMBER_RUNNING);
    return mt_vec_push(&g->actions, (struct gng_action){.kind = GNG_DO_RENEW, .member = member, .number = g->restarts});
}

/* It is at fault, and may run on: its end follows, and is a failure. */
static mt_status on_fault(struct gng_gang *g, int member, int64_t now_ns)
{
    if (!may_renew(g))
        return g->state == GNG_RUNNING ? failed(g, now_ns) : mt_ok();
    if (MT_PLANT(MT_PLANT_GANG_RENEWED_TWICE))
        return renew(g, member);
    return mt_vec_push(&g->actions, (struct gng_action){.kind = GNG_DO_SIGNAL, .member = member, .number = SIGKILL});
}

/* Only ranks that serve run, and nobody is left who needs them? */
static bool serves_nobody(const struct gng_gang *g)
{
    int serving = 0;
    for (int i = 0; i < g->count; i++)
        serving += g->members[i].state == GNG_MEMBER_RUNNING && g->members[i].serves;
    return serving > 0 && serving == count_of(g, GNG_MEMBER_RUNNING) && !MT_PLANT(MT_PLANT_GANG_SERVES_ON);
}

static mt_status on_gone(struct gng_gang *g, int member, int64_t now_ns)
{
    struct gng_member *m = &g->members[member];
    bool               has_run = m->state == GNG_MEMBER_RUNNING;
    if (m->state == GNG_MEMBER_GONE || g->state == GNG_DONE || g->state == GNG_RESERVING)
        return mt_ok();
    member_set_state(m, GNG_MEMBER_GONE);
    if (g->state == GNG_GATHERING)
        return gather_failed(g);
    return has_run && m->is_leaving && g->state == GNG_RUNNING ? stop(g, GNG_CAUSE_LEAVING, SIGTERM, now_ns)
           : has_run                                           ? failed(g, now_ns)
                                                               : mt_ok();
}

static mt_status on_ended(struct gng_gang *g, const struct gng_event *ev)
{
    struct gng_member *m = &g->members[ev->ended.member];
    if (m->state != GNG_MEMBER_RUNNING || ev->ended.attempt != g->attempt)
        return mt_ok();
    member_set_state(m, GNG_MEMBER_ENDED);
    if (ev->ended.is_failed)
        return may_renew(g) ? renew(g, ev->ended.member) : failed(g, ev->now_ns);
    if (g->state == GNG_RUNNING && serves_nobody(g))
        return stop(g, GNG_CAUSE_NONE, SIGTERM, ev->now_ns);
    return end_look(g, ev->now_ns);
}

static mt_status on_signal(struct gng_gang *g, int number, int64_t now_ns)
{
    bool ends = number == SIGINT || number == SIGTERM || number == SIGHUP;
    if (g->state == GNG_DONE)
        return mt_ok();
    if (!ends)
        return signal_running(g, number);
    bool is_again = g->cause == GNG_CAUSE_SIGNAL;
    g->signal_number = g->signal_number ? g->signal_number : number;
    g->cause = GNG_CAUSE_SIGNAL;
    if (g->state == GNG_RUNNING)
        return stop(g, GNG_CAUSE_SIGNAL, number, now_ns);
    if (g->state == GNG_STOPPING)
        return is_again ? kill_all(g, now_ns) : signal_running(g, number);
    return done(g);
}

static mt_status on_tick(struct gng_gang *g, int64_t now_ns)
{
    if (!g->limit_ns || now_ns < g->limit_ns)
        return mt_ok();
    if (g->state == GNG_GATHERING)
        return gather_failed(g);
    return g->is_killed ? give_up(g, now_ns) : kill_all(g, now_ns);
}

static mt_status on_never(struct gng_gang *g)
{
    g->cause = GNG_CAUSE_FAILED;
    return g->state == GNG_RESERVING ? done(g) : mt_ok();
}

mt_status gng_step(struct gng_gang *g, const struct gng_event *ev)
{
    bool names_member = ev->kind == GNG_EV_READY || ev->kind == GNG_EV_GONE || ev->kind == GNG_EV_LEAVING ||
                        ev->kind == GNG_EV_FAULT;
    int member = ev->kind == GNG_EV_ENDED ? ev->ended.member : names_member ? ev->member : 0;
    if ((names_member || ev->kind == GNG_EV_ENDED) && (member < 0 || member >= g->count))
        return mt_ok();
    switch (ev->kind) {
    case GNG_EV_ROOM: return on_room(g, ev->count, ev->now_ns);
    case GNG_EV_NEVER: return on_never(g);
    case GNG_EV_READY: return on_ready(g, member);
    case GNG_EV_GONE: return on_gone(g, member, ev->now_ns);
    case GNG_EV_ENDED: return on_ended(g, ev);
    case GNG_EV_FAULT: return on_fault(g, member, ev->now_ns);
    case GNG_EV_LEAVING:
        g->members[member].is_leaving = true;
        return g->state == GNG_RUNNING ? stop(g, GNG_CAUSE_LEAVING, SIGTERM, ev->now_ns) : mt_ok();
    case GNG_EV_GROW: return g->state == GNG_RUNNING ? stop(g, GNG_CAUSE_GROWING, SIGTERM, ev->now_ns) : mt_ok();
    case GNG_EV_SIGNAL: return on_signal(g, ev->number, ev->now_ns);
    case GNG_EV_TICK: return on_tick(g, ev->now_ns);
    }
    return mt_ok();
}
