/* SPDX-License-Identifier: Apache-2.0
 *
 * watch.c - the watchdog of a run. Owns: nothing. Thread: the driver's.
 */
#include "sgd/watch.h"

#include <stdlib.h>
#include <string.h>

#define MS 1000000ll

static int in_order(const void *a, const void *b)
{
    int64_t x = *(const int64_t *)a, y = *(const int64_t *)b;
    return x < y ? -1 : x > y;
}

static int64_t median(const int64_t *values, uint32_t count)
{
    int64_t sorted[MT_GROUP_MEMBERS_MAX];
    memcpy(sorted, values, count * sizeof *values);
    qsort(sorted, count, sizeof *sorted, in_order);
    return sorted[count / 2];
}

int64_t sgd_watch_limit_ns(const struct sgd_watch *watch)
{
    uint32_t count = watch->step_count < SGD_WATCH_STEPS ? watch->step_count : SGD_WATCH_STEPS;
    if (count == 0)
        return MT_TRAIN_FIRST_MS * MS; /* who knows how long a step of this model takes */
    int64_t steps = 5 * median(watch->step_ns, count), least = watch->has_stepped ? MT_TRAIN_HUNG_MS : MT_TRAIN_JOIN_MS;
    return steps > least * MS ? steps : least * MS;
}

void sgd_watch_begin(struct sgd_watch *watch, int64_t now_ns, uint32_t members, const struct sgd_pulse_seen *pulses)
{
    MT_ASSERT(members >= 1 && members <= MT_GROUP_MEMBERS_MAX);
    watch->members = members;
    watch->has_stepped = watch->is_over = false;
    watch->looked_ns = now_ns;
    watch->window_ns = 0;
    memset(watch->of, 0, sizeof watch->of);
    for (uint32_t m = 0; m < members; m++) {
        watch->of[m].seen = pulses[m];
        watch->of[m].changed_ns = now_ns;
    }
}

/* The first member's steps are everybody's: nobody is ahead by more than one. Those that were done before we first looked count
 * where none is known: else who hangs behind them would have the time of a first step. */
static void steps_note(struct sgd_watch *watch, const struct sgd_pulse_seen *first)
{
    bool has_stepped = first->steps != watch->of[0].seen.steps;
    if (!has_stepped && (watch->step_count > 0 || first->step_ns == 0))
        return;
    watch->step_ns[watch->step_count++ % SGD_WATCH_STEPS] = (int64_t)first->step_ns;
    watch->has_stepped |= has_stepped;
}

static uint64_t furthest_behind(const struct sgd_watch *watch, const struct sgd_pulse_seen *pulses)
{
    uint64_t least = UINT64_MAX;
    for (uint32_t m = 0; m < watch->members; m++)
        least = pulses[m].arrived < least ? pulses[m].arrived : least;
    return least;
}

/* ---- stragglers ---- */

static void window_begin(struct sgd_watch *watch, int64_t now_ns, const struct sgd_pulse_seen *pulses)
{
    watch->window_ns = now_ns;
    watch->window_steps = pulses[0].steps;
    for (uint32_t m = 0; m < watch->members; m++)
        watch->window_work[m] = pulses[m].work_ns;
}

static int straggler_find(struct sgd_watch *watch, int64_t now_ns, const struct sgd_pulse_seen *pulses)
{
    int64_t work[MT_GROUP_MEMBERS_MAX];
    int slowest = 0;
    if (watch->window_ns == 0)
        window_begin(watch, now_ns, pulses);
    if (watch->members < 2 || now_ns - watch->window_ns < MT_TRAIN_WINDOW_MS * MS || pulses[0].steps < watch->window_steps + 8)
        return -1;
    for (uint32_t m = 0; m < watch->members; m++) {
        work[m] = (int64_t)(pulses[m].work_ns - watch->window_work[m]);
        slowest = work[m] > work[slowest] ? (int)m : slowest;
    }
    window_begin(watch, now_ns, pulses);
    int64_t its = work[slowest];
    work[slowest] = 0; /* with two members the other's alone is the median */
    return its > 2 * median(work, watch->members) ? slowest : -1;
}

/* ---- a look ---- */

/* What its threads wanted of CPUs since the last look, those that were ready then and now, less what they had. */
static int64_t starved_ns(const struct sgd_pulse_seen *before, const struct sgd_pulse_seen *now, int64_t gap)
{
    int64_t threads = before->ready < now->ready ? before->ready : now->ready;
    int64_t had = (int64_t)now->cpu_ms - (int64_t)before->cpu_ms;
    int64_t lacked = had < 0 ? 0 : threads * gap - had * MS; /* less than before: it is another process */
    return lacked < 0 ? 0 : lacked < gap ? lacked : gap;
}

/* How much of the time since the last look this member's silence does not count. */
static int64_t excused_ns(struct sgd_watch *watch, uint32_t m, int64_t gap, const struct sgd_pulse_seen *pulse)
{
    int64_t starved = starved_ns(&watch->of[m].seen, pulse, gap);
    int64_t left = MT_TRAIN_STARVED_MS * MS - watch->of[m].starved_ns;
    if (gap > sgd_watch_limit_ns(watch) / 4)
        return gap; /* we did not look ourselves: nothing is known of this time */
    starved = starved < left ? starved : left;
    watch->of[m].starved_ns += starved;
    return starved;
}

static void showed(struct sgd_watch *watch, uint32_t m, int64_t now_ns)
{
    watch->of[m].changed_ns = now_ns;
    watch->of[m].starved_ns = 0;
}

uint64_t sgd_watch_look(struct sgd_watch *watch, int64_t now_ns, const struct sgd_pulse_seen *pulses, int *out_straggler)
{
    int64_t limit, gap = now_ns - watch->looked_ns;
    uint64_t hung = 0, behind = furthest_behind(watch, pulses);

    steps_note(watch, &pulses[0]);
    limit = sgd_watch_limit_ns(watch);
    watch->looked_ns = now_ns;
    for (uint32_t m = 0; m < watch->members; m++) {
        struct sgd_pulse_seen *seen = &watch->of[m].seen;
        if (seen->arrived != pulses[m].arrived || seen->beats != pulses[m].beats)
            showed(watch, m, now_ns);
        else
            watch->of[m].changed_ns += excused_ns(watch, m, gap, &pulses[m]);
        *seen = pulses[m];
        int64_t its = pulses[m].silent_ms ? pulses[m].silent_ms * MS : limit;
        if (pulses[m].arrived == behind && now_ns - watch->of[m].changed_ns > its)
            hung |= UINT64_C(1) << m;
    }
    *out_straggler = straggler_find(watch, now_ns, pulses);
    return hung;
}

uint64_t sgd_watch_late(struct sgd_watch *watch, int64_t now_ns, const struct sgd_pulse_seen *pulses)
{
    int64_t  gap = now_ns - watch->looked_ns;
    uint64_t late = 0;

    watch->looked_ns = now_ns;
    for (uint32_t m = 0; m < watch->members; m++) {
        if (!watch->is_over)
            showed(watch, m, now_ns);
        else
            watch->of[m].changed_ns += excused_ns(watch, m, gap, &pulses[m]);
        watch->of[m].seen = pulses[m];
        if (now_ns - watch->of[m].changed_ns >= sgd_watch_limit_ns(watch))
            late |= UINT64_C(1) << m;
    }
    watch->is_over = true;
    return late;
}
