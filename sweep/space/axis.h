/* SPDX-License-Identifier: Apache-2.0
 *
 * axis.h - a parameter as a model sees it: a number in units of its range, or a category.
 *
 * In logarithm where its kind says so; the range is widened by half a step on both sides where it is discrete, so that its bounds
 * are 0 and 1. A normal parameter has no bounds; six deviations count as its range, around 0.5. Choices without an order are
 * categories, those with one are numbered. Pure functions; any thread.
 */
#ifndef SWP_AXIS_H
#define SWP_AXIS_H

#include "sweep/space/space.h"

struct swp_axis {
    uint32_t param;
    bool     is_category, is_bounded, is_log;
    double   low, range; /* in the model's scale; unit = (scale(value) - low) / range */
    double   step;       /* of the value; 0: continuous */
    uint32_t choices;
};

/* False: the parameter is no axis (GRID, CONSTANT). */
bool swp_axis_init(struct swp_axis *axis, const struct swp_space *space, uint32_t param);
/* Of a category both are its index. */
double swp_axis_unit(const struct swp_axis *axis, double value);
double swp_axis_value(const struct swp_axis *axis, double unit);

#endif
