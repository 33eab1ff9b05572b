/* SPDX-License-Identifier: Apache-2.0
 *
 * timer.h - what is due at a time. core.c looks at the kind, and calls the room that it is for.
 */
#ifndef RLT_STATE_TIMER_H
#define RLT_STATE_TIMER_H

#include "core/ds/heap.h"

enum rlt_timer_kind {
    RLT_TIMER_LOOK, /* something may be granted now */
    RLT_TIMER_PROC,
    RLT_TIMER_JOB,
    RLT_TIMER_LEASE,
    RLT_TIMER_PEER,
    RLT_TIMER_STREAM,
    RLT_TIMER_REPORT,
    RLT_TIMER_PATIENCE,
    RLT_TIMER_ALONE,
    RLT_TIMER_SUBMITTED,
    RLT_TIMER_WORDS,
    RLT_TIMER_DRAIN,
    RLT_TIMER_ORPHAN,
    RLT_TIMER_USAGE,
};

struct rlt_timer {
    mt_heap_node        node;
    enum rlt_timer_kind kind;
};

#endif
