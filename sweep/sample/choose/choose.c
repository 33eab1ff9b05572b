/* SPDX-License-Identifier: Apache-2.0
 *
 * choose.c - a sampler of any kind: options, rows, first points, grid parameters. What a kind adds is its struct swp_method.
 *
 * Owns:    rows, the model of its method.
 * Thread:  one at a time.
 * Always:  a trial has at most one row; what failed has changed nothing.
 */
#include "sweep/space/options.h"
#include "sweep/sample/method.h"
#include "sweep/space/layout.h"

#include <math.h>

enum { GRID_TRIES_MAX = 256 }; /* combinations passed over because the constraints forbid them */

static const struct {
    const char              *text;
    const struct swp_method *method;
} kinds[SWP_SAMPLER_COUNT] = {
#define X(name, text) [SWP_SAMPLER_##name] = {#text, &swp_##text##_method},
    SWP_SAMPLERS(X)
#undef X
};
#define X(name, text) " " #text
static const char kind_list[] = SWP_SAMPLERS(X);
#undef X

const char *swp_sampler_text(enum swp_sampler_kind kind)
{
    return kind < SWP_SAMPLER_COUNT ? kinds[kind].text : NULL;
}

static bool parse_kind(const char *text, enum swp_sampler_kind *out_kind)
{
    for (int i = 0; i < SWP_SAMPLER_COUNT; i++)
        if (strcmp(kinds[i].text, text) == 0)
            return *out_kind = (enum swp_sampler_kind)i, true;
    return false;
}

mt_status swp_sampler_opts_parse(const char *text, struct swp_sampler_opts *out_opts, struct swp_problem *out_problem)
{
    struct swp_sampler_opts o = {.kind = SWP_SAMPLER_RANDOM};
    const struct swp_option options[] = {
        {"startup", SWP_OPTION_COUNT, &o.startup},
        {"hyperopt", SWP_OPTION_FLAG, &o.hyperopt},
        {"independent", SWP_OPTION_FLAG, &o.independent},
        {"no_liar", SWP_OPTION_FLAG, &o.no_liar},
        {"candidates", SWP_OPTION_COUNT, &o.candidates},
        {"prior_weight", SWP_OPTION_REAL, &o.prior_weight},
        {"sigma0", SWP_OPTION_REAL, &o.sigma0},
        {"population", SWP_OPTION_COUNT, &o.population},
        {"plain", SWP_OPTION_FLAG, &o.plain},
        {0},
    };
    char name[MT_NAME_BYTES_MAX];
    MT_TRY(swp_options_parse(text, options, name, out_problem));
    if (!parse_kind(name, &o.kind))
        return swp_refuse(out_problem, name, "there is no sampler '%s': it is one of%s, or exec:PROGRAM ARGUMENTS", name,
                          kind_list);
    *out_opts = o;
    return mt_ok();
}

/* ---- making ---- */

static mt_status check_options(struct swp_sampler_opts *o, struct swp_problem *out)
{
    if ((unsigned)o->kind >= SWP_SAMPLER_COUNT)
        return swp_refuse(out, "sampler", "the sampler is of no known kind");
    if (!(o->prior_weight >= 0) || !isfinite(o->prior_weight))
        return swp_refuse(out, "prior_weight", "prior_weight must be a positive number");
    if (o->candidates > MT_SWEEP_CANDIDATES_MAX)
        return swp_refuse(out, "candidates", "candidates may be %d at most", MT_SWEEP_CANDIDATES_MAX);
    if (!(o->sigma0 >= 0) || o->sigma0 > 10)
        return swp_refuse(out, "sigma0", "sigma0 is in parts of the range: 0 to 10");
    if (o->population == 1 || o->population > MT_SWEEP_POPULATION_MAX)
        return swp_refuse(out, "population", "population must be 2 to %d", MT_SWEEP_POPULATION_MAX);
    o->sigma0 = o->sigma0 == 0 ? 1.0 / 6 : o->sigma0;
    if (o->hyperopt)
        o->independent = o->no_liar = true;
    o->prior_weight = o->prior_weight == 0 ? 1 : o->prior_weight;
    o->candidates = o->candidates ? o->candidates : 24;
    if (o->startup == 0)
        o->startup = o->kind == SWP_SAMPLER_CMAES ? 1 : o->hyperopt ? 20 : 10;
    return mt_ok();
}

static mt_status copy_first(struct swp_sampler *s, struct swp_problem *out_problem)
{
    uint32_t count = swp_space_count(s->space);
    s->first = calloc((size_t)s->opts.first_count + 1, count * sizeof *s->first);
    if (!s->first)
        return mt_error(MT_ENOMEM, 0, "sweep: first points");
    for (uint32_t i = 0; i < s->opts.first_count; i++) {
        MT_TRY(swp_point_check(s->space, &s->opts.first[i], out_problem));
        memcpy(s->first + (size_t)i * count, s->opts.first[i].values, count * sizeof *s->first);
    }
    s->opts.first = NULL;
    return mt_ok();
}

mt_status swp_sampler_new(const struct swp_sampler_opts *opts, const struct swp_space *space, uint64_t seed,
                          struct swp_sampler **out_sampler, struct swp_problem *out_problem)
{
    struct swp_sampler *s = calloc(1, sizeof *s);
    mt_status           st;
    if (!s)
        return mt_error(MT_ENOMEM, 0, "sweep: a sampler");
    s->opts = *opts;
    s->space = space;
    s->seed = seed;
    MT_TRY_GOTO(st, check_options(&s->opts, out_problem), err_free);
    MT_TRY_GOTO(st, copy_first(s, out_problem), err_free);
    s->method = kinds[opts->kind].method;
    if (s->method->init)
        MT_TRY_GOTO(st, s->method->init(s, out_problem), err_free);
    *out_sampler = s;
    return mt_ok();

err_free:
    swp_sampler_free(s);
    return st;
}

void swp_sampler_free(struct swp_sampler *s)
{
    if (!s)
        return;
    if (s->method && s->method->fini && s->model)
        s->method->fini(s);
    mt_vec_fini(&s->rows);
    mt_map_fini(&s->by_trial);
    free(s->first);
    free(s);
}

uint64_t swp_sampler_trials(const struct swp_sampler *s)
{
    return s->opts.kind == SWP_SAMPLER_GRID ? swp_grid_trials(s) + s->opts.first_count : UINT64_MAX;
}

bool swp_sampler_is_adaptive(const struct swp_sampler *s)
{
    return s->method->is_adaptive;
}

/* ---- rows ---- */

static mt_status add_row(struct swp_sampler *s, const struct swp_point *point, const struct swp_row *row)
{
    MT_TRY(mt_vec_push(&s->rows, *row));
    mt_status st = s->method->added ? s->method->added(s, (uint32_t)(s->rows.count - 1), point) : mt_ok();
    if (st.code != 0)
        s->rows.count--;
    return st;
}

static mt_status add_trial(struct swp_sampler *s, uint64_t trial, const struct swp_point *point)
{
    struct swp_row row = {.state = SWP_ROW_RUNNING};
    MT_TRY(mt_map_reserve(&s->by_trial, 1));
    MT_TRY(add_row(s, point, &row));
    return mt_map_put_num(&s->by_trial, mt_map_key(trial), s->rows.count - 1);
}

static void settle(struct swp_sampler *s, uint32_t index, const struct swp_outcome *outcome)
{
    struct swp_row *row = &s->rows.data[index];
    double          value = s->opts.maximize ? -outcome->value : outcome->value;
    bool            failed = outcome->kind == SWP_FAILED || isnan(value) || value == -INFINITY || isnan(outcome->step);
    row->state = failed ? SWP_ROW_FAILED : outcome->kind == SWP_PRUNED ? SWP_ROW_PRUNED : SWP_ROW_COMPLETE;
    row->value = value;
    row->step = outcome->step;
    s->finished += !failed;
    if (s->method->told)
        s->method->told(s, index);
}

/* ---- events ---- */

/* A combination of grid parameters may be one that the constraints forbid: then the next one has its turn. */
static mt_status draw(struct swp_sampler *s, uint64_t trial, struct swp_point *point)
{
    uint64_t  combinations = swp_space_grid_size(s->space), tries = combinations < GRID_TRIES_MAX ? combinations : GRID_TRIES_MAX;
    mt_status st = mt_ok();
    for (uint64_t i = 0; i < tries; i++) {
        swp_space_grid_at(s->space, trial + i, point);
        bool is_model = !s->method->is_adaptive || s->finished >= s->opts.startup;
        st = is_model ? s->method->draw(s, trial, point) : swp_sampler_draw_random(s, trial, point);
        if (st.code != MT_EUNSCHEDULABLE)
            break;
    }
    return st;
}

mt_status swp_sampler_suggest(struct swp_sampler *s, uint64_t trial, struct swp_point *out_point)
{
    uint32_t         count = swp_space_count(s->space);
    struct swp_point point;
    if (mt_map_find(&s->by_trial, mt_map_key(trial)))
        return mt_error(MT_EEXIST, 0, "sweep: the trial has a point");
    if (trial < s->opts.first_count)
        memcpy(point.values, s->first + trial * count, count * sizeof *point.values);
    else
        MT_TRY(draw(s, trial, &point));
    MT_TRY(add_trial(s, trial, &point));
    memcpy(out_point->values, point.values, count * sizeof *point.values);
    return mt_ok();
}

mt_status swp_sampler_restore(struct swp_sampler *s, uint64_t trial, const struct swp_point *point)
{
    struct swp_problem ignored;
    if (mt_map_find(&s->by_trial, mt_map_key(trial)))
        return mt_error(MT_EEXIST, 0, "sweep: the trial has a point");
    MT_TRY(swp_point_check(s->space, point, &ignored));
    return add_trial(s, trial, point);
}

mt_status swp_sampler_tell(struct swp_sampler *s, uint64_t trial, const struct swp_outcome *outcome)
{
    mt_map_entry *entry = mt_map_find(&s->by_trial, mt_map_key(trial));
    if (!entry || s->rows.data[entry->value.num].state != SWP_ROW_RUNNING)
        return mt_error(MT_ENOENT, 0, "sweep: no such trial is running");
    settle(s, (uint32_t)entry->value.num, outcome);
    return mt_ok();
}

mt_status swp_sampler_know(struct swp_sampler *s, const struct swp_point *point, const struct swp_outcome *outcome)
{
    struct swp_problem ignored;
    struct swp_row     row = {.state = SWP_ROW_RUNNING, .is_known = true};
    MT_TRY(swp_point_check(s->space, point, &ignored));
    MT_TRY(add_row(s, point, &row));
    settle(s, (uint32_t)(s->rows.count - 1), outcome);
    return mt_ok();
}
