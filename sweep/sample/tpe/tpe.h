/* SPDX-License-Identifier: Apache-2.0
 *
 * tpe.h - the model of the TPE sampler: tpe.c keeps it and chooses, density.c computes densities.
 *
 * Kernels stand at the values of rows: the best ones ("good", at most 25) and all others ("rest"), and one more in each set, the
 * prior: as wide as the range. The joint model is one over all axes that are always active; an axis that is conditional (or, with
 * `independent`, each axis) has a model by itself, of the rows in which it is active.
 */
#ifndef SWP_TPE_H
#define SWP_TPE_H

#include "sweep/space/axis.h"
#include "sweep/sample/method.h"
#include "sweep/sample/tpe/loops.h"

enum { SWP_TPE_GOOD_MAX = 25, SWP_TPE_GOOD_ROOM = 32 /* a multiple of the lanes */ };

struct swp_tpe_axis {
    struct swp_axis a;
    bool            is_joint;
    double         *units;                 /* by row: its value in units (a category: its index); NaN: not active */
    double         *inv, *linear, *square; /* scratch by row, of the joint model: 1 / deviation, and the parts of its exponent */
    MT_VEC(uint32_t) sorted;               /* rows in which it is active, by value; only where it is numeric */
};

/* Kernels of one set. The joint model's lie by row, those of one axis by value. */
struct swp_tpe_set {
    const double *units[MT_SWEEP_PARAMS_MAX];                                       /* by joint axis; one axis: only [0] */
    double       *inv[MT_SWEEP_PARAMS_MAX];                                         /* the same: 1 / deviation */
    double       *linear[MT_SWEEP_PARAMS_MAX], *square[MT_SWEEP_PARAMS_MAX], *rest; /* joint model only: loops->part */
    double       *weight;  /* with all factors that don't depend on the candidate */
    double       *shares;  /* one axis, a category: probability of each choice */
    double        prior;   /* weight of the prior's kernel */
    size_t        n;       /* padded */
    size_t        kernels; /* without the prior's */
};

struct swp_tpe {
    const struct swp_tpe_loops *loops;
    struct swp_tpe_axis        *axes;
    uint32_t                    axis_count;
    uint32_t                    joint[MT_SWEEP_PARAMS_MAX], joint_count; /* axes */
    int                         axis_of[MT_SWEEP_PARAMS_MAX];            /* by parameter; -1: none */
    MT_VEC(uint32_t) best;                                               /* finished rows, the best first */
    uint8_t  *is_good;                                                   /* by row; scratch, all 0 between calls */
    double   *weight, *inv, *temp, *units;                               /* scratch by row */
    uint32_t *order;
    double   *good;      /* scratch: SWP_TPE_GOOD_ROOM doubles for each column of the good ones' set */
    double   *shares[2]; /* scratch by choice */
    size_t    capacity;  /* of what is by row; a multiple of the lanes */
    uint32_t  good_count;
};

/* Marks the good rows in is_good; swp_tpe_unmark undoes it. The functions below need the marks. */
void swp_tpe_mark(struct swp_sampler *s);
void swp_tpe_unmark(struct swp_sampler *s);

/* The two sets of the joint model, or of one axis; both valid until the other kind is made, or a row is. */
void swp_tpe_joint_sets(struct swp_sampler *s, struct swp_tpe_set *out_good, struct swp_tpe_set *out_rest);
void swp_tpe_axis_sets(struct swp_sampler *s, const struct swp_tpe_axis *axis, struct swp_tpe_set *out_good,
                       struct swp_tpe_set *out_rest);
/* Density of the set at a candidate: units by joint axis, or of the one axis. */
double swp_tpe_joint_density(struct swp_sampler *s, const struct swp_tpe_set *set, const double *candidate);
double swp_tpe_axis_density(struct swp_sampler *s, const struct swp_tpe_axis *axis, const struct swp_tpe_set *set, double unit);

/* What a suggestion maximises: log good(x) - log rest(x) of a whole point, under the joint model or that of one axis. */
double swp_tpe_joint_score(struct swp_sampler *s, const struct swp_point *point);
double swp_tpe_axis_score(struct swp_sampler *s, uint32_t axis, double value);

#endif
