/* SPDX-License-Identifier: Apache-2.0
 *
 * setup.h - what a training run needs before its first worker: checked options, its folder, its data, its region.
 *
 * Errors of all calls go to *e with a text for people. Calls block on the disk. Thread: the one that trains.
 */
#ifndef SGD_SETUP_H
#define SGD_SETUP_H

#include "sgd/manta_sgd.h"
#include "sgd/run.h"

struct sgd_setup {
    struct sgd_run run;
    int            lock_fd; /* of the run's folder, held until sgd_setup_fini; -1: none */
    manta_ref     *train_set, *test_set;
    manta_region   region;
};

/* EINVAL, ENOENT, EEXIST, ECORRUPT, ENOMEM, ESTORE_FULL, ESYS, ECONN. After an error nothing is held. */
manta_status sgd_setup_init(struct sgd_setup *setup, const manta_sgd_opts *opts, manta_error *e);
void         sgd_setup_fini(struct sgd_setup *setup);

/* Fills *e and returns the code. */
manta_status sgd_fail(manta_error *e, manta_status code, const char *format, ...) MT_PRINTF(3, 4);

#endif
