/* SPDX-License-Identifier: Apache-2.0
 *
 * scheduler.c - what all schedulers share: trials and their states, options, repeated reports; and FIFO.
 *
 * Owns:    members, the model of its policy.
 * Thread:  one at a time.
 * Always:  a trial is in one state; what failed has changed nothing.
 */
#include "sweep/space/options.h"
#include "sweep/decide/private.h"
#include "sweep/space/layout.h"

#include <math.h>

static const struct {
    const char              *text;
    const struct swp_policy *policy;
} kinds[SWP_SCHEDULER_COUNT] = {
#define X(name, text) [SWP_SCHEDULER_##name] = {#text, &swp_##text##_policy},
    SWP_SCHEDULERS(X)
#undef X
};
#define X(name, text) " " #text
static const char kind_list[] = SWP_SCHEDULERS(X);
#undef X

const char *swp_scheduler_text(enum swp_scheduler_kind kind)
{
    return kind < SWP_SCHEDULER_COUNT ? kinds[kind].text : NULL;
}

static bool parse_kind(const char *text, enum swp_scheduler_kind *out_kind)
{
    for (int i = 0; i < SWP_SCHEDULER_COUNT; i++)
        if (strcmp(kinds[i].text, text) == 0)
            return *out_kind = (enum swp_scheduler_kind)i, true;
    return false;
}

mt_status swp_scheduler_opts_parse(const char *text, struct swp_scheduler_opts *out_opts, struct swp_problem *out_problem)
{
    struct swp_scheduler_opts o = {.kind = SWP_SCHEDULER_FIFO};
    const struct swp_option   options[] = {
          {"max_t", SWP_OPTION_REAL, &o.max_t},
          {"grace", SWP_OPTION_REAL, &o.grace},
          {"eta", SWP_OPTION_REAL, &o.eta},
          {"brackets", SWP_OPTION_COUNT, &o.brackets},
          {"min_samples", SWP_OPTION_COUNT, &o.min_samples},
          {"min_slice", SWP_OPTION_REAL, &o.min_slice},
          {"pauses", SWP_OPTION_FLAG, &o.pauses},
          {"runs_on", SWP_OPTION_FLAG, &o.runs_on},
          {"interval", SWP_OPTION_REAL, &o.interval},
          {"burn_in", SWP_OPTION_REAL, &o.burn_in},
          {"quantile", SWP_OPTION_REAL, &o.quantile},
          {"resample", SWP_OPTION_REAL, &o.resample},
          {"factor_up", SWP_OPTION_REAL, &o.factors[0]},
          {"factor_down", SWP_OPTION_REAL, &o.factors[1]},
          {"in_step", SWP_OPTION_FLAG, &o.in_step},
          {0},
    };
    char name[MT_NAME_BYTES_MAX];
    MT_TRY(swp_options_parse(text, options, name, out_problem));
    if (!parse_kind(name, &o.kind))
        return swp_refuse(out_problem, name, "there is no scheduler '%s': it is one of%s", name, kind_list);
    *out_opts = o;
    return mt_ok();
}

/* ---- making ---- */

static mt_status check_options(struct swp_scheduler_opts *o, struct swp_problem *out)
{
    if ((unsigned)o->kind >= SWP_SCHEDULER_COUNT)
        return swp_refuse(out, "scheduler", "the scheduler is of no known kind");
    bool is_asha = o->kind == SWP_SCHEDULER_ASHA || o->kind == SWP_SCHEDULER_ASHA_PROMOTE;
    struct {
        const char *name;
        double     *value, otherwise, least, most;
    } reals[] = {
        {"max_t", &o->max_t,
         is_asha                              ? 100
         : o->kind == SWP_SCHEDULER_HYPERBAND ? 81
                                              : INFINITY,
         0, INFINITY},
        {"grace", &o->grace, is_asha ? 1 : 60, 0, INFINITY},
        {"eta", &o->eta, is_asha ? 4 : 3, 1, 1e9},
        {"min_slice", &o->min_slice, 0, 0, INFINITY},
        {"interval", &o->interval, 60, 0, INFINITY},
        {"burn_in", &o->burn_in, 0, 0, INFINITY},
        {"quantile", &o->quantile, 0.25, 0, 0.5},
        {"resample", &o->resample, 0.25, -INFINITY, 1},
        {"factor_up", &o->factors[0], 1.2, 0, 1e9},
        {"factor_down", &o->factors[1], 0.8, 0, 1e9},
    };
    for (size_t i = 0; i < sizeof reals / sizeof *reals; i++) {
        if (*reals[i].value == 0)
            *reals[i].value = reals[i].otherwise;
        if (!(*reals[i].value >= reals[i].least && *reals[i].value <= reals[i].most))
            return swp_refuse(out, reals[i].name, "option '%s' can't be %g", reals[i].name, *reals[i].value);
    }
    if (o->eta <= 1)
        return swp_refuse(out, "eta", "option 'eta' must be above 1");
    if ((is_asha || o->kind == SWP_SCHEDULER_HYPERBAND) && (!isfinite(o->max_t) || o->max_t < 1))
        return swp_refuse(out, "max_t", "option 'max_t' must be a number of steps, 1 or more");
    if (is_asha && o->grace > o->max_t)
        return swp_refuse(out, "grace", "option 'grace' %g is beyond max_t %g", o->grace, o->max_t);
    o->brackets = o->brackets ? o->brackets : 1;
    o->min_samples = o->min_samples ? o->min_samples : 3;
    return mt_ok();
}

mt_status swp_scheduler_new(const struct swp_scheduler_opts *opts, const struct swp_space *space, uint64_t seed,
                            struct swp_scheduler **out_scheduler, struct swp_problem *out_problem)
{
    struct swp_scheduler *s = calloc(1, sizeof *s);
    mt_status             st;
    if (!s)
        return mt_error(MT_ENOMEM, 0, "sweep: a scheduler");
    s->opts = *opts;
    s->space = space;
    s->seed = seed;
    s->has_supply = true;
    MT_TRY_GOTO(st, check_options(&s->opts, out_problem), err_free);
    s->policy = kinds[opts->kind].policy;
    if (s->policy->init)
        MT_TRY_GOTO(st, s->policy->init(s, out_problem), err_free);
    *out_scheduler = s;
    return mt_ok();

err_free:
    swp_scheduler_free(s);
    return st;
}

void swp_scheduler_free(struct swp_scheduler *s)
{
    if (!s)
        return;
    for (size_t i = 0; i < s->members.count; i++)
        if (s->policy->forget)
            s->policy->forget(s, &s->members.data[i]);
    if (s->policy && s->policy->fini && s->model)
        s->policy->fini(s);
    mt_vec_fini(&s->members);
    mt_map_fini(&s->by_trial);
    free(s);
}

bool swp_scheduler_needs_saves(const struct swp_scheduler *s)
{
    return s->policy->needs_saves || (s->opts.kind == SWP_SCHEDULER_MEDIAN && s->opts.pauses);
}

/* ---- trials ---- */

static mt_status no_trial(const char *what)
{
    return mt_error(MT_ENOENT, 0, what);
}

mt_status swp_scheduler_add(struct swp_scheduler *s, uint64_t trial, const struct swp_point *point)
{
    struct swp_member member = {.trial = trial, .t = -1, .value = INFINITY};
    if (swp_scheduler_member(s, trial))
        return mt_error(MT_EEXIST, 0, "sweep: the trial was added before");
    MT_TRY(mt_map_reserve(&s->by_trial, 1));
    MT_TRY(mt_vec_push(&s->members, member));
    mt_status st = s->policy->added ? s->policy->added(s, &s->members.data[s->members.count - 1], point) : mt_ok();
    if (st.code != 0) {
        s->members.count--;
        return st;
    }
    s->running++;
    return mt_map_put_num(&s->by_trial, mt_map_key(trial), s->members.count - 1);
}

mt_status swp_scheduler_report(struct swp_scheduler *s, uint64_t trial, double t, double value, struct swp_verdict *out_verdict)
{
    struct swp_member *m = swp_scheduler_member(s, trial);
    struct swp_verdict verdict = {.decision = SWP_CONTINUE};
    if (!m || m->state != SWP_MEMBER_RUNNING)
        return no_trial("sweep: no such trial is running");
    if (!isfinite(t) || t < 0)
        return mt_error(MT_EINVAL, 0, "sweep: a step or time must be a number, 0 or more");
    if (t > m->t) {
        struct swp_member before = *m;
        m->t = t;
        m->value = isnan(value) ? INFINITY : s->opts.maximize ? -value : value;
        mt_status st = s->policy->report(s, m, &verdict);
        if (st.code != 0)
            return *m = before, st;
        verdict.is_full = verdict.decision == SWP_STOP && m->t >= s->opts.max_t;
    }
    if (verdict.decision == SWP_PAUSE)
        swp_member_set_state(s, m, SWP_MEMBER_PAUSED);
    *out_verdict = verdict;
    return mt_ok();
}

double swp_scheduler_next_t(const struct swp_scheduler *s, uint64_t trial)
{
    const struct swp_member *m = swp_scheduler_member(s, trial);
    return m && m->state == SWP_MEMBER_RUNNING ? s->policy->next_t(s, m) : INFINITY;
}

struct swp_action swp_scheduler_next(const struct swp_scheduler *s, bool has_place)
{
    return s->policy->next ? s->policy->next(s, has_place) : swp_start_or_wait(s, has_place);
}

mt_status swp_scheduler_resume(struct swp_scheduler *s, uint64_t trial)
{
    struct swp_member *m = swp_scheduler_member(s, trial);
    if (!m || m->state != SWP_MEMBER_PAUSED)
        return no_trial("sweep: no such trial is paused");
    swp_member_set_state(s, m, SWP_MEMBER_RUNNING);
    if (s->policy->resumed)
        s->policy->resumed(s, m);
    return mt_ok();
}

mt_status swp_scheduler_cloned(struct swp_scheduler *s, uint64_t trial, bool done)
{
    struct swp_member *m = swp_scheduler_member(s, trial);
    bool               was_due = m && s->policy->cloned && s->policy->cloned(s, m, done);
    return was_due ? mt_ok() : no_trial("sweep: no clone of this trial was due");
}

mt_status swp_scheduler_end(struct swp_scheduler *s, uint64_t trial, bool failed)
{
    struct swp_member *m = swp_scheduler_member(s, trial);
    (void)failed; /* no policy makes a difference yet; part of the event, so that journals have it */
    if (!m || m->state == SWP_MEMBER_ENDED)
        return no_trial("sweep: no such trial is running or paused");
    swp_member_set_state(s, m, SWP_MEMBER_ENDED);
    if (s->policy->ended)
        s->policy->ended(s, m);
    return mt_ok();
}

void swp_scheduler_supply(struct swp_scheduler *s, bool more)
{
    bool changed = s->has_supply != more;
    s->has_supply = more;
    if (changed && s->policy->supplied)
        s->policy->supplied(s);
}

/* ---- FIFO ---- */

static mt_status fifo_report(struct swp_scheduler *s, struct swp_member *m, struct swp_verdict *out_verdict)
{
    out_verdict->decision = m->t >= s->opts.max_t ? SWP_STOP : SWP_CONTINUE;
    return mt_ok();
}

static double fifo_next_t(const struct swp_scheduler *s, const struct swp_member *m)
{
    (void)m;
    return s->opts.max_t;
}

const struct swp_policy swp_fifo_policy = {.report = fifo_report, .next_t = fifo_next_t};
