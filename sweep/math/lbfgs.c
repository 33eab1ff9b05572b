/* SPDX-License-Identifier: Apache-2.0
 *
 * lbfgs.c - limited-memory BFGS (Nocedal and Wright, algorithm 7.4) with projected steps; the line search is Lewis and Overton's
 * bisection. Owns nothing. Thread: any.
 */
#include "sweep/math/lbfgs.h"

#include <float.h>
#include <math.h>
#include <string.h>

enum { MEMORY = 10, SEARCH_MAX = 20 };
#define VALUE_LEAST (1e7 * DBL_EPSILON) /* a step that gains less than this part of the value is the last */
#define ARMIJO      1e-3
#define CURVATURE   0.9

struct pair {
    double s[SWP_LBFGS_DIMS_MAX], y[SWP_LBFGS_DIMS_MAX];
};

struct state {
    const struct swp_lbfgs *p;
    double                 *x, value, gradient[SWP_LBFGS_DIMS_MAX], direction[SWP_LBFGS_DIMS_MAX];
    bool                    is_free[SWP_LBFGS_DIMS_MAX];
    struct pair             pairs[MEMORY];
    size_t                  pair_count, pair_next; /* the newest stands before pair_next */
};

static double clip(const struct swp_lbfgs *p, size_t i, double x)
{
    return p->low ? fmin(fmax(x, p->low[i]), p->high[i]) : x;
}

/* Which coordinates may move; the largest that the projected gradient has. */
static double look_around(struct state *s)
{
    double largest = 0;
    for (size_t i = 0; i < s->p->dims; i++) {
        double moved = clip(s->p, i, s->x[i] - s->gradient[i]) - s->x[i];
        s->is_free[i] = moved != 0;
        largest = fmax(largest, fabs(moved));
    }
    return largest;
}

static double dot(const struct state *s, const double *a, const double *b)
{
    double total = 0;
    for (size_t i = 0; i < s->p->dims; i++)
        total += s->is_free[i] ? a[i] * b[i] : 0;
    return total;
}

/* direction = -H gradient over the free coordinates, by the two loops over the pairs that still curve upwards there. */
static void choose_direction(struct state *s)
{
    size_t  n = s->p->dims;
    double *d = s->direction, alpha[MEMORY] = {0}, curve[MEMORY] = {0}, scale = 0;
    for (size_t i = 0; i < n; i++)
        d[i] = s->is_free[i] ? -s->gradient[i] : 0;
    for (size_t k = 0; k < s->pair_count; k++) {
        const struct pair *pair = &s->pairs[(s->pair_next + MEMORY - 1 - k) % MEMORY];
        double             square = dot(s, pair->y, pair->y);
        curve[k] = dot(s, pair->s, pair->y);
        if (!(curve[k] > DBL_EPSILON * square)) {
            curve[k] = 0;
            continue;
        }
        scale = scale > 0 ? scale : curve[k] / square;
        alpha[k] = dot(s, pair->s, d) / curve[k];
        for (size_t i = 0; i < n; i++)
            d[i] -= s->is_free[i] ? alpha[k] * pair->y[i] : 0;
    }
    for (size_t i = 0; i < n; i++)
        d[i] *= scale > 0 ? scale : 1;
    for (size_t k = s->pair_count; k-- > 0;) {
        const struct pair *pair = &s->pairs[(s->pair_next + MEMORY - 1 - k) % MEMORY];
        if (curve[k] == 0)
            continue;
        double beta = dot(s, pair->y, d) / curve[k];
        for (size_t i = 0; i < n; i++)
            d[i] += s->is_free[i] ? (alpha[k] - beta) * pair->s[i] : 0;
    }
}

/* Goes along the direction until the value has fallen enough; false: no length does. */
static bool search_line(struct state *s, double length)
{
    const struct swp_lbfgs *p = s->p;
    struct pair            *pair = &s->pairs[s->pair_next];
    double                  x[SWP_LBFGS_DIMS_MAX], gradient[SWP_LBFGS_DIMS_MAX], near = 0, far = INFINITY;
    for (int tries = 0; tries < SEARCH_MAX; tries++) {
        double fall = 0, slope = 0, slope_before = 0;
        bool   is_cut = false;
        for (size_t i = 0; i < p->dims; i++) {
            double whole = s->x[i] + length * s->direction[i];
            x[i] = clip(p, i, whole);
            is_cut |= x[i] != whole;
            fall += s->gradient[i] * (x[i] - s->x[i]);
        }
        double value = p->at(p->user, x, gradient);
        for (size_t i = 0; i < p->dims; i++) {
            slope += gradient[i] * s->direction[i];
            slope_before += s->gradient[i] * s->direction[i];
        }
        if (!(value <= s->value + ARMIJO * fall) || !isfinite(value)) {
            /* The bottom of the parabola through what is known, where it is not too near to an end. */
            double curve = 2 * (value - s->value - fall), ratio = curve > 0 && isfinite(curve) ? -fall / curve : 0.5;
            far = length;
            length = near > 0 ? 0.5 * (near + far) : length * fmin(fmax(ratio, 0.1), 0.5);
        } else if (slope < CURVATURE * slope_before && !is_cut && tries + 1 < SEARCH_MAX) {
            near = length;
            length = isinf(far) ? 2 * length : 0.5 * (near + far);
        } else {
            for (size_t i = 0; i < p->dims; i++) {
                pair->s[i] = x[i] - s->x[i];
                pair->y[i] = gradient[i] - s->gradient[i];
            }
            memcpy(s->x, x, p->dims * sizeof *x);
            memcpy(s->gradient, gradient, p->dims * sizeof *gradient);
            s->value = value;
            return true;
        }
    }
    return false;
}

bool swp_lbfgs_least(const struct swp_lbfgs *problem, double *x, double *out_value)
{
    struct state s = {.p = problem, .x = x};
    s.value = problem->at(problem->user, x, s.gradient);
    if (!isfinite(s.value))
        return false;
    for (int step = 0; step < problem->steps_max && look_around(&s) > problem->gradient_least; step++) {
        double before = s.value;
        choose_direction(&s);
        if (!(dot(&s, s.direction, s.gradient) < 0)) { /* what is remembered misleads */
            s.pair_count = 0;
            choose_direction(&s);
        }
        double length = s.pair_count ? 1 : fmin(1, 1 / sqrt(dot(&s, s.direction, s.direction)));
        if (!search_line(&s, length)) {
            if (s.pair_count == 0)
                break;
            s.pair_count = 0;
            continue;
        }
        s.pair_next = (s.pair_next + 1) % MEMORY;
        s.pair_count = s.pair_count < MEMORY ? s.pair_count + 1 : MEMORY;
        if (before - s.value <= VALUE_LEAST * fmax(fmax(fabs(before), fabs(s.value)), 1))
            break;
    }
    *out_value = s.value;
    return true;
}
