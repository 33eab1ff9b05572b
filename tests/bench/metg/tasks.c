/* SPDX-License-Identifier: Apache-2.0
 *
 * tasks.c - a graph as tasks whose arguments are the refs of other tasks, and the same as calls of actors.
 *
 * The driver submits the whole graph and then waits for its last row (trivial: for all of it). Thread: the main one.
 */
#include "tests/bench/metg/metg.h"

#include <stdio.h>
#include <stdlib.h>

enum { INPUTS = GRAPH_NEEDS_MAX, ARGS = 3 + INPUTS };

int64_t metg_shape(const struct metg *m)
{
    return (int64_t)m->pattern << METG_STEP_SHIFT | m->width;
}

int64_t metg_task(int64_t shape, int64_t iterations, int64_t at, const int64_t inputs[GRAPH_NEEDS_MAX])
{
    int places[GRAPH_NEEDS_MAX], width = (int)(shape & 0xffff);
    int step = (int)(at >> METG_STEP_SHIFT), place = (int)(at & 0xffff);
    int count = graph_needs((enum graph_pattern)(shape >> METG_STEP_SHIFT), width, step, place, places);
    for (int i = 0; i < count; i++)
        if (inputs[i] != graph_value(step - 1, places[i]))
            return 0;
    return graph_work(iterations) > 0 ? graph_value(step, place) : 0;
}

static manta_status task_run(manta_ctx *c, int argc, const manta_arg *argv)
{
    int64_t inputs[INPUTS];
    (void)argc;
    for (int i = 0; i < INPUTS; i++)
        inputs[i] = argv[3 + i].l;
    return manta_return_i64(c, metg_task(argv[0].l, argv[1].l, argv[2].l, inputs));
}
MANTA_REGISTER(task_run, "llllllll>l");

static manta_status place_new(manta_ctx *c, void **self, int argc, const manta_arg *argv)
{
    (void)c, (void)argc, (void)argv;
    *self = NULL;
    return MANTA_OK;
}
static manta_status place_run(manta_ctx *c, void *self, int argc, const manta_arg *argv)
{
    (void)self;
    return task_run(c, argc, argv);
}
MANTA_ACTOR(metg_place, "", place_new, NULL, {"run", "llllllll>l", place_run});

static manta_actor *places[GRAPH_WIDTH_MAX]; /* of the form with actors */

static manta_ref *submit(const struct metg *m, bool by_actor, int step, int place, manta_ref **row_before)
{
    int       needs[GRAPH_NEEDS_MAX], count = graph_needs(m->pattern, m->width, step, place, needs);
    manta_arg args[ARGS] = {manta_i64(metg_shape(m)), manta_i64(m->iterations),
                            manta_i64((int64_t)step << METG_STEP_SHIFT | place)};
    for (int i = 0; i < INPUTS; i++)
        args[3 + i] = i < count ? manta_ref_arg(row_before[needs[i]]) : manta_i64(0);
    if (by_actor)
        return manta_actor_call(places[place], "run", ARGS, args);
    manta_task_opts opts = {.node = m->nodes[place % 2]};
    return manta_call("task_run", &opts, ARGS, args);
}

/* Waits for a row and gives its refs up. False: one is wrong. */
static bool row_end(const struct metg *m, int step, manta_ref **row)
{
    bool ok = true;
    for (int i = 0; i < m->width; i++)
        ok = bench_value(row[i], graph_value(step, i)) && ok;
    return ok;
}

static double graph_run(struct metg *m, bool by_actor)
{
    manta_ref **refs = calloc((size_t)GRAPH_STEPS * (size_t)m->width, sizeof *refs);
    bool        ok = refs != NULL;
    uint64_t    start = bench_now_ns();
    for (int step = 0; ok && step < GRAPH_STEPS; step++) {
        manta_ref **row = refs + (size_t)step * (size_t)m->width, **before = row - m->width;
        for (int i = 0; i < m->width; i++)
            row[i] = submit(m, by_actor, step, i, before);
        for (int i = 0; step && m->pattern != GRAPH_TRIVIAL && i < m->width; i++)
            manta_free(before[i]);
    }
    for (int step = m->pattern == GRAPH_TRIVIAL ? 0 : GRAPH_STEPS - 1; refs && step < GRAPH_STEPS; step++)
        ok = row_end(m, step, refs + (size_t)step * (size_t)m->width) && ok;
    double seconds = (double)(bench_now_ns() - start) * 1e-9;
    free(refs);
    return ok ? seconds : -1;
}

static bool tasks_begin(struct metg *m)
{
    (void)m;
    return bench_check_worker(NULL);
}
static double tasks_run(struct metg *m)
{
    return graph_run(m, false);
}
static void tasks_end(struct metg *m)
{
    (void)m;
}
const struct metg_form metg_tasks = {"tasks", tasks_begin, tasks_run, tasks_end};

static bool actors_begin(struct metg *m)
{
    for (int i = 0; i < m->width; i++)
        places[i] = manta_actor_new("metg_place", &(manta_actor_opts){.node = m->nodes[i % 2]}, MANTA_NO_ARGS);
    return true;
}
static double actors_run(struct metg *m)
{
    return graph_run(m, true);
}
static void actors_end(struct metg *m)
{
    for (int i = 0; i < m->width; i++)
        manta_actor_free(places[i]);
}
const struct metg_form metg_actors = {"actors", actors_begin, actors_run, actors_end};
