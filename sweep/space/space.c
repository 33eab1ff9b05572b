/* SPDX-License-Identifier: Apache-2.0
 *
 * space.c - making a space. Looking at it and drawing from it: values.c; checking: check.c; text: json.c.
 *
 * Owns:    its copies of everything that the definition pointed to, in space->owned.
 * Thread:  any; immutable once made.
 */
#include "sweep/space/layout.h"

static const char *const kind_texts[SWP_KIND_COUNT] = {
#define X(name, text) [SWP_##name] = text,
    SWP_KINDS(X)
#undef X
};

const char *swp_kind_text(enum swp_kind kind)
{
    return kind < SWP_KIND_COUNT ? kind_texts[kind] : NULL;
}

bool swp_kind_parse(const char *text, enum swp_kind *out_kind)
{
    for (int i = 0; i < SWP_KIND_COUNT; i++)
        if (strcmp(kind_texts[i], text) == 0)
            return *out_kind = (enum swp_kind)i, true;
    return false;
}

/* ---- making ---- */

static const struct mt_literal *copy_literals(struct swp_space *space, const struct mt_literal *from, uint32_t count)
{
    struct mt_literal *copy = swp_space_alloc(space, count, sizeof *copy);
    for (uint32_t i = 0; copy && i < count; i++) {
        copy[i] = from[i];
        if (from[i].kind == MT_LITERAL_TEXT && !(copy[i].text = swp_space_text(space, from[i].text)))
            return NULL;
    }
    return copy;
}

/* Texts and lists become the space's own; what a kind does not use is zeroed, so that equal spaces are equal. */
static mt_status copy_param(struct swp_space *space, const struct swp_param *from, struct swp_param *to)
{
    enum swp_kind kind = from->kind;
    bool          is_ranged = kind == SWP_UNIFORM || kind == SWP_LOG_UNIFORM || swp_kind_is_int(kind);
    bool          is_normal = kind == SWP_NORMAL || kind == SWP_LOG_NORMAL;
    *to = (struct swp_param){.name = swp_space_text(space, from->name), .kind = kind};
    if (is_ranged)
        to->low = from->low, to->high = from->high;
    if (is_normal)
        to->mean = from->mean, to->sd = from->sd;
    if (is_ranged || is_normal)
        to->step = from->step, to->points = from->points;
    if (swp_kind_has_choices(kind)) {
        to->choice_count = from->choice_count;
        to->choices = copy_literals(space, from->choices, from->choice_count);
    }
    if (from->parent) {
        to->parent = swp_space_text(space, from->parent);
        to->when_count = from->when_count;
        to->when = copy_literals(space, from->when, from->when_count);
    }
    bool failed = !to->name || (to->choice_count && !to->choices) || (from->parent && (!to->parent || !to->when));
    return failed ? mt_error(MT_ENOMEM, 0, "sweep: a space") : mt_ok();
}

static mt_status copy_params(struct swp_space *space, const struct swp_space_def *def, struct swp_problem *out_problem)
{
    if (!(space->params = swp_space_alloc(space, def->param_count, sizeof *space->params)))
        return mt_error(MT_ENOMEM, 0, "sweep: a space");
    for (uint32_t i = 0; i < def->param_count; i++) {
        struct swp_param checked = def->params[i];
        MT_TRY(swp_param_check(&checked, out_problem));
        if (swp_space_find(space, checked.name) >= 0)
            return swp_refuse(out_problem, checked.name, "parameter '%s' is there twice", checked.name);
        MT_TRY(copy_param(space, &checked, &space->params[i]));
        space->count++;
    }
    return mt_ok();
}

static mt_status copy_constraints(struct swp_space *space, const struct swp_space_def *def)
{
    space->constraints = swp_space_alloc(space, def->constraint_count, sizeof *space->constraints);
    if (!space->constraints)
        return mt_error(MT_ENOMEM, 0, "sweep: a space");
    for (uint32_t i = 0; i < def->constraint_count; i++) {
        const struct swp_constraint *from = &def->constraints[i];
        struct swp_term             *terms = swp_space_alloc(space, from->term_count, sizeof *terms);
        if (!terms)
            return mt_error(MT_ENOMEM, 0, "sweep: a space");
        for (uint32_t t = 0; t < from->term_count; t++) {
            terms[t].factor = from->terms[t].factor;
            if (!(terms[t].name = swp_space_text(space, from->terms[t].name)))
                return mt_error(MT_ENOMEM, 0, "sweep: a space");
        }
        space->constraints[i] = (struct swp_constraint){terms, from->term_count, from->bound};
        space->linear_count++;
    }
    return mt_ok();
}

mt_status swp_space_new(const struct swp_space_def *def, struct swp_space **out_space, struct swp_problem *out_problem)
{
    if (def->param_count == 0)
        return swp_refuse(out_problem, "", "the search space is empty: name at least one parameter");
    if (def->param_count > MT_SWEEP_PARAMS_MAX)
        return swp_refuse(out_problem, "", "the search space has %u parameters; at most %d are possible", def->param_count,
                          MT_SWEEP_PARAMS_MAX);
    if (def->constraint_count > MT_SWEEP_CONSTRAINTS_MAX)
        return swp_refuse(out_problem, "", "the search space has %u constraints; at most %d are possible", def->constraint_count,
                          MT_SWEEP_CONSTRAINTS_MAX);
    struct swp_space *space = calloc(1, sizeof *space);
    if (!space)
        return mt_error(MT_ENOMEM, 0, "sweep: a space");
    mt_status st;
    space->allows = def->allows;
    space->user = def->user;
    MT_TRY_GOTO(st, copy_params(space, def, out_problem), err_free_space);
    MT_TRY_GOTO(st, copy_constraints(space, def), err_free_space);
    MT_TRY_GOTO(st, swp_space_link(space, out_problem), err_free_space);
    *out_space = space;
    return mt_ok();

err_free_space:
    swp_space_free(space);
    return st;
}

void swp_space_free(struct swp_space *space)
{
    if (!space)
        return;
    for (size_t i = 0; i < space->owned.count; i++)
        free(space->owned.data[i]);
    mt_vec_fini(&space->owned);
    free(space);
}
