/* SPDX-License-Identifier: Apache-2.0
 *
 * fit.c - the kernel that explains the rows best: maximum a posteriori of its parameters, by L-BFGS with exact derivatives.
 *
 * Priors (Optuna's, up to constants): -(0.1 / w + 0.1 w) for each weight w = 1 / length^2; Gamma(2, 1) of the scale;
 * Gamma(1.1, 30) of the noise, which is 1e-6 at least. Everything begins at 1.
 *
 * Owns: nothing; works in the model's memory. Thread: one at a time.
 */
#include "sweep/sample/gp/gp.h"
#include "sweep/math/lbfgs.h"

#include <math.h>

#define NOISE_LEAST    1e-6
#define GRADIENT_LEAST 1e-2
enum { STEPS_MAX = 200 };

static void set_kernel(struct swp_gp *m, const double *theta)
{
    for (uint32_t d = 0; d < m->dims; d++)
        m->weight[d] = exp(theta[d]);
    m->data.scale = exp(theta[m->dims]);
    m->data.noise = exp(theta[m->dims + 1]) + NOISE_LEAST;
}

static void set_rows(struct swp_gp *m, size_t rows)
{
    m->data.n = rows;
    m->data.stride = (rows + 7) / 8 * 8;
    for (size_t i = rows; i < m->data.stride; i++) {
        m->y[i] = 0;
        for (uint32_t d = 0; d < m->dims; d++)
            m->x[d * m->capacity + i] = 0;
    }
}

bool swp_gp_factor(struct swp_gp *m, size_t rows)
{
    set_rows(m, rows);
    if (!m->loops->factor(&m->data, m->u, m->l_inv, m->slope))
        return false;
    m->loops->solve(&m->data, m->l_inv, m->y, m->alpha);
    return true;
}

double swp_gp_loss(struct swp_gp *m, const double *theta, double *gradient)
{
    const struct swp_gp_data *data = &m->data;
    double                   *by_scale = &gradient[m->dims], *by_noise = by_scale + 1, fit = 0, loss = 0;
    set_kernel(m, theta);
    if (!swp_gp_factor(m, m->observed))
        return NAN;
    for (size_t i = 0; i < data->n; i++) {
        loss += log(m->u[i * data->stride + i]);
        fit += m->y[i] * m->alpha[i];
    }
    double trace = m->loops->gradient(data, m->l_inv, m->slope, m->alpha, gradient);
    /* trace(S covariance) = n - y alpha, of which the noise has its part, and the scale the rest */
    *by_scale = 0.5 * ((double)data->n - fit - data->noise * trace) - 1 + data->scale;
    *by_noise = (0.5 * trace - 0.1 / data->noise + 30) * (data->noise - NOISE_LEAST);
    loss += 0.5 * fit - log(data->scale) + data->scale - 0.1 * log(data->noise) + 30 * data->noise;
    for (uint32_t d = 0; d < m->dims; d++) {
        double w = m->weight[d];
        loss += 0.1 / w + 0.1 * w;
        gradient[d] = gradient[d] * w - 0.1 / w + 0.1 * w;
    }
    return loss;
}

static double loss_of(void *user, const double *theta, double *gradient)
{
    return swp_gp_loss(user, theta, gradient);
}

bool swp_gp_fit(struct swp_gp *m)
{
    double                 theta[SWP_LBFGS_DIMS_MAX] = {0}, loss;
    const struct swp_lbfgs problem = {
        .dims = m->dims + 2, .gradient_least = GRADIENT_LEAST, .steps_max = STEPS_MAX, .at = loss_of, .user = m};
    bool is_good = swp_lbfgs_least(&problem, theta, &loss);
    for (uint32_t i = 0; i < m->dims + 2 && !is_good; i++)
        theta[i] = 0;
    set_kernel(m, theta);
    return is_good;
}
