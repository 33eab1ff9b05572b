/* SPDX-License-Identifier: Apache-2.0
 *
 * stopper.h - when a trial, or the whole sweep, has had enough: plateaus, thresholds, time and steps, alone or together.
 *
 * A state machine like the scheduler: its answers are a function of the reports, with the time in them.
 *
 *   what                stops    when
 *   STEPS               a trial  it has reported a step >= `limit`
 *   THRESHOLD           a trial  its value is `value` or better (`worse`: or worse)
 *   TRIAL_TIME          a trial  it has run for `limit` seconds
 *   TRIAL_PLATEAU       a trial  after `grace` reports, the deviation of its last `window` values is <= `tolerance` (and its value
 *                                is `value` or better, where has_value says so)
 *   SWEEP_TIME          all      the sweep has run for `limit` seconds
 *   SWEEP_PLATEAU       all      the deviation of the best `window` values is <= `tolerance`, `patience` reports in a row
 *   SWEEP_THRESHOLD     all      a value is `value` or better
 *
 * Thread: one at a time. No call blocks.
 */
#ifndef SWP_STOPPER_H
#define SWP_STOPPER_H

#include "sweep/space/space.h"

/* X(name, text) */
/* clang-format off */
#define SWP_STOPS(X)                      \
    X(STEPS, "steps")                     \
    X(THRESHOLD, "threshold")             \
    X(TRIAL_TIME, "trial_time")           \
    X(TRIAL_PLATEAU, "trial_plateau")     \
    X(SWEEP_TIME, "sweep_time")           \
    X(SWEEP_PLATEAU, "sweep_plateau")     \
    X(SWEEP_THRESHOLD, "sweep_threshold")
/* clang-format on */

enum swp_stop_kind {
#define X(name, text) SWP_STOP_##name,
    SWP_STOPS(X)
#undef X
        SWP_STOP_COUNT
};

/* One rule. Zero means the default that stands beside it. */
struct swp_stop {
    enum swp_stop_kind kind;
    double             limit; /* STEPS: steps; *_TIME: seconds; > 0 */
    double             value; /* *_THRESHOLD; TRIAL_PLATEAU with has_value */
    bool               has_value;
    bool               worse;     /* THRESHOLD */
    double             tolerance; /* TRIAL_PLATEAU 0.01, SWEEP_PLATEAU 0.001 */
    uint32_t           window;    /* TRIAL_PLATEAU 4, SWEEP_PLATEAU 10 */
    uint32_t           grace;     /* TRIAL_PLATEAU 4 */
    uint32_t           patience;  /* SWEEP_PLATEAU 0: at once */
};

enum swp_stop_what { SWP_STOP_NOTHING, SWP_STOP_TRIAL, SWP_STOP_SWEEP };

/* Reads "steps,limit=100", "threshold,value=0.95" or "trial_plateau,window=6": a name, then options as they are called above
 * (`value` sets has_value). EINVAL with *out_problem: an unknown name or option, no number. */
MT_MUST_USE mt_status swp_stop_opts_parse(const char *text, struct swp_stop *out_rule, struct swp_problem *out_problem);

struct swp_stopper;

/* Rules are joined by "or"; with `all` a trial is stopped only where every rule about trials says so, and the sweep where every
 * rule about it does. EINVAL with *out_problem, ENOMEM. */
MT_MUST_USE mt_status swp_stopper_new(const struct swp_stop *rules, uint32_t count, bool all, bool maximize,
                                      struct swp_stopper **out_stopper, struct swp_problem *out_problem);
void                  swp_stopper_free(struct swp_stopper *stopper);

/* A report of a trial; `trial_s` and `sweep_s` are seconds since each began. SWEEP implies TRIAL. ENOMEM. */
MT_MUST_USE mt_status swp_stopper_report(struct swp_stopper *stopper, uint64_t trial, double step, double value, double trial_s,
                                         double sweep_s, enum swp_stop_what *out_what);
/* The rules about time alone, for moments without a report. */
enum swp_stop_what swp_stopper_tick(const struct swp_stopper *stopper, double trial_s, double sweep_s);
/* Forgets what is kept of a trial that is over. */
void swp_stopper_end(struct swp_stopper *stopper, uint64_t trial);

#endif
