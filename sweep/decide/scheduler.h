/* SPDX-License-Identifier: Apache-2.0
 *
 * scheduler.h - which trial goes on: a state machine without I/O, clock or thread.
 *
 * The state is a function of the sequence of events (add, report, resume, pause, cloned, end, supply); asking (next) changes
 * nothing. A replay of the events reproduces every decision.
 *
 *   add(trial, point)       a new trial starts running
 *   report(trial, t, value) -> CONTINUE | STOP | PAUSE               t: steps or seconds, whichever the sweep counts in
 *   next()                  -> what to do with a free place, or with a paused trial
 *   resume(trial)           a paused trial runs again, from its checkpoint
 *   cloned(trial)           a paused trial has got another's checkpoint and a new point
 *   end(trial)              a trial is over: it finished, failed for good, or was stopped; a retry of a trial is not an end
 *   supply(more)            whether the sweep can still make new trials (true at first)
 *
 *            add                 PAUSE                    end
 *   (none) ------> RUNNING <-----------------> PAUSED ---------> ENDED
 *                     '------------- end -------------------------^
 *
 * After STOP the trial is still RUNNING for the scheduler until end says that it is over. A trial of PBT that copies another is
 * paused first; next() then says CLONE, before any RESUME, so that the copy is of the checkpoint that the other has now.
 *
 *   FIFO       every trial runs to its end (or to max_t)
 *   MEDIAN     stopped where its best is worse than the median of the others' running means (Tune's median stopping rule)
 *   ASHA       stopped at a rung where it is not among the best 1/eta that came there so far (Tune's form)
 *   ASHA_PROMOTE  pauses at each rung; a free place promotes one of the best 1/eta of a rung, the highest rung first, else starts
 *              a new trial (the paper's form)
 *   HYPERBAND  brackets of trials that wait for each other at milestones; the best 1/eta of a bracket go on (Tune's form)
 *   PBT        the worst copy the best and change what they copied (Tune's form); every trial is one of the population
 *   REPLAY     every trial changes its point where one of a PBT sweep did (Tune's PopulationBasedTrainingReplay)
 *
 * Thread: one at a time. No call blocks.
 */
#ifndef SWP_SCHEDULER_H
#define SWP_SCHEDULER_H

#include "sweep/space/space.h"

/* X(name, text) */
/* clang-format off */
#define SWP_SCHEDULERS(X)         \
    X(FIFO, fifo)                 \
    X(MEDIAN, median)             \
    X(ASHA, asha)                 \
    X(ASHA_PROMOTE, asha_promote) \
    X(HYPERBAND, hyperband)       \
    X(PBT, pbt)                   \
    X(REPLAY, replay)
/* clang-format on */

enum swp_scheduler_kind {
#define X(name, text) SWP_SCHEDULER_##name,
    SWP_SCHEDULERS(X)
#undef X
        SWP_SCHEDULER_COUNT
};
const char *swp_scheduler_text(enum swp_scheduler_kind kind);

/* From `t` on a trial goes on with this point. */
struct swp_turn {
    double           t;
    struct swp_point point;
};

/* Zero means the default that stands beside it. */
struct swp_scheduler_opts {
    enum swp_scheduler_kind kind;
    bool                    maximize;
    double                  max_t;       /* ASHA 100, HYPERBAND 81; others: no end */
    double                  grace;       /* ASHA 1, MEDIAN 60: nothing is stopped before */
    double                  eta;         /* ASHA 4, HYPERBAND 3: reduction factor */
    uint32_t                brackets;    /* ASHA 1 */
    uint32_t                min_samples; /* MEDIAN 3: other trials that must have reported */
    double                  min_slice;   /* MEDIAN 0: time a trial runs at least since it was started or resumed */
    bool                    pauses;     /* MEDIAN: pauses instead of stopping (Tune's hard_stop = False), and yields its place while
                                  there are too few samples; what is paused goes on when nothing else is left to run */
    bool                    runs_on;    /* ASHA, HYPERBAND: what reaches max_t is not stopped (Tune's stop_last_trials = False) */
    double                  interval;   /* PBT 60: between two perturbations of a trial */
    double                  burn_in;    /* PBT 0: none before */
    double                  quantile;   /* PBT 0.25, at most 0.5 */
    double                  resample;   /* PBT 0.25: probability of a new draw; < 0: never */
    double                  factors[2]; /* PBT 1.2 and 0.8 */
    bool                    in_step;    /* PBT: all wait for each other at each interval (Tune's synch) */
    const struct swp_turn  *turns;      /* REPLAY: in order, copied */
    uint32_t                turn_count;
};

enum swp_decision {
    SWP_CONTINUE,
    SWP_STOP,
    SWP_PAUSE, /* it gives its place up and keeps its checkpoint */
};
struct swp_verdict {
    enum swp_decision decision;
    bool              is_full; /* of STOP: it has come to max_t, which is the end of a trial that nothing stops */
    bool              save;    /* others may clone this trial as it is now: keep its checkpoint (PAUSE: needed in any case) */
};

enum swp_action_kind {
    SWP_WAIT,   /* nothing, until another event */
    SWP_START,  /* make a new trial and add it (never where supply is false) */
    SWP_RESUME, /* of `trial` */
    SWP_DROP,   /* `trial` is paused and will never go on: end it. Needs no place */
    SWP_CLONE,  /* `trial` is paused: give it the newest checkpoint of `from`, and `point`; say so by cloned. Needs no place */
};
struct swp_action {
    enum swp_action_kind kind;
    uint64_t             trial;
    uint64_t             from;  /* CLONE; it may have ended by now, but its checkpoint is still wanted */
    struct swp_point     point; /* CLONE */
};

/* Reads "asha" or "asha,max_t=100,eta=3": a name, then options as they are called above (without `maximize`; factors as
 * factor_up and factor_down). What is not named is zero. EINVAL with *out_problem: an unknown name or option, no number. */
MT_MUST_USE mt_status swp_scheduler_opts_parse(const char *text, struct swp_scheduler_opts *out_opts,
                                               struct swp_problem *out_problem);

struct swp_scheduler;

/* The space must outlive the scheduler; only PBT looks into it. EINVAL with *out_problem: an option makes no sense. ENOMEM. */
MT_MUST_USE mt_status swp_scheduler_new(const struct swp_scheduler_opts *opts, const struct swp_space *space, uint64_t seed,
                                        struct swp_scheduler **out_scheduler, struct swp_problem *out_problem);
void                  swp_scheduler_free(struct swp_scheduler *scheduler);
/* Whether trials may be paused or cloned, so that they need checkpoints. */
bool swp_scheduler_needs_saves(const struct swp_scheduler *scheduler);

/* EEXIST: it was added before; ENOMEM. */
MT_MUST_USE mt_status swp_scheduler_add(struct swp_scheduler *scheduler, uint64_t trial, const struct swp_point *point);
/* A t that is not above the trial's last one (a retry repeats its steps) gives CONTINUE and changes nothing. A NaN value counts
 * as the worst. ENOENT: no such trial is running; EINVAL: t is NaN, infinite or negative; ENOMEM. */
MT_MUST_USE mt_status swp_scheduler_report(struct swp_scheduler *scheduler, uint64_t trial, double t, double value,
                                           struct swp_verdict *out_verdict);
/* A report of this running trial with a t below this gives CONTINUE for sure, so its trial need not wait for the answer; it
 * must be told all the same, in its order. INFINITY: none ever gives anything else. */
double swp_scheduler_next_t(const struct swp_scheduler *scheduler, uint64_t trial);
/* What to do now; `has_place` false: only what needs none (DROP, CLONE, WAIT). Changes nothing: the same again until an event. */
struct swp_action swp_scheduler_next(const struct swp_scheduler *scheduler, bool has_place);
/* ENOENT: no such trial is paused. */
MT_MUST_USE mt_status swp_scheduler_resume(struct swp_scheduler *scheduler, uint64_t trial);
/* A CLONE was done, or (`done` false: that checkpoint is lost) the trial keeps its own and its point. ENOENT: none was due. */
MT_MUST_USE mt_status swp_scheduler_cloned(struct swp_scheduler *scheduler, uint64_t trial, bool done);
/* ENOENT: no such trial is running or paused. */
MT_MUST_USE mt_status swp_scheduler_end(struct swp_scheduler *scheduler, uint64_t trial, bool failed);
/* No change where it is what was said last. */
void swp_scheduler_supply(struct swp_scheduler *scheduler, bool more);

#endif
