/* SPDX-License-Identifier: Apache-2.0
 *
 * point.c - points of a space: checking them, what their values mean, and their text.
 *
 * Owns: nothing. Thread: any.
 */
#include "core/text/json.h"
#include "sweep/space/layout.h"

#include <math.h>

#define STEP_SLACK 1e-8 /* parts of a step that a user's number may lie beside it */

bool swp_point_equal(const struct swp_space *space, const struct swp_point *a, const struct swp_point *b)
{
    for (uint32_t i = 0; i < space->count; i++)
        if (a->values[i] != b->values[i] && (swp_point_has(a, i) || swp_point_has(b, i)))
            return false;
    return true;
}

/* The value of the parameter that x stands for; false: none lies there. */
static bool settle(const struct swp_param *p, double x, double *out)
{
    double value = swp_param_snap(p, x), slack = p->step * STEP_SLACK;
    if (!isfinite(x) || fabs(value - x) > slack)
        return false;
    if (p->kind == SWP_LOG_NORMAL && value <= 0 && p->step == 0)
        return false;
    return *out = value, true;
}

mt_status swp_point_check(const struct swp_space *space, const struct swp_point *point, struct swp_problem *out_problem)
{
    for (uint32_t i = 0; i < space->count; i++) {
        const struct swp_param *p = &space->params[i];
        bool                    has = swp_point_has(point, i);
        double                  value;
        if (has != swp_condition_holds(space, i, point))
            return swp_refuse(out_problem, p->name,
                              has ? "parameter '%s' has a value where it is not active" : "parameter '%s' has no value", p->name);
        if (has && !settle(p, point->values[i], &value))
            return swp_refuse(out_problem, p->name, "parameter '%s' can't be %g", p->name, point->values[i]);
    }
    if (!swp_point_allowed(space, point))
        return swp_refuse(out_problem, "", "the point does not meet the constraints");
    return mt_ok();
}

mt_status swp_point_to_json(const struct swp_space *space, const struct swp_point *point, mt_buf *out)
{
    const char *comma = "";
    MT_TRY(mt_buf_append(out, "{", 1));
    for (uint32_t i = 0; i < space->count; i++) {
        if (!swp_point_has(point, i))
            continue;
        struct mt_literal literal = swp_point_literal(space, point, i);
        MT_TRY(mt_buf_append(out, comma, strlen(comma)));
        MT_TRY(mt_json_put_text(out, space->params[i].name));
        MT_TRY(mt_buf_append(out, ":", 1));
        MT_TRY(mt_json_put_literal(out, &literal));
        comma = ",";
    }
    return mt_buf_append(out, "}", 1);
}

/* ---- reading ---- */

static mt_status read_member(const struct swp_space *space, struct mt_json *json, mt_buf *text, bool *named,
                             struct swp_point *point, struct swp_problem *out_problem)
{
    struct mt_literal literal;
    double            value;
    MT_TRY(mt_json_name(json, text));
    int index = swp_space_find(space, (const char *)text->data);
    if (index < 0)
        return swp_refuse(out_problem, (const char *)text->data, "the space has no parameter '%s'", (const char *)text->data);
    const struct swp_param *p = &space->params[index];
    if (named[index])
        return swp_refuse(out_problem, p->name, "parameter '%s' is there twice", p->name);
    MT_TRY(mt_json_literal(json, text, &literal));
    if (!swp_param_value_of(p, &literal, &value) || !settle(p, value, &point->values[index]))
        return swp_refuse(out_problem, p->name, "parameter '%s' can't have the value that it is given", p->name);
    named[index] = true;
    return mt_ok();
}

static mt_status read_members(const struct swp_space *space, struct mt_json *json, bool *named, struct swp_point *point,
                              struct swp_problem *out_problem)
{
    mt_buf    text = {0};
    bool      first = true;
    mt_status st = mt_json_take(json, '{'), more;
    while (st.code == 0 && mt_json_more(json, '}', &first, &more))
        st = read_member(space, json, &text, named, point, out_problem);
    mt_buf_fini(&text);
    if (st.code == 0)
        st = more.code ? more : mt_json_end(json);
    return st;
}

/* Parents first, so that what becomes active by a value that was filled in is filled in too. */
static mt_status fill_rest(const struct swp_space *space, const bool *named, mt_rng *fill, struct swp_point *point,
                           struct swp_problem *out_problem)
{
    for (uint32_t k = 0; k < space->count; k++) {
        uint32_t                i = space->order[k];
        const struct swp_param *p = &space->params[i];
        bool                    holds = swp_condition_holds(space, i, point);
        if (named[i] && !holds)
            return swp_refuse(out_problem, p->name, "parameter '%s' has a value where it is not active", p->name);
        if (named[i])
            continue;
        if (holds && !fill && p->kind != SWP_CONSTANT)
            return swp_refuse(out_problem, p->name, "parameter '%s' has no value", p->name);
        point->values[i] = !holds ? NAN : p->kind == SWP_CONSTANT ? 0 : swp_param_draw(p, fill);
    }
    return mt_ok();
}

mt_status swp_point_from_json(const struct swp_space *space, mt_view view, mt_rng *fill, struct swp_point *out_point,
                              struct swp_problem *out_problem)
{
    struct mt_json   json = mt_json_of(view);
    struct swp_point point;
    bool             named[MT_SWEEP_PARAMS_MAX] = {false};
    for (uint32_t i = 0; i < space->count; i++)
        point.values[i] = NAN;
    mt_status st = read_members(space, &json, named, &point, out_problem);
    if (st.code == MT_ECORRUPT)
        return swp_refuse(out_problem, "", "a point is not valid: %s", st.what);
    MT_TRY(st);
    MT_TRY(fill_rest(space, named, fill, &point, out_problem));
    MT_TRY(swp_point_check(space, &point, out_problem));
    memcpy(out_point->values, point.values, space->count * sizeof *point.values);
    return mt_ok();
}
