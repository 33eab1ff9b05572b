/* SPDX-License-Identifier: Apache-2.0
 *
 * setup.h - what a training run needs before its first worker: checked options, its folder, its data, its region.
 *
 * Errors of all calls go to *e with a text for people. Calls block on the disk. Thread: the one that trains.
 */
#ifndef SGD_SETUP_H
#define SGD_SETUP_H

#include "core/base/buf.h"
#include "sgd/ground/fail.h"
#include "sgd/manta_sgd.h"
#include "sgd/operator/operator.h"
#include "sgd/run/run.h"

struct sgd_setup {
    struct sgd_run run;
    int            lock_fd; /* of the run's folder, held until sgd_setup_fini; -1: none */
    mt_buf         config;  /* opts.config: each with its end, then an empty one */
    manta_sgd     *op;      /* opened to learn what it is made of; it never trains here */
    manta_ref     *lent;
    double         gpus; /* that each worker reserves */
    manta_region   region;
};

/* EINVAL, ENOENT, EEXIST, ECORRUPT, ENOMEM, ESTORE_FULL, ESYS, ECONN. After an error nothing is held. */
manta_status sgd_setup_init(struct sgd_setup *setup, const char *name, const manta_sgd_opts *opts, manta_error *e);
void         sgd_setup_fini(struct sgd_setup *setup);

/* On how many nodes the workers may be, and on how many they must be. */
int sgd_setup_nodes(const manta_sgd_opts *o);
int sgd_setup_nodes_min(const manta_sgd_opts *o);

/* How many workers there are at least and at most, by the options. */
void sgd_setup_workers(const manta_sgd_opts *o, int *out_min, int *out_max);

/* EINVAL: a word of `reserved` is set somewhere in them: an option of a later release. */
manta_status sgd_opts_known(const manta_sgd_opts *o, const char *call, manta_error *e);
void         sgd_opts_resolve(const manta_sgd_opts *opts, manta_sgd_opts *out);

#endif
