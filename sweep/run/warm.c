/* SPDX-License-Identifier: Apache-2.0
 *
 * warm.c - see warm.h.
 */
#include "sweep/run/warm.h"

#include <stdio.h>

struct former {
    struct swp_plan *plan;
    MT_VEC(char *) params; /* of its trials */
};

static mt_status on_record(void *user, const struct swp_record *r)
{
    struct former     *f = user;
    struct swp_problem problem;
    struct swp_point   point;
    if (r->kind == SWP_REC_SUGGEST && r->text && r->trial == (int64_t)f->params.count) {
        char *params = strdup(r->text);
        return params ? mt_vec_push(&f->params, params) : mt_error(MT_ENOMEM, 0, "read a former sweep");
    }
    if (r->trial < 0 || r->trial >= (int64_t)f->params.count)
        return mt_ok();
    if (r->kind == SWP_REC_CLONE && r->code && r->text) {
        free(f->params.data[r->trial]);
        f->params.data[r->trial] = strdup(r->text);
    }
    char *params = f->params.data[r->trial];
    if (r->kind != SWP_REC_END || r->code > SWP_PRUNED || !params ||
        swp_point_from_json(f->plan->space, mt_view_text(params), NULL, &point, &problem).code)
        return mt_ok();
    struct swp_outcome outcome = {(enum swp_outcome_kind)r->code, r->value, (double)r->step};
    return swp_sampler_know(f->plan->sampler, &point, &outcome);
}

static manta_status former_read(struct swp_plan *plan, const manta_sweep_opts *o, const char *name, manta_error *e)
{
    char                folder[MT_PATH_BYTES_MAX], text[MT_ERROR_BYTES_MAX];
    struct former       f = {.plan = plan};
    struct swp_journal *j = NULL;
    mt_buf              metric = {0};
    manta_status        code = swp_folder_of(o->storage, name, folder, e);
    if (code != MANTA_OK)
        return code;
    mt_status st = swp_journal_open(folder, false, true, &j, text);
    if (st.code)
        return swp_fail(e, st.code, "warm_start \"%.60s\": %.400s", name, text);
    st = swp_journal_get(j, "metric", &metric);
    if (st.code == 0 && strcmp((const char *)metric.data, o->metric) != 0)
        code = swp_fail(e, MANTA_EINVAL, "warm_start \"%.60s\": its metric is \"%.100s\", not \"%.100s\"", name,
                        (const char *)metric.data, o->metric);
    else if (st.code == 0)
        st = swp_journal_read(j, on_record, &f);
    if (st.code)
        code = swp_fail(e, st.code, "warm_start \"%.60s\": %.400s", name, swp_journal_text(j));
    for (size_t i = 0; i < f.params.count; i++)
        free(f.params.data[i]);
    mt_vec_fini(&f.params);
    mt_buf_fini(&metric);
    swp_journal_close(j);
    return code;
}

manta_status swp_warm_start(struct swp_plan *plan, const manta_sweep_opts *o, manta_error *e)
{
    manta_status code = MANTA_OK;
    if (o->warm_start && o->warm_start[0] && !plan->sampler)
        return swp_fail(e, MANTA_EINVAL, "warm_start: a sampler that is another program has to know former results by itself");
    if (o->warm_start && o->warm_start[0] && !plan->config.is_adaptive)
        return swp_fail(e, MANTA_EINVAL,
                        "warm_start: the sampler \"%.40s\" draws without a look at results, whatever the "
                        "scheduler; take tpe, cmaes or gp, or give the best points of \"%.60s\" as points",
                        o->sampler ? o->sampler : "random", o->warm_start[0]);
    for (const char *const *name = o->warm_start; name && *name && code == MANTA_OK; name++)
        code = former_read(plan, o, *name, e);
    return code;
}
