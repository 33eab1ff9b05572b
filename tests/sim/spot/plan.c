/* SPDX-License-Identifier: Apache-2.0
 *
 * plan.c - the cheapest way through a day that is known in advance. Shares nothing with the scaler.
 *
 *   least(tick, done, place, warm) = min over places p that can be had: price(p) + least(tick + 1, done + 1 if it is warm, p, ...),
 *                                    and waiting: least(tick + 1, done, nowhere)
 */
#include "tests/sim/spot/day.h"

#include <stdlib.h>

static const float NEVER = 1e9f;

/* Where it is, and how many ticks until it goes on there; 0: nowhere. */
static size_t state_of(const struct day *d, int place, uint32_t warm)
{
    return 1 + (size_t)place * (d->change_ticks + 1) + warm;
}

static size_t states(const struct day *d)
{
    return 1 + (ZONES + 1) * ((size_t)d->change_ticks + 1);
}

static float best(const struct day *d, uint32_t tick, uint32_t done, size_t at, const float *next)
{
    size_t count = states(d);
    float  least = next[done * count];
    for (int place = 0; place <= ZONES; place++) {
        uint32_t warm = d->change_ticks;
        if (place < ZONES && !d->can_be_had[place][tick])
            continue;
        if (at > 0 && (at - 1) / (d->change_ticks + 1) == (size_t)place)
            warm = (uint32_t)((at - 1) % (d->change_ticks + 1));
        float price = place < ZONES ? (float)d->price[place] : 1;
        float cost = price +
                     (warm ? next[done * count + state_of(d, place, warm - 1)] : next[(done + 1) * count + state_of(d, place, 0)]);
        least = cost < least ? cost : least;
    }
    return least;
}

double day_least(const struct day *d)
{
    size_t count = states(d), size = (d->work_ticks + 1) * count;
    float *next = malloc(size * sizeof *next), *now = malloc(size * sizeof *now);
    for (size_t k = 0; next && now && k < size; k++)
        next[k] = k / count == d->work_ticks ? 0 : NEVER;
    for (uint32_t tick = d->deadline_ticks; next && now && tick-- > 0;) {
        for (uint32_t done = 0; done < d->work_ticks; done++)
            for (size_t at = 0; at < count; at++)
                now[done * count + at] = best(d, tick, done, at, next);
        for (size_t at = 0; at < count; at++)
            now[d->work_ticks * count + at] = 0;
        float *swap = next;
        next = now;
        now = swap;
    }
    double least = next && now ? (double)next[0] : -1;
    free(next);
    free(now);
    return least * TICK_S / 3600;
}
