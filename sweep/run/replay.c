/* SPDX-License-Identifier: Apache-2.0
 *
 * replay.c - see replay.h.
 *
 * A trial's checkpoint has come from the trial that it copied last, up to where that stood; and so on, back to a point that was
 * drawn. Read backwards, the copies are its turns.
 */
#include "sweep/run/replay.h"

#include "sweep/run/plan.h"

#include <stdio.h>

/* The newest copy of `trial` before number `end`; -1: none. */
static int64_t copy_before(const manta_sweep_view *v, int64_t trial, int64_t end)
{
    for (int64_t i = end - 1; i >= 0; i--)
        if (v->copies[i].trial == trial)
            return i;
    return -1;
}

/* What was drawn for it. */
static const char *drawn(const manta_sweep_view *v, int64_t trial)
{
    for (int64_t i = 0; i < v->copy_count; i++)
        if (v->copies[i].trial == trial)
            return v->copies[i].before;
    return v->trials[trial].params;
}

static mt_status turns_read(const manta_sweep_view *v, int64_t trial, const struct swp_space *space, struct swp_replay *out,
                            struct swp_problem *problem)
{
    int64_t end = v->copy_count;
    out->count = 0;
    out->turns = calloc((size_t)v->copy_count + 1, sizeof *out->turns);
    if (!out->turns)
        return mt_error(MT_ENOMEM, 0, "read a policy");
    for (int64_t i; (i = copy_before(v, trial, end)) >= 0; end = i, trial = v->copies[i].from) {
        struct swp_turn *turn = &out->turns[out->count++];
        turn->t = (double)v->copies[i].from_step;
        MT_TRY(swp_point_from_json(space, mt_view_text(v->copies[i].after), NULL, &turn->point, problem));
    }
    for (uint32_t i = 0; i < out->count / 2; i++) {
        struct swp_turn turn = out->turns[i];
        out->turns[i] = out->turns[out->count - 1 - i];
        out->turns[out->count - 1 - i] = turn;
    }
    return swp_point_from_json(space, mt_view_text(drawn(v, trial)), NULL, &out->first, problem);
}

static manta_status view_read(const manta_sweep_view *v, const char *number, const char *metric, const struct swp_space *space,
                              struct swp_replay *out, manta_error *e)
{
    struct swp_problem problem = {0};
    char              *end = NULL;
    int64_t            trial = number ? strtoll(number, &end, 10) : v->best;
    if ((number && (end == number || *end)) || trial < 0 || trial >= v->count)
        return swp_fail(e, MANTA_EINVAL, "replay \"%.60s:%.20s\": that sweep has no such trial; it has %lld", v->name,
                        number ? number : "best", (long long)v->count);
    if (strcmp(v->metric, metric) != 0)
        return swp_fail(e, MANTA_EINVAL, "replay \"%.60s\": its metric is \"%.100s\", not \"%.100s\"", v->name, v->metric, metric);
    mt_status st = turns_read(v, trial, space, out, &problem);
    if (st.code == MT_ENOMEM)
        return swp_fail(e, MANTA_ENOMEM, "no memory for the sweep");
    return st.code
               ? swp_fail(e, MANTA_EINVAL, "replay \"%.60s\": its parameters are of another space: %.300s", v->name, problem.text)
               : MANTA_OK;
}

manta_status swp_replay_read(const char *storage, const char *what, const char *metric, const struct swp_space *space,
                             struct swp_replay *out, manta_error *e)
{
    const char *colon = strchr(what, ':');
    char        name[MT_SWEEP_NAME_BYTES_MAX + 1];
    snprintf(name, sizeof name, "%.*s", (int)(colon ? colon - what : (long)strlen(what)), what);
    *out = (struct swp_replay){.count = 0};
    manta_sweep_view *view = manta_sweep_look(storage, name, e);
    if (!view)
        return e->code;
    manta_status code = view_read(view, colon ? colon + 1 : NULL, metric, space, out, e);
    manta_sweep_view_free(view);
    return code;
}
