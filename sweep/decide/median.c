/* SPDX-License-Identifier: Apache-2.0
 *
 * median.c - the median stopping rule (Golovin et al., Vizier, KDD 2017) as Ray Tune has it.
 *
 * At time t >= grace a trial is stopped where its best value so far is strictly worse than the median, over the other trials that
 * have reached t (those that have ended included), of the mean of their values from grace to t.
 *
 * Each trial keeps its times and running sums, so that a mean is a binary search. A NaN or infinite value counts in no mean.
 *
 * Owns:    the curves.
 * Thread:  one at a time.
 */
#include "sweep/decide/private.h"

#include <math.h>

struct point_of_curve {
    double   t, sum;
    uint32_t count; /* values in the sum */
};
struct curve {
    MT_VEC(struct point_of_curve) points; /* from grace on */
    double best, slice_start;
};

struct median {
    MT_VEC(double) means; /* scratch */
};

static mt_status median_init(struct swp_scheduler *s, struct swp_problem *out_problem)
{
    (void)out_problem;
    s->model = calloc(1, sizeof(struct median));
    return s->model ? mt_ok() : mt_error(MT_ENOMEM, 0, "sweep: median stopping");
}

static void median_fini(struct swp_scheduler *s)
{
    struct median *model = s->model;
    mt_vec_fini(&model->means);
    free(model);
}

static void median_forget(struct swp_scheduler *s, struct swp_member *m)
{
    struct curve *curve = m->more;
    (void)s;
    if (curve)
        mt_vec_fini(&curve->points);
    free(curve);
}

static mt_status median_added(struct swp_scheduler *s, struct swp_member *m, const struct swp_point *point)
{
    struct curve *curve = m->more = calloc(1, sizeof *curve);
    (void)s;
    (void)point;
    if (!curve)
        return mt_error(MT_ENOMEM, 0, "sweep: median stopping");
    curve->best = INFINITY;
    return mt_ok();
}

/* Mean from grace to t; false: no value lies there. */
static bool mean_until(const struct curve *curve, double t, double *out)
{
    size_t low = 0, high = curve->points.count;
    while (low < high) {
        size_t mid = (low + high) / 2;
        if (curve->points.data[mid].t <= t)
            low = mid + 1;
        else
            high = mid;
    }
    if (low == 0 || curve->points.data[low - 1].count == 0)
        return false;
    return *out = curve->points.data[low - 1].sum / curve->points.data[low - 1].count, true;
}

static int by_value(const void *a, const void *b)
{
    double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

/* The means of the others into scratch memory, sorted. */
static mt_status gather_means(struct swp_scheduler *s, const struct swp_member *m)
{
    struct median *model = s->model;
    double         mean;
    model->means.count = 0;
    MT_TRY(mt_vec_reserve(&model->means, s->members.count));
    for (size_t i = 0; i < s->members.count; i++) {
        const struct swp_member *other = &s->members.data[i];
        if (other != m && other->t >= m->t && mean_until(other->more, m->t, &mean))
            model->means.data[model->means.count++] = mean;
    }
    qsort(model->means.data, model->means.count, sizeof mean, by_value);
    return mt_ok();
}

static mt_status append(struct swp_scheduler *s, struct swp_member *m)
{
    struct curve                *curve = m->more;
    const struct point_of_curve *last = curve->points.count ? &curve->points.data[curve->points.count - 1] : NULL;
    struct point_of_curve        point = {m->t, last ? last->sum : 0, last ? last->count : 0};
    if (m->t >= s->opts.grace) {
        point.sum += isfinite(m->value) ? m->value : 0;
        point.count += isfinite(m->value);
        MT_TRY(mt_vec_push(&curve->points, point));
    }
    curve->best = fmin(curve->best, m->value);
    return mt_ok();
}

static mt_status median_report(struct swp_scheduler *s, struct swp_member *m, struct swp_verdict *out_verdict)
{
    struct median *model = s->model;
    struct curve  *curve = m->more;
    if (m->t >= s->opts.max_t) {
        out_verdict->decision = SWP_STOP;
        return mt_ok();
    }
    if (m->waits)
        return mt_ok(); /* was paused as bad once, and has its place again because nothing else is left */
    MT_TRY(gather_means(s, m));
    MT_TRY(append(s, m));
    size_t n = model->means.count;
    if (m->t < s->opts.grace)
        return mt_ok();
    if (n < s->opts.min_samples) {
        bool yields = s->opts.pauses && m->t - curve->slice_start > s->opts.min_slice && swp_scheduler_has_waiting(s);
        out_verdict->decision = yields ? SWP_PAUSE : SWP_CONTINUE;
        return mt_ok();
    }
    double median = 0.5 * (model->means.data[(n - 1) / 2] + model->means.data[n / 2]);
    if (!(curve->best > median))
        return mt_ok();
    m->waits = s->opts.pauses;
    out_verdict->decision = s->opts.pauses ? SWP_PAUSE : SWP_STOP;
    return mt_ok();
}

static double median_next_t(const struct swp_scheduler *s, const struct swp_member *m)
{
    (void)m;
    return fmin(s->opts.grace, s->opts.max_t);
}

/* New trials first, then what only yielded, the least trained one; what was paused as bad when nothing else runs. */
static struct swp_action median_next(const struct swp_scheduler *s, bool has_place)
{
    const struct swp_member *yielded = NULL, *bad = NULL;
    for (size_t i = 0; i < s->members.count; i++) {
        const struct swp_member *m = &s->members.data[i];
        if (m->state != SWP_MEMBER_PAUSED)
            continue;
        if (m->waits)
            bad = bad ? bad : m;
        else if (!yielded || m->t < yielded->t)
            yielded = m;
    }
    if (!has_place)
        return swp_action_of(SWP_WAIT, 0);
    if (s->has_supply)
        return swp_action_of(SWP_START, 0);
    if (yielded)
        return swp_action_of(SWP_RESUME, yielded->trial);
    return bad && s->running == 0 ? swp_action_of(SWP_RESUME, bad->trial) : swp_action_of(SWP_WAIT, 0);
}

static void median_resumed(struct swp_scheduler *s, struct swp_member *m)
{
    struct curve *curve = m->more;
    (void)s;
    curve->slice_start = fmax(m->t, 0);
}

const struct swp_policy swp_median_policy = {
    .init = median_init,
    .fini = median_fini,
    .forget = median_forget,
    .added = median_added,
    .report = median_report,
    .next_t = median_next_t,
    .next = median_next,
    .resumed = median_resumed,
};
