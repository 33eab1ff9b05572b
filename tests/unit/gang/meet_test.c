/* SPDX-License-Identifier: Apache-2.0
 *
 * meet_test.c - ranks that meet by the driver, in a world on virtual time where they die and come again, finish, give up what they
 * are in, or are all ended, at any moment, with lines on their way: what must always hold, that planted bugs break it, and what no
 * rank may say.
 */
#include "clients/gang/plan/meet.h"

#include "core/base/limits/gang.h"
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
    bool     is_there, is_ready, has_taken_part; /* is_ready: the driver has heard so; has_taken_part: of any of its lives */
    bool     has_enough;                         /* it finishes instead of joining */
    bool     is_late;                            /* it was ready when no generation came any more */
    int      closed;                             /* so often it has heard that none comes */
    uint32_t entered;                            /* the generation that it is in; 0: none */
    uint32_t joined, over;       /* the last in which it has met all others, and of which it has heard that it is over */
    uint32_t given_up;           /* the last of which it has said that it is over */
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
    uint32_t        given_up;   /* in this one and those before no call ends well any more */
    int             often;      /* that was so without an end */
    bool            has_end;    /* of a process, since the last generation */
    bool            finishes;   /* ranks do; else they die and come again only */
    bool            is_closed;  /* one has finished, or all are being ended */
    bool            is_stopped; /* no more ends */
    int             finished;   /* who; -1: nobody */
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

/* A generation follows where somebody has ended, or all have given up the last one. */
static void follows(struct world *w)
{
    for (int i = 0; i < w->count && w->told && !w->has_end; i++)
        if (w->of[i].given_up < w->told)
            breaks(w, "a generation is named beside one that is at work");
    w->has_end = false;
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
            if (generation > w->told)
                follows(w);
            w->told_to = generation == w->told ? w->told_to + 1 : 1;
            w->told = generation;
            if (!w->of[h->rank].is_ready)
                breaks(w, "a generation is named while a rank is missing");
            if (w->is_closed)
                breaks(w, "a generation is named when one has finished");
        }
        post(w, h->rank, true, line);
    }
    gng_meet_sent(&w->meet);
}

static void process_begin(struct world *w, int rank)
{
    char line[200];
    w->of[rank] = (struct process){.life = w->of[rank].life + 1, .is_there = true, .has_taken_part = w->of[rank].has_taken_part};
    snprintf(line, sizeof line, "{\"ready\": %u, \"address\": %s%064x%s}", w->of[rank].life,
             w->meet.is_one_node ? "null, \"x\": \"" : "\"", (unsigned)rank, "\"");
    w->of[rank].last_from = w->now + (int64_t)mt_rng_below(&w->rng, 100); /* loading its libraries */
    post(w, rank, false, line);
}

/* Its supervisor says so behind all that it said. */
static void process_end(struct world *w, int rank, bool is_failed)
{
    struct process *p = &w->of[rank];
    if (!p->is_there)
        return;
    for (int i = 0; i < w->due_count; i++)
        if (w->due[i].rank == rank && !w->due[i].is_to_rank && (w->due[i].at <= w->now || (!is_failed && p->is_ready)))
            return; /* what it has said is on its way still: later */
    p->is_there = false;
    w->has_end = true;
    for (int i = w->due_count - 1; i >= 0; i--)
        if (w->due[i].rank == rank)
            w->due[i] = w->due[--w->due_count];
    w->finished = is_failed || w->is_closed ? w->finished : rank;
    assert_int_equal(gng_meet_ended(&w->meet, rank, is_failed).code, 0);
    for (size_t i = 0; i < w->meet.lines.count && !is_failed && p->joined == w->told; i++)
        if (memcmp(w->meet.lines.data[i].line.data, "{\"over\"", 7) == 0)
            breaks(w, "what the others are in is ended by one that has finished its part");
    lines_post(w);
    w->is_closed = w->is_closed || !is_failed;
    if (!is_failed)
        return;
    if (gng_meet_stuck(&w->meet, rank) != (w->is_closed && p->has_taken_part))
        breaks(w, "a rank is started again in vain, or is not started again");
    w->is_stopped = w->is_stopped || gng_meet_stuck(&w->meet, rank); /* a failure of all */
    if (!w->is_stopped)
        process_begin(w, rank);
}

/* Its call has ended, and it waits for the next generation. */
static void rank_gives_up(struct world *w, int rank)
{
    struct process *p = &w->of[rank];
    char            line[64];
    snprintf(line, sizeof line, "{\"over\": %u}", p->entered);
    p->given_up = p->entered;
    post(w, rank, false, line);
}

/* A call takes too long, or a connection breaks: the calls of all who are in it, or come to it, end with an error. */
static void generation_breaks(struct world *w)
{
    if (w->often == MT_GANG_GIVEN_UP_MAX || w->told_to < w->count || w->given_up == w->told)
        return;
    w->often++;
    w->given_up = w->told;
    for (int i = 0; i < w->count; i++)
        if (w->of[i].is_there && w->of[i].entered == w->told)
            rank_gives_up(w, i);
}

static void all_are_ended(struct world *w)
{
    assert_int_equal(gng_meet_close(&w->meet).code, 0);
    lines_post(w);
    w->is_closed = w->is_stopped = true;
}

static void something_ends(struct world *w)
{
    int rank = (int)mt_rng_below(&w->rng, (uint64_t)w->count);
    if (w->is_stopped)
        return;
    if (w->finishes && chance(w, 1))
        all_are_ended(w);
    else if (chance(w, 10))
        generation_breaks(w);
    else
        process_end(w, rank, !(w->finishes && chance(w, w->is_closed ? 50 : 5)));
}

/* The joining ends for all when the last of them comes. */
static void join_look(struct world *w, uint32_t generation)
{
    char line[64];
    for (int i = 0; i < w->count; i++)
        if (generation <= w->given_up || !w->of[i].is_there || w->of[i].entered != generation || w->of[i].over >= generation)
            return;
    snprintf(line, sizeof line, "{\"joined\": %u}", generation);
    for (int i = 0; i < w->count; i++) {
        w->of[i].joined = generation;
        post(w, i, false, line);
    }
}

static void rank_hears(struct world *w, int rank, const char *line)
{
    struct process *p = &w->of[rank];
    unsigned        number, made_for, maker, life;
    int             who;
    char            reply[700];
    const char     *id = strstr(line, "\"afresh\": \"");
    if (sscanf(line, "{\"make\": %u", &number) == 1) {
        snprintf(reply, sizeof reply, "{\"made\": %u, \"id\": \"%08x%08x%08x%0488d\"}", number, number, (unsigned)rank, p->life, 0);
        post(w, rank, false, reply);
    } else if (strncmp(line, "{\"closed\": ", 11) == 0) {
        p->closed++;
        if ((sscanf(line, "{\"closed\": %d", &who) == 1 ? who : -1) != w->finished)
            breaks(w, "a rank is told of another one that it has finished");
    } else if (sscanf(line, "{\"over\": %u", &number) == 1) {
        p->over = number;
    } else if (sscanf(line, "{\"generation\": %u", &number) == 1) {
        if (number <= p->entered)
            breaks(w, "a rank is told an old generation");
        p->has_enough = w->finishes && chance(w, 3);
        p->entered = p->has_enough ? p->entered : number;
        if (p->entered == number && number <= w->given_up)
            rank_gives_up(w, rank);
        join_look(w, number);
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
    struct process *p = &w->of[d.rank];
    p->is_late = p->is_late || (!p->is_ready && w->is_closed);
    p->is_ready = p->has_taken_part = true; /* which it says first */
    assert_int_equal(gng_meet_said(&w->meet, d.rank, mt_view_text(d.line), key).code, 0);
    lines_post(w);
}

static bool is_earlier(const struct due *a, const struct due *b)
{
    return a->at != b->at ? a->at < b->at : a->order < b->order;
}

/* When all lines have come. */
static void end_look(struct world *w, const struct process *p)
{
    if (!w->is_closed && (p->entered != w->meet.generation || w->meet.state != GNG_MEET_TOGETHER))
        breaks(w, "they do not all come together");
    if (!w->is_closed && p->entered <= w->given_up && w->given_up)
        breaks(w, "what all have given up is followed by nothing");
    if (w->finished >= 0 && !w->is_stopped && p->is_there && !p->has_enough && p->entered != p->joined && p->entered != p->over)
        breaks(w, "a rank joins others, and waits for one that has finished");
    if (w->is_closed && p->is_there && p->is_ready && p->closed != 1)
        breaks(w, p->is_late ? "who can join later is not told once that it is in vain"
                             : "who waits is not told once that it is in vain");
}

static void world_run(struct world *w, uint64_t seed)
{
    static struct world fresh;
    *w = fresh;
    w->rng = (mt_rng){seed};
    w->count = 1 + (int)mt_rng_below(&w->rng, RANKS_MAX);
    w->finished = -1;
    w->finishes = chance(w, 50);
    gng_meet_init(&w->meet, calloc((size_t)w->count, sizeof *w->meet.of), w->count, chance(w, 70));
    for (int i = 0; i < w->count; i++)
        process_begin(w, i);
    while (!w->broken[0] && w->now < LATE_MS) {
        int first = -1;
        if (w->now < CALM_MS && chance(w, 10))
            something_ends(w);
        for (int i = 0; i < w->count; i++)
            if (w->of[i].has_enough)
                process_end(w, i, false);
        for (int i = 0; i < w->due_count; i++)
            if (first < 0 || is_earlier(&w->due[i], &w->due[first]))
                first = i;
        if (first >= 0 && w->due[first].at <= w->now + 10)
            due_take(w, first);
        else
            w->now += 10;
    }
    for (int i = 0; i < w->count; i++)
        end_look(w, &w->of[i]);
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
    caught(MT_PLANT_MEET_ON, "who waits is not told once that it is in vain");
    caught(MT_PLANT_MEET_JOINING, "a rank joins others, and waits for one that has finished");
    caught(MT_PLANT_MEET_DEAF, "who can join later is not told once that it is in vain");
    caught(MT_PLANT_MEET_GIVEN_UP, "what all have given up is followed by nothing");
    caught(MT_PLANT_MEET_HASTY, "a generation is named beside one that is at work");
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
    gng_meet_fini(&m);
}

/* All give up one generation after another, and nobody dies: not for ever. */
static void given_up_too_often(void **state)
{
    struct gng_meet m;
    char            line[120];
    (void)state;
    gng_meet_init(&m, calloc(1, sizeof *m.of), 1, false);
    snprintf(line, sizeof line, "{\"ready\": 8, \"address\": \"%064d\"}", 0);
    assert_int_equal(gng_meet_said(&m, 0, mt_view_text(line), "").code, 0);
    for (int i = 1; i <= MT_GANG_GIVEN_UP_MAX + 1; i++) {
        gng_meet_sent(&m);
        snprintf(line, sizeof line, "{\"over\": %d}", i);
        assert_int_equal(gng_meet_said(&m, 0, mt_view_text(line), "").code, i > MT_GANG_GIVEN_UP_MAX ? MT_EPROTO : MT_OK);
        assert_int_equal(m.lines.count, i <= MT_GANG_GIVEN_UP_MAX);
    }
    gng_meet_fini(&m);
}

/* One finishes: the other hears so, may end well, and is not started again where it does not. */
static void an_end(void **state)
{
    struct gng_meet m;
    (void)state;
    for (int early = 0; early < 2; early++) {
        gng_meet_init(&m, calloc(2, sizeof *m.of), 2, true);
        assert_int_equal(gng_meet_said(&m, 0, mt_view_text("{\"ready\": 8}"), "").code, 0);
        if (!early)
            assert_int_equal(gng_meet_said(&m, 1, mt_view_text("{\"ready\": 7}"), "").code, 0);
        gng_meet_sent(&m);
        assert_false(gng_meet_stuck(&m, 0));
        assert_int_equal(gng_meet_ended(&m, 1, false).code, 0);
        assert_int_equal(m.lines.count, 1);
        assert_int_equal(m.lines.data[0].rank, 0);
        assert_memory_equal(m.lines.data[0].line.data, "{\"closed\": 1}\n", 14);
        gng_meet_sent(&m);
        assert_int_equal(gng_meet_close(&m).code, 0);
        assert_int_equal(m.lines.count, 0); /* it knows */
        assert_int_equal(gng_meet_ended(&m, 0, true).code, 0);
        assert_int_equal(m.lines.count, 0);
        assert_true(gng_meet_stuck(&m, 0));
        assert_int_equal(gng_meet_stuck(&m, 1), !early); /* it has never said that it would join: it would not wait */
        gng_meet_fini(&m);
    }
}

/* One finishes and has not come to the joining: the others need not wait for it. One that had joined ends nothing. */
static void an_end_while_others_join(void **state)
{
    struct gng_meet m;
    char            ready[120];
    (void)state;
    for (int joined = 0; joined < 2; joined++) {
        gng_meet_init(&m, calloc(2, sizeof *m.of), 2, false);
        snprintf(ready, sizeof ready, "{\"ready\": 8, \"address\": \"%064d\"}", 0);
        assert_int_equal(gng_meet_said(&m, 0, mt_view_text(ready), "").code, 0);
        assert_int_equal(gng_meet_said(&m, 1, mt_view_text(ready), "").code, 0);
        if (joined)
            assert_int_equal(gng_meet_said(&m, 1, mt_view_text("{\"joined\": 1}"), "").code, 0);
        gng_meet_sent(&m);
        assert_int_equal(gng_meet_ended(&m, 1, false).code, 0);
        assert_int_equal(m.lines.count, joined ? 1 : 2);
        if (!joined)
            assert_memory_equal(m.lines.data[0].line.data, "{\"over\": 1}\n", 12);
        assert_memory_equal(m.lines.data[m.lines.count - 1].line.data, "{\"closed\": 1}\n", 14);
        gng_meet_fini(&m);
    }
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
    const struct CMUnitTest tests[] = {cmocka_unit_test(holds),
                                       cmocka_unit_test(plants_are_caught),
                                       cmocka_unit_test(a_death),
                                       cmocka_unit_test(an_end),
                                       cmocka_unit_test(an_end_while_others_join),
                                       cmocka_unit_test(wrong_lines),
                                       cmocka_unit_test(given_up_too_often)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
