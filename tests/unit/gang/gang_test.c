/* SPDX-License-Identifier: Apache-2.0
 *
 * gang_test.c - the state machine of a gang in a world on virtual time, where ranks fail, ignore signals and go silent, and nodes
 * leave: what must always hold, and that planted bugs break it.
 */
#include "clients/gang/plan/gang.h"

#include "core/base/plant.h"
#include "core/base/rng.h"

#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stdio.h>

#include <cmocka.h>

enum { SEEDS = 2000, MEMBERS_MAX = 4, EVENTS_MAX = 4096 };
static const int64_t MS = 1000000, END_S = 100, LATE_S = 140; /* the user's signal; and until when all must be over */

int mt_plant;

struct due {
    int64_t          at;
    uint32_t         life; /* of the crew that it is about; 0: of none */
    struct gng_event ev;
};

struct world {
    struct gng_gang gang;
    mt_rng          rng;
    int64_t         now;
    struct due      due[EVENTS_MAX];
    int             due_count, count, counted, max_restarts;
    uint32_t        life;              /* of the crew */
    uint32_t        runs[MEMBERS_MAX]; /* the attempt of the rank that runs there; 0: none does */
    bool            ready[MEMBERS_MAX];
    bool            silent[MEMBERS_MAX]; /* its node does not answer any more */
    bool            is_done;
    char            broken[128]; /* the first thing that did not hold; "": all did */
};

static void breaks(struct world *w, const char *what)
{
    if (!w->broken[0])
        snprintf(w->broken, sizeof w->broken, "%s", what);
}

static bool chance(struct world *w, uint64_t percent)
{
    return mt_rng_below(&w->rng, 100) < percent;
}

static void later(struct world *w, uint64_t most_ms, bool is_of_crew, struct gng_event ev)
{
    assert_true(w->due_count < EVENTS_MAX);
    w->due[w->due_count++] = (struct due){w->now + (int64_t)(1 + mt_rng_below(&w->rng, most_ms)) * MS, is_of_crew ? w->life : 0,
                                          ev};
}

static int running(const struct world *w)
{
    int n = 0;
    for (int i = 0; i < MEMBERS_MAX; i++)
        n += w->runs[i] != 0;
    return n;
}

static void ends_later(struct world *w, int i, uint64_t most_ms, bool is_failed)
{
    if (!w->silent[i])
        later(w, most_ms, true, (struct gng_event){.kind = GNG_EV_ENDED, .ended = {i, w->runs[i], is_failed}});
}

static void members_ask(struct world *w)
{
    for (int i = 0; i < w->count; i++) {
        w->ready[i] = false;
        if (chance(w, 4))
            later(w, 2000, true, (struct gng_event){.kind = GNG_EV_GONE, .member = i});
        else if (!chance(w, 2)) /* else it never says anything */
            later(w, 2000, true, (struct gng_event){.kind = GNG_EV_READY, .member = i});
    }
}

static void all_start(struct world *w)
{
    if (running(w))
        breaks(w, "ranks are started while others run");
    for (int i = 0; i < w->count; i++) {
        if (!w->ready[i])
            breaks(w, "a rank is started before all are ready");
        w->runs[i] = w->gang.attempt;
        w->silent[i] = chance(w, 3);
        if (chance(w, 60))
            ends_later(w, i, 20000, chance(w, 30));
        if (i > 0 && chance(w, 20))
            gng_serves(&w->gang, i);
        if (chance(w, 4))
            later(w, 20000, true, (struct gng_event){.kind = GNG_EV_FAULT, .member = i});
        if (chance(w, 4))
            later(w, 20000, true, (struct gng_event){.kind = GNG_EV_LEAVING, .member = i});
        if (chance(w, 4))
            later(w, 20000, true, (struct gng_event){.kind = GNG_EV_GONE, .member = i});
    }
    if (chance(w, 5))
        later(w, 20000, true, (struct gng_event){.kind = GNG_EV_GROW});
}

static void counted(struct world *w)
{
    if (++w->counted > w->max_restarts)
        breaks(w, "it begins again more often than it may");
}

static void one_starts(struct world *w, int i)
{
    if (w->runs[i])
        breaks(w, "a rank is started while it runs");
    w->runs[i] = w->gang.attempt;
    if (chance(w, 60))
        ends_later(w, i, 20000, chance(w, 30));
    counted(w);
}

/* Those that serve do not keep a gang whose other ranks have ended. */
static void servers_look(struct world *w)
{
    int serving = 0;
    for (int i = 0; i < w->gang.count; i++)
        serving += w->runs[i] && w->gang.members[i].serves;
    if (w->gang.state == GNG_RUNNING && serving && serving == running(w))
        breaks(w, "only servers run, and it goes on");
}

static void action_do(struct world *w, const struct gng_action *a)
{
    switch (a->kind) {
    case GNG_DO_RESERVE:
        later(w, 3000, false,
              chance(w, 2) ? (struct gng_event){.kind = GNG_EV_NEVER}
                           : (struct gng_event){.kind = GNG_EV_ROOM, .count = 1 + (int)mt_rng_below(&w->rng, MEMBERS_MAX)});
        break;
    case GNG_DO_HIRE:
        w->count = w->gang.count;
        members_ask(w);
        break;
    case GNG_DO_GATHER: members_ask(w); break;
    case GNG_DO_START: all_start(w); break;
    case GNG_DO_SIGNAL:
        if (w->runs[a->member] && (a->number == SIGKILL || chance(w, 70)))
            ends_later(w, a->member, 500, chance(w, 80));
        break;
    case GNG_DO_RENEW: one_starts(w, a->member); break;
    case GNG_DO_DISMISS:
        memset(w->runs, 0, sizeof w->runs);
        w->life++;
        break;
    case GNG_DO_AGAIN:
        if (w->gang.cause == GNG_CAUSE_FAILED)
            counted(w);
        break;
    case GNG_DO_DONE:
        w->is_done = true;
        if (running(w))
            breaks(w, "it is done, and a rank runs");
        break;
    }
}

static void event_take(struct world *w, struct gng_event ev)
{
    ev.now_ns = w->now;
    if (ev.kind == GNG_EV_READY)
        w->ready[ev.member] = true;
    if (ev.kind == GNG_EV_GONE)
        w->runs[ev.member] = 0, w->ready[ev.member] = false;
    if (ev.kind == GNG_EV_ENDED && w->runs[ev.ended.member] == ev.ended.attempt)
        w->runs[ev.ended.member] = 0;
    assert_int_equal(gng_step(&w->gang, &ev).code, 0);
    for (size_t i = 0; i < w->gang.actions.count; i++) {
        struct gng_action a = w->gang.actions.data[i];
        action_do(w, &a);
    }
    w->gang.actions.count = 0;
    servers_look(w);
}

/* Takes the next thing that is due, or lets some time pass. */
static void round_do(struct world *w)
{
    int next = -1;
    for (int i = 0; i < w->due_count; i++)
        if (next < 0 || w->due[i].at < w->due[next].at)
            next = i;
    if (next < 0 || w->due[next].at > w->now + 50 * MS) {
        w->now += 50 * MS;
        event_take(w, (struct gng_event){.kind = GNG_EV_TICK});
        return;
    }
    struct due d = w->due[next];
    w->due[next] = w->due[--w->due_count];
    w->now = d.at > w->now ? d.at : w->now;
    if (!d.life || d.life == w->life)
        event_take(w, d.ev);
}

static void world_run(struct world *w, uint64_t seed)
{
    bool is_told = false;
    *w = (struct world){.rng = {seed}, .life = 1};
    w->max_restarts = (int)mt_rng_below(&w->rng, 4);
    gng_init(&w->gang, w->max_restarts, 10000 * MS);
    w->gang.renews = chance(w, 40);
    action_do(w, &(struct gng_action){.kind = GNG_DO_RESERVE});
    w->gang.actions.count = 0;
    while (!w->is_done && !w->broken[0] && w->now < LATE_S * 1000 * MS) {
        if (!is_told && w->now > END_S * 1000 * MS) {
            is_told = true;
            event_take(w, (struct gng_event){.kind = GNG_EV_SIGNAL, .number = SIGTERM});
            continue;
        }
        round_do(w);
    }
    if (!w->is_done)
        breaks(w, "it does not end after a signal");
    gng_fini(&w->gang);
}

static void holds(void **state)
{
    (void)state;
    static struct world w;
    for (uint64_t seed = 1; seed <= SEEDS; seed++) {
        world_run(&w, seed);
        if (w.broken[0])
            fail_msg("seed %llu: %s", (unsigned long long)seed, w.broken);
    }
}

static void caught(int plant, const char *what)
{
    static struct world w;
    mt_plant = plant;
    for (uint64_t seed = 1; seed <= SEEDS; seed++) {
        world_run(&w, seed);
        if (strcmp(w.broken, what) == 0)
            break;
    }
    mt_plant = MT_PLANT_NONE;
    assert_string_equal(w.broken, what);
}

static void plants_are_caught(void **state)
{
    (void)state;
    caught(MT_PLANT_GANG_PART, "a rank is started before all are ready");
    caught(MT_PLANT_GANG_KILLED_IS_ENDED, "ranks are started while others run");
    caught(MT_PLANT_GANG_UNCOUNTED, "it begins again more often than it may");
    caught(MT_PLANT_GANG_RENEWED_TWICE, "a rank is started while it runs");
    caught(MT_PLANT_GANG_SERVES_ON, "only servers run, and it goes on");
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(holds), cmocka_unit_test(plants_are_caught)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
