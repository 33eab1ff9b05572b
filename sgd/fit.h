/* SPDX-License-Identifier: Apache-2.0
 *
 * fit.h - a training run as its driver sees it.
 *
 *            hire all                   all back, rank 0 has finished
 *   (begin) ----------> generation g --------------------------------> (done)
 *                        |        ^
 *   somebody died:       v        |  dead ranks filled, everybody has orders for g + 1
 *   abort g            ABORTED ---'  once each member of g is back or dead
 *
 * Thread: the caller's of manta_sgd_fit.
 */
#ifndef SGD_FIT_H
#define SGD_FIT_H

#include "sgd/board.h"
#include "sgd/crew.h"
#include "sgd/setup.h"

/* From the first death until a step is completed again. */
struct sgd_recovering {
    bool            is_open;
    int             lost;
    int64_t         detected_ns, back_ns, placed_ns;
    bool            is_going; /* the step is done, but not all the replacements' own times are known yet */
    struct sgd_note going;
};

struct sgd_fit {
    const manta_sgd_opts *opts;
    struct sgd_setup      setup;
    struct sgd_crew       crew;
    int                   workers;
    uint32_t              generation;
    bool                  is_going;   /* this generation has made its first step */
    int64_t               aborted_ns; /* 0: this generation lives */
    int                   failures;   /* generations that ended before the run was done */
    int                   failed_starts, failed_spares; /* that died before they had started, in a row */
    manta_error           last_death;
    int                   last_rank;
    uint64_t              cursor; /* of the board */
    uint64_t              reported_step; /* of the last report of progress, and when */
    int64_t               reported_ns;
    struct sgd_recovering recovering;
    bool                  has_begun; /* result.first_step is set */
    manta_sgd_result      result;
};

/* fit_report.c: what the user is told. */
void sgd_fit_tell_worker(struct sgd_fit *fit, const struct sgd_hand *hand);
void sgd_fit_tell_lost(struct sgd_fit *fit, const struct sgd_hand *hand);
/* Reads the board and passes on what it says. */
void sgd_fit_read_notes(struct sgd_fit *fit);
/* Measures a recovery that has ended and says so; not yet, where a replacement has not said how it started. */
void sgd_fit_close_recovery(struct sgd_fit *fit);

#endif
