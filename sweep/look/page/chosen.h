/* SPDX-License-Identifier: Apache-2.0
 *
 * chosen.h - what of a sweep its page carries: a bounded part of any number of trials and reports.
 */
#ifndef SWP_PAGE_CHOSEN_H
#define SWP_PAGE_CHOSEN_H

#include "core/ds/vec.h"
#include "sweep/manta_sweep.h"

enum {
    SWP_PAGE_TRIALS = 3000, /* ... of them the best: */
    SWP_PAGE_TRIALS_BEST = 500,
    SWP_PAGE_CURVES = 200,
    SWP_PAGE_CURVES_BEST = 50,
    SWP_PAGE_STRETCHES = 100, /* of a curve with more than twice as many reports: the least and the greatest of each stay */
    SWP_PAGE_RECORDS = 1000,  /* results that were the best so far; of more the last in each thousandth of the sweep */
    SWP_PAGE_FAILURES = 20
};

struct swp_curve {
    int64_t trial, reports; /* reports: before any were left out */
    MT_VEC(manta_sweep_report) points;
};
typedef MT_VEC(int64_t) swp_numbers;
struct swp_chosen {
    swp_numbers trials;  /* that were completed or stopped early, and have a value; the best first */
    swp_numbers records; /* each better than all before it, in the order of trials */
    swp_numbers failures;
    MT_VEC(struct swp_curve) curves; /* of trials that have not failed, with more than one report of the metric; the best first */
    int64_t valued, curved, failed;  /* how many there are to choose from */
};

/* ENOMEM. Freed by swp_chosen_fini in any case. */
MT_MUST_USE mt_status swp_chosen_make(struct swp_chosen *chosen, const manta_sweep_view *view);
void                  swp_chosen_fini(struct swp_chosen *chosen);

#endif
