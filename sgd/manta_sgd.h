/* SPDX-License-Identifier: Apache-2.0
 *
 * manta_sgd.h - training jobs that survive their workers.
 *
 * A training job is data-parallel SGD over worker processes, each an actor of the calling driver. A worker that dies or
 * hangs is replaced and the training goes on: with the state of a survivor, else from the newest valid checkpoint, else
 * from the beginning. The result does not depend on how many workers there are nor on which of them die: on one type of
 * CPU the final weights are equal bit for bit.
 *
 * What is trained is an operator: a few functions under a name, registered before main. Some are built in and are
 * asked for by name alone; see manta_sgd_fit.
 *
 * A worker computes with one thread, or with one for each CPU that it reserves (scaling.cpus): its devices, see below. The built-in
 * models need no reservation for that: two CPUs and one worker are two threads.
 *
 * Linking this library sets OPENBLAS_NUM_THREADS=1 before main, for this process's children: a matrix product is one device's,
 * and a process that is to be forked may have no thread but its first.
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

/* ---- operators ---------------------------------------------------------------------------------------------------- */

/* An operator on one device of a process: what its functions are given, and pass on. Used by the thread that they are called
 * in, until its teardown returns: with one that was kept longer, or never was one, the calls below change nothing, and give
 * EHANDLE, NULL, 0 or `otherwise`. */
typedef struct manta_sgd manta_sgd;

/* Devices. A worker that reserves n whole CPUs (scaling.cpus) has up to n devices: threads that each compute another part of a
 * step at the same time, with an instance of the operator of its own. So an operator needs no lock for what hangs on `self`; what
 * it keeps elsewhere in the process, all devices share.
 *
 *   setup           of each instance, one after the other, in the thread that makes the worker. All name the same
 *   init            of device 0's
 *   train_batch,    of device d's, always in the thread of device d, at the same time as the others'. Device 0's is the worker's
 *   validate_batch  own thread
 *   teardown        of each, one after the other, in the worker's own thread, when no other runs
 *
 * Parameters are there once: every instance's pointers lead to the same values, which nobody may write to but init; gradients
 * and metrics are the instance's own. Which device computes what is not told, and may change nothing: the weights are the same
 * to the bit for any number of devices. */

enum { MANTA_SGD_F32 = 1 }; /* element types of parameters */

enum { MANTA_SGD_METRICS_MAX = 16 };

/* Some records of the data. Valid during the call. */
typedef struct manta_sgd_batch {
    const void     *data;    /* `count` records, one after the other */
    const uint8_t  *labels;  /* one each; NULL: this data has none */
    int64_t         count;   /* at most manta_sgd_batch_max */
    int64_t         record;  /* bytes of one */
    const uint64_t *numbers; /* which records of the data they are */
    uint64_t        sample;  /* the first one's place in the run. Random numbers that are keyed by (seed, place of the sample)
                                are the same for any number of workers and after any death */
    uint64_t        reserved[4];
} manta_sgd_batch;

/* All functions return MANTA_OK or the error that ends the run: what a call below has given, or manta_sgd_fail. With a
 * manta_sgd that is NULL the calls below change nothing, and give EINVAL, NULL, 0 or `otherwise`.
 * The same calls with the same parameters and records must give the same bits in each process. */
typedef struct manta_sgd_operator {
    const char *name; /* 1 to 127 bytes */
    /* Makes *self (may stay NULL) and names parameters, data and metrics. It runs once for each device of each worker, and once
     * in the driver, to learn these names: where manta_sgd_is_driver says so, leave GPUs alone. */
    manta_status (*setup)(manta_sgd *t, void **self);
    /* Gives the parameters their first values; they are 0 before. Called in one worker, where a run begins. NULL: nothing. */
    manta_status (*init)(manta_sgd *t, void *self);
    /* Reports the batch's mean "loss" (manta_sgd_metric) and adds the gradient of this mean to the gradients, which are 0
     * before. */
    manta_status (*train_batch)(manta_sgd *t, void *self, const manta_sgd_batch *b);
    /* Reports the batch's metrics. NULL: there is no data to validate with. */
    manta_status (*validate_batch)(manta_sgd *t, void *self, const manta_sgd_batch *b);
    /* Ends what setup has made, except by manta_sgd_alloc. Not called for a process that dies. */
    void (*teardown)(manta_sgd *t, void *self);
    bool     sets_gradients;     /* train_batch writes every element, so they need not be cleared before */
    int      validate_batch_max; /* records in a call of validate_batch; 0: as many as in train_batch */
    uint64_t reserved[8];
    uint64_t library[4]; /* the library's, from the registration on; 0 before */
} manta_sgd_operator;

/* MANTA_SGD_OPERATOR(mymodel, .setup = setup, .train_batch = batch); outside of functions. */
#define MANTA_SGD_OPERATOR(tag, ...) \
    static manta_sgd_operator manta_sgd_operator_##tag = {.name = #tag, __VA_ARGS__}; \
    MANTA_REGISTER_BEFORE_MAIN(operator_##tag) \
    { \
        manta_sgd_operator_register(&manta_sgd_operator_##tag); \
    } \
    struct manta_sgd_operator /* takes the semicolon */

/* Before main, or before manta_init in every process. Of two with one name the later one counts. Kept for ever. */
MANTA_API void manta_sgd_operator_register(manta_sgd_operator *op);

/* Zeroed memory that lives as long as the operator in this process; NULL: there is none. */
MANTA_API void *manta_sgd_alloc(manta_sgd *t, size_t size);

/* The value of "NAME=value" among opts.config; the default where it is not there. One that can't be read as a number fails
 * the setup, with its name, whatever setup returns. A string lives as long as the operator. */
MANTA_API int64_t     manta_sgd_conf_i64(manta_sgd *t, const char *name, int64_t otherwise);
MANTA_API double      manta_sgd_conf_f64(manta_sgd *t, const char *name, double otherwise);
MANTA_API const char *manta_sgd_conf_str(manta_sgd *t, const char *name, const char *otherwise);

/* In setup: a tensor that is trained. Named once: it is broadcast to workers, its gradient summed over them, saved in
 * checkpoints under this name and loaded again, whatever their number. *value and *gradient are set before each call of the
 * other functions (*gradient: of train_batch), so `value` and `gradient` must stay where they are. `type` is MANTA_SGD_F32.
 * EINVAL: name (1 to 127 of A-Z a-z 0-9 . _ - /) or shape; EEXIST; EAGAIN: too many; ENOMEM. */
MANTA_API manta_status manta_sgd_param(manta_sgd *t, const char *name, int type, int ndim, const int64_t *shape, float **value,
                                       float **gradient);

enum { MANTA_SGD_RECORDS, MANTA_SGD_IDX, MANTA_SGD_TOKENS, MANTA_SGD_CSV, MANTA_SGD_NPY };

typedef struct manta_sgd_data_opts {
    int format; /* MANTA_SGD_RECORDS: a file of records of one size. MANTA_SGD_IDX: a folder with the four files of MNIST; NULL as
                         path: Fashion-MNIST where Debian's package dataset-fashion-mnist puts it. MANTA_SGD_TOKENS: a text (each
                         byte a token) or a token file of llm.c, the last tenth of it to validate with; NULL as path: the text
                         of Debian's package bible-kjv-text. A record is a window of tokens, and the one after it.
                         MANTA_SGD_CSV: a line a record, of numbers with commas between them, as float32; a first line of words is
                         a head with the columns' names. MANTA_SGD_NPY: an array of NumPy, little-endian, C order; a record is
                         what stands at one place of its first axis */
    int64_t     record;     /* MANTA_SGD_RECORDS: bytes of one; MANTA_SGD_TOKENS: tokens of a window; may not be 0 */
    int64_t     skip;       /* MANTA_SGD_RECORDS: bytes before the first one */
    bool        shuffle;    /* each epoch in an order of its own, by the run's seed; else as they stand there */
    bool        validate;   /* it is what validate_batch gets */
    int         label;      /* MANTA_SGD_CSV: the column with the label, counted from 1; -1: the last; 0: there is none */
    const char *labels;     /* MANTA_SGD_NPY: the array of the labels, whole numbers; NULL: there are none */
    int         classes;    /* MANTA_SGD_CSV, MANTA_SGD_NPY: labels are less, or the data is damaged; 0: less than 256 */
    const char *label_name; /* MANTA_SGD_CSV: in place of `label`: the column's name, as the head has it, or its number as text */
    uint64_t    reserved[8];
} manta_sgd_data_opts;

/* In setup: names the data, once to train with and once at most to validate with. A file of records or an array is mapped, not
 * read: it may be larger than memory and must not change; a thread of the worker's own reads ahead. A node that has no such file
 * gets it from the driver's, once. ENOENT; ECORRUPT: not whole records, a damaged file, a label out of range; EUNSUPPORTED;
 * EINVAL; ENOMEM; ESYS. The message says which line and column, or which record and byte, and where `path`, `labels` or
 * `label_name` came from manta_sgd_conf_str, under which name. */
MANTA_API manta_status manta_sgd_data(manta_sgd *t, const char *path, const manta_sgd_data_opts *opts);

typedef struct manta_sgd_data_shape {
    int64_t  count, record; /* records, and bytes of one */
    int      classes;       /* one more than the largest label; 0: no labels */
    char     kind;          /* of a record's elements, as NumPy calls them: 'u', 'i', 'f' or 'b'; 0: nobody says */
    int      width;         /* bytes of an element */
    uint64_t reserved[4];
} manta_sgd_data_shape;
/* What was named; false: nothing. */
MANTA_API bool manta_sgd_data_info(const manta_sgd *t, bool validate, manta_sgd_data_shape *out);

/* In train_batch and validate_batch: the mean of a metric over this batch. "loss" and "accuracy" are known; others are made
 * known by the same call in setup, where the value does not count. What is told is the mean over all samples of all
 * workers. EINVAL: a name that was not made known; EAGAIN: more than MANTA_SGD_METRICS_MAX. */
MANTA_API manta_status manta_sgd_metric(manta_sgd *t, const char *name, double value);

/* In train_batch: elements first .. first + count - 1 (0: to the end) of a parameter's gradient have their last value in this
 * batch. `gradient` is what manta_sgd_param was given. Between nodes the sum of what is ready goes on beside the rest of the
 * work; who says nothing loses only that. Each batch must say the same, in the same order. EINVAL: no such parameter or element. */
MANTA_API manta_status manta_sgd_ready(manta_sgd *t, float *const *gradient, int64_t first, int64_t count);

/* An error of the operator's own: returns `code` (ETASK where it is 0) for it to return; the text reaches whoever called
 * manta_sgd_fit. */
MANTA_API manta_status manta_sgd_fail(manta_sgd *t, manta_status code, const char *format, ...)
    __attribute__((format(printf, 3, 4)));

/* In setup: with more CPUs than this the worker has only so many devices, as where the arithmetic runs on a GPU, or in threads of
 * the operator's own. In the driver's call as in the workers'. Less than 1 counts as 1. */
MANTA_API void manta_sgd_devices_max(manta_sgd *t, int most);
/* In setup: how many GPUs each worker reserves where scaling.gpus is 0; whole ones, or a part of one. In the driver's call. */
MANTA_API void manta_sgd_gpus(manta_sgd *t, double each);
/* Which device of its worker this instance is for, from 0, and how many there are. In the driver: 0, and how many there would be
 * at most. */
MANTA_API int manta_sgd_device(const manta_sgd *t);
MANTA_API int manta_sgd_device_count(const manta_sgd *t);

MANTA_API bool     manta_sgd_is_driver(const manta_sgd *t);
MANTA_API uint64_t manta_sgd_seed(const manta_sgd *t);      /* opts.seed */
MANTA_API int64_t  manta_sgd_batch_max(const manta_sgd *t); /* most records in one call */
MANTA_API int64_t  manta_sgd_step(const manta_sgd *t);      /* completed ones */

/* ---- a run ---------------------------------------------------------------------------------------------------------- */

/* How one death was overcome, phase after phase on the way to the next completed step; seconds. */
typedef struct manta_sgd_recovery {
    int64_t  detected_ns; /* CLOCK_MONOTONIC: when the driver learned of the death */
    int64_t  step;        /* the first that was completed afterwards */
    int      lost;        /* workers that had died */
    double   abort_s;     /* until all survivors were back from their collective */
    double   start_s;     /* until the replacement's process ran; 0: it was there already, or came later */
    double   load_s;      /* until it had data and model; 0: as before */
    double   place_s;     /* until everybody had the new generation's orders */
    double   sync_s;      /* until all had joined, and the same state */
    double   step_s;      /* that step itself */
    double   total_s;     /* all of them together */
    int64_t  steps_lost;  /* completed steps that have to be made again, because no worker had the state any more */
    uint64_t reserved[8];
} manta_sgd_recovery;

enum {
    MANTA_SGD_WORKER,      /* a worker got a rank: rank, pid */
    MANTA_SGD_SPARE,       /* a spare is ready: pid */
    MANTA_SGD_LOST,        /* a worker died: rank (-1: a spare), pid; text with what it printed last */
    MANTA_SGD_BEGUN,       /* the state was begun or loaded: step */
    MANTA_SGD_SKIPPED,     /* a checkpoint was damaged and passed over: text says which and why */
    MANTA_SGD_STEP,        /* report of progress: step, and metrics of the training samples since the last report */
    MANTA_SGD_SAVED,       /* a checkpoint is on the disk: step */
    MANTA_SGD_SAVE_FAILED, /* the training goes on without it: step, text */
    MANTA_SGD_RECOVERED,   /* the first step after a death is done: recovery */
    MANTA_SGD_VALIDATED,   /* an epoch has ended: step, metrics of the data to validate with (without: of the epoch) */
    MANTA_SGD_RESIZED,     /* from now on there are `workers` */
    MANTA_SGD_STRAGGLER,   /* a worker takes much longer for its share than the others: rank, pid */
    MANTA_SGD_HUNG,        /* a worker made no progress and is killed; MANTA_SGD_LOST follows: rank, pid */
    MANTA_SGD_LOG_FAILED,  /* the timeline or the tracking can't be written any more, and ends; the run goes on: text */
    MANTA_SGD_NODE_FAILED, /* a node has no workers of this run, for now or at all, and others have: text says why; once a node */
    MANTA_SGD_WAITING      /* for 2 s there have been fewer workers than the run needs: text says how many there are */
};

/* What happened. Valid during the call. */
typedef struct manta_sgd_event {
    int                       kind; /* may be one that this header does not know: ignore it */
    int                       rank, pid, workers;
    int64_t                   step, steps; /* done, of how many */
    double                    loss, accuracy;
    double                    samples_per_s; /* of MANTA_SGD_STEP */
    double                    data_wait; /* of MANTA_SGD_STEP: the share of this time in which rank 0 waited for records, 0 to 1 */
    const char *const        *names;     /* of all metrics; "loss" and "accuracy" first */
    const double             *values;
    int                       metrics;
    const manta_sgd_recovery *recovery; /* of MANTA_SGD_RECOVERED, else NULL */
    const char               *text;     /* the event as one line for a log, without newline */
    double                    lr;       /* of MANTA_SGD_STEP: the rate of that step */
    uint64_t                  reserved[16];
} manta_sgd_event;

/* A tracking service, as a run's driver sees it. Called in the thread that follows the run, and may be slow only at the run's
 * cost of telling. Each returns 0; anything else ends the tracking, MANTA_SGD_LOG_FAILED says so, and the run goes on. NULL: it is
 * not told. Pointers are valid during the call. */
typedef struct manta_sgd_tracker {
    /* The run goes on behind step `from`; 0: it begins. Again whenever it goes back to an older state, or its driver is another:
     * what was told of later steps counts no more, and comes again. */
    int (*begin)(void *user, const char *run, int64_t from);
    /* After the first begin: the options, with the defaults in place of what is 0, under their names in manta_sgd_opts, and
     * "operator"; pairs of config as config.NAME. */
    int (*params)(void *user, int count, const char *const *names, const char *const *values);
    /* Of training samples as train/NAME, of a validation as validate/NAME; train/lr, train/samples_per_s, train/data_wait,
     * recovery/seconds. */
    int (*metrics)(void *user, int64_t step, int count, const char *const *names, const double *values);
    /* What the run has made, an absolute path: "checkpoint" with each one that is saved (the older ones go, by checkpoint.keep),
     * "timeline" at the end. */
    int (*artifact)(void *user, const char *name, const char *path);
    /* "finished", "stopped" (before its last epoch), or "failed", with what *e says. */
    int (*end)(void *user, const char *status, int64_t step, const char *error);
    uint64_t reserved[8];
} manta_sgd_tracker;

enum { MANTA_SGD_MOMENTUM, MANTA_SGD_ADAMW };                           /* optimizer.kind */
enum { MANTA_SGD_LR_COSINE, MANTA_SGD_LR_CONSTANT, MANTA_SGD_LR_STEP }; /* optimizer.schedule */

/* The four configurations of Ray Train, under their names, and what else a run has. */
typedef struct manta_sgd_opts {
    struct {
        int      min_workers; /* with fewer the run waits, else it goes on with what there is; 0: max_workers */
        int      max_workers; /* 0: 1 (or min_workers); at most run.shards */
        int      spares;      /* processes that have loaded model and data and wait to replace one that dies */
        double   cpus;        /* that each worker reserves, and computes with: a thread for each whole one, if it has so many parts
                               of a step (see "Devices"; 256 at most). 0: none are reserved; a model of ours on the CPU then
                               has a thread for each CPU that the driver's node has for it, any other operator one */
        double   gpus;        /* that each worker reserves; its CUDA_VISIBLE_DEVICES names them. 0.5: two workers share one. 0:
                               what the operator's setup says (manta_sgd_gpus; the built-in ones: one where config device is
                               "cuda", else none); negative: none, and all workers of a node see the same devices */
        int      nodes;       /* over which the workers are spread, the driver's first; 0: 1. Fewer will do, down to min_nodes.
                               A node that dies takes its workers along, and the run goes on with the others' */
        int64_t  min_nodes;   /* with workers on fewer nodes the run waits, as with fewer than min_workers; 0: 1 */
        double   wait_s;      /* so long it waits for its fewest in all while nodes are started for it, or may be (manta up); 0:
                               3600. Where none can ever come it fails at once; where nobody starts any, after 60 s */
        uint64_t reserved[6];
    } scaling;
    struct {
        const char *name;      /* 1 to 127 of A-Z a-z 0-9 . _ -; NULL: "train" */
        const char *storage;   /* folder for checkpoints, in storage/name; made if its parent is there. NULL: none. Where other
                                  machines have workers and don't see it, one keeps a second copy in its own of this path; of a
                                  state in shards (optimizer.zero) each keeps some, so that each shard stands on two */
        int         epochs;    /* 0: 1 */
        int         batch;     /* samples of one step, a multiple of shards; 0: 64 */
        int         shards;    /* into which each step is cut, for whatever number of workers; 0: a power of two, 2 at least, that
                                  is enough for all CPUs of max_workers. Small parts cost time; other ones give other bits */
        int         log_steps; /* between two MANTA_SGD_STEP; 0: 50 */
        int         validate_epochs; /* from one validation to the next; 0: 1; the end is validated in any case */
        int         patience;        /* stop after so many validations in a row without a better score; 0: never */
        double      min_delta;       /* by how much a score must be better to count */
        const char *timeline; /* a file that shows in Perfetto or chrome://tracing what each rank did when: steps, waiting for
                                  data, work, sums, saves, and recoveries by phase. A later driver of the run goes on in it.
                                  NULL: none */
        const char *tracking; /* a folder, made if its parent is there, for a folder of the run's name with what a
                                  manta_sgd_tracker is told: params.json, metrics.jsonl (a line a report; a step that is repeated
                                  stands there once), artifacts/ (links), status.json. Goes on with the run. NULL: none */
        bool        detached; /* the run outlives this driver: see manta_sgd_fit */
        uint64_t    reserved[8];
    } run;
    struct {
        int      max_failures; /* times that workers may die; 0: none; -1: without limit */
        double   backoff_s;    /* to wait after a second failure without a step in between, doubled each time; 0: 0.1 */
        double   hang_after;   /* seconds for which a worker may do nothing before it is replaced: no piece of work done, and in the
                              operator's functions no CPU used and no disk waited for. Before a worker's first step it has a
                              minute at least. 0: by the run's own steps, 5 of the longest, 10 s at least (one that is stopped
                              by a signal: 0.9 s), and twice as long after each time at the same step; negative: for ever */
        uint64_t reserved[8];
    } failure;
    struct {
        double      every_s;         /* both 0: 30 s; the end of a run is saved in any case */
        int64_t     every_steps;     /* each of them: where the disk is slower than that, the training waits for it */
        int         keep;            /* newest ones; 0: 2 */
        int         keep_best;       /* beside these, those with the best score; one is then saved at each validation */
        const char *score;           /* the metric of the last validation by which checkpoints are compared; NULL: "loss" */
        bool        score_max;       /* more of it is better */
        bool        restart_damaged; /* a run of whose checkpoints none is whole begins anew; else that is ECORRUPT */
        bool        other_data;      /* a run goes on with other data than it was begun with; else that is EINVAL */
        uint64_t    reserved[8];
    } checkpoint;
    struct {
        int      kind;         /* MANTA_SGD_MOMENTUM, or MANTA_SGD_ADAMW */
        double   lr;           /* 0: 0.02; ADAMW: 0.001 */
        double   momentum;     /* 0: 0.9; negative: none */
        double   beta1, beta2; /* ADAMW; 0: 0.9 and 0.999 */
        double   epsilon;      /* ADAMW; 0: 1e-8 */
        double   weight_decay; /* 0: none, ADAMW: 0.01; negative: none */
        int      schedule;     /* MANTA_SGD_LR_COSINE: from lr to 0 as half a cosine; MANTA_SGD_LR_CONSTANT;
                                MANTA_SGD_LR_STEP: times step_gamma every step_epochs */
        double   step_gamma;   /* 0: 0.1 */
        int      step_epochs;  /* 0: 1 */
        int64_t  warmup_steps; /* in which it grows to lr, before the schedule begins */
        int      lr_batch;     /* linear scaling: lr is meant for this batch, and used times run.batch / lr_batch; 0: as it is */
        double   clip_norm;    /* a longer gradient is cut to this length; 0: none is */
        double   max_norm;     /* a longer gradient, before it is cut, ends the run; 0: one that is not finite does */
        int      zero;         /* 1: ZeRO's first stage: each of n workers keeps the optimizer's state for a n-th of the parameters,
                                and updates these; the weights are the same to the bit. A worker that dies takes its shard along:
                                the run goes back to the newest checkpoint. One whose node is drained hands it over. 0: each keeps
                                all of it */
        bool     zero_backup;  /* with zero: each shard is kept by two workers, half of the group apart, so that nothing is lost as
                                long as one of the two lives */
        uint64_t reserved[8];
    } optimizer;
    const char *const *config;        /* "NAME=value", ended by NULL: what operators ask for; NULL: nothing */
    bool               config_strict; /* a name that setup does not ask for is an error */
    uint64_t           seed;
    /* Told what happens, in the calling thread; anything but 0 stops the run after the present step, as its end. */
    int (*on_event)(void *user, const manta_sgd_event *event);
    void *user;
    /* Once this is not 0 the run ends after its present step, validates nothing, and leaves a checkpoint: the same call goes on
     * from there. For a handler of SIGTERM to set. Not looked at with run.detached: such a run outlives its driver. NULL: none. */
    const volatile int      *pause;
    const manta_sgd_tracker *tracker; /* NULL: none; of a detached run, it is told where the run is followed by manta_sgd_fit */
    void                    *tracker_user;
    uint64_t                 reserved[16];
} manta_sgd_opts;

enum { MANTA_SGD_PAUSED = 2 };

typedef struct manta_sgd_result {
    double             loss, accuracy;  /* of the last validation; without data for it: of the last epoch's training samples */
    int64_t            steps;           /* of the whole run, also those of earlier drivers */
    int64_t            first_step;      /* where this driver began: 0, or what the checkpoint had completed */
    uint64_t           weights;         /* 64-bit XXH3 of the final parameters, float32 in their order */
    int                restarts;        /* workers that died, or were killed because they hung */
    int                resizes;         /* times that the number of workers changed */
    int                stopped;         /* before its last epoch: 1 by patience or on_event, MANTA_SGD_PAUSED by opts.pause */
    int64_t            steps_lost;      /* that were made again after deaths, in all */
    int64_t            optimizer_bytes; /* of the optimizer's state, in the worker that has most of it at the end */
    double             slowest_s;       /* the longest recovery */
    double             wall_s;
    manta_sgd_recovery last;       /* all 0 where nobody died */
    int64_t            node_looks; /* times that the cluster's nodes were asked for: at the beginning, and after news of them */
    uint64_t           reserved[15];
} manta_sgd_result;

/* Whether such a run could begin, as far as this machine can tell without a cluster: options, operator, its configuration and its
 * data. Nothing is written. Blocks while data is read. Any thread; no manta_init. Errors as of manta_sgd_fit. */
MANTA_API manta_status manta_sgd_check(const char *operator_name, const manta_sgd_opts *opts, manta_error *e);

/* Trains the operator of this name. A run that has checkpoints under its name goes on from the newest valid one. Blocks until
 * the end; call it in a driver, after manta_init. The workers run on the driver's node unless scaling.nodes says more.
 *
 * With run.detached the run is driven by a detached actor "sgd." + run.name of the cluster (manta.h says what these are) and
 * goes on when this driver dies; the call follows it until its end. Called again, by whatever driver of this program, with
 * the same operator, name and options, it follows the run that is there, and a driver that comes after the end gets its
 * result; the first to have it ends the actor. EEXIST: a run of this name is there with another option, which the message
 * names. The actor's process may die: it is made again, on another node if need be, and goes on from the newest checkpoint.
 * A private cluster ends with its driver, and all its runs. Relative paths in `config` are seen from where the cluster has
 * started, run.storage from here; options take 3 KiB in all.
 *
 * Built in: "mlp", a multilayer perceptron that classifies records of numbers; config: data, hidden (widths: "256" or
 * "256,128"), classes. With the defaults, 5 epochs of it give an accuracy of about 0.888.
 * "cnn", a convolutional network (conv 32 and 64 of 3x3, max 2x2, a dense layer, the classes) for square pictures; config:
 * data and classes as for mlp, dense (128), dropout (0; rate before each of the last two layers). One epoch gives 0.887.
 * Both take as data the folder with the four files of MNIST (default: Fashion-MNIST of Debian's package), a CSV file with label
 * (the column's name or number), or an array of NumPy with labels (the path of their array); config: format ("idx", "csv", "npy";
 * default: by the end of the name), validate and validate_labels (the files to validate with; default: none), mean and deviation
 * (the network sees (value - mean) / deviation; default: of bytes Fashion-MNIST's, others as they stand). Labels are whole
 * numbers from 0 on, at most 256 of them.
 * "gpt2", a language model; config: data (a text or token file; default the text of Debian's package bible-kjv-text), context,
 * layers, width, heads, vocabulary. All of them: device ("cpu"; "cuda": on a GPU that each worker reserves; "cuda:N": on that
 * NVIDIA GPU of those that CUDA_VISIBLE_DEVICES leaves, nothing reserved unless scaling.gpus says so; EUNSUPPORTED says what is
 * missing where there is none), precision ("float32";
 * "tf32": products on a GPU's tensor cores; "bfloat16" or "bf16": factors of products rounded to that, sums of them, parameters,
 * optimizer and the sum over workers in float32; on a GPU gpt2 only).
 *
 * EINVAL: an option out of range, no such operator, or checkpoints of another model, seed or data (its size, or one of 64
 * records that are compared); ENOENT: no data, or no folder for storage; ECORRUPT: damaged data, or no checkpoint that is
 * whole; ECANCELLED: opts.pause, while no worker had the state: the newest checkpoint stands; EEXIST: another driver trains
 * under this name; EWORKER_DIED: more deaths than max_failures, or workers that die as they start; ETIMEDOUT: workers that do
 * not start; EUNSCHEDULABLE: a node, or each of those that there are, has fewer GPUs than a worker is to reserve; ETASK: loss
 * or gradient is not finite (which step and rank, the message says), or what the operator gave; EDISK_FULL, ESYS: the training
 * is done and *out_result set, but its last checkpoint could not be written; ENOMEM, ESTORE_FULL, ECONN. */
MANTA_API manta_status manta_sgd_fit(const char *name, const manta_sgd_opts *opts, manta_sgd_result *out_result, manta_error *e);

/* Follows the detached run of this name, from its first event that is still there, until its end; the rest is as for
 * manta_sgd_fit. ENOENT: there is none of this name (or another driver has had its result). */
MANTA_API manta_status manta_sgd_attach(const char *run_name, int (*on_event)(void *user, const manta_sgd_event *event), void *user,
                                        manta_sgd_result *out_result, manta_error *e);

#ifdef __cplusplus
}
#endif
#endif
