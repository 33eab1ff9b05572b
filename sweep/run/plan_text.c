/* SPDX-License-Identifier: Apache-2.0
 *
 * plan_text.c - rules to stop by, as they stand in a text: "steps,limit=100; trial_plateau,window=6; all".
 */
#include "sweep/run/plan.h"

#include <stdio.h>

enum { TEXT_MAX = 1024, RULES_MAX = 16 };

static mt_status refuse(struct swp_problem *problem, const char *text)
{
    snprintf(problem->param, sizeof problem->param, "stop");
    snprintf(problem->text, sizeof problem->text, "%s", text);
    return mt_error(MT_EINVAL, 0, "read rules to stop by");
}

/* The next rule, without blanks around it; NULL at the end. */
static char *rule_next(char **rest)
{
    char *rule;
    while ((rule = strsep(rest, ";"))) {
        rule += strspn(rule, " \t");
        for (char *end = rule + strlen(rule); end > rule && (end[-1] == ' ' || end[-1] == '\t');)
            *--end = 0;
        if (*rule)
            return rule;
    }
    return NULL;
}

mt_status swp_plan_stops(const char *text, bool maximize, struct swp_stopper **out, struct swp_problem *problem)
{
    struct swp_stop rules[RULES_MAX] = {0};
    char            copy[TEXT_MAX], *rest = copy, *rule;
    uint32_t        count = 0;
    bool            all = false;
    if ((size_t)snprintf(copy, sizeof copy, "%s", text) >= sizeof copy)
        return refuse(problem, "the rules to stop by are too long");
    while ((rule = rule_next(&rest))) {
        bool is_rule = strcmp(rule, "all") != 0;
        all = all || !is_rule;
        if (is_rule && count == RULES_MAX)
            return refuse(problem, "there are too many rules to stop by");
        if (is_rule)
            MT_TRY(swp_stop_opts_parse(rule, &rules[count++], problem));
    }
    return swp_stopper_new(rules, count, all, maximize, out, problem);
}
