/* SPDX-License-Identifier: Apache-2.0
 *
 * importance.c - the door: what is asked is checked, a method answers, and the answer is put in order. Thread: any.
 */
#include "sweep/importance/importance.h"

#include "sweep/importance/marginal.h"
#include "sweep/importance/methods.h"

#include <math.h>
#include <stdio.h>

bool swp_importance_parse(const char *text, enum swp_importance_kind *out)
{
    static const char *const names[] = {[SWP_FANOVA] = "fanova", [SWP_PED_ANOVA] = "ped_anova"};
    for (size_t i = 0; i < sizeof names / sizeof *names; i++)
        if (strcmp(text, names[i]) == 0) {
            *out = (enum swp_importance_kind)i;
            return true;
        }
    return false;
}

/* Single ones before pairs; then by what counts, then as they stand in the space. */
static int by_weight(const void *a, const void *b)
{
    const struct swp_weight *x = a, *y = b;
    if ((x->other < 0) != (y->other < 0))
        return x->other < 0 ? -1 : 1;
    double of_x = x->other < 0 ? x->share : x->variance, of_y = y->other < 0 ? y->share : y->variance;
    if (of_x != of_y)
        return of_x < of_y ? 1 : -1;
    return x->param != y->param ? (x->param > y->param) - (x->param < y->param) : (x->other > y->other) - (x->other < y->other);
}

static mt_status names_put(const struct swp_table *table, bool pairs, struct swp_weights *out)
{
    for (uint32_t d = 0; d < table->dims; d++)
        MT_TRY(mt_vec_push(&out->list, (struct swp_weight){.param = table->columns[d].param, .other = -1}));
    for (uint32_t i = 0; i < table->dims && pairs; i++)
        for (uint32_t k = i + 1; k < table->dims; k++)
            MT_TRY(mt_vec_push(&out->list,
                               (struct swp_weight){.param = table->columns[i].param, .other = (int32_t)table->columns[k].param}));
    return mt_ok();
}

static mt_status weigh(const struct swp_importance_ask *ask, const struct swp_table *table, struct swp_weights *out)
{
    double sum = 0;
    bool   is_forest = ask->kind == SWP_FANOVA;
    MT_TRY(names_put(table, ask->pairs && is_forest, out));
    MT_TRY(is_forest ? swp_fanova(table, ask->seed, ask->pairs, out->list.data)
                     : swp_ped_anova(table, ask->maximize, out->list.data));
    for (uint32_t d = 0; d < table->dims; d++) {
        if (is_forest)
            out->list.data[d].share = out->list.data[d].variance;
        sum += out->list.data[d].share;
    }
    for (uint32_t d = 0; d < table->dims && sum > 0; d++)
        out->list.data[d].share /= sum;
    qsort(out->list.data, out->list.count, sizeof *out->list.data, by_weight);
    return mt_ok();
}

mt_status swp_importance(const struct swp_importance_ask *ask, struct swp_weights *out, struct swp_problem *out_problem)
{
    uint32_t         needed = ask->kind == SWP_FANOVA ? MT_SWEEP_WEIGHED_MIN : MT_SWEEP_WEIGHED_BEST_MIN;
    struct swp_table table = {0};
    MT_ASSERT(ask->rows <= MT_SWEEP_WEIGHED_MAX);
    *out_problem = (struct swp_problem){0};
    out->list.count = 0;
    if (ask->rows < needed) {
        snprintf(out_problem->text, sizeof out_problem->text, "too few results: there are %u, and it takes %u to say anything",
                 ask->rows, needed);
        return mt_error(MT_EINVAL, 0, "sweep: importance");
    }
    mt_status st = swp_table_make(&table, ask, out_problem);
    if (st.code == 0)
        st = weigh(ask, &table, out);
    swp_table_fini(&table);
    return st;
}
