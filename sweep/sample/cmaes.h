/* SPDX-License-Identifier: Apache-2.0
 *
 * cmaes.h - the model of the CMA-ES sampler; cmaes.c keeps it. Matrices are n x n, row after row.
 */
#ifndef SWP_CMAES_H
#define SWP_CMAES_H

#include "sweep/space/axis.h"
#include "sweep/sample/method.h"

struct swp_cmaes {
    struct swp_axis *axes;
    size_t           n, population, parents; /* mu */
    uint32_t         generation;
    double           sigma, best_known;
    double           mu_eff, c1, cmu, cc, c_sigma, d_sigma, chi;
    double          *weights;                  /* population */
    double          *mean, *p_sigma, *p_c, *d; /* n; d: square roots of the eigenvalues */
    double          *c, *b;                    /* n x n: covariance, and its eigenvectors in columns */
    double          *scratch;                  /* n x n + 4 n */
    size_t          *told;                     /* rows of this generation that are complete; room for population */
    size_t           told_count;
    MT_VEC(uint32_t) generations; /* by row */
    MT_VEC(double) units;         /* by row: n each */
};

#endif
