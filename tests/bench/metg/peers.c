/* SPDX-License-Identifier: Apache-2.0
 *
 * peers.c - a graph as actors that send their numbers to each other; the driver only begins it and waits for its end.
 *
 * An actor runs its tasks in the order of their rows, each as soon as all numbers that it needs are there. A number that comes
 * for a later row is counted and waits. Without needs (trivial) a task is begun by a call of the actor before it.
 *
 *   driver --begin--> each actor --input(step, number)--> the actors that need it ... --ended--> metg_end --wait--> driver
 */
#include "tests/bench/metg/metg.h"

#include <pthread.h>
#include <stdlib.h>

/* ---- the end: whom the actors tell, and where the driver waits ---- */
struct ending {
    pthread_mutex_t lock;
    pthread_cond_t  changed;
    int64_t         ended, wrong;
};

static manta_status ending_new(manta_ctx *c, void **self, int argc, const manta_arg *argv)
{
    (void)argc, (void)argv;
    struct ending *e = calloc(1, sizeof *e);
    if (!e)
        return manta_fail(c, 1, "no memory");
    pthread_mutex_init(&e->lock, NULL);
    pthread_cond_init(&e->changed, NULL);
    *self = e;
    return MANTA_OK;
}
static manta_status ending_tell(manta_ctx *c, void *self, int argc, const manta_arg *argv)
{
    struct ending *e = self;
    (void)c, (void)argc;
    pthread_mutex_lock(&e->lock);
    e->ended++;
    e->wrong += argv[0].l;
    pthread_cond_signal(&e->changed);
    pthread_mutex_unlock(&e->lock);
    return MANTA_OK;
}
/* How many numbers were wrong, when so many actors have ended; counts from the beginning then. */
static manta_status ending_wait(manta_ctx *c, void *self, int argc, const manta_arg *argv)
{
    struct ending *e = self;
    (void)argc;
    pthread_mutex_lock(&e->lock);
    while (e->ended < argv[0].l)
        pthread_cond_wait(&e->changed, &e->lock);
    int64_t wrong = e->wrong;
    e->ended = e->wrong = 0;
    pthread_mutex_unlock(&e->lock);
    return manta_return_i64(c, wrong);
}
MANTA_ACTOR(metg_end, "", ending_new, free, {"tell", "l>", ending_tell}, {"wait", "l>l", ending_wait});

/* ---- an actor of the graph ---- */
struct peer {
    manta_actor       *others[GRAPH_WIDTH_MAX], *end;
    enum graph_pattern pattern;
    int                width, place, step;
    int64_t            iterations, wrong;
    uint8_t            came[GRAPH_STEPS]; /* numbers that are there for that row */
};

static manta_status peer_new(manta_ctx *c, void **self, int argc, const manta_arg *argv)
{
    struct peer *p = calloc(1, sizeof *p);
    (void)argc;
    if (!p)
        return manta_fail(c, 1, "no memory");
    p->place = (int)argv[0].l;
    p->end = manta_actor_dup(argv[1].A);
    *self = p;
    return MANTA_OK;
}

static void peer_free(void *self)
{
    struct peer *p = self;
    for (int i = 0; i < GRAPH_WIDTH_MAX; i++)
        manta_actor_free(p->others[i]);
    manta_actor_free(p->end);
    free(p);
}

static manta_status peer_know(manta_ctx *c, void *self, int argc, const manta_arg *argv)
{
    struct peer *p = self;
    (void)c, (void)argc;
    p->others[argv[0].l] = manta_actor_dup(argv[1].A);
    return MANTA_OK;
}

static void send(manta_actor *to, const char *method, manta_arg a, manta_arg b)
{
    manta_free(manta_actor_call(to, method, MANTA_ARGS(a, b)));
}

static void run_one(struct peer *p)
{
    int     to[GRAPH_WIDTH_MAX], count = graph_feeds(p->pattern, p->width, p->step, p->place, to);
    int64_t value = graph_work(p->iterations) > 0 ? graph_value(p->step, p->place) : 0;
    for (int i = 0; i < count; i++)
        if (to[i] == p->place)
            p->came[p->step + 1]++; /* as any program with state would: its own number is at hand */
        else
            send(p->others[to[i]], "input", manta_i64((int64_t)(p->step + 1) << METG_STEP_SHIFT | p->place), manta_i64(value));
    if (++p->step == GRAPH_STEPS)
        manta_free(manta_actor_call(p->end, "tell", MANTA_ARGS(manta_i64(p->wrong))));
}

static void run_ready(struct peer *p)
{
    int needs[GRAPH_NEEDS_MAX];
    while (p->step < GRAPH_STEPS && p->came[p->step] >= graph_needs(p->pattern, p->width, p->step, p->place, needs))
        run_one(p);
}

/* A number for row `step`, from a place of the row before; in a trivial graph the wish for one task. */
static manta_status peer_input(manta_ctx *c, void *self, int argc, const manta_arg *argv)
{
    struct peer *p = self;
    int          step = (int)(argv[0].l >> METG_STEP_SHIFT), from = (int)(argv[0].l & 0xffff);
    (void)c, (void)argc;
    p->wrong += argv[1].l != graph_value(step - 1, from);
    if (p->pattern == GRAPH_TRIVIAL) {
        run_one(p);
        return MANTA_OK;
    }
    p->came[step]++;
    run_ready(p);
    return MANTA_OK;
}

static manta_status peer_begin(manta_ctx *c, void *self, int argc, const manta_arg *argv)
{
    struct peer *p = self;
    (void)c, (void)argc, (void)argv;
    if (p->pattern == GRAPH_TRIVIAL) {
        for (int step = 1; step <= GRAPH_STEPS; step++)
            send(p->others[(p->place + 1) % p->width], "input", manta_i64((int64_t)step << METG_STEP_SHIFT | p->place),
                 manta_i64(graph_value(step - 1, p->place)));
        return MANTA_OK;
    }
    run_ready(p);
    return MANTA_OK;
}

/* Before the next graph, in all actors before any begins: the number of one that has begun may come before one's own beginning. */
static manta_status peer_know_graph(manta_ctx *c, void *self, int argc, const manta_arg *argv)
{
    struct peer *p = self;
    (void)argc;
    p->pattern = (enum graph_pattern)(argv[0].l >> METG_STEP_SHIFT);
    p->width = (int)(argv[0].l & 0xffff);
    p->iterations = argv[1].l;
    p->step = 0;
    p->wrong = 0;
    for (int i = 0; i < GRAPH_STEPS; i++)
        p->came[i] = 0;
    return manta_return_i64(c, 0);
}
MANTA_ACTOR(metg_peer, "lA", peer_new, peer_free, {"know", "lA>", peer_know}, {"graph", "ll>l", peer_know_graph},
            {"begin", ">", peer_begin}, {"input", "ll>", peer_input});

/* ---- the driver ---- */
static manta_actor *peers[GRAPH_WIDTH_MAX], *end;

static bool peers_begin(struct metg *m)
{
    end = manta_actor_new("metg_end", &(manta_actor_opts){.max_concurrency = 2}, MANTA_NO_ARGS);
    for (int i = 0; i < m->width; i++)
        peers[i] = manta_actor_new("metg_peer", &(manta_actor_opts){.node = m->nodes[i % 2]},
                                   MANTA_ARGS(manta_i64(i), manta_actor_arg(end)));
    for (int i = 0; i < m->width; i++)
        for (int j = 0; j < m->width; j++)
            send(peers[i], "know", manta_i64(j), manta_actor_arg(peers[j]));
    return true;
}

static bool peers_know_graph(struct metg *m)
{
    manta_ref *done[GRAPH_WIDTH_MAX];
    bool       ok = true;
    for (int i = 0; i < m->width; i++)
        done[i] = manta_actor_call(peers[i], "graph", MANTA_ARGS(manta_i64(metg_shape(m)), manta_i64(m->iterations)));
    for (int i = 0; i < m->width; i++)
        ok = bench_value(done[i], 0) && ok;
    return ok;
}

static double peers_run(struct metg *m)
{
    if (!peers_know_graph(m))
        return -1;
    uint64_t   start = bench_now_ns();
    manta_ref *ended = manta_actor_call(end, "wait", MANTA_ARGS(manta_i64(m->width)));
    for (int i = 0; i < m->width; i++)
        manta_free(manta_actor_call(peers[i], "begin", MANTA_NO_ARGS));
    bool ok = bench_value(ended, 0);
    return ok ? (double)(bench_now_ns() - start) * 1e-9 : -1;
}

static void peers_end(struct metg *m)
{
    for (int i = 0; i < m->width; i++)
        manta_actor_free(peers[i]);
    manta_actor_free(end);
}
const struct metg_form metg_peers = {"peers", peers_begin, peers_run, peers_end};
