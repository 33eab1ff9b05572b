/* SPDX-License-Identifier: Apache-2.0
 *
 * plan.h - from a user's options to what a sweep is made of: space, sampler, scheduler, stoppers, folder.
 *
 * What may not change while a sweep lasts (space, metric, sampler, ...) is put into its journal when it begins, and compared when
 * it is resumed. Thread: one at a time.
 */
#ifndef SWP_PLAN_H
#define SWP_PLAN_H

#include "sweep/run/ask.h"
#include "sweep/run/driver.h"
#include "sweep/journal/folder.h"
#include "sweep/journal/journal.h"
#include "sweep/manta_sweep.h"

struct swp_plan {
    char                     folder[MT_PATH_BYTES_MAX];
    const char              *trial; /* "" for a command */
    struct swp_space        *space;
    struct swp_sampler      *sampler;
    struct swp_ask          *ask; /* another program as sampler */
    struct swp_scheduler    *scheduler;
    struct swp_stopper      *stopper;
    struct swp_point        *points;
    struct swp_turn         *turns; /* of opts.replay */
    uint32_t                 turn_count;
    struct swp_driver_config config; /* but for slots */
};

/* EINVAL, ENOMEM: *e says what is wrong. End with swp_plan_fini in any case. */
manta_status swp_plan_make(struct swp_plan *plan, const char *trial, const manta_sweep_opts *opts, manta_error *e);
void         swp_plan_fini(struct swp_plan *plan);

/* Writes down what the sweep is, or compares: EINVAL where it was begun as another, with the difference. */
manta_status swp_plan_check(const struct swp_plan *plan, const manta_sweep_opts *opts, struct swp_journal *j, manta_error *e);

/* plan_space.c: a user's space. EINVAL, ENOMEM. */
mt_status swp_plan_space(const manta_sweep_axis *params, const char *const *constraints, struct swp_space **out,
                         struct swp_problem *problem);

/* plan_text.c: rules to stop by. EINVAL with a text that names the option. */
mt_status swp_plan_stops(const char *text, bool maximize, struct swp_stopper **out, struct swp_problem *problem);

#endif
