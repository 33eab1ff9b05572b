/* SPDX-License-Identifier: Apache-2.0
 *
 * chosen.c - see chosen.h. Owns: a choice's memory. Thread: any.
 */
#include "sweep/look/page/chosen.h"

#include <math.h>

static bool is_state(const manta_sweep_trial *t, const char *state)
{
    return strcmp(t->state, state) == 0;
}

static bool is_valued(const manta_sweep_trial *t)
{
    return t->has_value && isfinite(t->value) && (is_state(t, "completed") || is_state(t, "stopped"));
}

static bool is_curved(const manta_sweep_trial *t)
{
    return t->reports > 1 && !is_state(t, "failed") && !is_state(t, "dropped");
}

/* ---- trials ---- */

/* Better values first; a value that is none last. */
static int by_value(const void *a, const void *b, void *user)
{
    const manta_sweep_view *view = user;
    int64_t                 i = *(const int64_t *)a, k = *(const int64_t *)b;
    double                  sign = strcmp(view->mode, "max") == 0 ? -1 : 1;
    double                  x = sign * view->trials[i].value, y = sign * view->trials[k].value;
    x = x == x ? x : (double)INFINITY;
    y = y == y ? y : (double)INFINITY;
    return x != y ? (x > y) - (x < y) : (i > k) - (i < k);
}

/* Those that fit, the best first: the best ones, then evenly of the others. */
static mt_status ranked(const manta_sweep_view *view, bool (*fits)(const manta_sweep_trial *t), int64_t best, int64_t max,
                        swp_numbers *out, int64_t *out_count)
{
    for (int64_t i = 0; i < view->count; i++)
        if (fits(&view->trials[i]))
            MT_TRY(mt_vec_push(out, i));
    int64_t count = *out_count = (int64_t)out->count;
    if (count)
        qsort_r(out->data, out->count, sizeof *out->data, by_value, (void *)(uintptr_t)view);
    if (count <= max)
        return mt_ok();
    for (int64_t i = best; i < max; i++)
        out->data[i] = out->data[best + (i - best) * (count - best) / (max - best)];
    out->count = (size_t)max;
    return mt_ok();
}

static mt_status records_find(struct swp_chosen *chosen, const manta_sweep_view *view)
{
    const manta_sweep_trial *best = NULL;
    for (int64_t i = 0; i < view->count; i++) {
        const manta_sweep_trial *t = &view->trials[i];
        if (!is_valued(t) || (best && (strcmp(view->mode, "max") == 0 ? t->value <= best->value : t->value >= best->value)))
            continue;
        best = t;
        if (view->count > SWP_PAGE_RECORDS && chosen->records.count &&
            i * SWP_PAGE_RECORDS / view->count == chosen->records.data[chosen->records.count - 1] * SWP_PAGE_RECORDS / view->count)
            (void)mt_vec_pop(&chosen->records);
        MT_TRY(mt_vec_push(&chosen->records, i));
    }
    return mt_ok();
}

static mt_status failures_find(struct swp_chosen *chosen, const manta_sweep_view *view)
{
    for (int64_t i = 0; i < view->count; i++) {
        if (!view->trials[i].why)
            continue;
        if (chosen->failed++ < SWP_PAGE_FAILURES)
            MT_TRY(mt_vec_push(&chosen->failures, i));
    }
    return mt_ok();
}

/* ---- curves ---- */

/* In place: of each stretch its least and its greatest value, as they came; the first and the last point stay. */
static void curve_thin(struct swp_curve *curve)
{
    manta_sweep_report *p = curve->points.data;
    size_t              count = curve->points.count, kept = 1;
    if (count <= 2 * SWP_PAGE_STRETCHES + 2)
        return;
    for (size_t s = 0; s < SWP_PAGE_STRETCHES; s++) { /* of all but the first and the last */
        size_t begin = 1 + s * (count - 2) / SWP_PAGE_STRETCHES, end = 1 + (s + 1) * (count - 2) / SWP_PAGE_STRETCHES;
        size_t least = begin, greatest = begin;
        for (size_t i = begin; i < end; i++) {
            least = p[i].value < p[least].value || !isfinite(p[least].value) ? i : least;
            greatest = p[i].value > p[greatest].value || !isfinite(p[greatest].value) ? i : greatest;
        }
        size_t first = least < greatest ? least : greatest, second = least < greatest ? greatest : least;
        p[kept++] = p[first];
        if (second != first)
            p[kept++] = p[second];
    }
    p[kept++] = p[count - 1];
    curve->points.count = kept;
}

static mt_status curves_fill(struct swp_chosen *chosen, const manta_sweep_view *view, const swp_numbers *trials)
{
    int32_t  *curve_of = calloc((size_t)view->count + 1, sizeof *curve_of); /* 0: it is not drawn */
    mt_status st = curve_of ? mt_ok() : mt_error(MT_ENOMEM, 0, "choose curves");
    for (size_t i = 0; i < trials->count && st.code == 0; i++) {
        curve_of[trials->data[i]] = (int32_t)i + 1;
        st = mt_vec_push(&chosen->curves, (struct swp_curve){.trial = trials->data[i]});
    }
    for (int64_t i = 0; i < view->report_count && st.code == 0; i++) {
        const manta_sweep_report *r = &view->reports[i];
        if (!r->metric && curve_of[r->trial])
            st = mt_vec_push(&chosen->curves.data[curve_of[r->trial] - 1].points, *r);
    }
    for (size_t i = 0; i < chosen->curves.count && st.code == 0; i++) {
        chosen->curves.data[i].reports = (int64_t)chosen->curves.data[i].points.count;
        curve_thin(&chosen->curves.data[i]);
    }
    free(curve_of);
    return st;
}

mt_status swp_chosen_make(struct swp_chosen *chosen, const manta_sweep_view *view)
{
    swp_numbers curved = {0};
    *chosen = (struct swp_chosen){.valued = 0};
    mt_status st = ranked(view, is_valued, SWP_PAGE_TRIALS_BEST, SWP_PAGE_TRIALS, &chosen->trials, &chosen->valued);
    if (st.code == 0)
        st = ranked(view, is_curved, SWP_PAGE_CURVES_BEST, SWP_PAGE_CURVES, &curved, &chosen->curved);
    if (st.code == 0)
        st = curves_fill(chosen, view, &curved);
    if (st.code == 0)
        st = records_find(chosen, view);
    if (st.code == 0)
        st = failures_find(chosen, view);
    mt_vec_fini(&curved);
    return st;
}

void swp_chosen_fini(struct swp_chosen *chosen)
{
    for (size_t i = 0; i < chosen->curves.count; i++)
        mt_vec_fini(&chosen->curves.data[i].points);
    mt_vec_fini(&chosen->trials);
    mt_vec_fini(&chosen->records);
    mt_vec_fini(&chosen->failures);
    mt_vec_fini(&chosen->curves);
}
