/* SPDX-License-Identifier: Apache-2.0
 *
 * left.h - what a slot has noted of an attempt that ended while nobody heard it (ends.h), for the driver that comes after.
 */
#ifndef SWP_LEFT_H
#define SWP_LEFT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* An attempt that ended, as its own process has noted it. */
struct swp_left_report {
    int64_t     step;
    double      value;
    const char *metric; /* NULL: the sweep's */
};
struct swp_left {
    int64_t                       trial;
    int                           slot;                 /* that died; -1: of a driver before this one */
    uint32_t                      run;                  /* with a slot: as in the START */
    uint64_t                      ready_seq;            /* as in the START */
    int32_t                       code;                 /* as in FINISHED */
    bool                          is_final, is_stopped; /* is_stopped: it was told to stop, or to pause */
    int64_t                       took_ms;
    const char                   *why;
    const struct swp_left_report *reports; /* all of the attempt, in order */
    size_t                        report_count;
};

#endif
