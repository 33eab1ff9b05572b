/* SPDX-License-Identifier: Apache-2.0
 *
 * page.c - the report of a sweep: page.html, and the data as JSON in the place that it has marked for them.
 */
#include "sweep/look/page/page.h"

#include "core/text/json.h"
#include "core/base/limits/sweep.h"
#include "sweep/look/export.h"
#include "sweep/look/page/chosen.h"

#include <inttypes.h>
#include <math.h>
#include <string.h>

enum { PAIRS_MAX = 5 }; /* of parameters, whose interplay is shown */

/* page.html, made part of the program by CMake. */
extern const unsigned char swp_page_html[];
extern const size_t        swp_page_html_size;

static mt_status member_put(mt_buf *out, const char *name, const char *text)
{
    MT_TRY(mt_buf_printf(out, "\"%s\":", name));
    MT_TRY(mt_json_put_text(out, text));
    return mt_buf_append(out, ",", 1);
}

/* ["name", its weight, its part of the variance], of a pair ["name", "name", their part]; or why there are none. */
static mt_status weights_put(const manta_sweep_weight *weights, int count, mt_buf *out)
{
    int pairs = 0;
    MT_TRY(mt_buf_printf(out, "\"weights\":["));
    for (int i = 0; i < count && pairs < PAIRS_MAX; i++) {
        const manta_sweep_weight *w = &weights[i];
        MT_TRY(mt_buf_append(out, ",[", i ? 2 : 0));
        MT_TRY(mt_buf_append(out, "[", i == 0));
        MT_TRY(mt_json_put_text(out, w->name));
        if (w->other[0]) {
            MT_TRY(mt_buf_append(out, ",", 1));
            MT_TRY(mt_json_put_text(out, w->other));
            pairs++;
        } else {
            MT_TRY(mt_buf_printf(out, ",%.6f", w->weight));
        }
        MT_TRY(mt_buf_printf(out, ",%.6f]", w->variance));
    }
    return mt_buf_append(out, "],", 2);
}

static mt_status importance_put(const manta_sweep_view *view, mt_buf *out)
{
    manta_sweep_importance_opts opts = {.pairs = true};
    enum { WEIGHTS_MAX = MT_SWEEP_PARAMS_MAX * (MT_SWEEP_PARAMS_MAX + 1) / 2 };
    manta_sweep_weight *weights = calloc(WEIGHTS_MAX, sizeof *weights);
    manta_error         e;
    if (!weights)
        return mt_error(MT_ENOMEM, 0, "weigh parameters");
    int       count = manta_sweep_importance(view, &opts, weights, WEIGHTS_MAX, &e);
    mt_status st = count < 0 && e.code == MANTA_ENOMEM ? mt_error(MT_ENOMEM, 0, "weigh parameters") : mt_ok();
    if (st.code == 0)
        st = member_put(out, "weighed_by", view->importance);
    if (st.code == 0)
        st = member_put(out, "not_weighed", count < 0 ? e.message : "");
    if (st.code == 0)
        st = weights_put(weights, count, out);
    free(weights);
    return st;
}

static mt_status real_put(mt_buf *out, double value)
{
    return isfinite(value) ? mt_buf_printf(out, "%.6g", value) : mt_buf_append(out, "null", 4);
}

/* {"trial":N,"state":"...","reports":N,"steps":[...],"values":[...]} */
static mt_status curve_put(const manta_sweep_view *view, const struct swp_curve *curve, mt_buf *out)
{
    MT_TRY(mt_buf_printf(out, "{\"trial\":%" PRId64 ",\"state\":\"%s\",\"reports\":%" PRId64 ",\"steps\":[", curve->trial,
                         view->trials[curve->trial].state, curve->reports));
    for (size_t i = 0; i < curve->points.count; i++)
        MT_TRY(mt_buf_printf(out, "%s%" PRId64, i ? "," : "", curve->points.data[i].step));
    MT_TRY(mt_buf_printf(out, "],\"values\":["));
    for (size_t i = 0; i < curve->points.count; i++) {
        MT_TRY(mt_buf_append(out, ",", i > 0));
        MT_TRY(real_put(out, curve->points.data[i].value));
    }
    return mt_buf_printf(out, "]}");
}

static mt_status chosen_put(const manta_sweep_view *view, const struct swp_chosen *chosen, mt_buf *out)
{
    MT_TRY(mt_buf_printf(out,
                         "\"drawn\":%" PRId64 ",\"valued\":%" PRId64 ",\"curved\":%" PRId64 ",\"said\":%" PRId64
                         ",\"best_carried\":%d,\"stretches\":%d,",
                         view->count, chosen->valued, chosen->curved, chosen->failed, SWP_PAGE_TRIALS_BEST, SWP_PAGE_STRETCHES));
    MT_TRY(mt_buf_printf(out, "\"trials\":["));
    for (size_t i = 0; i < chosen->trials.count; i++) {
        MT_TRY(mt_buf_append(out, ",", i > 0));
        MT_TRY(swp_export_trial(&view->trials[chosen->trials.data[i]], out));
    }
    MT_TRY(mt_buf_printf(out, "],\"records\":["));
    for (size_t i = 0; i < chosen->records.count; i++)
        MT_TRY(mt_buf_printf(out, "%s[%" PRId64 ",%.17g]", i ? "," : "", chosen->records.data[i],
                             view->trials[chosen->records.data[i]].value));
    MT_TRY(mt_buf_printf(out, "],\"failures\":["));
    for (size_t i = 0; i < chosen->failures.count; i++) {
        MT_TRY(mt_buf_printf(out, "%s[%" PRId64 ",", i ? "," : "", chosen->failures.data[i]));
        MT_TRY(mt_json_put_text(out, view->trials[chosen->failures.data[i]].why));
        MT_TRY(mt_buf_append(out, "]", 1));
    }
    MT_TRY(mt_buf_printf(out, "],\"curves\":["));
    for (size_t i = 0; i < chosen->curves.count; i++) {
        MT_TRY(mt_buf_append(out, ",", i > 0));
        MT_TRY(curve_put(view, &chosen->curves.data[i], out));
    }
    return mt_buf_append(out, "]", 1);
}

static mt_status data_put(const manta_sweep_view *view, mt_buf *out)
{
    struct swp_chosen chosen;
    MT_TRY(mt_buf_append(out, "{", 1));
    MT_TRY(member_put(out, "name", view->name));
    MT_TRY(member_put(out, "metric", view->metric));
    MT_TRY(member_put(out, "mode", view->mode));
    MT_TRY(member_put(out, "sampler", view->sampler));
    MT_TRY(member_put(out, "scheduler", view->scheduler));
    MT_TRY(member_put(out, "seed", view->seed));
    MT_TRY(mt_buf_printf(out, "\"completed\":%lld,\"stopped\":%lld,\"failed\":%lld,\"seconds\":%.3f,", (long long)view->completed,
                         (long long)view->stopped, (long long)view->failed, view->seconds));
    MT_TRY(importance_put(view, out));
    MT_TRY(mt_buf_printf(out, "\"space\":%s,", view->space));
    mt_status st = swp_chosen_make(&chosen, view);
    if (st.code == 0)
        st = chosen_put(view, &chosen, out);
    swp_chosen_fini(&chosen);
    return st.code ? st : mt_buf_append(out, "}", 1);
}

mt_status swp_page_write(const manta_sweep_view *view, FILE *to)
{
    static const char    mark[] = "@DATA@";
    const unsigned char *place = memmem(swp_page_html, swp_page_html_size, mark, sizeof mark - 1);
    MT_ASSERT(place);
    size_t    before = (size_t)(place - swp_page_html), after = before + sizeof mark - 1;
    mt_buf    data = {0};
    mt_status st = data_put(view, &data);
    if (st.code == 0) {
        fwrite(swp_page_html, 1, before, to);
        for (size_t i = 0; i < data.size; i++) /* no text may end the element that the data stand in */
            if (data.data[i] == '<')
                fputs("\\u003c", to);
            else
                fputc(data.data[i], to);
        fwrite(swp_page_html + after, 1, swp_page_html_size - after, to);
    }
    mt_buf_fini(&data);
    return st;
}
