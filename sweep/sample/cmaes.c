/* SPDX-License-Identifier: Apache-2.0
 *
 * cmaes.c - covariance matrix adaptation (Hansen, "The CMA Evolution Strategy: A Tutorial", arXiv 1604.00772): names and numbers
 * of equations are the tutorial's.
 *
 * The axes are the numeric parameters that are always active, in units. A point belongs to the generation in which it was
 * suggested; when `population` points of the present one are complete, the distribution moves and the next one begins (what comes
 * later of an old one is not used, and neither are pruned trials). A draw outside the bounds is drawn again up to 10 n times, then
 * cut. Results that are known before anything was suggested put the first mean at the best of them.
 *
 * Owns:    struct swp_cmaes.
 * Thread:  one at a time.
 */
#include "sweep/sample/cmaes.h"

#include "sweep/math/linalg.h"

#include <math.h>

#define EPSILON   1e-8
#define SIGMA_MAX 1e32
enum { NO_GENERATION = UINT32_MAX };

/* ---- the model ---- */

/* Equations 48 to 56. */
static void set_rates(struct swp_cmaes *m)
{
    double n = (double)m->n, lambda = (double)m->population, sum = 0, square = 0, rest = 0, rest_square = 0;
    double positive = 0, negative = 0;
    for (size_t i = 0; i < m->population; i++) {
        double w = m->weights[i] = log((lambda + 1) / 2) - log((double)i + 1);
        *(i < m->parents ? &sum : &rest) += w;
        *(i < m->parents ? &square : &rest_square) += w * w;
        *(w > 0 ? &positive : &negative) += fabs(w);
    }
    double mu_eff_minus = rest * rest / rest_square;
    m->mu_eff = sum * sum / square;
    m->c1 = 2 / ((n + 1.3) * (n + 1.3) + m->mu_eff);
    m->cmu = fmin(1 - m->c1 - EPSILON, 2 * (m->mu_eff - 2 + 1 / m->mu_eff) / ((n + 2) * (n + 2) + m->mu_eff));
    double alpha = fmin(1 + m->c1 / m->cmu, 1 + 2 * mu_eff_minus / (m->mu_eff + 2));
    alpha = fmin(alpha, (1 - m->c1 - m->cmu) / (n * m->cmu));
    for (size_t i = 0; i < m->population; i++)
        m->weights[i] *= m->weights[i] >= 0 ? 1 / positive : alpha / negative;
    m->c_sigma = (m->mu_eff + 2) / (n + m->mu_eff + 5);
    m->d_sigma = 1 + 2 * fmax(0, sqrt((m->mu_eff - 1) / (n + 1)) - 1) + m->c_sigma;
    m->cc = (4 + m->mu_eff / n) / (n + 4 + 2 * m->mu_eff / n);
    m->chi = sqrt(n) * (1 - 1 / (4 * n) + 1 / (21 * n * n));
}

static mt_status cmaes_init(struct swp_sampler *s, struct swp_problem *out_problem)
{
    (void)out_problem;
    struct swp_cmaes *m = s->model = calloc(1, sizeof *m);
    if (!m || !(m->axes = calloc(swp_space_count(s->space), sizeof *m->axes)))
        return mt_error(MT_ENOMEM, 0, "sweep: CMA-ES");
    for (uint32_t i = 0; i < swp_space_count(s->space); i++)
        if (swp_space_parent(s->space, i) < 0 && swp_axis_init(&m->axes[m->n], s->space, i) && !m->axes[m->n].is_category)
            m->n++;
    size_t n = m->n, lambda = s->opts.population;
    m->population = lambda ? lambda : 4 + (size_t)(n > 1 ? 3 * log((double)n) : 0);
    m->parents = m->population / 2;
    m->weights = calloc(m->population, sizeof(double));
    m->told = calloc(m->population, sizeof *m->told);
    m->mean = calloc(4 * n + 1, sizeof(double));
    m->c = calloc(3 * n * n + 4 * n + 1, sizeof(double));
    if (!m->weights || !m->told || !m->mean || !m->c)
        return mt_error(MT_ENOMEM, 0, "sweep: CMA-ES");
    m->p_sigma = m->mean + n;
    m->p_c = m->p_sigma + n;
    m->d = m->p_c + n;
    m->b = m->c + n * n;
    m->scratch = m->b + n * n;
    m->sigma = s->opts.sigma0;
    m->best_known = INFINITY;
    for (size_t i = 0; i < n; i++) {
        m->mean[i] = 0.5;
        m->c[i * n + i] = m->b[i * n + i] = m->d[i] = 1;
    }
    if (n)
        set_rates(m);
    return mt_ok();
}

static void cmaes_fini(struct swp_sampler *s)
{
    struct swp_cmaes *m = s->model;
    mt_vec_fini(&m->generations);
    mt_vec_fini(&m->units);
    free(m->weights);
    free(m->told);
    free(m->mean);
    free(m->c);
    free(m->axes);
    free(m);
}

/* ---- a generation ---- */

/* y = B diag(1 / D) B^T x, the inverse square root of C times x; y has n doubles behind it as scratch. */
static void whiten(const struct swp_cmaes *m, const double *x, double *y)
{
    size_t  n = m->n;
    double *rotated = y + n;
    for (size_t k = 0; k < n; k++) {
        rotated[k] = 0;
        for (size_t i = 0; i < n; i++)
            rotated[k] += m->b[i * n + k] * x[i];
        rotated[k] /= m->d[k];
    }
    for (size_t i = 0; i < n; i++) {
        y[i] = 0;
        for (size_t k = 0; k < n; k++)
            y[i] += m->b[i * n + k] * rotated[k];
    }
}

static double norm(const double *x, size_t n)
{
    double sum = 0;
    for (size_t i = 0; i < n; i++)
        sum += x[i] * x[i];
    return sqrt(sum);
}

/* y_k of equation 38: where the row lies from the old mean, in deviations. */
static void step_of(const struct swp_cmaes *m, const double *old_mean, double old_sigma, size_t row, double *y)
{
    for (size_t i = 0; i < m->n; i++)
        y[i] = (m->units.data[row * m->n + i] - old_mean[i]) / old_sigma;
}

static void sort_told(const struct swp_sampler *s, struct swp_cmaes *m)
{
    for (size_t i = 1; i < m->told_count; i++) {
        size_t row = m->told[i], k = i;
        for (; k > 0 && s->rows.data[m->told[k - 1]].value > s->rows.data[row].value; k--)
            m->told[k] = m->told[k - 1];
        m->told[k] = row;
    }
}

/* Equation 47, with the old mean and deviation; `y` has room for 3 n. */
static void adapt_covariance(struct swp_cmaes *m, const double *old_mean, double old_sigma, double h, double *y)
{
    size_t n = m->n;
    double sum = 0, delta = (1 - h) * m->cc * (2 - m->cc), *white = y + n;
    for (size_t k = 0; k < m->population; k++)
        sum += m->weights[k];
    double keep = 1 + m->c1 * delta - m->c1 - m->cmu * sum;
    for (size_t i = 0; i < n; i++)
        for (size_t j = 0; j < n; j++)
            m->c[i * n + j] = keep * m->c[i * n + j] + m->c1 * m->p_c[i] * m->p_c[j];
    for (size_t k = 0; k < m->population; k++) {
        double w = m->weights[k];
        step_of(m, old_mean, old_sigma, m->told[k], y);
        if (w < 0) { /* equation 46 */
            whiten(m, y, white);
            double length = norm(white, n);
            w *= (double)n / (length * length + EPSILON);
        }
        for (size_t i = 0; i < n; i++)
            for (size_t j = 0; j < n; j++)
                m->c[i * n + j] += m->cmu * w * y[i] * y[j];
    }
}

/* C symmetric, its eigenvectors and their lengths; an eigenvalue that fell below zero is lifted, and C with it. */
static void decompose(struct swp_cmaes *m)
{
    size_t  n = m->n;
    double *a = m->scratch;
    for (size_t i = 0; i < n; i++)
        for (size_t j = 0; j < n; j++)
            a[i * n + j] = 0.5 * (m->c[i * n + j] + m->c[j * n + i]);
    swp_eigen(a, n, m->b, m->d);
    for (size_t k = 0; k < n; k++)
        m->d[k] = sqrt(m->d[k] < 0 ? EPSILON : fmax(m->d[k], 1e-300));
    for (size_t i = 0; i < n; i++)
        for (size_t j = 0; j < n; j++) {
            double sum = 0;
            for (size_t k = 0; k < n; k++)
                sum += m->b[i * n + k] * m->d[k] * m->d[k] * m->b[j * n + k];
            m->c[i * n + j] = sum;
        }
}

/* Equations 41 to 47. */
static void next_generation(struct swp_sampler *s, struct swp_cmaes *m)
{
    size_t  n = m->n;
    double  room[3 * MT_SWEEP_PARAMS_MAX], *y_w = room, *white = room + n; /* white has n behind it */
    double *y = m->scratch, *old_mean = m->scratch + n * n, old_sigma = m->sigma;
    sort_told(s, m);
    memcpy(old_mean, m->mean, n * sizeof *old_mean);
    memset(y_w, 0, n * sizeof *y_w);
    for (size_t k = 0; k < m->parents; k++) {
        step_of(m, old_mean, old_sigma, m->told[k], y);
        for (size_t i = 0; i < n; i++)
            y_w[i] += m->weights[k] * y[i];
    }
    whiten(m, y_w, white);
    m->generation++;
    double rate = sqrt(m->c_sigma * (2 - m->c_sigma) * m->mu_eff);
    for (size_t i = 0; i < n; i++) {
        m->mean[i] += m->sigma * y_w[i];
        m->p_sigma[i] = (1 - m->c_sigma) * m->p_sigma[i] + rate * white[i];
    }
    double length = norm(m->p_sigma, n);
    m->sigma = fmin(m->sigma * exp(m->c_sigma / m->d_sigma * (length / m->chi - 1)), SIGMA_MAX);
    double unbiased = length / sqrt(1 - pow(1 - m->c_sigma, 2 * (m->generation + 1.0)));
    double h = unbiased < (1.4 + 2 / ((double)n + 1)) * m->chi;
    for (size_t i = 0; i < n; i++)
        m->p_c[i] = (1 - m->cc) * m->p_c[i] + h * sqrt(m->cc * (2 - m->cc) * m->mu_eff) * y_w[i];
    adapt_covariance(m, old_mean, old_sigma, h, room);
    decompose(m);
    m->told_count = 0;
}

/* ---- rows ---- */

static mt_status cmaes_added(struct swp_sampler *s, uint32_t row, const struct swp_point *point)
{
    struct swp_cmaes *m = s->model;
    MT_TRY(mt_vec_reserve(&m->generations, 1));
    MT_TRY(mt_vec_reserve(&m->units, m->n));
    m->units.count = row * m->n; /* a row that was taken back may have left some */
    m->generations.count = row;
    bool is_ours = !s->rows.data[row].is_known && s->finished >= s->opts.startup;
    m->generations.data[m->generations.count++] = is_ours ? m->generation : NO_GENERATION;
    for (size_t i = 0; i < m->n; i++)
        m->units.data[m->units.count++] = swp_axis_unit(&m->axes[i], point->values[m->axes[i].param]);
    return mt_ok();
}

static void cmaes_told(struct swp_sampler *s, uint32_t index)
{
    struct swp_cmaes     *m = s->model;
    const struct swp_row *row = &s->rows.data[index];
    if (row->state != SWP_ROW_COMPLETE || m->n == 0)
        return;
    if (row->is_known && s->by_trial.count == 0 && row->value < m->best_known) {
        m->best_known = row->value;
        memcpy(m->mean, m->units.data + index * m->n, m->n * sizeof *m->mean);
    }
    if (m->generations.data[index] != m->generation)
        return;
    m->told[m->told_count++] = index;
    if (m->told_count == m->population)
        next_generation(s, m);
}

/* ---- draws ---- */

/* Mean + sigma B D z, as values; false: outside the bounds. With `cut` it is moved onto them. */
static bool draw_once(const struct swp_sampler *s, mt_rng *rng, bool cut, struct swp_point *point)
{
    const struct swp_cmaes *m = s->model;
    double                  z[MT_SWEEP_PARAMS_MAX];
    for (size_t k = 0; k < m->n; k++)
        z[k] = m->d[k] * swp_rng_normal(rng);
    for (size_t i = 0; i < m->n; i++) {
        const struct swp_axis *axis = &m->axes[i];
        double                 x = 0;
        for (size_t k = 0; k < m->n; k++)
            x += m->b[i * m->n + k] * z[k];
        x = m->mean[i] + m->sigma * x;
        if (axis->is_bounded && (x < 0 || x > 1)) {
            if (!cut)
                return false;
            x = x < 0 ? 0 : 1;
        }
        point->values[axis->param] = swp_param_snap(swp_space_param(s->space, axis->param), swp_axis_value(axis, x));
    }
    return true;
}

static mt_status cmaes_draw(struct swp_sampler *s, uint64_t trial, struct swp_point *point)
{
    const struct swp_cmaes *m = s->model;
    mt_rng                  rng = swp_rng_of(s->seed, trial, SWP_FOR_METHOD);
    MT_TRY(swp_sampler_draw_random(s, trial, point));
    struct swp_point drawn = *point;
    for (size_t tries = 0; tries <= 10 * m->n; tries++) {
        bool             is_in = draw_once(s, &rng, tries == 10 * m->n, &drawn);
        struct swp_point pruned = drawn;
        swp_point_prune(s->space, &pruned); /* an int may be a parent */
        struct swp_problem ignored;
        if (is_in && swp_point_check(s->space, &pruned, &ignored).code == 0)
            return *point = pruned, mt_ok();
    }
    return mt_ok(); /* the constraints allow none of these: the random one */
}

const struct swp_method swp_cmaes_method = {
    .is_adaptive = true,
    .init = cmaes_init,
    .fini = cmaes_fini,
    .draw = cmaes_draw,
    .added = cmaes_added,
    .told = cmaes_told,
};
