/* SPDX-License-Identifier: Apache-2.0
 *
 * load.c - what runs on the nodes of sim_scaler: jobs, gangs among them, and trainings that wish for more.
 */
#include "tests/sim/scaler/world.h"

void load_wishers_lose(struct world *w, uint32_t thing)
{
    for (uint32_t i = 0; i < w->wisher_count; i++)
        for (uint32_t u = 0; u < UNITS_MAX; u++)
            if (w->wishers[i].places[u] == thing) {
                w->wishers[i].places[u] = 0;
                w->wishers[i].has--;
            }
}

bool load_wishers_on(const struct world *w, uint32_t thing)
{
    for (uint32_t i = 0; i < w->wisher_count; i++)
        for (uint32_t u = 0; u < UNITS_MAX; u++)
            if (w->wishers[i].places[u] == thing)
                return true;
    return false;
}

static bool holds(const struct job *job, uint32_t place)
{
    for (uint32_t b = 0; b < job->bundles; b++)
        if (job->places[b] == place)
            return true;
    return false;
}

/* All that it lacks, or nothing. */
static void place(struct world *w, struct job *job)
{
    uint32_t was[GANG_MAX];
    memcpy(was, job->places, sizeof was);
    for (uint32_t b = 0; b < job->bundles; b++)
        for (uint32_t k = 0; k < w->thing_count && !job->places[b]; k++)
            if (w->things[k].runs && w->things[k].node && !w->things[k].is_draining && w->things[k].cpus >= job->cpus &&
                (job->bundles == 1 || !holds(job, k + 1)))
                job->places[b] = k + 1;
    if (holds(job, 0)) {
        memcpy(job->places, was, sizeof was);
        return;
    }
    for (uint32_t b = 0; b < job->bundles; b++)
        if (!was[b]) {
            w->things[job->places[b] - 1].cpus -= job->cpus;
            w->things[job->places[b] - 1].was_used = true;
        }
    job->ends_ms = w->now + job->takes_ms;
    w->wants_tell = true;
}

static void jobs_run(struct world *w)
{
    for (uint32_t j = 0; j < w->job_count; j++) {
        struct job *job = &w->jobs[j];
        if (!job->is_there)
            continue;
        if (holds(job, 0))
            place(w, job);
        else if (job->ends_ms && w->now >= job->ends_ms) {
            for (uint32_t b = 0; b < job->bundles; b++)
                w->things[job->places[b] - 1].cpus += job->cpus;
            job->is_there = false;
            w->wants_tell = true;
        }
    }
}

static void unit_take(struct world *w, struct wisher *one)
{
    for (uint32_t k = 0; k < w->thing_count; k++) {
        struct thing *t = &w->things[k];
        if (!t->runs || !t->node || t->is_draining || t->cpus < 2000)
            continue;
        uint32_t u = 0;
        while (one->places[u])
            u++;
        one->places[u] = k + 1;
        one->has++;
        one->late_ms = w->now + 3 * STEP_MS; /* its node says so now, its own word comes later */
        t->cpus -= 2000;
        t->was_used = true;
        w->wants_tell = true;
        return;
    }
}

static void wishers_run(struct world *w)
{
    for (uint32_t i = 0; i < w->wisher_count; i++) {
        struct wisher *one = &w->wishers[i];
        if (!one->is_there)
            continue;
        if (w->now >= one->ends_ms) {
            for (uint32_t u = 0; u < UNITS_MAX; u++)
                if (one->places[u])
                    w->things[one->places[u] - 1].cpus += 2000;
            *one = (struct wisher){0};
            w->wants_tell = true;
            continue;
        }
        if (one->late_ms && w->now >= one->late_ms)
            one->late_ms = 0;
        if (!one->late_ms && one->told != one->most - one->has) {
            one->told = one->most - one->has;
            w->wants_tell = true;
        }
        if (one->has < one->most && mt_rng_below(&w->rng, 100) < (w->is_calm ? 5 : 10)) /* it looks now and then */
            unit_take(w, one);
    }
}

void wisher_new(struct world *w)
{
    struct wisher *one = &w->wishers[w->wisher_count++];
    *one = (struct wisher){.is_there = true, .most = 1 + (uint32_t)mt_rng_below(&w->rng, UNITS_MAX)};
    one->ends_ms = w->is_calm ? FAULTS_END_MS + 60000 : FAULTS_END_MS + mt_rng_below(&w->rng, 60000);
    one->told = one->most;
    w->wants_tell = true;
    w->arrived += 2000 * one->most;
    note(w, "wisher", one->most, one->ends_ms);
}

/* In a calm world there is room for all, and a boot takes no longer than this. */
void load_check(struct world *w)
{
    for (uint32_t i = 0; i < w->wisher_count; i++)
        if (w->is_calm && w->wishers[i].is_there && w->wishers[i].has < w->wishers[i].most)
            breach(w, "E9: it is wished for and does not come", i, w->wishers[i].has);
}

void job_new(struct world *w)
{
    struct job *job = &w->jobs[w->job_count++];
    *job = (struct job){.is_there = true, .bundles = 1};
    job->cpus = 1000 * (int64_t)(1 + mt_rng_below(&w->rng, 2));
    if (chance(w, 20))
        job->bundles = 2 + (uint32_t)mt_rng_below(&w->rng, GANG_MAX - 1);
    if (w->is_calm && job->bundles > 1)
        job->cpus = 2000; /* whole nodes */
    if (!w->is_calm && chance(w, 20))
        job->cpus = 6000;
    job->takes_ms = w->is_calm ? FAULTS_END_MS + 60000 - w->now : 1000 + mt_rng_below(&w->rng, 30000);
    w->wants_tell = true;
    w->arrived += job->cpus * job->bundles;
    note(w, "job", job->bundles, (uint64_t)job->cpus);
}

bool load_can_move(const struct world *w, uint32_t place)
{
    bool can = !load_wishers_on(w, place);
    for (uint32_t j = 0; j < w->job_count; j++)
        can = can && !(w->jobs[j].is_there && w->jobs[j].bundles > 1 && holds(&w->jobs[j], place));
    return can;
}

void load_run(struct world *w)
{
    wishers_run(w);
    jobs_run(w);
}

bool load_is_on(const struct world *w, uint32_t place)
{
    bool is_used = load_wishers_on(w, place);
    for (uint32_t j = 0; j < w->job_count; j++)
        is_used = is_used || (w->jobs[j].is_there && holds(&w->jobs[j], place));
    return is_used;
}
