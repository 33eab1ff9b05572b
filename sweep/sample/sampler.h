/* SPDX-License-Identifier: Apache-2.0
 *
 * sampler.h - where the next trial looks: a state machine without I/O, clock or thread.
 *
 * The state is a function of the sequence of events (suggest, restore, tell, know), and each draw takes its random numbers from
 * a stream keyed by (seed, trial). So a replay of a journal's events reproduces every draw, and where results are told in the
 * order of trials a sweep that was killed and resumed equals the one that was not.
 *
 *   suggest(trial)                the next point; the trial now counts as running
 *   restore(trial, point)         the same, with a point that is already known: nothing is computed
 *   tell(trial, outcome)          the trial ended
 *   know(point, outcome)          a result from elsewhere: warm start
 *
 * Numbers of trials are the caller's, each used once; suggest calls should come in the order of numbers (SOBOL and GRID take
 * their place in the sequence from the number, so a gap is a gap). Points that the user gives come first, as trials 0, 1, ...
 *
 * GRID parameters of a space take combination (trial mod swp_space_grid_size()) whatever the sampler, so that N trials over a
 * grid of K combinations repeat each N / K times with the other parameters drawn anew.
 *
 *   RANDOM   each parameter from its own distribution
 *   GRID     every combination once, then EEND: choices, ints, steps, `points` of continuous parameters
 *   SOBOL    Sobol sequence (Joe and Kuo 2008), scrambled (Owen, by hashing) unless `plain`
 *   TPE      tree of Parzen estimators: Optuna's definition, its or Hyperopt's defaults
 *   CMAES    CMA-ES (Hansen, arXiv 1604.00772), with negative weights; of numbers that are always active: other parameters are
 *            drawn as RANDOM does
 *   GP       a Gaussian process with expected improvement: Optuna's definition
 *
 * Thread: one at a time. No call blocks.
 */
#ifndef SWP_SAMPLER_H
#define SWP_SAMPLER_H

#include "sweep/space/space.h"

/* X(name, text) */
/* clang-format off */
#define SWP_SAMPLERS(X) \
    X(RANDOM, random)   \
    X(GRID, grid)       \
    X(SOBOL, sobol)     \
    X(TPE, tpe)         \
    X(CMAES, cmaes)     \
    X(GP, gp)
/* clang-format on */

enum swp_sampler_kind {
#define X(name, text) SWP_SAMPLER_##name,
    SWP_SAMPLERS(X)
#undef X
        SWP_SAMPLER_COUNT
};
const char *swp_sampler_text(enum swp_sampler_kind kind);

struct swp_sampler_opts {
    enum swp_sampler_kind kind;
    bool                  maximize; /* else the smallest value is the best */
    /* TPE, CMAES, GP: this many finished trials are drawn at random first. 0: 10 (TPE, GP), 20 (Hyperopt's TPE), 1 (CMAES). */
    uint32_t startup;
    /* TPE */
    bool hyperopt;    /* Hyperopt's defaults: fewer good ones, and what the next two say */
    bool independent; /* one model a parameter; else one over all together (Optuna's multivariate, default since 5) */
    /* TPE, GP: running trials are not counted; else, of TPE, as bad ones (Optuna's constant_liar, default since 5), of GP as if
     * they had the best value so far. */
    bool     no_liar;
    uint32_t candidates;   /* drawn from the good ones' model, 0: 24 */
    double   prior_weight; /* 0: 1 */
    /* CMAES */
    double   sigma0;     /* first deviation in parts of the range; 0: 1/6 */
    uint32_t population; /* 0: 4 + floor(3 ln n) */
    /* SOBOL */
    bool plain; /* not scrambled: point 0 is the corner */
    /* Points to be tried first; copied. */
    const struct swp_point *first;
    uint32_t                first_count;
};

enum swp_outcome_kind {
    SWP_COMPLETE, /* ran to its end */
    SWP_PRUNED,   /* was stopped early by a scheduler, at `step` with `value` */
    SWP_FAILED,   /* without a value, or will never run */
};
struct swp_outcome {
    enum swp_outcome_kind kind;
    double value; /* NaN and infinities on the good side are a failure; infinities on the bad side are the worst value */
    double step;  /* of PRUNED: how far it came; one that came further is better */
};

/* Reads "tpe" or "tpe,startup=20,independent": a name, then options as they are called above (without `first` and `maximize`).
 * What is not named is zero. EINVAL with *out_problem: an unknown name or option, a value that is no number. */
MT_MUST_USE mt_status swp_sampler_opts_parse(const char *text, struct swp_sampler_opts *out_opts, struct swp_problem *out_problem);

struct swp_sampler;

/* The space must outlive the sampler. EINVAL with *out_problem: an option makes no sense, a first point is not of the space, grid
 * over a continuous parameter without `points`, or of more than MT_SWEEP_GRID_MAX combinations. ENOMEM. */
MT_MUST_USE mt_status swp_sampler_new(const struct swp_sampler_opts *opts, const struct swp_space *space, uint64_t seed,
                                      struct swp_sampler **out_sampler, struct swp_problem *out_problem);
void                  swp_sampler_free(struct swp_sampler *sampler);

/* How many trials this sampler has points for (GRID: first points included); UINT64_MAX: no end. */
uint64_t swp_sampler_trials(const struct swp_sampler *sampler);

/* Whether results change what is suggested: then suggesting far ahead makes worse points. */
bool swp_sampler_is_adaptive(const struct swp_sampler *sampler);

/* EEND: every combination of the grid was given. EUNSCHEDULABLE: no point met the constraints in MT_SWEEP_DRAWS_MAX draws. EEXIST:
 * this trial has a point already. ENOMEM. After an error nothing has changed. */
MT_MUST_USE mt_status swp_sampler_suggest(struct swp_sampler *sampler, uint64_t trial, struct swp_point *out_point);
/* The point must be what suggest gave (or, for an added trial, any of the space). EINVAL: it is none; EEXIST, ENOMEM. */
MT_MUST_USE mt_status swp_sampler_restore(struct swp_sampler *sampler, uint64_t trial, const struct swp_point *point);
/* ENOENT: no such trial is running. ENOMEM. */
MT_MUST_USE mt_status swp_sampler_tell(struct swp_sampler *sampler, uint64_t trial, const struct swp_outcome *outcome);
/* EINVAL: the point is not of the space. ENOMEM. */
MT_MUST_USE mt_status swp_sampler_know(struct swp_sampler *sampler, const struct swp_point *point,
                                       const struct swp_outcome *outcome);

#endif
