/* SPDX-License-Identifier: Apache-2.0
 *
 * manta_sgd.h - training jobs that survive their workers.
 *
 * A training job is data-parallel SGD over worker processes, each an actor of the calling driver. A worker that dies is
 * replaced and the training goes on: with the state of a survivor, else from the newest valid checkpoint, else from the
 * beginning. The result does not depend on how many workers there are nor on which of them die: on one type of CPU the
 * final weights are equal bit for bit.
 *
 * Linking this library sets OPENBLAS_NUM_THREADS=1 before main, for this process's children: each worker computes with
 * one thread, and a process that is to be forked may have no other.
 *
 * Conventions are those of manta.h: a struct that is all zero means the defaults, errors go to *e (which may be NULL),
 * the library prints nothing.
 */
#ifndef MANTA_SGD_H
#define MANTA_SGD_H

#include <manta.h>
#include <manta_collective.h>

#ifdef __cplusplus
extern "C" {
#endif

enum { MANTA_SGD_LAYERS_MAX = 15 };

/* How one death was overcome, phase after phase on the way to the next completed step; seconds. */
typedef struct manta_sgd_recovery {
    int64_t detected_ns; /* CLOCK_MONOTONIC: when the driver learned of the death */
    int64_t step;        /* the first that was completed afterwards */
    int     lost;        /* workers that had died */
    double  abort_s;     /* until all survivors were back from their collective */
    double  place_s;     /* until everybody had the new generation's orders */
    double  start_s;     /* until the replacement's process ran; 0: it was there already */
    double  load_s;      /* until it had data and model; 0: it had before */
    double  sync_s;      /* until all had joined, and the same state */
    double  step_s;      /* that step itself */
    double  total_s;     /* all of them together */
} manta_sgd_recovery;

enum {
    MANTA_SGD_WORKER,      /* a worker got a rank: rank, pid */
    MANTA_SGD_SPARE,       /* a spare is ready: pid */
    MANTA_SGD_LOST,        /* a worker died: rank (-1: a spare), pid */
    MANTA_SGD_BEGUN,       /* the state was begun or loaded: step */
    MANTA_SGD_SKIPPED,     /* a checkpoint was damaged and passed over: text says which and why */
    MANTA_SGD_STEP,        /* progress: step, and mean loss and accuracy of the training samples since the last line */
    MANTA_SGD_SAVED,       /* a checkpoint is on the disk: step */
    MANTA_SGD_SAVE_FAILED, /* the training goes on without it: step, text */
    MANTA_SGD_RECOVERED    /* the first step after a death is done: recovery */
};

/* What happened. Valid during the call. */
typedef struct manta_sgd_event {
    int         kind; /* may be one that this header does not know: ignore it */
    int         rank, pid;
    int64_t     step;
    double      loss, accuracy;
    const manta_sgd_recovery *recovery; /* of MANTA_SGD_RECOVERED, else NULL */
    const char *text;                   /* the event as one line for a log, without newline */
} manta_sgd_event;

typedef struct manta_sgd_opts {
    struct {
        int    workers; /* 0: 1; at most run.shards */
        int    spares;  /* processes that have loaded model and data and wait to replace one that dies */
        double cpus;    /* that each worker reserves; 0: none */
    } scaling;
    struct {
        const char *name;      /* 1 to 127 of A-Z a-z 0-9 . _ -; NULL: "train" */
        const char *storage;   /* folder for checkpoints, in storage/name; made if its parent is there. NULL: none */
        int         epochs;    /* 0: 1 */
        int         batch;     /* samples of one step, a multiple of shards; 0: 64 */
        int         shards;    /* into which each step is cut, for whatever number of workers; 0: 8 */
        int         log_steps; /* between two MANTA_SGD_STEP; 0: 50 */
    } run;
    struct {
        int max_failures; /* times that workers may die; 0: none; -1: without limit */
    } failure;
    struct {
        double  every_s;     /* both 0: 30 s; the end of a run is saved in any case */
        int64_t every_steps;
        int     keep; /* 0: 2 */
    } checkpoint;
    struct {
        double lr;       /* 0: 0.02; it falls to 0 as half a cosine */
        double momentum; /* 0: 0.9; negative: none */
    } optimizer;
    struct {
        int hidden[MANTA_SGD_LAYERS_MAX]; /* widths, ended by 0; none: one layer of 256 */
    } model;
    struct {
        const char *path; /* folder with the four files of Fashion-MNIST; NULL: that of Debian's dataset-fashion-mnist */
    } data;
    uint64_t seed;
    void (*on_event)(void *user, const manta_sgd_event *event); /* in the calling thread; NULL: nobody is told */
    void *user;
} manta_sgd_opts;

typedef struct manta_sgd_result {
    double   loss, accuracy; /* over the test set */
    int64_t  steps;          /* of the whole run, also those of earlier drivers */
    int64_t  first_step;     /* where this driver began: 0, or what the checkpoint had completed */
    uint64_t weights;        /* 64-bit XXH3 of the final parameters, float32 in their order */
    int      restarts;       /* workers that were replaced */
    double   slowest_s;      /* the longest recovery */
    double   wall_s;
    manta_sgd_recovery last; /* all 0 where nobody died */
} manta_sgd_result;

/* Trains a multilayer perceptron on Fashion-MNIST (or any set in the same files), and measures it on the test set. With
 * the defaults, 5 epochs give an accuracy of about 0.888.
 * A run that has checkpoints under its name goes on from the newest valid one. Blocks until the end; call it in a
 * driver, after manta_init. All workers run on the driver's node.
 *
 * EINVAL: an option out of range, or checkpoints of another model or seed; ENOENT: no data set (the message names the
 * package) or no folder for storage; ECORRUPT: a damaged data set; EEXIST: another driver trains under this name;
 * EWORKER_DIED: more deaths than max_failures, or workers that die as they start; ETIMEDOUT: workers that do not start;
 * ETASK: the loss is not finite; EDISK_FULL, ESYS: the training is done and *out_result set, but its last checkpoint
 * could not be written; ENOMEM, ESTORE_FULL, ECONN. */
MANTA_API manta_status manta_sgd_fit_mlp(const manta_sgd_opts *opts, manta_sgd_result *out_result, manta_error *e);

#ifdef __cplusplus
}
#endif
#endif
