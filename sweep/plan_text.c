/* SPDX-License-Identifier: Apache-2.0
 *
 * plan_text.c - rules to stop by, as they stand in a text: "steps=100; trial_plateau=0.01 window=5; all".
 */
#include "sweep/plan.h"

#include <math.h>
#include <stdarg.h>
#include <stdio.h>

enum { TEXT_MAX = 1024, RULES_MAX = 16 };
enum type { U32, REAL, BOOL };

struct option {
    const char *name;
    enum type   type;
    size_t      offset;
};

#define STOP(name, type) {#name, type, offsetof(struct swp_stop, name)}
static const struct option stop_options[] = {STOP(limit, REAL),     STOP(value, REAL), STOP(worse, BOOL), STOP(tolerance, REAL),
                                             STOP(window, U32),     STOP(grace, U32),  STOP(patience, U32), {NULL, U32, 0}};

static mt_status refuse(struct swp_problem *problem, const char *name, const char *format, ...) MT_PRINTF(3, 4);
static mt_status refuse(struct swp_problem *problem, const char *name, const char *format, ...)
{
    va_list args;
    snprintf(problem->param, sizeof problem->param, "%s", name);
    va_start(args, format);
    vsnprintf(problem->text, sizeof problem->text, format, args);
    va_end(args);
    return mt_error(MT_EINVAL, 0, "read options");
}

static mt_status value_set(const struct option *o, const char *value, void *out, struct swp_problem *problem)
{
    char  *end;
    double number = strtod(value, &end);
    bool   is_number = end != value && *end == 0 && isfinite(number);
    bool   is_true = strcmp(value, "true") == 0 || strcmp(value, "1") == 0;
    if (o->type == BOOL) {
        if (!is_true && strcmp(value, "false") != 0 && strcmp(value, "0") != 0)
            return refuse(problem, o->name, "%s is true or false, not \"%.60s\"", o->name, value);
        *(bool *)((char *)out + o->offset) = is_true;
    } else if (o->type == REAL) {
        if (!is_number)
            return refuse(problem, o->name, "%s is a number, not \"%.60s\"", o->name, value);
        *(double *)((char *)out + o->offset) = number;
    } else {
        if (!is_number || number < 0 || number > 1e9 || number != floor(number))
            return refuse(problem, o->name, "%s is a whole number, not \"%.60s\"", o->name, value);
        *(uint32_t *)((char *)out + o->offset) = (uint32_t)number;
    }
    return mt_ok();
}

static mt_status option_set(const struct option *options, const char *of, char *pair, void *out, struct swp_problem *problem)
{
    char  known[256] = "", *value = strchr(pair, '=');
    size_t n = 0;
    if (value)
        *value++ = 0;
    for (const struct option *o = options; o->name; o++) {
        if (strcmp(o->name, pair) == 0)
            return value_set(o, value ? value : "true", out, problem);
        n += (size_t)snprintf(known + n, sizeof known - n, " %s", o->name);
    }
    return refuse(problem, pair, "%s: there is no option \"%.60s\"; there are%s", of, pair, known);
}

/* Splits at any of `at`, without blanks around the pieces. NULL at the end. */
static char *piece_next(char **rest, const char *at)
{
    char *piece;
    do {
        piece = strsep(rest, at);
    } while (piece && piece[strspn(piece, " \t")] == 0);
    if (!piece)
        return NULL;
    piece += strspn(piece, " \t");
    for (char *end = piece + strlen(piece); end > piece && (end[-1] == ' ' || end[-1] == '\t');)
        *--end = 0;
    return piece;
}

/* "KIND[=NUMBER] [NAME=VALUE ...]" */
static mt_status rule_read(char *text, struct swp_stop *out, struct swp_problem *problem)
{
    char *rest = text, *kind = piece_next(&rest, " "), *value = strchr(kind, '='), *piece;
    if (value)
        *value++ = 0;
    if (!swp_stop_parse(kind, &out->kind))
        return refuse(problem, kind, "stop: there is no rule \"%.60s\"; there are steps, threshold, trial_time, trial_plateau, "
                      "sweep_time, sweep_plateau, sweep_threshold", kind);
    bool is_threshold = out->kind == SWP_STOP_THRESHOLD || out->kind == SWP_STOP_SWEEP_THRESHOLD;
    bool is_plateau = out->kind == SWP_STOP_TRIAL_PLATEAU || out->kind == SWP_STOP_SWEEP_PLATEAU;
    const struct option *main_option = &stop_options[is_threshold ? 1 : is_plateau ? 3 : 0];
    if (value)
        MT_TRY(value_set(main_option, value, out, problem));
    out->has_value = is_threshold;
    while (rest && (piece = piece_next(&rest, " "))) {
        out->has_value = out->has_value || strncmp(piece, "value=", 6) == 0;
        MT_TRY(option_set(stop_options, kind, piece, out, problem));
    }
    return mt_ok();
}

mt_status swp_plan_stops(const char *text, bool maximize, struct swp_stopper **out, struct swp_problem *problem)
{
    struct swp_stop rules[RULES_MAX] = {0};
    char            copy[TEXT_MAX], *rest = copy, *piece;
    uint32_t        count = 0;
    bool            all = false;
    if (strlen(text) >= sizeof copy)
        return refuse(problem, "stop", "the rules to stop by are too long");
    memcpy(copy, text, strlen(text) + 1);
    while ((piece = piece_next(&rest, ";,"))) {
        if (strcmp(piece, "all") == 0) {
            all = true;
            continue;
        }
        if (count == RULES_MAX)
            return refuse(problem, "stop", "there are more than %d rules to stop by", RULES_MAX);
        MT_TRY(rule_read(piece, &rules[count++], problem));
    }
    return swp_stopper_new(rules, count, all, maximize, out, problem);
}
