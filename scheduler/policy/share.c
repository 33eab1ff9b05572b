/* SPDX-License-Identifier: Apache-2.0
 *
 * share.c - see share.h.
 */
#include "scheduler/policy/share.h"

#include <float.h>

enum { HALVINGS_MAX = 400 };

double policy_share_scale(int64_t ms, int64_t half_life_ms)
{
    const int64_t most = HALVINGS_MAX * half_life_ms;
    ms = ms > most ? most : ms < -most ? -most : ms;
    int64_t whole = ms / half_life_ms;
    double  part = (double)(ms % half_life_ms) / (double)half_life_ms * 0.69314718055994530942, scale = 1, term = 1;
    for (int i = 1; i < 20; i++) { /* e to the part, which is between -0.7 and 0.7 */
        term *= part / i;
        scale += term;
    }
    for (; whole > 0; whole--)
        scale *= 2;
    for (; whole < 0; whole++)
        scale /= 2;
    return scale;
}

double policy_share_of(double usage, uint64_t weight_milli)
{
    return weight_milli ? usage / (double)weight_milli : DBL_MAX;
}
