/* SPDX-License-Identifier: Apache-2.0
 *
 * method.h - door: what choose/ keeps for every kind, and what each kind (a method) adds.
 *
 * A row is made for each point that was suggested, restored or known, in that order; a method keeps what it needs of the point
 * under the row's number.
 */
#ifndef SWP_SAMPLER_METHOD_H
#define SWP_SAMPLER_METHOD_H

#include "core/ds/map.h"
#include "core/ds/vec.h"
#include "sweep/sample/sampler.h"

enum swp_row_state { SWP_ROW_RUNNING, SWP_ROW_COMPLETE, SWP_ROW_PRUNED, SWP_ROW_FAILED };
struct swp_row {
    double             value; /* the smaller the better, whatever the mode; of COMPLETE and PRUNED */
    double             step;  /* of PRUNED */
    enum swp_row_state state;
    bool               is_known; /* from elsewhere: no trial of this sweep */
};

struct swp_method {
    bool is_adaptive;
    /* Makes s->model. EINVAL with *out_problem, ENOMEM. */
    mt_status (*init)(struct swp_sampler *s, struct swp_problem *out_problem);
    void (*fini)(struct swp_sampler *s);
    /* The point of a trial; GRID parameters stand in it already. May change nothing but scratch memory. */
    mt_status (*draw)(struct swp_sampler *s, uint64_t trial, struct swp_point *point);
    /* A row was made; it is the last. ENOMEM takes it back. */
    mt_status (*added)(struct swp_sampler *s, uint32_t row, const struct swp_point *point);
    /* The row has left RUNNING. */
    void (*told)(struct swp_sampler *s, uint32_t row);
};

struct swp_sampler {
    struct swp_sampler_opts  opts; /* zeros filled in */
    const struct swp_space  *space;
    const struct swp_method *method;
    void                    *model;
    uint64_t                 seed;
    double                  *first; /* opts.first_count points of swp_space_count() doubles */
    MT_VEC(struct swp_row) rows;
    mt_map   by_trial; /* number of the row */
    uint32_t finished; /* rows COMPLETE or PRUNED */
};

#define X(name, text) extern const struct swp_method swp_##text##_method;
SWP_SAMPLERS(X)
#undef X

/* random.c: the whole point as RANDOM draws it, keyed by the trial. */
mt_status swp_sampler_draw_random(struct swp_sampler *s, uint64_t trial, struct swp_point *point);

/* Points of an exhaustive grid; grid.c. */
uint64_t swp_grid_trials(const struct swp_sampler *s);

#endif
