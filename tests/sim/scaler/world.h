/* SPDX-License-Identifier: Apache-2.0
 *
 * world.h - the world of sim_scaler: what main.c and load.c share.
 */
#ifndef SIM_SCALER_WORLD_H
#define SIM_SCALER_WORLD_H

#include "scheduler/scaler/scaler.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum {
    THINGS_MAX = 4096,
    JOBS_MAX = 64,
    RECORDS_MAX = 1024,
    GANG_MAX = 3,
    WISHERS_MAX = 4,
    UNITS_MAX = 6,
    TOGETHER_MAX = 6,
    TYPES_MAX = 4,
    STEP_MS = 100,
    FAULTS_END_MS = 90 * 1000,
    JOBS_END_MS = 400 * 1000,
    DOWN_MS = 460 * 1000,
    END_MS = 640 * 1000,
};

struct thing {                          /* at the provider */
    uint64_t number, joins_ms, dies_ms; /* 0: never */
    uint64_t starts_ms;                 /* it waits in a queue until then */
    char     handle[16];
    uint32_t type, node; /* node 0: has not joined */
    bool     runs, was_used, is_draining, was_drained, has_failed;
    uint32_t shown_failed; /* in so many good listings in a row, to one head, while it counted as booting */
    uint64_t kill_ms;
    int64_t  cpus, gpus;
};
struct job {
    bool     is_there;
    uint32_t bundles, places[GANG_MAX]; /* of things + 1; 0: nowhere */
    int64_t  cpus;
    uint64_t ends_ms; /* 0: has not begun */
    uint64_t takes_ms;
};
/* A training: has some units, wishes for more, and takes a free one now and then. That a unit is taken shows at its node at once,
 * and its own word of what it still wishes for comes a little later. */
struct wisher {
    bool     is_there;
    uint32_t most, has, told, places[UNITS_MAX]; /* of things + 1 */
    uint64_t ends_ms, late_ms;                   /* late_ms: its word is on the way until then; 0: it has come */
};
struct answer { /* on its way from the provider */
    bool                is_on;
    enum scl_event_kind kind;
    uint64_t            at_ms, number, sequence;
    enum scl_outcome    outcome;
    char                handle[16];
};

enum { ANSWERS_MAX = 512 };
struct world {
    uint64_t            seed, now;
    mt_rng              rng;
    struct scl         *scl;
    struct scl_actions  actions;
    struct scl_instance records[RECORDS_MAX];
    uint32_t            record_count;
    uint64_t            stored_next;
    struct thing        things[THINGS_MAX];
    uint32_t            thing_count, next_node;
    struct job          jobs[JOBS_MAX];
    uint32_t            job_count;
    struct wisher       wishers[WISHERS_MAX];
    uint32_t            wisher_count;
    struct answer       answers[ANSWERS_MAX];
    struct scl_type     types[TYPES_MAX];                                   /* as the head knows them */
    struct policy_node  is[TYPES_MAX];                                      /* what such a node has */
    uint64_t            out_until[TYPES_MAX], taken_ms[TYPES_MAX], head_ms; /* zones; when this head started */
    uint32_t            type_count, floor, outages;                         /* outages: thousandths of steps */
    bool                is_calm, is_down, wants_tell, has_outages_only;
    uint32_t            refuses, twice, loses, never, fails, dies, bad_lists, slow, kills; /* percent */
    uint32_t            crash_in;                                                          /* store writes; 0: not planned */
    bool                is_after, has_crashed;
    uint64_t            boot_ms, launches, crashes, drains, spares;
    uint32_t            together; /* so many launches that come at once start at once, and end so; 0: each by itself */
    struct scl_instance gathered[TOGETHER_MAX];
    uint32_t            gathered_count;
    uint64_t            consolidate_ms, spared_ms; /* 0: never; when a node in use was given back last */
    int64_t             spared, arrived;           /* CPUs that were in use there, and that have been asked for since */
    const char         *breach;
    char                text[200];
};

static inline bool chance(struct world *w, uint32_t percent)
{
    return mt_rng_below(&w->rng, 100) < percent;
}

/* ---- main.c ---- */

void breach(struct world *w, const char *what, uint64_t a, uint64_t b);
void note(const struct world *w, const char *what, uint64_t a, uint64_t b);

/* ---- load.c: jobs, and trainings that wish for more. Places are numbers of things + 1 ---- */

void job_new(struct world *w);
void wisher_new(struct world *w);
void load_run(struct world *w); /* what waits is placed where there is room, and what has run for long enough ends */
bool load_is_on(const struct world *w, uint32_t place);
bool load_can_move(const struct world *w, uint32_t place);
bool load_wishers_on(const struct world *w, uint32_t place);
void load_wishers_lose(struct world *w, uint32_t place);
void load_check(struct world *w); /* E9 */

#endif
