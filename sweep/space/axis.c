/* SPDX-License-Identifier: Apache-2.0
 *
 * axis.c - between values of a parameter and units of a model. Owns nothing. Thread: any.
 */
#include "sweep/space/axis.h"

#include <math.h>

bool swp_axis_init(struct swp_axis *axis, const struct swp_space *space, uint32_t param)
{
    const struct swp_param *p = swp_space_param(space, param);
    bool                    is_normal = p->kind == SWP_NORMAL || p->kind == SWP_LOG_NORMAL, is_index = p->kind == SWP_ORDINAL;
    if (p->kind == SWP_GRID || p->kind == SWP_CONSTANT)
        return false;
    *axis = (struct swp_axis){
        .param = param, .is_category = p->kind == SWP_CATEGORICAL, .is_bounded = !is_normal, .choices = p->choice_count};
    axis->is_log = p->kind == SWP_LOG_UNIFORM || p->kind == SWP_LOG_INT || p->kind == SWP_LOG_NORMAL;
    if (is_normal) {
        axis->low = p->mean - 3 * p->sd;
        axis->range = 6 * p->sd;
        return true;
    }
    double low = is_index ? 0 : p->low, high = is_index ? p->choice_count - 1 : p->high;
    axis->step = is_index ? 1 : p->step;
    low -= 0.5 * axis->step;
    high += 0.5 * axis->step;
    if (axis->is_log && low <= 0) /* a step that reaches down to 0 */
        low = 0.5 * p->low;
    axis->low = axis->is_log ? log(low) : low;
    axis->range = (axis->is_log ? log(high) : high) - axis->low;
    return true;
}

double swp_axis_unit(const struct swp_axis *axis, double value)
{
    if (axis->is_category)
        return value;
    return ((axis->is_log ? log(fmax(value, 0x1p-1000)) : value) - axis->low) / axis->range;
}

double swp_axis_value(const struct swp_axis *axis, double unit)
{
    double scaled = axis->low + unit * axis->range;
    return axis->is_category ? unit : axis->is_log ? exp(scaled) : scaled;
}
