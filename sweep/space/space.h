/* SPDX-License-Identifier: Apache-2.0
 *
 * space.h - what a sweep varies: parameters, when each is active, what must hold between them; and points in it.
 *
 * A space is checked once, when it is made, and never changes. A point is one number a parameter, in the order of the
 * parameters: the number itself where the parameter is numeric, the index of the choice where it has choices, and NaN where it
 * is not active. So a point is copied and stored as plain doubles, and its text (JSON) names parameters and choices.
 *
 *   kind           values                                                 with step
 *   UNIFORM        low <= x < high                                        low, low + step, ... <= high
 *   LOG_UNIFORM    the same, uniform in log x; low > 0                    drawn in log x, then the nearest of those
 *   NORMAL         mean, sd; every number                                 the nearest multiple of step
 *   LOG_NORMAL     exp of such a number; > 0                              the nearest multiple of step, 0 included
 *   INT, LOG_INT   low, low + step, ... <= high; both ends included (step 0 is 1; LOG_INT has low >= 1 and step 1, and is uniform
 *                  in the logarithm of [low - 1/2, high + 1/2])
 *   CATEGORICAL    one of the choices, which have no order
 *   ORDINAL        one of the choices, in their order: near ones are alike
 *   GRID           each of the choices in turn: see sampler.h
 *   CONSTANT       the one choice
 *
 * A parameter with a condition is active where its parent is active and has one of the named values; the parent may itself have
 * a condition, so that conditions make trees. A linear constraint is sum(factor * value) <= bound over numeric parameters; one
 * that names an inactive parameter holds. The callback sees the whole point.
 *
 * Thread: any; a space is immutable. Errors name the parameter (struct swp_problem).
 */
#ifndef SWP_SPACE_H
#define SWP_SPACE_H

#include "core/base/buf.h"
#include "core/text/json.h"
#include "core/base/limits/sweep.h"
#include "core/base/limits/text.h"
#include "core/base/rng.h"
#include "core/base/status.h"

#include <stdbool.h>

/* X(name, text): the text stands in JSON and in configuration files. */
/* clang-format off */
#define SWP_KINDS(X)              \
    X(UNIFORM, "uniform")         \
    X(LOG_UNIFORM, "loguniform")  \
    X(NORMAL, "normal")           \
    X(LOG_NORMAL, "lognormal")    \
    X(INT, "int")                 \
    X(LOG_INT, "logint")          \
    X(CATEGORICAL, "categorical") \
    X(ORDINAL, "ordinal")         \
    X(GRID, "grid")               \
    X(CONSTANT, "constant")
/* clang-format on */

enum swp_kind {
#define X(name, text) SWP_##name,
    SWP_KINDS(X)
#undef X
        SWP_KIND_COUNT
};
/* The text of a kind ("loguniform"); NULL for a number that is none. */
const char *swp_kind_text(enum swp_kind kind);
/* False where no kind has this text. */
bool swp_kind_parse(const char *text, enum swp_kind *out_kind);

struct swp_param {
    const char              *name; /* 1 to MT_NAME_BYTES_MAX - 1 bytes, unique */
    enum swp_kind            kind;
    double                   low, high; /* UNIFORM ... LOG_INT */
    double                   step;      /* 0: not quantised */
    double                   mean, sd;  /* NORMAL, LOG_NORMAL (of the logarithm) */
    const struct mt_literal *choices;   /* CATEGORICAL ... CONSTANT; 1 and 1.0 are different ones */
    uint32_t                 choice_count;
    uint32_t                 points; /* of a continuous parameter in an exhaustive grid, ends included; 0: grid refuses it */
    /* Active only where `parent` has one of `when`; NULL: always. The parent is of a kind with choices, or INT. */
    const char              *parent;
    const struct mt_literal *when;
    uint32_t                 when_count;
};

struct swp_term {
    const char *name;
    double      factor;
};
struct swp_constraint { /* sum(factor * value) <= bound */
    const struct swp_term *terms;
    uint32_t               term_count;
    double                 bound;
};

struct swp_space;
/* One double a parameter, as described above; only the first swp_space_count() mean something. */
struct swp_point {
    double values[MT_SWEEP_PARAMS_MAX];
};

/* What a user writes; borrowed for the call that takes it. */
struct swp_space_def {
    const struct swp_param      *params;
    uint32_t                     param_count;
    const struct swp_constraint *constraints;
    uint32_t                     constraint_count;
    /* NULL: none. Must be pure: a resumed sweep asks it again. Not part of JSON and difference. */
    bool (*allows)(void *user, const struct swp_space *space, const struct swp_point *point);
    void *user; /* must outlive the space */
};

/* Why something of the user's was refused, for people: written only on failure. */
struct swp_problem {
    char param[MT_NAME_BYTES_MAX]; /* the parameter, option or constraint that is wrong; "" where it is none of them */
    char text[MT_ERROR_BYTES_MAX]; /* a sentence that names it too */
};

/* ---- the space ---- */

/* Checks and copies; the caller frees with swp_space_free. EINVAL with *out_problem: no parameter at all, a bad or double name, a
 * bound that is NaN or infinite, low >= high (an INT may have low == high), a step that is negative or wider than the range, no
 * or double choices, an unknown or circular parent, a value that the parent never has, constraints that no point can meet.
 * ENOMEM. */
MT_MUST_USE mt_status swp_space_new(const struct swp_space_def *def, struct swp_space **out_space, struct swp_problem *out_problem);
void                  swp_space_free(struct swp_space *space);

uint32_t swp_space_count(const struct swp_space *space);
/* The parameter as it was defined (defaults filled in, an uneven high moved down onto a step); lives as long as the space. */
const struct swp_param *swp_space_param(const struct swp_space *space, uint32_t index);
/* Index of the parameter of this name; -1 where there is none. */
int swp_space_find(const struct swp_space *space, const char *name);
/* Index of the parameter that this one is conditional on; -1: it is always active. */
int swp_space_parent(const struct swp_space *space, uint32_t index);
/* Combinations of the GRID parameters; 1 without any. */
uint64_t swp_space_grid_size(const struct swp_space *space);

/* Appends canonical JSON: equal spaces (callback aside) give equal bytes. ENOMEM. */
MT_MUST_USE mt_status swp_space_to_json(const struct swp_space *space, mt_buf *out);
/* Makes a space of what swp_space_to_json wrote. ECORRUPT or EINVAL with *out_problem, ENOMEM. */
MT_MUST_USE mt_status swp_space_from_json(mt_view json, struct swp_space **out_space, struct swp_problem *out_problem);
/* Appends one line for people for each parameter or constraint that was added, removed or changed; nothing where the
 * spaces are equal. ENOMEM. */
MT_MUST_USE mt_status swp_space_diff(const struct swp_space *before, const struct swp_space *now, mt_buf *out);

/* ---- points ---- */

/* Is this parameter active in the point? */
static inline bool swp_point_has(const struct swp_point *point, uint32_t index)
{
    return point->values[index] == point->values[index];
}
/* Makes NaN of what is not active by the conditions. A parameter that becomes active keeps whatever stands there. */
void swp_point_prune(const struct swp_space *space, struct swp_point *point);
/* The point is one of the space: active values within bounds and on their steps, the others NaN, constraints met. EINVAL with
 * *out_problem. */
MT_MUST_USE mt_status swp_point_check(const struct swp_space *space, const struct swp_point *point,
                                      struct swp_problem *out_problem);
/* Only the constraints and the callback. */
bool swp_point_allowed(const struct swp_space *space, const struct swp_point *point);
/* Same parameters active, with the same values. */
bool swp_point_equal(const struct swp_space *space, const struct swp_point *a, const struct swp_point *b);

/* The chosen literal of an active parameter: of numeric kinds INT (INT, LOG_INT) or REAL. */
struct mt_literal swp_point_literal(const struct swp_space *space, const struct swp_point *point, uint32_t index);

/* Appends {"name":value,...}: active parameters in their order, doubles so that they come back bit for bit. ENOMEM. */
MT_MUST_USE mt_status swp_point_to_json(const struct swp_space *space, const struct swp_point *point, mt_buf *out);
/* Reads such text, in any order of names. EINVAL with *out_problem: not JSON, unknown or double name, value out of bounds, active
 * parameter missing (constants may be). With `fill` != NULL missing ones are drawn from it: points that a user gives first need
 * not name all. */
MT_MUST_USE mt_status swp_point_from_json(const struct swp_space *space, mt_view json, mt_rng *fill, struct swp_point *out_point,
                                          struct swp_problem *out_problem);

/* ---- for samplers ---- */

/* One value of one parameter from its own distribution; GRID: any of its choices. */
double swp_param_draw(const struct swp_param *param, mt_rng *rng);
/* Where u in [0, 1) lies in the parameter's distribution: its inverse cumulative distribution, onto steps and choices. */
double swp_param_at(const struct swp_param *param, double u);
/* The value of the parameter that lies nearest to x: within bounds, on a step, an index of a choice. */
double swp_param_snap(const struct swp_param *param, double x);
/* Number of values that a discrete parameter has; 0: it is continuous. */
uint64_t swp_param_values(const struct swp_param *param);
/* Draws every parameter but GRID ones (which keep what stands in *point), prunes, and draws again until the constraints are met.
 * EUNSCHEDULABLE: MT_SWEEP_DRAWS_MAX draws met none. */
MT_MUST_USE mt_status swp_space_draw(const struct swp_space *space, mt_rng *rng, struct swp_point *point);
/* Sets the GRID parameters to combination number `index` mod swp_space_grid_size(); the first parameter varies slowest. */
void swp_space_grid_at(const struct swp_space *space, uint64_t index, struct swp_point *point);

/* Uniform in [0, 1) with 53 bits; a standard normal number. */
double swp_rng_real(mt_rng *rng);
double swp_rng_normal(mt_rng *rng);
/* What a draw's random numbers are for: streams of one trial (of importance: of one tree) that may not be alike. */
enum swp_purpose { SWP_FOR_RANDOM = 1, SWP_FOR_METHOD, SWP_FOR_SCHEDULER, SWP_FOR_IMPORTANCE };
/* The random stream of one draw: a function of the seed, the trial and the purpose only. */
mt_rng swp_rng_of(uint64_t seed, uint64_t trial, uint64_t purpose);

#endif
