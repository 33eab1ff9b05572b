/* SPDX-License-Identifier: Apache-2.0
 *
 * gp.c - a Gaussian process with expected improvement (Jones et al. 1998; its logarithm: Ament et al. 2023), as Optuna's GPSampler
 * defines it: keeps the rows, chooses those that the model stands on.
 *
 * The kernel is fitted anew from the same beginning whenever rows were told: it is a function of those rows, not of the
 * suggestions before, so that a replay need not repeat them. Where more than MT_SWEEP_GP_ROWS_MAX rows have a value the model
 * stands on the best half of so many and on the newest of the others. Rows that run count as if they had the best value so far
 * (constant liar), in the prediction but not in the fit. Pruned rows count with their last value, or with the median of the
 * complete ones where that is worse.
 *
 * Owns:    struct swp_gp.
 * Thread:  one at a time.
 */
#include "sweep/sample/gp/gp.h"

#include "sweep/space/layout.h"

#include <math.h>

enum { SCRATCH_COLUMNS = 18 };
#define SPREAD_LEAST 1e-10 /* of values in parts of the largest: below they count as equal */

/* ---- the model ---- */

static mt_status gp_init(struct swp_sampler *s, struct swp_problem *out_problem)
{
    (void)out_problem;
    uint32_t       count = swp_space_count(s->space);
    struct swp_gp *m = s->model = calloc(1, sizeof *m);
    if (!m || !(m->axes = calloc(count, sizeof *m->axes)))
        return mt_error(MT_ENOMEM, 0, "sweep: Gaussian process");
    m->loops = swp_gp_loops_best();
    m->samples = calloc((size_t)SWP_GP_SAMPLES * (count + 1), sizeof *m->samples);
    if (!m->samples)
        return mt_error(MT_ENOMEM, 0, "sweep: Gaussian process");
    m->is_plain = s->space->linear_count == 0 && !s->space->allows;
    for (uint32_t i = 0; i < count; i++) {
        struct swp_gp_axis *axis = &m->axes[m->dims];
        m->axis_of[i] = -1;
        if (!swp_axis_init(&axis->a, s->space, i))
            continue;
        axis->values = swp_param_values(swp_space_param(s->space, i));
        axis->resting = axis->a.is_category ? axis->a.choices : 0.5;
        swp_sobol_directions(m->dims, axis->directions);
        m->is_category[m->dims] = axis->a.is_category;
        m->is_plain = m->is_plain && swp_space_parent(s->space, i) < 0;
        m->axis_of[i] = (int)m->dims++;
    }
    return mt_ok();
}

static void gp_fini(struct swp_sampler *s)
{
    struct swp_gp *m = s->model;
    mt_vec_fini(&m->units);
    mt_vec_fini(&m->complete);
    mt_vec_fini(&m->is_chosen);
    free(m->memory);
    free(m->samples);
    free(m->axes);
    free(m);
}

/* ---- rows ---- */

static mt_status gp_added(struct swp_sampler *s, uint32_t row, const struct swp_point *point)
{
    struct swp_gp *m = s->model;
    MT_TRY(mt_vec_reserve(&m->units, m->dims));
    MT_TRY(mt_vec_reserve(&m->is_chosen, 1));
    MT_TRY(mt_vec_reserve(&m->complete, row + 1 - m->complete.count));
    m->units.count = (size_t)row * m->dims; /* a row that was taken back may have left some */
    m->is_chosen.count = row;
    m->is_chosen.data[m->is_chosen.count++] = 0;
    for (uint32_t i = 0; i < m->dims; i++) {
        const struct swp_gp_axis *axis = &m->axes[i];
        bool                      has = swp_point_has(point, axis->a.param);
        m->units.data[m->units.count++] = has ? swp_axis_unit(&axis->a, point->values[axis->a.param]) : axis->resting;
    }
    return mt_ok();
}

static void gp_told(struct swp_sampler *s, uint32_t row)
{
    struct swp_gp        *m = s->model;
    const struct swp_row *rows = s->rows.data;
    size_t                place = m->complete.count;
    if (rows[row].state != SWP_ROW_COMPLETE)
        return;
    for (; place > 0; place--) {
        uint32_t other = m->complete.data[place - 1];
        if (rows[other].value < rows[row].value || (rows[other].value == rows[row].value && other < row))
            break;
        m->complete.data[place] = other;
    }
    m->complete.data[place] = row;
    m->complete.count++;
}

/* ---- what a suggestion works with ---- */

static mt_status make_room(struct swp_gp *m, size_t rows)
{
    if (rows <= m->capacity)
        return mt_ok();
    size_t n = m->capacity ? 2 * m->capacity : 8 * SWP_GP_LANES;
    while (n < rows)
        n *= 2;
    double *memory = calloc((m->dims + 2 + SCRATCH_COLUMNS) * n + 3 * n * n, sizeof *memory), *next = memory;
    if (!memory)
        return mt_error(MT_ENOMEM, 0, "sweep: Gaussian process");
    free(m->memory);
    m->memory = memory;
    m->capacity = n;
    m->fitted = 0; /* the columns are empty again */
    m->x = next, next += m->dims * n;
    m->y = next, next += n;
    m->alpha = next, next += n;
    m->scratch = next, next += SCRATCH_COLUMNS * n;
    m->u = next, next += n * n;
    m->l_inv = next, next += n * n;
    m->slope = next;
    for (uint32_t d = 0; d < m->dims; d++)
        m->columns[d] = m->x + d * n;
    m->data = (struct swp_gp_data){
        .dims = m->dims, .x = m->columns, .is_category = m->is_category, .weight = m->weight, .scratch = m->scratch};
    return mt_ok();
}

static void place_row(struct swp_gp *m, size_t place, size_t row)
{
    for (uint32_t d = 0; d < m->dims; d++)
        m->x[d * m->capacity + place] = m->units.data[row * m->dims + d];
}

static bool has_value(const struct swp_row *row)
{
    return row->state == SWP_ROW_COMPLETE || row->state == SWP_ROW_PRUNED;
}

/* Marks the rows of the model; how many. */
static size_t choose_rows(struct swp_sampler *s)
{
    struct swp_gp *m = s->model;
    size_t         chosen = 0, most = MT_SWEEP_GP_ROWS_MAX;
    for (; s->finished > most && chosen < most / 2 && chosen < m->complete.count; chosen++)
        m->is_chosen.data[m->complete.data[chosen]] = 1;
    for (size_t row = s->rows.count; row-- > 0 && chosen < most;)
        if (has_value(&s->rows.data[row]) && !m->is_chosen.data[row]) {
            m->is_chosen.data[row] = 1;
            chosen++;
        }
    return chosen;
}

/* Mean 0, deviation 1, the larger the better; infinities become the worst finite value. */
static void standardise(double *y, size_t n)
{
    double worst = -INFINITY, largest = 0, mean = 0, square = 0;
    for (size_t i = 0; i < n; i++)
        if (isfinite(y[i])) {
            worst = fmax(worst, y[i]);
            largest = fmax(largest, fabs(y[i]));
        }
    for (size_t i = 0; i < n; i++) {
        y[i] = isfinite(y[i]) ? y[i] : isfinite(worst) ? worst : 0;
        y[i] /= largest > 0 ? largest : 1; /* so that no sum overflows */
        mean += y[i] / (double)n;
    }
    for (size_t i = 0; i < n; i++)
        square += (y[i] - mean) * (y[i] - mean) / (double)n;
    double spread = sqrt(square);
    for (size_t i = 0; i < n; i++)
        y[i] = spread > SPREAD_LEAST ? (mean - y[i]) / spread : 0;
}

/* The chosen rows into the columns, in their order. */
static void place_chosen(struct swp_sampler *s)
{
    struct swp_gp        *m = s->model;
    const struct swp_row *rows = s->rows.data;
    double                median = m->complete.count ? rows[m->complete.data[m->complete.count / 2]].value : -INFINITY;
    size_t                n = 0;
    for (size_t row = 0; row < s->rows.count; row++) {
        if (!m->is_chosen.data[row])
            continue;
        m->is_chosen.data[row] = 0;
        place_row(m, n, row);
        if (m->complete.count && row == m->complete.data[0])
            m->best_row = n;
        m->y[n++] = rows[row].state == SWP_ROW_PRUNED ? fmax(rows[row].value, median) : rows[row].value;
    }
    standardise(m->y, n);
    for (size_t i = 0; i < n && m->complete.count == 0; i++)
        if (i == 0 || m->y[i] > m->y[m->best_row])
            m->best_row = i;
    m->best = m->y[m->best_row];
    m->observed = n;
}

static size_t place_running(struct swp_sampler *s)
{
    struct swp_gp *m = s->model;
    size_t         n = m->observed;
    for (size_t row = s->rows.count; row-- > 0 && n < m->observed + MT_SWEEP_GP_RUNNING_MAX && !s->opts.no_liar;)
        if (s->rows.data[row].state == SWP_ROW_RUNNING) {
            place_row(m, n, row);
            m->y[n++] = m->best;
        }
    return n;
}

/* Data, kernel and factors of all that is known; the kernel is there already where no row was told since. */
static mt_status prepare(struct swp_sampler *s)
{
    struct swp_gp *m = s->model;
    size_t         running = 0;
    for (size_t row = 0; row < s->rows.count; row++)
        running += s->rows.data[row].state == SWP_ROW_RUNNING;
    size_t observed = s->finished < MT_SWEEP_GP_ROWS_MAX ? s->finished : MT_SWEEP_GP_ROWS_MAX;
    MT_TRY(make_room(m, observed + (running < MT_SWEEP_GP_RUNNING_MAX ? running : MT_SWEEP_GP_RUNNING_MAX)));
    if (m->fitted != s->finished) {
        choose_rows(s);
        place_chosen(s);
        swp_gp_fit(m);
        m->fitted = s->finished;
    }
    size_t rows = place_running(s);
    bool   is_good = swp_gp_factor(m, rows) || swp_gp_factor(m, m->observed);
    return is_good ? mt_ok() : mt_error(MT_EUNSCHEDULABLE, 0, "sweep: the covariance is singular");
}

/* ---- draws ---- */

static mt_status gp_draw(struct swp_sampler *s, uint64_t trial, struct swp_point *point)
{
    struct swp_gp *m = s->model;
    mt_rng         rng = swp_rng_of(s->seed, trial, SWP_FOR_METHOD);
    if (m->dims == 0)
        return swp_sampler_draw_random(s, trial, point);
    mt_status st = prepare(s);
    if (st.code == MT_ENOMEM)
        return st;
    struct swp_point found = *point;
    if (st.code != 0 || !swp_gp_search(s, &rng, &found))
        return swp_sampler_draw_random(s, trial, point);
    *point = found;
    return mt_ok();
}

const struct swp_method swp_gp_method = {
    .is_adaptive = true,
    .init = gp_init,
    .fini = gp_fini,
    .draw = gp_draw,
    .added = gp_added,
    .told = gp_told,
};
