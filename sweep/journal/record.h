/* SPDX-License-Identifier: Apache-2.0
 *
 * record.h - what a sweep's journal is made of: one record for each thing that has happened and lasts.
 */
#ifndef SWP_RECORD_H
#define SWP_RECORD_H

#include "sweep/sample/sampler.h"

enum swp_record_kind {
    SWP_REC_OPEN = 1, /* a driver began; the first one, and after each resume */
    SWP_REC_SUGGEST,  /* text: the point */
    SWP_REC_REPORT,   /* step, value; code: ms of this run; text: name of another metric than the sweep's, else NULL */
    SWP_REC_FAIL,     /* an attempt failed, and there will be another; text: why, and the end of its log */
    SWP_REC_END,      /* code: enum swp_outcome_kind; step, value; text: why it failed */
    SWP_REC_RESUME,
    SWP_REC_CLONE,   /* step: from which trial; code: whether it was done; text: the new point */
    SWP_REC_CONTROL, /* code: enum swp_control; step: its value */
};
struct swp_record {
    enum swp_record_kind kind;
    int32_t              code;
    uint64_t             seq;   /* from 1, without gaps */
    int64_t              trial; /* -1: none */
    double               at;    /* seconds that the sweep has been under way, in all drivers together */
    int64_t              step;
    double               value;
    const char          *text; /* NULL: none; of an order: freed by whoever takes the order */
};

/* An outcome more than the sampler knows: drawn, but the sweep was over before it began. */
enum { SWP_DROPPED = SWP_FAILED + 1 };

/* As in manta_sweep.h, and one of our own. */
enum swp_control {
    SWP_CONTROL_STOP = 1,
    SWP_CONTROL_PAUSE,
    SWP_CONTROL_GO,
    SWP_CONTROL_STOP_TRIAL,
    SWP_CONTROL_TRIALS,
    SWP_CONTROL_TIME,
    SWP_CONTROL_OVER,   /* time is up (value 1), or a stopper stopped all: what is under way is stopped, nothing is begun */
    SWP_CONTROL_POINTS, /* another program samples, and has said that there are no more points than so many */
};

#endif
