/* SPDX-License-Identifier: Apache-2.0
 *
 * run.h - what the driver of a training run and its workers say to each other.
 *
 *   actor "manta_sgd_worker" (run, train data, test data, region)    loads everything; holds no rank
 *       ready ()                                -> sgd_ready
 *       train (generation, rank, members)       -> sgd_outcome: joins, gets the state, steps until the run is done or
 *                                                  the generation is over
 *
 * A data set is one object: its records, then its labels. The region holds a board (board.h), then the group (group.h).
 * All of these structs travel as bytes between processes of one executable.
 */
#ifndef SGD_RUN_H
#define SGD_RUN_H

#include "core/base/limits.h"
#include "core/base/status.h"

#include <manta.h>

#include <stdbool.h>

#define SGD_WORKER_TYPE "manta_sgd_worker"

enum { SGD_FOLDER_BYTES_MAX = 2048, SGD_TEXT_BYTES = 256 };

/* The options of a run that its workers need, checked, with the defaults in place. */
struct sgd_run {
    uint64_t seed;
    uint64_t number; /* of this driver among those of the run: fences the checkpoints of earlier ones */
    uint64_t every_steps;
    double   every_s;
    uint32_t keep;
    uint32_t vranks, micro_batch, epochs, log_steps;
    float    rate, momentum;
    uint32_t record_size, outputs;
    uint32_t hidden[MT_LAYERS_MAX - 1];
    char     folder[SGD_FOLDER_BYTES_MAX]; /* of the checkpoints, absolute; "": none */
};
static_assert(sizeof(struct sgd_run) <= MANTA_INLINE_MAX, "travels inline");

struct sgd_ready {
    int32_t pid;
    int64_t began_ns, loaded_ns; /* its creation, CLOCK_MONOTONIC */
};

struct sgd_outcome {
    int32_t  code, sys; /* OK: the run is done */
    uint32_t is_finisher; /* rank 0 of a run that is done: what follows is set */
    int32_t  save_code;   /* of the last checkpoint */
    uint64_t step;        /* the last completed one */
    float    loss, accuracy; /* over the test set */
    uint64_t weights;
    char     text[SGD_TEXT_BYTES]; /* of `code` or `save_code` */
};

/* A status as people read it: what failed, and the system's word for why. Returns `out`. */
const char *sgd_status_text(mt_status st, char out[SGD_TEXT_BYTES]);

#endif
