/* SPDX-License-Identifier: Apache-2.0
 *
 * stopper.c - rules that end a trial or a sweep; plateaus as Ray Tune's TrialPlateauStopper and ExperimentPlateauStopper.
 *
 * Owns:    the last values of each trial (as long as it runs), the best values of the sweep.
 * Thread:  one at a time.
 */
#include "sweep/decide/stopper.h"

#include "core/ds/map.h"
#include "sweep/space/options.h"
#include "sweep/space/layout.h"

#include <math.h>

enum { RULES_MAX = 32 };

/* The last `window` values of one trial under one rule. */
struct window {
    uint32_t count;    /* reports so far */
    double   values[]; /* a ring */
};

struct rule {
    struct swp_stop stop;    /* zeros filled in */
    mt_map          windows; /* TRIAL_PLATEAU: by trial */
    double         *best;    /* SWEEP_PLATEAU: the best values, the best first */
    uint32_t        best_count, in_row;
    bool            has_fired; /* SWEEP_*: stays so */
};

struct swp_stopper {
    struct rule *rules;
    uint32_t     count;
    bool         all, maximize;
};

static const char *const texts[SWP_STOP_COUNT] = {
#define X(name, text) [SWP_STOP_##name] = text,
    SWP_STOPS(X)
#undef X
};

#define X(name, text) " " text
static const char kind_list[] = SWP_STOPS(X);
#undef X

static bool parse_kind(const char *text, enum swp_stop_kind *out_kind)
{
    for (int i = 0; i < SWP_STOP_COUNT; i++)
        if (strcmp(texts[i], text) == 0)
            return *out_kind = (enum swp_stop_kind)i, true;
    return false;
}

mt_status swp_stop_opts_parse(const char *text, struct swp_stop *out_rule, struct swp_problem *out_problem)
{
    struct swp_stop         r = {.value = NAN};
    const struct swp_option options[] = {
        {"limit", SWP_OPTION_REAL, &r.limit},        {"value", SWP_OPTION_REAL, &r.value},
        {"worse", SWP_OPTION_FLAG, &r.worse},        {"tolerance", SWP_OPTION_REAL, &r.tolerance},
        {"window", SWP_OPTION_COUNT, &r.window},     {"grace", SWP_OPTION_COUNT, &r.grace},
        {"patience", SWP_OPTION_COUNT, &r.patience}, {0},
    };
    char name[MT_NAME_BYTES_MAX];
    MT_TRY(swp_options_parse(text, options, name, out_problem));
    if (!parse_kind(name, &r.kind))
        return swp_refuse(out_problem, name, "there is no stopper '%s': it is one of%s", name, kind_list);
    r.has_value = !isnan(r.value);
    *out_rule = r;
    return mt_ok();
}

/* ---- making ---- */

static bool is_about_sweep(const struct rule *rule)
{
    return rule->stop.kind >= SWP_STOP_SWEEP_TIME;
}

static mt_status check_rule(struct swp_stop *r, struct swp_problem *out)
{
    if ((unsigned)r->kind >= SWP_STOP_COUNT)
        return swp_refuse(out, "stop", "a stopper is of no known kind");
    const char *name = texts[r->kind];
    bool        is_time = r->kind == SWP_STOP_TRIAL_TIME || r->kind == SWP_STOP_SWEEP_TIME;
    bool        is_threshold = r->kind == SWP_STOP_THRESHOLD || r->kind == SWP_STOP_SWEEP_THRESHOLD;
    bool        is_trial = r->kind == SWP_STOP_TRIAL_PLATEAU;
    if ((is_time || r->kind == SWP_STOP_STEPS) && !(r->limit > 0 && isfinite(r->limit)))
        return swp_refuse(out, name, "stopper '%s': limit %g must be above 0", name, r->limit);
    if ((is_threshold || r->has_value) && !isfinite(r->value))
        return swp_refuse(out, name, "stopper '%s' needs a value that is a number", name);
    if (!(r->tolerance >= 0) || !isfinite(r->tolerance))
        return swp_refuse(out, name, "stopper '%s': tolerance %g must be a positive number", name, r->tolerance);
    r->tolerance = r->tolerance > 0 ? r->tolerance : is_trial ? 0.01 : 0.001;
    r->window = r->window ? r->window : is_trial ? 4 : 10;
    r->grace = r->grace ? r->grace : 4;
    if (r->window < 2 || r->window > MT_SWEEP_WINDOW_MAX)
        return swp_refuse(out, name, "stopper '%s': window must be 2 to %d", name, MT_SWEEP_WINDOW_MAX);
    return mt_ok();
}

mt_status swp_stopper_new(const struct swp_stop *rules, uint32_t count, bool all, bool maximize, struct swp_stopper **out_stopper,
                          struct swp_problem *out_problem)
{
    if (count > RULES_MAX)
        return swp_refuse(out_problem, "stop", "%u stoppers are too many; %d are possible", count, RULES_MAX);
    struct swp_stopper *s = calloc(1, sizeof *s);
    mt_status           st;
    if (!s || !(s->rules = calloc(count + 1, sizeof *s->rules))) {
        free(s);
        return mt_error(MT_ENOMEM, 0, "sweep: stoppers");
    }
    s->all = all;
    s->maximize = maximize;
    for (; s->count < count; s->count++) {
        struct rule *rule = &s->rules[s->count];
        rule->stop = rules[s->count];
        MT_TRY_GOTO(st, check_rule(&rule->stop, out_problem), err_free);
        rule->best = rule->stop.kind == SWP_STOP_SWEEP_PLATEAU ? calloc(rule->stop.window + 1, sizeof(double)) : NULL;
        if (rule->stop.kind == SWP_STOP_SWEEP_PLATEAU && !rule->best)
            MT_TRY_GOTO(st, mt_error(MT_ENOMEM, 0, "sweep: stoppers"), err_free);
    }
    *out_stopper = s;
    return mt_ok();

err_free:
    swp_stopper_free(s);
    return st;
}

void swp_stopper_free(struct swp_stopper *s)
{
    if (!s)
        return;
    for (uint32_t i = 0; i < s->count; i++) {
        MT_MAP_EACH(&s->rules[i].windows, entry)
            free(entry->value.ptr);
        mt_map_fini(&s->rules[i].windows);
        free(s->rules[i].best);
    }
    free(s->rules);
    free(s);
}

/* ---- rules ---- */

static double deviation(const double *values, uint32_t count)
{
    double mean = 0, sum = 0;
    for (uint32_t i = 0; i < count; i++)
        mean += values[i] / count;
    for (uint32_t i = 0; i < count; i++)
        sum += (values[i] - mean) * (values[i] - mean);
    return sqrt(sum / count);
}

/* `value` is the smaller the better here and below. */
static double inward(const struct swp_stopper *s, double value)
{
    return s->maximize ? -value : value;
}

static mt_status trial_plateau(struct rule *rule, uint64_t trial, double value, double bound, bool *out_fires)
{
    const struct swp_stop *r = &rule->stop;
    struct window         *w = mt_map_ptr(&rule->windows, mt_map_key(trial));
    if (!w) {
        if (!(w = calloc(1, sizeof *w + r->window * sizeof *w->values)))
            return mt_error(MT_ENOMEM, 0, "sweep: stoppers");
        mt_status st = mt_map_put_ptr(&rule->windows, mt_map_key(trial), w);
        if (st.code != 0) {
            free(w);
            return st;
        }
    }
    w->values[w->count++ % r->window] = value;
    bool is_ripe = w->count >= r->window && w->count >= r->grace && (!r->has_value || value <= bound);
    *out_fires = is_ripe && deviation(w->values, r->window) <= r->tolerance;
    return mt_ok();
}

static bool sweep_plateau(struct rule *rule, double value)
{
    const struct swp_stop *r = &rule->stop;
    uint32_t               k = rule->best_count;
    for (; k > 0 && rule->best[k - 1] > value; k--)
        rule->best[k] = rule->best[k - 1];
    rule->best[k] = value;
    rule->best_count += rule->best_count < r->window;
    bool is_flat = rule->best_count == r->window && deviation(rule->best, r->window) <= r->tolerance;
    rule->in_row = is_flat ? rule->in_row + 1 : 0;
    return is_flat && rule->in_row >= r->patience;
}

struct moment {
    uint64_t trial;
    double   step, value, trial_s, sweep_s;
};

static mt_status ask(struct swp_stopper *s, struct rule *rule, const struct moment *at, bool *out_fires)
{
    const struct swp_stop *r = &rule->stop;
    double                 bound = inward(s, r->value);
    bool                   is_number = !isnan(at->value);
    switch (r->kind) {
    case SWP_STOP_STEPS: *out_fires = at->step >= r->limit; break;
    case SWP_STOP_THRESHOLD: *out_fires = is_number && (r->worse ? at->value >= bound : at->value <= bound); break;
    case SWP_STOP_TRIAL_TIME: *out_fires = at->trial_s >= r->limit; break;
    case SWP_STOP_SWEEP_TIME: *out_fires = at->sweep_s >= r->limit; break;
    case SWP_STOP_TRIAL_PLATEAU: return trial_plateau(rule, at->trial, at->value, bound, out_fires);
    case SWP_STOP_SWEEP_PLATEAU: *out_fires = rule->has_fired |= is_number && sweep_plateau(rule, at->value); break;
    case SWP_STOP_SWEEP_THRESHOLD: *out_fires = rule->has_fired |= is_number && at->value <= bound; break;
    case SWP_STOP_COUNT: break;
    }
    return mt_ok();
}

/* "or" over the rules of one sort, or "and" where `all`; no rule stops nothing. */
struct tally {
    uint32_t asked, fired;
};

static bool decides(const struct swp_stopper *s, const struct tally *tally)
{
    return tally->fired > 0 && (!s->all || tally->fired == tally->asked);
}

static enum swp_stop_what conclude(const struct swp_stopper *s, const struct tally tallies[2])
{
    return decides(s, &tallies[1]) ? SWP_STOP_SWEEP : decides(s, &tallies[0]) ? SWP_STOP_TRIAL : SWP_STOP_NOTHING;
}

mt_status swp_stopper_report(struct swp_stopper *s, uint64_t trial, double step, double value, double trial_s, double sweep_s,
                             enum swp_stop_what *out_what)
{
    struct moment at = {trial, step, inward(s, value), trial_s, sweep_s};
    struct tally  tallies[2] = {{0}};
    for (uint32_t i = 0; i < s->count; i++) {
        bool          fires = false;
        struct tally *tally = &tallies[is_about_sweep(&s->rules[i])];
        MT_TRY(ask(s, &s->rules[i], &at, &fires));
        tally->asked++;
        tally->fired += fires;
    }
    *out_what = conclude(s, tallies);
    return mt_ok();
}

enum swp_stop_what swp_stopper_tick(const struct swp_stopper *s, double trial_s, double sweep_s)
{
    struct tally tallies[2] = {{0}};
    for (uint32_t i = 0; i < s->count; i++) {
        const struct rule *rule = &s->rules[i];
        struct tally      *tally = &tallies[is_about_sweep(rule)];
        bool               trial_late = rule->stop.kind == SWP_STOP_TRIAL_TIME && trial_s >= rule->stop.limit;
        bool               sweep_late = rule->stop.kind == SWP_STOP_SWEEP_TIME && sweep_s >= rule->stop.limit;
        tally->asked++;
        tally->fired += trial_late || sweep_late || rule->has_fired;
    }
    return conclude(s, tallies);
}

void swp_stopper_end(struct swp_stopper *s, uint64_t trial)
{
    for (uint32_t i = 0; i < s->count; i++) {
        free(mt_map_ptr(&s->rules[i].windows, mt_map_key(trial)));
        (void)mt_map_remove(&s->rules[i].windows, mt_map_key(trial));
    }
}
