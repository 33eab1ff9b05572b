/* SPDX-License-Identifier: Apache-2.0
 *
 * elastic.c - what the run would use beyond what it has, and what that is worth: told to the cluster, which may start nodes for it.
 *
 *   min -- steps are made --> would use twice as many -- they come --> how quick are so many? -- quicker --> twice as many
 *                                                                                           '-- no quicker --> no more
 *
 * A run grows by doubling at most, and asks for more only once it has measured what the last ones have brought. What is on its way
 * is not asked for again: it counts from when its node was found, before anybody is hired there.
 *
 * Owns: fit->elastic. Thread: the one that trains.
 */
#include "sgd/run/fit.h"

#include <math.h>
#include <stdio.h>

/* A further worker that brings less than this share of what it would if all did the same is not asked for. */
static const double share_least = 0.2;
/* Without its fewest workers the run stands: that is worth more than anything. */
static const double worth_most = 1000;

/* Samples per second, over windows that lie within one generation. */
static void rate_take(struct sgd_fit *fit, uint64_t step)
{
    struct sgd_elastic *x = &fit->elastic;
    int64_t             now = mt_now_ns();
    if (fit->state != SGD_GEN_GOING)
        return;
    bool is_begun = x->generation == fit->generation;
    if (is_begun && (now - x->from_ns < MT_TRAIN_RATE_MS * 1000000ll || step < x->from_step + MT_TRAIN_RATE_STEPS))
        return;
    if (is_begun)
        x->rate[fit->workers] = (double)(step - x->from_step) * fit->setup.run.vranks * fit->setup.run.micro_batch /
                                ((double)(now - x->from_ns) * 1e-9);
    x->generation = fit->generation;
    x->from_step = step;
    x->from_ns = now;
}

/* By which share the run gets quicker with one worker more: by the next size that was measured above this one, else by the one
 * below, else as if all did the same. 0: not worth it. */
static double worth_of(const struct sgd_fit *fit)
{
    const double *rate = fit->elastic.rate;
    int           here = fit->workers, other = here + 1;
    while (other <= fit->max && rate[other] <= 0)
        other++;
    if (other > fit->max)
        for (other = here - 1; other > 0 && rate[other] <= 0;)
            other--;
    if (other < 1 || rate[here] <= 0)
        return 1.0 / here;
    double each = (rate[here] - rate[other]) / (here - other) / rate[here];
    return each < share_least / here ? 0 : each;
}

/* For so many workers there is room on the nodes that the run has. Those that start may be more: they wait there for CPUs. */
static int room_of(const struct sgd_fit *fit)
{
    int64_t room = 0;
    for (int i = 0; i < SGD_PLACES_MAX; i++) {
        const struct sgd_place *place = &fit->places.of[i];
        int                     ready = sgd_crew_ready_at(&fit->crew, i);
        if (place->state == SGD_PLACE_OPEN || place->state == SGD_PLACE_OPENING)
            room += ready > place->found ? ready : place->found;
    }
    return room < fit->max ? (int)room : fit->max;
}

/* So many workers the run is to have. */
static int target_of(const struct sgd_fit *fit, int room, double *out_worth)
{
    bool is_measured = fit->elastic.rate[fit->workers] > 0 || fit->workers <= fit->min;
    *out_worth = worth_most;
    if (room < fit->min || !fit->workers)
        return fit->min;
    *out_worth = worth_of(fit);
    if (room > fit->workers || !is_measured || *out_worth <= 0 || !sgd_generation_lives(fit))
        return room; /* some are on their way, or their worth is not known yet */
    return 2 * fit->workers < fit->max ? 2 * fit->workers : fit->max;
}

static void name_of(const struct sgd_fit *fit, char *out, size_t size)
{
    snprintf(out, size, "training %.50s", fit->opts->run.name ? fit->opts->run.name : "train");
}

static void tell(struct sgd_fit *fit, int count, double worth)
{
    char       name[64];
    manta_wish wish = {
        .name = name, .num_cpus = fit->opts->scaling.cpus, .num_gpus = fit->setup.gpus, .count = count, .worth = count ? worth : 0};
    bool is_close = fabs(wish.worth - fit->elastic.worth) < 0.1 * fit->elastic.worth || !count;
    if (count == fit->elastic.told && is_close)
        return;
    name_of(fit, name, sizeof name);
    if (manta_wish_tell(&wish, NULL) != MANTA_OK)
        return; /* again, with the next look */
    fit->elastic.told = count;
    fit->elastic.worth = wish.worth;
}

/* While workers are missing: whether more may come. */
static void look(struct sgd_fit *fit)
{
    struct sgd_elastic *x = &fit->elastic;
    char                name[64];
    int64_t             now = mt_now_ns();
    int                 stands = MANTA_WISH_UNKNOWN;
    if (sgd_generation_lives(fit) || now - x->looked_ns < MT_TRAIN_WISH_MS * 1000000ll)
        return;
    char before[sizeof x->why];
    memcpy(before, x->why, sizeof before);
    x->looked_ns = now;
    x->why[0] = '\0';
    name_of(fit, name, sizeof name);
    if (x->told > 0)
        stands = manta_wish_look(name, x->why, sizeof x->why, NULL);
    stands = stands < 0 ? MANTA_WISH_UNKNOWN : stands;
    if (stands == MANTA_WISH_COMING || stands == MANTA_WISH_WAITS)
        x->may_come_ns = now;
    bool is_other = stands == MANTA_WISH_COMING && strcmp(x->why, before) != 0; /* others tell a time, which is other each time */
    x->has_news = x->has_news || stands != x->stands || is_other;
    x->stands = stands;
}

void sgd_fit_wish(struct sgd_fit *fit, uint64_t step)
{
    double worth;
    if (fit->places.max == 1)
        return;
    rate_take(fit, step);
    int room = room_of(fit), target = target_of(fit, room, &worth);
    if (sgd_places_count(&fit->places) >= fit->places.max)
        target = room; /* on so many nodes */
    tell(fit, target > room ? target - room : 0, worth);
    look(fit);
}

void sgd_fit_wish_end(struct sgd_fit *fit)
{
    tell(fit, 0, 0);
}
