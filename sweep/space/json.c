/* SPDX-License-Identifier: Apache-2.0
 *
 * json.c - a space as canonical JSON and back, and how two spaces differ.
 *
 *   {"params":[{"name":"lr","kind":"loguniform","low":1e-05,"high":0.1}, ...],
 *    "constraints":[{"terms":[["a",1.0],["b",2.0]],"bound":3.0}, ...]}
 *
 * Members come in this order; those that are at their default are left out, so equal spaces have equal bytes.
 * Owns: nothing. Thread: any.
 */
#include "core/text/json.h"
#include "sweep/space/layout.h"

/* ---- writing ---- */

static mt_status put_real(mt_buf *out, const char *name, double value, bool is_needed)
{
    if (!is_needed && value == 0)
        return mt_ok();
    MT_TRY(mt_buf_printf(out, ",\"%s\":", name));
    return mt_json_put_real(out, value);
}

static mt_status put_literals(mt_buf *out, const char *name, const struct mt_literal *list, uint32_t count)
{
    MT_TRY(mt_buf_printf(out, ",\"%s\":[", name));
    for (uint32_t i = 0; i < count; i++) {
        if (i)
            MT_TRY(mt_buf_append(out, ",", 1));
        MT_TRY(mt_json_put_literal(out, &list[i]));
    }
    return mt_buf_append(out, "]", 1);
}

static mt_status put_param(mt_buf *out, const struct swp_param *p)
{
    bool is_normal = p->kind == SWP_NORMAL || p->kind == SWP_LOG_NORMAL, has_choices = swp_kind_has_choices(p->kind);
    MT_TRY(mt_buf_printf(out, "{\"name\":"));
    MT_TRY(mt_json_put_text(out, p->name));
    MT_TRY(mt_buf_printf(out, ",\"kind\":\"%s\"", swp_kind_text(p->kind)));
    MT_TRY(put_real(out, "low", p->low, !is_normal && !has_choices));
    MT_TRY(put_real(out, "high", p->high, !is_normal && !has_choices));
    MT_TRY(put_real(out, "step", p->step, false));
    MT_TRY(put_real(out, "mean", p->mean, is_normal));
    MT_TRY(put_real(out, "sd", p->sd, is_normal));
    if (has_choices)
        MT_TRY(put_literals(out, "choices", p->choices, p->choice_count));
    if (p->points)
        MT_TRY(mt_buf_printf(out, ",\"points\":%u", p->points));
    if (p->parent) {
        MT_TRY(mt_buf_printf(out, ",\"parent\":"));
        MT_TRY(mt_json_put_text(out, p->parent));
        MT_TRY(put_literals(out, "when", p->when, p->when_count));
    }
    return mt_buf_append(out, "}", 1);
}

static mt_status put_constraint(mt_buf *out, const struct swp_constraint *c)
{
    MT_TRY(mt_buf_printf(out, "{\"terms\":["));
    for (uint32_t i = 0; i < c->term_count; i++) {
        MT_TRY(mt_buf_printf(out, i ? ",[" : "["));
        MT_TRY(mt_json_put_text(out, c->terms[i].name));
        MT_TRY(mt_buf_append(out, ",", 1));
        MT_TRY(mt_json_put_real(out, c->terms[i].factor));
        MT_TRY(mt_buf_append(out, "]", 1));
    }
    MT_TRY(mt_buf_printf(out, "]"));
    MT_TRY(put_real(out, "bound", c->bound, true));
    return mt_buf_append(out, "}", 1);
}

mt_status swp_space_to_json(const struct swp_space *space, mt_buf *out)
{
    MT_TRY(mt_buf_printf(out, "{\"params\":["));
    for (uint32_t i = 0; i < space->count; i++) {
        if (i)
            MT_TRY(mt_buf_append(out, ",", 1));
        MT_TRY(put_param(out, &space->params[i]));
    }
    MT_TRY(mt_buf_printf(out, "],\"constraints\":["));
    for (uint32_t i = 0; i < space->linear_count; i++) {
        if (i)
            MT_TRY(mt_buf_append(out, ",", 1));
        MT_TRY(put_constraint(out, &space->constraints[i]));
    }
    return mt_buf_printf(out, "]}");
}

/* ---- reading ---- */

/* What is being read: lists grow, and hold what the definition points to until the space has its copies. */
struct draft {
    struct mt_json   json;
    mt_buf           text;
    struct swp_space keep; /* only its allocations */
    MT_VEC(struct swp_param) params;
    MT_VEC(struct swp_constraint) constraints;
};

static mt_status read_kept_text(struct draft *d, const char **out)
{
    MT_TRY(mt_json_text(&d->json, &d->text));
    *out = swp_space_text(&d->keep, (const char *)d->text.data);
    return *out ? mt_ok() : mt_error(MT_ENOMEM, 0, "sweep: a space");
}

static mt_status read_literals(struct draft *d, const struct mt_literal **out, uint32_t *out_count)
{
    MT_VEC(struct mt_literal) list = {0};
    struct mt_literal one;
    bool              first = true;
    mt_status         st = mt_json_take(&d->json, '['), more = mt_ok();
    while (st.code == 0 && mt_json_more(&d->json, ']', &first, &more)) {
        MT_TRY_GOTO(st, mt_json_literal(&d->json, &d->text, &one), done);
        if (one.kind == MT_LITERAL_TEXT && !(one.text = swp_space_text(&d->keep, one.text)))
            MT_TRY_GOTO(st, mt_error(MT_ENOMEM, 0, "sweep: a space"), done);
        MT_TRY_GOTO(st, mt_vec_push(&list, one), done);
    }
    struct mt_literal *copy = swp_space_alloc(&d->keep, list.count, sizeof *copy);
    if (copy && list.count)
        memcpy(copy, list.data, list.count * sizeof *copy);
    *out = copy;
    *out_count = (uint32_t)list.count;
    st = st.code ? st : more.code ? more : copy ? mt_ok() : mt_error(MT_ENOMEM, 0, "sweep: a space");
done:
    mt_vec_fini(&list);
    return st;
}

static mt_status read_member(struct draft *d, struct swp_param *p)
{
    double points;
    MT_TRY(mt_json_name(&d->json, &d->text));
    const char *name = (const char *)d->text.data;
    struct {
        const char *name;
        double     *real;
    } reals[] = {{"low", &p->low}, {"high", &p->high}, {"step", &p->step}, {"mean", &p->mean}, {"sd", &p->sd}};
    for (size_t i = 0; i < sizeof reals / sizeof *reals; i++)
        if (strcmp(name, reals[i].name) == 0)
            return mt_json_real(&d->json, reals[i].real);
    if (strcmp(name, "name") == 0)
        return read_kept_text(d, &p->name);
    if (strcmp(name, "parent") == 0)
        return read_kept_text(d, &p->parent);
    if (strcmp(name, "choices") == 0)
        return read_literals(d, &p->choices, &p->choice_count);
    if (strcmp(name, "when") == 0)
        return read_literals(d, &p->when, &p->when_count);
    if (strcmp(name, "kind") == 0) {
        MT_TRY(mt_json_text(&d->json, &d->text));
        return swp_kind_parse((const char *)d->text.data, &p->kind) ? mt_ok() : mt_error(MT_ECORRUPT, 0, "an unknown kind");
    }
    if (strcmp(name, "points") != 0)
        return mt_error(MT_ECORRUPT, 0, "a parameter has an unknown member");
    MT_TRY(mt_json_real(&d->json, &points));
    if (!(points >= 0 && points <= MT_SWEEP_GRID_MAX))
        return mt_error(MT_ECORRUPT, 0, "a number of points that can't be");
    p->points = (uint32_t)points;
    return mt_ok();
}

static mt_status read_params(struct draft *d)
{
    mt_status more, inner = mt_ok();
    MT_TRY(mt_json_take(&d->json, '['));
    for (bool first = true; mt_json_more(&d->json, ']', &first, &more);) {
        struct swp_param p = {.kind = SWP_KIND_COUNT};
        MT_TRY(mt_json_take(&d->json, '{'));
        for (bool first_member = true; mt_json_more(&d->json, '}', &first_member, &inner);)
            MT_TRY(read_member(d, &p));
        MT_TRY(inner);
        MT_TRY(mt_vec_push(&d->params, p));
    }
    return more;
}

static mt_status read_terms(struct draft *d, struct swp_constraint *c)
{
    mt_status        more;
    struct swp_term *terms = swp_space_alloc(&d->keep, MT_SWEEP_PARAMS_MAX, sizeof *terms);
    if (!terms)
        return mt_error(MT_ENOMEM, 0, "sweep: a space");
    c->terms = terms;
    MT_TRY(mt_json_take(&d->json, '['));
    for (bool first = true; mt_json_more(&d->json, ']', &first, &more);) {
        if (c->term_count == MT_SWEEP_PARAMS_MAX)
            return mt_error(MT_ECORRUPT, 0, "a constraint has too many terms");
        struct swp_term *term = &terms[c->term_count++];
        MT_TRY(mt_json_take(&d->json, '['));
        MT_TRY(read_kept_text(d, &term->name));
        MT_TRY(mt_json_take(&d->json, ','));
        MT_TRY(mt_json_real(&d->json, &term->factor));
        MT_TRY(mt_json_take(&d->json, ']'));
    }
    return more;
}

static mt_status read_constraints(struct draft *d)
{
    mt_status more, inner = mt_ok();
    MT_TRY(mt_json_take(&d->json, '['));
    for (bool first = true; mt_json_more(&d->json, ']', &first, &more);) {
        struct swp_constraint c = {0};
        MT_TRY(mt_json_take(&d->json, '{'));
        for (bool first_member = true; mt_json_more(&d->json, '}', &first_member, &inner);) {
            MT_TRY(mt_json_name(&d->json, &d->text));
            bool is_terms = strcmp((const char *)d->text.data, "terms") == 0;
            if (!is_terms && strcmp((const char *)d->text.data, "bound") != 0)
                return mt_error(MT_ECORRUPT, 0, "a constraint has an unknown member");
            MT_TRY(is_terms ? read_terms(d, &c) : mt_json_real(&d->json, &c.bound));
        }
        MT_TRY(inner);
        MT_TRY(mt_vec_push(&d->constraints, c));
    }
    return more;
}

static mt_status read_space(struct draft *d)
{
    mt_status more;
    MT_TRY(mt_json_take(&d->json, '{'));
    for (bool first = true; mt_json_more(&d->json, '}', &first, &more);) {
        MT_TRY(mt_json_name(&d->json, &d->text));
        const char *name = (const char *)d->text.data;
        if (strcmp(name, "params") == 0)
            MT_TRY(read_params(d));
        else if (strcmp(name, "constraints") == 0)
            MT_TRY(read_constraints(d));
        else
            return mt_error(MT_ECORRUPT, 0, "a space has an unknown member");
    }
    MT_TRY(more);
    return mt_json_end(&d->json);
}

mt_status swp_space_from_json(mt_view json, struct swp_space **out_space, struct swp_problem *out_problem)
{
    struct draft d = {.json = mt_json_of(json)};
    mt_status    st = json.size <= MT_SWEEP_JSON_BYTES_MAX ? read_space(&d) : mt_error(MT_ECORRUPT, 0, "the text is too long");
    if (st.code == 0) {
        struct swp_space_def def = {.params = d.params.data,
                                    .param_count = (uint32_t)d.params.count,
                                    .constraints = d.constraints.data,
                                    .constraint_count = (uint32_t)d.constraints.count};
        st = swp_space_new(&def, out_space, out_problem);
    } else if (st.code == MT_ECORRUPT) {
        (void)swp_refuse(out_problem, "", "a search space can't be read: %s", st.what);
    }
    for (size_t i = 0; i < d.keep.owned.count; i++)
        free(d.keep.owned.data[i]);
    mt_vec_fini(&d.keep.owned);
    mt_vec_fini(&d.params);
    mt_vec_fini(&d.constraints);
    mt_buf_fini(&d.text);
    return st;
}

/* ---- differences ---- */

/* One line about a parameter of `before` (or NULL) and of `now` (or NULL), where they differ. */
static mt_status diff_param(const struct swp_param *before, const struct swp_param *now, mt_buf *out)
{
    mt_buf      was = {0}, is = {0};
    const char *name = before ? before->name : now->name;
    mt_status   st = mt_ok();
    if (before)
        MT_TRY_GOTO(st, put_param(&was, before), done);
    if (now)
        MT_TRY_GOTO(st, put_param(&is, now), done);
    if (!before)
        st = mt_buf_printf(out, "parameter '%s' is new: %.*s\n", name, (int)is.size, (char *)is.data);
    else if (!now)
        st = mt_buf_printf(out, "parameter '%s' is gone, it was: %.*s\n", name, (int)was.size, (char *)was.data);
    else if (!mt_view_equal(mt_buf_view(&was), mt_buf_view(&is)))
        st = mt_buf_printf(out, "parameter '%s' was %.*s and is %.*s\n", name, (int)was.size, (char *)was.data, (int)is.size,
                           (char *)is.data);
done:
    mt_buf_fini(&was);
    mt_buf_fini(&is);
    return st;
}

/* The constraint, where the other space has none that is the same. */
static mt_status diff_constraint(const struct swp_constraint *c, const struct swp_space *other, const char *what, mt_buf *out)
{
    mt_buf    text = {0}, theirs = {0};
    bool      found = false;
    mt_status st;
    MT_TRY_GOTO(st, put_constraint(&text, c), done);
    for (uint32_t i = 0; i < other->linear_count && !found; i++) {
        theirs.size = 0;
        MT_TRY_GOTO(st, put_constraint(&theirs, &other->constraints[i]), done);
        found = mt_view_equal(mt_buf_view(&text), mt_buf_view(&theirs));
    }
    if (!found)
        st = mt_buf_printf(out, "a constraint is %s: %.*s\n", what, (int)text.size, (char *)text.data);
done:
    mt_buf_fini(&text);
    mt_buf_fini(&theirs);
    return st;
}

static mt_status diff_order(const struct swp_space *before, const struct swp_space *now, mt_buf *out)
{
    mt_buf    was = {0}, is = {0};
    mt_status st;
    MT_TRY_GOTO(st, swp_space_to_json(before, &was), done);
    MT_TRY_GOTO(st, swp_space_to_json(now, &is), done);
    if (!mt_view_equal(mt_buf_view(&was), mt_buf_view(&is)))
        st = mt_buf_printf(out, "the parameters or constraints stand in another order\n");
done:
    mt_buf_fini(&was);
    mt_buf_fini(&is);
    return st;
}

mt_status swp_space_diff(const struct swp_space *before, const struct swp_space *now, mt_buf *out)
{
    size_t start = out->size;
    for (uint32_t i = 0; i < before->count; i++) {
        int k = swp_space_find(now, before->params[i].name);
        MT_TRY(diff_param(&before->params[i], k < 0 ? NULL : &now->params[k], out));
    }
    for (uint32_t i = 0; i < now->count; i++)
        if (swp_space_find(before, now->params[i].name) < 0)
            MT_TRY(diff_param(NULL, &now->params[i], out));
    for (uint32_t i = 0; i < before->linear_count; i++)
        MT_TRY(diff_constraint(&before->constraints[i], now, "gone", out));
    for (uint32_t i = 0; i < now->linear_count; i++)
        MT_TRY(diff_constraint(&now->constraints[i], before, "new", out));
    return out->size == start ? diff_order(before, now, out) : mt_ok();
}
