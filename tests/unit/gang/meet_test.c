/* SPDX-License-Identifier: Apache-2.0
 *
 * meet_test.c - ranks that meet by the driver, in a world on virtual time where they die and come again at any moment, with lines
 * on their way: what must always hold, that planted bugs break it, and what no rank may say.
 */
#include "clients/gang/plan/meet.h"

#include "core/base/plant.h"
#include "core/base/rng.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>

#include <cmocka.h>

enum { SEEDS = 1000, RANKS_MAX = 4, DUE_MAX = 4096, CALM_MS = 3000, LATE_MS = 6000 }; /* CALM: nobody dies any more */

int mt_plant;

struct due {
    int64_t  at;
    uint64_t order; /* of those that are due at the same time to or from one rank */
    int      rank;
    uint32_t life;       /* of its process; a line to another one is lost */
    bool     is_to_rank; /* else from it */
    char     line[700];
};

struct process {
    uint32_t life;
    bool     is_there, is_ready; /* is_ready: the driver has heard so */
    uint32_t entered;            /* the generation that it is in; 0: none */
    int64_t  last_to, last_from; /* lines stay in order */
};

struct world {
    struct gng_meet meet;
    struct process  of[RANKS_MAX];
    struct due      due[DUE_MAX];
    int             due_count, count;
    mt_rng          rng;
    int64_t         now;
    uint64_t        order;
    uint32_t        told; /* the largest generation that anybody was told */
    int             told_to;
    char            broken[128];
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

static void post(struct world *w, int rank, bool is_to_rank, const char *line)
{
    struct process *p = &w->of[rank];
    int64_t        *last = is_to_rank ? &p->last_to : &p->last_from, at = w->now + (int64_t)mt_rng_below(&w->rng, 20);
    assert_true(w->due_count < DUE_MAX);
    *last = at > *last ? at : *last;
    struct due *d = &w->due[w->due_count++];
    *d = (struct due){.at = *last, .order = w->order++, .rank = rank, .life = p->life, .is_to_rank = is_to_rank};
    snprintf(d->line, sizeof d->line, "%s", line);
}

/* What the driver tells goes out; each generation to all, or to none. */
static void lines_post(struct world *w)
{
    for (size_t i = 0; i < w->meet.lines.count; i++) {
        struct gng_heard *h = &w->meet.lines.data[i];
        char              line[700];
        unsigned          generation;
        snprintf(line, sizeof line, "%.*s", (int)h->line.size, (const char *)h->line.data);
        if (sscanf(line, "{\"generation\": %u", &generation) == 1) {
            if (generation != w->told && w->told && w->told_to != w->count)
                breaks(w, "a generation was told to some");
            if (generation < w->told)
                breaks(w, "a generation is older than the last");
            w->told_to = generation == w->told ? w->told_to + 1 : 1;
            w->told = generation;
            if (!w->of[h->rank].is_ready)
                breaks(w, "a generation is named while a rank is missing");
        }
        post(w, h->rank, true, line);
    }
    gng_meet_sent(&w->meet);
}

static void process_begin(struct world *w, int rank)
{
    char line[200];
    w->of[rank] = (struct process){.life = w->of[rank].life + 1, .is_there = true};
    snprintf(line, sizeof line, "{\"ready\": %u, \"address\": %s%064x%s}", w->of[rank].life,
             w->meet.is_one_node ? "null, \"x\": \"" : "\"", (unsigned)rank, "\"");
    w->of[rank].last_from = w->now + (int64_t)mt_rng_below(&w->rng, 100); /* loading its libraries */
    post(w, rank, false, line);
}

/* Its supervisor says so behind all that it said. */
static void process_end(struct world *w, int rank)
{
    for (int i = 0; i < w->due_count; i++)
        if (w->due[i].rank == rank && !w->due[i].is_to_rank && w->due[i].at <= w->now)
            return; /* what it has said is on its way still: later */
    w->of[rank].is_there = false;
    for (int i = w->due_count - 1; i >= 0; i--)
        if (w->due[i].rank == rank)
            w->due[i] = w->due[--w->due_count];
    assert_int_equal(gng_meet_ended(&w->meet, rank, true).code, 0);
    lines_post(w);
    process_begin(w, rank);
}

static void rank_hears(struct world *w, int rank, const char *line)
{
    struct process *p = &w->of[rank];
    unsigned        number, made_for, maker, life;
    char            reply[700];
    const char     *id = strstr(line, "\"afresh\": \"");
    if (sscanf(line, "{\"make\": %u", &number) == 1) {
        snprintf(reply, sizeof reply, "{\"made\": %u, \"id\": \"%08x%08x%08x%0488d\"}", number, number, (unsigned)rank, p->life, 0);
        post(w, rank, false, reply);
    } else if (sscanf(line, "{\"generation\": %u", &number) == 1) {
        if (number <= p->entered)
            breaks(w, "a rank is told an old generation");
        p->entered = number;
        if (id && sscanf(id + 11, "%8x%8x%8x", &made_for, &maker, &life) == 3 && made_for != number)
            breaks(w, "its memory was made for another generation");
    }
}

static void due_take(struct world *w, int i)
{
    static char const key[] = "0123456789abcdef0123456789abcdef0123456789abcdef0123456789abcdef";
    struct due        d = w->due[i];
    w->due[i] = w->due[--w->due_count];
    w->now = d.at > w->now ? d.at : w->now;
    if (d.life != w->of[d.rank].life || !w->of[d.rank].is_there)
        return;
    if (d.is_to_rank) {
        rank_hears(w, d.rank, d.line);
        return;
    }
    w->of[d.rank].is_ready = true; /* which it says first */
    assert_int_equal(gng_meet_said(&w->meet, d.rank, mt_view_text(d.line), key).code, 0);
    lines_post(w);
}

static bool is_earlier(const struct due *a, const struct due *b)
{
    return a->at != b->at ? a->at < b->at : a->order < b->order;
}

static void world_run(struct world *w, uint64_t seed)
{
    static struct world fresh;
    *w = fresh;
    w->rng = (mt_rng){seed};
    w->count = 1 + (int)mt_rng_below(&w->rng, RANKS_MAX);
    gng_meet_init(&w->meet, calloc((size_t)w->count, sizeof *w->meet.of), w->count, chance(w, 70));
    for (int i = 0; i < w->count; i++)
        process_begin(w, i);
    while (!w->broken[0] && w->now < LATE_MS) {
        int first = -1;
        if (w->now < CALM_MS && chance(w, 10))
            process_end(w, (int)mt_rng_below(&w->rng, (uint64_t)w->count));
        for (int i = 0; i < w->due_count; i++)
            if (first < 0 || is_earlier(&w->due[i], &w->due[first]))
                first = i;
        if (first >= 0 && w->due[first].at <= w->now + 10)
            due_take(w, first);
        else
            w->now += 10;
    }
    for (int i = 0; i < w->count; i++)
        if (w->of[i].entered != w->meet.generation || w->meet.state != GNG_MEET_TOGETHER)
            breaks(w, "they do not all come together");
    gng_meet_fini(&w->meet);
}

static void holds(void **state)
{
    static struct world w;
    (void)state;
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
    caught(MT_PLANT_MEET_PART, "a generation is named while a rank is missing");
    caught(MT_PLANT_MEET_STALE, "its memory was made for another generation");
}

/* One rank dies: it and the others hear what, in this order. */
static void a_death(void **state)
{
    struct gng_meet m;
    char            id[600];
    (void)state;
    gng_meet_init(&m, calloc(2, sizeof *m.of), 2, true);
    snprintf(id, sizeof id, "{\"made\": 1, \"id\": \"%0512d\"}", 0);
    assert_int_equal(gng_meet_said(&m, 1, mt_view_text("{\"ready\": 7, \"address\": null}"), "").code, 0);
    assert_int_equal(m.lines.count, 0);
    assert_int_equal(gng_meet_said(&m, 0, mt_view_text("{\"ready\": 8}"), "").code, 0);
    assert_int_equal(m.lines.count, 1);
    assert_int_equal(m.lines.data[0].rank, 0);
    gng_meet_sent(&m);
    assert_int_equal(gng_meet_said(&m, 0, mt_view_text(id), "").code, 0);
    assert_int_equal(m.lines.count, 2);
    gng_meet_sent(&m);
    assert_int_equal(gng_meet_ended(&m, 0, true).code, 0);
    assert_int_equal(m.lines.count, 1);
    assert_int_equal(m.lines.data[0].rank, 1);
    assert_memory_equal(m.lines.data[0].line.data, "{\"over\": 1}\n", 12);
    gng_meet_sent(&m);
    assert_int_equal(gng_meet_said(&m, 0, mt_view_text("{\"ready\": 9}"), "").code, 0);
    assert_int_equal(m.lines.data[0].rank, 1); /* a survivor makes the next one */
    gng_meet_sent(&m);
    assert_int_equal(gng_meet_stuck(&m), -1);
    assert_int_equal(gng_meet_ended(&m, 1, false).code, 0); /* it was in the last one, and has finished: who shall rank 0 join? */
    assert_int_equal(gng_meet_stuck(&m), 0);
    gng_meet_fini(&m);
}

static void wrong_lines(void **state)
{
    static const char *const lines[] = {"",
                                        "{",
                                        "ready",
                                        "[]",
                                        "{}",
                                        "{\"ready\": -1}",
                                        "{\"ready\": \"7\"}",
                                        "{\"ready\": 7} x",
                                        "{\"made\": 1, \"id\": \"00\"}",
                                        "{\"made\": 1}",
                                        "{\"ready\": 7}",
                                        "{\"ready\": 7, \"address\": \"00\"}"};
    struct gng_meet          m;
    (void)state;
    gng_meet_init(&m, calloc(2, sizeof *m.of), 2, false);
    for (size_t i = 0; i < sizeof lines / sizeof *lines; i++)
        assert_int_equal(gng_meet_said(&m, 0, mt_view_text(lines[i]), "").code, MT_EPROTO);
    gng_meet_fini(&m);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(holds), cmocka_unit_test(plants_are_caught), cmocka_unit_test(a_death),
                                       cmocka_unit_test(wrong_lines)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
