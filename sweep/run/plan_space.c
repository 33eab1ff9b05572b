/* SPDX-License-Identifier: Apache-2.0
 *
 * plan_space.c - a search space as manta_sweep.h writes it, made into one of space.h.
 *
 * Owns: nothing beyond a call; swp_space_new copies.
 */
#include "sweep/run/plan.h"

#include "core/base/real.h"
#include "core/base/reserved.h"

#include <ctype.h>
#include <errno.h>
#include <math.h>
#include <stdarg.h>
#include <stdio.h>

enum { TERMS_MAX = MT_SWEEP_PARAMS_MAX };

/* What the definition points to while it is checked. */
struct draft {
    struct swp_param      params[MT_SWEEP_PARAMS_MAX];
    struct swp_constraint constraints[MT_SWEEP_CONSTRAINTS_MAX];
    MT_VEC(void *) blocks; /* of choices and terms */
};

static mt_status refuse(struct swp_problem *problem, const char *param, const char *format, ...) MT_PRINTF(3, 4);
static mt_status refuse(struct swp_problem *problem, const char *param, const char *format, ...)
{
    va_list args;
    snprintf(problem->param, sizeof problem->param, "%s", param);
    int n = snprintf(problem->text, sizeof problem->text, "%.80s: ", param);
    va_start(args, format);
    vsnprintf(problem->text + n, sizeof problem->text - (size_t)n, format, args);
    va_end(args);
    return mt_error(MT_EINVAL, 0, "read a search space");
}

static struct mt_literal literal_of(const char *text)
{
    char      again[32], *end;
    long long integer = strtoll(text, &end, 10);
    snprintf(again, sizeof again, "%lld", integer);
    if (strcmp(again, text) == 0)
        return (struct mt_literal){.kind = MT_LITERAL_INT, .integer = integer};
    if (strcmp(text, "true") == 0 || strcmp(text, "false") == 0)
        return (struct mt_literal){.kind = MT_LITERAL_BOOL, .integer = text[0] == 't'};
    if (strcmp(text, "null") == 0)
        return (struct mt_literal){.kind = MT_LITERAL_NULL};
    double real = mt_real_read(text, &end);
    bool   looks_so = isdigit((unsigned char)text[0]) || text[0] == '-' || text[0] == '.' || text[0] == '+';
    if (end != text && *end == 0 && looks_so && isfinite(real))
        return (struct mt_literal){.kind = MT_LITERAL_REAL, .real = real};
    return (struct mt_literal){.kind = MT_LITERAL_TEXT, .text = text};
}

static void *block(struct draft *d, size_t count, size_t size)
{
    void *memory = calloc(count + 1, size);
    if (memory && mt_vec_push(&d->blocks, memory).code) {
        free(memory);
        memory = NULL;
    }
    return memory;
}

static mt_status no_memory(struct swp_problem *problem)
{
    snprintf(problem->text, sizeof problem->text, "no memory for the search space");
    return mt_error(MT_ENOMEM, 0, "read a search space");
}

static mt_status choices_take(struct draft *d, const char *const *values, const struct mt_literal **out, uint32_t *out_count,
                              struct swp_problem *problem)
{
    uint32_t count = 0;
    while (values && values[count])
        count++;
    struct mt_literal *list = block(d, count, sizeof *list);
    if (!list)
        return no_memory(problem);
    for (uint32_t i = 0; i < count; i++)
        list[i] = literal_of(values[i]);
    *out = list;
    *out_count = count;
    return mt_ok();
}

/* ---- conditions ---- */

/* Cuts the next word at a comma, without blanks and quotes around it; NULL at the end. */
static char *word_next(char **at)
{
    char *word = *at + strspn(*at, " ,"), *end;
    if (*word == 0)
        return NULL;
    end = word + strcspn(word, ",");
    *at = *end ? end + 1 : end;
    while (end > word && (end[-1] == ' ' || end[-1] == '\'' || end[-1] == '"'))
        end--;
    *end = 0;
    return *word == '\'' || *word == '"' ? word + 1 : word;
}

/* "NAME == VALUE" or "NAME in (VALUE, ...)" */
static mt_status when_take(struct draft *d, struct swp_param *p, const char *when, struct swp_problem *problem)
{
    char       *text = block(d, strlen(when), 1), *at, *word;
    const char *values[MT_SWEEP_CHOICES_MAX / 16 + 1] = {NULL};
    size_t      count = 0, name;
    if (!text)
        return no_memory(problem);
    memcpy(text, when, strlen(when) + 1);
    text += strspn(text, " ");
    name = strcspn(text, " =");
    at = text + name + strspn(text + name, " ");
    if (strncmp(at, "==", 2) == 0)
        at += 2;
    else if (strncmp(at, "in ", 3) == 0 || strncmp(at, "in(", 3) == 0)
        at += 2;
    else
        return refuse(problem, p->name, "its condition \"%.200s\" is not NAME == VALUE or NAME in (VALUE, ...)", when);
    text[name] = 0;
    at += strspn(at, " ");
    if (*at == '(' && at[strlen(at) - 1] == ')') {
        at[strlen(at) - 1] = 0;
        at++;
    }
    while (count < sizeof values / sizeof *values - 1 && (word = word_next(&at)))
        values[count++] = word;
    p->parent = text;
    return choices_take(d, values, &p->when, &p->when_count, problem);
}

/* ---- constraints ---- */

static bool number_take(const char **at, double *out)
{
    char *end;
    *at += strspn(*at, " ");
    if (!isdigit((unsigned char)**at) && **at != '.')
        return false;
    *out = mt_real_read(*at, &end);
    *at = end + strspn(end, " ");
    return true;
}

static size_t name_size(const char *at)
{
    return strspn(at, "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789._");
}

/* [NUMBER *] NAME [* NUMBER] */
static bool term_take(struct draft *d, const char **at, struct swp_term *out)
{
    double number;
    bool   has_number = number_take(at, &out->factor);
    if (has_number && **at != '*')
        return false;
    if (has_number)
        *at += 1;
    else
        out->factor = 1;
    *at += strspn(*at, " ");
    size_t size = name_size(*at);
    char  *name = block(d, size, 1);
    if (size == 0 || !name)
        return false;
    memcpy(name, *at, size);
    out->name = name;
    *at += size + strspn(*at + size, " ");
    if (**at != '*')
        return true;
    *at += 1;
    if (!number_take(at, &number))
        return false;
    out->factor *= number;
    return true;
}

static mt_status constraint_take(struct draft *d, const char *text, struct swp_constraint *out, struct swp_problem *problem)
{
    struct swp_term *terms = block(d, TERMS_MAX, sizeof *terms);
    const char      *at = text + strspn(text, " ");
    uint32_t         count = 0;
    double           sign = *at == '-' ? -1 : 1, side;
    if (!terms)
        return no_memory(problem);
    at += *at == '-';
    while (count < TERMS_MAX && term_take(d, &at, &terms[count])) {
        terms[count++].factor *= sign;
        if (*at != '+' && *at != '-')
            break;
        sign = *at++ == '-' ? -1 : 1;
    }
    bool is_at_least = strncmp(at, ">=", 2) == 0;
    if (count == 0 || (!is_at_least && strncmp(at, "<=", 2) != 0))
        return refuse(problem, text, "not a linear constraint such as \"2*a + b <= 10\"");
    at += 2 + strspn(at + 2, " ");
    side = *at == '-' ? -1 : 1;
    at += *at == '-';
    if (!number_take(&at, &out->bound) || *at)
        return refuse(problem, text, "a number must stand behind <= or >=, and nothing after it");
    out->bound *= side * (is_at_least ? -1 : 1);
    for (uint32_t i = 0; i < count; i++)
        terms[i].factor *= is_at_least ? -1 : 1;
    out->terms = terms;
    out->term_count = count;
    return mt_ok();
}

/* ---- all together ---- */

static mt_status param_take(struct draft *d, const manta_sweep_axis *in, struct swp_param *out, struct swp_problem *problem)
{
    static const enum swp_kind kinds[] = {[MANTA_SWEEP_AXIS_UNIFORM] = SWP_UNIFORM,
                                          [MANTA_SWEEP_AXIS_LOG_UNIFORM] = SWP_LOG_UNIFORM,
                                          [MANTA_SWEEP_AXIS_NORMAL] = SWP_NORMAL,
                                          [MANTA_SWEEP_AXIS_LOG_NORMAL] = SWP_LOG_NORMAL,
                                          [MANTA_SWEEP_AXIS_INT] = SWP_INT,
                                          [MANTA_SWEEP_AXIS_LOG_INT] = SWP_LOG_INT,
                                          [MANTA_SWEEP_AXIS_CHOICE] = SWP_CATEGORICAL,
                                          [MANTA_SWEEP_AXIS_ORDINAL] = SWP_ORDINAL,
                                          [MANTA_SWEEP_AXIS_GRID] = SWP_GRID,
                                          [MANTA_SWEEP_AXIS_CONST] = SWP_CONSTANT};
    if (in->kind < MANTA_SWEEP_AXIS_UNIFORM || in->kind > MANTA_SWEEP_AXIS_CONST)
        return refuse(problem, in->name ? in->name : "", "its kind is %d, which is none", in->kind);
    *out = (struct swp_param){.name = in->name ? in->name : "", .kind = kinds[in->kind], .step = in->step};
    if (out->kind == SWP_NORMAL || out->kind == SWP_LOG_NORMAL)
        out->mean = in->low, out->sd = in->high;
    else
        out->low = in->low, out->high = in->high;
    MT_TRY(choices_take(d, in->values, &out->choices, &out->choice_count, problem));
    return in->when ? when_take(d, out, in->when, problem) : mt_ok();
}

static mt_status draft_make(struct draft *d, const manta_sweep_axis *params, const char *const *constraints,
                            struct swp_space_def *def, struct swp_problem *problem)
{
    for (; params && params->kind != MANTA_SWEEP_AXIS_END; params++) {
        if (def->param_count == MT_SWEEP_PARAMS_MAX)
            return refuse(problem, "space", "it has more than %d parameters", MT_SWEEP_PARAMS_MAX);
        if (MT_RESERVED_IS_USED(params))
            return refuse(problem, "space", MT_RESERVED_TEXT, params->name);
        MT_TRY(param_take(d, params, &d->params[def->param_count++], problem));
    }
    for (; constraints && *constraints; constraints++) {
        if (def->constraint_count == MT_SWEEP_CONSTRAINTS_MAX)
            return refuse(problem, "constraints", "there are more than %d", MT_SWEEP_CONSTRAINTS_MAX);
        MT_TRY(constraint_take(d, *constraints, &d->constraints[def->constraint_count++], problem));
    }
    def->params = d->params;
    def->constraints = d->constraints;
    return mt_ok();
}

mt_status swp_plan_space(const manta_sweep_axis *params, const char *const *constraints, struct swp_space **out,
                         struct swp_problem *problem)
{
    struct swp_space_def def = {0};
    struct draft        *d = calloc(1, sizeof *d);
    *problem = (struct swp_problem){0};
    if (!d)
        return no_memory(problem);
    mt_status st = draft_make(d, params, constraints, &def, problem);
    if (st.code == 0)
        st = swp_space_new(&def, out, problem);
    for (size_t i = 0; i < d->blocks.count; i++)
        free(d->blocks.data[i]);
    mt_vec_fini(&d->blocks);
    free(d);
    return st;
}
