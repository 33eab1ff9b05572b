/* SPDX-License-Identifier: Apache-2.0
 *
 * weigh.c - how much each parameter of a sweep matters: its completed trials, as importance/ wants them.
 *
 * Trials that were stopped early or have failed don't count: their value is not what the parameters lead to. A trial whose
 * parameters another space has written, or that PBT has moved out of the space, is passed over.
 *
 * Owns: nothing beyond a call. Thread: any.
 */
#include "sweep/look/look.h"
#include "sweep/importance/importance.h"
#include "sweep/journal/folder.h"
#include "sweep/space/space.h"

#include "core/base/reserved.h"

#include <math.h>
#include <stdio.h>

static_assert((int)MANTA_SWEEP_WEIGHED_MAX == (int)MT_SWEEP_WEIGHED_MAX, "one number, two headers");

struct rows {
    double  *points, *results;
    uint32_t count;
};

static bool counts(const manta_sweep_trial *t)
{
    return strcmp(t->state, "completed") == 0 && t->has_value && isfinite(t->value);
}

/* Of more trials than there is room for every one has the same chance. */
static mt_status rows_take(const manta_sweep_view *view, const struct swp_space *space, uint64_t seed, struct rows *out)
{
    mt_rng             rng = swp_rng_of(seed, UINT64_MAX, SWP_FOR_IMPORTANCE);
    uint32_t           width = swp_space_count(space);
    uint64_t           left = 0, wanted;
    struct swp_problem ignored;
    struct swp_point   point;
    for (int64_t i = 0; i < view->count; i++)
        left += counts(&view->trials[i]);
    wanted = left < MT_SWEEP_WEIGHED_MAX ? left : MT_SWEEP_WEIGHED_MAX;
    out->points = calloc(wanted * width + 1, sizeof *out->points);
    out->results = calloc(wanted + 1, sizeof *out->results);
    if (!out->points || !out->results)
        return mt_error(MT_ENOMEM, 0, "weigh parameters");
    for (int64_t i = 0; i < view->count && wanted; i++) {
        const manta_sweep_trial *t = &view->trials[i];
        if (!counts(t) || mt_rng_below(&rng, left--) >= wanted)
            continue;
        wanted--;
        mt_status st = swp_point_from_json(space, mt_view_text(t->params), NULL, &point, &ignored);
        if (st.code == MT_ENOMEM)
            return st;
        if (st.code)
            continue;
        memcpy(out->points + (size_t)out->count * width, point.values, width * sizeof *point.values);
        out->results[out->count++] = t->value;
    }
    return mt_ok();
}

static int weights_tell(const struct swp_space *space, const struct swp_weights *weights, manta_sweep_weight *out, int max)
{
    int count = 0;
    for (size_t i = 0; i < weights->list.count && count < max; i++) {
        const struct swp_weight *w = &weights->list.data[i];
        manta_sweep_weight      *to = &out[count++];
        *to = (manta_sweep_weight){.weight = w->share, .variance = w->variance, .spread = w->spread};
        snprintf(to->name, sizeof to->name, "%s", swp_space_param(space, w->param)->name);
        if (w->other >= 0)
            snprintf(to->other, sizeof to->other, "%s", swp_space_param(space, (uint32_t)w->other)->name);
    }
    return count;
}

int manta_sweep_importance(const manta_sweep_view *view, const manta_sweep_importance_opts *opts, manta_sweep_weight *out, int max,
                           manta_error *e)
{
    manta_error unread;
    e = e ? e : &unread;
    if (!view || (max > 0 && !out)) {
        swp_fail(e, MANTA_EINVAL, "manta_sweep_importance: %s is NULL", view ? "out" : "view");
        return -1;
    }
    if (opts && MT_RESERVED_IS_USED(opts)) {
        swp_fail(e, MANTA_EINVAL, MT_RESERVED_TEXT, "manta_sweep_importance");
        return -1;
    }
    if (swp_view_check(view, "manta_sweep_importance", e) != MANTA_OK)
        return -1;
    const char               *method = opts && opts->method ? opts->method : view->importance;
    struct swp_importance_ask ask = {
        .maximize = strcmp(view->mode, "max") == 0, .pairs = opts && opts->pairs, .seed = strtoull(view->seed, NULL, 10)};
    struct swp_space  *space = NULL;
    struct swp_problem problem = {0};
    struct swp_weights weights = {0};
    struct rows        rows = {0};
    int                count = -1;
    if (!swp_importance_parse(method, &ask.kind)) {
        swp_fail(e, MANTA_EINVAL, "importance: there is no \"%.60s\"; there are fanova, ped_anova", method);
        return -1;
    }
    mt_status st = swp_space_from_json(mt_view_text(view->space), &space, &problem);
    if (st.code == 0)
        st = rows_take(view, space, ask.seed, &rows);
    ask.space = space;
    ask.points = rows.points;
    ask.results = rows.results;
    ask.rows = rows.count;
    if (st.code == 0)
        st = swp_importance(&ask, &weights, &problem);
    if (st.code == 0)
        count = weights_tell(space, &weights, out, max);
    else if (view->stopped && problem.text[0])
        swp_fail(e, st.code, "%s (%lld that were stopped early don't count)", problem.text, (long long)view->stopped);
    else
        swp_fail(e, st.code, "%s", problem.text[0] ? problem.text : mt_code_text(st.code));
    mt_vec_fini(&weights.list);
    free(rows.points);
    free(rows.results);
    swp_space_free(space);
    return count;
}
