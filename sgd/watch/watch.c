/* SPDX-License-Identifier: Apache-2.0
 *
 * watch.c - the watchdog of a run. Owns: nothing. Thread: the driver's.
 */
#include "sgd/watch/watch.h"

#include <stdlib.h>
#include <string.h>

#define MS 1000000ll

enum { AGAIN_MAX = 10 };

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

static int64_t larger(int64_t a, int64_t b)
{
    return a > b ? a : b;
}

static int64_t smaller(int64_t a, int64_t b)
{
    return a < b ? a : b;
}

/* By the run's own steps. A step that has hung before may be one that takes so long: it gets more time each time. */
static int64_t learned_ns(const struct sgd_watch *watch)
{
    uint32_t count = watch->step_count < SGD_WATCH_STEPS ? watch->step_count : SGD_WATCH_STEPS, longest = 0;
    for (uint32_t i = 0; i < count; i++)
        longest = watch->step_us[i] > longest ? watch->step_us[i] : longest;
    int64_t least = (watch->has_stepped ? MT_TRAIN_HUNG_MS : MT_TRAIN_FIRST_MS) * MS;
    return larger(5000 * (int64_t)longest, least) << (watch->again < AGAIN_MAX ? watch->again : AGAIN_MAX);
}

int64_t sgd_watch_limit_ns(const struct sgd_watch *watch, const struct sgd_pulse_seen *pulse)
{
    if (watch->hang_after_ns < 0)
        return INT64_MAX;
    if (pulse->is_stopped)
        return watch->hang_after_ns ? watch->hang_after_ns : MT_TRAIN_STOPPED_MS * MS;
    if (watch->hang_after_ns)
        return watch->has_stepped ? watch->hang_after_ns : larger(watch->hang_after_ns, MT_TRAIN_FIRST_MS * MS);
    return learned_ns(watch);
}

int64_t sgd_watch_load_limit_ns(const struct sgd_watch *watch)
{
    return watch->hang_after_ns < 0 ? INT64_MAX : larger(watch->hang_after_ns, MT_TRAIN_START_MS * MS);
}

int64_t sgd_watch_silence_ns(const struct sgd_watch *watch, uint32_t m)
{
    return watch->looked_ns - watch->of[m].changed_ns;
}

void sgd_watch_begin(struct sgd_watch *watch, int64_t now_ns, uint32_t members, const struct sgd_pulse_seen *pulses)
{
    MT_ASSERT(members >= 1 && members <= MT_GROUP_MEMBERS_MAX);
    watch->members = members;
    watch->has_stepped = watch->is_over = watch->has_hung = false;
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
    bool has_stepped = first->steps > watch->of[0].seen.steps; /* less: it begins behind steps that were lost */
    if (first->arrived == UINT64_MAX)                          /* it is back from this generation */
        return;
    if (first->steps > watch->hung_step)
        watch->again = 0;
    if (!has_stepped && (watch->step_count > 0 || first->step_us == 0))
        return;
    watch->step_us[watch->step_count++ % SGD_WATCH_STEPS] = first->step_us;
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
    int     slowest = 0;
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

/* For how much of it somebody worked who is in a user's call, or waited for the disk. */
static int64_t worked_ns(const struct sgd_pulse_seen *before, const struct sgd_pulse_seen *now, int64_t gap)
{
    bool    is_call = before->in_call && now->in_call;
    int64_t had = (int64_t)now->process_ms - (int64_t)before->process_ms;
    if ((before->on_disk && now->on_disk) || (is_call && now->ready))
        return gap;
    return is_call && had > 0 ? had * MS : 0;
}

/* How much of this member's silence, up to now, does not count for what it did since the last look. */
static int64_t excused_ns(struct sgd_watch *watch, uint32_t m, int64_t now_ns, const struct sgd_pulse_seen *pulse)
{
    const struct sgd_pulse_seen *before = &watch->of[m].seen;
    int64_t                      gap = now_ns - watch->looked_ns, silence = now_ns - watch->of[m].changed_ns;
    int64_t starved = starved_ns(before, pulse, gap), left = MT_TRAIN_STARVED_MS * MS - watch->of[m].starved_ns;
    int64_t worked = SGD_WATCH_BACK * worked_ns(before, pulse, gap);
    if (gap > sgd_watch_limit_ns(watch, pulse) / 4)
        return smaller(gap, silence); /* we did not look ourselves: nothing is known of this time */
    if (worked > 0)
        return smaller(worked, silence);
    starved = smaller(smaller(starved, left), silence);
    watch->of[m].starved_ns += starved;
    return starved;
}

/* One look at a member: shows it something, or for how long has it not? */
static bool is_silent(struct sgd_watch *watch, uint32_t m, int64_t now_ns, const struct sgd_pulse_seen *pulse)
{
    watch->of[m].changed_ns += excused_ns(watch, m, now_ns, pulse);
    if (pulse->is_stopped && !watch->of[m].seen.is_stopped)
        watch->of[m].stopped_ns = now_ns;
    watch->of[m].seen = *pulse;
    int64_t since_ns = watch->of[m].changed_ns;
    if (pulse->is_stopped && !watch->hang_after_ns)
        since_ns = larger(since_ns, watch->of[m].stopped_ns); /* the silence before had the longer limit */
    return now_ns - since_ns > sgd_watch_limit_ns(watch, pulse);
}

static void showed(struct sgd_watch *watch, uint32_t m, int64_t now_ns)
{
    watch->of[m].changed_ns = now_ns;
    watch->of[m].starved_ns = 0;
}

/* The first of a generation: whether it was at the step of the last time. */
static void hung_note(struct sgd_watch *watch, uint64_t hung, const struct sgd_pulse_seen *pulses)
{
    if (hung == 0 || watch->has_hung)
        return;
    uint64_t step = pulses[__builtin_ctzll(hung)].steps;
    watch->again += watch->again < AGAIN_MAX;
    watch->hung_step = step > watch->hung_step ? step : watch->hung_step;
    watch->has_hung = true;
}

/* Who waits for others is silent from the moment on in which the last of them has come: it may take a while to wake up. */
uint64_t sgd_watch_look(struct sgd_watch *watch, int64_t now_ns, const struct sgd_pulse_seen *pulses, int *out_straggler)
{
    uint64_t hung = 0, behind = furthest_behind(watch, pulses);

    steps_note(watch, &pulses[0]);
    for (uint32_t m = 0; m < watch->members; m++) {
        const struct sgd_pulse_seen *seen = &watch->of[m].seen;
        if (seen->arrived != pulses[m].arrived || seen->beats != pulses[m].beats || pulses[m].arrived > behind)
            showed(watch, m, now_ns);
        if (is_silent(watch, m, now_ns, &pulses[m]))
            hung |= UINT64_C(1) << m;
    }
    watch->looked_ns = now_ns;
    hung_note(watch, hung, pulses);
    *out_straggler = straggler_find(watch, now_ns, pulses);
    return hung;
}

uint64_t sgd_watch_late(struct sgd_watch *watch, int64_t now_ns, const struct sgd_pulse_seen *pulses)
{
    uint64_t late = 0;

    for (uint32_t m = 0; m < watch->members; m++) {
        if (!watch->is_over)
            showed(watch, m, now_ns);
        if (is_silent(watch, m, now_ns, &pulses[m]))
            late |= UINT64_C(1) << m;
    }
    watch->looked_ns = now_ns;
    watch->is_over = true;
    return late;
}
