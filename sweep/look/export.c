/* SPDX-License-Identifier: Apache-2.0
 *
 * export.c - a sweep's results as CSV and JSON lines.
 *
 * Owns: nothing beyond a call. Thread: any.
 */
#include "sweep/look/look.h"
#include "sweep/look/export.h"

#include "core/base/real.h"
#include "core/text/json.h"
#include "sweep/look/page/page.h"
#include "sweep/journal/folder.h"

#include <inttypes.h>
#include <math.h>
#include <stdio.h>

/* ---- parameters as columns ---- */

struct column_set {
    MT_VEC(char *) names;
};

/* Calls `fn` for each member of a flat JSON object, its value as text; `is_text`: it was a string. */
typedef mt_status (*member_fn)(void *user, const char *name, const char *text, const struct mt_literal *literal);

static mt_status members(const char *json_text, member_fn fn, void *user)
{
    struct mt_json    json = mt_json_of(mt_view_text(json_text));
    struct mt_literal literal;
    mt_buf            name = {0}, text = {0}, plain = {0};
    bool              first = true;
    mt_status         st = mt_json_take(&json, '{');
    while (st.code == 0 && mt_json_more(&json, '}', &first, &st)) {
        name.size = text.size = plain.size = 0;
        st = mt_json_name(&json, &name);
        if (st.code == 0)
            st = mt_json_literal(&json, &text, &literal);
        if (st.code == 0 && literal.kind != MT_LITERAL_TEXT)
            st = mt_json_put_literal(&plain, &literal);
        if (st.code == 0)
            st = mt_buf_terminate(&plain);
        if (st.code == 0)
            st = fn(user, (const char *)name.data, (const char *)(literal.kind == MT_LITERAL_TEXT ? text.data : plain.data),
                    &literal);
    }
    mt_buf_fini(&name);
    mt_buf_fini(&text);
    mt_buf_fini(&plain);
    return st;
}

static mt_status column_add(void *user, const char *name, const char *text, const struct mt_literal *literal)
{
    struct column_set *set = user;
    (void)text, (void)literal;
    for (size_t i = 0; i < set->names.count; i++)
        if (strcmp(set->names.data[i], name) == 0)
            return mt_ok();
    char *copy = strdup(name);
    return copy ? mt_vec_push(&set->names, copy) : mt_error(MT_ENOMEM, 0, "list parameters");
}

static mt_status columns_make(const manta_sweep_view *view, struct column_set *set)
{
    for (int64_t i = 0; i < view->count; i++)
        MT_TRY(members(view->trials[i].params, column_add, set));
    return mt_ok();
}

static void columns_free(struct column_set *set)
{
    for (size_t i = 0; i < set->names.count; i++)
        free(set->names.data[i]);
    mt_vec_fini(&set->names);
}

/* ---- CSV ---- */

static void csv_put(FILE *to, const char *text)
{
    if (!text[strcspn(text, ",\"\n\r")]) {
        fputs(text, to);
        return;
    }
    fputc('"', to);
    for (; *text; text++) {
        if (*text == '"')
            fputc('"', to);
        fputc(*text, to);
    }
    fputc('"', to);
}

struct cell {
    const char *wanted;
    FILE       *to;
};

static mt_status cell_put(void *user, const char *name, const char *text, const struct mt_literal *literal)
{
    struct cell *cell = user;
    (void)literal;
    if (strcmp(name, cell->wanted) == 0)
        csv_put(cell->to, text);
    return mt_ok();
}

static mt_status csv_write(const manta_sweep_view *view, FILE *to)
{
    struct column_set set = {0};
    mt_status         st = columns_make(view, &set);
    fputs("trial,state,", to);
    csv_put(to, view->metric);
    fputs(",step,reports,retries,drawn_s,ended_s", to);
    for (size_t i = 0; i < set.names.count; i++)
        fputc(',', to), csv_put(to, set.names.data[i]);
    fputc('\n', to);
    for (int64_t i = 0; i < view->count && st.code == 0; i++) {
        const manta_sweep_trial *t = &view->trials[i];
        fprintf(to, "%" PRId64 ",%s,", t->number, t->state);
        if (t->has_value)
            fprintf(to, "%.17g", t->value);
        fprintf(to, ",%" PRId64 ",%" PRId64 ",%" PRId64 ",%.3f,", t->step, t->reports, t->retries, t->drawn_s);
        if (t->ended_s > 0)
            fprintf(to, "%.3f", t->ended_s);
        for (size_t k = 0; k < set.names.count && st.code == 0; k++) {
            fputc(',', to);
            st = members(t->params, cell_put, &(struct cell){set.names.data[k], to});
        }
        fputc('\n', to);
    }
    columns_free(&set);
    return st;
}

/* ---- JSON ---- */

/* Reports of each trial, found by an index over all, which is in the order of time. */
static mt_status reports_put(const manta_sweep_view *view, const int64_t *next, int64_t first, mt_buf *out)
{
    MT_TRY(mt_buf_printf(out, ",\"reports\":["));
    for (int64_t i = first; i >= 0; i = next[i]) {
        const manta_sweep_report *r = &view->reports[i];
        MT_TRY(mt_buf_printf(out, "%s[%" PRId64 ",", i == first ? "" : ",", r->step));
        MT_TRY(swp_export_real(out, r->value));
        MT_TRY(mt_buf_printf(out, ",%.3f", r->at_s));
        if (r->metric) {
            MT_TRY(mt_buf_append(out, ",", 1));
            MT_TRY(mt_json_put_text(out, r->metric));
        }
        MT_TRY(mt_buf_append(out, "]", 1));
    }
    return mt_buf_append(out, "]", 1);
}

static mt_status jsonl_write(const manta_sweep_view *view, FILE *to)
{
    mt_buf    line = {0};
    int64_t  *next = calloc((size_t)view->report_count + 1, sizeof *next);
    int64_t  *first = calloc((size_t)view->count + 1, sizeof *first);
    mt_status st = next && first ? mt_ok() : mt_error(MT_ENOMEM, 0, "write a sweep");
    for (int64_t i = 0; st.code == 0 && i < view->count; i++)
        first[i] = -1;
    for (int64_t i = view->report_count - 1; st.code == 0 && i >= 0; i--) {
        next[i] = first[view->reports[i].trial];
        first[view->reports[i].trial] = i;
    }
    for (int64_t i = 0; i < view->count && st.code == 0; i++) {
        line.size = 0;
        st = swp_export_head(&view->trials[i], &line);
        if (st.code == 0)
            st = reports_put(view, next, first[i], &line);
        if (st.code == 0)
            fprintf(to, "%.*s}\n", (int)line.size, (const char *)line.data);
    }
    mt_buf_fini(&line);
    free(next);
    free(first);
    return st;
}

static mt_status policy_write(const manta_sweep_view *view, FILE *to)
{
    for (int64_t i = 0; i < view->copy_count; i++) {
        const manta_sweep_copy *c = &view->copies[i];
        fprintf(to,
                "{\"trial\":%" PRId64 ",\"from\":%" PRId64 ",\"step\":%" PRId64 ",\"from_step\":%" PRId64 ",\"at_s\":%.3f,"
                "\"before\":%s,\"after\":%s}\n",
                c->trial, c->from, c->step, c->from_step, c->at_s, c->before, c->after);
    }
    return mt_ok();
}

manta_status manta_sweep_export(const manta_sweep_view *view, const char *format, FILE *to, manta_error *e)
{
    static const struct {
        const char *name;
        mt_status (*write)(const manta_sweep_view *view, FILE *to);
    } formats[] = {{"csv", csv_write}, {"jsonl", jsonl_write}, {"policy", policy_write}, {"html", swp_page_write}};
    enum { FORMATS = sizeof formats / sizeof *formats };
    int         i = 0;
    manta_error unread;
    e = e ? e : &unread;
    if (!view || !format || !to)
        return swp_fail(e, MANTA_EINVAL, "manta_sweep_export: %s is NULL", !view ? "view" : !format ? "format" : "to");
    if (swp_view_check(view, "manta_sweep_export", e) != MANTA_OK)
        return e->code;
    while (i < FORMATS && strcmp(format, formats[i].name) != 0)
        i++;
    if (i == FORMATS)
        return swp_fail(e, MANTA_EINVAL, "format: there is no \"%.40s\"; there are csv, jsonl, policy, html", format);
    locale_t  users = mt_real_enter();
    mt_status st = formats[i].write(view, to);
    mt_real_leave(users);
    if (st.code == 0 && (fflush(to) != 0 || ferror(to)))
        st = mt_error(MT_EDISK_FULL, 0, "write the results");
    if (st.code == 0)
        return MANTA_OK;
    return swp_fail(e, st.code, "%s: %s", st.what ? st.what : "export", mt_code_text(st.code));
}

/* ---- a trial's parameters, for others ---- */

struct params_call {
    int (*fn)(void *user, const manta_sweep_param *param);
    void *user;
    int   result;
};

static mt_status param_tell(void *user, const char *name, const char *text, const struct mt_literal *literal)
{
    struct params_call *call = user;
    manta_sweep_param   p = {.name = name, .text = text, .kind = MANTA_SWEEP_VALUE_TEXT};
    if (literal->kind == MT_LITERAL_BOOL)
        p.kind = MANTA_SWEEP_VALUE_BOOL;
    else if (literal->kind != MT_LITERAL_TEXT && literal->kind != MT_LITERAL_NULL)
        p.kind = MANTA_SWEEP_VALUE_NUMBER;
    p.number = literal->kind == MT_LITERAL_REAL ? literal->real : p.kind == MANTA_SWEEP_VALUE_TEXT ? 0 : (double)literal->integer;
    call->result = call->fn(call->user, &p);
    return call->result ? mt_error(MT_EEND, 0, "it has seen enough") : mt_ok();
}

int manta_sweep_params(const char *params, int (*fn)(void *user, const manta_sweep_param *param), void *user)
{
    struct params_call call = {fn, user, 0};
    mt_status          st = !params || !fn ? mt_error(MT_EINVAL, 0, "no parameters") : members(params, param_tell, &call);
    return call.result ? call.result : st.code ? -1 : 0;
}
