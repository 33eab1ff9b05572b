/* SPDX-License-Identifier: Apache-2.0
 *
 * gp.h - the model of the GP sampler: gp.c keeps it, fit.c finds its kernel, search.c the point that promises most.
 *
 * Objective values are turned round and standardised: the larger the better, mean 0, deviation 1. A row has a unit for each axis
 * (axis.h). One that is not active stands in the middle of its range, or, of a category, at a choice of its own.
 */
#ifndef SWP_GP_H
#define SWP_GP_H

#include "sweep/space/axis.h"
#include "sweep/sample/gp/loops.h"
#include "sweep/sample/method.h"
#include "sweep/sample/sobol.h"

enum { SWP_GP_SAMPLES = 2048 }; /* among which starts are chosen */

struct swp_gp_axis {
    struct swp_axis a;
    uint64_t        values;  /* that a discrete one has; 0: continuous */
    double          resting; /* where it stands while it is not active */
    uint32_t        directions[SWP_SOBOL_BITS];
};

struct swp_gp {
    const struct swp_gp_loops *loops;
    struct swp_gp_axis        *axes;
    uint32_t                   dims;
    int                        axis_of[MT_SWEEP_PARAMS_MAX]; /* by parameter; -1: none */
    bool                       is_category[MT_SWEEP_PARAMS_MAX];
    bool                       is_plain; /* every axis is always active, and no constraint */
    MT_VEC(double) units;                /* by row: dims each */
    MT_VEC(uint32_t) complete;           /* rows, the best first */
    MT_VEC(uint8_t) is_chosen;           /* by row; scratch, all 0 between calls */
    double *samples;                     /* scratch: SWP_GP_SAMPLES x (dims + 1) */

    /* What a suggestion works with. The kernel and the first rows stay while no row is told. */
    uint32_t           fitted;   /* rows that were told when the kernel was fitted; 0: not yet */
    size_t             observed; /* rows with a value; those that run stand behind them */
    size_t             capacity; /* of the columns; a multiple of the lanes */
    double            *memory;   /* holds all that follows */
    const double      *columns[MT_SWEEP_PARAMS_MAX];
    double            *x, *y, *alpha, *scratch; /* x: column after column */
    double            *u, *l_inv, *slope;
    double             weight[MT_SWEEP_PARAMS_MAX];
    struct swp_gp_data data;
    double             best;     /* the best standardised value of a complete row */
    size_t             best_row; /* its place */
};

/* Finds the kernel for the rows [0, observed) from columns and y: most likely under Optuna's priors. False: numbers failed, and
 * the kernel is the one that the search begins with. */
bool swp_gp_fit(struct swp_gp *m);
/* The negative logarithm of likelihood and priors; theta: logarithms of the weights, of the scale and of the noise above its
 * least value. NaN: not positive. */
double swp_gp_loss(struct swp_gp *m, const double *theta, double *gradient);
/* Factors of the first `rows` rows, with the kernel as it stands. */
bool swp_gp_factor(struct swp_gp *m, size_t rows);

/* log of the expected improvement of a normal value over `best`, and its derivatives by mean and variance. */
double swp_gp_log_improvement(double mean, double variance, double best, double *by_mean, double *by_variance);

/* The point that promises most, found from starts drawn from `rng`; GRID parameters stand in it already. False: no start met the
 * constraints. */
bool swp_gp_search(struct swp_sampler *s, mt_rng *rng, struct swp_point *point);

#endif
