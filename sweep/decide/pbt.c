/* SPDX-License-Identifier: Apache-2.0
 *
 * pbt.c - population based training (Jaderberg et al., 2017) as Ray Tune has it.
 *
 * Each `interval` a trial is compared with the last scores of all that live. Among the best `quantile` it saves a checkpoint;
 * among the worst it becomes a copy of a random one of the best (that has a checkpoint), with changed parameters:
 *
 *   choices   drawn anew with probability `resample`, else one place to the left or right in their list
 *   numbers   drawn anew with probability `resample`, else times factor_up or factor_down, onto the bounds and steps
 *
 * It pauses, next() gives the CLONE, and then it goes on like any paused trial. While other trials wait for a place, whoever has
 * come to its interval pauses, and the least trained goes on. With `in_step` all pause at each interval until the last one has
 * come; then the whole population is compared at once.
 *
 * Owns:    each member's point and pending copy.
 * Thread:  one at a time.
 */
#include "sweep/sample/method.h"
#include "sweep/decide/private.h"
#include "sweep/space/layout.h"

#include <math.h>

enum { CHANGES_MAX = 100 }; /* attempts to change a point so that the constraints allow it */

struct person {
    double   perturbed_t;       /* when it was last compared */
    double   trained_t;         /* of the report it was compared by */
    double   score;             /* the smaller the better; NaN: none yet */
    bool     has_save;          /* it was among the best when it was last compared */
    bool     is_due;            /* a clone was decided and not done yet */
    uint32_t from;              /* member */
    uint64_t compared;          /* how often: key of its random numbers */
    double  *point, *due_point; /* swp_space_count() doubles each */
};

struct pbt {
    double next_sync;
    MT_VEC(uint32_t) ranked; /* scratch: members with a score, the best first */
    size_t quantile;         /* of ranked: how many at each end */
};

static mt_status pbt_init(struct swp_scheduler *s, struct swp_problem *out_problem)
{
    (void)out_problem;
    struct pbt *model = s->model = calloc(1, sizeof *model);
    if (!model)
        return mt_error(MT_ENOMEM, 0, "sweep: PBT");
    model->next_sync = fmax(s->opts.interval, s->opts.burn_in);
    return mt_ok();
}

static void pbt_fini(struct swp_scheduler *s)
{
    struct pbt *model = s->model;
    mt_vec_fini(&model->ranked);
    free(model);
}

static void pbt_forget(struct swp_scheduler *s, struct swp_member *m)
{
    struct person *p = m->more;
    (void)s;
    if (p)
        free(p->point);
    free(p);
}

static mt_status pbt_added(struct swp_scheduler *s, struct swp_member *m, const struct swp_point *point)
{
    struct pbt *model = s->model;
    uint32_t    count = swp_space_count(s->space);
    MT_TRY(mt_vec_reserve(&model->ranked, s->members.count - model->ranked.count)); /* so that ranking can't fail */
    struct person *p = calloc(1, sizeof *p);
    if (!p || !(p->point = calloc(2 * (size_t)count, sizeof *p->point))) {
        free(p);
        return mt_error(MT_ENOMEM, 0, "sweep: PBT");
    }
    p->due_point = p->point + count;
    p->score = NAN;
    memcpy(p->point, point->values, count * sizeof *p->point);
    m->more = p;
    return mt_ok();
}

/* ---- comparing ---- */

static struct person *person_of(const struct swp_scheduler *s, uint32_t member)
{
    return s->members.data[member].more;
}

static void rank(struct swp_scheduler *s)
{
    struct pbt *model = s->model;
    model->ranked.count = 0;
    for (uint32_t i = 0; i < s->members.count; i++) {
        const struct person *p = person_of(s, i);
        if (isnan(p->score) || s->members.data[i].state == SWP_MEMBER_ENDED)
            continue;
        size_t k = model->ranked.count++;
        for (; k > 0 && person_of(s, model->ranked.data[k - 1])->score > p->score; k--)
            model->ranked.data[k] = model->ranked.data[k - 1];
        model->ranked.data[k] = i;
    }
    double n = (double)model->ranked.count, quantile = ceil(n * s->opts.quantile);
    model->quantile = n < 2 ? 0 : (size_t)(quantile > n / 2 ? floor(n / 2) : quantile);
}

static bool is_ranked(const struct swp_scheduler *s, uint32_t member, bool among_best)
{
    const struct pbt *model = s->model;
    const uint32_t   *from = model->ranked.data + (among_best ? 0 : model->ranked.count - model->quantile);
    for (size_t i = 0; i < model->quantile; i++)
        if (from[i] == member)
            return true;
    return false;
}

/* One place to the left or right; Tune does so with unordered choices too. */
static double shift_choice(const struct swp_param *param, double value, mt_rng *rng)
{
    return fmin(fmax(value + (mt_rng_below(rng, 2) ? 1 : -1), 0), param->choice_count - 1);
}

static void change_once(const struct swp_scheduler *s, const double *from, mt_rng *rng, struct swp_point *point)
{
    for (uint32_t k = 0; k < s->space->count; k++) {
        uint32_t                i = s->space->order[k];
        const struct swp_param *param = &s->space->params[i];
        bool                    is_fixed = param->kind == SWP_GRID || param->kind == SWP_CONSTANT;
        double anew = swp_param_draw(param, rng), u = swp_rng_real(rng), factor = s->opts.factors[mt_rng_below(rng, 2)];
        if (!swp_condition_holds(s->space, i, point))
            point->values[i] = NAN;
        else if (is_fixed)
            point->values[i] = isnan(from[i]) ? 0 : from[i];
        else if (isnan(from[i]) || u < s->opts.resample)
            point->values[i] = anew;
        else if (swp_kind_has_choices(param->kind))
            point->values[i] = shift_choice(param, from[i], rng);
        else
            point->values[i] = swp_param_snap(param, from[i] * factor);
    }
}

static void change(const struct swp_scheduler *s, const double *from, mt_rng *rng, double *out)
{
    size_t           size = s->space->count * sizeof *out;
    struct swp_point point;
    for (int tries = 0; tries < CHANGES_MAX; tries++) {
        change_once(s, from, rng, &point);
        if (swp_point_allowed(s->space, &point)) {
            memcpy(out, point.values, size);
            return;
        }
    }
    memcpy(out, from, size);
}

/* The member was ranked. True: it is one of the best, and should be saved. */
static bool compare(struct swp_scheduler *s, uint32_t member)
{
    struct pbt    *model = s->model;
    struct person *p = person_of(s, member);
    mt_rng         rng = swp_rng_of(s->seed, s->members.data[member].trial, SWP_FOR_SCHEDULER + (++p->compared << 8));
    p->has_save = is_ranked(s, member, true);
    p->is_due = false;
    if (!p->has_save && is_ranked(s, member, false)) {
        uint32_t from = model->ranked.data[mt_rng_below(&rng, model->quantile)];
        p->is_due = person_of(s, from)->has_save;
        p->from = from;
        if (p->is_due)
            change(s, person_of(s, from)->point, &rng, p->due_point);
    }
    return p->has_save;
}

/* ---- events ---- */

/* In step: compares the population once everybody who lives has come to the sync. */
static bool sync_population(struct swp_scheduler *s)
{
    struct pbt *model = s->model;
    double      longest = 0;
    for (uint32_t i = 0; i < s->members.count; i++) {
        if (s->members.data[i].state == SWP_MEMBER_ENDED)
            continue;
        if (person_of(s, i)->trained_t < model->next_sync)
            return false;
        longest = fmax(longest, person_of(s, i)->trained_t);
    }
    if (s->has_supply || longest == 0)
        return false;
    rank(s);
    for (int best = 1; best >= 0; best--) /* the best first: the others copy what they save */
        for (uint32_t i = 0; i < s->members.count; i++)
            if (s->members.data[i].state != SWP_MEMBER_ENDED && is_ranked(s, i, true) == best)
                (void)compare(s, i);
    model->next_sync = fmax(model->next_sync + s->opts.interval, longest);
    return true;
}

static mt_status pbt_report(struct swp_scheduler *s, struct swp_member *m, struct swp_verdict *out_verdict)
{
    struct person *p = m->more;
    if (m->t >= s->opts.max_t) {
        out_verdict->decision = SWP_STOP;
        return mt_ok();
    }
    if (m->t < s->opts.burn_in || m->t - p->perturbed_t < s->opts.interval)
        return mt_ok();
    p->score = m->value;
    p->trained_t = p->perturbed_t = m->t;
    if (s->opts.in_step) {
        out_verdict->decision = SWP_PAUSE;
        out_verdict->save = true;
        (void)sync_population(s);
        return mt_ok();
    }
    rank(s);
    out_verdict->save = compare(s, (uint32_t)(m - s->members.data));
    out_verdict->decision = p->is_due || swp_scheduler_has_waiting(s) ? SWP_PAUSE : SWP_CONTINUE;
    return mt_ok();
}

static double pbt_next_t(const struct swp_scheduler *s, const struct swp_member *m)
{
    const struct person *p = m->more;
    return fmin(fmax(s->opts.burn_in, p->perturbed_t + s->opts.interval), s->opts.max_t);
}

static struct swp_action pbt_next(const struct swp_scheduler *s, bool has_place)
{
    const struct pbt        *model = s->model;
    const struct swp_member *least = NULL;
    double                   least_t = INFINITY;
    for (uint32_t i = 0; i < s->members.count; i++) {
        const struct swp_member *m = &s->members.data[i];
        const struct person     *p = m->more;
        if (m->state != SWP_MEMBER_PAUSED)
            continue;
        if (p->is_due) {
            struct swp_action action = {.kind = SWP_CLONE, .trial = m->trial, .from = s->members.data[p->from].trial};
            memcpy(action.point.values, p->due_point, s->space->count * sizeof *p->due_point);
            return action;
        }
        bool may_go = !s->opts.in_step || p->trained_t < model->next_sync;
        if (may_go && p->trained_t < least_t) {
            least = m;
            least_t = p->trained_t;
        }
    }
    if (!has_place || s->has_supply || !least)
        return swp_start_or_wait(s, has_place);
    return swp_action_of(SWP_RESUME, least->trial);
}

/* It is now as far as the one that it copies was when that one was saved. */
static bool pbt_cloned(struct swp_scheduler *s, struct swp_member *m, bool done)
{
    struct person *p = m->more;
    if (!p->is_due || m->state != SWP_MEMBER_PAUSED)
        return false;
    p->is_due = false;
    if (done) {
        const struct person *from = person_of(s, p->from);
        memcpy(p->point, p->due_point, s->space->count * sizeof *p->point);
        p->perturbed_t = from->perturbed_t;
        p->trained_t = m->t = from->trained_t;
    }
    return true;
}

static void pbt_changed(struct swp_scheduler *s)
{
    if (s->opts.in_step)
        (void)sync_population(s);
}

static void pbt_ended(struct swp_scheduler *s, struct swp_member *m)
{
    (void)m;
    pbt_changed(s);
}

const struct swp_policy swp_pbt_policy = {
    .needs_saves = true,
    .init = pbt_init,
    .fini = pbt_fini,
    .forget = pbt_forget,
    .added = pbt_added,
    .report = pbt_report,
    .next_t = pbt_next_t,
    .next = pbt_next,
    .cloned = pbt_cloned,
    .ended = pbt_ended,
    .supplied = pbt_changed,
};
