/* SPDX-License-Identifier: Apache-2.0
 *
 * lbfgs.h - the least value of a smooth function between bounds: L-BFGS over the coordinates that are free to move.
 *
 * A coordinate that stands at its bound with the gradient pushing against it is left out of a step; a step ends on the bounds where
 * it would cross them, and is as long as Wolfe's weak conditions ask. Pure function; any thread.
 */
#ifndef SWP_LBFGS_H
#define SWP_LBFGS_H

#include "core/base/limits/sweep.h"

#include <stdbool.h>
#include <stddef.h>

enum { SWP_LBFGS_DIMS_MAX = MT_SWEEP_PARAMS_MAX + 2 };

struct swp_lbfgs {
    size_t        dims;           /* SWP_LBFGS_DIMS_MAX at most */
    const double *low, *high;     /* NULL: no bounds */
    double        gradient_least; /* it ends where no coordinate of the (projected) gradient is above this */
    int           steps_max;
    /* The value at x, and its gradient; NaN and infinity: x is not possible. */
    double (*at)(void *user, const double *x, double *out_gradient);
    void *user;
};

/* Moves x from where it stands; the value there into *out_value. False: x was not possible to begin with. */
bool swp_lbfgs_least(const struct swp_lbfgs *problem, double *x, double *out_value);

#endif
