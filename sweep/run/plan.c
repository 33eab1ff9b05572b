/* SPDX-License-Identifier: Apache-2.0
 *
 * plan.c - see plan.h.
 *
 * Owns: space, sampler, scheduler and stoppers until swp_plan_fini.
 */
#include "sweep/run/plan.h"

#include "sweep/importance/importance.h"
#include "sweep/run/replay.h"
#include "sweep/trial/gang.h"

#include "core/base/limits/gang.h"
#include "core/base/reserved.h"

#include <inttypes.h>
#include <math.h>
#include <stdarg.h>
#include <stdio.h>
#include <unistd.h>

enum { OPTIONS_SIZE = 1024 };

static manta_status refuse(manta_error *e, mt_status st, const char *of, const struct swp_problem *problem)
{
    if (st.code == MT_ENOMEM)
        return swp_fail(e, MANTA_ENOMEM, "no memory for the sweep");
    return swp_fail(e, st.code, "%s: %s", of, problem->text[0] ? problem->text : mt_code_text(st.code));
}

/* ---- its parts ---- */

static manta_status numbers_check(const manta_sweep_opts *o, manta_error *e)
{
    if (MT_RESERVED_IS_USED(o) || (o->command && MT_RESERVED_IS_USED(o->command)))
        return swp_fail(e, MANTA_EINVAL, MT_RESERVED_TEXT, "manta_sweep_run");
    if (!o->metric || !o->metric[0] || strlen(o->metric) >= MT_NAME_BYTES_MAX)
        return swp_fail(e, MANTA_EINVAL, "metric is missing: the name of what trials report and the sweep is about");
    if (o->mode != MANTA_SWEEP_MIN && o->mode != MANTA_SWEEP_MAX)
        return swp_fail(e, MANTA_EINVAL, "mode is MANTA_SWEEP_MIN or MANTA_SWEEP_MAX");
    if (o->trials < 0 || o->concurrency < 0 || o->concurrency > MT_SWEEP_SLOTS_MAX || o->retries < MANTA_NO_RETRY)
        return swp_fail(e, MANTA_EINVAL, "trials, concurrency (at most %d) and retries can't be negative", MT_SWEEP_SLOTS_MAX);
    if (!(o->time_s >= 0) || !(o->trial_timeout_s >= 0) || !(o->silent_timeout_s >= 0) || !isfinite(o->time_s))
        return swp_fail(e, MANTA_EINVAL, "time_s, trial_timeout_s and silent_timeout_s are seconds, not negative");
    if (!(o->cpus >= 0 || o->cpus == -1) || !(o->gpus >= 0) || o->memory < 0)
        return swp_fail(e, MANTA_EINVAL, "cpus, gpus and memory of a trial can't be negative");
    enum swp_importance_kind ignored;
    if (o->importance && !swp_importance_parse(o->importance, &ignored))
        return swp_fail(e, MANTA_EINVAL, "importance: there is no \"%.60s\"; there are fanova, ped_anova", o->importance);
    return MANTA_OK;
}

static manta_status gang_check(const manta_sweep_opts *o, manta_error *e)
{
    static const char *const words[] = {"torch", "tf", "horovod", "pmi1", "none"}; /* of `manta run --as` */
    const manta_sweep_gang  *g = o->command ? o->command->gang : NULL;
    bool                     is_known = !g || !g->as;
    if (!g)
        return MANTA_OK;
    if (MT_RESERVED_IS_USED(g))
        return swp_fail(e, MANTA_EINVAL, MT_RESERVED_TEXT, "manta_sweep_run");
    for (size_t i = 0; i < sizeof words / sizeof *words && !is_known; i++)
        is_known = strcmp(words[i], g->as) == 0;
    if (!is_known)
        return swp_fail(e, MANTA_EINVAL, "gang: as is torch, tf, horovod, pmi1 or none, not \"%.60s\"", g->as);
    int ranks = swp_gang_ranks(g);
    if (g->ranks < 0 || g->nodes < 0 || g->per_node < 0 || ranks < 1 || ranks > MT_GANG_RANKS_MAX)
        return swp_fail(e, MANTA_EINVAL, "gang: 1 to %d ranks are wanted: n, or nodes and per_node", MT_GANG_RANKS_MAX);
    if ((g->per_node && !g->nodes) || (g->nodes && ranks != g->nodes * swp_gang_per_node(g)))
        return swp_fail(e, MANTA_EINVAL, "gang: %d ranks are not %d node%s with %d on each", ranks, g->nodes,
                        g->nodes == 1 ? "" : "s", g->per_node);
    if (o->memory || o->resource_count)
        return swp_fail(e, MANTA_EINVAL, "gang: memory and resources can't be reserved for ranks; only cpus and gpus, of each");
    return MANTA_OK;
}

static manta_status points_take(struct swp_plan *plan, const manta_sweep_opts *o, struct swp_sampler_opts *sampler, manta_error *e)
{
    struct swp_problem problem = {0};
    uint32_t           count = 0;
    while (o->points && o->points[count])
        count++;
    plan->points = calloc(count + 1, sizeof *plan->points);
    if (!plan->points)
        return swp_fail(e, MANTA_ENOMEM, "no memory for points");
    for (uint32_t i = 0; i < count; i++) {
        mt_rng    rng = swp_rng_of(o->seed, i, 1);
        mt_status st = swp_point_from_json(plan->space, mt_view_text(o->points[i]), &rng, &plan->points[i], &problem);
        if (st.code)
            return refuse(e, st, "points", &problem);
    }
    sampler->first = plan->points;
    sampler->first_count = count;
    return MANTA_OK;
}

/* opts.replay: its first point, and the turns for the scheduler. */
static manta_status replay_take(struct swp_plan *plan, const manta_sweep_opts *o, struct swp_sampler_opts *sampler, manta_error *e)
{
    struct swp_replay replay;
    bool is_other = (o->scheduler && strcmp(o->scheduler, "replay") != 0) || (o->sampler && strncmp(o->sampler, "exec:", 5) == 0);
    if (o->points || is_other || o->trials > 1)
        return swp_fail(e, MANTA_EINVAL,
                        "replay is of one trial and has its own points: leave out points, scheduler, trials, and "
                        "a sampler that is a program");
    manta_status code = swp_replay_read(o->storage, o->replay, o->metric, plan->space, &replay, e);
    plan->turns = replay.turns;
    plan->turn_count = replay.count;
    if (code != MANTA_OK)
        return code;
    plan->points = calloc(1, sizeof *plan->points);
    if (!plan->points)
        return swp_fail(e, MANTA_ENOMEM, "no memory for points");
    plan->points[0] = replay.first;
    plan->config.limit = 1;
    sampler->first = plan->points;
    sampler->first_count = 1;
    return MANTA_OK;
}

static manta_status sampler_take(struct swp_plan *plan, const manta_sweep_opts *o, manta_error *e)
{
    struct swp_sampler_opts sampler = {.maximize = o->mode == MANTA_SWEEP_MAX};
    struct swp_problem      problem = {0};
    const char             *name = o->sampler ? o->sampler : "random";
    char                    text[OPTIONS_SIZE];
    mt_status               st;
    if (!o->replay && strncmp(name, "exec:", 5) == 0) {
        st = swp_ask_new(name + 5, plan->space, sampler.maximize, o->seed, &plan->ask, &problem);
        plan->config.is_adaptive = true;
        plan->config.points = UINT64_MAX;
        if (st.code == 0)
            plan->config.source = swp_ask_source(plan->ask);
        return st.code ? refuse(e, st, "sampler", &problem) : MANTA_OK;
    }
    snprintf(text, sizeof text, "%.500s,%.500s", name, o->sampler_opts ? o->sampler_opts : "");
    st = swp_sampler_opts_parse(text, &sampler, &problem);
    if (st.code)
        return refuse(e, st, "sampler", &problem);
    sampler.maximize = o->mode == MANTA_SWEEP_MAX;
    manta_status code = o->replay ? replay_take(plan, o, &sampler, e) : points_take(plan, o, &sampler, e);
    if (code != MANTA_OK)
        return code;
    st = swp_sampler_new(&sampler, plan->space, o->seed, &plan->sampler, &problem);
    if (st.code)
        return refuse(e, st, "sampler", &problem);
    plan->config.source = swp_source_of(plan->sampler);
    plan->config.points = swp_sampler_trials(plan->sampler);
    plan->config.is_adaptive = swp_sampler_is_adaptive(plan->sampler);
    return MANTA_OK;
}

static manta_status scheduler_take(struct swp_plan *plan, const manta_sweep_opts *o, manta_error *e)
{
    struct swp_scheduler_opts scheduler = {.maximize = o->mode == MANTA_SWEEP_MAX};
    struct swp_problem        problem = {0};
    char                      text[OPTIONS_SIZE];
    snprintf(text, sizeof text, "%.500s,%.500s",
             o->scheduler ? o->scheduler
             : o->replay  ? "replay"
                          : "fifo",
             o->scheduler_opts ? o->scheduler_opts : "");
    mt_status st = swp_scheduler_opts_parse(text, &scheduler, &problem);
    if (st.code)
        return refuse(e, st, "scheduler", &problem);
    if (scheduler.kind == SWP_SCHEDULER_REPLAY && !o->replay)
        return swp_fail(e, MANTA_EINVAL,
                        "scheduler: a replay is of a trial of an earlier sweep; name that by replay, "
                        "\"NAME:TRIAL\"");
    scheduler.turns = plan->turns;
    scheduler.turn_count = plan->turn_count;
    scheduler.maximize = o->mode == MANTA_SWEEP_MAX;
    st = swp_scheduler_new(&scheduler, plan->space, o->seed, &plan->scheduler, &problem);
    if (st.code)
        return refuse(e, st, "scheduler", &problem);
    st = o->stop && o->stop[0] ? swp_plan_stops(o->stop, scheduler.maximize, &plan->stopper, &problem) : mt_ok();
    if (st.code)
        return refuse(e, st, "stop", &problem);
    plan->config.has_limits = plan->stopper != NULL;
    return MANTA_OK;
}

manta_status swp_plan_make(struct swp_plan *plan, const char *trial, const manta_sweep_opts *o, manta_error *e)
{
    struct swp_problem problem = {0};
    *plan = (struct swp_plan){.trial = trial ? trial : ""};
    manta_status code = swp_folder_of(o->storage, o->name, plan->folder, e);
    if (code == MANTA_OK)
        code = numbers_check(o, e);
    if (code == MANTA_OK)
        code = gang_check(o, e);
    if (code != MANTA_OK)
        return code;
    if (!trial == !o->command || (o->command && (!o->command->argv || !o->command->argv[0])))
        return swp_fail(e, MANTA_EINVAL, "a sweep is of a trial function by its name, or of opts.command: one of them");
    mt_status st = swp_plan_space(o->space, o->constraints, &plan->space, &problem);
    if (st.code)
        return refuse(e, st, "space", &problem);
    plan->config = (struct swp_driver_config){.space = plan->space,
                                              .maximize = o->mode == MANTA_SWEEP_MAX,
                                              .is_ordered = o->ordered,
                                              .limit = o->trials ? (uint64_t)o->trials : UINT64_MAX,
                                              .window = o->concurrency == 1 ? 1 : 2 * (o->concurrency ? o->concurrency : 8),
                                              .retries = o->retries ? (o->retries < 0 ? 0 : o->retries) : MT_SWEEP_RETRIES,
                                              .time_s = o->time_s,
                                              .trial_s = o->trial_timeout_s,
                                              .silent_s = o->silent_timeout_s};
    code = sampler_take(plan, o, e);
    if (code == MANTA_OK)
        code = scheduler_take(plan, o, e);
    if (code != MANTA_OK)
        return code;
    plan->config.scheduler = plan->scheduler;
    plan->config.stopper = plan->stopper;
    if (plan->config.limit == UINT64_MAX && plan->config.points == UINT64_MAX && o->time_s <= 0 && !plan->stopper)
        return swp_fail(e, MANTA_EINVAL, "the sweep would never end: set trials, time_s or stop");
    return MANTA_OK;
}

void swp_plan_fini(struct swp_plan *plan)
{
    swp_stopper_free(plan->stopper);
    swp_scheduler_free(plan->scheduler);
    swp_sampler_free(plan->sampler);
    swp_ask_free(plan->ask);
    swp_space_free(plan->space);
    free(plan->points);
    free(plan->turns);
}

/* ---- what may not change ---- */

static manta_status journal_fail(struct swp_journal *j, mt_status st, manta_error *e)
{
    const char *text = swp_journal_text(j);
    return swp_fail(e, st.code, "%s", text[0] ? text : mt_code_text(st.code));
}

/* Sets, or compares with what stands there. */
static manta_status agree(struct swp_journal *j, const char *key, const char *value, manta_error *e)
{
    mt_buf       old = {0};
    manta_status code = MANTA_OK;
    mt_status    st = swp_journal_get(j, key, &old);
    if (st.code == 0 && old.size == 0)
        st = swp_journal_set(j, key, value);
    else if (st.code == 0 && strcmp((const char *)old.data, value) != 0)
        code = swp_fail(e, MANTA_EINVAL,
                        "this sweep was begun with another %s: it is \"%.120s\" there and \"%.120s\" now; give it "
                        "another name, or resume it as it was",
                        key, (const char *)old.data, value);
    mt_buf_fini(&old);
    return st.code ? journal_fail(j, st, e) : code;
}

static manta_status space_differs(const struct swp_plan *plan, const mt_buf *old, manta_error *e)
{
    struct swp_problem problem = {0};
    struct swp_space  *before = NULL;
    mt_buf             diff = {0};
    mt_status          st = swp_space_from_json(mt_buf_view(old), &before, &problem);
    if (st.code == 0)
        st = swp_space_diff(before, plan->space, &diff);
    if (st.code == 0)
        st = mt_buf_terminate(&diff);
    manta_status code = st.code ? refuse(e, st, "the journal's search space", &problem)
                                : swp_fail(e, MANTA_EINVAL,
                                           "this sweep was begun with another search space; give it another name, "
                                           "or resume it as it was. What differs:\n%.350s",
                                           (const char *)diff.data);
    mt_buf_fini(&diff);
    swp_space_free(before);
    return code;
}

static manta_status space_agree(const struct swp_plan *plan, struct swp_journal *j, manta_error *e)
{
    mt_buf       now = {0}, old = {0};
    manta_status code = MANTA_OK;
    mt_status    st = swp_space_to_json(plan->space, &now);
    if (st.code == 0)
        st = mt_buf_terminate(&now);
    if (st.code == 0)
        st = swp_journal_get(j, "space", &old);
    if (st.code == 0 && old.size == 0)
        st = swp_journal_set(j, "space", (const char *)now.data);
    else if (st.code == 0 && !mt_view_equal(mt_buf_view(&old), mt_buf_view(&now)))
        code = space_differs(plan, &old, e);
    mt_buf_fini(&now);
    mt_buf_fini(&old);
    return st.code ? journal_fail(j, st, e) : code;
}

static manta_status points_agree(const manta_sweep_opts *o, struct swp_journal *j, manta_error *e)
{
    mt_buf    all = {0};
    mt_status st = mt_ok();
    for (const char *const *point = o->points; point && *point && st.code == 0; point++)
        st = mt_buf_printf(&all, "%s\n", *point);
    if (st.code == 0)
        st = mt_buf_printf(&all, "%s", o->ordered ? "ordered" : "");
    if (o->replay && st.code == 0)
        st = mt_buf_printf(&all, "\nreplay %s", o->replay);
    for (const char *const *name = o->warm_start; name && *name && st.code == 0; name++)
        st = mt_buf_printf(&all, "\nafter %s", *name);
    if (st.code == 0)
        st = mt_buf_terminate(&all);
    manta_status code = st.code ? journal_fail(j, st, e) : all.size ? agree(j, "points", (const char *)all.data, e) : MANTA_OK;
    mt_buf_fini(&all);
    return code;
}

static const char *or_none(const char *text)
{
    return text && text[0] ? text : "";
}

manta_status swp_plan_check(const struct swp_plan *plan, const manta_sweep_opts *o, struct swp_journal *j, manta_error *e)
{
    char         text[64], all[1400];
    manta_status code = space_agree(plan, j, e);
    snprintf(all, sizeof all, "%.600s %.700s", o->sampler ? o->sampler : "random", or_none(o->sampler_opts));
    code = code ? code : agree(j, "sampler", all, e);
    snprintf(all, sizeof all, "%.600s %.700s", o->scheduler ? o->scheduler : "fifo", or_none(o->scheduler_opts));
    code = code ? code : agree(j, "scheduler", all, e);
    code = code ? code : agree(j, "metric", o->metric, e);
    code = code ? code : agree(j, "mode", o->mode == MANTA_SWEEP_MAX ? "max" : "min", e);
    snprintf(text, sizeof text, "%" PRIu64, o->seed);
    code = code ? code : agree(j, "seed", text, e);
    code = code ? code : agree(j, "trial", plan->trial[0] ? plan->trial : "a command", e);
    if (o->stop && o->stop[0])
        code = code ? code : agree(j, "stop", o->stop, e);
    if (o->ordered) {
        snprintf(text, sizeof text, "%d", plan->config.window == 1 ? 1 : plan->config.window / 2);
        code = code ? code : agree(j, "concurrency of an ordered sweep", text, e);
    }
    code = code ? code : points_agree(o, j, e);
    mt_status st = code == MANTA_OK && o->importance ? swp_journal_set(j, "importance", o->importance) : mt_ok();
    return st.code ? journal_fail(j, st, e) : code;
}
