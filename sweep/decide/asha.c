/* SPDX-License-Identifier: Apache-2.0
 *
 * asha.c - asynchronous successive halving (Li et al., MLSys 2020), stopping and promoting.
 *
 * Bracket s has floor(log_eta(max_t / grace)) - s + 1 rungs at grace eta^(s + k).
 *
 * Stopping (Ray Tune's): at the highest rung that a report has reached and that has no value of this trial yet, the trial is
 * stopped where it is worse than the (1 - 1/eta) quantile of the values that stand there (linear between two), then its own is
 * added. The first one at a rung goes on. A trial's bracket is drawn with weight e^rungs.
 *
 * Promoting (the paper's, one bracket): each rung pauses. A free place promotes the best trial among the floor(n / eta) best of a
 * rung that was not promoted from there yet, the highest rung first; else it starts a new trial. Once no new trials come and
 * nothing runs, what can't be promoted any more is dropped.
 *
 * Owns:    the rungs, with sorted values.
 * Thread:  one at a time.
 */
#include "sweep/sample/method.h"
#include "sweep/decide/private.h"
#include "sweep/space/layout.h"

#include <math.h>

struct entry {
    double   value;
    uint32_t member;
};
struct rung {
    double t;
    MT_VEC(struct entry) entries; /* the best first */
};
struct bracket {
    struct rung *rungs; /* the lowest first */
    uint32_t     count;
};
struct asha {
    struct bracket *brackets;
    uint32_t        count;
};

/* ---- the model ---- */

static void asha_fini(struct swp_scheduler *s)
{
    struct asha *a = s->model;
    for (uint32_t b = 0; a->brackets && b < a->count; b++) {
        for (uint32_t k = 0; k < a->brackets[b].count; k++)
            mt_vec_fini(&a->brackets[b].rungs[k].entries);
        free(a->brackets[b].rungs);
    }
    free(a->brackets);
    free(a);
}

static mt_status asha_init(struct swp_scheduler *s, struct swp_problem *out_problem)
{
    struct swp_scheduler_opts *o = &s->opts;
    double                     levels = floor(log(o->max_t / o->grace) / log(o->eta) + 1e-9) + 1;
    if (levels > SWP_RUNGS_MAX)
        return swp_refuse(out_problem, "eta", "option 'eta' %g makes %g rungs; at most %d are possible", o->eta, levels,
                          SWP_RUNGS_MAX);
    if (o->brackets > levels)
        return swp_refuse(out_problem, "brackets", "option 'brackets' %u is more than the %g rungs", o->brackets, levels);
    struct asha *a = s->model = calloc(1, sizeof *a);
    if (!a || !(a->brackets = calloc(o->brackets, sizeof *a->brackets)))
        return mt_error(MT_ENOMEM, 0, "sweep: ASHA");
    a->count = o->brackets;
    for (uint32_t b = 0; b < a->count; b++) {
        struct bracket *bracket = &a->brackets[b];
        uint32_t        count = (uint32_t)levels - b;
        if (!(bracket->rungs = calloc(count, sizeof *bracket->rungs)))
            return mt_error(MT_ENOMEM, 0, "sweep: ASHA");
        bracket->count = count;
        for (uint32_t k = 0; k < count; k++)
            bracket->rungs[k].t = o->grace * pow(o->eta, b + k);
    }
    return mt_ok();
}

static mt_status asha_added(struct swp_scheduler *s, struct swp_member *m, const struct swp_point *point)
{
    const struct asha *a = s->model;
    mt_rng             rng = swp_rng_of(s->seed, m->trial, SWP_FOR_SCHEDULER);
    double             sum = 0, u = swp_rng_real(&rng);
    (void)point;
    for (uint32_t b = 0; b < a->count; b++)
        sum += exp((double)a->brackets[b].count - a->brackets[0].count);
    for (u *= sum; m->bracket + 1 < a->count; m->bracket++) {
        u -= exp((double)a->brackets[m->bracket].count - a->brackets[0].count);
        if (u < 0)
            break;
    }
    return mt_ok();
}

static mt_status record(struct swp_scheduler *s, struct rung *rung, const struct swp_member *m)
{
    struct entry entry = {m->value, (uint32_t)(m - s->members.data)};
    size_t       low = 0, high = rung->entries.count;
    MT_TRY(mt_vec_reserve(&rung->entries, 1));
    while (low < high) {
        size_t mid = (low + high) / 2;
        if (rung->entries.data[mid].value <= entry.value)
            low = mid + 1;
        else
            high = mid;
    }
    memmove(rung->entries.data + low + 1, rung->entries.data + low, (rung->entries.count - low) * sizeof entry);
    rung->entries.data[low] = entry;
    rung->entries.count++;
    return mt_ok();
}

/* ---- stopping ---- */

/* The value at which the best 1/eta of the rung end, between two values in proportion; values that are infinite or were NaN stand
 * at the end and count. */
static double cutoff(const struct rung *rung, double eta)
{
    double at = (double)(rung->entries.count - 1) / eta, below = floor(at);
    double a = rung->entries.data[(size_t)below].value, b = rung->entries.data[(size_t)ceil(at)].value;
    return a == b ? a : a + (at - below) * (b - a);
}

static mt_status asha_report(struct swp_scheduler *s, struct swp_member *m, struct swp_verdict *out_verdict)
{
    struct bracket *bracket = &((struct asha *)s->model)->brackets[m->bracket];
    uint32_t        k = bracket->count;
    if (m->t >= s->opts.max_t && !s->opts.runs_on) {
        out_verdict->decision = SWP_STOP;
        return mt_ok();
    }
    for (; k > 0; k--) {
        bool is_reached = m->t >= bracket->rungs[k - 1].t, is_recorded = m->recorded >> (k - 1) & 1;
        if (is_reached && is_recorded && s->opts.runs_on)
            return mt_ok(); /* as in Tune: then a recorded rung hides those below it */
        if (is_reached && !is_recorded)
            break;
    }
    if (k == 0)
        return mt_ok();
    struct rung *rung = &bracket->rungs[k - 1];
    bool         is_worse = rung->entries.count > 0 && (m->value > cutoff(rung, s->opts.eta) || m->value == INFINITY);
    MT_TRY(record(s, rung, m));
    m->recorded |= UINT64_C(1) << (k - 1);
    out_verdict->decision = is_worse ? SWP_STOP : SWP_CONTINUE;
    return mt_ok();
}

static double asha_next_t(const struct swp_scheduler *s, const struct swp_member *m)
{
    const struct bracket *bracket = &((struct asha *)s->model)->brackets[m->bracket];
    double                next = s->opts.runs_on ? INFINITY : s->opts.max_t;
    for (uint32_t k = 0; k < bracket->count; k++)
        if (!(m->recorded >> k & 1) && bracket->rungs[k].t < next)
            next = bracket->rungs[k].t;
    return next;
}

const struct swp_policy swp_asha_policy = {
    .init = asha_init,
    .fini = asha_fini,
    .added = asha_added,
    .report = asha_report,
    .next_t = asha_next_t,
};

/* ---- promoting ---- */

static mt_status promote_init(struct swp_scheduler *s, struct swp_problem *out_problem)
{
    if (s->opts.brackets != 1)
        return swp_refuse(out_problem, "brackets", "asha_promote has one bracket");
    return asha_init(s, out_problem);
}

static mt_status promote_report(struct swp_scheduler *s, struct swp_member *m, struct swp_verdict *out_verdict)
{
    struct bracket *bracket = ((struct asha *)s->model)->brackets;
    bool            is_last = m->rung + 1 >= bracket->count;
    if (m->rung < bracket->count && m->t >= bracket->rungs[m->rung].t) {
        MT_TRY(record(s, &bracket->rungs[m->rung], m));
        m->rung++;
        out_verdict->decision = is_last ? SWP_CONTINUE : SWP_PAUSE;
    }
    if (m->t >= s->opts.max_t)
        out_verdict->decision = SWP_STOP;
    return mt_ok();
}

static double promote_next_t(const struct swp_scheduler *s, const struct swp_member *m)
{
    const struct bracket *bracket = ((struct asha *)s->model)->brackets;
    return m->rung < bracket->count ? fmin(bracket->rungs[m->rung].t, s->opts.max_t) : s->opts.max_t;
}

static struct swp_action promote_next(const struct swp_scheduler *s, bool has_place)
{
    const struct bracket *bracket = ((struct asha *)s->model)->brackets;
    for (uint32_t k = bracket->count; has_place && k-- > 0;) {
        const struct rung *rung = &bracket->rungs[k];
        size_t             best = (size_t)((double)rung->entries.count / s->opts.eta + 1e-9);
        for (size_t i = 0; i < best; i++) {
            const struct swp_member *m = &s->members.data[rung->entries.data[i].member];
            if (m->state == SWP_MEMBER_PAUSED && m->rung == k + 1)
                return swp_action_of(SWP_RESUME, m->trial);
        }
    }
    if (s->has_supply || s->running || !has_place)
        return swp_start_or_wait(s, has_place);
    for (size_t i = 0; i < s->members.count; i++)
        if (s->members.data[i].state == SWP_MEMBER_PAUSED)
            return swp_action_of(SWP_DROP, s->members.data[i].trial);
    return swp_action_of(SWP_WAIT, 0);
}

const struct swp_policy swp_asha_promote_policy = {
    .needs_saves = true,
    .init = promote_init,
    .fini = asha_fini,
    .report = promote_report,
    .next_t = promote_next_t,
    .next = promote_next,
};
