/* SPDX-License-Identifier: Apache-2.0
 *
 * run.h - what the driver of a training run and its workers say to each other.
 *
 *   actor "manta_sgd_worker" (run, operator's name, its config, lent data, region, its place, its node's address)
 *                                               loads everything; holds no rank
 *       ready ()                                -> sgd_ready
 *       connect (sgd_order)                     -> 0 or a code: makes ready for these orders, beside a `train` of others
 *       train (sgd_order)                       -> sgd_outcome: joins, gets the state, steps until the run is done or
 *                                                  the generation is over; may wait behind the one that it follows (next.h)
 *
 * Lent data is one object (operator.h). The region holds a board (board.h), then the group (group.h).
 * All of these structs travel as bytes between processes of one executable.
 */
#ifndef SGD_RUN_H
#define SGD_RUN_H

#include "core/base/limits/raylet.h"
#include "core/base/limits/text.h"
#include "core/base/limits/train.h"
#include "core/base/status.h"

#include "sgd/save/checkpoint.h"
#include "sgd/sum/group.h"
#include "sgd/model/optimizer.h"
#include "sgd/ground/text.h"
#include "sgd/ground/trace.h"

#include <manta.h>

#include <stdbool.h>

#define SGD_WORKER_TYPE "manta_sgd_worker"

enum { SGD_FOLDER_BYTES_MAX = 2048, SGD_CPU_BYTES = 48 };

/* The options of a run that its workers need, checked, with the defaults in place. */
struct sgd_run {
    uint64_t              seed;
    uint64_t              number; /* of this driver among those of the run: fences the checkpoints of earlier ones */
    uint64_t              every_steps;
    double                every_s;
    struct sgd_keep       keep;
    bool                  restart_damaged, other_data; /* as in manta_sgd_opts.checkpoint */
    struct sgd_optimizer  optimizer;
    uint32_t              vranks, micro_batch, epochs, log_steps, validate_epochs;
    uint32_t              score, patience;
    bool                  score_max;
    bool                  zero, zero_backup; /* the optimizer's state is sharded (zero.h) */
    bool                  is_wide;           /* workers may be on several nodes; then this is their group's name */
    uint64_t              group;
    bool                  has_files; /* that a node may lack: files.h */
    double                min_delta;
    uint32_t              workers_max;                  /* that may train together */
    uint32_t              devices;                      /* of each worker: instances of the operator, each with a thread */
    struct sgd_trace_plan trace;                        /* of the workers whose spans are kept in the region */
    char                  folder[SGD_FOLDER_BYTES_MAX]; /* of the checkpoints, absolute; "": none */
};
static_assert(sizeof(struct sgd_run) <= MANTA_INLINE_MAX, "travels inline");

struct sgd_ready {
    int32_t        pid;
    uint32_t       reserved;
    struct coll_at at;                  /* of its door, where workers may be on several nodes */
    char           cpu[SGD_CPU_BYTES];  /* what the bits of its results depend on; "": they come of a GPU */
    int64_t        began_ns, loaded_ns; /* its creation, CLOCK_MONOTONIC */
};

struct sgd_order {
    uint32_t             generation, rank, members;
    uint32_t             is_wide; /* over several nodes: `net` is set */
    uint32_t             after;   /* begun when this generation was left after a step; 0: at once. Its ranks on this node: */
    uint32_t             after_first, after_last; /* from, to before; equal: none */
    struct sgd_group_net net;                     /* its secret is of this generation alone, and not to be printed */
};

struct sgd_outcome {
    int32_t  code, sys;      /* OK: the run is done */
    uint32_t is_culprit;     /* `code` is of this worker's own making */
    uint32_t has_left;       /* after a step, as all were asked to */
    uint32_t is_finisher;    /* rank 0 of a run that is done: what follows is set */
    uint32_t stopped;        /* as in manta_sgd_result */
    int32_t  save_code;      /* of the last checkpoint */
    uint64_t step;           /* the last completed one */
    float    loss, accuracy; /* of the last close */
    uint64_t weights;
    uint64_t optimizer_bytes;      /* of the optimizer's state in this worker */
    char     text[SGD_TEXT_BYTES]; /* of `code` or `save_code` */
};

#endif
