/* SPDX-License-Identifier: Apache-2.0
 *
 * main.c - sim_train: generations of a training, made ready beside each other (sgd/watch/next.h), on virtual time, with faults.
 *
 *   sim_train [--seeds A-B] [--plant N]
 *
 * Workers on three nodes come, are killed, and leave with their nodes; words between them and the driver take their time. A worker
 * runs its orders one after the other. It sees the end of a step when it happens to look, later than others of its node or sooner.
 * Thread: one.
 *
 *   T1  who joins a generation finds nobody of its node in an older one
 *   T2  a change without a death costs no step: all members of the next generation have the last one
 *   T3  when the faults end, all that are there make steps together
 */
#include "core/base/plant.h"
#include "core/base/rng.h"
#include "sgd/watch/next.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#ifdef MANTA_PLANTS
int mt_plant;
#endif

enum { NODES = 3, WORKERS = 9, GENERATIONS = 4096, FLYING = 256, QUEUE = 4, QUIET = 6000, END = 12000, CONNECT_LIMIT = 200 };

enum doing { IDLE, AWAITS, JOINED, COMPUTES, ARRIVED, LOOKS };

struct order {
    uint32_t generation, after, mates; /* bits of those on its node that were in `after` */
};

struct worker { /* a process */
    bool         is_alive;
    enum doing   doing;
    struct order queue[QUEUE];
    int          queued;
    uint64_t     until, steps;
    uint32_t     out;
};

struct generation {
    uint32_t members, joined, arrived;
    uint64_t step;
    bool     wants_leave, is_leaving, is_planned, is_clean; /* since it was formed nobody has died, and nothing was ended */
};

enum word { ORDERS, CONNECT, ABORT, LEAVE, DIED, CONNECTED, BACK };
struct flying {
    enum word    word;
    uint64_t     due; /* 0: free */
    int          who; /* worker, or node */
    struct order order;
    bool         is_ok, has_left;
};

struct hand { /* what the driver knows of a worker */
    bool     is_there, is_member, is_next, connects, has_failed, has_left, is_back;
    uint32_t train, next;
};

static struct sim {
    mt_rng            rng;
    uint64_t          now, seed, leave_at;
    struct worker     workers[WORKERS];
    struct generation generations[GENERATIONS];
    uint32_t          aborted[NODES];
    bool              leaves[NODES];
    struct flying     flying[FLYING];
    uint64_t          channel[WORKERS + NODES][2]; /* when its last word arrives: words keep their order */
    struct hand       hands[WORKERS];
    struct sgd_next   next;
    uint32_t          generation, numbers, tried;
    bool              lives, is_ending;
    const char       *broken;
    uint64_t          made, taken, dropped, last_step_at;
} S;

static uint64_t below(uint64_t bound)
{
    return mt_rng_below(&S.rng, bound);
}

static void breaks(const char *what)
{
    S.broken = S.broken ? S.broken : what;
}

static int node_of(int worker)
{
    return worker % NODES;
}

static void send(enum word word, int who, struct order order, bool is_ok, bool has_left)
{
    bool      is_news = word >= DIED, is_to_node = word == ABORT || word == LEAVE;
    uint64_t *last = &S.channel[is_to_node ? WORKERS + who : who][is_news];
    for (struct flying *f = S.flying; f < S.flying + FLYING; f++) {
        if (f->due)
            continue;
        uint64_t due = S.now + 1 + below(below(8) == 0 ? 60 : 6);
        if (word != CONNECT && word != CONNECTED) /* these run beside the others */
            *last = due = due > *last ? due : *last + 1;
        *f = (struct flying){word, due, who, order, is_ok, has_left};
        return;
    }
    abort(); /* too many words under way: enlarge FLYING */
}

/* ---- workers ---- */

static uint32_t generation_of(const struct worker *w)
{
    return w->queued ? w->queue[0].generation : 0;
}

static void come_back(int i, bool is_ok, bool has_left)
{
    struct worker *w = &S.workers[i];
    send(BACK, i, w->queue[0], is_ok, has_left);
    if (has_left)
        w->out = w->queue[0].generation;
    memmove(w->queue, w->queue + 1, sizeof w->queue - sizeof *w->queue);
    w->queued--;
    w->doing = w->queued ? AWAITS : IDLE;
}

static void join(int i)
{
    struct worker     *w = &S.workers[i];
    struct generation *g = &S.generations[generation_of(w)];
    for (int m = 0; m < WORKERS; m++) {
        const struct worker *mate = &S.workers[m];
        if (m != i && node_of(m) == node_of(i) && mate->is_alive && mate->doing >= JOINED && generation_of(mate) < generation_of(w))
            breaks("T1: a worker joins while another of its node is in an older generation");
    }
    g->joined |= 1u << i;
    w->doing = JOINED;
}

/* Who has come back from it, since it was ended, is not in it any more. */
static bool is_in(int i, const struct generation *g, enum doing doing)
{
    return S.workers[i].doing == doing && &S.generations[generation_of(&S.workers[i])] == g;
}

/* All are there: they have one state, that of who is furthest. */
static void begin(struct generation *g)
{
    uint64_t least = UINT64_MAX, last = 0, most = 0; /* the first two of members of the generation before */
    for (int m = 0; m < WORKERS; m++) {
        struct worker *w = &S.workers[m];
        if (!(g->members >> m & 1))
            continue;
        most = w->steps > most ? w->steps : most;
        if (!(S.generations[w->queue[0].after].members >> m & 1))
            continue;
        least = w->steps < least ? w->steps : least;
        last = w->steps > last ? w->steps : last;
    }
    if (g->is_planned && g->is_clean && least < last)
        breaks("T2: a member of the generation before lacks its last step");
    for (int m = 0; m < WORKERS; m++)
        if (is_in(m, g, JOINED))
            S.workers[m].steps = most, S.workers[m].doing = COMPUTES, S.workers[m].until = S.now + 1 + below(20);
    g->step = most;
}

static bool is_over(int i)
{
    return S.aborted[node_of(i)] >= generation_of(&S.workers[i]);
}

static bool all_out(const struct order *o)
{
    for (int m = 0; m < WORKERS; m++)
        if (o->mates >> m & 1 && !sgd_next_is_out(o->after, S.workers[m].out))
            return false;
    return true;
}

static void look(int i)
{
    struct worker     *w = &S.workers[i];
    struct generation *g = &S.generations[generation_of(w)];
    w->steps = g->step;
    S.made++;
    S.last_step_at = S.now;
    if (g->is_leaving) {
        come_back(i, true, true);
        return;
    }
    w->doing = COMPUTES;
    w->until = S.now + 1 + below(20);
}

static void worker_step(int i)
{
    struct worker     *w = &S.workers[i];
    struct generation *g = &S.generations[generation_of(w)];
    if (!w->is_alive || !w->queued || (w->doing == COMPUTES && w->until > S.now))
        return;
    if (w->doing != COMPUTES && is_over(i)) {
        if (below(3) == 0)
            come_back(i, false, false);
    } else if (w->doing == AWAITS) {
        if (all_out(&w->queue[0]))
            join(i);
    } else if (w->doing == JOINED) {
        if (g->joined == g->members && !g->step)
            g->step = 1, begin(g);
    } else if (w->doing == COMPUTES) {
        w->doing = ARRIVED;
        g->arrived |= 1u << i;
        if (g->arrived == g->members) { /* the step is whole; the flag was raised beside it */
            g->arrived = 0;
            g->step++;
            g->is_leaving = g->wants_leave;
            for (int m = 0; m < WORKERS; m++)
                if (is_in(m, g, ARRIVED))
                    S.workers[m].doing = LOOKS;
        }
    } else if (w->doing == LOOKS && below(4) == 0) {
        look(i);
    }
}

/* ---- the driver ---- */

static bool may_stay(int i)
{
    return S.hands[i].is_there && !S.leaves[node_of(i)];
}

static void everywhere(enum word word, uint32_t generation)
{
    for (int n = 0; n < NODES; n++)
        send(word, n, (struct order){.generation = generation}, true, false);
}

static struct order order_of(int i, uint32_t generation)
{
    struct order o = {generation, S.generation, 0};
    for (int m = 0; m < WORKERS; m++)
        if (node_of(m) == node_of(i) && S.hands[m].is_member)
            o.mates |= 1u << m;
    return o;
}

/* As of a death: nothing lives any more. */
static void end_all(void)
{
    uint32_t last = S.next.state == SGD_NEXT_ORDERED && !MT_PLANT(MT_PLANT_NEXT_KEPT) ? S.next.generation : S.generation;
    S.lives = false;
    everywhere(ABORT, last);
    for (uint32_t g = S.generation; g <= S.numbers; g++)
        S.generations[g].is_clean = false;
}

static struct sgd_next_seen seen_of(void)
{
    struct sgd_next_seen seen = {.lives = S.lives, .has_left = true};
    for (struct hand *h = S.hands; h < S.hands + WORKERS; h++) {
        seen.present += h->train != 0;
        seen.connecting += h->connects;
        seen.ordered += h->next != 0;
        seen.has_left = seen.has_left && (!h->is_back || !h->is_member || h->has_left);
        seen.lives = seen.lives && (!h->is_next || h->is_there);
        seen.failed = seen.failed || (h->is_next && h->has_failed);
    }
    return seen;
}

static void orders_give(void)
{
    for (int i = 0; i < WORKERS; i++)
        if (S.hands[i].is_next) {
            S.hands[i].next = S.next.generation;
            send(ORDERS, i, order_of(i, S.next.generation), true, false);
        }
    everywhere(LEAVE, S.generation);
    S.leave_at = S.now;
}

static void forget(void)
{
    for (struct hand *h = S.hands; h < S.hands + WORKERS; h++)
        h->is_next = h->connects = h->has_failed = false, h->next = 0;
}

static void next_look(void)
{
    struct sgd_next_seen seen = seen_of();
    enum sgd_next_act    act = sgd_next_look(&S.next, &seen, (int64_t)S.now);
    if (act == SGD_NEXT_WAIT || act == SGD_NEXT_TAKE)
        return;
    if (act == SGD_NEXT_ORDER)
        orders_give();
    else if (act == SGD_NEXT_FORGET)
        forget();
    else if (S.next.state == SGD_NEXT_ORDERED)
        end_all();
    S.dropped += act == SGD_NEXT_DROP;
    sgd_next_did(&S.next, act);
}

static void change_maybe(void)
{
    uint32_t stay = 0;
    bool     is_due = false;
    for (int i = 0; i < WORKERS; i++) {
        stay |= (uint32_t)may_stay(i) << i;
        is_due = is_due || may_stay(i) != S.hands[i].is_member;
    }
    if (!is_due || !S.lives || S.leave_at || S.next.state != SGD_NEXT_NONE)
        return;
    if (S.tried == S.generation || !stay) { /* the plain way: they come back first */
        S.leave_at = S.now;
        everywhere(LEAVE, S.generation);
        return;
    }
    S.tried = S.generation;
    sgd_next_begin(&S.next, ++S.numbers, (int64_t)S.now + CONNECT_LIMIT);
    S.generations[S.numbers] = (struct generation){
        .members = stay, .is_planned = true, .is_clean = S.generations[S.generation].is_clean};
    for (int i = 0; i < WORKERS; i++)
        if (stay >> i & 1) {
            S.hands[i].is_next = S.hands[i].connects = true;
            send(CONNECT, i, order_of(i, S.numbers), true, false);
        }
}

static bool is_anybody_out(void)
{
    for (const struct hand *h = S.hands; h < S.hands + WORKERS; h++)
        if (h->train)
            return true;
    return false;
}

static void take(void)
{
    for (struct hand *h = S.hands; h < S.hands + WORKERS; h++) {
        h->train = h->next == UINT32_MAX ? 0 : h->next; /* its answer is there already */
        h->is_member = h->is_next;
        h->is_back = h->is_next && !h->train;
        h->is_next = h->has_left = h->has_failed = false;
        h->next = 0;
    }
    S.generation = S.next.generation;
    S.taken++;
    sgd_next_did(&S.next, SGD_NEXT_TAKE);
}

static void form(void)
{
    struct generation g = {.is_clean = true};
    for (int i = 0; i < WORKERS; i++)
        g.members |= (uint32_t)may_stay(i) << i;
    if (!g.members)
        return;
    S.generations[++S.numbers] = g;
    for (int i = 0; i < WORKERS; i++) {
        bool is_member = g.members >> i & 1;
        S.hands[i] = (struct hand){.is_there = S.hands[i].is_there, .is_member = is_member, .train = is_member ? S.numbers : 0};
    }
    S.generation = S.numbers;
    for (int i = 0; i < WORKERS; i++)
        if (g.members >> i & 1)
            send(ORDERS, i, (struct order){.generation = S.numbers}, true, false);
}

static void driver_step(void)
{
    next_look();
    if (is_anybody_out()) {
        change_maybe();
        return;
    }
    if (S.next.state == SGD_NEXT_CONNECTING || S.next.state == SGD_NEXT_DROPPED)
        return;
    if (S.next.state == SGD_NEXT_ORDERED)
        take();
    else
        form();
    S.lives = true;
    S.leave_at = 0;
}

static void heard(const struct flying *f)
{
    struct hand *h = &S.hands[f->who];
    if (!h->is_there && f->word != DIED)
        return;
    if (f->word == DIED) {
        bool was_member = h->is_member;
        *h = (struct hand){.is_next = h->is_next};
        if (was_member)
            end_all();
    } else if (f->word == CONNECTED) {
        h->connects = false;
        h->has_failed = !f->is_ok;
    } else if (h->train == f->order.generation) {
        h->train = 0;
        h->is_back = true;
        h->has_left = f->has_left;
        if (!f->is_ok && S.lives)
            end_all();
    } else if (h->next == f->order.generation) {
        h->next = S.next.state == SGD_NEXT_DROPPED ? 0 : UINT32_MAX;
        h->has_failed = !f->is_ok;
    }
}

/* ---- time ---- */

static void arrive(const struct flying *f)
{
    struct worker *w = &S.workers[f->who < WORKERS ? f->who : 0];
    if (f->word >= DIED) {
        heard(f);
    } else if (f->word == ABORT) {
        S.aborted[f->who] = S.aborted[f->who] > f->order.generation ? S.aborted[f->who] : f->order.generation;
    } else if (f->word == LEAVE) {
        S.generations[f->order.generation].wants_leave = true;
    } else if (w->is_alive && f->word == CONNECT) {
        send(CONNECTED, f->who, f->order, S.is_ending || below(10) > 0, false);
    } else if (w->is_alive) {
        if (w->queued == QUEUE)
            abort();
        w->queue[w->queued++] = f->order;
        w->doing = w->queued == 1 ? AWAITS : w->doing;
    }
}

static void kill_worker(int i)
{
    if (!S.workers[i].is_alive)
        return;
    S.workers[i].is_alive = false;
    S.workers[i].queued = 0;
    S.workers[i].doing = IDLE;
    for (uint32_t g = S.generation; g <= S.numbers; g++)
        S.generations[g].is_clean = false;
    send(DIED, i, (struct order){0}, false, false);
}

static void hire(int i)
{
    for (const struct flying *f = S.flying; f < S.flying + FLYING; f++)
        if (f->due && f->who == i && f->word != ABORT && f->word != LEAVE)
            return; /* words of the one before are under way */
    uint32_t out = S.workers[i].out;
    S.workers[i] = (struct worker){.is_alive = true, .out = out};
    S.hands[i] = (struct hand){.is_there = true};
}

static void faults(void)
{
    int i = (int)below(WORKERS), n = (int)below(NODES);
    if (S.is_ending) {
        for (n = 0; n < NODES; n++)
            S.leaves[n] = false;
    } else if (below(250) == 0) {
        kill_worker(i);
    } else if (below(400) == 0) {
        S.leaves[n] = !S.leaves[n];
    }
    if (!S.hands[i].is_there && !S.hands[i].is_next && !S.workers[i].is_alive && below(20) == 0)
        hire(i);
}

static void end_check(void)
{
    for (int i = 0; i < WORKERS; i++)
        if (S.workers[i].is_alive && !S.hands[i].is_member)
            breaks("T3: a worker that is there has no part in the present generation");
    if (S.now - S.last_step_at > 200)
        breaks("T3: nobody makes steps");
}

static void run(uint64_t seed)
{
    S = (struct sim){.rng = {seed}, .seed = seed};
    for (S.now = 1; S.now < END && !S.broken; S.now++) {
        S.is_ending = S.now >= QUIET;
        faults();
        for (struct flying *f = S.flying; f < S.flying + FLYING; f++)
            if (f->due && f->due <= S.now) {
                struct flying word = *f;
                f->due = 0;
                arrive(&word);
            }
        for (int k = 0, first = (int)below(WORKERS); k < WORKERS; k++)
            worker_step((first + k) % WORKERS);
        driver_step();
        if (S.numbers > GENERATIONS - 8)
            abort();
    }
    if (!S.broken)
        end_check();
}

int main(int argc, char **argv)
{
    unsigned long from = 1, to = 100, made = 0, taken = 0, dropped = 0;
    for (int i = 1; i + 1 < argc; i += 2) {
        if (strcmp(argv[i], "--seeds") == 0)
            (void)sscanf(argv[i + 1], "%lu-%lu", &from, &to);
#ifdef MANTA_PLANTS
        else if (strcmp(argv[i], "--plant") == 0)
            mt_plant = (int)strtol(argv[i + 1], NULL, 10);
#endif
        else
            return fprintf(stderr, "usage: %s [--seeds A-B] [--plant N]\n", argv[0]), 2;
    }
    for (unsigned long seed = from; seed <= to; seed++) {
        run(seed);
        if (S.broken) {
            printf("seed %lu, at %llu: %s\n", seed, (unsigned long long)S.now, S.broken);
            return 1;
        }
        made += S.made, taken += S.taken, dropped += S.dropped;
    }
    printf("seeds %lu to %lu: %lu steps of a worker, %lu generations made ready and taken, %lu dropped\n", from, to, made, taken,
           dropped);
    return taken && dropped ? 0 : 1;
}
